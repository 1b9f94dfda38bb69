//! read(2) on a carried channel: the ring, the kernel's bytes at their place, then the kernel's own sleep.
//!
//! Invariant: a read has no effect before its CAS on the head (I6); it takes no more out of the stream than it returns;
//! it arms only when the ring is empty and the kernel lane's place is not set (I4).
//! Not here: closing the channel (handback.rs), spinning (wait.rs).
use crate::channel::{Channel, PIPE_BUF, TOLD};
use crate::copy::{Buffers, Iov, VECTORS};
use crate::mode::Mode;
use crate::reason::Reason;
use crate::ring::Ring;
use crate::single_copy::{self, Taken};
use crate::wait::{Came, late};
use crate::word::{Chunk, Head, Tail};
use crate::{Caller, Step, handback, lock, policy, socket, tcp, wait};
use byway_sys::errno::{EAGAIN, ECONNRESET, EINTR, Ret, failed};
use byway_sys::file;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;

/// What `finish` must know of the sleep that it ends.
#[derive(Clone, Copy)]
pub struct Armed {
    /// The chunk when an open channel was armed; `None` when the channel was closed.
    before: Option<Chunk>,
    want: usize,
}

impl Armed {
    /// Whether the channel was open then.
    pub fn was_open(&self) -> bool {
        self.before.is_some()
    }
    pub const NOT: Armed = Armed {
        before: None,
        want: 0,
    };
}

/// Takes what is there, up to the buffers' size; tells how to sleep when nothing is and `done` is 0.
///
/// `done` bytes were already read by this call (a sleep brought them) and `at` stands behind them. A read into one
/// buffer is to be tried by `fast_path::read` before.
#[inline]
pub fn read(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    mut at: Buffers,
    want: usize,
    mut done: usize,
    armed: &mut Armed,
) -> Step {
    let step = take(me, ch, fd, &mut at, want, &mut done, (armed, None));
    step.unwrap_or(Step::Done(done as Ret))
}

/// As [`read`] into one buffer, of which nothing is read yet. Another that holds the readers' side and does not go on,
/// because it was stopped, is waited for so many turns of patience: then it is EAGAIN.
#[inline]
pub fn read_or(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    mut at: Buffers,
    want: usize,
    armed: &mut Armed,
    turns: u32,
) -> Step {
    let mut done = 0;
    let how = (armed, Some(turns));
    take(me, ch, fd, &mut at, want, &mut done, how).unwrap_or(Step::Done(done as Ret))
}

/// `Continue`: look again. `Break(None)`: the call is complete with the bytes that it has.
type Next = ControlFlow<Option<Step>>;
const AGAIN_NOW: Next = Next::Continue(());
const COMPLETE: Next = Next::Break(None);

/// A read in progress.
struct Reading<'a, 'b> {
    me: &'a Caller,
    ch: &'a Channel,
    fd: usize,
    at: &'a mut Buffers<'b>,
    want: usize,
    done: &'a mut usize,
    armed: &'a mut Armed,
    /// Turns in which a holder that does not go on is waited for; `None`: without a limit.
    turns: Option<u32>,
    patience: lock::Patience,
    /// It has waited awake for the writer, or for a batch, already.
    waited: bool,
    gathered: bool,
}

/// The words at one look, and the ring.
#[derive(Clone, Copy)]
struct View<'a> {
    h: Head,
    t: Tail,
    m: Chunk,
    ring: Ring<'a>,
}

impl View<'_> {
    fn r(&self) -> u64 {
        self.h.position()
    }
    fn w(&self) -> u64 {
        self.t.wide(self.r())
    }
    /// How far the ring's bytes go that come next.
    fn end(&self) -> u64 {
        match self.m.valid() {
            true => self.m.position(self.r()).min(self.w()),
            false => self.w(),
        }
    }
}

/// `None` when the call is complete with `done` bytes.
#[inline(never)]
fn take(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    at: &mut Buffers,
    want: usize,
    done: &mut usize,
    (armed, turns): (&mut Armed, Option<u32>),
) -> Option<Step> {
    let mut read = Reading {
        me,
        ch,
        fd,
        at,
        want,
        done,
        armed,
        turns,
        patience: lock::Patience::new(),
        waited: false,
        gathered: false,
    };
    loop {
        if let Next::Break(end) = read.step() {
            return end;
        }
    }
}

