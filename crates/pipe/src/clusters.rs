//! The memory under a ring: clusters of 64 KiB, taken when a writer comes to their places, given back when the channel
//! rests; and of a large ring the cluster that has its table.
//!
//! ```text
//! position   ... |  64 KiB |  64 KiB |  64 KiB | ...      the table has one entry for every 64 KiB of the ring
//! table          [ cluster | none    | cluster | cluster ]
//!                  head ^             a stream that flows turns over the same entries again and again: nothing is
//!                                  allocated; an entry behind head keeps its cluster for the next turn
//! ```
//! A lap longer than the ring gets its memory little by little: each page costs its first writer as much as some
//! messages. Until all of it is there, the cluster that was left longest ago comes to where one is needed.
//!
//! Invariant: every place in [the head, the tail), and while the chunk is valid the 4 KiB behind the tail, has its
//! cluster. Only the owner of the writers' lock takes or gives, by one atomic step an entry. A cluster's mark says
//! "channel" after the table has it, and "process" before the table loses it.
//! Not here: the bytes (copy.rs), who decides to give back (the run's service, `handback`).
use crate::channel::Channel;
use crate::ring::{Ring, SLACK};
use crate::word::Tail;
use crate::{Caller, policy};
use byway_mem::cache::{self, User};
use byway_mem::domain::Domain;
use byway_mem::layout::{CHANNEL, Class};
use byway_sys::process;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

const BYTES: u64 = Class::Jumbo.bytes() as u64;
/// Clusters that come to their next places at once: the writer takes the long way for it, which costs it as much as
/// many short messages.
const TOGETHER: u64 = 4;

/// The calling thread as a user of the domain's memory.
pub fn user(me: &Caller) -> User {
    let pid = process::getpid();
    if me.rseq {
        User::new(me.domain, pid, me.tid)
    } else {
        User::without_rseq(me.domain, pid, me.tid)
    }
}

/// Sees to it that the places from `pos` on have memory: `n` of them and room for a pump behind. How many have, `n` at
/// most. Under the writers' lock.
#[inline]
pub fn back(me: &Caller, ch: &Channel, ring: Ring, pos: u64, n: usize) -> usize {
    let last = pos + n as u64 + SLACK - 1;
    // Nearly always both ends are there, and nothing lies between.
    if last - pos < BYTES && ring.has(pos) && ring.has(last) {
        return n;
    }
    take_all(me, ch, ring, pos, n)
}

/// As [`back`], of a write that a handler may interrupt; `None`: the tail is not `t` any more.
#[inline]
pub fn back_while(
    me: &Caller,
    ch: &Channel,
    t: Tail,
    ring: Ring,
    pos: u64,
    n: usize,
) -> Option<usize> {
    let last = pos + n as u64 + SLACK - 1;
    let long = policy::is_to_shorten(ch);
    if !long && last - pos < BYTES && ring.has(pos) && ring.has(last) {
        return Some(n);
    }
    let _held = me.hold_signals();
    if ch.tail() != t {
        return None;
    }
    if long {
        shorten(me, ch, ring, pos);
        policy::shortened(ch);
    }
    Some(take_all(me, ch, ring, pos, n))
}

#[cold]
fn take_all(me: &Caller, ch: &Channel, ring: Ring, pos: u64, n: usize) -> usize {
    let end = pos + n as u64 + SLACK;
    let mut at = pos;
    while at < end {
        if !ring.has(at) && !take(me, ch, ring, at, n) {
            return (at - pos).saturating_sub(SLACK) as usize;
        }
        at = (at / BYTES + 1) * BYTES;
    }
    n
}

/// The cluster at `at`, for a writer of `n` bytes.
fn take(me: &Caller, ch: &Channel, ring: Ring, at: u64, n: usize) -> bool {
    let u = user(me);
    let grows = ring.clusters() < policy::clusters(me, ch, ring, at, n);
    let new = || cache::alloc(&u, Class::Jumbo);
    let old = || left(&u, ch, ring, at);
    let unit = match grows {
        true => new().or_else(old),
        false => old().or_else(new),
    };
    let Some(unit) = unit else {
        return false;
    };
    place(me, &u, ch, ring, at, unit);
    for at in (1..TOGETHER).map(|i| at + i * BYTES) {
        if grows || ring.has(at) {
            break;
        }
        let Some(unit) = left(&u, ch, ring, at) else {
            break;
        };
        place(me, &u, ch, ring, at, unit);
    }
    true
}

