//! Many ends at once: an event queue in the shape of kqueue(2), for native ends and for any descriptor, over one epoll.
//!
//! ```text
//! Change { source, filter, flags, udata } --apply--> Queue: (ident, filter) -> knote --wait--> Event { ident, filter, flags, data, udata }
//! ```
//! ```
//! use byway::events::{Change, Event, Filter, Flags, Queue};
//! use std::io::Write;
//!
//! let queue = Queue::new()?;
//! let (mut reader, mut writer) = byway::pipe()?;
//! queue.apply(Change::read(&mut reader).udata(7))?;
//! writer.write_all(b"hello")?;
//! let mut events = [Event::default(); 8];
//! assert_eq!(queue.wait(&mut events, None)?, 1);
//! assert_eq!((events[0].filter, events[0].data, events[0].udata), (Filter::Read, 5, 7));
//! drop(writer);
//! queue.wait(&mut events, None)?;
//! assert!(events[0].flags.has(Flags::EOF)); // and five bytes are still to be read
//! assert_eq!(events[0].data, 5);
//! # Ok::<(), std::io::Error>(())
//! ```
//! # Semantics
//! Those of kqueue(2), as FreeBSD has it: an entry (*knote*) for each identifier and filter; level-triggered, unless
//! `CLEAR` makes it tell of changes only, more bytes included; `ONESHOT` removes it with its first event, `DISPATCH`
//! disables it. An entry goes with its end. An end is in one queue at a time; a queue belongs to the process that made
//! it, and a child that is forked makes its own.
//!
//! | filter | `data` | `EOF` |
//! |---|---|---|
//! | Read | bytes to read; of a socket that listens: connections (TCP; else 1) | the last writer has closed, or the peer has shut down |
//! | Write | bytes of room (of sockets and kernel pipes: about) | nobody reads |
//! | User | what [`Queue::trigger`] said | |
//! | Timer | how often it has expired since it was last told | |
//!
//! Of records `data` counts bytes as they stand in the stream: 8 more for each, 24 for a grant.
//!
//! # Threads
//! All of a queue's functions may be called by several threads at once, also with one waiting; ends may be used meanwhile by
//! whoever has them. An event goes to one of the waiting threads; a level-triggered one may go to each of them. Not from
//! signal handlers.
//!
//! # Nesting
//! The queue is pollable itself (`AsFd`): readable when an event waits, until `wait` has returned it; so another queue,
//! epoll, or an event loop can wait for it, and then call `wait` with no time.
//!
//! # What Linux has not
//! - Regular files are no sources (epoll refuses them: they are always ready): the error is `PermissionDenied`.
//! - A descriptor that was duplicated (dup(2), fork(2)) and then closed here stays watched until its last duplicate is
//!   closed: delete its entry first. Native ends, whoever has clones, go when they are closed.
//! - The error of a socket that failed: it shows `EOF`, and the next call on it says which error.
//! - With `CLEAR`, room in a kernel pipe is told when it was full before; kqueue tells of each read.
//! - Waits are rounded up to whole milliseconds.
//!
//! With `CLEAR`, and bytes left unread for ten milliseconds while the queue waits, a native pipe is the kernel's until they
//! are read: only there are more bytes told. Read until `WouldBlock`, and it never is.
//!
//! Invariant: a knote that waits for nothing but the kernel has its descriptor in epoll, and, if it is a native end's, the
//! descriptor tells the truth (docs/native.md, Readiness); every other enabled one is in the list of active ones, and while
//! somebody waits, or may poll the queue, the wake-up has woken for it.
mod knote;
mod look;
mod poller;
mod queue;
mod table;

pub(crate) use knote::Kind;
pub(crate) use queue::Inner;
pub use queue::Queue;

use crate::{Reader, Receiver, Sender, Writer};
use std::fmt;
use std::ops::{BitOr, BitOrAssign};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What is waited for. The numbers are FreeBSD's.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
#[repr(i16)]
pub enum Filter {
    /// There is something to read, or the end of it.
    #[default]
    Read = -1,
    /// There is room to write, or nobody reads any more.
    Write = -2,
    /// A time has passed.
    Timer = -7,
    /// A thread called [`Queue::trigger`].
    User = -11,
}

/// What is to be done with an entry, how it behaves, and what came of it. The bits are FreeBSD's.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(u16);

impl Flags {
    /// Makes the entry, or changes its flags and `udata`; enables it, unless `DISABLE` is given too.
    pub const ADD: Flags = Flags(0x1);
    /// Removes it.
    pub const DELETE: Flags = Flags(0x2);
    /// Lets it tell again.
    pub const ENABLE: Flags = Flags(0x4);
    /// Keeps it, and its events back.
    pub const DISABLE: Flags = Flags(0x8);
    /// The first event removes it.
    pub const ONESHOT: Flags = Flags(0x10);
    /// Tells of changes only. Timers always do.
    pub const CLEAR: Flags = Flags(0x20);
    /// Each event disables it.
    pub const DISPATCH: Flags = Flags(0x80);
    /// Of an event: a change was not made; `data` is the number of the error.
    pub const ERROR: Flags = Flags(0x4000);
    /// Of an event: the other side has gone.
    pub const EOF: Flags = Flags(0x8000);

    /// Those with these bits.
    pub const fn from_bits(bits: u16) -> Flags {
        Flags(bits)
    }