impl<'a> Reading<'a, '_> {
    /// Ends the call with what it has, or as `step` says if that is nothing.
    fn end(&self, step: Step) -> Next {
        Next::Break((*self.done == 0).then_some(step))
    }

    fn rest(&self) -> usize {
        self.want - *self.done
    }

    /// `k` bytes came.
    fn got(&mut self, k: usize) -> Next {
        self.at.advance(k);
        *self.done += k;
        match self.rest() {
            0 => COMPLETE,
            _ => AGAIN_NOW,
        }
    }

    fn step(&mut self) -> Next {
        let ch = self.ch;
        let h = ch.head();
        let t = ch.tail();
        if t.closed() {
            return self.closed();
        }
        if h.held() {
            return self.wait_for_holder(h);
        }
        if t.sleepers() > 0 {
            return self.wait_for_sleeper(t);
        }
        let m = ch.chunk();
        let Some(ring) = ch.ring(&self.me.domain) else {
            if ch.tail() != t {
                // Closed since the tail was loaded: a large ring's table goes with it.
                return AGAIN_NOW;
            }
            return Next::Break(Some(Step::Native));
        };
        let see = View { h, t, m, ring };
        if see.w() - see.r() > ring.bytes() {
            if ch.head() != h {
                // A turn of the ring since the head was loaded: others read too.
                return AGAIN_NOW;
            }
            // Not a state that any of us writes: leave the channel alone.
            return Next::Break(Some(Step::Native));
        }
        let mut seen = see.w();
        if t.kernel_writers() > 0 {
            socket::let_write(ch, t, see.r(), ring);
            // To look again at half.
            seen -= (seen - see.r()) / 2;
        }
        ch.reader.0.seen.store(seen, Relaxed);
        policy::reads_here(self.me, ch);
        if see.r() < see.end() {
            return self.copy(see);
        }
        if m.valid() {
            if see.r() == m.position(see.r()) {
                return self.drain(see);
            }
            // The chunk is newer than the tail: look again.
            return AGAIN_NOW;
        }
        if ch.offer().is_made() {
            // A writer offers its own buffer. The ring is empty as long as it does: what came before has left.
            return match single_copy::take(self.me, ch, *self.at, self.rest()) {
                Taken::Bytes(k) => self.got(k),
                Taken::Changed => AGAIN_NOW,
            };
        }
        self.wait(see)
    }

    /// The channel is the kernel's.
    fn closed(&mut self) -> Next {
        if *self.done > 0 {
            return COMPLETE;
        }
        match native(self.me, self.ch, self.fd, self.want, self.armed) {
            Step::Done(AGAIN) => AGAIN_NOW,
            step => Next::Break(Some(step)),
        }
    }

    /// Another reader is at work on the kernel lane, or hands the channel back.
    fn wait_for_holder(&mut self, h: Head) -> Next {
        if self.patience.wait(self.me) && byway_sys::process::is_dead(h.owner()) {
            handback::settle(self.me, self.ch, self.fd);
            return AGAIN_NOW;
        }
        // A reader was stopped in the midst of a read, or a writer of a FIFO while it moved bytes to the lane (fifo.rs).
        let over = self.patience.turns() >= self.turns.unwrap_or(lock::Patience::LONG);
        match over && self.may_give_up() {
            true => self.end(Step::Done(EAGAIN)),
            false => AGAIN_NOW,
        }
    }

    /// Whether it need not wait for another without a limit.
    fn may_give_up(&self) -> bool {
        *self.done > 0 || self.turns.is_some() || self.ch.lane(self.fd).is_nonblocking()
    }

    /// I7: another reader is asleep, or on the way home, or was killed in its sleep. Two may sleep in the kernel alone:
    /// only there is it one order in which they are woken.
    fn wait_for_sleeper(&mut self, t: Tail) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        if *self.done > 0 {
            return COMPLETE;
        }
        let r = ch.head().position();
        let empty = !t.woken() && t.wide(r) == r && !ch.chunk().valid();
        let has_writer = || file::poll1(fd, 0, 0).1 & file::POLLHUP == 0;
        if empty && ch.lane(fd).is_nonblocking() && has_writer() {
            // The sleeper stays the only one.
            return self.end(Step::Done(EAGAIN));
        }
        if t.woken() && self.patience.turns() <= 80 {
            self.patience.wait(me);
        } else if !handback::hand_back(me, ch, fd, false, Reason::SecondReader) {
            return Next::Break(Some(Step::Native));
        }
        AGAIN_NOW
    }

    /// Copies what the ring has next, or pauses once for more of it.
    fn copy(&mut self, see: View) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        let View { m, ring, .. } = see;
        let (r, there) = (see.r(), see.end() - see.r());
        let rest = self.rest();
        if !self.gathered && wait::may_gather(&ch.reader, there, rest) && !m.valid() {
            self.gathered = true;
            if wait::gather(me, ch) {
                wait::gathered(&ch.reader, there, ch.tail().wide(r) - r);
                return AGAIN_NOW;
            }
        }
        let k = there.min(rest.min(policy::piece(me)) as u64) as usize;
        if !self.at.check(k, |p, n| (me.access)(p, n, true)) {
            if *self.done == 0 && handback::hand_back(me, ch, fd, false, Reason::Address) {
                return AGAIN_NOW;
            }
            return self.end(Step::Native);
        }
        let (to, run) = self.at.run();
        let payload = ch.inline_payload().look(r, there);
        let payload = payload.filter(|b| k <= run && k <= b.len);
        let lines = policy::lines(ch, k);
        // SAFETY: checked above; what the ring has at [r, end) is published and not yet released.
        unsafe {
            if !payload.is_some_and(|b| b.copy(0, to as *mut u8, k)) {
                self.at.from_ring(ring, r, k, lines, there as usize);
            }
        }
        if !ch.cas_head(see.h, Head::free(r + k as u64)) {
            return AGAIN_NOW;
        }
        if self.waited && k <= PIPE_BUF {
            policy::will_answer(me);
        }
        ch.reader.0.count(k);
        wait::looked(&ch.reader);
        if m.valid() && m.position(r) == see.w() {
            self.make_room(ring, see.w() - (r + k as u64));
        }
        self.got(k)
    }

    /// Tells writers that wait of room, where `left` bytes are before the kernel lane's.
    fn make_room(&self, ring: Ring, left: u64) {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        // At half; or at once in a handler over that very write, whose writer nobody else would wake.
        if left <= ring.bytes() / 2 || ch.writer.0.sleeper.load(Relaxed) == me.tid {
            handback::pump(me, ch, fd);
        } else if left + PIPE_BUF as u64 <= ring.room() {
            handback::pump_awaited(me, ch, fd);
        }
    }

    /// The kernel lane's bytes come next.
    fn drain(&mut self, see: View) -> Next {
        let (me, ch, fd) = (self.me, self.ch, self.fd);
        match drain(me, ch, fd, *self.at, self.rest(), see.r(), see.m) {
            Drained::Bytes(k) => return self.got(k),
            Drained::Failed(e) => return self.end(Step::Done(e)),
            Drained::Cut(e) => {
                handback::hand_back(me, ch, fd, false, Reason::ReaderGone);
                if *self.done > 0 && failed(e) {
                    socket::keeps_cut(ch);
                }
                return self.end(Step::Done(e));
            }
            Drained::Empty => return AGAIN_NOW,
            Drained::UnderWay => {
                tcp::awaits(me, ch, fd);
                return AGAIN_NOW;
            }
            Drained::Changed => {}
        }
        let owner = ch.tail().lock_owner();
        if !self.patience.wait(me) || owner == 0 {
            return AGAIN_NOW;
        }
        if byway_sys::process::is_dead(owner) {
            handback::settle(me, ch, fd);
        } else if owner == me.tid || self.patience.is_over() {
            // LINUX pipe_read: waits for the pipe's lock, which nobody keeps for long. This writer was stopped, or we
            // are its signal handler: what it has not written is not there.
            if self.may_give_up() {
                // The descriptor tells when the bytes come into the kernel lane.
                return self.end(Step::Done(EAGAIN));
            }
        }
        AGAIN_NOW
    }

    /// Nothing is there: waits awake once, as far as that is cheap, then arms.
    fn wait(&mut self, see: View) -> Next {
        let (me, ch) = (self.me, self.ch);
        if *self.done > 0 {
            return COMPLETE;
        }
        if !self.waited {
            self.waited = true;
            let was = see.t.position();
            let came = wait::reader(me, ch, || {
                let t = ch.tail();
                t.position() != was || t.closed() || ch.offer().is_made()
            });
            match came {
                Came::Yes => return AGAIN_NOW,
                Came::Signal if wait::may_sleep(me, self.fd) => {
                    return self.end(Step::Done(EINTR));
                }
                _ => {}
            }
        }
        match to_sleep(ch, see.t, see.m, self.want) {
            Some(now) => {
                *self.armed = now;
                Next::Break(Some(Step::NativeCounted))
            }
            None => AGAIN_NOW,
        }
    }
}

