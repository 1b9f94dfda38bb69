//! What the last write, or read, of an end that went straight through found out, for its next one: where in memory it
//! goes on, and how far.
//!
//! Invariant: a cursor is used only while the word that it was taken under stands. A writer's: the tail is as its last
//! write left it, biased to the same thread, and nobody has written since; then room and memory are there as they were,
//! for whoever takes memory away takes the lock, and readers only make room. A reader's: the head is where its last
//! read left it; then what was published behind the head still is, and has its memory. A cursor is the process's own:
//! nothing that a peer writes moves an address in it.
//! Not here: what else is asked before each write and read, and the steps that make them count (fast_path.rs).
use crate::Caller;
use crate::biased_lock;
use crate::channel::Channel;
use crate::ring::{Ring, SLACK};
use crate::word::{Head, Tail};
use byway_mem::layout::ThreadSlot;

/// A bias owner's. One belongs to each end that writes.
#[derive(Clone, Copy)]
pub struct WriteCursor {
    /// The tail as the last write left it.
    pub(crate) t: Tail,
    /// Bytes that the channel had carried then: the tail alone would come again with its 32 bits of the tail.
    carried: u64,
    /// Where the next byte goes, its position, and how many may come before all is asked anew.
    pub(crate) to: *mut u8,
    pub(crate) pos: u64,
    room: u32,
    /// The channel's number, and the bias owner's place (biased_lock.rs).
    pub(crate) number: u32,
    pub(crate) slot: Option<&'static ThreadSlot>,
}

// SAFETY: the address is one of the domain, which every thread may know; whether a thread may write there the tail
// says.
unsafe impl Send for WriteCursor {}
// SAFETY: as above; it changes through `&mut` alone.
unsafe impl Sync for WriteCursor {}

impl WriteCursor {
    /// None.
    pub const NONE: WriteCursor = WriteCursor {
        t: Tail(0),
        carried: 0,
        to: core::ptr::null_mut(),
        pos: 0,
        room: 0,
        number: 0,
        slot: None,
    };

    /// How many bytes may be written by it, if nobody else comes in between.
    pub fn room(&self) -> usize {
        self.room as usize
    }

    /// After a write that left the tail as `t`, at position `pos` of a ring that has room for `left` bytes from there:
    /// `run` of them in one piece from `to` on. None if the lock is not biased.
    #[inline]
    pub(crate) fn after(
        me: &Caller,
        ch: &Channel,
        ring: Ring,
        t: Tail,
        (to, run): (*mut u8, usize),
        pos: u64,
        left: u64,
    ) -> WriteCursor {
        if t.bias_owner() == 0 {
            return WriteCursor::NONE;
        }
        // Behind each write there is memory for a pump.
        let spare = match ring.has(pos.wrapping_add(run as u64 + SLACK - 1)) {
            true => 0,
            false => SLACK as usize,
        };
        WriteCursor {
            t,
            carried: ch.writer.0.counted(),
            to,
            pos,
            room: left.min(run.saturating_sub(spare) as u64) as u32,
            number: biased_lock::number(me, ch),
            slot: Some(me.domain.thread_slot(me.tid)),
        }
    }

    /// Whether it may hold for a write of `n` bytes into a ring that `most` fill; else it ends. Said for certain only
    /// inside (biased_lock.rs).
    #[inline]
    pub(crate) fn covers(&mut self, me: &Caller, ch: &Channel, (n, most): (usize, u64)) -> bool {
        let may = n <= self.room as usize
            && most == u64::MAX
            && self.number == biased_lock::number(me, ch)
            && self.t.is_biased_to(me.tid)
            && self.carried == ch.writer.0.counted();
        if !may {
            // All is asked anew.
            self.room = 0;
        }
        may
    }
    /// `n` bytes were written.
    #[inline]
    pub(crate) fn go_on(&mut self, n: usize) {
        self.t = self.t.plus(n);
        self.carried = self.carried.wrapping_add(n as u64);
        self.to = self.to.wrapping_add(n);
        self.pos += n as u64;
        self.room -= n as u32;
    }
}

/// A reader's. One belongs to each end that reads, and ends with it: the pipe is the same as long as somebody has it open.
#[derive(Clone, Copy)]
pub struct ReadCursor {
    /// The head as the last read left it.
    h: Head,
    /// Where the byte at the head is, and how many are published from there on, in one piece.
    from: *const u8,
    run: u32,
}

// SAFETY: as of a `WriteCursor`; what is read there counts only if the head still stands then.
unsafe impl Send for ReadCursor {}
// SAFETY: as above.
unsafe impl Sync for ReadCursor {}

impl ReadCursor {
    /// None.
    pub const NONE: ReadCursor = ReadCursor {
        h: Head(0),
        from: core::ptr::null(),
        run: 0,
    };

    /// After a read that left the head at `r`, whose byte is at `from`, the first of `run` that are published.
    #[inline]
    pub(crate) fn after(r: u64, from: *const u8, run: usize) -> ReadCursor {
        ReadCursor {
            h: Head::free(r),
            from,
            run: run as u32,
        }
    }
    /// What it names, if it holds under `h`, and that is `n` bytes at least.
    #[inline]
    pub(crate) fn bytes(&self, h: Head, n: usize) -> Option<(*const u8, usize)> {
        (h == self.h && n <= self.run as usize).then_some((self.from, self.run as usize))
    }
}
