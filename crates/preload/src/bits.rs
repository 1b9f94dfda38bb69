//! A bit for each descriptor of this process.
//!
//! Invariant: a page of a table that nobody has added to is not touched: most processes have none of what these tell.
//! Not here: what a bit means.
use crate::fdtable::FDS;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A bit for each descriptor.
pub struct Bits {
    any: AtomicBool,
    words: [AtomicU64; FDS / 64],
}

impl Bits {
    pub const fn new() -> Bits {
        Bits {
            any: AtomicBool::new(false),
            words: [const { AtomicU64::new(0) }; FDS / 64],
        }
    }
    fn word(&self, fd: usize) -> Option<(&AtomicU64, u64)> {
        let fd = fd as u32 as usize;
        Some((self.words.get(fd / 64)?, 1 << (fd % 64)))
    }
    pub fn add(&self, fd: usize) {
        if let Some((word, bit)) = self.word(fd) {
            self.any.store(true, Relaxed);
            word.fetch_or(bit, Relaxed);
        }
    }
    /// Whether there was ever one.
    pub fn any(&self) -> bool {
        self.any.load(Relaxed)
    }
    pub fn has(&self, fd: usize) -> bool {
        self.any.load(Relaxed)
            && self
                .word(fd)
                .is_some_and(|(w, bit)| w.load(Relaxed) & bit != 0)
    }
    /// Takes it away; whether it was there.
    pub fn take(&self, fd: usize) -> bool {
        let has = self.has(fd);
        if has && let Some((word, bit)) = self.word(fd) {
            word.fetch_and(!bit, Relaxed);
        }
        has
    }
    pub fn each(&self, does: impl Fn(usize)) {
        if !self.any.load(Relaxed) {
            return;
        }
        for (k, word) in self.words.iter().enumerate() {
            let mut left = word.load(Relaxed);
            while left != 0 {
                does(k * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
    pub fn clear(&self) {
        if self.any.swap(false, Relaxed) {
            self.words.iter().for_each(|w| w.store(0, Relaxed));
        }
    }
}