/// Arms a reader that saw `t`, and nothing in the ring, and `m` none. Of one that waits by poll(2) `want` is 0.
pub(crate) fn to_sleep(ch: &Channel, t: Tail, m: Chunk, want: usize) -> Option<Armed> {
    // I4 and I5: nothing published, nothing in the kernel lane; the same CAS says that we sleep and that nobody has
    // woken.
    let armed = Armed {
        before: Some(m),
        want,
    };
    falls_asleep(ch, t, t.without(Tail::WOKEN), want).then_some(armed)
}

/// A reader of `want` bytes, or of 0 that waits by poll(2), counts as asleep: the tail `t` becomes `then` and that.
fn falls_asleep(ch: &Channel, t: Tail, then: Tail, want: usize) -> bool {
    let done = ch.cas_tail(t, then.sleeper_added()).is_ok();
    if done && want == 0 {
        ch.waits_asleep();
    }
    done
}

/// The caller's own read on a channel that is the kernel's; counted, so that nobody opens it under the sleeper.
pub fn native(me: &Caller, ch: &Channel, fd: usize, want: usize, armed: &mut Armed) -> Step {
    let mut p = lock::Patience::new();
    *armed = Armed { before: None, want };
    loop {
        // E5: before the tail. It holds also where this is a handler over an owner of the lock.
        let forever = ch.forever();
        let t = ch.tail();
        let mode = Mode::of(t, forever);
        if mode == Mode::Open {
            // Opened meanwhile: the caller asks again.
            return Step::Done(AGAIN);
        }
        if mode == Mode::Moving && t.lock_owner() != me.tid {
            // Somebody opens the channel, hands it back, or died doing so: `take` settles the last.
            if p.wait(me) {
                lock::settle(me, ch, fd);
            }
            continue;
        }
        if forever {
            return Step::Native;
        }
        if t.sleepers() == Tail::MOST {
            ch.keep_closed();
            continue;
        }
        if falls_asleep(ch, t, t, want) {
            return Step::NativeCounted;
        }
    }
}

