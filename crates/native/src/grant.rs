//! Grants: buffers in shared memory that are filled in place, handed over without a copy, and kept as long as anybody wants.
//!
//! ```text
//! reserve(n) -> WriteGrant --fill--> share() -> Grant --send--> (in flight) --receive--> Grant
//!               mine alone                      clone: one count more, in this process; a clone may be sent too
//! ```
//! Invariant: each process that has a buffer, and each channel in which it travels, has an entry in the table of
//! holdings; so it lives as long as one of them, and comes home when its holders have died.
//! unsafe: slices over shared memory. A peer that takes part never writes into a buffer after it shared it. One that does
//! so all the same is a process of this user's, which could write into any memory of this process by ptrace(2) too
//! (docs/threats.md); addresses and lengths are checked against the domain before they are used.
//! Not here: how a grant travels (sender.rs, receiver.rs).
use crate::home::Home;
use crate::{SendError, collect, home, thread};
use byway_mem::cache;
use byway_mem::holdings::{self, Holding};
use byway_mem::layout::Class;
use byway_mem::span;
use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::sync::Arc;

/// A buffer in shared memory that only this process has.
///
/// ```
/// let mut grant = byway::reserve(100_000)?;
/// grant[..5].copy_from_slice(b"hello");
/// grant.truncate(5);
/// let (mut receiver, mut sender) = byway::records()?;
/// sender.send_grant(grant.share()?).map_err(|e| e.error)?;
/// let message = receiver.message()?.expect("the sender is still there");
/// assert_eq!(&message[..], b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WriteGrant {
    home: &'static Home,
    unit: u32,
    at: *mut u8,
    len: usize,
    /// The process that took it: a child that it forks has a copy of this value, and no buffer.
    owner: u32,
}

// SAFETY: the buffer is this value's alone, whichever thread has it.
unsafe impl Send for WriteGrant {}
// SAFETY: shared references only read.
unsafe impl Sync for WriteGrant {}

/// A buffer of `len` bytes in shared memory, to be filled. What it holds at first is whatever was there.
///
/// Up to 64 KiB it is an object of the allocator's; larger ones are made of half megabytes, and reused by size.
///
/// # Errors
/// `Unsupported`: nothing can be carried here, and why. `OutOfMemory`: no shared memory in one piece.
pub fn reserve(len: usize) -> io::Result<WriteGrant> {
    let home = home::needed(
        "a grant, or a record of more than 4,088 bytes,",
        "send it in shorter records, or as bytes",
    )?;
    let class = Class::ALL.into_iter().find(|c| c.bytes() >= len);
    let take = || {
        let u = thread::user(home.domain);
        match class {
            Some(c) => cache::alloc(&u, c),
            None => span::alloc(&u, len, LAST.get()),
        }
    };
    let found = take().or_else(|| {
        // What the dead held, and what travels in pipes that are no more.
        collect::collect(home.domain);
        take()
    });
    let object = found.and_then(|unit| Some((unit, holdings::object(&home.domain, unit)?)));
    match object {
        Some((unit, (at, room))) if room >= len => {
            LAST.set(if class.is_none() { unit } else { LAST.get() });
            Ok(WriteGrant {
                home,
                unit,
                at,
                len,
                owner: thread::ids().pid,
            })
        }
        _ => Err(io::Error::new(
            io::ErrorKind::OutOfMemory,
            format!(
                "no {len} bytes of shared memory in one piece; drop grants that nobody needs, or send smaller records"
            ),
        )),
    }
}

thread_local! {
    /// Where this thread last found, or left, a free entry of the table.
    static NEAR: Cell<Option<u32>> = const { Cell::new(None) };
    /// The span that this thread took last.
    static LAST: Cell<u32> = const { Cell::new(u32::MAX) };
}

