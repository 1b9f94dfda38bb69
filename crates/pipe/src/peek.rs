//! recv(2) with MSG_PEEK: what a read would take next, which stays.
//!
//! Invariant: nothing leaves the stream, and no word of the channel changes. What was copied was there together: the head has
//! not moved meanwhile, and what is behind it is not written over.
//! Not here: a peek that waits, or that finds bytes in both lanes: before those the channel is handed back (preload library).
use crate::channel::Channel;
use crate::copy::Buffers;
use crate::{Caller, policy, socket};
use core::sync::atomic::{Ordering::Acquire, fence};

/// What a look came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peek {
    /// So many bytes are in the buffers.
    Bytes(usize),
    /// The ring has none: a call that does not wait is told by the kernel.
    Nothing,
    /// It is not for the ring alone to tell.
    Both,
}

/// Copies up to `want` bytes to `at`.
pub fn peek(me: &Caller, ch: &Channel, at: Buffers, want: usize) -> Peek {
    loop {
        let (h, t, m) = (ch.head(), ch.tail(), ch.chunk());
        let r = h.position();
        if t.closed() || t.wide(r) == r {
            let told = h.held() || socket::is_reset_kept(ch);
            return if told { Peek::Both } else { Peek::Nothing };
        }
        let there = t.wide(r) - r;
        let ring = ch.ring(&me.domain).filter(|x| there <= x.bytes());
        let (Some(ring), false) = (ring, m.valid() || h.held()) else {
            return Peek::Both;
        };
        let k = there.min(want as u64) as usize;
        if !at.check(k, |p, n| (me.access)(p, n, true)) {
            return Peek::Both;
        }
        // SAFETY: checked above; what the ring has at [r, r + k) is published, and not released while the head stands.
        unsafe { at.from_ring(ring, r, k, policy::lines(ch, k), there as usize) };
        // ORDER: the copy comes before the second look at the head.
        fence(Acquire);
        if ch.head() == h {
            return Peek::Bytes(k);
        }
    }
}

/// Whether the ring has nothing now.
pub fn is_empty(ch: &Channel) -> bool {
    let (h, t) = (ch.head(), ch.tail());
    t.closed() || t.wide(h.position()) == h.position()
}
