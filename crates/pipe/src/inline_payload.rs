//! A short write's bytes once more, inline: who waits for the tail has them with it, and need not fetch the ring's line
//! after the tail's.
//!
//! ```text
//! writer:   stamp := 0; bytes; stamp := position, length;  CAS tail: tail + n          (and the same bytes are in the ring)
//! reader:   tail;  stamp = head?;  bytes;  stamp still the same?  CAS head: head + n
//! ```
//! Invariant: when the tail is published the stamp is 0, or names a position whose bytes stand here as they do in the
//! ring; only who has, or keeps, the writers' lock puts anything here, and each who moves the tail sets or clears it
//! before (`Channel::move_tail`). Anybody may clear it: then the ring has the bytes. What a writer left that lost the lock,
//! or was killed, before its CAS is never the tail's: the next to publish clears it.
//! Not here: when the tail moves (write.rs), what the kernel lane holds (a place that is set comes first).
use crate::channel::InlinePayload;
use crate::word::POS;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;

/// The most bytes that fit inline.
pub const MOST: usize = 48;

/// Length, plus one, above the position.
const LEN: u32 = 40;

impl InlinePayload {
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

    /// What stands here, if it is the bytes of position `r`, all of them among the `there` that are published.
    #[inline]
    pub fn look(&self, r: u64, there: u64) -> Option<Look<'_>> {
        // EDGE E8: the stamp before the bytes.
        let stamp = self.stamp.load(Acquire);
        let n = (stamp >> LEN).wrapping_sub(1);
        let ours = stamp & POS == r & POS && n <= there.min(MOST as u64);
        ours.then_some(Look {
            payload: self,
            stamp,
            len: n as usize,
        })
    }
}

/// Bytes that stand inline, as long as nobody takes them away.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    payload: &'a InlinePayload,
    stamp: u64,
    /// How many.
    pub len: usize,
}

impl Look<'_> {
    /// The first eight.
    #[inline]
    pub fn first(&self) -> [u8; 8] {
        self.payload.bytes[0].load(Relaxed).to_ne_bytes()
    }
    /// Copies `n` of them, from word `skip` on, to `to`. False: they were taken away meanwhile, nothing counts.
    ///
    /// A word at a time, from the line to the caller: a copy in between would be loaded again wider than it was stored.
    ///
    /// # Safety
    /// `n` bytes at `to` may be written.
    #[inline]
    pub unsafe fn copy(&self, skip: usize, to: *mut u8, n: usize) -> bool {
        for (i, word) in self.payload.bytes.iter().skip(skip).enumerate() {
            let (word, at) = (word.load(Relaxed).to_ne_bytes(), 8 * i);
            // SAFETY: the caller's promise; no further than `n`.
            unsafe {
                match n.saturating_sub(at) {
                    0 => break,
                    8.. => to.add(at).cast::<[u8; 8]>().write_unaligned(word),
                    k => to.add(at).copy_from_nonoverlapping(word.as_ptr(), k),
                }
            }
        }
        // EDGE E8: and after them.
        fence(Acquire);
        self.payload.stamp.load(Relaxed) == self.stamp
    }
}
