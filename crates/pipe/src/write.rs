//! write(2) on a carried channel: into the ring, or, where a reader sleeps or the ring is full, a piece into the
//! kernel's pipe at its place in the stream.
//!
//! Invariant: the one publish point is the CAS on the tail in `publish`, and it succeeds only if nobody went to sleep
//! since the tail was loaded (E4). The kernel lane gets bytes only under the writers' lock and only when it is empty
//! (I2), one slot at most (I3).
//! Not here: the steps under the lock (write/locked.rs); opening and closing the channel (opening.rs, handback.rs).
use crate::channel::{Channel, PIPE_BUF, TOLD};
use crate::copy::Buffers;
use crate::handback::ONE_SLOT;
use crate::mode::Mode;
use crate::reason::Reason;
use crate::wait::late;
use crate::word::{Chunk, Head, Tail};
use crate::{
    Caller, Step, biased_lock, fifo, handback, liveness, lock, opening, pass_through, policy,
    socket, spiller, tcp,
};
use byway_sys::errno::{EAGAIN, EFAULT, EINTR, EPIPE, Ret};
use byway_sys::file;
use core::sync::atomic::Ordering::Relaxed;

mod locked;

/// A write in progress: what it has done, and whether its native part is counted in the tail.
#[derive(Clone, Copy)]
pub struct Progress<'a> {
    pub at: Buffers<'a>,
    pub want: usize,
    pub done: usize,
}

/// Of a long write, how much of the caller's buffer is looked at in one go: a ring's worth.
const AHEAD: usize = 512 * 1024;

/// Carries as much as it can; tells how to go on when the call must sleep or belongs to the kernel. A write of one
/// buffer is to be tried by `fast_path::write` before.
#[inline]
pub fn write(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress) -> Step {
    write_within(me, ch, fd, w, u64::MAX)
}

/// As [`write`], where the ring counts as full when `most` bytes lie in it.
pub fn write_within(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress, most: u64) -> Step {
    goes(me, ch, fd, w, (most, false))
}

/// As [`write`], without a wait for room.
pub fn write_now(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress) -> Step {
    goes(me, ch, fd, w, (u64::MAX, true))
}

/// `now`: it does not wait awake for room.
fn goes(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress, (most, now): (u64, bool)) -> Step {
    loop {
        let t = ch.tail();
        if t.closed() {
            match closed(me, ch, fd, w) {
                Some(step) => return step,
                None => continue,
            }
        }
        // To wake a sleeper is to write to the kernel's pipe, which asks the same.
        let rings = t.sleepers() > 0 && !t.woken();
        let rules = ch.rules();
        let look = w.done == 0 && (!rings || rules.outsiders) && liveness::look_again(me, ch);
        if rules.outsiders && w.done == 0 && is_anothers(me, ch, fd, look) {
            continue;
        }
        if look && !rings && ch.lane(fd).is_reader_gone() {
            // LINUX pipe_write: no reader: SIGPIPE and EPIPE, from the kernel itself; and from now on at every write.
            handback::hand_back(me, ch, fd, !rules.readers_return, Reason::ReaderGone);
            if rules.readers_return {
                // Counted, as every call of the kernel on a channel that may be opened again.
                continue;
            }
            return socket::tells_writer(ch, fd, w.done).map_or(Step::Native, Step::Done);
        }
        if !w.at.check((w.want - w.done).min(AHEAD), |p, n| {
            (me.access)(p, n, false)
        }) {
            if w.done > 0 {
                return Step::Done(w.done as Ret);
            }
            if !handback::hand_back(me, ch, fd, false, Reason::Address) {
                return Step::Native;
            }
            continue;
        }
        if lock::enter(me, ch, fd, Tail::closed).is_none() {
            continue;
        }
        match locked::locked(me, ch, fd, w, (most, now)) {
            Some(step) => return step,
            None => continue,
        }
    }
}

/// Where outsiders may come: hands the channel back if one has written into it, or nobody watches for outsiders any more.
pub(crate) fn is_anothers(me: &Caller, ch: &Channel, fd: usize, look: bool) -> bool {
    let strange = (look || (me.heard)()) && fifo::has_outside_bytes(ch, fd);
    let theirs = strange || (look && liveness::unwatched(me));
    theirs && handback::hand_back(me, ch, fd, false, Reason::NotTakingPart)
}

/// Before a call that writes `want` bytes by itself: opens the channel where that pays, else counts the call. `None`: it is
/// open.
pub fn native(me: &Caller, ch: &Channel, fd: usize, want: usize) -> Option<Step> {
    let w = Progress {
        at: Buffers::new(&[]),
        want,
        done: 0,
    };
    while ch.tail().closed() {
        if let Some(step) = closed(me, ch, fd, &w) {
            return Some(step);
        }
    }
    None
}

