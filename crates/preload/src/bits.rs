//! What is noted of each descriptor of this process: a bit for each note.
//!
//! Invariant: the bits of one descriptor lie on one cache line, for a close asks for all of them. A page of which nothing is
//! noted is not touched: most processes note nothing.
//! Not here: what a note means.
use crate::fdtable::FDS;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Kinds of notes.
const KINDS: usize = 8;

/// The notes of 64 descriptors: a word for each kind.
#[repr(C, align(64))]
struct Line([AtomicU64; KINDS]);

static LINES: [Line; FDS / 64] = [const { Line([const { AtomicU64::new(0) }; KINDS]) }; FDS / 64];
/// A bit for each kind of which there was ever a note.
#[unsafe(link_section = ".data")]
static ANY: AtomicU32 = AtomicU32::new(0);
/// Lines below it may have a note.
#[unsafe(link_section = ".data")]
static USED: AtomicUsize = AtomicUsize::new(0);

fn used() -> &'static [Line] {
    &LINES[..USED.load(Relaxed)]
}

fn walk(bits: impl Fn(&Line) -> u64, does: impl Fn(usize)) {
    for (k, line) in used().iter().enumerate() {
        let mut left = bits(line);
        while left != 0 {
            does(k * 64 + left.trailing_zeros() as usize);
            left &= left - 1;
        }
    }
}

/// Each descriptor that has any note.
pub fn each(does: impl Fn(usize)) {
    walk(
        |line| line.0.iter().fold(0, |all, w| all | w.load(Relaxed)),
        does,
    );
}

/// Whether `fd` has any note.
pub fn any(fd: usize) -> bool {
    let fd = fd as u32 as usize;
    let noted = |line: &Line| line.0.iter().fold(0, |all, w| all | w.load(Relaxed));
    used()
        .get(fd / 64)
        .is_some_and(|line| noted(line) & 1 << (fd % 64) != 0)
}

/// One kind of note: the descriptors that have it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Bits {
    /// Of cold.rs, destinations.rs, udp.rs, unmatched.rs and watched.rs.
    Cold,
    Sends,
    Udp,
    Alone,
    Options,
    Listens,
    ListensTcp,
    Watched,
}

impl Bits {
    fn word(self, fd: usize) -> Option<(&'static AtomicU64, u64)> {
        let fd = fd as u32 as usize;
        Some((&LINES.get(fd / 64)?.0[self as usize], 1 << (fd % 64)))
    }
    pub fn add(self, fd: usize) {
        if let Some((word, bit)) = self.word(fd) {
            let line = fd as u32 as usize / 64;
            if USED.load(Relaxed) <= line {
                USED.fetch_max(line + 1, Relaxed);
            }
            if !self.any() {
                ANY.fetch_or(1 << self as u32, Relaxed);
            }
            word.fetch_or(bit, Relaxed);
        }
    }
    /// Whether there was ever one.
    pub fn any(self) -> bool {
        ANY.load(Relaxed) & 1 << self as u32 != 0
    }
    pub fn has(self, fd: usize) -> bool {
        self.any()
            && self
                .word(fd)
                .is_some_and(|(w, bit)| w.load(Relaxed) & bit != 0)
    }
    /// Takes it away; whether it was there.
    pub fn take(self, fd: usize) -> bool {
        let has = self.has(fd);
        if has && let Some((word, bit)) = self.word(fd) {
            word.fetch_and(!bit, Relaxed);
        }
        has
    }
    pub fn each(self, does: impl Fn(usize)) {
        if self.any() {
            walk(|line| line.0[self as usize].load(Relaxed), does);
        }
    }
    pub fn clear(self) {
        let bit = 1 << self as u32;
        if ANY.fetch_and(!bit, Relaxed) & bit != 0 {
            used()
                .iter()
                .for_each(|l| l.0[self as usize].store(0, Relaxed));
        }
    }
}
