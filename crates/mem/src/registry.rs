//! (device, inode) of a kernel object -> channel slot.
//!
//! An object has 16 slots of the first `CHANNELS` to go to; where all are taken, any of those made beyond them. A table of
//! tags tells which of them to look at, so most looks meet one cache line.
//!
//! Invariant: a slot's key is written last and cleared first; a slot is found only by the full key. A pipe's inode
//! number names it for life: LINUX get_next_ino hands out 2^32 numbers before one comes again. A slot that can be found has
//! its object's tag, and keeps it until it is claimed again.
//! Not here: what the slot holds beyond its key.
use crate::domain::Domain;
use crate::layout::{CHANNELS, CHANNELS_MORE, CHANNELS_MOST};
use crate::weak::{Edge, order};
use byway_sys::process;
use byway_sys::sync::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use core::ops::Range;

/// The key at the head of every channel slot.
#[repr(C)]
pub struct Key {
    /// 0 free, 1 being filled, else the inode number plus 2.
    pub tag: AtomicU64,
    pub dev: AtomicU64,
}

impl Key {
    /// Whether the slot stands for the object.
    pub fn is(&self, dev: u64, ino: u64) -> bool {
        // EDGE G1 <- G0: the slot's contents are seen with its key.
        self.tag.load(order(Edge::Find, Acquire)) == ino.wrapping_add(2)
            && self.dev.load(Relaxed) == dev
    }
    /// The inode number that it stands for.
    pub fn inode(&self) -> u64 {
        self.tag.load(Relaxed).wrapping_sub(2)
    }
    /// Takes the slot if it is free.
    pub fn claim(&self, dev: u64) -> bool {
        let free = self.tag.load(Relaxed) == 0
            // EDGE G3 <- G2: the one before has done with the slot.
            && self.tag.compare_exchange(0, 1, order(Edge::Slot, Acquire), Relaxed).is_ok();
        if free {
            self.dev.store(dev, Relaxed);
        }
        free
    }
    /// Makes a claimed slot findable.
    pub fn publish(&self, ino: u64) {
        // EDGE G0 -> G1: contents before key.
        self.tag
            .store(ino.wrapping_add(2), order(Edge::Publish, Release));
    }
    /// Frees the slot.
    pub fn release(&self) {
        // EDGE G2 -> G3: what was done with the slot, before another takes it.
        self.tag.store(0, order(Edge::Unslot, Release));
    }
}

const PROBES: usize = 16;

fn key(d: Domain, i: usize) -> Option<&'static Key> {
    // SAFETY: every slot begins with a Key; slots are aligned to 512.
    d.channel(i).map(|p| unsafe { &*(p as *const Key) })
}

