//! Who has what of the objects that several may have: one entry for each reference.
//!
//! ```text
//! entry   63..32 holder (a process, or CHANNEL + slot: in flight)   31..0 unit plus one        0: free
//! object  mark SHARED, refs: at least as many as entries name it
//! ```
//! Invariant: a reference is counted before its entry is there, and given up after its entry has gone; every change of an
//! entry is one compare-and-swap of the whole word. So nobody has an object that could go, whoever dies: what a dead holder
//! had is in the table. A death between the two steps (a few instructions) leaves a count too high: that one object stays
//! until the domain goes.
//! An object is marked SHARED only after its first entry is there; until then it is the process's that took it (sweep.rs).
//! Not here: what is in the objects, how a reference travels (the native library).
use crate::cache::{self, User};
use crate::domain::Domain;
use crate::layout::*;
use crate::{scratch::Scratch, span};
use byway_sys::{line, process};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};

/// Entries of the table: what fits into a cluster.
pub const ENTRIES: usize = Class::Jumbo.bytes() / 8;

/// One reference: which entry, to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    pub entry: u32,
    pub unit: u32,
}

fn word(unit: u32, holder: u32) -> u64 {
    u64::from(holder) << 32 | u64::from(unit.wrapping_add(1))
}

/// A channel, as a holder.
pub fn channel(slot: u32) -> u32 {
    CHANNEL | slot
}

/// The table, if there is one.
fn table(d: &Domain) -> Option<&'static [AtomicU64; ENTRIES]> {
    let unit = d.header().holdings.load(Relaxed).checked_sub(1)?;
    let p = d.address(unit, Class::Jumbo)?;
    // SAFETY: a jumbo of the mapping, aligned; only atomics. It stays as long as the domain.
    Some(unsafe { &*p.cast() })
}

/// The table, made with the first call.
fn made(u: &User) -> Option<&'static [AtomicU64; ENTRIES]> {
    let d = &u.domain;
    if let Some(t) = table(d) {
        return Some(t);
    }
    let unit = cache::alloc(u, Class::Jumbo)?;
    let p = d.address(unit, Class::Jumbo)?;
    // SAFETY: a jumbo that is this thread's alone.
    unsafe { p.write_bytes(0, Class::Jumbo.bytes()) };
    // ORDER: zeroes before the table is found. A peer that found another first: then that is the one.
    if d.header()
        .holdings
        .compare_exchange(0, unit + 1, AcqRel, Relaxed)
        .is_err()
    {
        cache::free(u, unit, Class::Jumbo);
    } else if let Some(o) = d.object(unit) {
        o.mark.store(SHARED, Relaxed);
    }
    table(d)
}

/// Enters a reference to `unit`, which the caller has, for `holder`; looks from entry `near` on. `None`: the table is full, or
/// there is no memory for it.
pub fn enter(u: &User, unit: u32, holder: u32, near: u32) -> Option<Holding> {
    let t = made(u)?;
    let new = word(unit, holder);
    (0..ENTRIES)
        .map(|k| (near as usize + k) % ENTRIES)
        .find(|&i| {
            t[i].load(Relaxed) == 0
                // ORDER: what the object holds, and its count, before the entry.
                && t[i].compare_exchange(0, new, AcqRel, Relaxed).is_ok()
        })
        .map(|i| Holding {
            entry: i as u32,
            unit,
        })
}

/// The object that this process took is from now on everybody's who has an entry. Called after the first entry.
pub fn share(d: &Domain, unit: u32) {
    if let Some(o) = d.object(unit) {
        o.mark.store(SHARED, Relaxed);
    }
}

/// Another reference for `holder`, by one who has `from`.
pub fn again(u: &User, from: Holding, holder: u32) -> Option<Holding> {
    let o = u.domain.object(from.unit)?;
    o.hold();
    let new = enter(u, from.unit, holder, from.entry + 1);
    if new.is_none() {
        // Not the last: the caller has one.
        o.release();
    }
    new
}

/// `h` is about to be passed on, and then read and given up: what all that needs comes at the same time, from the CPU that had it.
pub fn expect(d: &Domain, h: Holding, start: usize) {
    let entry = table(d).and_then(|t| t.get(h.entry as usize));
    let lines = [
        entry.map(|e| (&raw const *e).cast::<u8>()),
        d.object(h.unit).map(|o| (&raw const *o).cast()),
        d.address(h.unit, Class::Mbuf)
            .map(|p| p.wrapping_add(start).cast_const()),
    ];
    for p in lines.into_iter().flatten() {
        line::to_write(p);
    }
}

