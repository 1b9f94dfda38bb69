//! What a read or a write would find, without making it: for those who wait for several pipes at once, or only ask.
//!
//! Invariant: nothing leaves or enters the stream. A caller that was told "nothing" is armed as a reader that found nothing (I4),
//! or finds the kernel lane full as a writer that found no room: the descriptor tells the rest. Of bytes that are told no
//! writer can take any back: an offer (single_copy.rs) is none.
//! Not here: the calls that ask (the native library's event queue, the preload library's ready.rs).
use crate::channel::{AWAITED, Channel, PIPE_BUF};
use crate::read::{self, AGAIN, Armed, Drained};
use crate::reason::Reason;
use crate::word::{Head, Tail};
use crate::{Caller, Step, datagram, fifo, handback, lock, policy, spiller, tcp, wait, write};
use byway_sys::{file, process};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::fence;

/// The tail of a channel that is the kernel's, and that nobody opens or hands back just now.
#[derive(Clone, Copy)]
pub struct Closed(Tail);

impl Closed {
    /// That of `ch`, if it is so.
    pub fn now(me: &Caller, ch: &Channel) -> Option<Closed> {
        let t = ch.tail();
        let free = t.lock_owner() == 0 || t.lock_owner() == me.tid;
        (t.closed() && free).then_some(Closed(t))
    }
    /// Whether what the kernel has said since then of the channel's pipe is true of the channel.
    pub fn holds(self, me: &Caller, ch: &Channel) -> bool {
        // Whoever opens it moves the kernel lane's bytes, and the tail with them.
        Closed::now(me, ch).is_some_and(|now| now.0.position() == self.0.position())
    }
}

/// What `ask` finds of the pipe while it is the kernel's; `None` where it is not.
pub(crate) fn of_kernel<R>(me: &Caller, ch: &Channel, ask: impl FnOnce() -> R) -> Option<R> {
    let closed = Closed::now(me, ch)?;
    let found = ask();
    closed.holds(me, ch).then_some(found)
}

/// Bytes that readers may take now, as one look tells: those of the ring, and those of the kernel lane. `None`: that is
/// for one to tell who holds the readers' side or opens the channel, and does not go on soon.
pub fn readable(me: &Caller, ch: &Channel, fd: usize) -> Option<u64> {
    // A reader that is at work has done long before.
    bytes(me, ch, fd, |patience| patience.turns() > 90)
}

/// As [`readable`]; a reader at work gets the time that it needs on a busy machine.
pub fn count(me: &Caller, ch: &Channel, fd: usize) -> Option<u64> {
    bytes(me, ch, fd, lock::Patience::is_over)
}

/// Where nothing is in the ring: waits for a write that has filled the kernel lane, and has more, to publish that.
///
/// LINUX pipe_write: all that fits is there at once.
pub fn await_rest(me: &Caller, ch: &Channel) {
    let t = ch.tail();
    let writes = t.lock_owner() != 0 && t.lock_owner() != me.tid && !t.closed();
    if writes && t.wide(ch.head().position()) == ch.head().position() {
        wait::let_publish(me, ch, PIPE_BUF, t.position());
    }
}

