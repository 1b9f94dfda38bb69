//! How much shared memory the control groups of this process let it take.
//!
//! ```text
//! limit   ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ above it the kernel kills a process
//!   RESERVE                         below that much room no page is made, and what is free goes back
//! used    ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─
//! (slabs)                           hold at most PART of the limit
//! ```
//! LINUX cgroup-v1/memory, cgroup-v2: pages of a tmpfs are charged to the group whose process touches them first. Without swap only
//! their owner can give them back. At a group's limit MADV_POPULATE_WRITE does not fail: the kernel kills a process.
//!
//! Invariant: a process makes pages present only while its groups have room for them. An answer holds for `FRESH_US`, and for a
//! small part of the room: other processes ask at the same time.
//! Not here: the questions themselves (crate sys, group.rs). The memory of the programs, and what K takes.
use crate::domain::Domain;
use crate::layout::{Geometry, SLAB_BYTES};
use crate::reclaim::per_us;
use byway_sys::{clock, group};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU64, AtomicUsize};

/// Of a limit, the most for slabs. The kernel's pipes may take as much again when rings are handed back.
const PART: u64 = 16;
/// Of a limit, what is left to the programs, but at least `LEAST_RESERVE`.
const RESERVE: u64 = 4;
const LEAST_RESERVE: u64 = 8 << 20;
/// Of the room, what one process may take before it asks again: a 64th.
const AT_ONCE: usize = 64;
/// Slabs without which a domain is not worth its tables: with fewer, pipes only take turns to have a ring.
const WORTH: usize = 4;
const FRESH_US: u64 = 10_000;

/// What this process was told last.
struct Told {
    /// The cycle of the question.
    at: AtomicU64,
    /// Bytes that slabs may have; 0: the reserve is touched.
    slabs: AtomicUsize,
    /// Bytes to be taken without another question.
    bytes: AtomicUsize,
}

static TOLD: Told = Told {
    at: AtomicU64::new(0),
    slabs: AtomicUsize::new(usize::MAX),
    bytes: AtomicUsize::new(0),
};

/// Asks; the bytes that may be taken. Where no descriptor is left to look, the last answer holds.
fn ask(now: u64) -> usize {
    let measure = |cache| {
        let (mut slabs, mut room) = (u64::MAX, u64::MAX);
        let known = group::memory(cache, &mut |limit, left| {
            slabs = slabs.min(limit / PART);
            room = room.min(left.saturating_sub((limit / RESERVE).max(LEAST_RESERVE)));
        });
        known.then_some((slabs, room as usize))
    };
    let told = match measure(false) {
        // Pages of files count as free. That question takes longer, so it comes second.
        Some((_, 0)) => measure(true),
        told => told,
    };
    TOLD.at.store(now, Relaxed);
    let Some((slabs, room)) = told else {
        return TOLD.bytes.load(Relaxed);
    };
    let slabs = if room == 0 { 0 } else { slabs as usize };
    TOLD.slabs.store(slabs, Relaxed);
    let free = room == usize::MAX;
    TOLD.bytes
        .store(if free { room } else { room / AT_ONCE }, Relaxed);
    room
}

/// Asks if the last answer is too old. Only where pages are to be made, or go back in a service's own time: programs start and end
/// without a question.
pub fn look(d: &Domain) {
    let (now, at) = (clock::now(), TOLD.at.load(Relaxed));
    if at == 0 || now.wrapping_sub(at) > FRESH_US * per_us(d.header()) {
        ask(now);
    }
}

/// How many slabs of `d` may be in use, by the last answer.
pub fn slabs(d: &Domain) -> usize {
    d.slabs().min(TOLD.slabs.load(Relaxed) / SLAB_BYTES)
}

/// How much memory may lie free, by the last answer: `bytes`, or less where a group is small.
pub fn idle(bytes: usize) -> usize {
    bytes.min(TOLD.slabs.load(Relaxed) / 4)
}

/// Whether `n` bytes may be made present, which then are taken.
pub fn may(d: &Domain, n: usize) -> bool {
    look(d);
    if TOLD.slabs.load(Relaxed) == 0 {
        return false;
    }
    let less = |b: usize| {
        if b == usize::MAX {
            Some(b)
        } else {
            b.checked_sub(n)
        }
    };
    TOLD.bytes.fetch_update(Relaxed, Relaxed, less).is_ok() || ask(clock::now()) >= n
}

/// Whether a domain is worth having: its tables and some slabs are within that part of the limit, and the reserve is untouched.
pub fn may_begin(g: Geometry) -> bool {
    ask(clock::now());
    TOLD.slabs.load(Relaxed) >= g.reserved() + WORTH * SLAB_BYTES
}