impl WriteGrant {
    /// Makes it shorter; `len` beyond its length changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the filling: from now on it can be sent, cloned and read, and nobody writes into it.
    ///
    /// # Errors
    /// The buffer, as it was, and an error. `OutOfMemory`: too many buffers are held and in flight (8,192 of this
    /// user's); try again when some are gone. `InvalidInput`: in a child that was forked after it was reserved, which
    /// does not have it.
    pub fn share(self) -> Result<Grant, ShareError> {
        let d = self.home.domain;
        let u = thread::user(d);
        if self.owner != u.who.pid {
            let error = io::Error::new(
                io::ErrorKind::InvalidInput,
                "the buffer is the parent's that reserved it; reserve one after fork",
            );
            return Err(ShareError { grant: self, error });
        }
        let near = NEAR.get().unwrap_or_else(|| u.who.tid.wrapping_mul(61));
        let Some(holding) = holdings::enter(&u, self.unit, u.who.pid, near) else {
            let error = no_entry();
            return Err(ShareError { grant: self, error });
        };
        // The next ones: entries that are passed on come free elsewhere.
        NEAR.set(Some(holding.entry + 1));
        holdings::share(&d, self.unit);
        let (at, len, home) = (self.at, self.len, self.home);
        // It is in the table now, and no longer this value's.
        std::mem::forget(self);
        Ok(Grant::new(home, holding, at, 0, len))
    }
}

impl Drop for WriteGrant {
    fn drop(&mut self) {
        let u = thread::user(self.home.domain);
        if self.owner == u.who.pid {
            holdings::discard(&u, self.unit);
        }
    }
}

impl Deref for WriteGrant {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes of an object that is this value's.
        unsafe { std::slice::from_raw_parts(self.at, self.len) }
    }
}

impl DerefMut for WriteGrant {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; and nobody else has it.
        unsafe { std::slice::from_raw_parts_mut(self.at, self.len) }
    }
}

impl fmt::Debug for WriteGrant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("WriteGrant")
            .field("len", &self.len)
            .finish()
    }
}

/// A buffer that could not be shared, and why: what was filled is still there, and it may be tried again.
#[derive(Debug)]
pub struct ShareError {
    /// What was to be shared.
    pub grant: WriteGrant,
    /// Why it was not.
    pub error: io::Error,
}

impl fmt::Display for ShareError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "the buffer was not shared: {}", self.error)
    }
}
impl std::error::Error for ShareError {}
impl From<ShareError> for io::Error {
    fn from(e: ShareError) -> io::Error {
        e.error
    }
}

/// A process's entry in the table.
struct Held {
    home: &'static Home,
    holding: Holding,
    at: *mut u8,
}

// SAFETY: the entry is the process's; the buffer is only read.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Drop for Held {
    fn drop(&mut self) {
        let u = thread::user(self.home.domain);
        NEAR.set(Some(self.holding.entry));
        holdings::give_up(&u, self.holding, u.who.pid);
    }
}

/// A buffer in shared memory that several may have, and nobody writes into.
///
/// A clone is another count in this process; each can be sent on, so one buffer goes to any number of receivers without a
/// copy. A child that is forked has a copy of the value, but no count: it must not use the buffer when its parent may
/// have let it go.
#[derive(Clone)]
pub struct Grant {
    held: Arc<Held>,
    start: usize,
    len: usize,
}

impl Grant {
    fn new(home: &'static Home, holding: Holding, at: *mut u8, start: usize, len: usize) -> Grant {
        Grant {
            held: Arc::new(Held { home, holding, at }),
            start,
            len,
        }
    }