fn bytes(me: &Caller, ch: &Channel, fd: usize, over: fn(&lock::Patience) -> bool) -> Option<u64> {
    let mut patience = lock::Patience::new();
    await_rest(me, ch);
    loop {
        if let Some(n) = of_kernel(me, ch, || ch.lane(fd).held()) {
            return Some(n as u64);
        }
        let h = ch.head();
        let t = ch.tail();
        let m = ch.chunk();
        if let (Some(ring), false) = (ch.ring(&me.domain), t.closed()) {
            let there = (t.wide(h.position()) - h.position()).min(ring.bytes());
            // An outsider's stand in a FIFO's kernel lane, which has no place for them.
            let own = match m.valid() || ch.is_fifo() {
                true => ch.lane(fd).held(),
                false => 0,
            };
            // Of one moment, or again; somebody who holds the readers' side moves bytes between the two.
            let late = own == 0 && m.valid() && ch.is_tcp() && tcp::are_under_way(ch, fd);
            let there = if late { 0 } else { there };
            let same = ch.head() == h && ch.tail().position() == t.position() && ch.chunk() == m;
            if same && !h.held() {
                return Some(there + own as u64);
            }
        } else if !t.closed() && ch.tail() == t {
            // Not a state that any of us writes.
            return Some(ch.lane(fd).held() as u64);
        }
        let opener = t.closed() && t.lock_owner() != 0;
        if (h.held() || opener) && patience.wait(me) {
            if opener && process::is_dead(t.lock_owner()) {
                lock::settle(me, ch, fd);
            } else if h.held() && process::is_dead(h.owner()) {
                handback::settle(me, ch, fd);
            } else if over(&patience) {
                return None;
            }
        }
    }
}

/// Whether a reader finds bytes in the ring: by the words alone, and not if another reader is at work.
pub fn has_bytes(ch: &Channel) -> bool {
    let h = ch.head();
    let t = ch.tail();
    !t.closed() && !h.held() && t.wide(h.position()) != h.position()
}

/// What a reader finds in the ring, and whether its descriptor tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unread {
    Nothing,
    /// Bytes of which the descriptor does not tell, or of an inbox may not tell.
    Hidden,
    /// The kernel lane has bytes too.
    Told,
}

impl Unread {
    /// That of `ch`, by `fd`.
    pub fn of(ch: &Channel, fd: usize) -> Unread {
        if !has_unread(ch, end(ch)) {
            return Unread::Nothing;
        }
        // The queue of an inbox has outsiders' datagrams at any time: to ask for them is a call for each look.
        let told = !ch.is_inbox()
            && (is_lane_behind(ch)
                || (ch.chunk().valid() || ch.is_fifo()) && !ch.lane(fd).is_empty());
        if told { Unread::Told } else { Unread::Hidden }
    }
}

/// Whether the kernel lane surely has bytes behind some of the ring's: nobody writes, and nobody reads them yet. What TCP
/// has sent may be on its way.
fn is_lane_behind(ch: &Channel) -> bool {
    let (t, m, r) = (ch.tail(), ch.chunk(), ch.head().position());
    let free = t.lock_owner() == 0 && !t.closed() && !ch.is_socket();
    free && m.valid() && r < m.position(r) && ch.tail() == t
}

/// Whether the ring has something to read before `end`, where the stream ended a moment ago.
pub fn has_unread(ch: &Channel, end: u64) -> bool {
    !ch.tail().closed() && ch.head().position() != end
}

/// Where the stream ends, as far as it went through the ring.
pub fn end(ch: &Channel) -> u64 {
    let r = ch.head().position();
    ch.tail().wide(r)
}

/// Whether an armed reader's descriptor has told, or is about to tell.
pub fn is_told(ch: &Channel) -> bool {
    ch.tail().woken() || ch.chunk().valid()
}

/// Whether poll(2) of a reader says that it can read. `None` as of [`count`].
pub fn is_readable(me: &Caller, ch: &Channel, fd: usize) -> Option<bool> {
    // LINUX manage_oob: FIONREAD of a socket counts a byte out of band, and poll does not once it was passed over.
    let asked = || file::poll1(fd, file::POLLIN, 0).1 & file::POLLIN != 0;
    if ch.is_socket()
        && let Some(readable) = of_kernel(me, ch, asked)
    {
        return Some(readable);
    }
    Some(count(me, ch, fd)? > 0)
}

