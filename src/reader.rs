//! The end that bytes are read from.
//!
//! Invariant: between two calls either nothing is known of the reader, or it is *armed*: the channel counts it as asleep,
//! so that the next writer rings through the kernel's pipe, and the descriptor tells the truth.
//! Not here: the protocol (crate pipe, read.rs).
use crate::ahead::Ahead;
use crate::buffered::{busy, is_elsewhere, is_held, wait_for_another};
use crate::carried::{Carried, Farewell, OrElse};
use crate::events::{Inner, Kind};
use crate::kernel::{self, attempted, number, said};
use crate::thread;
use crate::watch::{Arms, Turn, Watch};
use byway_pipe::channel::Reason;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::ReadCursor;
use byway_pipe::read::{self, Armed};
use byway_pipe::{Step, fast_path, handback, pass_through, wait};
use byway_sys::errno::{EAGAIN, Ret};
use byway_sys::file;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Weak;
use std::time::{Duration, Instant};

/// A rest this long gives the ring's memory back.
const REST: Duration = Duration::from_millis(20);

/// The read end of a pipe or FIFO.
///
/// Clones, also in other processes, share one stream: each byte goes to one of them. Two that sleep at the same time make
/// the pipe the kernel's for good.
#[repr(C)]
pub struct Reader {
    /// Of its last pass-through read. What such a read needs comes first: after a sleep each line is one more to wait
    /// for.
    shortcut: pass_through::Shortcut,
    arms: Arms,
    /// What has left the stream and comes next.
    pub(crate) ahead: Option<Box<Ahead>>,
    fd: OwnedFd,
    pub(crate) carried: Option<Carried>,
    /// The head when this end last went to sleep.
    slept: Option<u64>,
    /// Of what it read last.
    pub(crate) cursor: ReadCursor,
    /// After `fd`: it tells of the close.
    _farewell: Farewell,
}

impl Reader {
    pub(crate) fn over(fd: OwnedFd, carried: Option<Carried>) -> Reader {
        Reader {
            shortcut: pass_through::Shortcut::NONE,
            arms: Arms::Own(None),
            ahead: None,
            fd,
            carried,
            slept: None,
            cursor: ReadCursor::NONE,
            _farewell: Farewell(carried),
        }
    }

