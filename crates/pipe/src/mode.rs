//! What a channel is at one look, and each change of it.
//!
//! | from | to | by |
//! |---|---|---|
//! | `Closed` | `Moving` | an opener takes the lock (opening.rs) |
//! | `Moving` | `Open` | `opens`: the lane's bytes are in the ring |
//! | `Open` | `Closed` | `closes`: the ring's bytes are in the lane (handback.rs) |
//! | `Open` | `Spilling` | `closes_for`: a spiller is to write the rest (spiller.rs) |
//! | `Spilling` | `Closed` | the spiller, or who finds it dead, drops the lock |
//! | `Closed` | `PassThrough` | `passes_through`: its ring brought nothing, or other calls move its bytes (pass_through.rs) |
//! | `PassThrough` | `Closed` | `counts_again`: an opener asks for it |
//! | any | `Kernels` | `keep_closed`, once it is closed and nobody has the lock |
//!
//! Invariant: the tail alone says `Open`, and each change of that is one compare-and-swap. What only forbids an opening
//! (`forever`; `pending`, for an exec or a splice under way; `full`, for a writer that was told EAGAIN) is set before a
//! look at the tail (E5), and an opener looks again under the lock.
//! Not here: when to change (policy.rs), and what is moved.
use crate::Caller;
use crate::channel::Channel;
use crate::word::{Chunk, Tail};
use core::sync::atomic::Ordering::Relaxed;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Bytes go through the ring.
    Open,
    /// Each call is the kernel's, and counted in the tail. The traffic may open it.
    Closed,
    /// As closed, and calls are not counted.
    PassThrough,
    /// Closed, and somebody has the lock: it is being opened, or was handed back a moment ago.
    Moving,
    /// Closed, and a spiller writes what the lane had no room for.
    Spilling,
    /// The kernel's for good.
    Kernels,
}

impl Mode {
    /// What the tail `t` says, where `forever` was loaded before it (E5): closed and unlocked then, it is so for good.
    #[inline]
    pub fn of(t: Tail, forever: bool) -> Mode {
        match t {
            _ if !t.closed() => Mode::Open,
            _ if t.spiller() != 0 => Mode::Spilling,
            _ if t.lock_owner() != 0 => Mode::Moving,
            _ if forever => Mode::Kernels,
            _ if t.passes_through() => Mode::PassThrough,
            _ => Mode::Closed,
        }
    }
}

impl Channel {
    /// Whether it is the kernel's for good.
    #[inline]
    pub fn is_kernels(&self) -> bool {
        self.forever() && Mode::of(self.tail(), true) == Mode::Kernels
    }
    /// Whether something forbids to open it for now: an exec, a splice, or a writer that was told that the pipe is full
    /// and finds it full until somebody has read.
    pub(crate) fn is_hindered(&self) -> bool {
        let f = &self.facts.0;
        f.pending.load(Relaxed) != 0 || f.full.load(Relaxed) != 0
    }

    /// Under the lock, which the caller keeps: the ring has `n` bytes from the head's position `r` on.
    pub(crate) fn opens(&self, r: u64, n: usize) {
        self.opens_behind(self.chunk().next(0).none(), r, n);
    }
    /// The same, where the lane's chunk is `m`.
    pub(crate) fn opens_behind(&self, m: Chunk, r: u64, n: usize) {
        // Told apart from what a sleeper of an earlier opening, still on its way home, would take for its own wake-up.
        self.set_chunk(m);
        let end = (r as u32).wrapping_add(n as u32);
        let mut t = self.tail();
        while let Err(now) = self.move_tail(t, t.with_position(end).opened()) {
            t = now;
        }
    }
    /// Under the lock, which the caller keeps.
    pub(crate) fn closes(&self, me: &Caller) {
        let mut t = self.tail();
        while let Err(now) = self.cas_tail(t, t.with_lock(me.tid).shut()) {
            t = now;
        }
    }
    /// Under the lock, which is the spiller's then.
    pub(crate) fn closes_for(&self, spiller: u32) {
        let mut t = self.tail();
        while let Err(now) = self.cas_tail(t, t.spilled_by(spiller)) {
            t = now;
        }
    }
    /// Calls need not be counted from now on; not while somebody opens it.
    pub(crate) fn passes_through(&self) {
        let mut t = self.tail();
        while t.closed() && t.lock_owner() == 0 {
            self.facts.0.passing.store(1, Relaxed);
            self.facts.0.passed.store(1, Relaxed);
            // EDGE E9: an opener that takes the lock after it looks for callers.
            match self.cas_tail(t, t.with(Tail::PASS_THROUGH)) {
                Ok(()) => return,
                Err(now) => t = now,
            }
        }
    }
    /// Calls are counted from now on. A call that is not counted will soon be over.
    pub(crate) fn counts_again(&self, t: Tail) {
        let _ = self.cas_tail(t, t.without(Tail::PASS_THROUGH));
    }
}
