//! The size of a carried pipe: what F_GETPIPE_SZ and F_SETPIPE_SZ of fcntl(2) say and do.
//!
//! Invariant: a pipe whose size a program has set holds so many bytes, ring and kernel lane together, no fewer and no
//! more. So no hand-back of it needs a larger kernel lane than the one that the kernel has granted.
//! Not here: the size of other rings (policy.rs), and how a ring counts as full (ring.rs, `cap`).
use crate::birth::KERNEL;
use crate::channel::{Channel, FIFO_SIZE, PIPE_BUF};
use crate::lane::Lane;
use crate::reason::Reason;
use crate::ring::RING_MOST;
use crate::{Caller, clusters, handback, lock, policy, ready};
use byway_sys::errno::{EBUSY, Ret, failed};
use byway_sys::file::{self, F_GETPIPE_SZ, F_SETPIPE_SZ};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering::Relaxed;

/// The sizes that such a pipe is carried with: a page, and half of the largest ring, which keeps room for a pump.
const CARRIED: RangeInclusive<usize> = PIPE_BUF..=RING_MOST / 2;

impl Channel {
    /// Its pipe has `size` bytes by the kernel's word, under the writers' lock or before it is found. A larger one than
    /// new pipes have was made so by a program.
    pub(crate) fn is_of_size(&self, size: usize) {
        self.facts.0.size.store(size as u32, Relaxed);
        self.facts.0.sized.store(u8::from(size > KERNEL), Relaxed);
    }
    /// A FIFO that everybody has left is another pipe since, and an outsider may have set its size. Not asked of one that a
    /// hand-back has made larger, which `promised` says, and not of one that has a size of ours, left by a participant that
    /// was killed.
    pub(crate) fn looks_at_size(&self, lane: Lane) {
        let f = &self.facts.0;
        let size = lane.size();
        let is_whole = !self.is_grown(size) && ![FIFO_SIZE, PIPE_BUF].contains(&size);
        if self.is_fifo() && is_whole && size != f.size.load(Relaxed) as usize {
            self.is_of_size(size);
        }
    }
    /// Whether a hand-back has made a kernel lane of `size` bytes larger than the pipe is, until it is read. Of a FIFO such
    /// a lane has no size that a new pipe gets (`grows`): that is one that begins a new life.
    fn is_grown(&self, size: usize) -> bool {
        let f = &self.facts.0;
        let is_larger = size > f.size.load(Relaxed) as usize;
        f.promised.load(Relaxed) != 0 && is_larger && !(self.is_fifo() && size == KERNEL)
    }
    /// At the end of a hand-back: `lane`, which holds `held` bytes, has room for them, and no more than it must: a full ring
    /// is a full pipe afterwards. A ring with room leaves some, for a program may have been told of it. Whether the lane is
    /// larger than the pipe.
    pub(crate) fn grows(&self, lane: Lane, held: usize, has_room: bool) -> bool {
        let size = self.facts.0.size.load(Relaxed) as usize;
        // The first page may be read in part. A pipe whose size is set has the room.
        let free = match has_room && self.sized().is_none() {
            true => 2 * PIPE_BUF,
            false => 0,
        };
        lane.resize((held + free).max(size));
        if self.is_fifo() && size < KERNEL && lane.size() == KERNEL {
            lane.resize(2 * KERNEL);
        }
        held + free > size
    }
    /// The size that a program has set.
    pub(crate) fn sized(&self) -> Option<usize> {
        let f = &self.facts.0;
        (f.sized.load(Relaxed) != 0).then(|| f.size.load(Relaxed) as usize)
    }
}

/// F_GETPIPE_SZ: the size of the pipe as the kernel would say it, or its error number.
pub fn get(me: &Caller, ch: &Channel, fd: usize) -> Ret {
    let f = &ch.facts.0;
    loop {
        let asked = || {
            let size = file::fcntl(fd, F_GETPIPE_SZ, 0);
            // And all holders take part.
            let is_grown = ch.is_grown(size.max(0) as usize) && f.pending.load(Relaxed) == 0;
            (!is_grown).then_some(size)
        };
        match ready::of_kernel(me, ch, asked) {
            Some(Some(size)) => return size,
            None if ch.tail().closed() => lock::settle(me, ch, fd),
            // While it is open the kernel lane has another one too.
            _ => return f.size.load(Relaxed) as Ret,
        }
    }
}

/// F_SETPIPE_SZ to `want` bytes: the kernel's answer. The channel is closed afterwards, and may open as any other.
/// `None`: `fd` is not the pipe's any more, and nothing was done.
pub fn set(me: &Caller, ch: &Channel, fd: usize, want: usize) -> Option<Ret> {
    loop {
        if !handback::hand_back(me, ch, fd, false, Reason::Control) {
            return None;
        }
        // A spiller keeps the lock until its bytes are read, and this call does not wait for that.
        let taken = lock::take(me, ch, fd, |t| t.spiller() != 0);
        if taken.is_some() && !ch.tail().closed() {
            lock::unlock(me, ch);
            continue;
        }
        let answer = ch.lane(fd).is_ours().then(|| resize(me, ch, fd, want));
        match taken {
            Some(_) => lock::unlock(me, ch),
            // The spiller may have ended, and a ring of the old size been opened, while the kernel was asked.
            None => _ = handback::hand_back(me, ch, fd, false, Reason::Control),
        }
        return answer;
    }
}

/// Of a closed channel.
fn resize(me: &Caller, ch: &Channel, fd: usize, want: usize) -> Ret {
    let was = ch.facts.0.size.load(Relaxed) as usize;
    let said = file::fcntl(fd, F_SETPIPE_SZ, want);
    if !failed(said) {
        // It is as large as it was asked to be.
        clusters::release(me.domain, ch);
    }
    let answer = match said {
        // LINUX pipe_resize_ring: EBUSY where more is unread than would fit, which a pipe of `was` bytes does not meet
        // at a larger size. The ring has taken more than that, and the kernel lane is so large until it is read.
        EBUSY if rounded(want) >= was && ch.is_grown(ch.lane(fd).size()) => rounded(want) as Ret,
        said => said,
    };
    if !failed(answer) {
        ch.facts.0.size.store(answer as u32, Relaxed);
        ch.facts.0.sized.store(1, Relaxed);
    }
    answer
}

/// LINUX round_pipe_size: a power of two, a page at least.
fn rounded(want: usize) -> usize {
    (want as u32 as usize).next_power_of_two().max(PIPE_BUF)
}

/// A ring for a pipe whose size was set, and what its hand-back may need of the kernel lane; the outer `None`: no program has
/// set it; the inner one: there can be none.
pub(crate) fn ring(me: &Caller, ch: &Channel) -> Option<Option<(usize, usize)>> {
    let size = ch.sized()?;
    if !CARRIED.contains(&size) {
        return Some(None);
    }
    // Room for a pump, and sizes are powers of two.
    let ring = 2 * size;
    let may = policy::may_have(me, ring) && clusters::is_affordable(me.domain, size);
    Some(may.then_some((ring, size)))
}