    /// The reader of a pipe whose descriptor came from elsewhere: inherited over exec(2), or of another program's.
    ///
    /// It is carried if a process of this user made it with this library. Then O_NONBLOCK is cleared: `try_read` does
    /// not wait anyhow.
    ///
    /// # Errors
    /// `InvalidInput`: not a pipe, or not open for reading.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Reader> {
        let mode = file::fcntl(number(&fd), file::F_GETFL, 0) as i32 & libc::O_ACCMODE;
        if !file::identity(number(&fd)).is_some_and(|i| i.fifo) || mode == libc::O_WRONLY {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not the read end of a pipe; pass the descriptor that its maker got",
            ));
        }
        let carried = Carried::find(&fd);
        if carried.is_some() {
            kernel::blocking(&fd)?;
        }
        Ok(Reader::over(fd, carried))
    }

    /// Another reader of the same stream, as dup(2) makes it. Bytes that this one has read [ahead](Reader::ahead) stay
    /// with this one.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn try_clone(&self) -> io::Result<Reader> {
        Ok(Reader::over(self.fd.try_clone()?, self.carried))
    }

    /// Whether bytes go through shared memory, or would with the next write.
    pub fn is_carried(&self) -> bool {
        self.carried
            .is_some_and(|c| !(c.channel.forever() && c.channel.tail().closed()))
    }

    /// Bytes that are there now, without waiting; 0 for an empty buffer, or at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there; from now on the descriptor tells when there is something. Or another reader has
    /// looked at what is there for some 30 ms ([`Buffered`](crate::Buffered)): then the descriptor tells when that one
    /// has done, but not if its process is killed before.
    pub fn try_read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        self.attempt(b, OrElse::Return)?
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// As `read`, waiting no longer than `most`.
    ///
    /// # Errors
    /// `TimedOut`: nothing came, or another reader looks at what did. `Interrupted`: a signal handler ran meanwhile.
    pub fn read_timeout(&mut self, b: &mut [u8], most: Duration) -> io::Result<usize> {
        self.read_until(b, Instant::now().checked_add(most))
    }

    /// What read(2) says, if it is the kernel's turn as it was the last time: by as little as may be, for after a sleep
    /// all is cold.
    #[inline]
    fn again(&mut self, b: &mut [u8]) -> Option<Ret> {
        let sleeps =
            self.shortcut.is_some() && self.arms.are_none() && !b.is_empty() && !self.is_ahead();
        let tid = sleeps.then(|| thread::ids().tid)?;
        quietly(
            pass_through::read_again(tid, &mut self.shortcut)?,
            number(&self.fd),
            b,
        )
    }

    pub(crate) fn read_until(&mut self, b: &mut [u8], until: Option<Instant>) -> io::Result<usize> {
        let or = match until {
            Some(_) => OrElse::Spin,
            None => OrElse::Sleep,
        };
        loop {
            match self.attempt(b, or) {
                Ok(Some(n)) => return Ok(n),
                in_vain => self.wait_after(in_vain, until)?,
            }
        }
    }

    /// After an attempt that found nothing, or another reader at it.
    #[cold]
    fn wait_after(
        &mut self,
        attempt: io::Result<Option<usize>>,
        until: Option<Instant>,
    ) -> io::Result<()> {
        match attempt {
            Ok(_) => self.sleep(until),
            Err(e) if is_elsewhere(&e) => wait_for_another(until),
            Err(e) => Err(e),
        }
    }

    /// After an attempt that found nothing: sleeps until the descriptor tells of something.
    pub(crate) fn sleep(&mut self, until: Option<Instant>) -> io::Result<()> {
        let fd = number(&self.fd);
        if let Some(c) = self.carried {
            let soon = Instant::now() + REST;
            if until.is_none_or(|t| t > soon) {
                if kernel::wait(fd, libc::POLLIN, Some(soon))?.is_some() {
                    return Ok(());
                }
                c.rest();
            }
        }
        match kernel::wait(fd, libc::POLLIN, until)? {
            Some(_) => Ok(()),
            None => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nothing was written to the pipe in that time",
            )),
        }
    }

    /// The beginning of a call, and the end of being counted as asleep. The call ends with the value.
    #[inline]
    pub(crate) fn turn(&mut self) -> Turn {
        if self.arms.are_none() {
            return Turn::UNWATCHED;
        }
        self.turn_armed()
    }

    #[inline(never)]
    fn turn_armed(&mut self) -> Turn {
        if let (Some(a), Some(c)) = (self.arms.take(), self.carried) {
            read::finish(&c.me(false), c.channel, a, EAGAIN);
        }
        Turn::of(&self.arms)
    }

    /// Has it watched by `queue`, as its entry `key`.
    pub(crate) fn watch(&mut self, queue: Weak<Inner>, key: u64) -> io::Result<Kind> {
        if self.arms.watch().is_some_and(|w| w.is_live()) {
            return Err(already());
        }
        let armed = match self.arms {
            Arms::Own(a) => a,
            // Its queue has gone; the state stays.
            Arms::Watched(ref w) => w.armed(),
        };
        let watch = Watch::new(queue, key, armed);
        self.arms = Arms::Watched(watch.clone());
        self.keep(0);
        Ok(Kind::Reader {
            fd: self.fd.as_raw_fd(),
            carried: self.carried,
            watch,
        })
    }

    /// How the queue that watches it knows it.
    pub(crate) fn watched(&self) -> Option<&Watch> {
        self.arms.watch().map(|w| &**w)
    }

    /// What is there; `None`: nothing, and the reader is armed.
    #[inline]
    pub(crate) fn attempt(&mut self, b: &mut [u8], or: OrElse) -> io::Result<Option<usize>> {
        if b.is_empty() || self.is_ahead() {
            return Ok(Some(self.read_ahead(b)));
        }
        let _turn = self.turn();
        let Some(c) = &mut self.carried else {
            return attempted(self.ask_kernel(b, or));
        };
        if is_held(c) {
            return Err(busy());
        }
        let (c, me) = c.mine(or);
        let (ch, fd) = (c.channel, number(&self.fd));
        let whole = (b.as_mut_ptr() as usize, b.len());
        if fast_path::read(me, ch, whole, &mut self.cursor) {
            return Ok(Some(b.len()));
        }
        if or == OrElse::Sleep
            && let Some(inside) = pass_through::read(me, ch, &mut self.shortcut)
            && let Some(n) = quietly(inside, fd, b)
        {
            return said(n).map(Some);
        }
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: b.len(),
        }];
        let mut armed = Armed::NOT;
        let at = Buffers::new(&v);
        let held = or.held();
        match read::read_or(me, ch, fd, at, b.len(), &mut armed, held) {
            Step::Done(n) => said(n).map(Some),
            step => {
                let c = *c;
                self.natively(&c, step, armed, b, or)
            }
        }
    }

    /// The kernel's turn.
    #[cold]
    fn natively(
        &mut self,
        c: &Carried,
        step: Step,
        armed: Armed,
        b: &mut [u8],
        or: OrElse,
    ) -> io::Result<Option<usize>> {
        let (me, ch) = (c.me(false), c.channel);
        // One read(2) in place of a poll and a read. While it sleeps nobody gives the ring's memory back: so not before
        // that is done.
        let rests = or == OrElse::Sleep && self.is_at_rest(c);
        let n = self.ask_kernel(b, if rests { or } else { OrElse::Return });
        if step != Step::NativeCounted {
            return attempted(n);
        }
        if n == EAGAIN {
            self.arms.set(armed);
            return Ok(None);
        }
        read::finish(&me, ch, armed, n);
        let done = said(n)?;
        if done == 0 || done == b.len() || ch.tail().closed() {
            return Ok(Some(done));
        }
        // A wake-up brought the first bytes of a write; the rest of it is in the ring.
        let was = ch.tail().position();
        wait::let_publish(&me, ch, done, was);
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: b.len(),
        }];
        let mut at = Buffers::new(&v);
        at.advance(done);
        let mut armed = Armed::NOT;
        match read::read(&me, ch, number(&self.fd), at, b.len(), done, &mut armed) {
            Step::Done(n) => said(n).map(Some),
            _ => Ok(Some(done)),
        }
    }

    /// Whether the ring has brought nothing since this end last went to sleep: then it has no memory now.
    fn is_at_rest(&mut self, c: &Carried) -> bool {
        let r = c.channel.head().position();
        let unused = self.slept.replace(r) == Some(r);
        if unused {
            c.rest();
        }
        unused
    }

    fn ask_kernel(&self, b: &mut [u8], or: OrElse) -> Ret {
        let fd = number(&self.fd);
        match or {
            OrElse::Sleep => kernel::read_waiting(fd, b),
            _ => kernel::read(fd, b),
        }
    }

    /// Gives the pipe to the kernel for good, every byte in order, and this end with it: for a program that knows nothing of
    /// this library.
    ///
    /// # Errors
    /// No descriptor is free. EBUSY: this thread looks at bytes of the pipe ([`Buffered`](crate::Buffered)).
    /// `InvalidInput`: this end has read [ahead](Reader::ahead), and who gets the descriptor would miss that: read it
    /// before.
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        if self.is_ahead() {
            let n = self.ahead().len();
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{n} bytes were read ahead, and would be lost; read those first"),
            ));
        }
        if self.carried.is_some_and(|c| is_held(&c)) {
            return Err(busy());
        }
        let fd = self.fd.try_clone()?;
        let _turn = self.turn();
        if let Some(c) = self.carried.take() {
            let me = c.me(false);
            handback::hand_back(&me, c.channel, number(&self.fd), true, Reason::Passed);
        }
        Ok(fd)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.turn());
        if let Some(w) = self.watched() {
            w.forget();
        }
        if let Some(c) = self.carried {
            c.rest();
        }
    }
}

