//! The front room: each CPU's own buckets, and the whole of allocation and release.
//!
//! ```text
//! alloc:  loaded bucket --empty?--> swap with the one before --empty too?--> a full one from the depot, or
//!         from slabs; the empty one goes to the depot                            (free: the mirror image)
//! ```
//! Invariant: an object is in exactly one place: at home in its slab, in a bucket below its n, with the process that
//! its mark names, or with a channel. A mark is written before the commit that makes it true, and counts only for an
//! object that is in neither of the first two places. So a death at any instruction loses nothing (reclaim.rs).
//! Not here: when memory goes back to the machine (reclaim.rs).
//!
//! Two fronts: a CPU's own through restartable sequences; shared ones under a lock for threads without them. A thread
//! that can have neither (a signal handler over its own lock) works on the depot and the slabs directly.
use crate::crash::{Point, point};
use crate::domain::Domain;
use crate::layout::*;
use crate::slab::Who;
use crate::weak::{Edge, order};
use crate::{bucket, reclaim, slab};
use byway_sys::process;
use byway_sys::rseq::{self, Area, Bounds};
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// A thread that allocates and frees. Not for two threads: it holds what is the thread's own.
pub struct User {
    pub domain: Domain,
    pub who: Who,
    area: Option<&'static Area>,
    /// What the sequences check, a class each.
    bounds: [Bounds; CLASSES],
    /// CPU 0's words, the buckets, the object entries.
    fronts: usize,
    buckets: usize,
    objects: usize,
    /// The area is this thread's alone.
    stays: PhantomData<*mut ()>,
}

/// What a front could do.
enum Did {
    Got(u32),
    Put,
    /// Nothing there, or no room.
    Not,
    /// No front can be used now.
    None,
}

/// The word of a front: loaded and previous bucket.
fn word(loaded: Option<usize>, previous: Option<usize>) -> u64 {
    let half = |b: Option<usize>| b.map_or(0, |i| i as u64 + 1);
    half(loaded) | half(previous) << 32
}
fn halves(w: u64) -> (Option<usize>, Option<usize>) {
    let half = |v: u64| (v as u32 as usize).checked_sub(1);
    (half(w), half(w >> 32))
}

impl User {
    /// The calling thread, as a user of `domain`; `pid` and `tid` are its own.
    pub fn new(domain: Domain, pid: u32, tid: u32) -> User {
        let off = domain.header().flags.load(Relaxed) & flags::NO_RSEQ != 0;
        let bounds = Class::ALL.map(|class| Bounds {
            cpus: CPUS as u32,
            buckets: AtomicU32::new(domain.buckets_made() as u32),
            units: domain.units() as u32,
            cap: class.cap() as u32,
            me: pid,
            leaving: u32::MAX,
        });
        User {
            domain,
            who: Who { pid, tid },
            area: if off { None } else { rseq::area() },
            bounds,
            fronts: &raw const *domain.front(0) as usize,
            buckets: domain.buckets(),
            objects: domain.objects(),
            stays: PhantomData,
        }
    }
    /// As `new`, for a thread that restartable sequences are not for: a vfork child, which has its parent's area.
    pub fn without_rseq(domain: Domain, pid: u32, tid: u32) -> User {
        User {
            area: None,
            ..User::new(domain, pid, tid)
        }
    }
    /// On a CPU that has no front: the shared ones do.
    fn is_beyond(&self) -> bool {
        self.area.is_some_and(|a| a.cpu() as usize >= CPUS)
    }
    /// Counts an event of `class` where this thread runs.
    pub(crate) fn tell(&self, class: Class, f: impl FnOnce(&Counters) -> u64) {
        f(self.domain.counters(self.front(), class));
    }
    /// The front that counts this thread's events.
    fn front(&self) -> usize {
        self.area.map_or(CPUS, |a| a.cpu() as usize)
    }
    /// Whether restartable sequences are used.
    pub fn has_rseq(&self) -> bool {
        self.area.is_some()
    }

