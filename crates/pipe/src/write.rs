//! write(2) on a carried channel: into the ring, or, where a reader sleeps or the ring is full, a piece into the
//! kernel's pipe at its place in the stream.
//!
//! Invariant: the one publish point is the CAS on the tail in `publish`, and it succeeds only if nobody went to sleep
//! since the tail was loaded (E4). The kernel lane gets bytes only under the writers' lock and only when it is empty
//! (I2), one slot at most (I3).
//! Not here: closing the channel, opening it (handback.rs).
use crate::channel::{Channel, PIPE_BUF, Reason};
use crate::copy::Buffers;
use crate::handback::ONE_SLOT;
use crate::word::{Head, Tail};
use crate::{
    Caller, Step, biased_lock, clusters, fifo, handback, lock, pass_through, policy,
    restartable_copy, single_copy, wake,
};
use byway_sys::errno::{EAGAIN, EFAULT, EINTR, EPIPE, Ret, failed};
use byway_sys::file;
use core::sync::atomic::Ordering::Relaxed;

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
/// buffer is to be tried by `quick::write` before.
#[inline]
pub fn write(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress) -> Step {
    write_within(me, ch, fd, w, u64::MAX)
}

/// As [`write`], where the ring counts as full when `most` bytes lie in it.
pub fn write_within(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress, most: u64) -> Step {
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
        let look = w.done == 0 && (!rings || ch.is_fifo()) && policy::look_again(me, ch);
        if ch.is_fifo() && w.done == 0 && is_anothers(me, ch, fd, look) {
            continue;
        }
        if look && !rings && file::reader_gone(fd) {
            // LINUX pipe_write: no reader: SIGPIPE and EPIPE, from the kernel itself; and from now on at every write.
            // A FIFO may get another reader.
            handback::hand_back(me, ch, fd, !ch.is_fifo(), Reason::ReaderGone);
            if ch.is_fifo() {
                // Counted, as every call of the kernel on a channel that may be opened again.
                continue;
            }
            return Step::Native;
        }
        if !w.at.check((w.want - w.done).min(AHEAD), |p, n| {
            (me.access)(p, n, false)
        }) {
            if w.done > 0 {
                return Step::Done(w.done as Ret);
            }
            if !handback::hand_back(me, ch, fd, true, Reason::Address) {
                return Step::Native;
            }
            continue;
        }
        if lock::enter(me, ch, fd, Tail::closed).is_none() {
            continue;
        }
        match locked(me, ch, fd, w, most) {
            Some(step) => return step,
            None => continue,
        }
    }
}

/// Of a FIFO: gives it back if an outsider has written into it, or nobody watches for outsiders any more.
pub(crate) fn is_anothers(me: &Caller, ch: &Channel, fd: usize, look: bool) -> bool {
    let strange = (look || (me.heard)()) && fifo::has_outside_bytes(ch, fd);
    let theirs = strange || (look && policy::unwatched(me));
    theirs && handback::hand_back(me, ch, fd, false, Reason::NotTakingPart)
}

