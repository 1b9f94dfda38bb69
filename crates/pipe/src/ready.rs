//! What a read or a write would find, without making it: for those who wait for several pipes at once.
//!
//! Invariant: nothing leaves or enters the stream. Who was told "nothing" is armed as a reader that found nothing (I4),
//! or finds the kernel lane full as a writer that found no room: the descriptor tells the rest.
//! Not here: who waits, and how (the native library's event queue).
use crate::channel::{Channel, PIPE_BUF, Reason};
use crate::read::{self, AGAIN, Armed};
use crate::word::{Head, Tail};
use crate::{Caller, Step, handback, lock, write};
use byway_sys::file;
use byway_sys::process;

/// Bytes that readers may take now, as one look tells: those of the ring, and those of the kernel lane. `None`: that is
/// for one to tell who holds the readers' side, and does not go on.
pub fn readable(me: &Caller, ch: &Channel, fd: usize) -> Option<u64> {
    let mut patience = lock::Patience::new();
    loop {
        let h = ch.head();
        let t = ch.tail();
        let m = ch.chunk();
        let ring = match ch.ring(&me.domain) {
            Some(ring) if !t.closed() => ring,
            _ => return Some(ch.lane(fd).held() as u64),
        };
        let there = t.wide(h.position()) - h.position();
        let own = if m.valid() { ch.lane(fd).held() } else { 0 };
        // Of one moment, or again; somebody who holds the readers' side moves bytes between the two.
        if ch.head() == h && ch.tail().position() == t.position() && ch.chunk() == m && !h.held() {
            return Some(there.min(ring.bytes()) + own as u64);
        }
        if h.held() && patience.wait(me.cpus) {
            if process::is_dead(h.owner()) {
                handback::settle(me, ch, fd);
            } else if patience.turns() > 90 {
                // A reader that is at work has done long before.
                return None;
            }
        }
    }
}

/// What `arm` came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Nothing is there, and the reader counts as asleep: until `read::finish` the descriptor tells of what comes.
    Armed,
    /// Something is there, or just coming.
    Bytes,
    /// The pipe is the kernel's for good: its descriptor tells the truth.
    Kernels,
}

/// Arms a reader as `read` does that finds nothing. Of a channel that is the kernel's for now also if the kernel lane
/// has bytes: nobody opens it before they are read.
pub fn arm(me: &Caller, ch: &Channel, fd: usize, armed: &mut Armed) -> Sight {
    let mut patience = lock::Patience::new();
    loop {
        let h = ch.head();
        let t = ch.tail();
        if t.closed() {
            match read::native(me, ch, fd, 0, armed) {
                Step::Done(AGAIN) => continue,
                Step::NativeCounted => return Sight::Armed,
                _ => return Sight::Kernels,
            }
        }
        if h.held() || t.sleepers() > 0 {
            let asked = patience.wait(me.cpus);
            if h.held() && asked && process::is_dead(h.owner()) {
                handback::settle(me, ch, fd);
            } else if t.sleepers() > 0 && (!t.woken() || patience.turns() > 80) {
                // I7: as a second reader.
                if !handback::hand_back(me, ch, fd, false, Reason::SecondReader) {
                    return Sight::Kernels;
                }
            }
            continue;
        }
        let m = ch.chunk();
        if t.wide(h.position()) != h.position() || ch.offer().is_made() {
            return Sight::Bytes;
        }
        if m.valid() {
            if !ch.lane(fd).is_empty() {
                return Sight::Bytes;
            }
            // Empty, but not yet found so by a read.
            let held = me.hold_signals();
            if lock::try_hold(me, ch, h.position(), Head::READS_LANE) {
                let before = ch.tail();
                if ch.chunk() == m && before.sleepers() == 0 && ch.lane(fd).is_empty() {
                    read::found_empty(ch, m, before);
                }
                lock::release(me, ch, h.position());
            }
            drop(held);
            if patience.wait(me.cpus) && t.lock_owner() != 0 && process::is_dead(t.lock_owner()) {
                handback::settle(me, ch, fd);
            }
            continue;
        }
        if let Some(now) = read::to_sleep(ch, t, m, 0) {
            *armed = now;
            return Sight::Armed;
        }
    }
}

/// Gives the channel to the kernel until its bytes are read, and arms the reader: for one that leaves bytes unread and wants
/// to be told of more, which a ring does not tell.
pub fn settle(me: &Caller, ch: &Channel, fd: usize, armed: &mut Armed) -> Sight {
    loop {
        if !handback::hand_back(me, ch, fd, false, Reason::Readiness) {
            return Sight::Kernels;
        }
        match read::native(me, ch, fd, 0, armed) {
            // Opened again in between.
            Step::Done(AGAIN) => {}
            Step::NativeCounted => return Sight::Armed,
            _ => return Sight::Kernels,
        }
    }
}

/// Bytes that a writer finds room for, as one look tells; 0 where a write of PIPE_BUF bytes does not fit. Then the
/// kernel lane is full, and the descriptor tells when there is room.
pub fn space(me: &Caller, ch: &Channel, fd: usize) -> u64 {
    let mut shrunk = false;
    loop {
        let t = ch.tail();
        let (Some(ring), false) = (ch.ring(&me.domain), t.closed()) else {
            return pipe_space(fd);
        };
        // The chunk before R: a place that the head has passed is not behind.
        let m = ch.chunk();
        let r = ch.head().position();
        let used = t.wide(r) - r;
        if used > ring.bytes() {
            if ch.tail() != t {
                continue;
            }
            // Not a state that any of us writes.
            return pipe_space(fd);
        }
        let room = if m.valid() && r < m.position(r) {
            0
        } else {
            ring.room().saturating_sub(used)
        };
        // The kernel lane takes as much once more.
        let own = if !m.valid() || ch.lane(fd).is_empty() {
            PIPE_BUF as u64
        } else {
            0
        };
        if room + own >= PIPE_BUF as u64 {
            return room + own;
        }
        if shrunk {
            return 0;
        }
        if let Some(_taken) = lock::take(me, ch, fd, Tail::closed) {
            shrunk = write::shrink(ch, fd);
            lock::unlock(me, ch);
            if !shrunk {
                return 0;
            }
        }
    }
}

/// Room in the kernel's pipe behind `fd`, bytes; 0 where poll(2) says that there is none. It counts in pages, of which a
/// small write may fill one: so there may be less.
pub fn pipe_space(fd: usize) -> u64 {
    if file::poll1(fd, file::POLLOUT, 0).1 & file::POLLOUT == 0 {
        return 0;
    }
    let size = file::fcntl(fd, file::F_GETPIPE_SZ, 0).max(0) as usize;
    size.saturating_sub(file::fionread(fd)).max(PIPE_BUF) as u64
}