    /// CPU 0's word of `class`.
    fn fronts(&self, class: Class) -> usize {
        self.fronts + 8 * class as usize
    }
    /// The object is about to be this process's, with one reference: as the sequence `pop` writes it.
    pub(crate) fn mark(&self, unit: u32) {
        if let Some(o) = self.domain.object(unit) {
            o.mark.store(self.who.pid, Relaxed);
            o.refs.store(1, Relaxed);
        }
    }

    /// A shared front that is now this thread's.
    fn lock_front(&self) -> Option<usize> {
        for k in 0..4 {
            let i = CPUS + (self.who.tid as usize + k) % LOCKED;
            let l = &self.domain.front(i).lock;
            for turn in 0..256 {
                let owner = l.load(Relaxed);
                let free =
                    owner == 0 || (turn == 255 && owner != self.who.tid && process::is_dead(owner));
                // ORDER: what the last owner did is seen.
                if free
                    && l.compare_exchange(owner, self.who.tid, AcqRel, Relaxed)
                        .is_ok()
                {
                    point(Point::Front);
                    return Some(i);
                }
                if owner == self.who.tid {
                    break;
                }
                byway_sys::clock::pause();
            }
        }
        None
    }
    fn unlock_front(&self, i: usize) {
        // ORDER: what was done under the lock comes before its end.
        self.domain.front(i).lock.store(0, Release);
    }

    /// The object that the front has at hand.
    #[inline]
    fn pop(&self, class: Class) -> Did {
        if let Some(a) = self.area {
            let (f, b) = (self.fronts(class), &self.bounds[class as usize]);
            // SAFETY: tables of the mapping; the sequence checks what it finds in them against the bounds.
            let x = unsafe { rseq::byway_rseq_pop(a, f, self.buckets, self.objects, b) };
            return if x < 0 { Did::Not } else { Did::Got(x as u32) };
        }
        self.pop_locked(class)
    }

    #[cold]
    #[inline(never)]
    fn pop_locked(&self, class: Class) -> Did {
        let d = &self.domain;
        let Some(i) = self.lock_front() else {
            return Did::None;
        };
        let (loaded, _) = halves(d.front(i).words[class as usize].load(Relaxed));
        let x = loaded
            .and_then(|l| d.bucket(l))
            .and_then(|b| b.pop(class, |x| self.mark(x)));
        self.unlock_front(i);
        x.filter(|&x| (x as usize) < d.units())
            .map_or(Did::Not, Did::Got)
    }

    /// `unit` into the front's bucket.
    #[inline]
    fn push(&self, class: Class, unit: u32) -> Did {
        if let Some(a) = self.area {
            let (f, b) = (self.fronts(class), &self.bounds[class as usize]);
            // SAFETY: as in `pop`.
            let r = unsafe { rseq::byway_rseq_push(a, f, self.buckets, unit, b) };
            return if r < 0 { Did::Not } else { Did::Put };
        }
        self.push_locked(class, unit)
    }

    #[cold]
    #[inline(never)]
    fn push_locked(&self, class: Class, unit: u32) -> Did {
        let d = &self.domain;
        let Some(i) = self.lock_front() else {
            return Did::None;
        };
        let (loaded, _) = halves(d.front(i).words[class as usize].load(Relaxed));
        let put = loaded
            .and_then(|l| d.bucket(l))
            .is_some_and(|b| b.push(class, unit));
        self.unlock_front(i);
        if put { Did::Put } else { Did::Not }
    }