/// What the kernel's own read(2) says. `None`: it would have slept, but somebody made the descriptor a non-blocking
/// one; who waits for that must be counted.
#[inline]
fn quietly(_inside: pass_through::Inside, fd: usize, b: &mut [u8]) -> Option<Ret> {
    match kernel::read_asleep(fd, b) {
        EAGAIN => None,
        n => Some(n),
    }
}

/// An end is in one queue at most.
pub(crate) fn already() -> io::Error {
    io::Error::new(
        io::ErrorKind::AlreadyExists,
        "the end is watched by a queue already: change its entry there, or delete it",
    )
}

impl io::Read for Reader {
    #[inline]
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        match self.again(b) {
            Some(n) => said(n),
            None => self.read_until(b, None),
        }
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Reader {
    fn as_raw_fd(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Reader, Receiver, Sender, Writer, pipe};
    use std::io::{Read, Write};
    use std::thread;
    use std::time::Duration;

    /// Whether its calls are the kernel's own.
    fn passes_through(r: &Reader) -> bool {
        let c = r.carried.expect("it is carried");
        c.channel.tail().closed() && c.channel.tail().passes_through()
    }

    fn is_open(r: &Reader) -> bool {
        !r.carried.expect("it is carried").channel.tail().closed()
    }

    /// Bytes one by one, each to a reader asleep, until the ring is left.
    fn hush(r: &mut Reader, w: &mut Writer) {
        let other = r.try_clone().unwrap();
        thread::scope(|t| {
            t.spawn(|| {
                let mut b = [0];
                while b[0] == 0 {
                    r.read_exact(&mut b).unwrap();
                }
            });
            let quiet = (0..5000).any(|_| {
                w.write_all(&[0]).unwrap();
                thread::sleep(Duration::from_micros(200));
                passes_through(&other)
            });
            w.write_all(&[1]).unwrap();
            assert!(quiet);
        });
    }

    fn stream(r: &mut Reader, w: &mut Writer) {
        const N: usize = 10_000_000;
        thread::scope(|t| {
            t.spawn(|| (0..N / 100).for_each(|_| w.write_all(&[0; 100]).unwrap()));
            let (mut b, mut n) = ([0; 1000], 0);
            while n < N {
                n += r.read(&mut b).unwrap();
            }
        });
    }

    #[test]
    fn a_ring_that_brings_nothing_is_left_and_a_stream_comes_back_to_it() {
        let (mut r, mut w) = pipe().unwrap();
        stream(&mut r, &mut w);
        assert!(is_open(&r));
        for _ in 0..2 {
            hush(&mut r, &mut w);
            assert!(r.is_carried() && w.is_carried());
            stream(&mut r, &mut w);
            assert!(is_open(&r));
        }
    }

    #[test]
    fn records_want_the_ring_and_keep_it() {
        let (mut r, mut w) = pipe().unwrap();
        hush(&mut r, &mut w);
        let watched = r.try_clone().unwrap();
        let (mut r, mut s) = (Receiver::new(r), Sender::new(w));
        for _ in 0..50 {
            s.send(b"one").unwrap();
            r.message().unwrap();
        }
        assert!(is_open(&watched));
        thread::scope(|t| {
            t.spawn(|| while matches!(r.receive(&mut [0; 9]), Ok(Some(1))) {});
            for _ in 0..200 {
                s.send(b".").unwrap();
                thread::sleep(Duration::from_micros(200));
            }
            s.send(b"").unwrap();
        });
        assert!(is_open(&watched));
    }
}
