//! Spans: memory in one piece that is larger than a cluster: neighbouring whole slabs.
//!
//! ```text
//! slabs     | jumbo | mbuf  | free  | free  | SPAN 2 | rest  | SPAN 1 |     taken from the end, so that what small
//!                                                                           objects begin with stays in one piece
//! ```
//! Invariant: the first slab says how many belong to it, before the others do, and is the last to stop: so a death in
//! between leaves a first slab whose object is marked with a dead process, and the sweep finishes it. Whoever takes an idle
//! one does so by one step on that mark. Its pages are present, as those of every object that is out.
//! Not here: who has a span (holdings.rs).
use crate::cache::User;
use crate::domain::Domain;
use crate::layout::*;
use crate::slab::Who;
use byway_sys::process;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Slabs below the last one taken that are looked at before those at the end.
const FAR: usize = 64;

fn unit_of(slab: usize) -> u32 {
    (slab * SLAB_UNITS) as u32
}

/// How many slabs the span that begins at `unit` has; `None` if none begins there.
fn slabs_of(d: &Domain, unit: u32) -> Option<usize> {
    let i = unit as usize / SLAB_UNITS;
    let s = d.slab(i)?;
    // ORDER: its number of slabs is seen with its class.
    let n = (s.class.load(Acquire) == SPAN).then(|| s.span.load(Relaxed) as usize)?;
    // A hostile peer may have written the number.
    (unit_of(i) == unit && n > 0 && i + n <= d.slabs()).then_some(n)
}

/// The bytes of the span that begins at `unit`.
pub fn bytes(d: &Domain, unit: u32) -> Option<usize> {
    slabs_of(d, unit).map(|n| n * SLAB_BYTES)
}

/// The address of the span that begins at `unit`.
pub fn address(d: &Domain, unit: u32) -> Option<*mut u8> {
    slabs_of(d, unit)?;
    d.address(unit, Class::Jumbo)
}

/// A span of at least `bytes`, with one reference. Its unit; `None`: there is no room in one piece.
///
/// `last` is the unit of the one that the caller took last, if it knows: of those that go round between it and others, the next is
/// the one that has been away longest.
pub fn alloc(u: &User, bytes: usize, last: u32) -> Option<u32> {
    let n = bytes.div_ceil(SLAB_BYTES).max(1);
    if n > u.domain.slabs() || u.domain.header().flags.load(Relaxed) & flags::NO_MEMORY != 0 {
        return None;
    }
    idle(u, n, last).or_else(|| new(u, n)).or_else(|| {
        // What is idle in other sizes may stand in the way.
        (give_back(u, usize::MAX) > 0).then(|| new(u, n))?
    })
}

/// An idle span of `n` slabs: the next below `last`, for they are made from the end.
fn idle(u: &User, n: usize, last: u32) -> Option<u32> {
    let d = &u.domain;
    let last = (last as usize / SLAB_UNITS).min(d.slabs());
    let unit = (0..last)
        .rev()
        .take(FAR)
        .chain((0..d.slabs()).rev())
        .map(unit_of)
        .find(|&unit| slabs_of(d, unit) == Some(n) && take(d, unit, IDLE, u.who.pid))?;
    if slabs_of(d, unit) != Some(n) {
        // It became another in between.
        put_idle(d, unit);
        return None;
    }
    count(&d.header().spans_taken, n);
    d.object(unit)?.refs.store(1, Relaxed);
    Some(unit)
}

fn take(d: &Domain, unit: u32, from: u32, to: u32) -> bool {
    d.object(unit).is_some_and(|o| {
        o.mark.load(Relaxed) == from
            // ORDER: what its last holder did comes before what the next does.
            && o.mark.compare_exchange(from, to, AcqRel, Relaxed).is_ok()
    })
}

fn put_idle(d: &Domain, unit: u32) {
    if let Some(o) = d.object(unit) {
        // ORDER: as `take`.
        o.mark.store(IDLE, Release);
    }
}

/// Whoever takes spans and whoever gives them back are on two CPUs, and neither waits for the other's count.
fn count(c: &Alone, n: usize) {
    c.0.fetch_add(n as u32, Relaxed);
}

/// Slabs of idle spans.
fn idle_slabs(d: &Domain) -> usize {
    let h = d.header();
    let n = h.spans_returned.0.load(Relaxed);
    let n = n.wrapping_sub(h.spans_taken.0.load(Relaxed)) as usize;
    // A death between a step and its count, or a hostile peer: the sweep makes it right.
    if n > d.slabs() { 0 } else { n }
}

/// A span of `n` slabs that were free.
fn new(u: &User, n: usize) -> Option<u32> {
    let d = &u.domain;
    let mut end = d.slabs();
    while end >= n {
        let first = end - n;
        let used = (first..end)
            .rev()
            .find(|&i| d.slab(i).is_none_or(Slab::is_used));
        if let Some(i) = used {
            end = i;
            continue;
        }
        match claim(d, first, n, u.who) {
            Claimed::Yes => return Some(unit_of(first)),
            Claimed::NoMemory => return None,
            Claimed::TakenAt(i) => end = i,
        }
    }
    None
}

enum Claimed {
    Yes,
    NoMemory,
    TakenAt(usize),
}

