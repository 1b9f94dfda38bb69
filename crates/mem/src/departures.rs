//! Programs that took no part in a run, or resigned from it: their names, why, and how many there were.
//!
//! Invariant: an entry is complete before anybody finds it. Nobody waits for another: where the table is full, a
//! departure is only counted in its last entry, which has no name.
//! Not here: what a reason means (crate pipe, channel.rs), who tells of it (byway run --explain).
use crate::domain::Domain;
use crate::layout::{DEPARTURE_PATH, DEPARTURES, Departure};
use byway_sys::process;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const FREE: u32 = 0;
const FILLING: u32 = 1;
const THERE: u32 = 2;

/// One more program `name` of run `run` that takes no part because of `why`; `path` is what is behind the reason.
pub fn note(d: &Domain, run: u32, why: u32, name: [u64; 2], path: &[u8]) {
    let path = &path[path.len().saturating_sub(DEPARTURE_PATH)..];
    let words = |k: usize| {
        let byte = |i: usize| path.get(8 * k + i).copied().unwrap_or(0);
        u64::from_le_bytes(core::array::from_fn(byte))
    };
    let is = |e: &Departure| {
        e.run.load(Relaxed) == run
            && e.why.load(Relaxed) == why
            && e.name.iter().zip(name).all(|(w, n)| w.load(Relaxed) == n)
            && (0..).zip(&e.path).all(|(k, w)| w.load(Relaxed) == words(k))
    };
    for i in 0..DEPARTURES - 1 {
        let e = d.departure(i);
        // ORDER: what the entry says, after that it is there.
        if e.state.load(Acquire) == THERE && is(e) {
            e.count.fetch_add(1, Relaxed);
            return;
        }
    }
    let named = (0..DEPARTURES - 1).find(|&i| claim(d.departure(i)));
    let last = || claim(d.departure(DEPARTURES - 1)).then_some(DEPARTURES - 1);
    let Some(i) = named.or_else(last) else {
        d.departure(DEPARTURES - 1).count.fetch_add(1, Relaxed);
        return;
    };
    let e = d.departure(i);
    let is_named = named.is_some();
    e.run.store(if is_named { run } else { 0 }, Relaxed);
    e.why.store(why, Relaxed);
    e.count.store(1, Relaxed);
    for (w, n) in e.name.iter().zip(name) {
        w.store(if is_named { n } else { 0 }, Relaxed);
    }
    for (k, w) in (0..).zip(&e.path) {
        w.store(words(k), Relaxed);
    }
    // ORDER: after what the entry says.
    e.state.store(THERE, Release);
}

/// Takes an entry that is free, or of a run that has ended.
fn claim(e: &Departure) -> bool {
    // ORDER: the one before has done with it.
    let state = e.state.load(Acquire);
    let is_old =
        || state == THERE && e.run.load(Relaxed) != 0 && process::is_gone(e.run.load(Relaxed));
    (state == FREE || is_old())
        // ORDER: pairs with the store of the one before.
        && e.state.compare_exchange(state, FILLING, Acquire, Relaxed).is_ok()
}

/// A departure as it was read.
pub struct Seen {
    pub why: u32,
    pub count: u32,
    pub name: [u64; 2],
    pub path: [u8; DEPARTURE_PATH],
}

/// Those of run `run`.
pub fn of(d: &Domain, run: u32) -> impl Iterator<Item = Seen> {
    (0..DEPARTURES).filter_map(move |i| {
        let e = d.departure(i);
        // ORDER: pairs with `note`.
        let is_there = e.state.load(Acquire) == THERE && e.run.load(Relaxed) == run;
        is_there.then(|| {
            let word = |w: &AtomicU64| w.load(Relaxed);
            Seen {
                why: e.why.load(Relaxed),
                count: e.count.load(Relaxed),
                name: core::array::from_fn(|k| word(&e.name[k])),
                path: core::array::from_fn(|i| word(&e.path[i / 8]).to_le_bytes()[i % 8]),
            }
        })
    })
}

/// How many departures of all runs found no place.
pub fn untold(d: &Domain) -> u32 {
    let e = d.departure(DEPARTURES - 1);
    // ORDER: pairs with `note`.
    if e.state.load(Acquire) == THERE {
        e.count.load(Relaxed)
    } else {
        0
    }
}
