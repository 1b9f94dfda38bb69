//! A reader whose buffer is the ring itself: std's `BufRead` without a copy.
//!
//! Invariant: between `fill_buf` and `consume` the bytes are held in the ring (crate pipe, peek.rs) by this thread,
//! which meanwhile does nothing that would wait for itself: other calls of it on that pipe fail with EBUSY.
//! unsafe: slices over shared memory, as in grant.rs. Bytes that came through the kernel's pipe are read ahead, and are
//! the reader's: what is not consumed comes with its next read.
//! Not here: what the reader has ahead (ahead.rs).
use crate::carried::Carried;
use crate::watch::Turn;
use crate::{Reader, kernel};
use byway_pipe::peek::{self, Held};
use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, Read};
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// Of the kernel's bytes, as many as are read at once.
const OWN: usize = 16 << 10;

/// Between two looks whether another reader has done with what it looks at.
const ANOTHER: Duration = Duration::from_micros(100);

thread_local! {
    /// How many pipes this thread holds bytes of, and which.
    static COUNT: Cell<usize> = const { Cell::new(0) };
    static HELD: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn address(c: &Carried) -> usize {
    std::ptr::from_ref(c.channel) as usize
}

/// Whether this thread looks at bytes of that pipe.
#[inline]
pub(crate) fn is_held(c: &Carried) -> bool {
    COUNT.get() != 0 && HELD.with_borrow(|h| h.contains(&address(c)))
}

/// What a call of this thread's fails with meanwhile.
pub(crate) fn busy() -> io::Error {
    io::Error::from_raw_os_error(libc::EBUSY)
}

/// Whether an attempt found that another reader holds what is there: nothing is armed.
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
            "another reader looks at the pipe's bytes, and did not go on in that time",
        ));
    }
    let soon = now + ANOTHER;
    kernel::pause(until.map_or(soon, |t| t.min(soon)))
}

/// A [`Reader`] as [`BufRead`]: lines, or whatever else is looked for in bytes before they are taken, without copying them.
///
/// What `fill_buf` shows lies in shared memory, where its writer put it, and stays until `consume`: then other readers
/// of the pipe, and whoever wants to hand it to the kernel, go on. So consume soon. Meanwhile calls of the same thread
/// on other ends of that pipe fail with EBUSY. Bytes that came through the kernel's pipe (those that woke a reader) are
/// copied, and stay with the reader ([`Reader::ahead`]).
///
/// ```
/// use std::io::{BufRead, Write};
///
/// let (mut reader, mut writer) = byway::pipe()?;
/// writer.write_all(b"one\ntwo\nthree")?;
/// drop(writer);
/// let lines: Result<Vec<_>, _> = reader.buffered().lines().collect();
/// assert_eq!(lines?, ["one", "two", "three"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Buffered<'a> {
    pub(crate) reader: &'a mut Reader,
    pub(crate) held: Option<(Carried, Held, Turn)>,
    /// Room for what is read ahead.
    spare: Vec<u8>,
    /// The bytes are held in this thread's name.
    _here: PhantomData<*const ()>,
}

impl Reader {
    /// The reader as `BufRead`, for as long as the value lives. What it has not consumed comes with the reader's next
    /// reads, buffered or not: it is still in the pipe, or, if it came through the kernel's, with this reader
    /// ([`Reader::ahead`]).
    pub fn buffered(&mut self) -> Buffered<'_> {
        Buffered {
            reader: self,
            held: None,
            spare: Vec::new(),
            _here: PhantomData,
        }
    }
}

impl Buffered<'_> {
    /// Looks at what lies in the ring; false: nothing does.
    fn hold(&mut self) -> bool {
        let Some(c) = self.reader.carried.filter(|c| !is_held(c)) else {
            return false;
        };
        let turn = self.reader.turn();
        let Some(held) = peek::hold(&c.me(false), c.channel) else {
            return false;
        };
        HELD.with_borrow_mut(|h| h.push(address(&c)));
        COUNT.set(COUNT.get() + 1);
        self.held = Some((c, held, turn));
        true
    }

    /// Ends the look, and takes `n` bytes.
    fn take(&mut self, n: usize) {
        let Some((c, held, _turn)) = self.held.take() else {
            return;
        };
        COUNT.set(COUNT.get() - 1);
        HELD.with_borrow_mut(|h| {
            if let Some(i) = h.iter().position(|&a| a == address(&c)) {
                h.swap_remove(i);
            }
        });
        let fd = self.reader.as_raw_fd() as usize;
        peek::take(&c.me(false), c.channel, fd, held, n);
    }
}

impl BufRead for Buffered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.held.is_none() && !self.reader.is_ahead() && !self.hold() {
            let mut bytes = std::mem::take(&mut self.spare);
            bytes.resize(OWN, 0);
            let n = self.reader.read(&mut bytes);
            bytes.truncate(*n.as_ref().unwrap_or(&0));
            if n? > 0 {
                self.reader.put_ahead(bytes);
            }
        }
        match &self.held {
            // SAFETY: bytes of the ring that nobody takes, overwrites or moves until `take`, which needs `self`.
            Some((_, held, _)) => Ok(unsafe { std::slice::from_raw_parts(held.start, held.len) }),
            None => Ok(self.reader.ahead()),
        }
    }

    /// Takes bytes that `fill_buf` has shown; more than those are none.
    fn consume(&mut self, n: usize) {
        if self.held.is_some() {
            self.take(n);
        } else {
            self.spare = self.reader.take_ahead(n).unwrap_or_default();
        }
    }
}

impl Read for Buffered<'_> {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        if self.held.is_none() && !self.reader.is_ahead() {
            return self.reader.read(b);
        }
        let n = self.fill_buf()?.read(b)?;
        self.consume(n);
        Ok(n)
    }
}

impl Drop for Buffered<'_> {
    fn drop(&mut self) {
        self.take(0);
    }
}
