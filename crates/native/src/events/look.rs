//! What there is to tell of an entry now: asked of the stream and the kernel, whatever brought us here.
//!
//! Invariant: a reader of which nothing is told is armed, and a writer finds its descriptor full, so that the kernel
//! tells of the next change; but for one that a call is busy with, which marks its entry when the call ends.
//! Not here: what follows from it for the entry (table.rs).
use super::knote::{Kind, Knote, Told};
use super::{Filter, Flags};
use crate::carried::Carried;
use crate::watch::{State, Watch};
use byway_pipe::read::{self, Armed};
use byway_pipe::ready::{self, Sight};
use byway_sys::errno::EAGAIN;
use byway_sys::file;
use libc::{POLLHUP, POLLNVAL, POLLRDHUP};
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How long bytes may be left unread in a ring that a `CLEAR` entry has told of, before the pipe is the kernel's.
pub const GRACE: Duration = Duration::from_millis(10);

/// What was found.
pub enum Seen {
    /// An event: `data`, and whether the other side has gone.
    Event(i64, bool),
    /// Nothing; the kernel, or the end, tells of the next change.
    Nothing,
    /// Nothing yet, and nobody tells: look again, in `GRACE` at the latest.
    Later,
    /// The descriptor is no more.
    Gone,
}

/// Looks at an entry; `patient`: whether the caller can look again before it is over.
pub fn look(k: &mut Knote, patient: bool) -> Seen {
    let edge = std::mem::take(&mut k.edge);
    let clear = k.mode.has(Flags::CLEAR);
    match &mut k.kind {
        Kind::User(u) if u.triggered => Seen::Event(u.data, false),
        Kind::User(_) => Seen::Nothing,
        Kind::Timer(c) => match c.expired() {
            0 => Seen::Nothing,
            n => Seen::Event(n.min(i64::MAX as u64) as i64, false),
        },
        Kind::Fd(fd) if k.filter == Filter::Read => fd_reads(*fd),
        Kind::Fd(fd) => fd_writes(*fd),
        Kind::Reader { fd, carried, watch } => {
            let stream = Stream {
                fd: *fd as usize,
                carried: *carried,
                watch,
            };
            let told = if clear { k.told.take() } else { None };
            let (seen, told) = stream.look(told, edge, patient);
            k.told = told;
            seen
        }
        Kind::Writer { fd, carried, watch } => {
            let fd = *fd as usize;
            let shown = file::poll1(fd, file::POLLOUT, 0).1;
            let eof = shown & file::POLLERR != 0;
            if watch.full().load(Relaxed) && shown & file::POLLOUT != 0 {
                watch.full().store(false, Relaxed);
            }
            let space = match carried {
                _ if watch.full().load(Relaxed) => 0,
                Some(c) => ready::space(&c.me(false), c.channel, fd),
                None => ready::pipe_space(fd),
            };
            let known = k.told.take().filter(|t| clear && t.eof == eof);
            if space == 0 && !eof {
                return Seen::Nothing;
            }
            let old = known.is_some() && !edge;
            k.told = Some(Told::now(0, eof));
            if old {
                Seen::Nothing
            } else {
                Seen::Event(space as i64, eof)
            }
        }
    }
}

/// A native reader's.
struct Stream<'a> {
    fd: usize,
    carried: Option<Carried>,
    watch: &'a Watch,
}

