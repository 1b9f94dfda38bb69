//! The end that records are sent into.
//!
//! Invariant: a record that could not be sent left nothing in the stream, and its grant is the caller's again.
//! Not here: what a record is (records.rs), how a sleep ends (writer.rs).
use crate::Writer;
use crate::events::{Inner, Kind};
use crate::framing::{self, HEAD, RecordHead};
use crate::grant::{Grant, reserve};
use crate::records::{COPIED, GRANTED, Wait};
use crate::writer::Tried;
use byway_pipe::channel::Channel;
use byway_sys::errno::EAGAIN;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Weak;
use std::time::Duration;

/// Grants that fly in one pipe before it counts as full: so many, and so many bytes of memory. A pipe whose receiver is slow
/// makes its senders wait, as any; it does not take all of the memory.
const FLYING: usize = 128;
/// Half of what the allocator keeps at hand: a stream of large ones goes round in memory that is there.
const FLYING_BYTES: usize = 8 << 20;
/// Looks at a receiver that lets grants land one by one, before its sender sleeps: some ten microseconds.
const SPINS: u32 = 200;

/// The end that records are sent into.
pub struct Sender {
    pub(crate) writer: Writer,
    /// Grants that this sender has sent: the position behind each, and its bytes of memory. What lies below the head
    /// has landed.
    flying: VecDeque<(u64, usize)>,
    /// Their bytes together.
    flying_bytes: usize,
}

/// A grant that could not be sent, and why.
#[derive(Debug)]
#[non_exhaustive]
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

impl Sender {
    /// The longest record that travels in the stream itself, bytes; a longer one is copied into a buffer of its own.
    pub const INLINE: usize = framing::MOST;

    /// Sends records through `writer`. Everybody who writes into that pipe must do so, and its readers must receive.
    pub fn new(writer: Writer) -> Sender {
        Sender {
            writer,
            flying: VecDeque::new(),
            flying_bytes: 0,
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
                    "this library did not make this pipe: grants and records of more than 4,088 bytes need one of byway::pipe; send shorter ones".into()
                }),
            );
            return Err(SendError { grant, error });
        };
        let (room, ch) = (grant.room(), c.channel);
        // What counts as full for a grant; other records may fill the ring.
        let most = if self.flies_enough(ch) { 0 } else { u64::MAX };
        let parting = grant.part(c.holder())?;
        match self.write(GRANTED, &parting.sent().to_bytes(), wait, most) {
            Ok(()) => {
                parting.gone();
                self.flying.push_back((c.written(), room));
                self.flying_bytes += room;
                Ok(())
            }
            Err(error) => Err(SendError {
                grant: parting.back(),
                error,
            }),
        }
    }

    /// Whether as many of this sender's grants fly as may; waits a little for receivers that are at work.
    fn flies_enough(&mut self, ch: &Channel) -> bool {
        // The head has 40 bits (word.rs), and a ring is far below 2^32.
        let flies =
            |pos: u64, r: u64| (1..1 << 32).contains(&(pos.wrapping_sub(r) & ((1 << 40) - 1)));
        let enough = |s: &Sender| s.flying.len() >= FLYING || s.flying_bytes >= FLYING_BYTES;
        // The head is the receivers' to change, who are not asked for it before it matters.
        for turn in 0..=SPINS {
            if !enough(self) {
                return false;
            }
            if turn > 0 {
                std::hint::spin_loop();
            }
            let r = ch.head().position();
            while let Some(&(pos, bytes)) = self.flying.front()
                && !flies(pos, r)
            {
                self.flying.pop_front();
                self.flying_bytes -= bytes;
            }
        }
        enough(self)
    }

    /// A record's head and bytes by one write, which is whole or not at all.
    #[inline]
    fn write(&mut self, kind: u8, b: &[u8], wait: Wait, most: u64) -> io::Result<()> {
        if self.writer.plain {
            self.writer.has_records();
        }
        let head = RecordHead { kind, len: b.len() }.to_bytes();
        match self.writer.attempt_record(head, b, most) {
            // A reader asleep finds the kernel's pipe empty: there is room.
            Some(EAGAIN) | None => {}
            Some(e) if e < 0 => return Err(crate::writer::error(e)),
            Some(_) => return Ok(()),
        }
        self.write_on(head, b, wait, most)
    }

    #[inline(never)]
    fn write_on(&mut self, head: [u8; HEAD], b: &[u8], wait: Wait, most: u64) -> io::Result<()> {
        let mut whole = [MaybeUninit::<u8>::uninit(); libc::PIPE_BUF];
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
                .attempt_within(whole, &mut done, wait.or_else(), most)
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