fn mixed(ino: u64) -> u64 {
    ino.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// The slots that an object of this number goes to first.
fn home(ino: u64) -> impl Iterator<Item = usize> {
    let first = (mixed(ino) >> 40) as usize;
    (0..PROBES).map(move |k| (first + k) % CHANNELS)
}

/// What the slot of an object of this number has among the tags; 0 is that of a slot that never had one.
fn tag(ino: u64) -> u16 {
    (mixed(ino) >> 50) as u16 + 1
}

/// The slots made beyond the first.
fn more(d: Domain) -> Range<usize> {
    CHANNELS..d.channels_made()
}

/// A slot that the object may have, claimed; none from `most` on.
fn free(d: Domain, dev: u64, ino: u64, most: usize) -> Option<usize> {
    let claims = |&i: &usize| i < most && key(d, i).is_some_and(|k| k.claim(dev));
    let at_home = home(ino).find(claims);
    at_home.or_else(|| {
        // Behind the last one: those before it are mostly in use, for pipes are made one after the other.
        let last = &d.header().more_claimed;
        let all = more(d);
        let from = (last.load(Relaxed) as usize).clamp(all.start, all.end);
        let found = (from..all.end).chain(all.start..from).find(claims)?;
        last.store(found as u32, Relaxed);
        Some(found)
    })
}

/// The slot of the object, if it has one.
pub fn find(d: Domain, dev: u64, ino: u64) -> Option<usize> {
    // Whoever must find it has it by a call of the kernel's, which comes after all of `publish`.
    let tag = tag(ino);
    let is =
        |&i: &usize| d.tag(i).load(Relaxed) == tag && key(d, i).is_some_and(|k| k.is(dev, ino));
    home(ino).chain(more(d)).find(is)
}

/// Claims a free slot for the object; the caller fills it and then calls [`publish`].
///
/// `collect` is raised each time the slots have doubled: those of pipes that are gone may then be freed.
pub fn claim(d: Domain, dev: u64, ino: u64) -> Option<usize> {
    let had = &d.header().had_channels;
    if had.load(Relaxed) == 0 {
        had.store(1, Relaxed);
    }
    // Once for every page and more, whatever a hostile peer writes there.
    for _ in 0..=CHANNELS_MOST / CHANNELS_MORE {
        if let Some(i) = free(d, dev, ino, CHANNELS_MOST) {
            return Some(i);
        }
        let made = d.channels_made();
        let grown = d.make_channels(made);
        if !grown || ((made - CHANNELS) / CHANNELS_MORE + 1).is_power_of_two() {
            d.header().collect.store(1, Relaxed);
        }
        if !grown {
            break;
        }
    }
    None
}

/// As [`claim`], among the first `most` slots, or those of them that are made; no more are made once so many are.
///
/// Where all are taken, those of objects that are gone may be freed. To find them takes long, so one refusal of 128 asks for it.
pub fn claim_below(d: Domain, dev: u64, ino: u64, most: usize) -> Option<usize> {
    if d.channels_made() < most {
        return claim(d, dev, ino);
    }
    let found = free(d, dev, ino, most);
    if found.is_none() && ino.is_multiple_of(128) {
        d.header().collect.store(1, Relaxed);
    }
    found
}

/// Whether the domain has had a channel. If not, none of the caller's descriptors is one's: a descriptor comes from this
/// process or from another by a call of the kernel's, and what the other did before comes before.
pub fn had_any(d: &Domain) -> bool {
    d.header().had_channels.load(Relaxed) != 0
}

/// Makes a claimed slot findable.
pub fn publish(d: Domain, i: usize, ino: u64) {
    if let Some(k) = key(d, i) {
        // Not taken away with the key: another may have claimed the slot by then.
        d.tag(i).store(tag(ino), Relaxed);
        k.publish(ino);
    }
}

/// Frees slot `i`.
pub fn release(d: Domain, i: usize) {
    if let Some(k) = key(d, i) {
        k.release();
    }
}

/// Every slot that is in use.
pub fn slots(d: Domain) -> impl Iterator<Item = usize> {
    (0..d.channels_made()).filter(move |&i| inode(d, i).is_some())
}

/// Device and inode number that slot `i` stands for, if it is in use.
pub fn object(d: Domain, i: usize) -> Option<(u64, u64)> {
    inode(d, i).map(|n| (key(d, i).map_or(0, |k| k.dev.load(Relaxed)), n))
}

/// The inode number that slot `i` stands for, if it is in use.
pub fn inode(d: Domain, i: usize) -> Option<u64> {
    match key(d, i)?.tag.load(Relaxed) {
        0 | 1 => None,
        t => Some(t - 2),
    }
}

/// Calls `f` while no named FIFO is entered or removed by another.
///
/// The lock of a dead thread is taken over: each step under it leaves the registry as it should be.
pub fn alone<R>(d: &Domain, tid: u32, f: impl FnOnce() -> R) -> R {
    let lock = &d.header().fifo_lock;
    let mut turns = 0u32;
    loop {
        let owner = lock.load(Relaxed);
        turns += 1;
        let dead = || turns.is_multiple_of(32) && process::is_dead(owner);
        if (owner == 0 || owner == tid || dead())
            // ORDER: what the last owner did is seen.
            && lock.compare_exchange(owner, tid, Acquire, Relaxed).is_ok()
        {
            break;
        }
        process::nap(50);
    }
    let r = f();
    // ORDER: what was done comes before the end.
    lock.store(0, Release);
    r
}
