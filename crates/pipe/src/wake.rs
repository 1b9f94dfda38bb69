//! Waking a reader: with the stream's own next bytes, through the kernel lane.
//!
//! Invariant: under the writers' lock the kernel lane's place is set first, then WOKEN by a CAS that fails if the
//! reader came home meanwhile, then the kernel lane is written (I5); only then is anything published behind it. So one
//! call wakes once, at its end, and the order holds.
//! Not here: when a reader is to be woken (write.rs, fast_path.rs), the overflow of a full ring, which takes the same
//! steps (write.rs).
use crate::channel::{Channel, PIPE_BUF};
use crate::copy::{Iov, VECTORS};
use crate::ring::Ring;
use crate::word::{Chunk, Tail};
use crate::write::{Progress, publish};
use crate::{Caller, clusters, lock, pass_through, policy, tcp};
use byway_sys::errno::{EAGAIN, Ret};
use byway_sys::socket::MSG_MORE;
use core::sync::atomic::Ordering::Relaxed;

/// Of the write that wakes a reader, what goes into the ring before the reader is woken.
const AT_ONCE: usize = 256 * 1024;

/// All of a short write of what is at `v`, `n` bytes, by a thread that no handler interrupts, where the tail is `t`, a
/// reader sleeps, and nothing else is in the way: the ring and its memory are not looked at. What write(2) says;
/// `None`: nothing was written.
#[inline(never)]
pub(crate) fn short(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    t: Tail,
    v: &[Iov],
    n: usize,
) -> Option<Ret> {
    let asleep = t.sleepers() > 0 && !t.woken() && !t.closed();
    if !asleep || t.lock_owner() != 0 || t.bias_owner() != 0 || ch.rules().outsiders {
        return None;
    }
    let mine = t.with_lock(me.tid);
    ch.cas_tail(t, mine).ok()?;
    // E2: the chunk after the lock, which is needed to set it.
    let (r, m) = (ch.head().position(), ch.chunk());
    let woken = mine.with(Tail::WOKEN);
    // The ring is empty (I4): only a hostile peer says otherwise.
    if m.valid() || mine.wide(r) != r {
        lock::unlock(me, ch);
        return None;
    }
    let place = set_chunk_place(ch, r);
    if ch.cas_tail(mine, woken).is_err() {
        lock::unlock(me, ch);
        return None;
    }
    has_more(ch, n, false);
    count_lane(ch, n);
    let got = put(me, ch, fd, v);
    correct_lane(ch, n, got);
    if got <= 0 {
        ch.clear_chunk(place);
        // Taking WOKEN back is always safe.
        let _ = ch.cas_tail(woken, mine);
        lock::unlock(me, ch);
        return Some(if got == 0 { EAGAIN } else { got });
    }
    if ch.cas_tail(woken, woken.with_lock(0)).is_err() {
        lock::unlock(me, ch);
    }
    ch.writer.0.count(got as usize);
    if let Some(how) = policy::on_wake(me, ch, n) {
        pass_through::leave(me, ch, fd, how);
    }
    Some(got)
}

