//! What dead processes held comes home.
//!
//! Invariant: an object is brought home only if its mark names a process that was dead before the buckets were looked
//! at, and it is neither at home, nor in a bucket, nor within reach of a channel: then nobody can have it, and nobody
//! else can come to have it, because every way to an object passes a bucket, a slab or a channel and marks it anew.
//! Not here: channels (whoever calls says what they reach), who calls when (reclaim.rs, byway run).
use crate::cache::User;
use crate::domain::Domain;
use crate::layout::*;
use crate::reclaim::{enter, leave};
use crate::scratch::Scratch;
use crate::{bucket, slab};
use byway_sys::process;
use byway_sys::sync::Ordering::{AcqRel, Relaxed};
use core::cell::Cell;

/// LINUX PID_MAX_LIMIT: no process has this id, or a larger one.
const PIDS: usize = 1 << 22;

/// The ids that a sweep has asked about: the kernel is asked once about each.
struct Asked {
    dead: Scratch,
    alive: Scratch,
    /// Whether there are any dead; whether there is anything of nobody.
    any: bool,
    nobody: bool,
}

impl Asked {
    fn new() -> Option<Asked> {
        Some(Asked {
            dead: Scratch::new(PIDS)?,
            alive: Scratch::new(PIDS)?,
            any: false,
            nobody: false,
        })
    }
    /// Whether `pid` was dead when it was asked about.
    fn knows_dead(&self, pid: u32) -> bool {
        self.dead.has(pid as usize) || (self.nobody && pid as usize >= PIDS)
    }
    /// Whether `pid` is dead.
    fn ask(&mut self, pid: u32) -> bool {
        if self.knows_dead(pid) {
            return true;
        }
        if self.alive.has(pid as usize) {
            return false;
        }
        let dead = process::is_gone(pid);
        if pid as usize >= PIDS {
            // Left behind on purpose (cache.rs), or a hostile peer's number: as good as dead.
            self.nobody = true;
        } else if dead {
            self.dead.add(pid as usize);
        } else {
            self.alive.add(pid as usize);
        }
        self.any |= dead;
        dead
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Found {
    pub objects: usize,
    pub buckets: usize,
}

/// Brings home what the dead held. `reach` tells, by calling what it is given, every unit that a channel has.
/// `None`: somebody else is at it, or there is no memory for the walk.
pub fn sweep(u: &User, reach: impl FnOnce(&mut dyn FnMut(u32))) -> Option<Found> {
    let d = &u.domain;
    if !enter(d, u.who.tid) {
        return None;
    }
    let found = walk(u, reach);
    for i in 0..d.slabs() {
        slab::mend(d, i, u.who.tid);
    }
    let used = (0..d.slabs())
        .filter_map(|i| d.slab(i))
        .filter(|s| s.is_used())
        .count();
    d.header()
        .slabs_used
        .store(used as u32, core::sync::atomic::Ordering::Relaxed);
    leave(d);
    found
}

fn walk(u: &User, reach: impl FnOnce(&mut dyn FnMut(u32))) -> Option<Found> {
    let d = &u.domain;
    let mut found = Found::default();
    let mut asked = Asked::new()?;
    // Who is dead, before anything is looked at.
    each_out(d, |_, o| {
        let mark = o.mark.load(Relaxed);
        if mark & CHANNEL == 0 {
            asked.ask(mark);
        }
    });
    for i in 0..d.buckets_made() {
        if let Some(b) = d.bucket(i) {
            let state = b.state.load(Relaxed);
            if state > DEPOT && asked.ask(state) && !in_a_front(d, i) {
                // EDGE B1: what the dead one left in it is seen.
                if b.state
                    .compare_exchange(state, u.who.pid, AcqRel, Relaxed)
                    .is_ok()
                {
                    bucket::deposit(d, i, None);
                    found.buckets += 1;
                }
            }
            if b.state.load(Relaxed) == DEPOT {
                bucket::hint(d, i, b);
            }
        }
    }
    if !asked.any {
        return Some(found);
    }
    let mut there = Scratch::new(d.units())?;
    reach(&mut |unit| {
        there.add(unit as usize);
    });
    in_buckets(d, |unit| {
        there.add(unit as usize);
    });
    for i in 0..d.slabs() {
        // Asked again, once for each slab: the id may be another process's by now.
        let (still, other) = (Cell::new(NOBODY), Cell::new(CHANNEL));
        found.objects += slab::bring_lost(d, i, u.who, |unit, mark| {
            if mark & CHANNEL != 0 || !asked.knows_dead(mark) || there.has(unit as usize) {
                return false;
            }
            if mark != still.get() && mark != other.get() {
                if process::is_gone(mark) {
                    &still
                } else {
                    &other
                }
                .set(mark);
            }
            mark == still.get()
        });
    }
    Some(found)
}

/// Whether a front has bucket `i`.
pub(crate) fn in_a_front(d: &Domain, i: usize) -> bool {
    let half = i as u32 + 1;
    (0..CPUS + LOCKED).any(|f| {
        d.front(f).words.iter().any(|w| {
            // ORDER: a bucket that left is marked by whom it left to.
            let w = w.load(core::sync::atomic::Ordering::Acquire);
            w as u32 == half || (w >> 32) as u32 == half
        })
    })
}

/// Every unit that stands in a bucket.
pub(crate) fn in_buckets(d: &Domain, mut f: impl FnMut(u32)) {
    for b in (0..d.buckets_made()).filter_map(|i| d.bucket(i)) {
        let n = b.class().map_or(0, |c| b.count(c));
        for x in &b.items[..n] {
            f(x.load(core::sync::atomic::Ordering::Relaxed));
        }
    }
}

/// Every object that is not at home.
pub(crate) fn each_out(d: &Domain, mut f: impl FnMut(u32, &Object)) {
    for i in 0..d.slabs() {
        let Some(s) = d.slab(i) else { continue };
        let Some(class) = s.class() else { continue };
        for k in 0..class.of_slab() {
            if !s.at_home(k) {
                let unit = (i * SLAB_UNITS + k * class.units()) as u32;
                if let Some(o) = d.object(unit) {
                    f(unit, o);
                }
            }
        }
    }
}