/// Whether poll(2) of a writer says that it can write: a write of PIPE_BUF bytes would not wait.
pub fn is_writable(me: &Caller, ch: &Channel, fd: usize) -> bool {
    loop {
        let asked = || file::poll1(fd, file::POLLOUT, 0).1 & file::POLLOUT != 0;
        if let Some(out) = of_kernel(me, ch, asked) {
            return out;
        }
        let room = Room::look(me, ch, fd);
        let t = ch.tail();
        // A hand-back empties the kernel lane for a moment, or makes it large: that is no room.
        let is_spilled = ch.head().0 & Head::SPILLS != 0;
        let room = match room {
            Some(room) if !t.closed() && !is_spilled => room,
            None if !t.closed() && !is_spilled => return asked(),
            _ if spiller::is_at_work(t) => return asked(),
            _ => {
                lock::settle(me, ch, fd);
                continue;
            }
        };
        if room.takes_at_once() >= PIPE_BUF as u64 {
            return true;
        }
        // LINUX pipe_poll: as soon as a page is free. So a write that may not sleep makes sure of it, and so do we.
        let may = match room.lane {
            Holds::Drained => true,
            Holds::Behind => room.ring >= PIPE_BUF as u64,
            Holds::Empty | Holds::First => false,
        };
        if !may || !empties_lane(me, ch, fd) {
            return false;
        }
    }
}

/// Whether an open channel is writable. The caller has its locks, and the kernel lane's bytes come before the ring's.
#[inline(never)] // A handler's stack may be small.
pub(crate) fn has_room(me: &Caller, ch: &Channel, fd: usize) -> bool {
    Room::look(me, ch, fd).is_some_and(|room| match room.lane {
        Holds::Drained => !room.is_over,
        _ => room.takes_at_once() >= PIPE_BUF as u64,
    })
}

/// Takes the kernel lane's bytes behind the ring's, or proves that there are none any more. False: not now.
fn empties_lane(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let Some(_taken) = lock::take(me, ch, fd, Tail::closed) else {
        return true;
    };
    let (r, m) = (ch.head().position(), ch.chunk());
    let mut empty = !m.valid();
    if m.valid() && r < m.position(r) {
        empty = handback::pull_up(me, ch, fd, r);
    } else if m.valid() && ch.tail().sleepers() == 0 && lock::try_hold(me, ch, r, Head::READS_LANE)
    {
        empty = ch.chunk() == m && ch.lane(fd).is_empty() && ch.clear_chunk(m);
        lock::release(me, ch, r);
    }
    lock::unlock(me, ch);
    empty
}

/// What `arm` came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Nothing is there, and the reader counts as asleep: until `read::finish` the descriptor tells of what comes.
    Armed,
    /// Something is there, or just coming.
    Bytes,
    /// The pipe is the kernel's for good: its descriptor tells the truth.
    Kernels,
}

/// Arms a reader as `read` does that finds nothing. Of a channel that is the kernel's for now also if the kernel lane
/// has bytes: nobody opens it before they are read.
pub fn arm(me: &Caller, ch: &Channel, fd: usize, armed: &mut Armed) -> Sight {
    ch.reader.0.polls.fetch_add(1, Relaxed);
    if ch.is_inbox() {
        return datagram::arm_to_wait(ch);
    }
    let mut patience = lock::Patience::new();
    loop {
        let h = ch.head();
        let t = ch.tail();
        if t.closed() {
            match read::native(me, ch, fd, 0, armed) {
                Step::Done(AGAIN) => continue,
                Step::NativeCounted => return Sight::Armed,
                _ => return Sight::Kernels,
            }
        }
        if h.held() || t.sleepers() > 0 {
            let asked = patience.wait(me);
            if h.held() && asked && process::is_dead(h.owner()) {
                handback::settle(me, ch, fd);
            } else if t.sleepers() > 0 && (!t.woken() || patience.turns() > 80) {
                // I7: as a second reader.
                if !handback::hand_back(me, ch, fd, false, Reason::SecondReader) {
                    return Sight::Kernels;
                }
            }
            continue;
        }
        let m = ch.chunk();
        if t.wide(h.position()) != h.position() {
            return Sight::Bytes;
        }
        if m.valid() {
            if !ch.lane(fd).is_empty() {
                return Sight::Bytes;
            }
            // Empty, but not yet found so by a read.
            let held = me.hold_signals();
            if lock::try_hold(me, ch, h.position(), Head::READS_LANE) {
                let before = ch.tail();
                let mut found = Drained::Changed;
                if ch.chunk() == m && before.sleepers() == 0 && ch.lane(fd).is_empty() {
                    found = read::found_empty(ch, fd, m, before);
                }
                lock::release(me, ch, h.position());
                match found {
                    Drained::Empty => continue,
                    Drained::UnderWay => {
                        tcp::awaits(me, ch, fd);
                        continue;
                    }
                    _ => {}
                }
            }
            drop(held);
            if patience.wait(me) && t.lock_owner() != 0 && process::is_dead(t.lock_owner()) {
                handback::settle(me, ch, fd);
            }
            continue;
        }
        if let Some(now) = read::to_sleep(ch, t, m, 0) {
            *armed = now;
            return Sight::Armed;
        }
    }
}