    /// The bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Whether all of `other` are set.
    pub const fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Flags;
    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, other: Flags) {
        self.0 |= other.0;
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const ALL: [(Flags, &str); 9] = [
            (Flags::ADD, "ADD"),
            (Flags::DELETE, "DELETE"),
            (Flags::ENABLE, "ENABLE"),
            (Flags::DISABLE, "DISABLE"),
            (Flags::ONESHOT, "ONESHOT"),
            (Flags::CLEAR, "CLEAR"),
            (Flags::DISPATCH, "DISPATCH"),
            (Flags::ERROR, "ERROR"),
            (Flags::EOF, "EOF"),
        ];
        let set = ALL.iter().filter(|(flag, _)| self.has(*flag));
        let names: Vec<&str> = set.map(|(_, name)| *name).collect();
        write!(f, "Flags({})", names.join(" | "))
    }
}

/// Whom a change is about.
pub(crate) enum Source<'a> {
    Reader(&'a mut Reader),
    Receiver(&'a mut Receiver),
    Writer(&'a mut Writer),
    Sender(&'a mut Sender),
    Fd(BorrowedFd<'a>),
    /// A number of the caller's: of a user event, or of any entry that is there.
    Ident(u64),
    /// The same of a timer, and its time.
    Timer(u64, Duration),
}

/// An end whose reading can be waited for: `&mut Reader`, `&mut Receiver`, or a `BorrowedFd` of anything that epoll takes.
pub trait Readable<'a>: sealed::Source<'a> {}
/// An end whose writing can be waited for: `&mut Writer`, `&mut Sender`, or a `BorrowedFd` of anything that epoll takes.
pub trait Writable<'a>: sealed::Source<'a> {}

mod sealed {
    /// What the two traits have in common, and nobody else implements.
    #[allow(private_interfaces)]
    pub trait Source<'a> {
        fn source(self) -> super::Source<'a>;
    }
}

macro_rules! sources {
    ($($what:ty: $variant:ident, $($role:ident)+;)+) => {$(
        #[allow(private_interfaces)]
        impl<'a> sealed::Source<'a> for $what {
            fn source(self) -> Source<'a> {
                Source::$variant(self)
            }
        }
        $(impl<'a> $role<'a> for $what {})+
    )+};
}
sources! {
    &'a mut Reader: Reader, Readable;
    &'a mut Receiver: Receiver, Readable;
    &'a mut Writer: Writer, Writable;
    &'a mut Sender: Sender, Writable;
    BorrowedFd<'a>: Fd, Readable Writable;
}

/// One change of a queue: what to watch, or what to do with an entry.
#[must_use = "a change does nothing until a queue applies it"]
pub struct Change<'a> {
    pub(crate) source: Source<'a>,
    pub(crate) filter: Filter,
    pub(crate) flags: Flags,
    pub(crate) udata: u64,
}

impl<'a> Change<'a> {
    fn add(source: Source<'a>, filter: Filter) -> Change<'a> {
        Change {
            source,
            filter,
            flags: Flags::ADD,
            udata: 0,
        }
    }

    /// The identifier of the entry that it is about.
    pub(crate) fn ident(&self) -> u64 {
        let fd = match &self.source {
            Source::Reader(r) => r.as_raw_fd(),
            Source::Receiver(r) => r.as_raw_fd(),
            Source::Writer(w) => w.as_raw_fd(),
            Source::Sender(s) => s.as_raw_fd(),
            Source::Fd(fd) => fd.as_raw_fd(),
            Source::Ident(n) | Source::Timer(n, _) => return *n,
        };
        fd as u64
    }

    /// Waits for something to read. The entry's identifier is the number of the descriptor.
    pub fn read(from: impl Readable<'a>) -> Change<'a> {
        Change::add(from.source(), Filter::Read)
    }

    /// Waits for room to write. The entry's identifier is the number of the descriptor.
    pub fn write(to: impl Writable<'a>) -> Change<'a> {
        Change::add(to.source(), Filter::Write)
    }

    /// Waits for [`Queue::trigger`] of the number `ident`.
    pub fn user(ident: u64) -> Change<'a> {
        Change::add(Source::Ident(ident), Filter::User)
    }

    /// Waits for `every` to pass, again and again; once with `ONESHOT`. A timer that is there begins anew.
    pub fn timer(ident: u64, every: Duration) -> Change<'a> {
        Change::add(Source::Timer(ident, every), Filter::Timer)
    }

    /// What to do with an entry that is there: `ENABLE`, `DISABLE`, `DELETE`, or `ADD` for other flags and `udata`.
    pub fn entry(ident: u64, filter: Filter, flags: Flags) -> Change<'a> {
        Change {
            source: Source::Ident(ident),
            filter,
            flags,
            udata: 0,
        }
    }

    /// Sets flags, beside those that the kind of change has.
    pub fn flags(mut self, flags: Flags) -> Change<'a> {
        self.flags |= flags;
        self
    }

    /// What events of the entry will carry.
    pub fn udata(mut self, udata: u64) -> Change<'a> {
        self.udata = udata;
        self
    }
}

/// What happened to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Event {
    /// The number of the descriptor, or what the caller named the user event or timer.
    pub ident: u64,
    /// What was waited for.
    pub filter: Filter,
    /// `EOF`, `ERROR`, and those that the entry has (`CLEAR`, `ONESHOT`, `DISPATCH`).
    pub flags: Flags,
    /// How much, by filter (see the module); of an error its number.
    pub data: i64,
    /// The caller's, from the change.
    pub udata: u64,
}
