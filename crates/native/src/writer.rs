//! The end that bytes are written to.
//!
//! Invariant: where an attempt found no room, the kernel's pipe has one slot, and is full: so the descriptor tells when
//! there is room (docs/pipe.md, Full).
//! Not here: the protocol (crate pipe, write.rs).
use crate::carried::{Carried, OrElse};
use crate::events::{Inner, Kind};
use crate::framing::HEAD;
use crate::kernel::{self, number};
use crate::reader::already;
use crate::thread;
use crate::watch::Watch;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::WriteCursor;
use byway_pipe::reason::Reason;
use byway_pipe::write::{self, Progress};
use byway_pipe::{
    Caller, Step, fast_path, fifo, handback, liveness, pass_through, policy, spiller,
};
use byway_sys::errno::{EAGAIN, EPIPE, Ret};
use byway_sys::file;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The write end of a pipe or FIFO.
///
/// Clones, also in other processes, write into one stream; a write of up to 4,096 bytes is never mixed with others'.
#[repr(C)]
pub struct Writer {
    /// Of its last pass-through write; and first, as a reader's.
    shortcut: pass_through::Shortcut,
    fd: OwnedFd,
    /// Whether its bytes have only been bytes: no records, which want the ring.
    pub(crate) plain: bool,
    pub(crate) carried: Option<Carried>,
    watch: Option<Arc<Watch>>,
    /// Of what this end wrote last.
    cursor: WriteCursor,
}

/// How an attempt ended: all is written, or as much as one that may sleep writes; or there is no room; or an error.
pub(crate) enum Tried {
    All,
    Full,
    Failed(Ret),
}

impl Writer {
    pub(crate) fn over(fd: OwnedFd, carried: Option<Carried>) -> Writer {
        Writer {
            shortcut: pass_through::Shortcut::NONE,
            fd,
            plain: true,
            carried,
            watch: None,
            cursor: WriteCursor::NONE,
        }
    }

    /// From now on it sends records, and grants: through the ring, also where a reader of bytes had no use for that.
    #[cold]
    pub(crate) fn has_records(&mut self) {
        self.plain = false;
        if let Some(c) = &self.carried {
            c.is_worth();
        }
    }

