//! What participants say of their own opens of a FIFO. The run's service counts all opens, and compares.
//!
//! The kernel tells the service of each open, but merges two by one process that the service has not read yet. A process
//! therefore counts an open only if the service has read everything in between. So the sum of what is said here is never
//! more than the opens by participants that the service has counted: if it has counted no more, nobody else opened it.
//!
//! Invariant: what is said of an open is said after the kernel has told of it. An open that began before the service's
//! count did is never said. A full table, or a race that is lost, says too little.
//! So a process waits, before its next open, until the service has read its last one: both then count.
//! Not here: counting what the kernel tells (byway run), which calls open a FIFO (crate preload).
use crate::channel::Channel;
use byway_mem::domain::Domain;
use byway_mem::layout::{OPENINGS, Opening};
use byway_sys::process;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const PROBES: usize = 16;
const FILLING: u64 = 1;
/// Reads of everything that lie between two opens which the kernel cannot have merged: one may have begun before.
const APART: u32 = 2;
/// The longest wait for the service: naps of 50 us. On a busy machine it gets a CPU some milliseconds later.
const NAPS: u32 = 200;
/// What was read by the end of the last open that this process has said, plus one; 0: none that need be waited for.
/// RELAXED: a hint; the table has what counts.
static SAID: AtomicU64 = AtomicU64::new(0);

/// An open that is about to be made: how often the service had read everything by then.
#[derive(Clone, Copy)]
pub struct Begun(pub u32);

/// Before an open: `None` if nobody counts.
#[inline]
pub fn begin(d: &Domain) -> Option<Begun> {
    let h = d.header();
    // ORDER: before the open itself.
    (h.counted.load(Relaxed) != 0).then(|| Begun(h.drains.load(Acquire)))
}

/// The same before an open(2), which may wait until this process's last open has been read.
#[inline]
pub fn begin_apart(d: &Domain) -> Option<Begun> {
    let begun = begin(d)?;
    match SAID.swap(0, Relaxed) {
        0 => Some(begun),
        last => {
            is_read(d, (last - 1) as u32);
            begin(d)
        }
    }
}

/// Whether the service has read an open that had ended by `last`. It is asked to, and waited for.
#[cold]
fn is_read(d: &Domain, last: u32) -> bool {
    let h = d.header();
    let next = last.wrapping_add(APART);
    // ORDER: pairs with the service's count of its reads.
    let is_read = || h.drains.load(Acquire).wrapping_sub(next) as i32 >= 0;
    if !is_read() {
        h.drain.store(1, Relaxed);
        d.call_service();
    }
    for _ in 0..NAPS {
        if is_read() {
            return true;
        }
        process::nap(50);
    }
    is_read()
}

/// What a process has said of a FIFO: since which count, how many opens, and what was read by the end of the last one.
#[derive(Clone, Copy)]
struct Said {
    since: u16,
    opens: u16,
    last: u32,
}

impl Said {
    fn of(word: u64) -> Said {
        Said {
            since: (word >> 48) as u16,
            opens: (word >> 32) as u16,
            last: word as u32,
        }
    }
    fn word(self) -> u64 {
        u64::from(self.since) << 48 | u64::from(self.opens) << 32 | u64::from(self.last)
    }
    /// With one more open, which began at `begun` and has ended by `now`.
    fn and(self, begun: Begun, now: u32) -> Said {
        let apart = begun.0.wrapping_sub(self.last.wrapping_add(APART)) as i32 >= 0;
        let is_later = now.wrapping_sub(self.last) as i32 > 0;
        Said {
            since: self.since,
            opens: self.opens.saturating_add(u16::from(apart)),
            last: if is_later { now } else { self.last },
        }
    }
}

/// After an open of the FIFO behind `ch` by this process.
pub fn opened(d: &Domain, ch: &Channel, begun: Begun) {
    let from = ch.reader.0.counted_from.load(Relaxed);
    if from == 0 || (begun.0.wrapping_sub(from) as i32) < 0 {
        return;
    }
    // ORDER: after the open. It may have been counted since, never before.
    let now = d.header().drains.load(Acquire);
    SAID.store(u64::from(now) + 1, Relaxed);
    let slot = d.slot_of(ch as *const Channel as usize);
    let first = Said {
        since: from as u16,
        opens: 1,
        last: now,
    };
    let key = key(slot, process::getpid());
    if let Some(e) = places(d, key).find(|e| e.key.load(Relaxed) == key) {
        // ORDER: another thread of this process; the service reads.
        let _ = e.value.fetch_update(AcqRel, Acquire, |was| {
            let was = Said::of(was);
            let is = if was.since == from as u16 {
                was.and(begun, now)
            } else {
                first
            };
            Some(is.word())
        });
        return;
    }
    for e in places(d, key) {
        let was = e.key.load(Relaxed);
        // ORDER: the one before has done with the place.
        if is_free(d, was, e)
            && e.key
                .compare_exchange(was, FILLING, AcqRel, Relaxed)
                .is_ok()
        {
            e.value.store(first.word(), Relaxed);
            // ORDER: what is said, before who says it.
            e.key.store(key, Release);
            return;
        }
    }
}

