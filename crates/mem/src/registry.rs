//! (device, inode) of a kernel object -> channel slot.
//!
//! Invariant: a slot's key is written last and cleared first; a slot is found only by the full key. A pipe's inode
//! number names it for life: LINUX get_next_ino hands out 2^32 numbers before one comes again.
//! Not here: what the slot holds beyond its key.
use crate::domain::Domain;
use crate::layout::CHANNELS;
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// The key at the head of every channel slot.
#[repr(C)]
pub struct Key {
    /// 0 free, 1 being filled, else the inode number plus 2.
    pub tag: AtomicU64,
    pub dev: AtomicU64,
}

const PROBES: usize = 16;

fn key(d: Domain, i: usize) -> &'static Key {
    let p = d.channel(i % CHANNELS).expect("index is reduced");
    // SAFETY: every slot begins with a Key; slots are aligned to 512.
    unsafe { &*(p as *const Key) }
}

fn home(ino: u64) -> usize {
    (ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize
}

/// The slot of the object, if it has one.
pub fn find(d: Domain, dev: u64, ino: u64) -> Option<usize> {
    for k in 0..PROBES {
        let i = (home(ino) + k) % CHANNELS;
        let e = key(d, i);
        // EDGE G1 <- G0: the slot's contents are seen with its key.
        if e.tag.load(Acquire) == ino.wrapping_add(2) && e.dev.load(Relaxed) == dev {
            return Some(i);
        }
    }
    None
}

/// Claims a free slot for the object; the caller fills it and then calls [`publish`].
pub fn claim(d: Domain, dev: u64, ino: u64) -> Option<usize> {
    for k in 0..PROBES {
        let i = (home(ino) + k) % CHANNELS;
        let e = key(d, i);
        // RELAXED: the claim is only between claimers; `publish` orders the contents.
        if e.tag.load(Relaxed) == 0 && e.tag.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
            e.dev.store(dev, Relaxed);
            return Some(i);
        }
    }
    d.header().collect.store(1, Relaxed);
    None
}

/// Makes a claimed slot findable.
pub fn publish(d: Domain, i: usize, ino: u64) {
    // EDGE G0 -> G1: contents before key.
    key(d, i).tag.store(ino.wrapping_add(2), Release);
}

/// Frees slot `i`.
pub fn release(d: Domain, i: usize) {
    key(d, i).tag.store(0, Relaxed);
}

/// The inode number that slot `i` stands for, if it is in use.
pub fn inode(d: Domain, i: usize) -> Option<u64> {
    match key(d, i).tag.load(Relaxed) {
        0 | 1 => None,
        t => Some(t - 2),
    }
}
