//! Places where a process may be killed, for the test that kills it there.
//!
//! Invariant: without the feature `crash` nothing of this is in the program.
//! Not here: what must hold afterwards (audit.rs).

/// Every step between two commits of the allocator that leaves something for others to bring home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Point {
    /// An object is taken from a bucket, its owner does not know it yet.
    Popped = 1,
    /// An object is about to go into a bucket.
    Pushing,
    /// A bucket was claimed from the depot, and is not loaded.
    Claimed,
    /// A bucket left a front, and is not in the depot.
    Left,
    /// A bucket is in the depot, its hint is not set.
    Unhinted,
    /// A slab's lock is held.
    Locked,
    /// A slab was claimed, its class is not set.
    Carving,
    /// An object left its slab, and is in no bucket.
    Homeless,
    /// An object left its bucket on the way to its slab.
    Returning,
    /// A slab says that pages are not there, they still are.
    Removed,
    /// A locked front is held.
    Front,
}

impl Point {
    pub const ALL: [Point; 11] = [
        Point::Popped,
        Point::Pushing,
        Point::Claimed,
        Point::Left,
        Point::Unhinted,
        Point::Locked,
        Point::Carving,
        Point::Homeless,
        Point::Returning,
        Point::Removed,
        Point::Front,
    ];
}

#[cfg(not(feature = "crash"))]
#[inline(always)]
pub fn point(_: Point) {}

#[cfg(feature = "crash")]
pub use armed::{arm, point};

#[cfg(feature = "crash")]
mod armed {
    use super::Point;
    use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

    static WHERE: AtomicU32 = AtomicU32::new(0);
    static AFTER: AtomicU32 = AtomicU32::new(0);

    /// This process dies at `p` when it comes there for the `nth` time.
    pub fn arm(p: Point, nth: u32) {
        AFTER.store(nth, Relaxed);
        WHERE.store(p as u32, Relaxed);
    }

    pub fn point(p: Point) {
        if WHERE.load(Relaxed) == p as u32 && AFTER.fetch_sub(1, Relaxed) == 1 {
            let pid = byway_sys::process::getpid() as usize;
            // SAFETY: kill(2) of ourselves.
            unsafe { byway_sys::syscall::call3(byway_sys::syscall::nr::KILL, pid, 9, 0) };
        }
    }
}