/// The kernel's turn: opens the channel where that pays, else counts the caller's own write. `None`: look again.
fn closed(me: &Caller, ch: &Channel, fd: usize, w: &Progress) -> Option<Step> {
    if let Some(told) = socket::tells_writer(ch, fd, w.done) {
        return Some(Step::Done(told));
    }
    let before = if ch.tail().passes_through() {
        pass_through::uncounted(me)
    } else {
        0
    };
    if w.done == 0
        && policy::is_hot(&ch.writer, w.want, before)
        && opening::open(me, ch, fd, w.want)
    {
        return None;
    }
    if ch.is_tcp() {
        tcp::hurries(ch, fd);
    }
    // Also when it is the rest of a write that the ring began: nobody may open the channel under it.
    counts(me, ch, fd, w.done)
}

/// Counts the caller's own call, of which `done` bytes are written, if the channel is the kernel's. `None`: look again.
pub fn counts(me: &Caller, ch: &Channel, fd: usize, done: usize) -> Option<Step> {
    let mut p = lock::Patience::new();
    loop {
        // E5: before the tail. It holds also where this is a handler over an owner of the lock.
        let forever = ch.forever();
        let t = ch.tail();
        let mode = Mode::of(t, forever);
        if mode == Mode::Open {
            return None;
        }
        if t.lock_owner() != 0 && t.lock_owner() != me.tid {
            if mode == Mode::Spilling
                && let Some(step) = spiller::full(ch, fd, done, &p)
            {
                return Some(step);
            }
            // Somebody opens the channel, hands it back, or died doing so: `take` settles the last.
            if p.wait(me) {
                lock::settle(me, ch, fd);
            }
            continue;
        }
        if forever {
            return Some(Step::Native);
        }
        if t.kernel_writers() == Tail::MOST {
            ch.keep_closed();
            continue;
        }
        if ch.cas_tail(t, t.kernel_writer_added()).is_ok() {
            return Some(Step::NativeCounted);
        }
    }
}

/// Ends the native write that `closed` counted; `ret` is what it returned.
pub fn finish(ch: &Channel, ret: Ret) {
    has_written(ch, ret);
    leaves(ch);
}

/// Counts what it returned. It still counts as under way.
pub fn has_written(ch: &Channel, ret: Ret) {
    ch.writer.0.count_kernel(ret);
    // A socket's ring opens only where somebody has read since (`socket::settled`), and a reader may not know it yet.
    if ret == EAGAIN && !ch.is_socket() {
        ch.facts.0.full.store(TOLD, Relaxed);
    }
}

/// A native write counts as under way no longer.
pub fn leaves(ch: &Channel) {
    let mut t = ch.tail();
    loop {
        match ch.cas_tail(t, t.kernel_writer_gone()) {
            Ok(()) => return,
            Err(now) => t = now,
        }
    }
}

/// The one place at which bytes of the ring come into the stream: `n` of them, the tail being `t`, which becomes `then`
/// but for the tail. `is_inline`: they were put next to the tail too.
#[inline]
pub(crate) fn publish(ch: &Channel, t: Tail, then: Tail, n: usize, is_inline: bool) -> bool {
    let then = then.with_position(t.position()).plus(n);
    biased_lock::remember(ch, then);
    let cas = if is_inline {
        Channel::cas_tail
    } else {
        Channel::move_tail
    };
    let done = cas(ch, t, then).is_ok();
    if done {
        ch.writer.0.count(n);
    } else {
        biased_lock::forget(ch);
    }
    done
}

/// The kernel lane to one slot: its chunk then makes it "full" for poll and for the sleep of a writer. Whether it has
/// one now.
pub(crate) fn shrink(ch: &Channel, fd: usize) -> bool {
    let shrunk = &ch.facts.0.shrunk;
    if shrunk.load(Relaxed) != ONE_SLOT && ch.lane(fd).resize(PIPE_BUF) {
        shrunk.store(ONE_SLOT, Relaxed);
    }
    shrunk.load(Relaxed) == ONE_SLOT
}

/// Under the writers' lock, where the chunk `m` was read to its end and nobody has found the lane empty since: says that
/// it is. False: a reader is at work.
pub(crate) fn clear_drained(me: &Caller, ch: &Channel, fd: usize, r: u64, m: Chunk) -> bool {
    if !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return false;
    }
    if ch.chunk() == m && ch.lane(fd).is_empty() {
        ch.clear_chunk(m);
    }
    lock::release(me, ch, r);
    true
}

/// After a sleep that `write` asked for: `Some` ends the call, `None` asks `write` again.
pub fn woken(me: &Caller, fd: usize, w: &Progress, restartable: bool, ret: Ret) -> Option<Ret> {
    late::returns(me);
    if restartable {
        // LINUX vmsplice(2) of a bad address: EFAULT once there is room; EINTR and EPIPE as write(2) has them.
        return match ret {
            EFAULT => None,
            EINTR | EPIPE => Some(ret),
            _ => {
                byway_sys::process::nap(1000);
                None
            }
        };
    }
    if ret == EINTR {
        return Some(w.done as Ret);
    }
    if file::reader_gone(fd) {
        // LINUX pipe_write: the partial count is returned, and SIGPIPE is raised all the same.
        let byte = 0u8;
        // SAFETY: one byte of ours; nobody can read it.
        unsafe { file::write(fd, &byte, 1) };
        return Some(w.done as Ret);
    }
    None
}
