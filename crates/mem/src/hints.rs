//! Sets of up to 4096 numbers that may be wrong: where it is worth looking first.
//!
//! Invariant: a number may be too many: whoever finds one clears it, then asks the thing itself. None is missing: after
//! `set` returns, either the number is found, or whoever cleared it sees what was written before `set`. But a process
//! that dies before the end of `set` leaves one out, and the sweep sets it again.
//! Not here: what the numbers mean.
use crate::layout::Hints;
use crate::weak::{Edge, weak};
use byway_sys::sync::Ordering::{AcqRel, Acquire, Relaxed};

impl Hints {
    pub fn set(&self, i: usize) {
        let (w, b) = (i / 64 % 64, i % 64);
        let word = &self.words[w];
        // Without a look whether they are set already: a look may see a bit that is being cleared by one who does not
        // yet see what this number tells of, and then nobody would find it.
        if !weak(Edge::SetWord) || word.load(Relaxed) & 1 << b == 0 {
            // ORDER: whoever sees the bit, or clears it later, sees the state that it tells of.
            word.fetch_or(1 << b, AcqRel);
        }
        if !weak(Edge::SetTop) || self.top.load(Relaxed) & 1 << w == 0 {
            // ORDER: after the word: whoever clears the top later sees the word, and sets it again.
            self.top.fetch_or(1 << w, AcqRel);
        }
    }

    pub fn clear(&self, i: usize) {
        let (w, b) = (i / 64 % 64, i % 64);
        let word = &self.words[w];
        // ORDER: as `set`.
        if word.fetch_and(!(1 << b), AcqRel) & !(1 << b) == 0 {
            // ORDER: as `set`.
            self.top.fetch_and(!(1 << w), AcqRel);
            if word.load(Relaxed) != 0 {
                // ORDER: somebody set a bit meanwhile.
                self.top.fetch_or(1 << w, AcqRel);
            }
        }
    }

    /// The first number at or after `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let (mut w, mut skip) = (from / 64, u64::MAX << (from % 64));
        while w < 64 {
            // ORDER: pairs with `set`.
            let top = self.top.load(Acquire) & u64::MAX << w;
            if top == 0 {
                return None;
            }
            let next = top.trailing_zeros() as usize;
            if next != w {
                (w, skip) = (next, u64::MAX);
            }
            // ORDER: pairs with `set`.
            let bits = self.words[w].load(Acquire) & skip;
            if bits != 0 {
                return Some(w * 64 + bits.trailing_zeros() as usize);
            }
            (w, skip) = (w + 1, u64::MAX);
        }
        None
    }
}
