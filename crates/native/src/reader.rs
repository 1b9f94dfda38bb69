//! The end that bytes are read from.
//!
//! Invariant: between two calls either nothing is known of the reader, or it is *armed*: the channel counts it as asleep,
//! so that the next writer rings through the kernel's pipe, and the descriptor tells the truth.
//! Not here: the protocol (crate pipe, read.rs).
use crate::ahead::Ahead;
use crate::carried::{Carried, Farewell, OrElse};
use crate::events::{Inner, Kind};
use crate::kernel::{self, attempted, number, said};
use crate::thread;
use crate::watch::{Arms, Turn, Watch};
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::ReadCursor;
use byway_pipe::read::{self, Armed};
use byway_pipe::reason::Reason;
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
        self.carried.is_some_and(|c| !c.channel.is_kernels())
    }

    /// Bytes that are there now, without waiting; 0 for an empty buffer, or at the end of the stream.
    ///
    /// # Errors
    /// `WouldBlock`: nothing is there; from now on the descriptor tells when there is something. Or another reader was
    /// stopped in the midst of a read, for some 30 ms: then nothing tells of what that one leaves.
    pub fn try_read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        self.attempt(b, OrElse::Return)?
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// As `read`, waiting no longer than `most`.
    ///
    /// # Errors
    /// `TimedOut`: nothing came, or another reader was stopped while it read what did. `Interrupted`: a signal handler ran meanwhile.
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
        match read::read_or(me, ch, fd, at, b.len(), &mut armed, or.turns()) {
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
    /// No descriptor is free. `InvalidInput`: this end has read [ahead](Reader::ahead), and who gets the descriptor would
    /// miss that: read it before.
    pub fn into_fd(mut self) -> io::Result<OwnedFd> {
        if self.is_ahead() {
            let n = self.ahead().len();
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{n} bytes were read ahead, and would be lost; read those first"),
            ));
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

/// Between two looks whether another reader goes on.
const ANOTHER: Duration = Duration::from_micros(100);

/// Whether an attempt found that another reader holds what is there, and does not go on: nothing is armed.
pub(crate) fn is_elsewhere(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EAGAIN)
}

/// A moment until that reader is asked again.
#[cold]
pub(crate) fn wait_for_another(until: Option<Instant>) -> io::Result<()> {
    let now = Instant::now();
    if until.is_some_and(|t| now >= t) {
        return Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "another reader was stopped while it read from the pipe, and did not go on in that time",
        ));
    }
    let soon = now + ANOTHER;
    kernel::pause(until.map_or(soon, |t| t.min(soon)))
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
    use byway_pipe::{Caller, lock, word::Head};
    use std::io::{ErrorKind, Read, Write};
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

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

    /// Whether a stream opens the ring. On a busy machine each write of one may wake its reader, and it is left again.
    fn opens(r: &mut Reader, w: &mut Writer) -> bool {
        (0..50).any(|_| {
            stream(r, w);
            is_open(r)
        })
    }

    #[test]
    fn a_ring_that_brings_nothing_is_left_and_a_stream_comes_back_to_it() {
        let (mut r, mut w) = pipe().unwrap();
        assert!(opens(&mut r, &mut w));
        for _ in 0..2 {
            hush(&mut r, &mut w);
            assert!(r.is_carried() && w.is_carried());
            assert!(opens(&mut r, &mut w));
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
    /// A pipe with "hello" in its ring, and what ends the stop of a reader that was stopped in the midst of a read.
    fn stopped() -> (Reader, Writer, impl FnOnce()) {
        let (r, mut w) = pipe().unwrap();
        w.write_all(b"hello").unwrap();
        let c = r.carried.expect("it is carried");
        // Another thread that lives until the process ends.
        let (sends, tid) = mpsc::channel();
        thread::spawn(move || {
            sends.send(byway_sys::process::gettid()).unwrap();
            loop {
                thread::park();
            }
        });
        let me = Caller {
            tid: tid.recv().unwrap(),
            ..c.me(false)
        };
        let at = c.channel.head().position();
        assert!(lock::try_hold(&me, c.channel, at, Head::READS_LANE));
        (r, w, move || lock::release(&me, c.channel, at))
    }

    #[test]
    fn nobody_waits_without_end_for_a_reader_that_was_stopped() {
        let (mut r, _w, go_on) = stopped();
        let kind = |e: std::io::Result<usize>| e.unwrap_err().kind();
        let (began, soon) = (Instant::now(), Duration::from_millis(5));
        assert_eq!(kind(r.read_timeout(&mut [0; 9], soon)), ErrorKind::TimedOut);
        assert!(began.elapsed() >= soon);
        assert_eq!(kind(r.try_read(&mut [0; 9])), ErrorKind::WouldBlock);
        // A queue waits as long as it is to.
        let q = crate::events::Queue::new().unwrap();
        q.apply(crate::events::Change::read(&mut r)).unwrap();
        let mut events = [Default::default(); 2];
        assert_eq!(q.wait(&mut events, Some(soon)).unwrap(), 0);
        go_on();
        assert_eq!(q.wait(&mut events, None).unwrap(), 1);
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 5);
    }

    #[test]
    fn a_signal_handler_ends_the_wait_for_such_a_reader() {
        extern "C" fn nothing(_: i32) {}
        // SAFETY: a handler that does nothing, without SA_RESTART.
        unsafe {
            let mut a: libc::sigaction = std::mem::zeroed();
            a.sa_sigaction = nothing as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &a, std::ptr::null_mut()), 0);
        }
        let (mut r, _w, go_on) = stopped();
        let (started, has_started) = mpsc::channel();
        let (said, is_over) = mpsc::channel();
        let waits = thread::spawn(move || {
            // SAFETY: this thread's own name.
            started.send(unsafe { libc::pthread_self() }).unwrap();
            said.send(r.read(&mut [0; 9]).map_err(|e| e.kind()))
                .unwrap();
            // What is there comes when the other goes on.
            r.read(&mut [0; 9]).unwrap()
        });
        let who = has_started.recv().unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        let first = loop {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(who, libc::SIGUSR2) };
            match is_over.recv_timeout(Duration::from_millis(2)) {
                Ok(said) => break said,
                Err(_) => assert!(Instant::now() < until, "it waits for ever"),
            }
        };
        assert_eq!(first, Err(ErrorKind::Interrupted));
        go_on();
        assert_eq!(waits.join().unwrap(), 5);
    }
}