/// Not a kernel result: the state moved, call `read` again.
pub(crate) const AGAIN: Ret = -10_000;

/// What a look at the kernel lane came to.
pub enum Drained {
    Bytes(usize),
    Empty,
    Changed,
    /// Bytes of it are on their way to it.
    UnderWay,
    /// Bytes of it never come, and so none behind them: the end, or the error that tells of it.
    Cut(Ret),
    Failed(Ret),
}

/// Reads the kernel lane's bytes, which stand at the head, without blocking; clears the chunk of a lane proven empty.
pub fn drain(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    at: Buffers,
    want: usize,
    r: u64,
    m: Chunk,
) -> Drained {
    let _held = me.hold_signals();
    if !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return Drained::Changed;
    }
    // A sleeper that armed before this place was set is owed these bytes.
    let changed = ch.chunk() != m;
    let before = ch.tail();
    if changed || before.sleepers() > 0 {
        lock::release(me, ch, r);
        return Drained::Changed;
    }
    let mut v = [Iov { base: 0, len: 0 }; VECTORS];
    let n = at.take_vectors(want, &mut v);
    // SAFETY: the kernel checks the caller's addresses itself.
    let got = unsafe { ch.lane(fd).read_now(me, &v[..n]) };
    let is_over = matches!(got, 0 | ECONNRESET) && ch.is_tcp();
    let out = if is_over && tcp::is_cut(ch, fd) {
        Drained::Cut(got)
    } else if got == 0 && ch.is_tcp() {
        // The end of the stream: nothing is under way.
        ch.clear_chunk(m);
        Drained::Empty
    } else if got == EAGAIN || got == 0 {
        found_empty(ch, fd, m, before)
    } else if got == ECONNRESET && socket::keeps_reset(ch, before, r) {
        // What the ring has comes first.
        ch.clear_chunk(m);
        Drained::Empty
    } else if failed(got) {
        Drained::Failed(got)
    } else {
        ch.drained(got as usize);
        took(ch, m, got, want);
        ch.reader.0.count(got as usize);
        Drained::Bytes(got as usize)
    };
    lock::release(me, ch, r);
    out
}

