//! What a FIFO needs beyond a nameless pipe: outsiders may open it at any moment, and it may begin a new life.
//!
//! Invariant: whoever reads the kernel lane finds what comes next in the stream: the kernel lane never holds younger
//! bytes than the ring, but a outsider's. What an outsider wrote is seen before a write of ours that can know of it.
//! Not here: who the holders are (byway run), the ring itself. docs/fifo.md tells the whole.
use crate::Caller;
use crate::channel::{Channel, FIFO_SIZE, Holders, PIPE_BUF};
use crate::copy::{Buffers, Iov};
use crate::handback::{MOVING, closed, hand_back, intend};
use crate::lane::{Lane, pour, runs};
use crate::outsider::{self, Side};
use crate::reason::Reason;
use crate::ring::{RING_MOST, Ring};
use crate::word::{Head, Tail};
use crate::write::{Progress, clear_drained, shrink};
use crate::{biased_lock, clusters, liveness, lock, spiller, wake};
use byway_mem::domain::Domain;
use byway_mem::registry;
use byway_sys::errno::{EAGAIN, Ret};
use byway_sys::file;
use core::sync::atomic::Ordering::Relaxed;

/// Whether an outsider has written into a FIFO that is carried: then it must be the kernel's before we write again.
pub fn has_outside_bytes(ch: &Channel, fd: usize) -> bool {
    if ch.tail().closed() {
        return false;
    }
    let held = ch.lane(fd).held();
    let own = if ch.chunk().valid() {
        ch.facts.0.lane.load(Relaxed) as usize
    } else {
        0
    };
    held > own && !ch.tail().closed()
}

/// Of a FIFO whose ring is full: its oldest bytes into the kernel lane, of the `used` that it holds from `r` on. So the
/// kernel lane is full for whoever must wait for room, and whoever reads the kernel lane, be it an outsider that has
/// just opened the FIFO, finds what comes next. Of any pipe that is to take no more than it has: the kernel lane is
/// full then, and nothing has been added. Under the writers' lock. `None`: a reader is at work; false: there are bytes
/// of an outsider in the kernel lane.
pub fn to_front(me: &Caller, ch: &Channel, fd: usize, r: u64, used: u64) -> Option<bool> {
    let ring = ch.ring(&me.domain)?;
    // The smallest ring may be too full for a write that is not split, and have fewer than a slot takes.
    let n = used.min(PIPE_BUF as u64) as usize;
    if !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return None;
    }
    // They lie in one cluster, or end in the next.
    let mut v = [Iov { base: 0, len: 0 }; 2];
    let c = runs(ring, r, n, &mut v);
    // E2: the place before the bytes.
    let place = ch.chunk().next(r + n as u64);
    ch.set_chunk(place);
    let mut got = 0;
    if ch.lane(fd).is_empty() {
        intend(ch, MOVING, n);
        // Before the bytes: whoever repairs after us must not take them for an outsider's.
        ch.facts.0.lane.store(n as u32, Relaxed);
        // SAFETY: the runs lie inside clusters of the ring; the bytes are published and held.
        got = unsafe { ch.lane(fd).write_now(&v[..c]) };
    }
    let done = got == n as isize;
    if !done {
        ch.facts.0.lane.store(0, Relaxed);
        ch.clear_chunk(place);
    }
    lock::release(me, ch, if done { r + n as u64 } else { r });
    intend(ch, 0, 0);
    Some(done)
}

/// A writer of a FIFO goes: what the ring holds is to be found without it.
pub fn leave(me: &Caller, ch: &Channel, fd: usize) {
    let (t, h) = (ch.tail(), ch.head());
    if !t.closed() && t.wide(h.position()) != h.position() {
        hand_back(me, ch, fd, false, Reason::Cold);
        spiller::wait(me, ch, fd);
    }
}

/// Before anything else by whoever finds a FIFO's channel through a descriptor that it has not used before: what a FIFO
/// that is no more has left in the channel is not this one's.
pub fn meet(me: &Caller, ch: &Channel, fd: usize) {
    registry::alone(&me.domain, me.tid, || begin(me.domain, ch, fd));
    renew(me, ch, fd);
}

/// The first part of [`meet`], while nobody else enters or finds a FIFO: who of the old one's users was killed inside
/// has left nothing that is to be repaired, and is not waited for.
///
/// LINUX the number of an inode that was removed soon is another's.
pub fn begin(d: Domain, ch: &Channel, fd: usize) {
    let born = file::born(fd);
    if ch.writer.0.born.load(Relaxed) == born {
        return;
    }
    // Nobody uses it yet. What is in a ring that is still open goes by `renew`.
    intend(ch, 0, 0);
    clusters::release(d, ch);
    ch.unlearn();
    biased_lock::forget(ch);
    ch.facts.0.holders.store(Holders::Unknown as u32, Relaxed);
    ch.reader.0.counted_from.store(0, Relaxed);
    ch.forgets_all(|t| t.with_lock(0).without(Tail::WOKEN));
    let h = ch.head();
    ch.cas_head(h, Head::free(h.position()));
    // Last: who is killed before leaves it to the next.
    ch.writer.0.born.store(born, Relaxed);
}

