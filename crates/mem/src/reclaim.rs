//! Reclaim: when free memory goes back to the machine, how much, and who does it.
//!
//! ```text
//! free memory
//!   high  ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ above it for `decay_ms`: somebody passing by gives back, a step at a time,
//!   low   ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ down to here
//! ```
//! Invariant: nobody waits for reclaim: a step is bounded, a second thread that wants to do it goes on instead, and a
//! thread that dies in it leaves what a dead thread leaves anywhere (sweep.rs).
//! Not here: what dead processes held (sweep.rs), pages (slab.rs).
use crate::cache::User;
use crate::domain::Domain;
use crate::layout::*;
use crate::{bucket, group, slab, span};
use byway_sys::{clock, process};
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Between two looks of the passers-by: when all is well, and while memory is going back.
const LOOK_US: u64 = 10_000;
const STEP_US: u64 = 2_000;
/// The most that one passer-by gives back, bytes.
const STEP: usize = 8 << 20;

/// How much is in use of the domain's arena, or of what a control group lets us have of it. As FreeBSD's
/// pipe memory has it (sys_pipe.c: amountpipekva against maxpipekva).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Band {
    /// Below one half: rings grow.
    Grow,
    /// Below three quarters: they stay as they are.
    Stay,
    /// Above: they shrink, and what is free goes back at once.
    Shrink,
}

/// The band of the domain now.
pub fn band(d: &Domain) -> Band {
    let used = d.header().slabs_used.load(Relaxed) as usize;
    match (used * 4).checked_div(group::slabs(d)).unwrap_or(4) {
        0 | 1 => Band::Grow,
        2 => Band::Stay,
        _ => Band::Shrink,
    }
}

/// Memory that is there and holds nothing: objects in buckets, those at home on present pages, and the tables of both.
/// Bytes.
pub fn free_bytes(d: &Domain) -> usize {
    let buckets: usize = (0..d.buckets_made())
        .filter_map(|i| d.bucket(i))
        .filter_map(|b| b.class().map(|c| b.count(c) * c.bytes()))
        .sum();
    let slabs: usize = (0..d.slabs())
        .filter_map(|i| d.slab(i))
        .map(Slab::idle_bytes)
        .sum();
    let tables = d.buckets_made() * size_of::<Bucket>() + d.slabs() * size_of::<Slab>();
    buckets + slabs + tables + span::idle_bytes(d)
}

fn kib(v: &core::sync::atomic::AtomicU32) -> usize {
    (v.load(Relaxed) as usize) << 10
}
pub(crate) fn per_us(h: &Header) -> u64 {
    u64::from(h.cycles_per_us.load(Relaxed)).clamp(100, 20_000)
}

/// Whether memory is waiting to go back: one load, for those who pass often.
#[inline]
pub fn is_due(d: &Domain) -> bool {
    d.header().over_since.load(Relaxed) != 0
}

/// Whether the slabs in use could not be too much if all of them were free: a few loads.
pub fn is_little(d: &Domain) -> bool {
    let h = d.header();
    let most = (h.slabs_used.load(Relaxed) as usize).saturating_mul(SLAB_BYTES);
    most <= kib(&h.high_kib) && !is_due(d) && band(d) < Band::Shrink
}

/// A look at what is free, at most every few milliseconds in the whole domain; a step of giving back if it is due.
pub fn look(u: &User) {
    let h = u.domain.header();
    if is_little(&u.domain) {
        return;
    }
    let (now, next) = (clock::now(), h.next_look.load(Relaxed));
    let us = per_us(h);
    // A hostile peer's far future is no reason to wait for ever.
    if now < next && next - now < 2 * LOOK_US * us {
        return;
    }
    let wait = if is_due(&u.domain) { STEP_US } else { LOOK_US };
    if h.next_look
        .compare_exchange(next, now + wait * us, Relaxed, Relaxed)
        .is_ok()
    {
        step(u, now, STEP);
    }
}

/// As `look`, without its limits: what a service does in its own time.
pub fn tend(u: &User) {
    step(u, clock::now(), usize::MAX);
}

