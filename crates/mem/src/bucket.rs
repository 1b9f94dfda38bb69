//! The middle room: buckets of free objects, on their way between CPUs.
//!
//! ```text
//! VIRGIN --make--> owned by a process <--claim/deposit--> DEPOT
//!                        | exchange (cache.rs)
//!                     in a front: the state still names who put it there, and the front counts
//! ```
//! Invariant: a bucket is in the depot, in one front, or with the process that its state names; the claim is one
//! compare-and-swap of the state, so a death falls before or after it. Only its owner, or the CPU of its front,
//! touches `n` and the items.
//! Not here: fronts (cache.rs), slabs (slab.rs).
use crate::crash::{Point, point};
use crate::domain::Domain;
use crate::layout::{BUCKETS, Bucket, Class, DEPOT, Hints, VIRGIN};
use crate::weak::{Edge, order};
use byway_sys::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::Ordering;

impl Bucket {
    /// Takes the bucket out of the depot.
    pub fn claim(&self, me: u32) -> bool {
        self.state.load(Relaxed) == DEPOT
            // EDGE B1 <- B0: what the depositor left in it is seen.
            && self.state.compare_exchange(DEPOT, me, order(Edge::Claim, AcqRel), Relaxed).is_ok()
    }
    /// Puts a bucket of this process into the depot.
    pub fn deposit(&self) {
        // EDGE B0 -> B1: its contents before its state.
        self.state.store(DEPOT, order(Edge::Deposit, Release));
    }
    /// Objects in it, never more than it can hold.
    pub fn count(&self, class: Class) -> usize {
        (self.n.load(Acquire /* ORDER: items below n are there */) as usize).min(class.cap())
    }
    pub fn class(&self) -> Option<Class> {
        Class::from_index(self.class.load(Ordering::Relaxed))
    }
    /// Its owner's: the last object out of it. `mark` is told before it is out.
    pub fn pop(&self, class: Class, mark: impl FnOnce(u32)) -> Option<u32> {
        let n = self.count(class).checked_sub(1)?;
        let x = self.items[n].load(Ordering::Relaxed);
        mark(x);
        // ORDER: the mark before the commit, for a sweep on another CPU.
        self.n.store(n as u32, Release);
        Some(x)
    }
    /// Its owner's: `x` into it; false if it is full.
    pub fn push(&self, class: Class, x: u32) -> bool {
        let n = self.count(class);
        if n == class.cap() {
            return false;
        }
        self.items[n].store(x, Ordering::Relaxed);
        // ORDER: the item before the commit.
        self.n.store(n as u32 + 1, Release);
        true
    }
}

/// A bucket with objects of `class`, now `me`'s.
pub fn claim_full(d: &Domain, class: Class, me: u32) -> Option<usize> {
    let hints = &d.middle().full[class as usize];
    let fits = |b: &Bucket| b.class() == Some(class) && b.count(class) > 0;
    scan(hints, |i| d.bucket(i), me, fits, |i| deposit(d, i, None))
}

/// An empty bucket, made one of `class` and `me`'s.
pub fn claim_empty(d: &Domain, class: Class, me: u32) -> Option<usize> {
    let (hints, fits) = (&d.middle().empty, |b: &Bucket| b.n.load(Relaxed) == 0);
    let i =
        scan(hints, |i| d.bucket(i), me, fits, |i| deposit(d, i, None)).or_else(|| make(d, me))?;
    d.bucket(i)?.class.store(class as u32, Ordering::Relaxed);
    Some(i)
}

/// Claims the first bucket of `hints` that fits; one that does not goes `back`.
pub(crate) fn scan<'a>(
    hints: &Hints,
    at: impl Fn(usize) -> Option<&'a Bucket>,
    me: u32,
    fits: impl Fn(&Bucket) -> bool,
    back: impl Fn(usize),
) -> Option<usize> {
    let mut from = 0;
    while let Some(i) = hints.next(from) {
        hints.clear(i);
        if let Some(b) = at(i)
            && b.claim(me)
        {
            if fits(b) {
                point(Point::Claimed);
                return Some(i);
            }
            // The hint was of another time.
            back(i);
        }
        from = i + 1;
    }
    None
}

/// A bucket that was never used.
fn make(d: &Domain, me: u32) -> Option<usize> {
    const PER_PAGE: usize = crate::layout::PAGE / size_of::<Bucket>();
    let h = d.header();
    // Once for every page and more, whatever a hostile peer writes there.
    for _ in 0..=BUCKETS / PER_PAGE {
        let n = d.buckets_made();
        for i in n.saturating_sub(PER_PAGE)..n {
            // EDGE B1: nothing to see in it.
            if let Some(b) = d.bucket(i)
                && b.state.load(Relaxed) == VIRGIN
                && b.state
                    .compare_exchange(VIRGIN, me, AcqRel, Relaxed)
                    .is_ok()
            {
                return Some(i);
            }
        }
        if n >= BUCKETS || !d.make_buckets(n) {
            return None;
        }
        // ORDER: the page before the number that says that it is there.
        let _ = h.buckets.compare_exchange(
            n as u32,
            (n + PER_PAGE) as u32,
            Ordering::AcqRel,
            Ordering::Relaxed,
        );
    }
    None
}

/// Puts bucket `i`, this process's, into the depot; `front` is the one that it comes from.
pub fn deposit(d: &Domain, i: usize, front: Option<usize>) {
    let Some(b) = d.bucket(i) else { return };
    if let Some(f) = front {
        b.cpu.store(f as u32, Ordering::Relaxed);
    }
    b.deposit();
    point(Point::Unhinted);
    hint(d, i, b);
}

/// Says where bucket `i` of the depot can be found.
pub fn hint(d: &Domain, i: usize, b: &Bucket) {
    let m = d.middle();
    match b.class() {
        Some(c) if b.count(c) > 0 => m.full[c as usize].set(i),
        _ => m.empty.set(i),
    }
}
