//! What `netstat -m` would show: per class and front, in use, cached, events.
//!
//! Invariant: reading changes nothing; figures of a domain in use are of slightly different moments.
//! Not here: how they are printed.
use crate::domain::Domain;
use crate::layout::*;
use core::sync::atomic::Ordering::Relaxed;

/// Of one class, in the whole domain. Objects, unless said otherwise.
#[derive(Clone, Copy, Default, Debug)]
pub struct ClassStats {
    /// With processes and channels.
    pub in_use: usize,
    /// In buckets: fronts, depot, and on the way.
    pub cached: usize,
    /// In slabs.
    pub at_home: usize,
    pub slabs: usize,
    /// The most slabs there were.
    pub slabs_most: usize,
    /// Bytes of the arena that are there.
    pub present: usize,
    pub events: Events,
}

/// Since the domain was made.
#[derive(Clone, Copy, Default, Debug)]
pub struct Events {
    /// Full buckets that fronts took.
    pub refills: u64,
    /// Full buckets that fronts gave away.
    pub drains: u64,
    /// Of the refills, buckets that another front had filled.
    pub remote: u64,
    /// Requests without an answer.
    pub failures: u64,
    /// Bytes given back to the machine.
    pub given_back: u64,
}

/// Of `class`.
pub fn class(d: &Domain, class: Class) -> ClassStats {
    let mut s = ClassStats::default();
    for b in (0..d.buckets_made()).filter_map(|i| d.bucket(i)) {
        if b.class() == Some(class) {
            s.cached += b.count(class);
        }
    }
    let mut all = 0;
    for slab in (0..d.slabs()).filter_map(|i| d.slab(i)) {
        if slab.class() == Some(class) {
            s.slabs += 1;
            all += class.of_slab();
            s.at_home += (slab.free.load(Relaxed) as usize).min(class.of_slab());
            s.present += slab.present_bytes();
        }
    }
    s.slabs_most = d.header().class_most[class as usize].load(Relaxed) as usize;
    s.in_use = all.saturating_sub(s.cached + s.at_home);
    // A hostile peer's figure is no reason to panic.
    let sum = |a: &mut u64, b| *a = a.wrapping_add(b);
    for f in 0..CPUS + LOCKED {
        let e = events(d, f, class);
        sum(&mut s.events.refills, e.refills);
        sum(&mut s.events.drains, e.drains);
        sum(&mut s.events.remote, e.remote);
        sum(&mut s.events.failures, e.failures);
        sum(&mut s.events.given_back, e.given_back);
    }
    s
}

/// Of front `front` alone.
pub fn events(d: &Domain, front: usize, class: Class) -> Events {
    let c = d.counters(front, class);
    Events {
        refills: c.refills.load(Relaxed),
        drains: c.drains.load(Relaxed),
        remote: c.remote.load(Relaxed),
        failures: c.failures.load(Relaxed),
        given_back: c.given_back.load(Relaxed),
    }
}

/// Objects of `class` that front `front` has at hand.
pub fn cached(d: &Domain, front: usize, class: Class) -> usize {
    let w = d.front(front).words[class as usize].load(Relaxed);
    [w as u32, (w >> 32) as u32]
        .into_iter()
        .filter_map(|h| d.bucket((h as usize).checked_sub(1)?))
        .map(|b| b.count(class))
        .sum()
}
