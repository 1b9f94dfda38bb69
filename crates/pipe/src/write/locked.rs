//! A write under the writers' lock, step by step: wake a sleeping reader, append to the ring, wait for room, or overflow
//! into the kernel lane.
//!
//! Invariant: each step either publishes by `publish`, changes nothing, or ends with the lock dropped. What a step sees of
//! the words is one `View`; a step that finds another tail word begins anew.
//! Not here: the write's way to the lock, and a closed channel (write.rs); the wake-up itself (wake.rs).
use super::{AHEAD, Progress, clear_drained, publish, shrink};
use crate::channel::{Channel, PIPE_BUF, TOLD};
use crate::reason::Reason;
use crate::ring::Ring;
use crate::wait::Came;
use crate::word::{Chunk, Tail};
use crate::{
    Caller, Step, clusters, fifo, handback, lock, pass_through, policy, restartable_copy,
    single_copy, wait, wake,
};
use byway_sys::errno::{EAGAIN, EINTR, Ret};
use byway_sys::signal::Enders;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;

/// `Continue`: look again. `Break(None)`: the lock was dropped or lost, begin the write again.
type Next = ControlFlow<Option<Step>>;
const AGAIN: Next = Next::Continue(());
const BEGIN_ANEW: Next = Next::Break(None);

/// A write that has the lock.
pub(super) struct Locked<'a, 'b> {
    me: &'a Caller,
    ch: &'a Channel,
    fd: usize,
    w: &'a mut Progress<'b>,
    /// The ring counts as full when so many bytes lie in it.
    most: u64,
    /// It has waited for room, or offered its buffer, already.
    waited: bool,
    offered: bool,
}

/// The words at one look.
#[derive(Clone, Copy)]
struct View<'a> {
    t: Tail,
    m: Chunk,
    ring: Ring<'a>,
    /// The head at that look or before it.
    r: u64,
    /// The tail.
    pos: u64,
    /// The most that may lie in the ring after this write.
    cap: u64,
}

impl View<'_> {
    fn used(&self) -> u64 {
        self.pos - self.r
    }
    /// Whether the kernel lane has bytes that come after some of the ring's.
    fn is_behind(&self) -> bool {
        self.m.valid() && self.r < self.m.position(self.r)
    }
    fn room(&self) -> usize {
        if self.is_behind() {
            0
        } else {
            self.cap.saturating_sub(self.used()) as usize
        }
    }
}

/// Goes on with `w` under the lock; `now`: without a wait for room. `None`: begin again.
#[inline(never)]
pub(super) fn locked(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    w: &mut Progress,
    (most, now): (u64, bool),
) -> Option<Step> {
    let mut write = Locked {
        me,
        ch,
        fd,
        w,
        most,
        waited: now,
        offered: false,
    };
    loop {
        if let Next::Break(end) = write.step() {
            return end;
        }
    }
}

