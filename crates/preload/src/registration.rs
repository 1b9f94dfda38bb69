//! One registration of a carried pipe in an epoll set: what it asks for, what was told of it, and what is true of it.
//!
//! Invariant: what it says is hidden is asked for, true at that look, and not told by the kernel.
//! Not here: which registrations a set has, and when they are armed (registrations.rs).
use crate::asked;
use crate::fdtable::Endpoint;
use byway_pipe::channel::Channel;
use byway_pipe::ready::{self, Unread};
use byway_pipe::{Caller, datagram, peer};
use byway_sys::file::{self, POLLIN, POLLOUT};
use core::sync::atomic::Ordering::Relaxed;

/// So many looks find nothing before a registration is idle: its next byte comes by the kernel lane, which takes as long
/// as the kernel's own.
pub const IDLE_AFTER: u8 = 8;
const EPOLLONESHOT: u32 = 1 << 30;
const EPOLLET: u32 = 1 << 31;

/// A registration of a carried pipe.
#[derive(Clone, Copy)]
pub struct Entry {
    pub fd: u32,
    pub slot: u32,
    /// Of what is asked, that which the end can have.
    pub events: u32,
    pub data: u64,
    /// EPOLLET, and not EPOLLONESHOT.
    pub edge: bool,
    pub is_socket: bool,
    /// Of a socket that does not know its other end: `slot` is that which it writes to.
    pub unmatched: bool,
    /// EPOLLONESHOT: what is true of it the kernel tells, and then disables it.
    pub once: bool,
    /// It has been told, so the kernel has disabled it.
    pub off: bool,
    /// What the kernel tells next with its data is of this arming.
    pub sure: bool,
    /// Nothing was there when it was added or changed, nor when it was armed, and it was not disarmed since.
    pub calm: bool,
    /// The channel's hand-backs when it was added or changed.
    pub backs: u32,
    /// Another registration has the same data, so what the kernel tells may be of that one.
    pub alike: bool,
    /// Of it all is to be told that is so: it was added or changed.
    pub fresh: bool,
    /// By edge: a write was told that there is no room, and room is to be told.
    pub blocked: bool,
    /// Whether it counts as a reader that sleeps.
    pub armed: bool,
    /// Looks in a row that found nothing.
    pub looks: u8,
    /// What is true, asked for, and not told by the kernel.
    pub hidden: u32,
    /// By level: the ring has something to read, and the kernel tells.
    pub shows: bool,
    /// By edge: the ring has something to read, told or not.
    pub unread: bool,
    /// By edge: a call sleeps beside what was told of it, which another thread is to read; and where the head was then.
    pub owed: bool,
    pub head: u64,
    /// Told once: where the head was when its oldest bytes were last shown, and how often in a row that was close before.
    pub shown: u64,
    pub poor: u8,
    /// Where the stream ended when the last event was told, and at the last look.
    pub told: u64,
    pub at: u64,
}

impl Entry {
    /// That of `fd`, which is `end`, asks for `events` and can have those in `can`.
    pub fn of(fd: usize, end: Endpoint, events: u32, can: i16, data: u64) -> Entry {
        let slot = end.reads.or(end.writes).unwrap_or_default();
        let once = events & EPOLLONESHOT != 0;
        Entry {
            fd: fd as u32,
            slot: slot as u32,
            events: events & u32::from(can as u16),
            data,
            // LINUX epoll_ctl(2): one that is told once is by edge and by level the same.
            edge: events & EPOLLET != 0 && !once,
            is_socket: end.is_socket,
            unmatched: end.unmatched().is_some(),
            once,
            off: false,
            sure: true,
            alike: false,
            calm: true,
            backs: 0,
            fresh: true,
            blocked: false,
            armed: false,
            looks: 0,
            hidden: 0,
            shows: false,
            unread: false,
            owed: false,
            head: 0,
            shown: 0,
            poor: 0,
            told: 0,
            at: 0,
        }
    }

    /// The bits of `bits` that are to be told.
    pub fn asks(&self, bits: i16) -> u32 {
        if self.off {
            0
        } else {
            self.events & u32::from(bits as u16)
        }
    }

    /// Whether it is of a read end, and asks for bytes.
    pub fn reads(&self) -> bool {
        self.events & u32::from(asked::IN as u16) != 0
    }

    /// It is about to be added or changed, and is not armed. Nothing has come if the kernel lane has no place.
    pub fn begin(&mut self, me: &Caller) {
        if let Some(ch) = self.channel(me) {
            self.backs = ch.reader.0.hand_backs.load(Relaxed);
            self.calm = !ch.tail().closed() && !ch.chunk().valid();
        }
    }