    /// A part of it, which keeps all of it.
    ///
    /// # Panics
    /// The range is not within it, as with slices.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Grant {
        let start = match range.start_bound() {
            Bound::Included(&n) => n,
            Bound::Excluded(&n) => n + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&n) => n + 1,
            Bound::Excluded(&n) => n,
            Bound::Unbounded => self.len,
        };
        assert!(
            start <= end && end <= self.len,
            "{start}..{end} of {}",
            self.len
        );
        Grant {
            held: self.held.clone(),
            start: self.start + start,
            len: end - start,
        }
    }

    /// Bytes of memory that it keeps.
    pub(crate) fn room(&self) -> usize {
        holdings::object(&self.held.home.domain, self.held.holding.unit).map_or(0, |(_, n)| n)
    }

    /// Makes `to`, a channel, a holder: instead of this process, where this value is the only one here that has the
    /// buffer; else as well.
    pub(crate) fn part(mut self, to: u32) -> Result<Parting, SendError> {
        let (d, own) = (self.held.home.domain, self.held.holding);
        // A child's copy of a value is nobody's.
        let passed = Arc::get_mut(&mut self.held).is_some()
            && holdings::pass(&d, own, thread::ids().pid, to);
        let there = match passed {
            true => Some(own),
            false => holdings::again(&thread::user(d), own, to),
        };
        let Some(holding) = there else {
            return Err(SendError {
                grant: self,
                error: no_entry(),
            });
        };
        Ok(Parting {
            grant: self,
            to,
            holding,
            passed,
        })
    }

    /// What came out of channel `from`; `None`: nothing that was sent into it.
    pub(crate) fn receive(sent: Sent, from: u32) -> Option<Grant> {
        let home = home::home().ok()?;
        let (d, h) = (home.domain, sent.holding());
        holdings::expect(&d, h, sent.start as usize);
        if !holdings::pass(&d, h, from, thread::ids().pid) {
            return None;
        }
        let fits = |size: usize| sent.start as usize + sent.len as usize <= size;
        match holdings::object(&d, h.unit) {
            Some((at, size)) if fits(size) => {
                let (start, len) = (sent.start as usize, sent.len as usize);
                Some(Grant::new(home, h, at, start, len))
            }
            _ => {
                let u = thread::user(d);
                holdings::give_up(&u, h, u.who.pid);
                None
            }
        }
    }
}

impl Deref for Grant {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: inside an object that this process has an entry for.
        unsafe { std::slice::from_raw_parts(self.held.at.add(self.start), self.len) }
    }
}

impl AsRef<[u8]> for Grant {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Grant").field("len", &self.len).finish()
    }
}

/// A grant of which a channel is a holder, and that is about to be sent.
pub(crate) struct Parting {
    grant: Grant,
    to: u32,
    holding: Holding,
    passed: bool,
}

impl Parting {
    /// What the record says.
    pub fn sent(&self) -> Sent {
        Sent {
            entry: self.holding.entry,
            unit: self.holding.unit,
            start: self.grant.start as u32,
            len: self.grant.len as u32,
        }
    }

    /// It was sent.
    pub fn gone(self) {
        if self.passed
            && let Some(held) = Arc::into_inner(self.grant.held)
        {
            // The entry is the channel's.
            std::mem::forget(held);
        }
    }

    /// It was not.
    pub fn back(self) -> Grant {
        let d = self.grant.held.home.domain;
        if self.passed {
            holdings::pass(&d, self.holding, self.to, thread::ids().pid);
        } else {
            holdings::give_up(&thread::user(d), self.holding, self.to);
        }
        self.grant
    }
}

fn no_entry() -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        "too many grants are held or in flight; drop some, or receive what was sent",
    )
}

/// A grant in flight, as it stands in the stream.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    entry: u32,
    unit: u32,
    start: u32,
    len: u32,
}

impl Sent {
    pub const BYTES: usize = 16;

    fn holding(self) -> Holding {
        Holding {
            entry: self.entry,
            unit: self.unit,
        }
    }
    pub fn to_bytes(self) -> [u8; Sent::BYTES] {
        let mut b = [0; Sent::BYTES];
        for (to, v) in b
            .chunks_exact_mut(4)
            .zip([self.entry, self.unit, self.start, self.len])
        {
            to.copy_from_slice(&v.to_le_bytes());
        }
        b
    }
    pub fn from_bytes(b: &[u8; Sent::BYTES]) -> Sent {
        let word = |k: usize| u32::from_le_bytes([b[k], b[k + 1], b[k + 2], b[k + 3]]);
        Sent {
            entry: word(0),
            unit: word(4),
            start: word(8),
            len: word(12),
        }
    }
}
