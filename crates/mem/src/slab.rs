//! The back room: slabs of 512 KiB, carved into objects of one class; pages from the machine and back to it.
//!
//! Invariant: an object is at home if and only if its bit is set; the bit is changed under the slab's lock, as the last
//! step of leaving and the last of coming home. Pages are present before an object leaves, so a full shared-memory
//! folder is an answer here ("none") and never a SIGBUS later. A lock whose owner is dead is taken over: every step
//! under it leaves the slab consistent.
//! Not here: who needs the objects.
use crate::crash::{Point, point};
use crate::domain::Domain;
use crate::group;
use crate::layout::*;
use crate::weak::{Edge, order};
use byway_sys::process;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Pages made present at a time for small objects: one jumbo's worth.
const RUN: usize = 16;

/// Who works on a slab: the process that marks objects, the thread that holds locks.
#[derive(Clone, Copy)]
pub struct Who {
    pub pid: u32,
    pub tid: u32,
}

impl Lock {
    /// The lock, unless a living thread has it (this one too: a signal handler finds its own).
    pub(crate) fn take(&self, tid: u32) -> bool {
        let owner = self.0.load(Relaxed);
        let takes = owner == 0 || (owner != tid && process::is_dead(owner));
        // ORDER: what the last owner did is seen.
        takes
            && self
                .0
                .compare_exchange(owner, tid, order(Edge::Lock, AcqRel), Relaxed)
                .is_ok()
    }
    pub(crate) fn leave(&self) {
        // ORDER: what was done under the lock comes before its end.
        self.0.store(0, order(Edge::Unlock, Release));
    }
}

impl Slab {
    pub fn class(&self) -> Option<Class> {
        Class::from_index(self.class.load(Relaxed).wrapping_sub(1))
    }

    /// Whether it is of a class, or part of a span.
    pub fn is_used(&self) -> bool {
        self.class.load(Relaxed) != 0
    }

    pub(crate) fn try_lock(&self, tid: u32) -> bool {
        self.lock.take(tid)
    }
    /// As `try_lock`, waiting for a living owner for a while.
    fn lock(&self, tid: u32, turns: u32) -> bool {
        for k in 0..turns {
            if self.lock.0.load(Relaxed) == 0 && self.try_lock(tid) {
                return true;
            }
            if k % 64 == 63 {
                if self.try_lock(tid) {
                    return true;
                }
                process::nap(50);
            } else {
                byway_sys::clock::pause();
            }
        }
        false
    }
    pub(crate) fn unlock(&self) {
        self.lock.leave();
    }

    /// Whether the object with number `k` of this slab is at home.
    pub fn at_home(&self, k: usize) -> bool {
        // ORDER: pairs with the marks made before a bit is cleared.
        self.home[k / 64 % self.home.len()].load(core::sync::atomic::Ordering::Acquire)
            & 1 << (k % 64)
            != 0
    }
    /// The number of the first object at home, from number `from` on.
    fn first(&self, class: Class, from: usize) -> Option<usize> {
        let words = class.of_slab().div_ceil(64);
        let bits = |w: usize| {
            let skip = if w == from / 64 {
                u64::MAX << (from % 64)
            } else {
                u64::MAX
            };
            self.home[w].load(Relaxed) & skip
        };
        let (w, bits) = (from / 64..words)
            .map(|w| (w, bits(w)))
            .find(|x| x.1 != 0)?;
        let k = w * 64 + bits.trailing_zeros() as usize;
        (k < class.of_slab()).then_some(k)
    }
    pub fn is_present(&self, page: usize) -> bool {
        self.present[page / 64].load(Relaxed) & 1 << (page % 64) != 0
    }
    pub(crate) fn set_present(&self, page: usize, n: usize, there: bool) {
        for p in page..page + n {
            let bit = 1 << (p % 64);
            if there {
                self.present[p / 64].fetch_or(bit, Relaxed);
            } else {
                self.present[p / 64].fetch_and(!bit, Relaxed);
            }
        }
    }
}

/// Moves objects of `class` from their slabs into bucket `b`, up to `want`. How many came.
pub fn fill(d: &Domain, class: Class, b: &Bucket, want: usize, who: Who) -> usize {
    let mut got = 0;
    let part = &d.middle().part[class as usize];
    // `dry`: no more pages are to be had, only objects on those that are there.
    let (mut from, mut turns, mut dry) = (0, 0, false);
    // Every slab twice at most, whatever a hostile peer writes into the hints.
    while got < want && turns < 2 * d.slabs() {
        turns += 1;
        let new = || if dry { None } else { claim(d, class, who) };
        let Some(i) = part.next(from).or_else(new) else {
            break;
        };
        from = i + 1;
        let Some(s) = d.slab(i) else {
            part.clear(i);
            continue;
        };
        if !s.try_lock(who.tid) {
            continue;
        }
        point(Point::Locked);
        if s.class() == Some(class) {
            let mut next = 0;
            while got < want
                && let Some(k) = s.first(class, next)
            {
                if !there(d, i, s, class, k, &mut dry) {
                    next = class.after_page(k);
                    continue;
                }
                let unit = (i * SLAB_UNITS + k * class.units()) as u32;
                let Some(o) = d.object(unit) else { break };
                o.mark.store(who.pid, Relaxed);
                o.refs.store(0, Relaxed);
                // ORDER: the mark before the bit, for a sweep.
                s.home[k / 64].fetch_and(!(1 << (k % 64)), AcqRel);
                s.free.fetch_sub(1, Relaxed);
                point(Point::Homeless);
                if !b.push(class, unit) {
                    // A hostile peer filled it.
                    turns = usize::MAX;
                    break;
                }
                got += 1;
            }
        }
        if s.class() != Some(class) || s.first(class, 0).is_none() {
            part.clear(i);
        }
        s.unlock();
    }
    got
}