    /// Changes the front's word by `new`: from (loaded, previous) to the new word and the bucket that leaves. The front,
    /// and what `new` said; the bucket that left is now this process's.
    fn exchange(
        &self,
        class: Class,
        new: impl Fn(Option<usize>, Option<usize>) -> Option<(u64, Option<usize>)>,
    ) -> Option<(usize, u64, Option<usize>)> {
        let d = &self.domain;
        if let Some(a) = self.area {
            for _ in 0..64 {
                let cpu = a.cpu() as usize;
                if cpu >= CPUS {
                    return None;
                }
                // ORDER: the front before the number of buckets, so that what is in it is below the number: a bucket
                // that the bounds do not know would leave without its mark.
                let old = d.front(cpu).words[class as usize].load(Acquire);
                // The sequences may from now on use every bucket that there is.
                let made = d.buckets_made() as u32;
                for b in &self.bounds {
                    b.buckets.store(made, Relaxed);
                }
                let (l, p) = halves(old);
                let (w, leaving) = new(l, p)?;
                let bounds = Bounds {
                    leaving: leaving.map_or(u32::MAX, |i| i as u32),
                    buckets: AtomicU32::new(made),
                    ..self.bounds[class as usize]
                };
                let f = self.fronts(class);
                // SAFETY: as in `pop`.
                let r = unsafe { rseq::byway_rseq_exchange(a, f, self.buckets, old, w, &bounds) };
                if r == 0 {
                    return Some((cpu, w, leaving));
                }
            }
            return None;
        }
        let i = self.lock_front()?;
        let front = &d.front(i).words[class as usize];
        let (l, p) = halves(front.load(Relaxed));
        let done = new(l, p);
        if let Some((w, leaving)) = done {
            if let Some(b) = leaving.and_then(|b| d.bucket(b)) {
                b.state.store(self.who.pid, Relaxed);
            }
            // ORDER: the mark before the commit.
            front.store(w, Release);
        }
        self.unlock_front(i);
        done.map(|(w, leaving)| (i, w, leaving))
    }

    fn count(&self, bucket: Option<usize>, class: Class) -> usize {
        bucket
            .and_then(|b| self.domain.bucket(b))
            .map_or(0, |b| b.count(class))
    }

    /// Loads a bucket that has (`full`) or has room for objects: the one before, or `fresh`, which is this process's.
    /// False if `fresh` is still this process's.
    fn load(&self, class: Class, fresh: Option<usize>, full: bool) -> bool {
        let fits = |b: Option<usize>| {
            b.is_some()
                && if full {
                    self.count(b, class) > 0
                } else {
                    self.count(b, class) < class.cap()
                }
        };
        let done = self.exchange(class, |l, p| {
            if fits(p) {
                Some((word(p, l), None))
            } else {
                fresh.map(|_| (word(fresh, l), p))
            }
        });
        let Some((front, w, left)) = done else {
            return false;
        };
        if let Some(b) = left {
            point(Point::Left);
            bucket::deposit(&self.domain, b, Some(front));
        }
        let used = fresh.is_some() && halves(w).0 == fresh;
        if used {
            let c = self.domain.counters(front, class);
            if full { &c.refills } else { &c.drains }.fetch_add(1, Relaxed);
        }
        used
    }
}

/// An object of `class`, with one reference. `None`: there is no memory.
#[inline]
pub fn alloc(u: &User, class: Class) -> Option<u32> {
    let x = match u.pop(class) {
        Did::Got(x) => x,
        _ => slow(u, class)?,
    };
    point(Point::Popped);
    // What a hostile peer may have written into a bucket is no object.
    u.domain.address(x, class)?;
    Some(x)
}

#[cold]
#[inline(never)]
fn slow(u: &User, class: Class) -> Option<u32> {
    let d = &u.domain;
    if u.is_beyond() {
        return slow(&User::without_rseq(*d, u.who.pid, u.who.tid), class);
    }
    for _ in 0..8 {
        // The one before may do.
        u.load(class, None, true);
        match u.pop(class) {
            Did::Got(x) => {
                reclaim::look(u);
                return Some(x);
            }
            Did::None => break,
            _ => {}
        }
        let Some(b) = full_bucket(u, class) else {
            break;
        };
        if !u.load(class, Some(b), true) {
            bucket::deposit(d, b, None);
        }
        if let Did::Got(x) = u.pop(class) {
            reclaim::look(u);
            return Some(x);
        }
    }
    // No front, or no whole bucket to be had: one object.
    let b = full_bucket(u, class);
    let x = b.and_then(|i| d.bucket(i)?.pop(class, |x| u.mark(x)));
    if let Some(i) = b {
        bucket::deposit(d, i, None);
    }
    if x.is_none() {
        u.tell(class, |c| c.failures.fetch_add(1, Relaxed));
        d.header().collect.store(1, Relaxed);
    }
    x
}

