//! Giving a channel back to the kernel: every byte of the ring into the kernel lane, in order.
//!
//! Invariant: at every instant each byte is in the ring or in the kernel lane, in stream order, or an intent says which
//! of the two holds (a kernel read or write of all of it is one system call, so a SIGKILL falls before or after it).
//! Not here: when to hand back; that is the dispatcher's decision. Opening again (opening.rs); what a full pipe does not
//! take (spiller.rs).
//!
//! It is done by a description for both directions, so the holder of either end can do it (lane.rs, `Reopened`).
use crate::Caller;
use crate::channel::{AWAITED, Channel, PIPE_BUF, TOLD};
use crate::fifo::{more_room, weave};
use crate::lane::{Lane, Reopened};
use crate::reason::Reason;
use crate::ring::SLACK;
use crate::word::{Head, Tail};
use crate::{clusters, datagram, lock, policy, ready, socket, spiller};
use byway_sys::errno::EMFILE;
use byway_sys::tcp::Name;
use byway_sys::{file, table};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;

/// What was about to be moved: kind, and how many bytes the kernel lane held; of `MOVING`, how many go into it.
pub(crate) const OPENING: u64 = 1 << 60;
const PUMPING: u64 = 2 << 60;
pub(crate) const SPILLING: u64 = 3 << 60;
pub(crate) const MOVING: u64 = 4 << 60;
const KIND: u64 = 7 << 60;
/// `shrunk`: the kernel lane has one slot; the kernel lane has `FIFO_SIZE`.
pub(crate) const ONE_SLOT: u8 = 1;
pub(crate) const MARKED: u8 = 2;

pub(crate) fn intend(ch: &Channel, kind: u64, held: usize) {
    ch.facts.0.intent.store(kind | held as u64, Relaxed);
}

/// Takes the kernel's chunk behind the ring's bytes, so that a writer asleep on a full ring wakes at half.
/// True: there is room by now.
pub fn pump(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let t = ch.tail();
    if t.lock_owner() != 0 || t.sleepers() != 0 || t.closed() {
        return t.closed();
    }
    let Some(_taken) = lock::try_take(me, ch, t) else {
        return false;
    };
    let r = ch.head().position();
    let mut done = false;
    if lock::try_hold(me, ch, r, Head::READS_LANE) {
        done = pump_locked(me, ch, ch.lane(fd), r);
        lock::release(me, ch, r);
    }
    lock::unlock(me, ch);
    done
}

/// As [`pump`], as soon as a page is free, if somebody waits for it by poll(2) (`ready::arm_writer`).
///
/// LINUX pipe_poll: a pipe is writable when one page of it is free.
pub fn pump_awaited(me: &Caller, ch: &Channel, fd: usize) {
    let full = &ch.facts.0.full;
    // ORDER: the head has moved before this look; pairs with the one in `arm_writer`.
    fence(SeqCst);
    let mut patience = lock::Patience::new();
    while full.load(Relaxed) == AWAITED {
        // Before the lane is emptied: one that finds it full after that waits anew.
        full.store(TOLD, Relaxed);
        if pump(me, ch, fd) {
            return;
        }
        full.store(AWAITED, Relaxed);
        // The owner of the lock may have looked before the head moved. One that was stopped is not waited for.
        let owner = ch.tail().lock_owner();
        if owner == 0 || owner == me.tid || patience.turns() >= lock::Patience::LONG {
            return;
        }
        patience.wait(me);
    }
}

/// As [`pump`], by a writer that may not sleep and holds the writers' lock: true if the kernel lane was empty or is
/// now.
pub fn pull_up(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    if ch.tail().sleepers() != 0 || !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return false;
    }
    let tmp = ch.lane(fd).reopen(me);
    let done = tmp.is_ok_and(|tmp| pump_locked(me, ch, *tmp, r));
    lock::release(me, ch, r);
    done
}

/// Under both locks. True when the kernel lane is empty afterwards.
fn pump_locked(me: &Caller, ch: &Channel, lane: Lane, r: u64) -> bool {
    let (t, m) = (ch.tail(), ch.chunk());
    let pos = t.wide(r);
    let Some(ring) = ch.ring(&me.domain) else {
        return false;
    };
    if !m.valid() {
        return true;
    }
    if m.position(r) != pos || pos - r > ring.bytes() - SLACK {
        return false;
    }
    let held = lane.held();
    if held > PIPE_BUF || clusters::back(me, ch, ring, pos, 1) == 0 {
        return false;
    }
    intend(ch, PUMPING, held);
    let got = lane.pull(ring, pos, held);
    ch.clear_chunk(m);
    let _ = ch.move_tail(t, t.with_position(t.position().wrapping_add(got as u32)));
    intend(ch, 0, 0);
    true
}

