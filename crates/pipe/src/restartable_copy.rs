//! The copy into the ring, of a thread that a signal handler may interrupt.
//!
//! ```text
//! write:    lock, tail = t    copy ......................   CAS tail, t -> tail + n      (fails: begins again)
//! handler:                      write: copy, publish, unlock: these places are the stream's now, or another writer's
//! ```
//! Invariant: no byte is copied once the tail is not what it was when the copy began. Where restartable sequences are
//! at hand each piece is one that begins with a look at T: after a handler the kernel sends the thread out of it, and
//! the copy never goes on. Else, and for what is left where they come to nothing, signals are held off.
//! Not here: what has more steps than a copy (it runs with signals held off: `lock::take`); threads without handlers.
use crate::Caller;
use crate::channel::Channel;
use crate::copy::Buffers;
use crate::ring::Ring;
use crate::word::Tail;
use byway_mem::layout::flags::NO_RSEQ;
use byway_sys::rseq::{self, Area};
use core::sync::atomic::Ordering::Relaxed;

/// Of one sequence: a thread that is interrupted more often than this takes goes on with less.
const PIECE: usize = 16 * 1024;
/// Who is interrupted so often in one write may be so at each instruction: a tracer steps through it.
const OFTEN: u32 = 16;

/// `n` bytes from `from` into the ring at `at`, under the writers' lock taken with `t`. False: the tail is another,
/// nothing counts.
///
/// # Safety
/// As [`Cursor::to_ring`]; the places are the caller's as long as the tail is `t`.
#[inline]
pub unsafe fn put(
    me: &Caller,
    ch: &Channel,
    t: Tail,
    from: &Buffers,
    ring: Ring,
    at: u64,
    n: usize,
) -> bool {
    if !me.handlers {
        // SAFETY: the caller's promise; nobody changes the tail.
        unsafe { from.to_ring(ring, at, n) };
        return true;
    }
    // SAFETY: the caller's promise.
    unsafe { put_guarded(me, ch, t, *from, ring, at, n) }
}

/// # Safety
/// As [`put`].
#[cold]
unsafe fn put_guarded(
    me: &Caller,
    ch: &Channel,
    t: Tail,
    mut from: Buffers,
    ring: Ring,
    mut at: u64,
    mut n: usize,
) -> bool {
    let held = |from: Buffers, at: u64, n: usize| {
        let _held = me.hold_signals();
        let same = ch.tail() == t;
        if same {
            // SAFETY: the caller's promise; no handler changes the tail now.
            unsafe { from.to_ring(ring, at, n) };
        }
        same
    };
    let Some(area) = area(me) else {
        return held(from, at, n);
    };
    let (mut piece, mut interrupted) = (PIECE, 0);
    while n > 0 {
        if interrupted == OFTEN {
            return held(from, at, n);
        }
        let (base, len) = from.run();
        let (p, wrap) = ring.run(at);
        let k = n.min(len).min(wrap).min(piece);
        if k == 0 {
            return true;
        }
        // SAFETY: `k` stays inside both runs; the area is this thread's.
        match unsafe { rseq::byway_rseq_copy(area, p as usize, base, k, ch.tail_address(), t.0) } {
            rseq::COPIED => {
                from.advance(k);
                at += k as u64;
                n -= k;
            }
            rseq::CHANGED => return false,
            _ => {
                piece = (piece / 2).max(64);
                interrupted += 1;
            }
        }
    }
    true
}

fn area(me: &Caller) -> Option<&'static Area> {
    let off = !me.rseq || me.domain.header().flags.load(Relaxed) & NO_RSEQ != 0;
    if off { None } else { rseq::area() }
}
