//! Bytes of the ring in place: looked at where they lie, and taken later, or not at all.
//!
//! Invariant: while somebody looks, it holds the readers' side (head: READS_LANE), as a reader does that is slow with
//! the kernel lane's bytes: nobody else takes bytes, and nobody hands the channel back, so what it sees stays. If it
//! dies, nothing has left the stream.
//! Not here: what lies in the kernel lane, which must be read; who may not be waited for by the thread that looks (the
//! native library).
use crate::channel::{Channel, Reason};
use crate::word::Head;
use crate::{Caller, handback, lock};
use core::sync::atomic::Ordering::Relaxed;

/// Bytes that lie in one piece at the front of the stream.
#[derive(Clone, Copy)]
pub struct Held {
    at: u64,
    pub start: *const u8,
    pub len: usize,
}

/// Holds what lies in the ring at the front; `None`: nothing does, or somebody else is at work: a read is due.
pub fn hold(me: &Caller, ch: &Channel) -> Option<Held> {
    let h = ch.head();
    let t = ch.tail();
    let m = ch.chunk();
    if h.held() || t.closed() || t.sleepers() > 0 {
        return None;
    }
    let ring = ch.ring(&me.domain)?;
    let (r, w) = (h.position(), t.wide(h.position()));
    let end = if m.valid() { m.position(r).min(w) } else { w };
    // More than a ring: a state that none of us writes.
    if end <= r || w - r > ring.bytes() || !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return None;
    }
    // Looked at again: the channel may have been closed and opened between the looks at the head and the tail.
    let (start, run) = ring.run(r);
    let now = ch.tail();
    let same = !now.closed() && now.wide(r) - r <= ring.bytes() && now.wide(r) >= end;
    if !same || run == 0 {
        lock::release(me, ch, r);
        return None;
    }
    Some(Held {
        at: r,
        start,
        len: run.min((end - r) as usize),
    })
}

/// Ends the look; the first `n` bytes, at most all of them, have left the stream.
pub fn take(me: &Caller, ch: &Channel, fd: usize, held: Held, n: usize) {
    let n = n.min(held.len);
    let r = held.at + n as u64;
    lock::release(me, ch, r);
    ch.reader.0.count(n);
    // Somebody could not wait for this (read.rs), and is told by the kernel: which has the pipe until somebody has read
    // from it.
    if ch.facts.0.full.load(Relaxed) != 0 {
        handback::hand_back(me, ch, fd, false, Reason::Readiness);
        return;
    }
    let (t, m) = (ch.tail(), ch.chunk());
    let Some(ring) = ch.ring(&me.domain) else {
        return;
    };
    // As a read: at half a writer that sleeps on a full ring goes on.
    let low = t.wide(r) - r <= ring.bytes() / 2 || ch.writer.0.sleeper.load(Relaxed) == me.tid;
    if n > 0 && m.valid() && low && m.position(r) == t.wide(r) {
        handback::pump(me, ch, fd);
    }
}