/// With the readers held: waits until a reader that was woken has left the kernel, before what comes behind its bytes
/// goes there. It would take some of that too, and if this thread were killed then, the lane's count would not tell how
/// much had gone there. One that was stopped is not waited for.
pub(crate) fn wait_for_taker(me: &Caller, ch: &Channel) {
    let mut p = lock::Patience::new();
    while ch.is_taken_from() && !p.is_over() {
        p.wait(me);
    }
}

/// Closes the ring: every byte of it into the kernel lane, in order. `forever`: never opened again.
///
/// False: `fd` is not the pipe's any more, another thread has closed it; then nothing was moved, and the caller's own
/// call finds out what the number is now.
pub fn hand_back(me: &Caller, ch: &Channel, fd: usize, forever: bool, why: Reason) -> bool {
    if ch.is_inbox() {
        datagram::leaves(me, ch, Name::own(fd).map(|(_, name)| name), why);
        return true;
    }
    if forever {
        // The first that is for good is told, and no earlier one that was for the moment.
        let told = &ch.facts.0.why;
        if told.load(Relaxed) == Reason::Cold as u8 || !ch.forever() && why != Reason::Cold {
            told.store(why as u8, Relaxed);
        }
        ch.keep_closed();
    }
    // An opening in progress holds the lock while the channel is still closed: wait for it. Not for a spiller.
    let is_done = |t: Tail| t.closed() && (t.lock_owner() == 0 || t.spiller() != 0);
    let Some(_taken) = lock::take(me, ch, fd, is_done) else {
        return true;
    };
    if ch.tail().closed() {
        lock::unlock(me, ch);
        return true;
    }
    if matches!(why, Reason::SecondReader | Reason::Splice | Reason::Address) {
        policy::open_later(ch, why);
    }
    let r = lock::hold(me, ch, Head::SPILLS);
    // Before the kernel has the bytes: what it tells of them is of no ring (crate preload, `Entry::was_quiet`).
    ch.reader.0.hand_backs.fetch_add(1, Relaxed);
    let done = spill(me, ch, fd, r);
    if !done {
        ch.reader.0.hand_backs.fetch_sub(1, Relaxed);
        lock::release(me, ch, r);
        lock::unlock(me, ch);
    }
    done
}

/// Under the writers' lock and with the readers held at `r`: spills, closes, lets both go, or gives both to a spiller.
/// False: nothing of that, for `fd` is not the pipe's any more.
fn spill(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    if ch.is_socket() {
        return socket::spill(me, ch, fd, r);
    }
    let empty = ch.tail().wide(r) == r && !ch.chunk().valid();
    let lane = ch.lane(fd);
    while lane.is_ours() {
        // Nothing to move: no reopening. For a moment it would be the writer, or the reader, for whom somebody waits in
        // open(2).
        let tmp = if empty { Err(0) } else { lane.reopen(me) };
        let why = match tmp {
            Ok(tmp) => {
                spill_by(me, ch, *tmp, Some(tmp), r);
                return true;
            }
            Err(why) => why,
        };
        if empty || lane.is_for_writing() {
            spill_by(me, ch, lane, None, r);
            return true;
        }
        if why == EMFILE && spill_elsewhere(me, ch, fd, r) {
            return true;
        }
        // The system has no more files, or the like: it will.
        byway_sys::process::nap(1000);
    }
    false
}

/// [`spill`] of a reader whose process has no descriptor left: in a table of its own one is made free.
fn spill_elsewhere(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    let mut done = false;
    let me = Caller { rseq: false, ..*me };
    table::with_own(|| {
        file::close(fd);
        if let Ok(tmp) = ch.lane(fd).reopen_of(&me) {
            spill_by(&me, ch, *tmp, Some(tmp), r);
            done = true;
        }
    });
    done
}

/// By `lane`, which is `tmp` if that is there.
fn spill_by(me: &Caller, ch: &Channel, lane: Lane, tmp: Option<Reopened>, r: u64) {
    let size = ch.facts.0.size.load(Relaxed) as usize;
    if ch.chunk().valid() && ch.chunk().position(r) > r {
        pump_locked(me, ch, lane, r);
    }
    let pos = ch.tail().wide(r);
    let n = (pos - r) as usize;
    let ring = ch.ring(&me.domain).filter(|x| pos - r <= x.bytes());
    if n > 0 {
        wait_for_taker(me, ch);
    }
    let own = if ch.chunk().valid() && ch.chunk().position(r) == r {
        ch.facts.0.lane.load(Relaxed) as usize
    } else {
        0
    };
    let held = lane.held();
    let mut grown = n + held > size;
    let outsider = n > 0 && ch.rules().outsiders && held > own;
    if let (true, Some(ring)) = (n > 0, ring) {
        let has_room = ready::has_room(me, ch, lane.number());
        let room = (n + held + 8192).next_power_of_two().max(size);
        intend(ch, SPILLING, held);
        if !outsider || !weave(me, ch, lane, ring, r, n, own) {
            lane.resize_within(room, lane.size() + 1);
            let left = lane.pour(ring, r, n, |_| false);
            let at = pos - left as u64;
            if left > 0
                && let Some(tmp) = &tmp
                && spiller::make(me, ch, tmp, at, pos)
            {
                return;
            }
            lane.pour(ring, at, left, |left| more_room(me, ch, lane, left));
        }
        grown = ch.grows(lane, n + held, has_room);
    } else if ch.facts.0.shrunk.load(Relaxed) != 0 {
        lane.resize(size);
    }
    ch.facts.0.shrunk.store(0, Relaxed);
    drop(tmp);
    if !grown {
        clusters::release(me.domain, ch);
    }
    closed(me, ch, pos);
}