    /// Whether no event of it can be on its way to a thread that is not home: nothing has come since it was added or changed.
    /// It was taken off its list a moment ago; `still`: it was `is_armed_still` before.
    pub fn was_quiet(&self, me: &Caller, still: bool) -> bool {
        let quiet = |ch: &Channel| {
            // A place is set before the bytes that are told; not of an outsider's.
            let same = ch.reader.0.hand_backs.load(Relaxed) == self.backs;
            same && !ch.tail().closed() && !ch.chunk().valid() && !ch.is_fifo()
        };
        self.off || self.sure && still && self.channel(me).is_some_and(quiet)
    }

    /// Whether nothing can have come since it was added or changed.
    pub fn is_armed_still(&self) -> bool {
        self.armed && self.calm
    }

    /// Whether it had nothing for long.
    pub fn rests(&self) -> bool {
        self.hidden == 0 && !self.unread && self.looks >= IDLE_AFTER && self.asks(asked::OUT) == 0
    }

    /// Whether it may be told with what the ring has alone, where the kernel had nothing a moment ago. By edge the kernel would
    /// tell next of a datagram that it has of an inbox, and that is one event.
    pub fn may_go_unasked(&self, me: &Caller) -> bool {
        let by_both = |ch: &Channel| self.edge && ch.is_inbox();
        self.asks(asked::IN) != 0 && !self.channel(me).is_some_and(by_both)
    }

    /// Whether a call that waits for it may wait awake.
    pub fn may_wait_awake(&self, me: &Caller) -> bool {
        self.channel(me)
            .is_some_and(|ch| !ch.is_inbox() || datagram::may_wait_awake(ch, self.fd as usize))
    }

    /// The channel that it tells of; `None`: it is unmatched.
    pub fn channel(&self, me: &Caller) -> Option<&'static Channel> {
        Channel::at(me.domain, self.slot as usize).filter(|_| !self.unmatched)
    }

    /// The slot that an unmatched socket reads from, if it is matched by now. The table of descriptors may have forgotten it: where
    /// a close of the number's old file by another thread ends late.
    pub fn match_found(&self, me: &Caller) -> Option<usize> {
        let ch = Channel::at(me.domain, self.slot as usize).filter(|_| self.unmatched)?;
        peer::reads(me.domain, ch)
    }

    /// What is true of it and asked for, and what the kernel does not tell of its descriptor. A writer without room finds
    /// its kernel lane full afterwards, so that the kernel tells of room when there is some.
    pub fn look(&mut self, me: &Caller) -> u32 {
        let Some(ch) = self.channel(me).filter(|ch| !ch.is_kernels()) else {
            return 0;
        };
        let fd = self.fd as usize;
        let mut bits = 0;
        self.shows = false;
        if self.asks(asked::IN) != 0 {
            ready::await_rest(me, ch);
            let end = ready::end(ch);
            self.looks = match end == self.at {
                true => self.looks.saturating_add(1),
                false => 0,
            };
            self.at = end;
            self.unread = self.edge && ready::has_unread(ch, end);
            let hidden = match self.edge {
                true => self.unread && (end != self.told || self.fresh),
                // Of two with the same data nobody could say which the kernel has told of.
                false if self.alike && ch.is_inbox() && tells(fd) => false,
                false => {
                    let unread = Unread::of(ch, fd);
                    self.shows = unread == Unread::Told;
                    unread == Unread::Hidden
                }
            };
            if hidden {
                bits |= self.asks(asked::IN);
            }
        }
        if self.asks(asked::OUT) != 0 && self.owes_room(me, ch) {
            bits |= self.asks(asked::OUT);
        }
        bits
    }

    /// Whether the ring has something to read.
    pub fn has_unread(&self, me: &Caller) -> bool {
        self.channel(me)
            .is_some_and(|ch| ready::has_unread(ch, ready::end(ch)))
    }

    /// Whether there is room of which the kernel does not tell.
    fn owes_room(&mut self, me: &Caller, ch: &Channel) -> bool {
        if self.edge && !self.blocked && !self.fresh {
            return false;
        }
        let fd = self.fd as usize;
        if !ready::is_writable(me, ch, fd) && ready::arm_writer(me, ch, fd) {
            // The kernel lane is full: it makes an event of the room.
            self.blocked = false;
            return false;
        }
        self.edge && self.blocked || file::poll1(fd, POLLOUT, 0).1 & POLLOUT == 0
    }

    /// Its event is told.
    pub fn tell(&mut self) {
        (self.told, self.fresh, self.blocked) = (self.at, false, false);
        self.looks = 0;
    }
}

/// Whether the kernel tells that `fd` can be read.
fn tells(fd: usize) -> bool {
    file::poll1(fd, POLLIN, 0).1 & POLLIN != 0
}