    /// The writer of a pipe whose descriptor came from elsewhere, as [`Reader::from_fd`](crate::Reader::from_fd).
    ///
    /// # Errors
    /// `InvalidInput`: not a pipe, or not open for writing.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Writer> {
        let mode = file::fcntl(number(&fd), file::F_GETFL, 0) as i32 & libc::O_ACCMODE;
        if !file::identity(number(&fd)).is_some_and(|i| i.fifo) || mode == libc::O_RDONLY {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not the write end of a pipe; pass the descriptor that its maker got",
            ));
        }
        let carried = Carried::find(&fd);
        if carried.is_some() {
            kernel::blocking(&fd)?;
        }
        Ok(Writer::over(fd, carried))
    }

    /// Another writer into the same stream, as dup(2) makes it.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn try_clone(&self) -> io::Result<Writer> {
        Ok(Writer::over(self.fd.try_clone()?, self.carried))
    }

    /// Whether bytes go through shared memory, or would with the next write.
    pub fn is_carried(&self) -> bool {
        self.carried.is_some_and(|c| !c.channel.is_kernels())
    }

    /// As much as there is room for, without waiting.
    ///
    /// # Errors
    /// `WouldBlock`: no room; from now on the descriptor tells when there is some. `BrokenPipe`: nobody reads.
    pub fn try_write(&mut self, b: &[u8]) -> io::Result<usize> {
        let mut done = 0;
        loop {
            match self.attempt(b, &mut done, OrElse::Return) {
                Tried::Failed(e) if done == 0 => return Err(error(e)),
                Tried::Full if done == 0 => match self.carried {
                    // The last look may be from before the reader's end; a full pipe that nobody reads is a broken one.
                    Some(c) if file::reader_gone(number(&self.fd)) => {
                        liveness::looks_in_vain(c.channel);
                    }
                    _ => return Err(io::ErrorKind::WouldBlock.into()),
                },
                _ => return Ok(done),
            }
        }
    }

    /// As `write`, waiting no longer than `most`; fewer bytes than all if the time is over in between.
    ///
    /// # Errors
    /// `TimedOut`: there was no room in that time. `BrokenPipe`: nobody reads. `Interrupted`: a signal handler ran
    /// meanwhile.
    pub fn write_timeout(&mut self, b: &[u8], most: Duration) -> io::Result<usize> {
        self.write_until(b, Instant::now().checked_add(most))
    }

    /// As a reader's.
    #[inline]
    fn again(&mut self, b: &[u8]) -> Option<Ret> {
        let sleeps = self.shortcut.is_some() && self.watch.is_none() && !b.is_empty();
        let tid = sleeps.then(|| thread::ids().tid)?;
        let inside = pass_through::write_again(tid, b.len(), &mut self.shortcut)?;
        let n = kernel::write_asleep(number(&self.fd), b);
        inside.wrote(n);
        (n != EAGAIN).then_some(n)
    }

    /// POSIX write: all of it, unless an error or a handler comes in between.
    #[inline]
    pub(crate) fn write_until(&mut self, b: &[u8], until: Option<Instant>) -> io::Result<usize> {
        let or = match until {
            None if self.plain => OrElse::Sleep,
            _ => OrElse::Spin,
        };
        let mut done = 0;
        loop {
            let e = match self.attempt(b, &mut done, or) {
                Tried::All => return Ok(done),
                Tried::Failed(e) => error(e),
                Tried::Full => match self.sleep(until) {
                    Ok(false) => continue,
                    // The last reader has gone: what was written counts.
                    Ok(true) if done > 0 => return Ok(done),
                    Ok(true) => continue,
                    Err(e) => e,
                },
            };
            return if done > 0 { Ok(done) } else { Err(e) };
        }
    }

    /// After an attempt that found no room: sleeps until there is some; true if the last reader has gone.
    pub(crate) fn sleep(&mut self, until: Option<Instant>) -> io::Result<bool> {
        let seen = kernel::wait(number(&self.fd), libc::POLLOUT, until)?;
        let Some(events) = seen else {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "the pipe had no room in that time: its reader does not read",
            ));
        };
        let gone = events & libc::POLLERR != 0;
        if let (true, Some(c)) = (gone, self.carried) {
            // The next write looks at once whether anybody reads.
            liveness::looks_in_vain(c.channel);
        }
        Ok(gone)
    }

    /// Writes from `done` on as much as there is room for.
    #[inline]
    pub(crate) fn attempt(&mut self, b: &[u8], done: &mut usize, or: OrElse) -> Tried {
        self.attempt_within(b, done, or, u64::MAX)
    }

    /// The same, where `most` bytes in the ring fill it; 0 of a record only, which is whole.
    #[inline]
    pub(crate) fn attempt_within(
        &mut self,
        b: &[u8],
        done: &mut usize,
        or: OrElse,
        most: u64,
    ) -> Tried {
        let tried = self.put(b, done, or, most);
        if let Some(w) = &self.watch {
            w.full().store(matches!(tried, Tried::Full), Relaxed);
            w.mark(false);
        }
        tried
    }

    /// A short record, if nothing is in its way: what write(2) says. `None`: nothing was written.
    #[inline]
    pub(crate) fn attempt_record(&mut self, head: [u8; HEAD], b: &[u8], most: u64) -> Option<Ret> {
        match &mut self.carried {
            Some(c) if self.watch.is_none() => {
                let (c, me) = c.mine(OrElse::Return);
                let ch = c.channel;
                policy::expect_tail(me, ch);
                let fd = number(&self.fd);
                fast_path::write_headed(me, ch, fd, head, b, most, &mut self.cursor)
            }
            _ => None,
        }
    }

    /// Has it watched by `queue`, as its entry `key`.
    pub(crate) fn watch(&mut self, queue: Weak<Inner>, key: u64) -> io::Result<Kind> {
        if self.watch.as_ref().is_some_and(|w| w.is_live()) {
            return Err(already());
        }
        let watch = Watch::new(queue, key, None);
        self.watch = Some(watch.clone());
        Ok(Kind::Writer {
            fd: self.fd.as_raw_fd(),
            carried: self.carried,
            watch,
        })
    }

    #[inline]
    fn put(&mut self, b: &[u8], done: &mut usize, or: OrElse, most: u64) -> Tried {
        if b.is_empty() {
            return Tried::All;
        }
        let fd = number(&self.fd);
        let Some(c) = &mut self.carried else {
            return to_kernel(fd, b, done);
        };
        let (c, me) = c.mine(or);
        let ch = c.channel;
        let whole = (b.as_ptr() as usize, b.len());
        if *done == 0
            && let Some(n) = fast_path::write(me, ch, fd, whole, most, &mut self.cursor)
        {
            return of_whole(n, done);
        }
        let sleeps = or == OrElse::Sleep;
        if sleeps
            && *done == 0
            && let Some(inside) = pass_through::write(me, ch, b.len(), &mut self.shortcut)
            && let Some(tried) = asleep(fd, b, done)
        {
            inside.wrote(*done as Ret);
            return tried;
        }
        put_on(me, ch, fd, (b, most), done, sleeps)
    }

    /// Gives the pipe to the kernel for good, every byte in order, and this end with it: for a program that knows nothing of
    /// this library.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        let fd = self.fd.try_clone()?;
        if let Some(c) = self.carried.take() {
            let me = c.me(false);
            handback::hand_back(&me, c.channel, number(&fd), true, Reason::Passed);
            spiller::wait(&me, c.channel, number(&fd));
        }
        Ok(fd)
    }
}

