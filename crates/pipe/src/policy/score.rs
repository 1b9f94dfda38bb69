//! How often something has worked of late: 0 (never) to 256 (always).
//!
//! Invariant: pure; a value that a peer wrote counts as 256 at most.
//! Not here: what is scored, and where the word lies (channel.rs).
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A moving average over some eight tries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Score(u32);

impl Score {
    /// Of a new channel.
    pub const NEW: Score = Score(128);
    /// Always.
    pub const BEST: Score = Score(256);
    /// The least that pays.
    pub const PAYS: Score = Score(64);

    pub fn load(word: &AtomicU32) -> Score {
        Score(word.load(Relaxed).min(Self::BEST.0))
    }
    pub fn store(self, word: &AtomicU32) {
        word.store(self.0, Relaxed);
    }
    /// After a try that worked, or did not.
    pub fn after(self, worked: bool) -> Score {
        match worked {
            true => Score(self.0 + (Self::BEST.0 - self.0) / 8),
            false => Score(self.0 - self.0 / 8),
        }
    }
    /// After a try in vain that was dear: it counts as two.
    pub fn after_dear(self) -> Score {
        Score(self.0 - self.0 / 4)
    }
    /// Whether the next try is likely enough to work.
    pub fn pays(self) -> bool {
        self.0 >= Self::PAYS.0
    }
    /// Whether what did not pay is tried again: of 16 times once. `now` is in ticks, whose low bits are as good as random.
    pub fn is_tried_again(now: u64) -> bool {
        now & 0xf0 == 0
    }
}
