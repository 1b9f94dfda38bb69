//! Whether another program wants the one CPU that this process may run on: its sleeps end late.
//!
//! LINUX 6.18, yield_task_fair: a yield gives up the rest of the slice. Where another program wants the CPU that is paid later, at some
//! sleep, and the yield itself looks cheap. So one who waits there for the owner of a lock naps instead. A nap takes
//! longer than a yield where nobody else is there.
//! Invariant: process-local; a wrong answer costs time, and never a byte.
//! Not here: yields that were dear by themselves (wait.rs).
use crate::Caller;
use crate::policy::per_us;
use byway_sys::clock;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sleep of so long ended late, or was for something slow: then nobody loses by a nap.
const LATE_US: u64 = 1000;
/// Two of them within so long count, for as long again. One alone is a start, or a disk.
const COUNTS_US: u64 = 32_000;

static ASLEEP: AtomicU64 = AtomicU64::new(0);
static UNTIL: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);

/// A thread is about to sleep, at cycle `now`.
pub fn sleeps(me: &Caller, now: u64) {
    if me.cpus == 1 {
        ASLEEP.store(now, Relaxed);
    }
}

/// It has come back.
pub fn returns(me: &Caller) {
    if me.cpus != 1 {
        return;
    }
    let (now, us) = (clock::now(), per_us(me));
    if now.wrapping_sub(ASLEEP.load(Relaxed)) > LATE_US * us
        && now.wrapping_sub(LAST.swap(now, Relaxed)) < COUNTS_US * us
    {
        UNTIL.store(now + COUNTS_US * us, Relaxed);
    }
}

/// Whether a sleep has ended late of late.
pub fn is_late() -> bool {
    clock::now() < UNTIL.load(Relaxed)
}