/// Ends what `arm` began, of a reader that has taken nothing since.
pub fn disarm(me: &Caller, ch: &Channel) {
    policy::expect_tail(me, ch);
    read::awake(ch, Armed::NOT);
}

/// Arms a writer: its descriptor tells of room from now on. False: there is room.
pub fn arm_writer(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let full = &ch.facts.0.full;
    let mut patience = lock::Patience::new();
    let is_limited = ch.holds(&me.domain) != 0;
    loop {
        if Closed::now(me, ch).is_some() {
            return true;
        }
        full.store(AWAITED, Relaxed);
        // ORDER: before the look at the head; pairs with the one in `handback::pump_awaited`.
        fence(SeqCst);
        if is_writable(me, ch, fd) {
            return false;
        }
        if ch.is_fifo() || is_limited {
            break;
        }
        let Some(_taken) = lock::take(me, ch, fd, Tail::closed) else {
            continue;
        };
        let filled = fills_lane(me, ch, fd);
        lock::unlock(me, ch);
        if filled {
            return true;
        }
        // Somebody reads just now, or it cannot be made full.
        patience.wait(me);
        if patience.turns() > lock::Patience::SOON {
            break;
        }
    }
    // Of a FIFO that stays full for long the service would take the bytes back in the midst of the wait. A ring that is
    // to take less than it could (`Ring::cap`) has its oldest bytes in the lane when it is full: a page that is read there
    // is none that is free.
    if is_limited {
        policy::open_later(ch, Reason::Readiness);
    }
    handback::hand_back(me, ch, fd, false, Reason::Readiness);
    true
}

/// Under the writers' lock, where the pipe is full: makes the kernel lane full too.
fn fills_lane(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let Some(room) = Room::look(me, ch, fd) else {
        return false;
    };
    matches!(room.lane, Holds::First | Holds::Behind) && write::shrink(ch, fd)
}

/// Gives the channel to the kernel until its bytes are read, and arms the reader: for one that leaves bytes unread and wants
/// to be told of more, which a ring does not tell.
pub fn settle(me: &Caller, ch: &Channel, fd: usize, armed: &mut Armed) -> Sight {
    loop {
        // An inbox is the kernel's for good.
        if !handback::hand_back(me, ch, fd, false, Reason::Readiness) || ch.is_inbox() {
            return Sight::Kernels;
        }
        match read::native(me, ch, fd, 0, armed) {
            // Opened again in between.
            Step::Done(AGAIN) => {}
            Step::NativeCounted => return Sight::Armed,
            _ => return Sight::Kernels,
        }
    }
}

