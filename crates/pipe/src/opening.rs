//! Opening a channel: the ring gets its memory, and the bytes of the kernel lane move into it.
//!
//! Invariant: nothing is opened but under the writers' lock, where every holder takes part and nobody is in a call that
//! the tail does not count. An intent says how many bytes the lane held, as long as they may be in both or in neither.
//! Not here: when a ring is worth having (policy.rs), closing it (handback.rs).
use crate::channel::Channel;
use crate::handback::{MARKED, OPENING, intend};
use crate::lane::Lane;
use crate::mode::Mode;
use crate::reason::Reason;
use crate::ring::{Ring, SLACK, SMALLEST};
use crate::{Caller, clusters, lock, pass_through, policy, size, socket};
use core::sync::atomic::Ordering::Relaxed;

/// Opens a closed channel if every holder takes part and nobody is in a native write. Called by a writer of
/// `want` bytes.
pub fn open(me: &Caller, ch: &Channel, fd: usize, want: usize) -> bool {
    use byway_mem::layout::flags::NO_CARRY;
    let forever = ch.forever();
    let t = ch.tail();
    let in_use = t.kernel_writers() > 0 || t.sleepers() > 1;
    if in_use || me.domain.header().flags.load(Relaxed) & NO_CARRY != 0 {
        return false;
    }
    match Mode::of(t, forever) {
        Mode::Closed => {}
        Mode::PassThrough => {
            ch.counts_again(t);
            policy::ask_soon(&ch.writer);
            return false;
        }
        _ => return false,
    }
    if ch.is_hindered()
        || !ch.holders_known(&me.domain, fd)
        || (ch.rules().readers_return && ch.lane(fd).is_reader_gone())
    {
        return false;
    }
    if !is_drained(me, ch, fd) {
        match ch.is_socket() {
            true => policy::ask_rarely(&ch.writer),
            false => policy::ask_later(&ch.writer),
        }
        return false;
    }
    let Some(_taken) = lock::try_take(me, ch, t) else {
        return false;
    };
    let ok = opened(me, ch, fd, want);
    lock::unlock(me, ch);
    ok
}

/// Waits a little where the kernel lane holds more than a ring may begin with: a ring that was given back has left it
/// larger, and a writer that is the faster one keeps it full. Its readers have enough meanwhile. Before the lock, which
/// they need.
fn is_drained(me: &Caller, ch: &Channel, fd: usize) -> bool {
    if ch.is_socket() {
        return socket::is_drained(me, ch, fd);
    }
    let most = ch.sized().unwrap_or(policy::ring_bytes(me) / 2);
    let mut p = lock::Patience::new();
    while ch.lane(fd).held() > most {
        if p.turns() > 100 {
            return false;
        }
        p.wait(me);
    }
    true
}

fn opened(me: &Caller, ch: &Channel, fd: usize, want: usize) -> bool {
    // Looked at under the lock: an exec raises `pending` before it hands back, which needs this lock.
    if ch.facts.0.pending.load(Relaxed) != 0 || ch.forever() || !ch.holders_known(&me.domain, fd) {
        return false;
    }
    if pass_through::is_somebody_inside(me, ch) {
        policy::ask_later(&ch.writer);
        return false;
    }
    // What came into the lane since was no part of a write that the ring had the rest of.
    ch.m.0.more.store(0, Relaxed);
    if ch.is_socket() {
        return socket::opened(me, ch, fd, want);
    }
    let lane = ch.lane(fd);
    // A reader inside the kernel with bytes there is on its way out, and no new one enters while we hold the lock.
    let mut p = lock::Patience::new();
    while ch.tail().sleepers() > 0 && !lane.is_empty() {
        if p.turns() > 100 {
            // It waits for a set of epoll's, and its process has not come to it yet.
            policy::ask_later(&ch.writer);
            return false;
        }
        p.wait(me);
    }
    if !lane.is_ours() {
        return false;
    }
    let Ok(tmp) = lane.reopen(me) else {
        ch.keep_closed();
        ch.facts.0.why.store(Reason::Control as u8, Relaxed);
        return false;
    };
    let (held, asleep) = (tmp.held(), ch.tail().sleepers() > 0);
    ch.looks_at_size(*tmp);
    clusters::release(me.domain, ch);
    let Some((most, need)) = promised(me, ch, &tmp) else {
        no_memory(ch);
        return false;
    };
    if held > most / 2 || (held > 0 && asleep) {
        return false;
    }
    let r = ch.head().position();
    let Some(ring) = ring(me, ch, most, r, held.max(1)) else {
        no_memory(ch);
        return false;
    };
    clusters::promise(me.domain, ch, need);
    intend(ch, OPENING, held);
    let got = tmp.pull(ring, r, held);
    if let Some(size) = ch.rules().open_size {
        ch.facts.0.shrunk.store(MARKED, Relaxed);
        tmp.resize(size);
    }
    drop(tmp);
    ch.opens(r, got);
    intend(ch, 0, 0);
    ch.writer.0.forget_native();
    true
}

/// Bytes that a ring may hold, and how large the kernel lane may then have to be: what lies in it should fit into that at
/// a hand-back. `None`: too few.
fn promised(me: &Caller, ch: &Channel, lane: &Lane) -> Option<(usize, usize)> {
    if let Some(set) = size::ring(me, ch) {
        return set;
    }
    let size = ch.facts.0.size.load(Relaxed) as usize;
    let asked = policy::ring_bytes(me);
    let wanted = clusters::affordable(me.domain, asked);
    // One that holds less than the pipe is full too soon; and given back full would leave a pipe that is not.
    let least = asked.min(size + SLACK as usize);
    if wanted < least {
        return None;
    }
    let most = lane.resize_within(2 * wanted, 2 * SMALLEST) / 2;
    lane.resize(size);
    if most == 0 {
        ch.keep_closed();
    }
    (most >= least).then_some((most, clusters::growth(most)))
}

/// A ring for `most` bytes, with memory for the first `n` from `r` on.
pub(crate) fn ring<'a>(
    me: &'a Caller,
    ch: &'a Channel,
    most: usize,
    r: u64,
    n: usize,
) -> Option<Ring<'a>> {
    if !clusters::shape(me, ch, most) {
        return None;
    }
    let ring = ch.ring(&me.domain)?;
    (clusters::back(me, ch, ring, r, n) >= n).then_some(ring)
}

/// There is none for a ring now: the kernel's, until the traffic has shown again that a ring is worth asking for.
pub(crate) fn no_memory(ch: &Channel) {
    ch.facts.0.why.store(Reason::Memory as u8, Relaxed);
    ch.writer.0.forget_native();
}