impl Class {
    /// The first object that does not begin on the page of object `k`.
    const fn after_page(self, k: usize) -> usize {
        let on_page = if self.bytes() < PAGE {
            PAGE / self.bytes()
        } else {
            1
        };
        (k / on_page + 1) * on_page
    }
}

/// Whether the pages of object `k` are present, or can be made so.
fn there(d: &Domain, i: usize, s: &Slab, class: Class, k: usize, dry: &mut bool) -> bool {
    let page = k * class.bytes() / PAGE;
    if s.is_present(page) || *dry {
        return s.is_present(page);
    }
    let first = page - page % RUN;
    if d.populate_arena(i, first, RUN) {
        s.set_present(first, RUN, true);
        return true;
    }
    // Not for all of them: for this one, if it is small.
    if class.bytes() < PAGE && d.populate_arena(i, page, 1) {
        s.set_present(page, 1, true);
    } else {
        *dry = true;
    }
    // What came before there was no more is not kept.
    for p in (first..first + RUN).filter(|&p| !s.is_present(p)) {
        d.remove_arena(i, p, 1);
    }
    s.is_present(page)
}

/// Makes a free slab one of `class`. Its number.
fn claim(d: &Domain, class: Class, who: Who) -> Option<usize> {
    let h = d.header();
    group::look(d);
    if h.flags.load(Relaxed) & flags::NO_MEMORY != 0
        || h.slabs_used.load(Relaxed) as usize >= group::slabs(d)
    {
        return None;
    }
    let free = &d.middle().free;
    let mut from = 0;
    while let Some(i) = free.next(from) {
        from = i + 1;
        let s = d.slab(i)?;
        if !s.try_lock(who.tid) {
            continue;
        }
        let takes = s.class.load(Relaxed) == 0;
        if takes {
            if !d.populate_objects(i) {
                s.unlock();
                return None;
            }
            carve(d, i, s, class);
            point(Point::Carving);
            // ORDER: everything about the slab before its class.
            s.class.store(class as u32 + 1, Release);
            let used = h.slabs_used.fetch_add(1, Relaxed).saturating_add(1);
            h.slabs_most.fetch_max(used, Relaxed);
            // Every slab of a class begins here, and rarely: counting them is cheap, and right after any death.
            let n = (0..d.slabs())
                .filter(|&k| d.slab(k).is_some_and(|s| s.class() == Some(class)))
                .count();
            h.class_most[class as usize].fetch_max(n as u32, Relaxed);
            d.middle().part[class as usize].set(i);
        }
        free.clear(i);
        s.unlock();
        if takes {
            return Some(i);
        }
    }
    None
}

fn carve(d: &Domain, i: usize, s: &Slab, class: Class) {
    let n = class.of_slab();
    for k in 0..n {
        if let Some(o) = d.object((i * SLAB_UNITS + k * class.units()) as u32) {
            o.mark.store(NOBODY, Relaxed);
            o.refs.store(0, Relaxed);
        }
    }
    for (w, word) in s.home.iter().enumerate() {
        let left = n.saturating_sub(w * 64);
        word.store(
            if left >= 64 {
                u64::MAX
            } else {
                (1 << left) - 1
            },
            Relaxed,
        );
    }
    for p in &s.present {
        p.store(0, Relaxed);
    }
    s.free.store(n as u32, Relaxed);
}

/// Brings `unit`, marked as the caller's, home. False if the slab's lock could not be had, or there is no such slab.
pub fn bring_home(d: &Domain, unit: u32, who: Who) -> bool {
    let i = unit as usize / SLAB_UNITS;
    let Some(s) = d.slab(i) else { return false };
    if !s.lock(who.tid, 1024) {
        return false;
    }
    point(Point::Locked);
    let k = s.class().and_then(|c| {
        let off = unit as usize % SLAB_UNITS;
        off.is_multiple_of(c.units()).then(|| off / c.units())
    });
    if let (Some(k), Some(c)) = (k, s.class()) {
        // ORDER: the object's contents and mark before its bit.
        if s.home[k / 64].fetch_or(1 << (k % 64), AcqRel) & 1 << (k % 64) == 0 {
            s.free.fetch_add(1, Relaxed);
        }
        d.middle().part[c as usize].set(i);
    }
    s.unlock();
    k.is_some()
}