/// Puts the ring's oldest bytes into the kernel lane, of an open channel whose reader is not armed: so its descriptor tells of
/// them. False: they cannot go there just now.
pub fn show(me: &Caller, ch: &Channel, fd: usize) -> bool {
    if ch.is_socket() {
        return false;
    }
    let Some(_taken) = lock::take(me, ch, fd, Tail::closed) else {
        return false;
    };
    let (t, r, m) = (ch.tail(), ch.head().position(), ch.chunk());
    let used = t.wide(r) - r;
    let shown = if m.valid() {
        m.position(r) == r && !ch.lane(fd).is_empty()
    } else {
        // A read end cannot write.
        let both = match used > 0 && t.sleepers() == 0 {
            true => ch.lane(fd).reopen(me).ok(),
            false => None,
        };
        both.is_some_and(|both| fifo::to_front(me, ch, both.number(), r, used) == Some(true))
    };
    lock::unlock(me, ch);
    shown
}

/// What a writer finds at one look at an open channel.
struct Room {
    /// Bytes that the ring has room for.
    ring: u64,
    lane: Holds,
    /// Whether short writes have filled the ring so far that the kernel lane takes no page of another one.
    is_over: bool,
}

/// The kernel lane, as a writer finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    Empty,
    /// Its bytes were read, but it was not yet found empty.
    Drained,
    /// Its bytes come before the ring's.
    First,
    /// Its bytes come after some of the ring's: then nothing comes behind them.
    Behind,
}

impl Room {
    /// `None`: the channel is closed, or in no state that any of us writes.
    fn look(me: &Caller, ch: &Channel, fd: usize) -> Option<Room> {
        loop {
            let t = ch.tail();
            let ring = ch.ring(&me.domain).filter(|_| !t.closed())?;
            // The chunk before the head: a place that the head has passed is not behind.
            let m = ch.chunk();
            let r = ch.head().position();
            let used = t.wide(r) - r;
            if used > ring.bytes() {
                if ch.tail() != t {
                    continue;
                }
                return None;
            }
            let lane = match m.valid() {
                false => Holds::Empty,
                true if r < m.position(r) => Holds::Behind,
                true if ch.lane(fd).is_empty() => Holds::Drained,
                true => Holds::First,
            };
            return Some(Room {
                ring: ring.room().saturating_sub(used),
                lane,
                is_over: ring.is_over(used, PIPE_BUF),
            });
        }
    }
    fn takes(&self, lane: bool) -> u64 {
        let ring = if self.lane == Holds::Behind {
            0
        } else {
            self.ring
        };
        ring + if lane { PIPE_BUF as u64 } else { 0 }
    }
    /// Bytes that a writer can write if it waits a moment for readers.
    fn takes_soon(&self) -> u64 {
        self.takes(matches!(self.lane, Holds::Empty | Holds::Drained))
    }
    /// Bytes that can be written by one who does not wait.
    fn takes_at_once(&self) -> u64 {
        self.takes(self.lane == Holds::Empty && !self.is_over)
    }
}

/// Bytes that a writer finds room for, as one look tells; 0 where a write of PIPE_BUF bytes does not fit. Then the
/// kernel lane is full, and the descriptor tells when there is room.
pub fn space(me: &Caller, ch: &Channel, fd: usize) -> u64 {
    let mut shrunk = false;
    loop {
        let Some(room) = Room::look(me, ch, fd) else {
            return pipe_space(fd);
        };
        if room.takes_soon() >= PIPE_BUF as u64 {
            return room.takes_soon();
        }
        if shrunk {
            return 0;
        }
        if let Some(_taken) = lock::take(me, ch, fd, Tail::closed) {
            shrunk = write::shrink(ch, fd);
            lock::unlock(me, ch);
            if !shrunk {
                return 0;
            }
        }
    }
}

/// Room in the kernel's pipe behind `fd`, bytes; 0 where poll(2) says that there is none. It counts in pages, of which a
/// small write may fill one: so there may be less.
pub fn pipe_space(fd: usize) -> u64 {
    if file::poll1(fd, file::POLLOUT, 0).1 & file::POLLOUT == 0 {
        return 0;
    }
    let size = file::fcntl(fd, file::F_GETPIPE_SZ, 0).max(0) as usize;
    size.saturating_sub(file::fionread(fd)).max(PIPE_BUF) as u64
}