/// The cluster `unit`, this process's, is the channel's from now on, at `at`.
fn place(me: &Caller, u: &User, ch: &Channel, ring: Ring, at: u64, unit: u32) {
    // ORDER: a handler over this very write may have been faster; then its cluster is the one.
    if ring
        .slot(at)
        .compare_exchange(0, unit + 1, AcqRel, Relaxed)
        .is_err()
    {
        cache::free(u, unit, Class::Jumbo);
        return;
    }
    mark(me, ch, unit);
}

/// Takes the cluster that readers have left longest ago from its place in the lap that ends at `at`. A reader that is
/// late, and still copies from it, will not move the head.
fn left(u: &User, ch: &Channel, ring: Ring, at: u64) -> Option<u32> {
    let r = ch.head().position();
    let end = at / BYTES * BYTES;
    let mut p = (end + BYTES).saturating_sub(ring.lap());
    while p < end && p + BYTES <= r {
        let entry = ring.slot(p);
        let unit = entry.load(Relaxed);
        if unit != 0 {
            return take_out(u, entry, unit).then_some(unit - 1);
        }
        p += BYTES;
    }
    None
}

/// Of a lap longer than the ring: gives back what the tail, at `pos`, has left longer ago than it takes to fill the
/// ring.
fn shorten(me: &Caller, ch: &Channel, ring: Ring, pos: u64) {
    let first = pos.saturating_sub(ring.bytes()) / BYTES;
    let last = (pos + SLACK) / BYTES;
    let near = |i| (first..=last).any(|c| ring.entry(c * BYTES) == i);
    give_of(&user(me), entries(me.domain, ch), Class::Jumbo, near);
}

/// The cluster `unit - 1` out of the table's `entry`: the process's then. False: another was faster.
fn take_out(u: &User, entry: &AtomicU32, unit: u32) -> bool {
    if let Some(o) = u.domain.object(unit - 1) {
        o.mark.store(u.who.pid, Relaxed);
    }
    // ORDER: the mark before the table loses it.
    entry.compare_exchange(unit, 0, AcqRel, Relaxed).is_ok()
}

fn mark(me: &Caller, ch: &Channel, unit: u32) {
    if let Some(o) = me.domain.object(unit) {
        o.mark.store(
            CHANNEL | me.domain.slot_of(ch as *const Channel as usize),
            Relaxed,
        );
    }
}

/// Gives a closed channel the table of a ring of `bytes` bytes, and of its lap, and nothing else: what an opening that
/// was cut short left goes back first. False: no memory. Under the writers' lock.
pub fn shape(me: &Caller, ch: &Channel, bytes: usize) -> bool {
    let u = user(me);
    give(&u, ch);
    let laps = policy::lap(me, bytes).div_ceil(bytes).next_power_of_two();
    ch.facts.0.ring.store(bytes as u32, Relaxed);
    ch.facts.0.laps.store(laps.ilog2() as u8, Relaxed);
    if !ch.is_indirect() {
        return true;
    }
    let Some(unit) = cache::alloc(&u, Class::Cluster) else {
        return false;
    };
    // SAFETY: the cluster is ours alone, and as long as this.
    unsafe {
        let p = me.domain.address(unit, Class::Cluster);
        core::ptr::write_bytes(
            p.unwrap_or_default(),
            0,
            p.map_or(0, |_| Class::Cluster.bytes()),
        );
    }
    // ORDER: the zeroes before the table is found.
    ch.table.0[0].store(unit + 1, Release);
    mark(me, ch, unit);
    true
}

/// The largest ring, up to `most` bytes, whose bytes the kernel's pipe will take back whatever other channels then ask
/// for: a quarter of what is left, so that the next ones get something too.
///
/// LINUX pipe(7), pipe-user-pages-soft: a user's pipes are made larger only while all of them together hold less.
pub fn affordable(d: Domain, most: usize) -> usize {
    let Some(left) = unpromised(d) else {
        return most;
    };
    let left = left as usize / 4;
    let mut ring = most;
    while ring > left / GROWTH {
        ring /= 2;
    }
    ring
}

/// Of a ring's bytes: a pipe's size is a power of two, and takes the kernel lane's own bytes too.
const GROWTH: usize = 2;

/// What the hand-back of a ring of `bytes` bytes may need.
pub fn growth(bytes: usize) -> usize {
    GROWTH * bytes
}