/// The kernel's turn: opens the channel where that pays, else counts the caller's own write. `None`: look again.
fn closed(me: &Caller, ch: &Channel, fd: usize, w: &Progress) -> Option<Step> {
    let before = if ch.tail().passes_through() {
        pass_through::uncounted(me)
    } else {
        0
    };
    if w.done == 0 && policy::is_hot(&ch.writer, w.want, before) && handback::open(me, ch, fd) {
        return None;
    }
    // Counted also when it is the rest of a write that the ring began: nobody may open the channel under it.
    let mut p = lock::Patience::new();
    loop {
        let forever = ch.forever();
        let t = ch.tail();
        if !t.closed() {
            return None;
        }
        if t.lock_owner() != 0 && t.lock_owner() != me.tid {
            // Somebody opens the channel, hands it back, or died doing so: `take` settles the last.
            if p.wait(me.cpus) {
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
    if ret == EAGAIN {
        ch.facts.0.full.store(1, Relaxed);
    }
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

/// Under the lock. `None`: the lock was dropped or lost, begin again.
#[inline(never)]
fn locked(me: &Caller, ch: &Channel, fd: usize, w: &mut Progress, most: u64) -> Option<Step> {
    let (mut spun, mut offered) = (false, false);
    loop {
        let rest = w.want - w.done;
        let t = ch.tail();
        if t.lock_owner() != me.tid {
            return None;
        }
        if t.closed() {
            lock::unlock(me, ch);
            return None;
        }
        let m = ch.chunk();
        let Some(ring) = ch.ring(&me.domain) else {
            if ch.tail() != t {
                continue;
            }
            lock::unlock(me, ch);
            return Some(Step::Native);
        };
        let cap = ring.cap(w.want, m.valid()).min(most);
        // The head of any time says too little room at most: the head, which readers are changing on another CPU, is
        // looked at only if that is not enough.
        let mut r = ch.writer.0.seen_r();
        if m.valid() || t.sleepers() > 0 || t.wide(r) - r + rest as u64 > cap {
            r = ch.head().position();
            ch.writer.0.seen.store(r, Relaxed);
        }
        let pos = t.wide(r);
        let used = pos - r;
        if used > ring.bytes() {
            if ch.tail() != t {
                // A handler wrote since the tail was loaded, and readers have had that too: the head is beyond this
                // tail.
                continue;
            }
            // Not a state that any of us writes.
            lock::unlock(me, ch);
            return Some(Step::Native);
        }
        if t.sleepers() > 0 && !t.woken() {
            let _held = me.hold_signals();
            if ch.tail() != t {
                continue;
            }
            match wake::long(me, ch, fd, w, t, ring, pos) {
                Ok(true) => {
                    if policy::on_wake(me, ch, w.want) {
                        pass_through::leave(me, ch, fd);
                    }
                    return Some(Step::Done(w.done as Ret));
                }
                Ok(false) => continue,
                Err(e) => {
                    lock::unlock(me, ch);
                    return Some(Step::Done(if w.done > 0 { w.done as Ret } else { e }));
                }
            }
        }
        if !offered && !m.valid() && t.sleepers() == 0 && policy::may_offer(me, ch, rest) {
            offered = true;
            let empty = || t.wide(ch.head().position()) == ch.head().position();
            if !empty() {
                // Left alone, a stream whose ends are as fast as each other never has it empty.
                policy::offer_waits(me, ch, empty);
            }
            r = ch.head().position();
            ch.writer.0.seen.store(r, Relaxed);
            let (base, n) = w.at.run();
            if t.wide(r) != r {
                policy::on_offer(&ch.writer, false);
            } else if n >= rest.min(AHEAD) {
                let k = single_copy::offer(me, ch, base, rest.min(AHEAD));
                w.at.advance(k);
                w.done += k;
                ch.writer.0.count(k);
                if w.done == w.want || k == rest.min(AHEAD) {
                    lock::unlock(me, ch);
                    return (w.done == w.want).then_some(Step::Done(w.done as Ret));
                }
                continue;
            }
        }
        let used = t.wide(r) - r;
        let behind = m.valid() && r < m.position(r);
        let room = if behind {
            0
        } else {
            cap.saturating_sub(used) as usize
        };
        // Little room for short writes counts as none, until we have waited: else each of them would look at the head.
        let little = policy::ROOM.min(cap as usize / 4);
        let scarce = !spun && !m.valid() && me.cpus > 1 && rest < little && room < little;
        // LINUX pipe(7): up to PIPE_BUF bytes are written whole.
        if room > 0 && (w.want > PIPE_BUF || room >= rest) && !scarce {
            let want = rest.min(room).min(policy::piece(me));
            let Some(k) = clusters::back_while(me, ch, t, ring, pos, want) else {
                continue;
            };
            if k < want && (k == 0 || w.want <= PIPE_BUF) {
                return out_of_memory(me, ch, fd, w);
            }
            let began = policy::begins(me, pos, k);
            // SAFETY: `write` checked the buffers; the room is free below the head's release (E3), and ours by the lock
            // as long as the tail is `t`.
            if !unsafe { restartable_copy::put(me, ch, t, &w.at, ring, pos, k) } {
                continue;
            }
            let last = k == rest;
            // Of an overflow into the kernel lane that has been read, before which nobody slept: a quick write must
            // find the tail idle.
            let over = t.sleepers() == 0 && !m.valid();
            let then = if over { t.without(Tail::WOKEN) } else { t };
            if publish(ch, t, if last { then.with_lock(0) } else { then }, k, false) {
                w.done += k;
                policy::on_flow(me, &ch.writer, k);
                if let Some(began) = began {
                    policy::ended(me, ch, (pos, k), began);
                }
                if last {
                    return Some(Step::Done(w.done as Ret));
                }
                w.at.advance(k);
            }
            continue;
        }
        if !spun {
            spun = true;
            lock::unlock(me, ch);
            let need = rest.max(policy::ROOM).min(cap as usize / 4);
            policy::writer_waits(me, ch, rest, || {
                let (h, t) = (ch.head(), ch.tail());
                t.closed()
                    || cap.saturating_sub(t.wide(h.position()) - h.position()) as usize >= need
            });
            lock::enter(me, ch, fd, Tail::closed)?;
            continue;
        }
        let _held = me.hold_signals();
        if ch.tail() != t {
            continue;
        }
        if !m.valid() && used > 0 && (ch.is_fifo() || ring.is_over(used, w.want)) {
            match fifo::to_front(me, ch, fd, r, used) {
                Some(true) => continue,
                Some(false) => {
                    lock::unlock(me, ch);
                    handback::hand_back(me, ch, fd, false, Reason::NotTakingPart);
                    return None;
                }
                None => {
                    lock::unlock(me, ch);
                    byway_sys::process::yield_now();
                    return None;
                }
            }
        }
        if !m.valid() {
            // I5 here too: a reader may have emptied the ring and armed since the tail and the head were read. A pump
            // must find room for what goes into the kernel lane now.
            if clusters::back(me, ch, ring, pos, 1) == 0 {
                return out_of_memory(me, ch, fd, w);
            }
            let place = wake::set_chunk_place(ch, pos);
            if ch.cas_tail(t, t.with(Tail::WOKEN)).is_err() {
                continue;
            }
            match wake::to_kernel(ch, fd, w, rest.min(PIPE_BUF), place) {
                Ok(_) if w.done == w.want => {
                    lock::unlock(me, ch);
                    return Some(Step::Done(w.done as Ret));
                }
                Ok(_) => continue,
                Err(e) => {
                    lock::unlock(me, ch);
                    return Some(Step::Done(if w.done > 0 { w.done as Ret } else { e }));
                }
            }
        }
        let drained = !behind && file::fionread(fd) == 0;
        // The kernel lane was read to its end, but not yet found empty: prove it under the readers' side, then begin
        // again.
        if drained && t.sleepers() == 0 && lock::try_hold(me, ch, r, Head::READS_LANE) {
            if ch.chunk() == m && file::fionread(fd) == 0 {
                ch.clear_chunk(m);
            }
            lock::release(me, ch, r);
            continue;
        }
        if file::is_nonblocking(fd) {
            if behind && cap - used.min(cap) > PIPE_BUF as u64 && handback::pull_up(me, ch, fd, r) {
                continue;
            }
            lock::unlock(me, ch);
            return Some(Step::Done(if w.done > 0 { w.done as Ret } else { EAGAIN }));
        }
        if drained {
            lock::unlock(me, ch);
            if file::reader_gone(fd) {
                if ch.is_fifo() {
                    handback::hand_back(me, ch, fd, false, Reason::ReaderGone);
                    return None;
                }
                return Some(Step::Native);
            }
            byway_sys::process::nap(100);
            return None;
        }
        shrink(ch, fd);
        ch.writer.0.sleeper.store(me.tid, Relaxed);
        lock::unlock(me, ch);
        return Some(if w.done == 0 {
            Step::WaitRestartable
        } else {
            Step::WaitPartial
        });
    }
}

/// No memory behind the ring's bytes: the rest is the kernel's, which waits where it must.
fn out_of_memory(me: &Caller, ch: &Channel, fd: usize, w: &Progress) -> Option<Step> {
    lock::unlock(me, ch);
    ch.facts.0.why.store(Reason::Memory as u8, Relaxed);
    if handback::hand_back(me, ch, fd, false, Reason::Memory) {
        return None;
    }
    Some(match w.done {
        0 => Step::Native,
        n => Step::Done(n as Ret),
    })
}

/// The kernel lane to one slot: its chunk then makes it "full" for poll and for the sleep of a writer. Whether it has
/// one now.
pub(crate) fn shrink(ch: &Channel, fd: usize) -> bool {
    let shrunk = &ch.facts.0.shrunk;
    if shrunk.load(Relaxed) != ONE_SLOT && !failed(file::fcntl(fd, file::F_SETPIPE_SZ, PIPE_BUF)) {
        shrunk.store(ONE_SLOT, Relaxed);
    }
    shrunk.load(Relaxed) == ONE_SLOT
}

/// After a sleep that `write` asked for: `Some` ends the call, `None` asks `write` again.
pub fn woken(fd: usize, w: &Progress, restartable: bool, ret: Ret) -> Option<Ret> {
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
