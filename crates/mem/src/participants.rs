//! The processes that take part: each of their calls on a channel passes through the preload library, or they use the native one.
//!
//! Invariant: a process is in the table only while it takes part; it enters itself, and leaves before the first call
//! that could go past the library. An entry outlives a killed process: whoever asks must know that the id is still that
//! process (the service looks at its mappings).
//! Not here: who asks (byway run, before a FIFO is carried).
use crate::domain::Domain;
use crate::layout::PARTICIPANTS;
use byway_sys::process;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

const PROBES: usize = 32;

fn places(pid: u32) -> impl Iterator<Item = usize> {
    let home = (pid as usize).wrapping_mul(0x9E37_79B1) >> 7;
    (0..PROBES).map(move |k| (home + k) % PARTICIPANTS)
}

/// Enters `pid`; false if there is no room near its place.
pub fn join(d: &Domain, pid: u32) -> bool {
    if has(d, pid) {
        return true;
    }
    places(pid).any(|i| {
        let e = d.participant(i);
        let now = e.load(Relaxed);
        (now == 0 || process::is_gone(now))
            // ORDER: an entry that was left is left for good before it is taken again.
            && e.compare_exchange(now, pid, AcqRel, Relaxed).is_ok()
    })
}

/// Takes `pid` out.
pub fn leave(d: &Domain, pid: u32) {
    for i in places(pid) {
        // ORDER: before the call that goes past the library.
        let _ = d.participant(i).compare_exchange(pid, 0, AcqRel, Relaxed);
    }
}

/// Who has entered, in no order.
pub fn all(d: &Domain) -> impl Iterator<Item = u32> {
    // ORDER: pairs with `leave`.
    let entries = (0..PARTICIPANTS).map(|i| d.participant(i).load(Acquire));
    entries.filter(|&pid| pid != 0)
}

/// Whether `pid` has entered.
pub fn has(d: &Domain, pid: u32) -> bool {
    // ORDER: pairs with `leave`.
    places(pid).any(|i| d.participant(i).load(Acquire) == pid)
}
