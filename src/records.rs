//! Records: messages that keep their boundaries, over a pipe or FIFO.
//!
//! Invariant: a record is written whole and read whole: what several senders send is never mixed, and what several receivers
//! receive is never torn. Up to `INLINE` bytes it travels in the stream; a longer one is a grant, of which the stream
//! carries 16 bytes.
//! Not here: framing (crate pipe, record.rs), memory (grant.rs).
use crate::carried::Carried;
use crate::events::{Inner, Kind};
use crate::grant::{Grant, Sent, reserve};
use crate::writer::Tried;
use crate::{Reader, Writer, pipe};
use byway_pipe::channel::Channel;
use byway_pipe::policy;
use byway_pipe::record::{self, Found, HEAD, Head};
use byway_sys::{file, process};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Weak;
use std::time::{Duration, Instant};

const COPIED: u8 = 1;
const GRANTED: u8 = 2;
/// Grants that fly in one pipe before it counts as full: so many, and so many bytes of memory. A pipe whose receiver is slow
/// makes its senders wait, as any; it does not take all of the memory.
const FLYING: usize = 128;
/// Half of what the allocator keeps at hand: a stream of large ones goes round in memory that is there.
const FLYING_BYTES: usize = 8 << 20;

/// A new pipe for records.
///
/// ```
/// let (mut receiver, mut sender) = byway::records()?;
/// sender.send(b"one")?;
/// sender.send(b"")?;
/// drop(sender);
/// let mut buffer = [0; 100];
/// assert_eq!(receiver.receive(&mut buffer)?, Some(3));
/// assert_eq!(receiver.receive(&mut buffer)?, Some(0));
/// assert_eq!(receiver.receive(&mut buffer)?, None); // the end
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// No descriptor is free.
pub fn records() -> io::Result<(Receiver, Sender)> {
    let (r, w) = pipe()?;
    Ok((Receiver::new(r), Sender::new(w)))
}

/// The end that records are sent into.
pub struct Sender {
    writer: Writer,
    /// Grants that this sender has sent: the position behind each, and its bytes of memory. What lies below R has landed.
    flying: VecDeque<(u64, usize)>,
}

/// A grant that could not be sent, and why.
#[derive(Debug)]
pub struct SendError {
    /// What was to be sent.
    pub grant: Grant,
    /// Why it was not.
    pub error: io::Error,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the grant was not sent: {}", self.error)
    }
}
impl std::error::Error for SendError {}
impl From<SendError> for io::Error {
    fn from(e: SendError) -> io::Error {
        e.error
    }
}

/// Looks at a receiver that lets grants land one by one, before its sender sleeps: some ten microseconds.
const SPINS: u32 = 200;

/// Between two looks whether grants in a FIFO have landed, us.
const LAND_US: u64 = 100;

/// How long an operation may wait.
#[derive(Clone, Copy)]
enum Wait {
    Not,
    Until(Option<Instant>),
}

impl Wait {
    fn most(d: Duration) -> Wait {
        Wait::Until(Instant::now().checked_add(d))
    }
}

impl Sender {
    /// The longest record that travels in the stream itself, bytes; a longer one is copied into a buffer of its own.
    pub const INLINE: usize = record::MOST;

    /// Sends records through `writer`. Everybody who writes into that pipe must do so, and its readers must receive.
    pub fn new(writer: Writer) -> Sender {
        Sender {
            writer,
            flying: VecDeque::new(),
        }
    }

    /// The pipe's end, to write bytes that its reader will read as bytes: never while a record is expected.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// The pipe's end.
    pub fn into_inner(self) -> Writer {
        self.writer
    }

    /// Has it watched by a queue, as [`Reader`].
    pub(crate) fn watch(&mut self, queue: Weak<Inner>, key: u64) -> io::Result<Kind> {
        self.writer.watch(queue, key)
    }