/// A bucket of this process's with objects in it: from the depot, or filled from slabs.
fn full_bucket(u: &User, class: Class) -> Option<usize> {
    let d = &u.domain;
    let me = u.who.pid;
    if d.header().flags.load(Relaxed) & flags::NO_MEMORY != 0 {
        return None;
    }
    if let Some(i) = bucket::claim_full(d, class, me) {
        if d.bucket(i)?.cpu.load(Relaxed) as usize != u.front() {
            u.tell(class, |c| c.remote.fetch_add(1, Relaxed));
        }
        return Some(i);
    }
    let i = bucket::claim_empty(d, class, me)?;
    let b = d.bucket(i)?;
    if slab::fill(d, class, b, class.cap(), u.who) == 0 {
        bucket::deposit(d, i, None);
        return None;
    }
    Some(i)
}

impl Object {
    /// One reference more, for one who has one.
    pub fn hold(&self) {
        self.refs.fetch_add(1, Relaxed);
    }
    /// One reference less. Whether it was the last: then the object is the caller's to free.
    #[inline]
    pub fn release(&self) -> bool {
        // The only holder needs no atomic step: nobody can add a reference.
        // ORDER: what other holders did comes before the reuse.
        self.refs.load(order(Edge::OnlyRef, Acquire)) == 1
            // ORDER: as above.
            || self.refs.fetch_sub(1, order(Edge::LastRef, AcqRel)) == 1
    }
}

/// One more reference to `unit`, which has at least one.
pub fn hold(u: &User, unit: u32) {
    if let Some(o) = u.domain.object(unit) {
        o.hold();
    }
}

/// One reference less; with the last one the object is free.
#[inline]
pub fn free(u: &User, unit: u32, class: Class) {
    let Some(o) = u.domain.object(unit) else {
        return;
    };
    if !o.release() {
        return;
    }
    o.mark.store(u.who.pid, Relaxed);
    point(Point::Pushing);
    match u.push(class, unit) {
        Did::Put => {}
        _ => slow_free(u, unit, class),
    }
}

#[cold]
#[inline(never)]
fn slow_free(u: &User, unit: u32, class: Class) {
    let d = &u.domain;
    if u.is_beyond() {
        return slow_free(&User::without_rseq(*d, u.who.pid, u.who.tid), unit, class);
    }
    for _ in 0..8 {
        u.load(class, None, false);
        match u.push(class, unit) {
            Did::Put => {
                reclaim::look(u);
                return;
            }
            Did::None => break,
            _ => {}
        }
        let Some(b) = bucket::claim_empty(d, class, u.who.pid) else {
            break;
        };
        if !u.load(class, Some(b), false) {
            bucket::deposit(d, b, None);
        }
        if let Did::Put = u.push(class, unit) {
            reclaim::look(u);
            return;
        }
    }
    if slab::bring_home(d, unit, u.who) {
        return;
    }
    // Its slab is held by a stopped thread: into a bucket of its own, or left for the next sweep.
    if let Some(i) = bucket::claim_empty(d, class, u.who.pid) {
        if d.bucket(i).is_some_and(|b| b.push(class, unit)) {
            bucket::deposit(d, i, None);
            return;
        }
        bucket::deposit(d, i, None);
    }
    if let Some(o) = d.object(unit) {
        o.mark.store(NOBODY, Relaxed);
    }
    d.header().collect.store(1, Relaxed);
}

/// Moves this CPU's cached objects to the depot: what a test or an idle process does before memory is counted.
pub fn drain(u: &User) {
    for class in Class::ALL {
        for _ in 0..2 {
            if let Some((front, _, Some(b))) = u.exchange(class, |l, p| Some((word(p, None), l))) {
                bucket::deposit(&u.domain, b, Some(front));
            }
        }
    }
}