impl Stream<'_> {
    /// Bytes that can be read; `None`: another reader holds them, and does not go on.
    fn unread(&self) -> Option<u64> {
        let there = match self.carried {
            Some(c) => ready::readable(&c.me(false), c.channel, self.fd)?,
            None => file::fionread(self.fd) as u64,
        };
        Some(there + self.watch.kept() as u64)
    }

    fn look(&self, told: Option<Told>, edge: bool, patient: bool) -> (Seen, Option<Told>) {
        let mut state = self.watch.state();
        if matches!(*state, State::Busy) {
            return (Seen::Nothing, told);
        }
        loop {
            // In this order: what was written before the last writer closed is counted, and what comes after the count
            // is new.
            let eof = file::poll1(self.fd, file::POLLIN, 0).1 & POLLHUP != 0;
            let place = self.carried.map_or(0, |c| c.channel.tail().position());
            let Some(there) = self.unread() else {
                return (Seen::Later, told);
            };
            if there > 0 || eof {
                let told = told.filter(|t| {
                    let ours = matches!(*state, State::Armed(_)) && t.settled == Some(there);
                    t.place == place && t.eof == eof && (!edge || ours)
                });
                return match told {
                    None => (Seen::Event(there as i64, eof), Some(Told::now(place, eof))),
                    Some(t) => self.again(&mut state, t, there, patient),
                };
            }
            let (Some(c), State::Awake) = (self.carried, *state) else {
                return (Seen::Nothing, None);
            };
            let mut armed = Armed::NOT;
            match ready::arm(&c.me(false), c.channel, self.fd, &mut armed) {
                Sight::Bytes => continue,
                Sight::Armed => *state = State::Armed(armed),
                Sight::Kernels => {}
            }
            return (Seen::Nothing, None);
        }
    }

    /// Nothing is new, and bytes are left unread: only the kernel's pipe tells of more.
    fn again(&self, state: &mut State, t: Told, there: u64, patient: bool) -> (Seen, Option<Told>) {
        let Some(c) = self.carried.filter(|_| there > 0) else {
            return (Seen::Nothing, Some(t));
        };
        if let (State::Armed(_), Some(_)) = (*state, t.settled) {
            return (Seen::Nothing, Some(t));
        }
        if patient && t.at.elapsed() < GRACE {
            return (Seen::Later, Some(t));
        }
        let (me, mut armed) = (c.me(false), Armed::NOT);
        if let State::Armed(a) = *state {
            read::finish(&me, c.channel, a, EAGAIN);
            *state = State::Awake;
        }
        if ready::settle(&me, c.channel, self.fd, &mut armed) == Sight::Armed {
            *state = State::Armed(armed);
        }
        let now = self.unread().unwrap_or(there);
        let told = Told {
            settled: Some(now),
            ..Told::now(c.channel.tail().position(), t.eof)
        };
        if now > there {
            return (Seen::Event(now as i64, t.eof), Some(told));
        }
        (Seen::Nothing, Some(told))
    }
}

/// Of any descriptor.
fn fd_reads(fd: RawFd) -> Seen {
    const HUNG: i16 = POLLHUP | POLLRDHUP;
    let shown = file::poll1(fd as usize, file::POLLIN | POLLRDHUP, 0).1;
    if shown & POLLNVAL != 0 {
        return Seen::Gone;
    }
    if shown & (file::POLLIN | file::POLLERR | HUNG) == 0 {
        return Seen::Nothing;
    }
    let n = connections(fd).unwrap_or_else(|| file::fionread(fd as usize) as i64);
    Seen::Event(n, shown & (file::POLLERR | HUNG) != 0)
}

fn fd_writes(fd: RawFd) -> Seen {
    let shown = file::poll1(fd as usize, file::POLLOUT, 0).1;
    if shown & POLLNVAL != 0 {
        return Seen::Gone;
    }
    let eof = shown & (file::POLLERR | POLLHUP) != 0;
    if shown & file::POLLOUT == 0 && !eof {
        return Seen::Nothing;
    }
    let space = match option(fd, libc::SOL_SOCKET, libc::SO_SNDBUF) {
        Some(size) => i64::from(size) - i64::from(unsent(fd)),
        None => ready::pipe_space(fd as usize) as i64,
    };
    Seen::Event(space.max(0), eof)
}

/// An int of a socket's; `None`: it is none.
fn option(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    let (mut v, mut n) = (0i32, size_of::<i32>() as libc::socklen_t);
    // SAFETY: room for an int, and its size.
    let r = unsafe { libc::getsockopt(fd, level, name, (&raw mut v).cast(), &mut n) };
    (r == 0).then_some(v)
}

/// Bytes that a socket has still to send.
fn unsent(fd: RawFd) -> i32 {
    let mut n = 0i32;
    // SAFETY: room for an int.
    let r = unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &mut n) };
    if r == 0 { n } else { 0 }
}

/// Connections that wait at a socket that listens; `None`: it does not.
///
/// LINUX tcp_get_info: of a socket that listens, tcpi_unacked is the length of its queue.
fn connections(fd: RawFd) -> Option<i64> {
    option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN).filter(|&on| on != 0)?;
    // SAFETY: all of it is integers.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut n = size_of::<libc::tcp_info>() as libc::socklen_t;
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_INFO);
    // SAFETY: room for a struct tcp_info, and its size.
    let r = unsafe { libc::getsockopt(fd, level, name, (&raw mut info).cast(), &mut n) };
    Some(if r == 0 {
        i64::from(info.tcpi_unacked).max(1)
    } else {
        1
    })
}
