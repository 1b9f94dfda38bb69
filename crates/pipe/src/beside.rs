//! A short write's bytes once more, beside T: who waits for T has them with it, and need not fetch the ring's line after T's.
//!
//! ```text
//! writer:   stamp := 0; bytes; stamp := position, length;  CAS T: W + n          (and the same bytes are in the ring)
//! reader:   T;  stamp = R?;  bytes;  stamp still the same?  CAS H: R + n
//! ```
//! Invariant: when W is published the stamp is 0, or names a position whose bytes stand here as they do in the ring; only
//! who has, or keeps, the writers' lock changes anything, and each who moves W sets or clears it before (`Channel::cas_w`). What a
//! writer left that lost the lock, or was killed, before its CAS is never W's: the next to publish clears it.
//! Not here: when W moves (write.rs), what K holds (a place that is set comes first).
use crate::channel::Beside;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;

/// The most bytes that fit beside T.
pub const MOST: usize = 48;

/// Room for the bytes that are found here.
pub(crate) type Short = [u64; MOST / 8];

const POS: u64 = (1 << 40) - 1;
/// Length, plus one, above the position.
const LEN: u32 = 40;

impl Beside {
    /// Puts the `n` bytes of position `pos` here by `fill`. Under the lock, before the CAS that publishes them.
    #[inline]
    pub(crate) fn put(&self, pos: u64, n: usize, fill: impl Fn(*mut u8)) {
        self.stamp.store(0, Relaxed);
        // EDGE E8: whoever sees any of the bytes sees that the stamp was taken away.
        fence(Release);
        fill(self.bytes.as_ptr() as *mut u8);
        let stamp = (n as u64 + 1) << LEN | pos & POS;
        // EDGE E8: the bytes before the stamp.
        self.stamp.store(stamp, Release);
    }

    /// What stands here is no position's any more.
    #[inline]
    pub(crate) fn clear(&self) {
        // Unasked: a look would fetch the line from the reader once more, to read.
        self.stamp.store(0, Relaxed);
    }

    /// The bytes of position `r`, if all of them are among the `there` that are published; how many, 0: none.
    #[inline]
    pub(crate) fn get(&self, r: u64, there: u64, to: &mut Short) -> usize {
        // EDGE E8: the stamp before the bytes.
        let stamp = self.stamp.load(Acquire);
        let n = (stamp >> LEN).wrapping_sub(1);
        if stamp & POS != r & POS || n > there.min(MOST as u64) {
            return 0;
        }
        for (to, from) in to.iter_mut().zip(&self.bytes) {
            *to = from.load(Relaxed);
        }
        // EDGE E8: and after them.
        fence(Acquire);
        if self.stamp.load(Relaxed) == stamp {
            n as usize
        } else {
            0
        }
    }
}