fn step(u: &User, now: u64, most: usize) {
    let d = &u.domain;
    let h = d.header();
    let free = free_bytes(d);
    let low = group::idle(kib(&h.low_kib));
    let high = group::idle(kib(&h.high_kib));
    let tight = band(d) == Band::Shrink;
    let decay = u64::from(h.decay_ms.load(Relaxed)) * 1000 * per_us(h);
    let since = h.over_since.load(Relaxed);
    let going = since != 0 && now.wrapping_sub(since) >= decay;
    // Once it goes back it goes down to `low`.
    if free <= if going { low } else { high } && !tight {
        if since != 0 {
            h.over_since.store(0, Relaxed);
        }
        return;
    }
    if since == 0 {
        h.over_since.store(now.max(1), Relaxed);
    }
    if going || tight {
        give(u, free.saturating_sub(low).min(most));
    }
}

/// The right to reclaim or sweep; false if a living thread has it.
pub(crate) fn enter(d: &Domain, tid: u32) -> bool {
    let r = &d.header().reclaimer;
    let owner = r.load(Relaxed);
    (owner == 0 || (owner != tid && process::is_dead(owner)))
        // ORDER: what the last one did is seen.
        && r.compare_exchange(owner, tid, AcqRel, Relaxed).is_ok()
}
pub(crate) fn leave(d: &Domain) {
    // ORDER: what was done comes before the end of it.
    d.header().reclaimer.store(0, Release);
}

/// Gives `want` bytes back to the machine, or as many as there are: first pages whose objects are at home, then those
/// of full buckets.
pub fn give(u: &User, want: usize) -> usize {
    let d = &u.domain;
    if !enter(d, u.who.tid) {
        return 0;
    }
    let mut given = span::give_back(u, want);
    for class in Class::ALL.into_iter().rev() {
        // A step may give more than it was asked for.
        given += pages(u, class, want.saturating_sub(given));
        while given < want && empty(u, class, want - given) {
            given += pages(u, class, want - given);
        }
    }
    leave(d);
    given
}

/// From slabs of `class`, at most about `want` bytes.
fn pages(u: &User, class: Class, want: usize) -> usize {
    let (d, mut given) = (&u.domain, 0);
    for i in 0..d.slabs() {
        if given >= want {
            break;
        }
        if let Some(s) = d.slab(i)
            && s.class() == Some(class)
            && (s.idle_bytes() > 0 || s.present_bytes() == 0)
        {
            given += slab::give_back(d, i, want - given, u.who.tid);
        }
    }
    u.tell(class, |c| c.given_back.fetch_add(given as u64, Relaxed));
    given
}

/// Brings the objects of full buckets home, up to `want` bytes of them. Whether any came.
fn empty(u: &User, class: Class, want: usize) -> bool {
    let (d, mut moved) = (&u.domain, 0);
    while moved < want {
        let Some(i) = bucket::claim_full(d, class, u.who.pid) else {
            break;
        };
        let Some(b) = d.bucket(i) else { break };
        let mut stuck = false;
        // As many as it can hold, whatever a hostile peer writes into it meanwhile.
        for _ in 0..class.cap() {
            let Some(x) = b.pop(class, |x| u.mark(x)) else {
                break;
            };
            crate::crash::point(crate::crash::Point::Returning);
            if slab::bring_home(d, x, u.who) {
                moved += class.bytes();
            } else {
                // A stopped thread has that slab: the object stays in its bucket.
                stuck = true;
                b.push(class, x);
                break;
            }
        }
        bucket::deposit(d, i, None);
        if stuck {
            break;
        }
    }
    moved > 0
}

/// Makes `bytes` of the arena present before they are wanted, as mbufs, clusters and jumbos in equal parts: the
/// preallocation of a domain. How many came.
pub fn preallocate(u: &User, bytes: usize) -> usize {
    let (d, mut got) = (&u.domain, 0);
    for class in Class::ALL {
        while got < bytes * (class as usize + 1) / CLASSES {
            let Some(i) = bucket::claim_empty(d, class, u.who.pid) else {
                break;
            };
            let n = d
                .bucket(i)
                .map_or(0, |b| slab::fill(d, class, b, class.cap(), u.who));
            bucket::deposit(d, i, None);
            if n == 0 {
                break;
            }
            got += n * class.bytes();
        }
    }
    got
}