    /// Another sender into the same pipe.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn try_clone(&self) -> io::Result<Sender> {
        self.writer.try_clone().map(Sender::new)
    }

    /// Sends a record; waits for room.
    ///
    /// # Errors
    /// `BrokenPipe`: nobody receives. `Interrupted`: a signal handler ran before it was sent. `Unsupported`: longer than
    /// [`Sender::INLINE`], and nothing can be carried here. `OutOfMemory`: see [`reserve`].
    #[inline]
    pub fn send(&mut self, b: &[u8]) -> io::Result<()> {
        self.put(b, Wait::Until(None))
    }

    /// Sends a record if there is room.
    ///
    /// # Errors
    /// `WouldBlock`: there is none; from now on the descriptor tells when there is. The others as [`Sender::send`].
    pub fn try_send(&mut self, b: &[u8]) -> io::Result<()> {
        self.put(b, Wait::Not)
    }

    /// As `send`, waiting no longer than `most`.
    ///
    /// # Errors
    /// `TimedOut`: there was no room in that time. The others as [`Sender::send`].
    pub fn send_timeout(&mut self, b: &[u8], most: Duration) -> io::Result<()> {
        self.put(b, Wait::most(most))
    }

    /// Sends a buffer without copying it; waits for room.
    ///
    /// # Errors
    /// The grant, and an error as of [`Sender::send`].
    pub fn send_grant(&mut self, g: Grant) -> Result<(), SendError> {
        self.lend(g, Wait::Until(None))
    }

    /// Sends a buffer without copying it, if there is room.
    ///
    /// # Errors
    /// The grant, and an error as of [`Sender::try_send`].
    pub fn try_send_grant(&mut self, g: Grant) -> Result<(), SendError> {
        self.lend(g, Wait::Not)
    }

    /// As `send_grant`, waiting no longer than `most`.
    ///
    /// # Errors
    /// The grant, and an error as of [`Sender::send_timeout`].
    pub fn send_grant_timeout(&mut self, g: Grant, most: Duration) -> Result<(), SendError> {
        self.lend(g, Wait::most(most))
    }

    #[inline]
    fn put(&mut self, b: &[u8], wait: Wait) -> io::Result<()> {
        if b.len() <= Sender::INLINE {
            return self.write(COPIED, b, wait, u64::MAX);
        }
        let mut g = reserve(b.len())?;
        g.copy_from_slice(b);
        self.lend(g.share()?, wait).map_err(|e| e.error)
    }

    fn lend(&mut self, grant: Grant, wait: Wait) -> Result<(), SendError> {
        let Some(c) = self.writer.carried else {
            let error = io::Error::new(
                io::ErrorKind::Unsupported,
                crate::why_not_carried().unwrap_or_else(|| {
                    "this pipe is not one that this library made: only its bytes can be used".into()
                }),
            );
            return Err(SendError { grant, error });
        };
        let to = c.holder();
        let sent = match grant.lend(to) {
            Ok(s) => s,
            Err(error) => return Err(SendError { grant, error }),
        };
        let (room, ch) = (grant.room(), c.channel);
        // What counts as full for a grant; other records may fill the ring.
        let full = self.flies_enough(ch);
        if full
            && ch.is_fifo()
            && let Err(error) = self.land(ch, wait)
        {
            grant.unlend(sent, to);
            return Err(SendError { grant, error });
        }
        let most = if full && !ch.is_fifo() { 0 } else { u64::MAX };
        match self.write(GRANTED, &sent.to_bytes(), wait, most) {
            Ok(()) => {
                let r = ch.h().r();
                self.flying.push_back((ch.t().wide(r), room));
                Ok(())
            }
            Err(error) => {
                grant.unlend(sent, to);
                Err(SendError { grant, error })
            }
        }
    }

    /// Whether as many of this sender's grants fly as may; waits a little for receivers that are at work.
    fn flies_enough(&mut self, ch: &Channel) -> bool {
        // R has 40 bits (word.rs), and a ring is far below 2^32.
        let flies =
            |pos: u64, r: u64| (1..1 << 32).contains(&(pos.wrapping_sub(r) & ((1 << 40) - 1)));
        let mut enough = |r: u64| {
            while self.flying.front().is_some_and(|f| !flies(f.0, r)) {
                self.flying.pop_front();
            }
            let bytes: usize = self.flying.iter().map(|f| f.1).sum();
            self.flying.len() >= FLYING || bytes >= FLYING_BYTES
        };
        (0..SPINS).all(|_| {
            let full = enough(ch.h().r());
            if full {
                std::hint::spin_loop();
            }
            full
        })
    }

    /// Of a FIFO, whose ring counts as full only when it is (fifo.rs moves its oldest page): waits until grants have landed, or
    /// nobody reads any more, which the write will tell. The descriptor does not tell of it.
    fn land(&mut self, ch: &Channel, wait: Wait) -> io::Result<()> {
        while self.flies_enough(ch) && !file::reader_gone(self.writer.as_raw_fd() as usize) {
            match wait {
                Wait::Not => return Err(io::ErrorKind::WouldBlock.into()),
                Wait::Until(Some(t)) if Instant::now() >= t => {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        "as many grants fly as may: the receiver does not receive",
                    ));
                }
                Wait::Until(_) => process::nap(LAND_US),
            }
        }
        Ok(())
    }

    /// A record's head and bytes by one write, which is whole or not at all.
    #[inline]
    fn write(&mut self, kind: u8, b: &[u8], wait: Wait, most: u64) -> io::Result<()> {
        let mut whole = [MaybeUninit::<u8>::uninit(); libc::PIPE_BUF];
        let head = Head { kind, len: b.len() }.to_bytes();
        let n = HEAD + b.len();
        // SAFETY: `b` is at most `INLINE` long, so both fit; the first `n` bytes are written before they are read.
        let whole = unsafe {
            let p = whole.as_mut_ptr().cast::<u8>();
            p.copy_from_nonoverlapping(head.as_ptr(), HEAD);
            p.add(HEAD).copy_from_nonoverlapping(b.as_ptr(), b.len());
            std::slice::from_raw_parts(p, n)
        };
        let mut done = 0;
        loop {
            match self
                .writer
                .attempt_within(whole, &mut done, !matches!(wait, Wait::Not), most)
            {
                Tried::All => return Ok(()),
                Tried::Failed(e) => return Err(crate::writer::error(e)),
                Tried::Full => {}
            }
            match wait {
                // Up to PIPE_BUF bytes are written whole (POSIX write); a kernel that did otherwise gets the rest.
                Wait::Not if done == 0 => return Err(io::ErrorKind::WouldBlock.into()),
                Wait::Until(t) if done == 0 => self.writer.sleep(t).map(|_| ())?,
                _ => self.writer.sleep(None).map(|_| ())?,
            }
        }
    }
}