/// Calls `f` with each process that has said something of the FIFO in slot `slot` since the count `from`, and with how
/// many opens. A process may come twice, if two of its threads began at once: the larger one counts.
pub fn each(d: &Domain, slot: u32, from: u32, mut f: impl FnMut(u32, u16)) {
    for i in 0..OPENINGS {
        let e = d.opening(i);
        // ORDER: pairs with `opened`.
        let key = e.key.load(Acquire);
        // ORDER: what is said is said after its open.
        let said = Said::of(e.value.load(Acquire));
        if key > FILLING && (key >> 32) as u32 == slot && said.since == from as u16 {
            f(key as u32, said.opens);
        }
    }
}

/// Before this process goes past the library: its opens are apart from those that come then, or count for nothing.
pub fn settle(d: &Domain) {
    if d.header().counted.load(Relaxed) == 0 {
        return;
    }
    let pid = process::getpid();
    for i in 0..OPENINGS {
        let e = d.opening(i);
        let key = e.key.load(Relaxed);
        if key <= FILLING || key as u32 != pid {
            continue;
        }
        let said = Said::of(e.value.load(Relaxed));
        if !is_read(d, said.last) {
            let nothing = Said { opens: 0, ..said };
            e.value.store(nothing.word(), Relaxed);
        }
    }
}

/// Before a new count of the FIFO in slot `slot`: what was said is of the old one.
pub fn forget(d: &Domain, slot: u32) {
    for i in 0..OPENINGS {
        let key = &d.opening(i).key;
        let was = key.load(Relaxed);
        if was > FILLING && (was >> 32) as u32 == slot {
            // RELAXED: who is saying something now says it of the old count.
            let _ = key.compare_exchange(was, 0, Relaxed, Relaxed);
        }
    }
}

fn key(slot: u32, pid: u32) -> u64 {
    u64::from(slot) << 32 | u64::from(pid)
}

fn places(d: &Domain, key: u64) -> impl Iterator<Item = &'static Opening> {
    let home = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize;
    (0..PROBES).map(move |k| d.opening(home + k))
}

/// Whether a place is nobody's, or of a count that is over.
fn is_free(d: &Domain, key: u64, e: &Opening) -> bool {
    if key == FILLING {
        return false;
    }
    let from = Channel::at(*d, (key >> 32) as usize)
        .map_or(0, |ch| ch.reader.0.counted_from.load(Relaxed));
    key == 0 || from == 0 || Said::of(e.value.load(Relaxed)).since != from as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_opens_that_cannot_be_merged_are_counted() {
        let first = Said {
            since: 7,
            opens: 1,
            last: 10,
        };
        let opens = |begun, now| first.and(Begun(begun), now).opens;
        assert_eq!(opens(10, 10), 1, "nothing was read in between");
        assert_eq!(opens(11, 12), 1, "what was read may have begun before");
        assert_eq!(opens(12, 12), 2);
        let late = first.and(Begun(11), 12);
        assert_eq!(late.and(Begun(12), 13).opens, 1, "apart from the last one");
        assert_eq!(late.and(Begun(14), 14).opens, 2);
        // A thread that was slow to say it.
        assert_eq!(first.and(Begun(8), 9).last, 10);
        let wraps = Said {
            last: u32::MAX,
            ..first
        };
        assert_eq!(wraps.and(Begun(0), 0).opens, 1);
        assert_eq!(wraps.and(Begun(1), 1).opens, 2);
        let full = Said {
            opens: u16::MAX,
            ..first
        };
        assert_eq!(full.and(Begun(20), 20).opens, u16::MAX);
        let again = Said::of(wraps.word());
        assert_eq!(
            (again.since, again.opens, again.last),
            (wraps.since, wraps.opens, wraps.last)
        );
    }
}
