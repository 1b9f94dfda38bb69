//! Connections that come and go: whether the calls at a new end are worth being counted (cold.rs).
//!
//! ```text
//! ends of one kind closed cold, `ROW` and more, none `PAUSE` after the one before --> one new end in `TURN` is cold, and all
//!   others are the kernel's for life --> one that gets its channel, or a pause --> each new end is cold again
//! ```
//! Invariant: an end that is left out is one that never has a channel, as if an option of its forbade it.
//! Not here: what is counted of an end.
use byway_sys::clock;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const ROW: u32 = 32;
const TURN: u32 = 16;
/// Cycles: some milliseconds. A client that asks now and then is not to make those that stay the kernel's.
const PAUSE: u64 = 1 << 24;

/// How an end came into being: a server's clients may stay where what it asks itself does not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    Connect,
    Accept,
}

/// Of the ends of one kind that went last.
struct Recent {
    /// How many were brief, in a row.
    brief: AtomicU32,
    /// When the last one went, or one was left out.
    last: AtomicU64,
    /// Ends that came since they are many.
    came: AtomicU32,
}

#[unsafe(link_section = ".data")]
static RECENT: [Recent; 2] = [const {
    Recent {
        brief: AtomicU32::new(0),
        last: AtomicU64::new(0),
        came: AtomicU32::new(0),
    }
}; 2];

/// Whether the calls at a new end are to be counted.
pub fn counts(origin: Origin) -> bool {
    let r = &RECENT[origin as usize];
    if r.brief.load(Relaxed) < ROW {
        return true;
    }
    let now = clock::now();
    if now.wrapping_sub(r.last.load(Relaxed)) > PAUSE {
        r.brief.store(0, Relaxed);
        return true;
    }
    r.last.store(now, Relaxed);
    let came = r.came.load(Relaxed).wrapping_add(1);
    r.came.store(came, Relaxed);
    came.is_multiple_of(TURN)
}

/// An end went that was cold.
pub fn was(origin: Origin) {
    let r = &RECENT[origin as usize];
    let now = clock::now();
    let follows = now.wrapping_sub(r.last.load(Relaxed)) <= PAUSE;
    let before = if follows { r.brief.load(Relaxed) } else { 0 };
    r.brief.store(before.saturating_add(1), Relaxed);
    r.last.store(now, Relaxed);
}

/// An end gets its channel.
pub fn stays(origin: Origin) {
    RECENT[origin as usize].brief.store(0, Relaxed);
}
