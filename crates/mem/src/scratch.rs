//! A set of numbers in anonymous memory, for those who walk the whole domain.
//!
//! Invariant: the memory is this value's and goes with it; no heap is used (the preload library has none).
//! unsafe: maps, reaches into and unmaps its own pages.
use byway_sys::errno::failed;
use byway_sys::syscall::{call3, call6, nr};

/// The set.
pub struct Scratch {
    at: *mut u64,
    words: usize,
}

impl Scratch {
    /// An empty set of numbers below `n`; `None` without memory.
    pub fn new(n: usize) -> Option<Scratch> {
        let words = n.div_ceil(64).max(1);
        const PRIVATE_ANONYMOUS: usize = 0x22;
        // SAFETY: a new mapping.
        let p = unsafe { call6(nr::MMAP, 0, words * 8, 3, PRIVATE_ANONYMOUS, usize::MAX, 0) };
        (!failed(p)).then_some(Scratch {
            at: p as *mut u64,
            words,
        })
    }
    /// Adds `i`; false if it is in already, or no number of this set.
    pub fn add(&mut self, i: usize) -> bool {
        if i / 64 >= self.words {
            return false;
        }
        // SAFETY: below the mapping's end; nobody else has it.
        let w = unsafe { &mut *self.at.add(i / 64) };
        let new = *w & 1 << (i % 64) == 0;
        *w |= 1 << (i % 64);
        new
    }
    pub fn has(&self, i: usize) -> bool {
        // SAFETY: as in `add`.
        i / 64 < self.words && unsafe { *self.at.add(i / 64) } & 1 << (i % 64) != 0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { call3(nr::MUNMAP, self.at as usize, self.words * 8, 0) };
    }
}
