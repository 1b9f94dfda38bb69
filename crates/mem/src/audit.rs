//! The audit: walks everything, and finds each object in exactly one place, or says how many it did not.
//!
//! Invariant: it changes nothing (and takes the right to reclaim meanwhile). In a domain that is in use an object may move while it is walked: what looks wrong
//! is looked at again, and only what stays wrong is told.
//! Not here: repair (sweep.rs).
use crate::domain::Domain;
use crate::layout::*;
use crate::reclaim::{enter, leave};
use crate::scratch::Scratch;
use crate::sweep::{each_out, in_buckets};
use byway_sys::process;
use core::sync::atomic::Ordering::Relaxed;

/// Where the objects of a domain are.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Objects of all slabs in use.
    pub objects: usize,
    pub at_home: usize,
    pub in_buckets: usize,
    pub in_channels: usize,
    /// With a living process.
    pub held: usize,
    /// With nobody, or with a dead process, and not yet swept.
    pub lost: usize,
    /// In two places at once.
    pub doubled: usize,
    /// What a bucket or a channel names and no slab knows.
    pub foreign: usize,
    /// One of the lost: its unit, and its mark (a process's id, or `CHANNEL` and a slot).
    pub one_lost: Option<(u32, u32)>,
}

impl Audit {
    /// Whether each object is in exactly one place.
    pub fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.foreign == 0
    }
}

const LOOKS: usize = 5;

/// Walks the domain. `reach` tells every unit that a channel has. `None` without memory for the walk.
pub fn audit(d: &Domain, reach: impl Fn(&mut dyn FnMut(u32))) -> Option<Audit> {
    // While pages of object entries could go back to the machine, nobody walks over them.
    let tid = process::gettid();
    let mine = (0..200).any(|_| {
        let got = enter(d, tid);
        if !got {
            process::nap(500);
        }
        got
    });
    let a = looks(d, &reach);
    if mine {
        leave(d);
    }
    a
}

fn looks(d: &Domain, reach: &impl Fn(&mut dyn FnMut(u32))) -> Option<Audit> {
    let mut a = Audit::default();
    for look in 0..LOOKS {
        a = once(d, reach)?;
        if a.is_clean() {
            break;
        }
        if look + 1 < LOOKS {
            process::nap(20_000);
        }
    }
    Some(a)
}

fn once(d: &Domain, reach: &impl Fn(&mut dyn FnMut(u32))) -> Option<Audit> {
    let mut a = Audit::default();
    let mut seen = Scratch::new(d.units())?;
    let is_out = |unit: u32| {
        let i = unit as usize / SLAB_UNITS;
        let s = d.slab(i)?;
        let c = s.class()?;
        let off = unit as usize % SLAB_UNITS;
        off.is_multiple_of(c.units())
            .then(|| !s.at_home(off / c.units()))
    };
    let mut count = |unit: u32, place: &mut usize, a: &mut (usize, usize)| match is_out(unit) {
        None => a.0 += 1,
        // At home as well.
        Some(false) => a.1 += 1,
        Some(true) if !seen.add(unit as usize) => a.1 += 1,
        Some(true) => *place += 1,
    };
    let mut wrong = (0, 0);
    in_buckets(d, |unit| count(unit, &mut a.in_buckets, &mut wrong));
    reach(&mut |unit| count(unit, &mut a.in_channels, &mut wrong));
    (a.foreign, a.doubled) = wrong;
    let mut alive = 0;
    each_out(d, |unit, o| {
        if !seen.has(unit as usize) {
            let mark = o.mark.load(Relaxed);
            let holds = mark & CHANNEL == 0 && (mark == alive || !process::is_gone(mark));
            if holds {
                alive = mark;
                a.held += 1;
            } else {
                a.lost += 1;
                a.one_lost.get_or_insert((unit, mark));
            }
        }
    });
    for s in (0..d.slabs()).filter_map(|i| d.slab(i)) {
        if let Some(c) = s.class() {
            a.objects += c.of_slab();
            a.at_home += (0..c.of_slab()).filter(|&k| s.at_home(k)).count();
        }
    }
    Some(a)
}
