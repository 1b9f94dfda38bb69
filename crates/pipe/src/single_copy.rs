//! Single copy: a writer offers the pages of its own buffer, and a reader that is awake copies out of them.
//!
//! ```text
//! writer  has the lock, ring empty, K's place not set:  slot := buffer;  L := offered;  waits awake, a little
//! reader  sees L, copies from the writer's memory;      L: taken += k, by a CAS that only a living offer lets pass
//! writer  L := none: what was not taken goes the usual way, and the call ends when all of it went either way
//! L  63 offered   62 refused   61..40 seq   39..0 taken
//! ```
//! Invariant: an offer lives only while its writer is inside the call and has the lock, so nothing is published behind it
//! and nobody sleeps on it; what a reader copied counts only if the offer was alive when it committed. Offered is only
//! what nobody can change meanwhile: by a process with one thread and no signal handlers (a handler may leave the call by
//! longjmp).
//! Not here: when that pays (policy.rs).
use crate::channel::Channel;
use crate::copy::{Buffers, Iov, VECTORS};
use crate::{Caller, policy, wait};
use byway_sys::errno::{ESRCH, Ret, failed};
use byway_sys::syscall::{call6, nr};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

const OFFERED: u64 = 1 << 63;
const REFUSED: u64 = 1 << 62;
const SEQ: u64 = 1 << 40;
const TAKEN: u64 = SEQ - 1;
/// Of one copy: the writer sees that its reader is at work before it stops waiting.
const PIECE: usize = 128 * 1024;
/// A reader with a smaller buffer does not take of an offer: the system call would cost more than a copy.
const LEAST: usize = 32 * 1024;

/// An offer's word and its slot, on the line of the chunk.
#[repr(C)]
pub struct Offer {
    l: AtomicU64,
    base: AtomicU64,
    len: AtomicU64,
    /// Bytes that went this way, for `--explain`.
    pub bytes: AtomicU64,
    lender: AtomicU32,
    /// Not 0: a reader may not read its writer's memory.
    refused: AtomicU32,
}

impl Offer {
    /// As in a channel that comes into being.
    pub fn reset(&self) {
        for w in [&self.l, &self.base, &self.len, &self.bytes] {
            w.store(0, Relaxed);
        }
        self.lender.store(0, Relaxed);
        self.refused.store(0, Relaxed);
    }

    /// Whether a reader has said that it cannot take any.
    pub fn is_refused(&self) -> bool {
        self.refused.load(Relaxed) != 0
    }

    /// Whether there is one that a reader may take of.
    #[inline]
    pub fn is_made(&self) -> bool {
        let l = self.l.load(Relaxed);
        l & (OFFERED | REFUSED) == OFFERED && l & TAKEN < self.len.load(Relaxed)
    }

    /// Ends the offer, if it lives: how much of the last one was taken. Under the writers' lock.
    pub fn end(&self) -> usize {
        // EDGE E6: the copies of those who committed come before the writer has its buffer back.
        (self.l.fetch_and(!OFFERED, AcqRel) & TAKEN) as usize
    }
}

/// Offers `n` bytes at `base`; how many were taken. Under the writers' lock, the ring being empty and the kernel lane's
/// place not set.
pub fn offer(me: &Caller, ch: &Channel, base: usize, n: usize) -> usize {
    let o = ch.offer();
    let n = n.min(TAKEN as usize);
    let old = o.l.load(Relaxed);
    o.base.store(base as u64, Relaxed);
    o.len.store(n as u64, Relaxed);
    o.lender.store(me.tid, Relaxed);
    let new =
        OFFERED | (old & !(OFFERED | REFUSED | TAKEN)).wrapping_add(SEQ) & !(OFFERED | REFUSED);
    // EDGE E6: the slot, and the bytes it speaks of, before the offer.
    o.l.store(new, Release);
    let mut seen = new;
    loop {
        let moved = wait::offer(me, ch, || o.l.load(Relaxed) != seen);
        seen = o.l.load(Relaxed);
        if !moved || seen & OFFERED == 0 || seen & REFUSED != 0 || (seen & TAKEN) as usize >= n {
            break;
        }
    }
    if seen & REFUSED != 0 {
        o.refused.store(1, Relaxed);
    }
    let taken = o.end().min(n);
    policy::on_offer(&ch.writer, taken == n);
    o.bytes
        .store(o.bytes.load(Relaxed).wrapping_add(taken as u64), Relaxed);
    taken
}

/// What a reader got of an offer.
pub enum Taken {
    Bytes(usize),
    /// It is not there any more, or not for us.
    Changed,
}

/// Copies up to `want` bytes of the offer, if there is one, to `at`.
pub fn take(me: &Caller, ch: &Channel, at: Buffers, want: usize) -> Taken {
    let o = ch.offer();
    // EDGE E6: the slot is that of this offer, or the CAS below fails.
    let l = o.l.load(Acquire);
    if l & (OFFERED | REFUSED) != OFFERED {
        return Taken::Changed;
    }
    let (base, len) = (o.base.load(Relaxed), o.len.load(Relaxed));
    let lender = o.lender.load(Relaxed);
    let taken = l & TAKEN;
    let Some(left) = len.checked_sub(taken).filter(|&n| n > 0) else {
        return Taken::Changed;
    };
    let k = left.min(want.min(PIECE) as u64) as usize;
    if want < LEAST {
        // RELAXED: nothing was copied. The writer sees that its offer is gone.
        let _ = o.l.compare_exchange(l, l & !OFFERED, Relaxed, Relaxed);
        return Taken::Changed;
    }
    if !(me.pull)() {
        refuse(o, l);
        return Taken::Changed;
    }
    let mut v = [Iov { base: 0, len: 0 }; VECTORS];
    let n = at.take_vectors(k, &mut v);
    let from = Iov {
        base: base.wrapping_add(taken) as usize,
        len: k,
    };
    let (to, from) = (v.as_ptr() as usize, &from as *const Iov as usize);
    // SAFETY: the kernel checks both sides' addresses, and that we may read the other's memory.
    let got: Ret = unsafe { call6(nr::PROCESS_VM_READV, lender as usize, to, n, from, 1, 0) };
    if got == ESRCH {
        // It was killed inside its write: what nobody took is gone with it.
        // RELAXED: nothing was copied.
        let _ = o.l.compare_exchange(l, l & !OFFERED, Relaxed, Relaxed);
        return Taken::Changed;
    }
    if failed(got) || got == 0 {
        refuse(o, l);
        return Taken::Changed;
    }
    // EDGE E6: the copy before the commit.
    let done =
        o.l.compare_exchange(l, l + got as u64, AcqRel, Relaxed)
            .is_ok();
    if done {
        ch.reader.0.count(got as usize);
        Taken::Bytes(got as usize)
    } else {
        Taken::Changed
    }
}

/// Says that this reader cannot: the writer then does without.
fn refuse(o: &Offer, l: u64) {
    // RELAXED: nothing was copied.
    let _ = o.l.compare_exchange(l, l | REFUSED, Relaxed, Relaxed);
}