/// A read of `want` bytes has brought `got` of the chunk `m`, which are counted: whether that was all of it.
fn took(ch: &Channel, m: Chunk, got: Ret, want: usize) {
    let all = match ch.is_tcp() {
        true => ch.facts.0.lane.load(Relaxed) == 0,
        // LINUX pipe_read, unix_stream_read_generic: a short read found nothing more.
        false => (got as usize) < want,
    };
    if all {
        ch.clear_chunk(m);
    } else if got > 0 {
        ch.reader.0.filled.store(m.0, Relaxed);
    }
}

/// The kernel lane was seen empty at the place `m`, by one who held the readers' side since the tail was `before`:
/// whether that place is done with.
pub(crate) fn found_empty(ch: &Channel, fd: usize, m: Chunk, before: Tail) -> Drained {
    // A writer inside its lock may be about to fill the place that it has set: only an untouched the tail proves the
    // kernel lane empty, or that the place was filled before. (One CPU: whom a wake-up wakes is here before the ringer
    // drops its lock.)
    let filled = ch.reader.0.filled.load(Relaxed) == m.0;
    if !filled && (before.lock_owner() != 0 || ch.tail() != before) {
        return Drained::Changed;
    }
    if ch.is_tcp() && tcp::are_under_way(ch, fd) {
        return Drained::UnderWay;
    }
    ch.clear_chunk(m);
    Drained::Empty
}

/// Ends the sleep that `read` began; `ret` is what the caller's own call returned.
pub fn finish(me: &Caller, ch: &Channel, armed: Armed, ret: Ret) {
    has_slept(me, ch, armed, ret);
    awake(ch, armed);
}

/// Counts what came of that sleep. The reader still counts as asleep.
pub fn has_slept(me: &Caller, ch: &Channel, armed: Armed, ret: Ret) {
    late::returns(me);
    policy::expect_tail(me, ch);
    ch.reader.0.count_kernel(ret);
    let full = &ch.facts.0.full;
    let was = full.load(Relaxed);
    // There is room. `pump_awaited` tells a writer that waits for a page of an open ring, the kernel one of a closed.
    if ret > 0 && was != 0 && (was == TOLD || ch.tail().closed()) {
        let _ = full.compare_exchange(was, 0, Relaxed, Relaxed);
    }
    if let Some(before) = armed.before {
        let m = ch.chunk();
        // Our wake-up follows `before`; what came after a hand-back does not. A short read found the kernel lane empty.
        if m.valid() && m.follows(before) {
            if ret > 0 {
                ch.drained(ret as usize);
            }
            if ret >= 0 {
                took(ch, m, ret, armed.want);
            }
        }
    }
}

/// A reader that was `armed` counts as asleep no longer.
pub fn awake(ch: &Channel, armed: Armed) {
    if armed.want == 0 {
        ch.has_waited();
    }
    let mut t = ch.tail();
    while let Err(now) = ch.cas_tail(t, t.sleeper_gone().without(Tail::WOKEN)) {
        t = now;
    }
    if t.woken() {
        ch.reader.0.wakes.fetch_add(1, Relaxed);
    }
}