impl<'a> Locked<'a, '_> {
    fn rest(&self) -> usize {
        self.w.want - self.w.done
    }

    /// Ends the call with what is written, or with `error` if nothing is.
    fn end(&self, error: Ret) -> Next {
        lock::unlock(self.me, self.ch);
        let done = self.w.done as Ret;
        Next::Break(Some(Step::Done(if done > 0 { done } else { error })))
    }

    fn step(&mut self) -> Next {
        let (me, ch) = (self.me, self.ch);
        let t = ch.tail();
        if t.lock_owner() != me.tid {
            return BEGIN_ANEW;
        }
        if t.closed() {
            lock::unlock(me, ch);
            return BEGIN_ANEW;
        }
        let Some(sight) = self.look(t)? else {
            return AGAIN;
        };
        if t.sleepers() > 0 && !t.woken() {
            return self.wake(sight);
        }
        if !self.offered
            && !sight.m.valid()
            && t.sleepers() == 0
            && policy::may_offer(me, ch, self.rest())
        {
            return self.offer(t);
        }
        let (rest, room) = (self.rest(), sight.room());
        // Little room for short writes counts as none, until we have waited: else each of them would look at the head.
        let little = policy::ROOM.min(sight.cap as usize / 4);
        let scarce =
            !self.waited && !sight.m.valid() && me.cpus > 1 && rest < little && room < little;
        // LINUX pipe(7): up to PIPE_BUF bytes are written whole.
        if room > 0 && (self.w.want > ch.rules().whole || room >= rest) && !scarce {
            return self.append(sight, rest.min(room).min(policy::piece(me)));
        }
        if !self.waited {
            return self.wait_for_room(sight.cap);
        }
        self.full(sight)
    }

    /// The kernel lane's part of what the pipe takes, where its chunk is `m` (`Ring::cap`).
    fn part(&self, m: Chunk) -> usize {
        match m.valid() {
            true if self.ch.rules().counts_lane => self.ch.facts.0.lane.load(Relaxed) as usize,
            true => PIPE_BUF,
            false => self.w.want,
        }
    }

    /// What there is to see where the tail word is `t`. `None`: it is another by now.
    #[inline]
    fn look(&self, t: Tail) -> ControlFlow<Option<Step>, Option<View<'a>>> {
        let (me, ch) = (self.me, self.ch);
        // Not a state that any of us writes: the channel is left alone.
        let damaged = || {
            if ch.tail() != t {
                // A handler wrote since the tail was loaded, and readers have had that too: the head is beyond it.
                return ControlFlow::Continue(None);
            }
            lock::unlock(me, ch);
            ControlFlow::Break(Some(Step::Native))
        };
        let m = ch.chunk();
        let Some(ring) = ch.ring(&me.domain) else {
            return damaged();
        };
        // A socket's lane is never pumped, so a ring needs no room for that.
        let cap = match ch.is_socket() {
            true => ring.bytes(),
            false => ring.cap(self.part(m)).min(self.most),
        };
        // The head of any time says too little room at most: its word, which readers are changing on another CPU, is
        // looked at only if that is not enough.
        let mut r = ch.writer.0.seen_r();
        if m.valid() || t.sleepers() > 0 || t.wide(r) - r + self.rest() as u64 > cap {
            r = ch.head().position();
            ch.writer.0.seen.store(r, Relaxed);
        }
        let pos = t.wide(r);
        if pos - r > ring.bytes() {
            return damaged();
        }
        ControlFlow::Continue(Some(View {
            t,
            m,
            ring,
            r,
            pos,
            cap,
        }))
    }

    /// A reader sleeps: it is woken with the stream's next bytes.
    fn wake(&mut self, see: View) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        let _held = me.hold_signals();
        if ch.tail() != see.t {
            return AGAIN;
        }
        // The reader fell asleep on this tail word, having seen no chunk: since then the ring was handed back, and opened
        // again behind one (models/socket.pml, BUG_SAME). What a socket's lane has is counted of one chunk alone.
        if see.m.valid() && ch.is_socket() {
            lock::unlock(me, ch);
            handback::hand_back(me, ch, fd, false, Reason::Cold);
            return BEGIN_ANEW;
        }
        match wake::long(me, ch, fd, self.w, see.t, see.ring, see.pos) {
            Ok(true) => {
                if let Some(how) = policy::on_wake(me, ch, self.w.want) {
                    pass_through::leave(me, ch, fd, how);
                }
                Next::Break(Some(Step::Done(self.w.done as Ret)))
            }
            Ok(false) => AGAIN,
            Err(e) => self.end(e),
        }
    }

    /// Offers the caller's own buffer for a single copy, once.
    fn offer(&mut self, t: Tail) -> Next {
        let (me, ch) = (self.me, self.ch);
        self.offered = true;
        let empty = || t.wide(ch.head().position()) == ch.head().position();
        if !empty() {
            // Left alone, a stream whose ends are as fast as each other never has it empty.
            wait::offer(me, ch, empty);
        }
        let r = ch.head().position();
        ch.writer.0.seen.store(r, Relaxed);
        let (base, n) = self.w.at.run();
        let part = self.rest().min(AHEAD);
        if t.wide(r) != r {
            policy::on_offer(&ch.writer, false);
        } else if n >= part {
            let k = single_copy::offer(me, ch, base, part);
            self.w.at.advance(k);
            self.w.done += k;
            ch.writer.0.count(k);
            if self.rest() == 0 || k == part {
                lock::unlock(me, ch);
                let all = self.rest() == 0;
                return Next::Break(all.then_some(Step::Done(self.w.done as Ret)));
            }
        }
        AGAIN
    }

    /// Copies `want` bytes into the ring, or as many as there is memory for, and publishes them.
    fn append(&mut self, see: View, want: usize) -> Next {
        let (me, ch) = (self.me, self.ch);
        let View { t, ring, pos, .. } = see;
        let Some(k) = clusters::back_while(me, ch, t, ring, pos, want) else {
            return AGAIN;
        };
        if k < want && (k == 0 || self.w.want <= ch.rules().whole) {
            return self.to_kernel(Reason::Memory);
        }
        let began = policy::begins(me, pos, k);
        // SAFETY: `write` checked the buffers; the room is free below the head's release (E3), and ours by the lock as
        // long as the tail is `t`.
        if !unsafe { restartable_copy::put(me, ch, t, &self.w.at, ring, pos, k) } {
            return AGAIN;
        }
        let last = k == self.rest();
        // Of an overflow into the kernel lane that has been read, before which nobody slept: a write by the fast path
        // must find the tail idle.
        let over = t.sleepers() == 0 && !see.m.valid();
        let then = if over { t.without(Tail::WOKEN) } else { t };
        if publish(ch, t, if last { then.with_lock(0) } else { then }, k, false) {
            self.w.done += k;
            policy::on_flow(me, ch, k);
            if let Some(began) = began {
                policy::ended(me, ch, (pos, k), began);
            }
            if last {
                return Next::Break(Some(Step::Done(self.w.done as Ret)));
            }
            self.w.at.advance(k);
        }
        AGAIN
    }

    /// No room, or no memory, behind the ring's bytes: the rest is the kernel's, which waits where it must.
    fn to_kernel(&self, why: Reason) -> Next {
        let (me, ch) = (self.me, self.ch);
        lock::unlock(me, ch);
        ch.facts.0.why.store(why as u8, Relaxed);
        if handback::hand_back(me, ch, self.fd, false, why) {
            return BEGIN_ANEW;
        }
        Next::Break(Some(match self.w.done {
            0 => Step::Native,
            n => Step::Done(n as Ret),
        }))
    }

    /// Waits awake, once and without the lock, until there is room worth having.
    fn wait_for_room(&mut self, cap: u64) -> Next {
        let (me, ch) = (self.me, self.ch);
        self.waited = true;
        lock::unlock(me, ch);
        let rest = self.rest();
        let need = rest.max(policy::ROOM).min(cap as usize / 4);
        let came = wait::writer(me, ch, rest, || {
            let (h, t) = (ch.head(), ch.tail());
            let used = t.wide(h.position()) - h.position();
            t.closed() || cap.saturating_sub(used) as usize >= need
        });
        if came == Came::Signal && wait::may_sleep(me, self.fd) {
            return Next::Break(Some(Step::Done(match self.w.done {
                0 => EINTR,
                n => n as Ret,
            })));
        }
        match lock::enter(me, ch, self.fd, Tail::closed) {
            Some(()) => AGAIN,
            None => BEGIN_ANEW,
        }
    }

    /// The ring is full.
    fn full(&mut self, see: View) -> Next {
        let (me, ch) = (self.me, self.ch);
        if ch.rules().full_to_kernel {
            return self.sleep_for_room(see);
        }
        let _held = me.hold_signals();
        if ch.tail() != see.t {
            return AGAIN;
        }
        let used = see.used();
        if see.m.valid() {
            self.full_lane(see)
        } else if used > 0 && (ch.rules().oldest_to_lane || see.ring.is_over(used, self.w.want)) {
            self.oldest_to_lane(see)
        } else {
            self.overflow(see)
        }
    }

    /// A full ring of a socket: its writer is to sleep until a reader has made room. Where it may not sleep so, the call is
    /// the kernel's.
    fn sleep_for_room(&mut self, see: View) -> Next {
        let (me, ch, t) = (self.me, self.ch, see.t);
        // A writer that sleeps more often than on the kernel's buffer, which is larger, has nothing of a ring.
        let never = self.w.want as u64 > see.cap;
        // A handler without SA_RESTART ends the call.
        let may_end = || me.spin && me.enders == Enders::None || (me.restarts)();
        if never || t.kernel_writers() > 0 || !wait::may_sleep(me, self.fd) || !may_end() {
            policy::open_later(ch, Reason::Full);
            return self.to_kernel(Reason::Full);
        }
        let was = ch.head().position();
        if ch
            .cas_tail(t, t.kernel_writer_added().with_lock(0))
            .is_err()
        {
            return AGAIN;
        }
        Next::Break(Some(Step::WaitForRoom(was)))
    }

    /// The ring's oldest bytes into the kernel lane (fifo.rs).
    fn oldest_to_lane(&mut self, see: View) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        match fifo::to_front(me, ch, fd, see.r, see.used()) {
            Some(true) => return AGAIN,
            Some(false) => {
                lock::unlock(me, ch);
                handback::hand_back(me, ch, fd, false, Reason::NotTakingPart);
            }
            None => {
                lock::unlock(me, ch);
                byway_sys::process::yield_now();
            }
        }
        BEGIN_ANEW
    }

    /// The write's next bytes into the kernel lane, behind the ring's.
    fn overflow(&mut self, see: View) -> Next {
        let (me, ch, t) = (self.me, self.ch, see.t);
        // I5 here too: a reader may have emptied the ring and armed since the tail and the head were read.
        // A pump must find room for what goes into the kernel lane now.
        if clusters::back(me, ch, see.ring, see.pos, 1) == 0 {
            return self.to_kernel(Reason::Memory);
        }
        let place = wake::set_chunk_place(ch, see.pos);
        if ch.cas_tail(t, t.with(Tail::WOKEN)).is_err() {
            return AGAIN;
        }
        let n = self.rest().min(PIPE_BUF);
        match wake::to_kernel(me, ch, self.fd, self.w, n, place) {
            Ok(_) if self.rest() == 0 => self.end(0),
            Ok(_) => AGAIN,
            Err(e) => self.end(e),
        }
    }

    /// The kernel lane has bytes too, or had: the writer sleeps until they are read.
    fn full_lane(&mut self, see: View) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        let lane = ch.lane(fd);
        let drained = !see.is_behind() && lane.is_empty();
        let may_sleep = !lane.is_nonblocking();
        let mut patience = lock::Patience::new();
        while drained && patience.turns() < lock::Patience::LONG {
            if see.t.sleepers() == 0 && clear_drained(me, ch, fd, see.r, see.m) {
                return AGAIN;
            }
            if may_sleep {
                break;
            }
            // LINUX pipe_write: waits for the pipe's lock, as long as a reader has it. This one has read the lane's bytes, and has
            // not said so, or is not home. A program that was told of the room by poll(2) finds it.
            patience.wait(me);
            // Or it has made room by now, and waits for this lock.
            if ch.tail() != see.t || ch.head().position() != see.r {
                return AGAIN;
            }
        }
        // A program that was told that it is full knows how much it takes, and may count on the room that it has made by
        // reading. Any other writer sleeps until half of it is read (`pump`).
        let told = &ch.facts.0.full;
        if see.is_behind() && (!may_sleep || told.load(Relaxed) != 0) {
            let page = see.cap.saturating_sub(see.used()) >= PIPE_BUF as u64;
            if page && handback::pull_up(me, ch, fd, see.r) {
                return AGAIN;
            }
        }
        // LINUX pipe_write: nobody reads: EPIPE, also where it is full, and also if the last look was a moment ago.
        if (drained || !may_sleep) && lane.is_reader_gone() {
            lock::unlock(me, ch);
            if ch.rules().readers_return {
                handback::hand_back(me, ch, fd, false, Reason::ReaderGone);
                return BEGIN_ANEW;
            }
            return Next::Break(Some(Step::Native));
        }
        if !may_sleep {
            told.fetch_max(TOLD, Relaxed);
            return self.end(EAGAIN);
        }
        if drained {
            lock::unlock(me, ch);
            byway_sys::process::nap(100);
            return BEGIN_ANEW;
        }
        shrink(ch, fd);
        ch.writer.0.sleeper.store(me.tid, Relaxed);
        lock::unlock(me, ch);
        Next::Break(Some(match self.w.done {
            0 => Step::WaitRestartable,
            _ => Step::WaitPartial,
        }))
    }
}
