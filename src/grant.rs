//! Grants: buffers in shared memory that are filled in place, handed over without a copy, and kept as long as anybody wants.
//!
//! ```text
//! reserve(n) -> WriteGrant --fill--> share() -> Grant --send--> (in flight) --receive--> Grant
//!               mine alone                      clone: one count more, in this process; a clone may be sent too
//! ```
//! Invariant: each process that has a buffer, and each channel in which it travels, has an entry in the table of holdings; so
//! it lives as long as one of them, and comes home when its holders have died.
//! unsafe: slices over shared memory. A peer that takes part never writes into a buffer after it shared it. One that does
//! so all the same is a process of this user's, which could write into any memory of this process by ptrace(2) too
//! (docs/threats.md); addresses and lengths are checked against the domain before they are used.
//! Not here: how a grant travels (sender.rs, receiver.rs).
use crate::home::Home;
use crate::{collect, home, thread};
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
    let home = home::home().map_err(|why| io::Error::new(io::ErrorKind::Unsupported, why))?;
    let class = Class::ALL.into_iter().find(|c| c.bytes() >= len);
    let take = || {
        let u = thread::user(home.domain);
        match class {
            Some(c) => cache::alloc(&u, c),
            None => span::alloc(&u, len),
        }
    };
    let found = take().or_else(|| {
        // What the dead held, and what travels in pipes that are no more.
        collect::collect(home.domain);
        take()
    });
    let object = found.and_then(|unit| Some((unit, holdings::object(&home.domain, unit)?)));
    match object {
        Some((unit, (at, room))) if room >= len => Ok(WriteGrant {
            home,
            unit,
            at,
            len,
            owner: thread::ids().pid,
        }),
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
    static NEAR: Cell<u32> = const { Cell::new(0) };
}

impl WriteGrant {
    /// Makes it shorter; `len` beyond its length changes nothing.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Ends the filling: from now on it can be sent, cloned and read, and nobody writes into it.
    ///
    /// # Errors
    /// `OutOfMemory`: too many buffers are held and in flight (8,192 of this user's). `InvalidInput`: in a child that was forked
    /// after it was reserved, which does not have it.
    pub fn share(self) -> io::Result<Grant> {
        let d = self.home.domain;
        let u = thread::user(d);
        if self.owner != u.who.pid {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the buffer is the parent's that reserved it; reserve one after fork",
            ));
        }
        let near = NEAR.get().wrapping_add(u.who.tid.wrapping_mul(61));
        let Some(holding) = holdings::enter(&u, self.unit, u.who.pid, near) else {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "too many grants are held or in flight; drop some, or receive what was sent",
            ));
        };
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
        NEAR.set(self.holding.entry);
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

    /// Makes `to`, a channel, a holder too; this value's own entry stays. What to send.
    pub(crate) fn lend(&self, to: u32) -> io::Result<Sent> {
        let u = thread::user(self.held.home.domain);
        match holdings::again(&u, self.held.holding, to) {
            Some(h) => Ok(Sent {
                entry: h.entry,
                unit: h.unit,
                start: self.start as u32,
                len: self.len as u32,
            }),
            None => Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "too many grants are held or in flight; drop some, or receive what was sent",
            )),
        }
    }

    /// Takes back what was lent and not sent.
    pub(crate) fn unlend(&self, sent: Sent, to: u32) {
        let u = thread::user(self.held.home.domain);
        holdings::give_up(&u, sent.holding(), to);
    }

    /// What came out of channel `from`; `None`: nothing that was sent into it.
    pub(crate) fn receive(sent: Sent, from: u32) -> Option<Grant> {
        let home = home::home().ok()?;
        let (d, h) = (home.domain, sent.holding());
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