/// A record that was received: its bytes, by copy or in shared memory.
#[derive(Debug)]
pub enum Message {
    /// A short one, copied out of the stream.
    Copied(Vec<u8>),
    /// A buffer that nobody copied.
    Shared(Grant),
}

impl Message {
    /// The grant, if it is one.
    pub fn into_grant(self) -> Option<Grant> {
        match self {
            Message::Shared(g) => Some(g),
            Message::Copied(_) => None,
        }
    }
}

impl Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Message::Copied(v) => v,
            Message::Shared(g) => g,
        }
    }
}

/// The end that records are received from. Each record goes to one receiver.
pub struct Receiver {
    reader: Reader,
    /// What a buffer was too small for.
    kept: Option<Message>,
}

/// What there was.
enum Next {
    End,
    /// So many bytes, in the caller's buffer.
    Bytes(usize),
    Message(Message),
}

impl Receiver {
    /// Receives records from `reader`. Everybody who reads that pipe must do so.
    pub fn new(reader: Reader) -> Receiver {
        Receiver { reader, kept: None }
    }

    /// The pipe's end, to read bytes that were written as bytes: never where a record is.
    pub fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// The pipe's end.
    pub fn into_inner(self) -> Reader {
        self.reader
    }

    /// Another receiver from the same pipe.
    ///
    /// # Errors
    /// No descriptor is free. `Unsupported`: the pipe is the kernel's alone, where two receivers would tear records.
    pub fn try_clone(&self) -> io::Result<Receiver> {
        if self.reader.carried.is_none() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this pipe has no shared memory, and only one receiver; share it behind a lock",
            ));
        }
        self.reader.try_clone().map(Receiver::new)
    }

    /// The next record's bytes into `b`, and how many; waits for one. `None`: the last sender has closed.
    ///
    /// # Errors
    /// EMSGSIZE (by `raw_os_error`): it is longer than `b`; the next call finds it again. `InvalidData`: what came is no record,
    /// or a receiver was killed in the midst of one: make the pipe anew. `Interrupted`: a signal handler ran meanwhile.
    #[inline]
    pub fn receive(&mut self, b: &mut [u8]) -> io::Result<Option<usize>> {
        self.get(b, Wait::Until(None))
    }

    /// The next record if it is there.
    ///
    /// # Errors
    /// `WouldBlock`: none is; from now on the descriptor tells when there is. The others as [`Receiver::receive`].
    pub fn try_receive(&mut self, b: &mut [u8]) -> io::Result<Option<usize>> {
        self.get(b, Wait::Not)
    }

    /// As `receive`, waiting no longer than `most`.
    ///
    /// # Errors
    /// `TimedOut`: none came in that time. The others as [`Receiver::receive`].
    pub fn receive_timeout(&mut self, b: &mut [u8], most: Duration) -> io::Result<Option<usize>> {
        self.get(b, Wait::most(most))
    }

    /// The next record, whatever its length: a grant without a copy. `None`: the last sender has closed.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub fn message(&mut self) -> io::Result<Option<Message>> {
        self.any(Wait::Until(None))
    }

    /// The next record, whatever its length, if it is there.
    ///
    /// # Errors
    /// As [`Receiver::try_receive`].
    pub fn try_message(&mut self) -> io::Result<Option<Message>> {
        self.any(Wait::Not)
    }

    /// As `message`, waiting no longer than `most`.
    ///
    /// # Errors
    /// As [`Receiver::receive_timeout`].
    pub fn message_timeout(&mut self, most: Duration) -> io::Result<Option<Message>> {
        self.any(Wait::most(most))
    }

    #[inline]
    fn get(&mut self, b: &mut [u8], wait: Wait) -> io::Result<Option<usize>> {
        match self.next(b, wait)? {
            Next::Bytes(n) => Ok(Some(n)),
            Next::End => Ok(None),
            Next::Message(m) => {
                let Some(to) = b.get_mut(..m.len()) else {
                    self.kept = Some(m);
                    self.tell();
                    return Err(too_long());
                };
                to.copy_from_slice(&m);
                Ok(Some(m.len()))
            }
        }
    }

    fn any(&mut self, wait: Wait) -> io::Result<Option<Message>> {
        let mut b = [0; Sender::INLINE];
        Ok(match self.next(&mut b, wait)? {
            Next::Bytes(n) => Some(Message::Copied(b[..n].to_vec())),
            Next::End => None,
            Next::Message(m) => Some(m),
        })
    }

    /// Has it watched by a queue, as [`Reader`].
    pub(crate) fn watch(&mut self, queue: Weak<Inner>, key: u64) -> io::Result<Kind> {
        let kind = self.reader.watch(queue, key)?;
        self.keep();
        Ok(kind)
    }

    /// How much is kept here, for the queue that watches it.
    fn keep(&self) {
        if let Some(w) = self.reader.watched() {
            w.keep(self.kept.as_ref().map_or(0, |m| HEAD + m.len()));
        }
    }

    /// That has changed.
    #[cold]
    fn tell(&self) {
        self.keep();
        if let Some(w) = self.reader.watched() {
            w.mark(false);
        }
    }

    #[inline]
    fn next(&mut self, b: &mut [u8], wait: Wait) -> io::Result<Next> {
        loop {
            if let Some(n) = self.attempt(b, !matches!(wait, Wait::Not))? {
                return Ok(n);
            }
            match wait {
                Wait::Not => return Err(io::ErrorKind::WouldBlock.into()),
                Wait::Until(t) => self.reader.sleep(t)?,
            }
        }
    }

    /// What is there; `None`: nothing, and the reader is armed.
    #[inline]
    fn attempt(&mut self, b: &mut [u8], spin: bool) -> io::Result<Option<Next>> {
        if let Some(m) = self.kept.take() {
            self.tell();
            return Ok(Some(Next::Message(m)));
        }
        let Some(c) = self.reader.carried else {
            return self.piecewise(None, false);
        };
        let _turn = self.reader.turn();
        let (me, ch) = (c.me(spin), c.channel);
        let mut waited = !spin;
        loop {
            match record::take(&me, ch, b) {
                Found::Taken(h) if h.kind == COPIED => return Ok(Some(Next::Bytes(h.len))),
                Found::Taken(h) => return granted(&c, h, &b[..h.len]).map(Some),
                Found::Long(h) if h.kind == COPIED => return Err(too_long()),
                // A grant's few bytes have room of their own.
                Found::Long(_) => {
                    let mut own = [0; Sender::INLINE];
                    if let Found::Taken(h) = record::take(&me, ch, &mut own) {
                        let m = match h.kind {
                            COPIED => Next::Message(Message::Copied(own[..h.len].to_vec())),
                            _ => granted(&c, h, &own[..h.len])?,
                        };
                        return Ok(Some(m));
                    }
                }
                Found::Damaged => return Err(damaged()),
                Found::Elsewhere => {
                    let was = ch.t();
                    let ready = || record::changed(ch, was);
                    if !waited && !was.closed() && !ch.m().valid() {
                        waited = true;
                        if policy::reader_waits(&me, &ch.reader, &ch.writer, ready) {
                            continue;
                        }
                    }
                    return self.piecewise(Some(&c), !waited);
                }
            }
        }
    }

    /// The next record, read as a stream: from the kernel's pipe, or from both lanes.
    #[cold]
    fn piecewise(&mut self, c: Option<&Carried>, spin: bool) -> io::Result<Option<Next>> {
        if let Some(c) = c
            && !record::enter(&c.me(false), c.channel)
        {
            return Err(damaged());
        }
        let got = self.piece(c, spin);
        if let Some(c) = c {
            record::leave(c.channel);
        }
        got
    }

    fn piece(&mut self, c: Option<&Carried>, spin: bool) -> io::Result<Option<Next>> {
        if let Some(c) = c {
            record::begin(&c.me(false), c.channel);
        }
        let mut head = [0; HEAD];
        let n = match self.reader.attempt(&mut head, spin)? {
            None => return Ok(None),
            Some(0) => return Ok(Some(Next::End)),
            Some(n) => n,
        };
        self.fill(&mut head[n..])?;
        let Some(h) = Head::from_bytes(head) else {
            return Err(damaged());
        };
        let mut b = vec![0; h.len];
        self.fill(&mut b)?;
        match (h.kind, c) {
            (COPIED, _) => Ok(Some(Next::Message(Message::Copied(b)))),
            (_, Some(c)) => granted(c, h, &b).map(Some),
            (_, None) => Err(damaged()),
        }
    }

    /// The rest of a record, which was written whole.
    fn fill(&mut self, b: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < b.len() {
            match self.reader.attempt(&mut b[at..], true)? {
                Some(0) => return Err(damaged()),
                Some(n) => at += n,
                None => match self.reader.sleep(None) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    r => r?,
                },
            }
        }
        Ok(())
    }
}

/// The grant that a record's bytes tell of.
fn granted(c: &Carried, h: Head, b: &[u8]) -> io::Result<Next> {
    let sent = (h.kind == GRANTED).then(|| b.try_into().ok().map(Sent::from_bytes));
    sent.flatten()
        .and_then(|s| Grant::receive(s, c.holder()))
        .map(|g| Next::Message(Message::Shared(g)))
        .ok_or_else(damaged)
}

fn too_long() -> io::Error {
    io::Error::from_raw_os_error(libc::EMSGSIZE)
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what the pipe holds is no record: somebody wrote bytes into it, or a receiver was killed in the midst of a record; make the pipe anew",
    )
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }
}
impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> i32 {
        self.writer.as_raw_fd()
    }
}
impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> i32 {
        self.reader.as_raw_fd()
    }
}