/// Wakes a sleeping reader with the stream's own next bytes. The first bytes go through the kernel lane, what follows
/// them into the ring; the kernel lane is written last, so that one call wakes once, at its end. Ok(true): all is
/// written.
pub(crate) fn long(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    w: &mut Progress,
    t: Tail,
    ring: Ring,
    pos: u64,
) -> Result<bool, Ret> {
    let rest = w.want - w.done;
    let woken = t.with(Tail::WOKEN);
    // I5: the place, then WOKEN, then the kernel lane. A reader that comes out of its sleep after WOKEN finds the place
    // set and cannot arm again, and it does not take the kernel lane for empty while the lock is held. If it came out
    // before, the place stays: a reader may be acting on it, and will find the kernel lane empty.
    let place = set_chunk_place(ch, pos);
    if ch.cas_tail(t, woken).is_err() {
        return Ok(false);
    }
    let first = rest.min(PIPE_BUF);
    let more = (rest - first).min(ring.cap(PIPE_BUF) as usize).min(AT_ONCE);
    // I10: with nothing behind it the kernel lane's chunk stands at the head too, and is never pumped.
    let more = match more {
        0 => 0,
        n => clusters::back(me, ch, ring, pos, n),
    };
    let mut behind = w.at;
    behind.advance(first);
    // SAFETY: checked by `write`; the ring is empty (I4), the room is ours by the lock.
    unsafe { behind.to_ring(ring, pos, more) };
    match to_kernel(me, ch, fd, w, first, place) {
        Ok(_) => {}
        Err(e) => {
            // Taking WOKEN back is always safe.
            let _ = ch.cas_tail(woken, t);
            return Err(e);
        }
    }
    let last = first + more == rest;
    if publish(
        ch,
        woken,
        if last { woken.with_lock(0) } else { woken },
        more,
        false,
    ) {
        w.at.advance(more);
        w.done += more;
        return Ok(last);
    }
    if w.done == w.want {
        lock::unlock(me, ch);
        return Ok(true);
    }
    Ok(false)
}

/// Says that what comes into the kernel lane next stands at position `pos`.
pub(crate) fn set_chunk_place(ch: &Channel, pos: u64) -> Chunk {
    let place = ch.chunk().next(pos);
    // E2: the place before the bytes.
    ch.set_chunk(place);
    place
}

/// The next `n` bytes into the kernel lane, which is empty, at the place that was set for them.
pub(crate) fn to_kernel(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    w: &mut Progress,
    n: usize,
    place: Chunk,
) -> Result<usize, Ret> {
    count_lane(ch, n);
    has_more(ch, n, w.want - w.done > n);
    let (base, len) = w.at.run();
    let got = if n <= len {
        put(me, ch, fd, &[Iov { base, len: n }])
    } else {
        let mut v = [Iov { base: 0, len: 0 }; VECTORS];
        let c = w.at.take_vectors(n, &mut v);
        put(me, ch, fd, &v[..c])
    };
    correct_lane(ch, n, got);
    if got <= 0 {
        ch.facts.0.lane.store(0, Relaxed);
        ch.clear_chunk(place);
        return Err(if got == 0 { EAGAIN } else { got });
    }
    w.at.advance(got as usize);
    w.done += got as usize;
    ch.writer.0.count(got as usize);
    Ok(got as usize)
}

/// Whether a write of which `n` bytes come into the kernel lane now has `more`. Fewer than PIPE_BUF are the last of
/// one.
fn has_more(ch: &Channel, n: usize, more: bool) {
    if n == PIPE_BUF {
        ch.m.0.more.store(u8::from(more), Relaxed);
    }
}

/// Says that `n` bytes of the stream come into the kernel lane, where that is to be known.
fn count_lane(ch: &Channel, n: usize) {
    if ch.rules().counts_lane {
        // Before the bytes: a reader that has them at once takes them off again, and if we are killed now they are ours.
        ch.facts.0.lane.store(n as u32, Relaxed);
        if ch.is_tcp() {
            tcp::counts(ch, n as i32);
        }
    }
}

/// The kernel has taken `got` of the `n` that were counted.
fn correct_lane(ch: &Channel, n: usize, got: Ret) {
    let short = n - got.clamp(0, n as Ret) as usize;
    if short > 0 && ch.is_tcp() {
        ch.facts.0.lane.fetch_sub(short as u32, Relaxed);
        tcp::counts(ch, -(short as i32));
    }
}

/// Writes what is at `v` into the kernel lane.
///
/// LINUX send(2) MSG_MORE: TCP keeps what may become part of a larger segment for 200 ms. A reader waits for these bytes.
fn put(me: &Caller, ch: &Channel, fd: usize, v: &[Iov]) -> Ret {
    // SAFETY: the kernel checks the caller's addresses itself.
    unsafe { ch.lane(fd).write(v, me.message & !MSG_MORE) }
}
