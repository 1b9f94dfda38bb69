//! The end that records are received from.
//!
//! Invariant: a record is taken whole; one that the caller's buffer is too small for is kept for the next call.
//! Not here: what a record is (records.rs), framing (framing.rs).
use crate::Reader;
use crate::carried::{Carried, OrElse};
use crate::events::{Inner, Kind};
use crate::framing::{self, Found, HEAD, Pulled, RecordHead};
use crate::grant::{Grant, Sent};
use crate::kernel::said;
use crate::reader::{is_elsewhere, wait_for_another};
use crate::records::{COPIED, GRANTED, Message, Wait, is_too_long, too_long};
use crate::sender::Sender;
use byway_pipe::{policy, wait};
use std::borrow::Cow;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Weak;
use std::time::Duration;

/// The end that records are received from. Each record goes to one receiver.
pub struct Receiver {
    pub(crate) reader: Reader,
    /// What a buffer was too small for.
    pub(crate) kept: Option<Message>,
}

/// What there was.
enum Next {
    End,
    /// So many bytes, in the caller's buffer.
    Bytes(usize),
    Message(Message),
}

impl Next {
    /// As a message; `b` is the buffer that it was read into.
    fn message(self, b: &[u8]) -> Option<Message> {
        match self {
            Next::Bytes(n) => Some(Message::Copied(b[..n].to_vec())),
            Next::End => None,
            Next::Message(m) => Some(m),
        }
    }
}

/// Of a buffer whose zeroes cost nothing beside a message, bytes.
const SHORT: usize = 256;

impl Receiver {
    /// Receives records from `reader`. Everybody who reads that pipe must do so.
    pub fn new(reader: Reader) -> Receiver {
        Receiver { reader, kept: None }
    }

    /// The pipe's end, to read bytes that were written as bytes: never where a record is.
    pub fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// The pipe's end. A record that a buffer was too small for (EMSGSIZE) is not lost: it comes next again, with its
    /// head, as it stood in the stream ([`Reader::ahead`]). A receiver of that reader finds it.
    pub fn into_inner(mut self) -> Reader {
        if let Some(m) = self.kept.take() {
            let framed = self.framed(m);
            self.reader.put_ahead(framed);
        }
        self.reader
    }

    /// A record as it stands in the stream; nothing of a grant that is not this process's, but its parent's.
    #[cold]
    fn framed(&self, m: Message) -> Vec<u8> {
        let of = |kind, b: &[u8]| [&RecordHead { kind, len: b.len() }.to_bytes()[..], b].concat();
        let parting = match (m, self.reader.carried) {
            (Message::Copied(b), _) => return of(COPIED, &b),
            // The channel is its holder again.
            (Message::Shared(g), Some(c)) => g.part(c.holder()).ok(),
            (Message::Shared(_), None) => None,
        };
        parting.map_or_else(Vec::new, |p| {
            let b = of(GRANTED, &p.sent().to_bytes());
            p.gone();
            b
        })
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
    /// EMSGSIZE (by `raw_os_error`): it is longer than `b`; the next call finds it again. `InvalidData`: what came is
    /// no record, or a receiver was killed in the midst of one: make the pipe anew. `Interrupted`: a signal handler ran
    /// meanwhile.
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
        // Most are a grant's few bytes; what is longer stays where it is for a look with more room.
        let mut b = [0; SHORT];
        let found = match self.next(&mut b, wait) {
            Err(e) if is_too_long(&e) => {
                let mut b = [0; Sender::INLINE];
                return self.next(&mut b, wait).map(|n| n.message(&b));
            }
            r => r?,
        };
        Ok(found.message(&b))
    }

    /// Has it watched by a queue, as [`Reader`].
    pub(crate) fn watch(&mut self, queue: Weak<Inner>, key: u64) -> io::Result<Kind> {
        let kind = self.reader.watch(queue, key)?;
        self.reader.keep(self.kept());
        Ok(kind)
    }

    /// How much is kept here.
    fn kept(&self) -> usize {
        self.kept.as_ref().map_or(0, |m| HEAD + m.len())
    }

    /// That has changed.
    #[cold]
    fn tell(&self) {
        self.reader.tell(self.kept());
    }

    #[inline]
    fn next(&mut self, b: &mut [u8], wait: Wait) -> io::Result<Next> {
        loop {
            match (self.attempt(b, wait.or_else()), wait) {
                (Ok(Some(n)), _) => return Ok(n),
                (Ok(None), Wait::Not) => return Err(io::ErrorKind::WouldBlock.into()),
                (Ok(None), Wait::Until(t)) => self.reader.sleep(t)?,
                (Err(e), Wait::Until(t)) if is_elsewhere(&e) => wait_for_another(t)?,
                (Err(e), _) => return Err(e),
            }
        }
    }

