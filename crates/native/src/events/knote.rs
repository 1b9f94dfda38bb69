//! One entry of a queue: what it watches, how it behaves, what it has told.
//!
//! Invariant: an entry owns nothing of an end's; it is removed before the end's descriptor is closed (watch.rs).
//! Not here: the table of them, and what there is to tell (look.rs).
use super::poller::Clock;
use super::{Filter, Flags};
use crate::carried::Carried;
use crate::watch::Watch;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Instant;

/// What an entry watches.
pub enum Kind {
    /// A descriptor of the program's.
    Fd(RawFd),
    Reader {
        fd: RawFd,
        carried: Option<Carried>,
        watch: Arc<Watch>,
    },
    Writer {
        fd: RawFd,
        carried: Option<Carried>,
        watch: Arc<Watch>,
    },
    User(User),
    Timer(Clock),
}

/// A user event: whether it is triggered, and what was said.
#[derive(Default)]
pub struct User {
    pub triggered: bool,
    pub data: i64,
}

impl Kind {
    /// What the kernel can tell of; nothing of a user event.
    pub fn fd(&self) -> Option<RawFd> {
        match self {
            Kind::Fd(fd) | Kind::Reader { fd, .. } | Kind::Writer { fd, .. } => Some(*fd),
            Kind::Timer(c) => Some(c.fd()),
            Kind::User(_) => None,
        }
    }

    /// What an end of this library's shares.
    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Kind::Reader { watch, .. } | Kind::Writer { watch, .. } => Some(watch),
            _ => None,
        }
    }
}

/// What a `CLEAR` entry of an end has told last: nothing is told again before something is new.
pub struct Told {
    /// The stream's write position.
    pub place: u32,
    pub eof: bool,
    pub at: Instant,
    /// Bytes left unread when the pipe was given to the kernel for it.
    pub settled: Option<u64>,
}

impl Told {
    pub fn now(place: u32, eof: bool) -> Told {
        Told {
            place,
            eof,
            at: Instant::now(),
            settled: None,
        }
    }
}

/// Where a descriptor is watched: each filter of one needs a place of its own, because an epoll has one for each descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Nowhere,
    First,
    Second,
}

/// An entry.
pub struct Knote {
    pub ident: u64,
    pub filter: Filter,
    pub udata: u64,
    /// `CLEAR`, `ONESHOT`, `DISPATCH`.
    pub mode: Flags,
    pub enabled: bool,
    /// Whether it is in the list of active ones.
    pub queued: bool,
    /// Whether it is in the list of those that may rest.
    pub fresh: bool,
    /// Whether the kernel has told of it since it was last looked at.
    pub edge: bool,
    pub place: Place,
    pub kind: Kind,
    pub told: Option<Told>,
}

impl Knote {
    /// What epoll is asked for.
    pub fn interest(&self) -> u32 {
        let events = match self.filter {
            Filter::Read => libc::EPOLLIN | libc::EPOLLRDHUP,
            Filter::Write => libc::EPOLLOUT,
            Filter::Timer | Filter::User => libc::EPOLLIN,
        };
        let edges = if self.mode.has(Flags::CLEAR) && self.filter != Filter::Timer {
            libc::EPOLLET
        } else {
            0
        };
        (events | edges) as u32
    }
}