/// Writes from `done` on what could not go straight through; `most` as in [`Writer::attempt_within`], `sleeps`: whether
/// the kernel's write(2) may sleep.
fn put_on(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    (b, most): (&[u8], u64),
    done: &mut usize,
    sleeps: bool,
) -> Tried {
    let v = [Iov {
        base: b.as_ptr() as usize,
        len: b.len(),
    }];
    let mut p = Progress {
        at: Buffers::new(&v),
        want: b.len(),
        done: *done,
    };
    p.at.advance(*done);
    let mut most = most;
    if most == 0 && ch.is_fifo() {
        // Nobody opens it who does not take part, so its overflow is a nameless pipe's.
        match fifo::overflow(me, ch, fd, b) {
            Some(n) => return of_whole(n, done),
            None => most = u64::MAX,
        }
    }
    let step = write::write_within(me, ch, fd, &mut p, most);
    *done = p.done;
    match step {
        Step::Done(n) if n >= 0 && p.done == p.want => Tried::All,
        Step::Done(n) if n >= 0 => Tried::Full,
        Step::Done(EAGAIN) => Tried::Full,
        Step::Done(e) => Tried::Failed(e),
        Step::WaitRestartable | Step::WaitPartial | Step::WaitForRoom(_) => Tried::Full,
        step => {
            let before = *done;
            let tried = match sleeps.then(|| asleep(fd, b, done)).flatten() {
                Some(tried) => tried,
                None => to_kernel(fd, b, done),
            };
            if step == Step::NativeCounted {
                let n = match tried {
                    Tried::Full if *done == before => EAGAIN,
                    Tried::Failed(e) => e,
                    _ => (*done - before) as Ret,
                };
                write::finish(ch, n);
            }
            tried
        }
    }
}

/// What write(2) said of all that there is to write.
#[inline]
fn of_whole(said: Ret, done: &mut usize) -> Tried {
    match said {
        EAGAIN => Tried::Full,
        e if e < 0 => Tried::Failed(e),
        n => {
            *done = n as usize;
            Tried::All
        }
    }
}

pub(crate) fn error(e: Ret) -> io::Error {
    if e == EPIPE {
        return io::Error::new(
            io::ErrorKind::BrokenPipe,
            "nobody reads the pipe any more: its last reader was closed, or its process ended",
        );
    }
    io::Error::from_raw_os_error(-e as i32)
}

/// The kernel's own write(2), which sleeps where it must. `None`: it did not, for somebody made the descriptor a
/// non-blocking one.
#[inline]
fn asleep(fd: usize, b: &[u8], done: &mut usize) -> Option<Tried> {
    match kernel::write_asleep(fd, &b[*done..]) {
        EAGAIN => None,
        n if n >= 0 => {
            // Fewer than all if a handler came in between.
            *done += n as usize;
            Some(Tried::All)
        }
        e => Some(Tried::Failed(e)),
    }
}

/// The kernel's turn, as far as it goes without sleeping.
fn to_kernel(fd: usize, b: &[u8], done: &mut usize) -> Tried {
    while *done < b.len() {
        match kernel::write(fd, &b[*done..]) {
            EAGAIN => return Tried::Full,
            n if n > 0 => *done += n as usize,
            0 => return Tried::Full,
            e => return Tried::Failed(e),
        }
    }
    Tried::All
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(w) = &self.watch {
            w.forget();
        }
        let Some(c) = self.carried else { return };
        if c.channel.is_fifo() {
            fifo::leave(&c.me(false), c.channel, number(&self.fd));
        } else if file::reader_gone(number(&self.fd)) {
            c.ended();
        }
        c.rest();
    }
}

impl io::Write for Writer {
    #[inline]
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        match self.again(b) {
            Some(n) if n >= 0 => Ok(n as usize),
            Some(e) => Err(error(e)),
            None => self.write_until(b, None),
        }
    }
    /// Nothing is held back: what was written can be read.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Writer {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}