    /// What is there; `None`: nothing, and the reader is armed.
    #[inline]
    fn attempt(&mut self, b: &mut [u8], or: OrElse) -> io::Result<Option<Next>> {
        if self.kept.is_some() {
            let m = self.kept.take();
            self.tell();
            return Ok(m.map(Next::Message));
        }
        if self.reader.is_ahead() {
            let c = self.reader.carried;
            return self.piecewise(c.as_ref(), b, or);
        }
        let _turn = self.reader.turn();
        let Some(c) = &mut self.reader.carried else {
            return self.piecewise(None, b, OrElse::Return);
        };
        let (c, me) = c.mine(or);
        let ch = c.channel;
        if let Some(h) = framing::take_seen(me, ch, b, &mut self.reader.cursor) {
            return taken(c, h, b);
        }
        let mut waited = or == OrElse::Return;
        loop {
            let found = framing::take_inline(me, ch, b).map(Found::Taken);
            match found.unwrap_or_else(|| framing::take(me, ch, b)) {
                Found::Taken(h) => {
                    if waited {
                        policy::will_answer(me);
                    }
                    return taken(c, h, b);
                }
                Found::Long(h) if h.kind == COPIED => return Err(too_long()),
                // A grant's few bytes have room of their own.
                Found::Long(_) => {
                    let mut own = [0; Sender::INLINE];
                    if let Found::Taken(h) = framing::take(me, ch, &mut own) {
                        let m = match h.kind {
                            COPIED => Next::Message(Message::Copied(own[..h.len].to_vec())),
                            _ => granted(c, h, &own[..h.len])?,
                        };
                        return Ok(Some(m));
                    }
                }
                Found::Damaged => return Err(damaged()),
                Found::Elsewhere(was) => {
                    let ready = || framing::changed(ch, was);
                    if !waited && !was.closed() && !ch.chunk().valid() {
                        waited = true;
                        if wait::reader(me, ch, ready) == wait::Came::Yes {
                            continue;
                        }
                    }
                    let c = *c;
                    let or = if waited { OrElse::Return } else { or };
                    return self.piecewise(Some(&c), b, or);
                }
            }
        }
    }

    /// The next record, read as a stream: from the kernel's pipe, or from both lanes.
    #[cold]
    fn piecewise(
        &mut self,
        c: Option<&Carried>,
        b: &mut [u8],
        or: OrElse,
    ) -> io::Result<Option<Next>> {
        if let Some(c) = c
            && !framing::enter(&c.me(false), c.channel)
        {
            return Err(damaged());
        }
        let got = self.piece(c, b, or);
        if let Some(c) = c {
            framing::leave(c.channel);
        }
        got
    }

    fn piece(&mut self, c: Option<&Carried>, b: &mut [u8], or: OrElse) -> io::Result<Option<Next>> {
        if let Some(c) = c
            && !self.reader.is_ahead()
        {
            let (me, ch, fd) = (c.me(false), c.channel, self.reader.as_raw_fd() as usize);
            framing::begin(&me, ch);
            let mut spare = [MaybeUninit::uninit(); framing::MOST];
            match framing::from_kernel(&me, ch, fd, b, &mut spare) {
                Pulled::Nothing => {}
                Pulled::Damaged => return Err(damaged()),
                Pulled::Failed(e) => return said(e).map(|_| None),
                Pulled::Record(h, rest) => {
                    let whole = match rest {
                        [] => Cow::Borrowed(&b[..h.len]),
                        rest => Cow::Owned([b, rest].concat()),
                    };
                    return match (h.kind, whole) {
                        (COPIED, Cow::Borrowed(_)) => Ok(Some(Next::Bytes(h.len))),
                        (COPIED, Cow::Owned(v)) => Ok(Some(Next::Message(Message::Copied(v)))),
                        (_, whole) => granted(c, h, &whole).map(Some),
                    };
                }
            }
        }
        let mut head = [0; HEAD];
        let n = match self.reader.attempt(&mut head, or)? {
            None => return Ok(None),
            Some(0) => return Ok(Some(Next::End)),
            Some(n) => n,
        };
        self.fill(&mut head[n..])?;
        let Some(h) = RecordHead::from_bytes(head) else {
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
            let waited = match self.reader.attempt(&mut b[at..], OrElse::Spin) {
                Ok(Some(0)) => return Err(damaged()),
                Ok(Some(n)) => {
                    at += n;
                    continue;
                }
                Ok(None) => self.reader.sleep(None),
                Err(e) if is_elsewhere(&e) => wait_for_another(None),
                Err(e) => return Err(e),
            };
            match waited {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                r => r?,
            }
        }
        Ok(())
    }
}

/// A record whose bytes are in `b`.
#[inline]
fn taken(c: &Carried, h: RecordHead, b: &[u8]) -> io::Result<Option<Next>> {
    match h.kind {
        COPIED => Ok(Some(Next::Bytes(h.len))),
        _ => granted(c, h, &b[..h.len]).map(Some),
    }
}

/// The grant that a record's bytes tell of.
fn granted(c: &Carried, h: RecordHead, b: &[u8]) -> io::Result<Next> {
    let sent = (h.kind == GRANTED).then(|| b.try_into().ok().map(Sent::from_bytes));
    sent.flatten()
        .and_then(|s| Grant::receive(s, c.holder()))
        .map(|g| Next::Message(Message::Shared(g)))
        .ok_or_else(damaged)
}

fn damaged() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "what the pipe holds is no record: somebody wrote bytes into it, or a receiver was killed in the midst of a record; make the pipe anew",
    )
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