/// Whether the kernel's pipe may be made `need` bytes large again, whatever other channels then ask for.
pub fn is_affordable(d: Domain, need: usize) -> bool {
    unpromised(d).is_none_or(|left| left >= need as u64)
}

/// By how many bytes pipes may still be made larger; `None`: there is no limit.
fn unpromised(d: Domain) -> Option<u64> {
    let (may, promised) = (&d.header().may_promise, &d.header().promised);
    let may = may.load(Relaxed);
    (may != 0).then(|| may.saturating_sub(promised.load(Relaxed)))
}

/// Counts that a hand-back may make the kernel's pipe `need` bytes large.
pub fn promise(d: Domain, ch: &Channel, need: usize) {
    release(d, ch);
    let need = need as u32;
    // Killed in between: some of it stays counted.
    d.header().promised.fetch_add(need as u64, Relaxed);
    ch.facts.0.promised.store(need, Relaxed);
}

/// The pipe is gone, or as large as it was.
pub fn release(d: Domain, ch: &Channel) {
    let need = ch.facts.0.promised.swap(0, Relaxed) as u64;
    if need != 0 {
        d.header().promised.fetch_sub(need, Relaxed);
    }
}

/// Gives back every cluster that the table has, and the one that has the table; how many went. Under the writers' lock, or
/// where nobody else is.
pub fn give(u: &User, ch: &Channel) -> usize {
    let gone = give_of(u, entries(u.domain, ch), Class::Jumbo, |_| false);
    match ch.is_indirect() {
        true => gone + give_of(u, &ch.table.0[..1], Class::Cluster, |_| false),
        false => gone,
    }
}

/// The entries of a ring's table, wherever it is.
fn entries(d: Domain, ch: &Channel) -> &[AtomicU32] {
    match ch.is_indirect() {
        true => ch.indirect(&d).unwrap_or_default(),
        false => &ch.table.0,
    }
}

/// Gives back what the entries of a table name, but those that `keep` wants.
fn give_of(u: &User, table: &[AtomicU32], class: Class, keep: impl Fn(usize) -> bool) -> usize {
    let mut gone = 0;
    for (i, entry) in table.iter().enumerate() {
        let unit = entry.load(Relaxed);
        if unit == 0 || keep(i) {
            continue;
        }
        if take_out(u, entry, unit) && u.domain.address(unit - 1, class).is_some() {
            cache::free(u, unit - 1, class);
            gone += 1;
        }
    }
    gone
}

/// Whether there is memory behind any of the ring's bytes.
pub fn has_any(ch: &Channel) -> bool {
    ch.table.0.iter().any(|e| e.load(Relaxed) != 0)
}

/// Of a channel that rests: what neither [the head, the tail) nor a pump needs goes back. Called by a thread that no
/// handler of a carried write interrupts. How many clusters went; none if the channel is in use.
pub fn trim(me: &Caller, u: &User, ch: &Channel) -> usize {
    if !has_any(ch) {
        return 0;
    }
    let t = ch.tail();
    if t.lock_owner() != 0 {
        return 0;
    }
    let Some(_taken) = crate::lock::try_take(me, ch, t) else {
        return 0;
    };
    let t = ch.tail();
    let r = ch.head().position();
    let w = t.wide(r);
    let mut gone = 0;
    let ring = ch.ring(&me.domain);
    if let (true, Some(ring)) = (
        t.lock_owner() == me.tid && ch.facts.0.intent.load(Relaxed) == 0,
        ring,
    ) {
        let used = if t.closed() { 0 } else { w - r };
        let end = if ch.chunk().valid() {
            r + used + SLACK
        } else {
            r + used
        };
        let needs = |i: usize| {
            let mut at = r;
            while at < end {
                if ring.entry(at) == i {
                    return true;
                }
                at = (at / BYTES + 1) * BYTES;
            }
            false
        };
        // More than a ring: a state that none of us writes.
        if used <= ring.bytes() {
            gone = give_of(u, entries(me.domain, ch), Class::Jumbo, needs);
        }
    }
    crate::lock::unlock(me, ch);
    gone
}

/// Every cluster that a channel of `d` has.
pub fn reach(d: Domain, ch: &Channel, f: &mut dyn FnMut(u32)) {
    let far = match ch.is_indirect() {
        true => ch.indirect(&d).unwrap_or_default(),
        false => &[],
    };
    for e in ch.table.0.iter().chain(far) {
        if let Some(unit) = e.load(Relaxed).checked_sub(1) {
            f(unit);
        }
    }
}
