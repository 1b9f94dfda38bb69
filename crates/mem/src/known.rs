//! What is known of files that have been code in a run: a start and an exec look here first, and then into the cache.
//!
//! Invariant: an entry is one word: what a file is told from others by, and what is known of it (crate sys, cached.rs). A
//! file that has changed has another entry. Of a file without an entry nothing is known here.
//! Not here: who finds out what (the program `byway`, rewrite).
use crate::domain::Domain;
use crate::layout::KNOWN;
use byway_sys::cached::flag;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Places that a file may have.
const PROBES: usize = 4;

fn places(d: &Domain, identity: u64) -> impl Iterator<Item = &'static AtomicU64> {
    // The lower bits are those of the flags.
    let home = (identity >> 32) as usize;
    let all = &d.header().known;
    (0..PROBES).map(move |k| &all[(home + k) % KNOWN])
}

/// What is known of the file with this identity; 0 if nothing is.
pub fn of(d: &Domain, identity: u64) -> u64 {
    // RELAXED: the entry is all there is.
    let mut all = places(d, identity).map(|e| e.load(Relaxed));
    all.find(|e| (e ^ identity) & !flag::ALL == 0)
        .map_or(0, |e| e & flag::ALL)
}

/// From now on `flags` are known of the file with this identity. Where there is no room another one goes.
pub fn learn(d: &Domain, identity: u64, flags: u64) {
    if flags & flag::ALL == 0 || of(d, identity) != 0 {
        return;
    }
    // RELAXED: as above.
    let free = places(d, identity).find(|e| e.load(Relaxed) == 0);
    if let Some(e) = free.or_else(|| places(d, identity).next()) {
        e.store(identity & !flag::ALL | flags & flag::ALL, Relaxed);
    }
}