fn claim(d: &Domain, first: usize, n: usize, who: Who) -> Claimed {
    let slab = |i: usize| d.slab(i).expect("the caller counted them");
    let unlock = |to: usize| (first..to).for_each(|i| slab(i).unlock());
    for i in first..first + n {
        if !slab(i).try_lock(who.tid) {
            unlock(i);
            return Claimed::TakenAt(i);
        }
        if slab(i).is_used() {
            unlock(i + 1);
            return Claimed::TakenAt(i);
        }
    }
    let there = |i: usize| d.populate_arena(i, 0, SLAB_PAGES);
    if !d.populate_objects(first) || !(first..first + n).all(there) {
        (first..first + n).for_each(|i| d.remove_arena(i, 0, SLAB_PAGES));
        unlock(first + n);
        return Claimed::NoMemory;
    }
    if let Some(o) = d.object(unit_of(first)) {
        o.refs.store(1, Relaxed);
        o.mark.store(who.pid, Relaxed);
    }
    slab(first).span.store(n as u32, Relaxed);
    for i in first..first + n {
        let s = slab(i);
        s.set_present(0, SLAB_PAGES, true);
        let class = if i == first {
            SPAN
        } else {
            s.span.store(first as u32 + 1, Relaxed);
            SPAN_REST
        };
        // ORDER: everything about the slab before its class.
        s.class.store(class, Release);
        d.middle().free.clear(i);
    }
    let h = d.header();
    let used = h
        .slabs_used
        .fetch_add(n as u32, Relaxed)
        .wrapping_add(n as u32);
    h.slabs_most.fetch_max(used, Relaxed);
    unlock(first + n);
    Claimed::Yes
}

/// The last reference to the span at `unit` has gone, and it is this process's: it stays, idle, for the next one of its
/// size, unless as much is idle already as may stay.
pub fn free(u: &User, unit: u32) {
    let d = &u.domain;
    let Some(n) = slabs_of(d, unit) else { return };
    let h = d.header();
    let may = (h.high_kib.load(Relaxed) as usize * 1024) / SLAB_BYTES;
    // Where all that is in use would not be too much, nobody's count is asked for.
    if h.slabs_used.load(Relaxed) as usize > may && idle_slabs(d) + n > may {
        dissolve(d, unit, n, u.who);
        return;
    }
    count(&h.spans_returned, n);
    put_idle(d, unit);
}

/// The slabs of a span that is this process's become free, their pages the machine's.
fn dissolve(d: &Domain, unit: u32, n: usize, who: Who) -> usize {
    let first = unit as usize / SLAB_UNITS;
    let mut gone = 0;
    // The first one last: until then it says what is left to do.
    for i in (first..first + n).rev() {
        let Some(s) = d.slab(i) else { continue };
        let mut turns = 0;
        while !s.try_lock(who.tid) && turns < 1000 {
            turns += 1;
            process::nap(50);
        }
        let class = s.class.load(Relaxed);
        let ours = if i == first {
            class == SPAN
        } else {
            class == SPAN_REST && s.span.load(Relaxed) as usize == first + 1
        };
        // A lock that could not be had is a stopped thread's: the slab stays what it is, for the sweep.
        if turns == 1000 || !ours {
            if turns < 1000 {
                s.unlock();
            }
            continue;
        }
        s.set_present(0, SLAB_PAGES, false);
        d.remove_arena(i, 0, SLAB_PAGES);
        if i == first {
            d.remove_objects(i);
        }
        // ORDER: before another class carves it.
        s.class.store(0, Release);
        s.unlock();
        d.middle().free.set(i);
        gone += 1;
    }
    let used = &d.header().slabs_used;
    let _ = used.fetch_update(Relaxed, Relaxed, |n| Some(n.saturating_sub(gone as u32)));
    gone * SLAB_BYTES
}

/// Bytes of idle spans.
pub fn idle_bytes(d: &Domain) -> usize {
    idle_slabs(d) * SLAB_BYTES
}

/// Gives idle spans back to the machine, about `want` bytes. How many bytes went.
pub fn give_back(u: &User, want: usize) -> usize {
    let (d, mut given) = (&u.domain, 0);
    if idle_slabs(d) == 0 {
        return 0;
    }
    for i in 0..d.slabs() {
        let unit = unit_of(i);
        if given >= want {
            break;
        }
        if slabs_of(d, unit).is_some()
            && take(d, unit, IDLE, u.who.pid)
            && let Some(n) = slabs_of(d, unit)
        {
            count(&d.header().spans_taken, n);
            given += dissolve(d, unit, n, u.who);
        }
    }
    given
}

/// After deaths: spans of dead processes that nobody else `has` become free; the count of idle ones is made right. How
/// many spans came home.
pub fn sweep(u: &User, has: impl Fn(u32) -> bool) -> usize {
    let (d, mut home, mut idle) = (&u.domain, 0, 0);
    for i in 0..d.slabs() {
        let unit = unit_of(i);
        let Some(n) = slabs_of(d, unit) else { continue };
        let Some(o) = d.object(unit) else { continue };
        match o.mark.load(Relaxed) {
            IDLE => idle += n,
            SHARED => {}
            mark if !has(unit) && process::is_gone(mark) && take(d, unit, mark, u.who.pid) => {
                dissolve(d, unit, n, u.who);
                home += 1;
            }
            _ => {}
        }
    }
    let (h, idle) = (d.header(), idle as u32);
    let taken = h.spans_taken.0.load(Relaxed);
    h.spans_returned.0.store(taken.wrapping_add(idle), Relaxed);
    home
}