/// A FIFO that everybody has left since its channel was opened is a new pipe now: what is in the ring is of a life that
/// has ended. Called by whoever has just opened it, before anything else.
///
/// LINUX fifo(7), pipe_release: the pipe goes, with its bytes, when its last descriptor is closed.
pub fn renew(me: &Caller, ch: &Channel, fd: usize) {
    let other = || {
        let size = ch.lane(fd).size();
        size != 0 && size != FIFO_SIZE && size != PIPE_BUF
    };
    if !ch.is_fifo() || ch.tail().closed() || !other() {
        return;
    }
    // Of the old life too; a living owner is of this one.
    let owner = ch.tail().lock_owner();
    if owner == 0 || byway_sys::process::is_dead(owner) {
        intend(ch, 0, 0);
    }
    let Some(_taken) = lock::take(me, ch, fd, Tail::closed) else {
        return;
    };
    if !other() {
        lock::unlock(me, ch);
        return;
    }
    ch.facts.0.holders.store(Holders::Unknown as u32, Relaxed);
    let r = lock::hold(me, ch, Head::SPILLS);
    let pos = ch.tail().wide(r);
    ch.forgets_all(|t| t);
    ch.facts.0.shrunk.store(0, Relaxed);
    clusters::release(me.domain, ch);
    ch.is_of_size(ch.lane(fd).size());
    closed(me, ch, pos);
}

/// Puts the ring's bytes between the kernel lane's own and an outsider's. False: it could not begin.
pub(crate) fn weave(
    me: &Caller,
    ch: &Channel,
    lane: Lane,
    ring: Ring,
    r: u64,
    n: usize,
    own: usize,
) -> bool {
    let size = lane.size().max(4096);
    let (Some(mut ours), Some(mut theirs)) = (Side::new(n), Side::new(size)) else {
        return false;
    };
    pour(ring, r, n, ours.inlet(), |_| false);
    ours.filled(n);
    let more = |left| more_room(me, ch, lane, left);
    theirs.take(lane.number(), outsider::ALL);
    lane.resize((n + size + 65536).next_power_of_two());
    // False: nobody has the FIFO any more, and nobody wants the rest.
    let fd = lane.number();
    let _ = theirs.put(fd, own, more) && ours.put(fd, n, more) && theirs.put(fd, usize::MAX, more);
    true
}

/// The kernel lane has no room for `left` bytes: an outsider fills it too. Makes it larger, or waits for its reader as
/// a write would; false when nobody has the FIFO any more.
pub(crate) fn more_room(me: &Caller, ch: &Channel, lane: Lane, left: usize) -> bool {
    let want = (lane.held() + left + 8192).next_power_of_two();
    if want <= 4 * RING_MOST && want > lane.size() && lane.resize(want) {
        return true;
    }
    let key = &ch.facts.0.key;
    byway_sys::process::nap(1000);
    !(me.abandoned)(key.dev.load(Relaxed), key.inode())
}

/// A write of up to PIPE_BUF bytes into a FIFO that is to count as full, whatever room its ring has: into the kernel
/// lane, behind the ring's bytes, as what is too much for a nameless pipe. What write(2) says; EAGAIN: the kernel lane has something already,
/// and tells when that has been taken. `None`: nothing was written, and is to be as usual: the channel is the kernel's,
/// somebody sleeps, nobody reads, or a reader is just at the end of the kernel lane.
///
/// For those whose FIFO nobody opens who does not take part: of others the kernel lane has the oldest bytes (`to_front`).
pub fn overflow(me: &Caller, ch: &Channel, fd: usize, b: &[u8]) -> Option<Ret> {
    loop {
        let _taken = lock::take(me, ch, fd, Tail::closed)?;
        let said = overflow_locked(me, ch, fd, b);
        lock::unlock(me, ch);
        if let Some(said) = said {
            return said;
        }
    }
}

/// Under the lock. `None`: the tail or the chunk changed, begin again.
fn overflow_locked(me: &Caller, ch: &Channel, fd: usize, b: &[u8]) -> Option<Option<Ret>> {
    let (t, m) = (ch.tail(), ch.chunk());
    let gone = ch.lane(fd).is_reader_gone();
    if gone {
        liveness::looks_in_vain(ch);
    }
    let ring = ch.ring(&me.domain).filter(|_| !gone && !t.closed());
    let Some(ring) = ring.filter(|_| t.sleepers() == 0 || t.woken()) else {
        return Some(None);
    };
    let r = ch.head().position();
    if m.valid() {
        if r >= m.position(r) && ch.lane(fd).is_empty() {
            let cleared = t.sleepers() == 0 && clear_drained(me, ch, fd, r, m);
            return if cleared { None } else { Some(None) };
        }
        if !shrink(ch, fd) {
            return Some(None);
        }
        ch.writer.0.sleeper.store(me.tid, Relaxed);
        return Some(Some(EAGAIN));
    }
    let pos = t.wide(r);
    // A pump must find room for what goes into the kernel lane now.
    if clusters::back(me, ch, ring, pos, 1) == 0 {
        return Some(None);
    }
    let place = wake::set_chunk_place(ch, pos);
    ch.cas_tail(t, t.with(Tail::WOKEN)).ok()?;
    let v = [Iov {
        base: b.as_ptr() as usize,
        len: b.len(),
    }];
    let mut w = Progress {
        at: Buffers::new(&v),
        want: b.len(),
        done: 0,
    };
    let said = wake::to_kernel(me, ch, fd, &mut w, b.len(), place);
    Some(Some(said.map_or_else(|e| e, |n| n as Ret)))
}