/// Passes a reference on; false if it is not `from`'s: then nothing has changed.
pub fn pass(d: &Domain, h: Holding, from: u32, to: u32) -> bool {
    let Some(e) = table(d).and_then(|t| t.get(h.entry as usize)) else {
        return false;
    };
    // ORDER: what the object holds goes with it.
    e.compare_exchange(word(h.unit, from), word(h.unit, to), AcqRel, Relaxed)
        .is_ok()
}

/// Gives up a reference of `holder`'s; with the last one the object is free.
pub fn give_up(u: &User, h: Holding, holder: u32) {
    let Some(e) = table(&u.domain).and_then(|t| t.get(h.entry as usize)) else {
        return;
    };
    // ORDER: what this holder read comes before the reuse.
    if e.compare_exchange(word(h.unit, holder), 0, AcqRel, Relaxed)
        .is_ok()
    {
        release(u, h.unit);
    }
}

/// Gives up what this process took and did not share.
pub fn discard(u: &User, unit: u32) {
    release(u, unit);
}

/// One reference less to `unit`.
fn release(u: &User, unit: u32) {
    let d = &u.domain;
    if let Some(class) = class(d, unit) {
        cache::free(u, unit, class);
    } else if span::bytes(d, unit).is_some()
        && let Some(o) = d.object(unit)
        && o.release()
    {
        o.mark.store(u.who.pid, Relaxed);
        span::free(u, unit);
    }
}

fn class(d: &Domain, unit: u32) -> Option<Class> {
    d.slab(unit as usize / SLAB_UNITS)?.class()
}

/// Bytes of the object at `unit`, and where they are; `None` if there is none.
pub fn object(d: &Domain, unit: u32) -> Option<(*mut u8, usize)> {
    match class(d, unit) {
        Some(c) => d.address(unit, c).map(|p| (p, c.bytes())),
        None => span::address(d, unit).zip(span::bytes(d, unit)),
    }
}

/// Every unit of a class that an entry names, and the table's own: what a sweep must leave alone.
pub fn reach(d: &Domain, f: &mut dyn FnMut(u32)) {
    let Some(t) = table(d) else { return };
    f(d.header().holdings.load(Relaxed).wrapping_sub(1));
    for e in t {
        if let Some(unit) = (e.load(Relaxed) as u32).checked_sub(1)
            && class(d, unit).is_some()
        {
            f(unit);
        }
    }
}

/// Gives up what the holders had that `gone` says of: dead processes, channels that are no more. Then what dead processes
/// had taken and not yet shared. How many references went.
pub fn sweep(u: &User, gone: impl Fn(u32) -> bool) -> usize {
    let d = &u.domain;
    let Some(t) = table(d) else {
        span::sweep(u, |_| false);
        return 0;
    };
    let mut n = 0;
    for (i, e) in t.iter().enumerate() {
        let w = e.load(Relaxed);
        let (holder, unit) = ((w >> 32) as u32, (w as u32).wrapping_sub(1));
        if w == 0 || !gone(holder) {
            continue;
        }
        let h = Holding {
            entry: i as u32,
            unit,
        };
        if !pass(d, h, holder, u.who.pid) {
            continue;
        }
        n += 1;
        let shared = d
            .object(unit)
            .is_some_and(|o| o.mark.load(Relaxed) == SHARED);
        if shared {
            give_up(u, h, u.who.pid);
        } else {
            // It died before it shared it: the object is still the dead one's.
            e.store(0, Relaxed);
        }
    }
    let named = Scratch::new(d.units()).map(|mut s| {
        for e in t {
            s.add((e.load(Relaxed) as u32).wrapping_sub(1) as usize);
        }
        s
    });
    span::sweep(u, |unit| {
        named.as_ref().is_none_or(|s| s.has(unit as usize))
    });
    n
}

/// Whether `holder` is a process that has ended.
pub fn is_dead(holder: u32) -> bool {
    holder & CHANNEL == 0 && process::is_gone(holder)
}

/// How many references there are, of processes and in flight.
pub fn count(d: &Domain) -> (usize, usize) {
    let all = table(d).into_iter().flatten().map(|e| e.load(Relaxed));
    all.filter(|&w| w != 0).fold(
        (0, 0),
        |(p, c), w| {
            if w >> 63 == 0 { (p + 1, c) } else { (p, c + 1) }
        },
    )
}
