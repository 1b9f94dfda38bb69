//! Slabs: taken whole, given back whole, with their pages.
//!
//! Invariant: a slab has one owner; its bit in the header says so. Pages are reserved before use, so a full
//! shared-memory folder is an answer here ("none") and never a SIGBUS later.
//! Not here: caches, buckets, size classes.
use crate::domain::Domain;
use crate::layout::*;
use byway_sys::errno::failed;
use byway_sys::syscall::{call3, nr};
use core::sync::atomic::Ordering::Relaxed;

const MADV_REMOVE: usize = 9;
const MADV_POPULATE_READ: usize = 22;
const MADV_POPULATE_WRITE: usize = 23;

/// Takes a slab whose first `bytes` are there for good; `None` when none is free or memory is short.
pub fn take(d: Domain, bytes: usize) -> Option<usize> {
    let h = d.header();
    if h.flags.load(Relaxed) & flags::NO_MEMORY != 0 {
        return None;
    }
    for (w, word) in h.slab_used.iter().enumerate() {
        let mut bits = word.load(Relaxed);
        while bits != u64::MAX {
            let b = bits.trailing_ones() as usize;
            // RELAXED: the bit only names an owner; the slab's first bytes are published through the ring.
            match word.compare_exchange_weak(bits, bits | 1 << b, Relaxed, Relaxed) {
                Ok(_) => {
                    let i = w * 64 + b;
                    if populate(d, i, bytes) {
                        return Some(i);
                    }
                    give(d, i);
                    return None;
                }
                Err(now) => bits = now,
            }
        }
    }
    h.collect.store(1, Relaxed);
    None
}

/// Makes the first `bytes` of slab `i` present in this process's page tables; false when the pages cannot be had.
///
/// LINUX madvise(2) MADV_POPULATE_WRITE (5.14): fails with EFAULT where a touch would be SIGBUS.
pub fn populate(d: Domain, i: usize, bytes: usize) -> bool {
    let Some(p) = d.slab(i) else { return false };
    // SAFETY: inside the mapping; populating changes no contents.
    !failed(unsafe {
        call3(
            nr::MADVISE,
            p as usize,
            bytes.min(SLAB_BYTES),
            MADV_POPULATE_WRITE,
        )
    })
}

/// Gives slab `i` and its pages back.
pub fn give(d: Domain, i: usize) {
    let Some(p) = d.slab(i) else { return };
    // SAFETY: the slab is the caller's; its contents are dead.
    unsafe { call3(nr::MADVISE, p as usize, SLAB_BYTES, MADV_REMOVE) };
    d.header().slab_used[i / 64].fetch_and(!(1 << (i % 64)), Relaxed);
}

/// Asks the kernel whether `p..p+n` may be read (or written), faulting it in.
pub fn probe(p: usize, n: usize, write: bool) -> bool {
    let start = p & !4095;
    let Some(end) = p
        .checked_add(n)
        .and_then(|e| e.checked_next_multiple_of(4096))
    else {
        return false;
    };
    let how = if write {
        MADV_POPULATE_WRITE
    } else {
        MADV_POPULATE_READ
    };
    // SAFETY: populating changes no contents.
    !failed(unsafe { call3(nr::MADVISE, start, end - start, how) })
}