/// Brings home every object of slab `i` that is out and of whose unit and mark `lost` is true. How many. All under
/// the lock: meanwhile the slab does not become one of another class, and nothing leaves it.
pub fn bring_lost(d: &Domain, i: usize, who: Who, lost: impl Fn(u32, u32) -> bool) -> usize {
    let Some(s) = d.slab(i) else { return 0 };
    let find = |class: Class, from: usize| {
        (from..class.of_slab()).find_map(|k| {
            let unit = (i * SLAB_UNITS + k * class.units()) as u32;
            let o = d.object(unit)?;
            if s.at_home(k) {
                return None;
            }
            let mark = o.mark.load(Relaxed);
            lost(unit, mark).then_some((k, o, mark))
        })
    };
    if s.class().and_then(|c| find(c, 0)).is_none() || !s.lock(who.tid, 1024) {
        return 0;
    }
    point(Point::Locked);
    let (mut n, mut from) = (0, 0);
    if let Some(c) = s.class() {
        while let Some((k, o, mark)) = find(c, from) {
            from = k + 1;
            // ORDER: from here on it is ours, as if we had allocated it.
            if o.mark
                .compare_exchange(mark, who.pid, AcqRel, Relaxed)
                .is_ok()
            {
                o.refs.store(0, Relaxed);
                // ORDER: the mark before the bit.
                s.home[k / 64].fetch_or(1 << (k % 64), AcqRel);
                s.free.fetch_add(1, Relaxed);
                n += 1;
            }
        }
        if n > 0 {
            d.middle().part[c as usize].set(i);
        }
    }
    s.unlock();
    n
}

/// Gives back the pages of slab `i` that hold only objects at home, at most `most` bytes; a slab with nobody out
/// becomes free for every class. Bytes given back.
pub fn give_back(d: &Domain, i: usize, most: usize, tid: u32) -> usize {
    let Some(s) = d.slab(i) else { return 0 };
    let Some(class) = s.class() else { return 0 };
    if !s.try_lock(tid) {
        return 0;
    }
    point(Point::Locked);
    let mut given = 0;
    if s.class() == Some(class) {
        let all = (0..class.of_slab()).all(|k| s.at_home(k));
        // The smallest run of pages that holds whole objects only.
        let run = if all {
            SLAB_PAGES
        } else {
            class.bytes().div_ceil(PAGE)
        };
        let objects = run * PAGE / class.bytes();
        for page in (0..SLAB_PAGES).step_by(run) {
            let there = (page..page + run).filter(|&p| s.is_present(p)).count();
            let first = page * PAGE / class.bytes();
            if there > 0 && given < most && (first..first + objects).all(|k| s.at_home(k)) {
                // First, or a death in between would leave a hole that the slab calls present.
                s.set_present(page, run, false);
                point(Point::Removed);
                d.remove_arena(i, page, run);
                given += there * PAGE;
            }
        }
        if all && (0..SLAB_PAGES).all(|p| !s.is_present(p)) {
            d.middle().part[class as usize].clear(i);
            // ORDER: before another class carves it.
            s.class.store(0, Release);
            d.remove_objects(i);
            let _ = d
                .header()
                .slabs_used
                .fetch_update(Relaxed, Relaxed, |n| n.checked_sub(1));
            d.middle().free.set(i);
        }
    }
    s.unlock();
    given
}

impl Slab {
    /// Bytes that are present and hold nothing: free objects on pages that are there.
    pub fn idle_bytes(&self) -> usize {
        let Some(class) = self.class() else { return 0 };
        let there: u32 = self
            .present
            .iter()
            .map(|w| w.load(Relaxed).count_ones())
            .sum();
        let free = self.free.load(Relaxed).min(class.of_slab() as u32) as usize;
        let out = (class.of_slab() - free) * class.bytes();
        (there as usize * PAGE).saturating_sub(out)
    }
    /// Pages that are there.
    pub fn present_bytes(&self) -> usize {
        let there: u32 = self
            .present
            .iter()
            .map(|w| w.load(Relaxed).count_ones())
            .sum();
        there as usize * PAGE
    }
}

/// After a death: the count of free objects, and the hints, as the bits have them.
pub fn mend(d: &Domain, i: usize, tid: u32) {
    let Some(s) = d.slab(i) else { return };
    if !s.try_lock(tid) {
        return;
    }
    match s.class() {
        Some(c) => {
            let n = (0..c.of_slab()).filter(|&k| s.at_home(k)).count();
            s.free.store(n as u32, Relaxed);
            if n > 0 {
                d.middle().part[c as usize].set(i);
            }
        }
        None if s.is_used() => {}
        None => d.middle().free.set(i),
    }
    s.unlock();
}