/// The commit of a hand-back: ring empty at `pos`, closed, both sides free, the clusters given back.
pub(crate) fn closed(me: &Caller, ch: &Channel, pos: u64) {
    let h = ch.head();
    ch.cas_head(h, Head::owned(pos, me.tid, Head::SPILLS));
    ch.set_chunk(ch.chunk().none());
    clusters::give(&clusters::user(me), ch);
    ch.closes(me);
    lock::release(me, ch, pos);
    intend(ch, 0, 0);
    ch.writer.0.forget_native();
    lock::unlock(me, ch);
}

/// After a dead owner: called with the writers' lock just taken over, which may be free, or a spiller's, when it returns.
pub fn repair(me: &Caller, ch: &Channel, fd: usize) {
    let intent = ch.facts.0.intent.load(Relaxed);
    let held = (intent & !KIND) as usize;
    if intent & KIND == 0 {
        return;
    }
    let r = lock::hold(me, ch, Head::SPILLS);
    let lane = ch.lane(fd);
    let now = lane.held();
    let spilled = match intent & KIND {
        _ if ch.is_socket() => socket::repair(me, ch, fd, r),
        // It was complete.
        OPENING if !ch.tail().closed() => {
            intend(ch, 0, 0);
            false
        }
        OPENING | PUMPING => {
            let t = ch.tail();
            // Where they go, whether or not the tail counts them already.
            let pos = if t.closed() {
                r
            } else {
                ch.chunk().position(r)
            };
            let moved = held.saturating_sub(now);
            let tmp = lane.reopen(me);
            if let Some(ring) = ch.ring(&me.domain) {
                let from = tmp.as_ref().map_or(lane, |tmp| **tmp);
                let got = moved + from.pull(ring, pos + moved as u64, held - moved);
                let _ = ch.move_tail(t, t.with_position((pos as u32).wrapping_add(got as u32)));
            }
            drop(tmp);
            ch.set_chunk(ch.chunk().none());
            intend(ch, 0, 0);
            spill(me, ch, fd, r)
        }
        MOVING if !ch.tail().closed() => {
            let m = ch.chunk();
            let end = m.position(r);
            // One call: all of them, or none. `held` is how many. Once the head is behind them it was complete.
            let r = match m.valid() && end > r {
                true if now >= held => end,
                true => {
                    ch.clear_chunk(m);
                    r
                }
                false => r,
            };
            intend(ch, 0, 0);
            spill(me, ch, fd, r)
        }
        // What a spiller has not written goes with it.
        _ if ch.tail().closed() => {
            closed(me, ch, ch.tail().wide(r));
            true
        }
        _ => {
            let pos = ch.tail().wide(r);
            // Nobody has read since, but for an outsider: whatever is there of a FIFO's ring, all counts as moved.
            let moved = match now.saturating_sub(held) as u64 {
                1.. if ch.rules().outsiders => pos - r,
                k => k.min(pos - r),
            };
            if moved > 0 && r + moved == pos {
                closed(me, ch, pos);
                true
            } else {
                if moved > 0 {
                    let h = ch.head();
                    ch.cas_head(h, Head::owned(r + moved, me.tid, Head::SPILLS));
                    ch.set_chunk(ch.chunk().next(r + moved));
                    intend(ch, SPILLING, now);
                }
                spill(me, ch, fd, r + moved)
            }
        }
    };
    if !spilled {
        lock::release(me, ch, ch.head().position());
    }
}

/// The readers' side has a dead owner: whoever reads settles it.
pub fn settle(me: &Caller, ch: &Channel, fd: usize) {
    if ch.tail().spiller() != 0 {
        return;
    }
    if ch.tail().closed() {
        let _held = me.hold_signals();
        let r = lock::hold(me, ch, Head::SPILLS);
        lock::release(me, ch, r);
        return;
    }
    if let Some(_taken) = lock::take(me, ch, fd, Tail::closed) {
        let r = lock::hold(me, ch, Head::SPILLS);
        lock::release(me, ch, r);
        lock::unlock(me, ch);
    }
}
