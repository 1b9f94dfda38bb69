//! On one CPU: who has woken a reader hands the CPU over to it at once.
//!
//! The kernel lets the reader wait in part of the cases until the writer sleeps: two wakes of five (docs/adr/0017). A lone wake is waited for,
//! and its writer loses nothing that it would not lose a moment later; of a burst that follows, all but the first are the kernel's.
//!
//! Invariant: one sched_yield(2) a write, after the write and outside of what an opener waits for; none within APART_US of a thread's last,
//! and none for REST times as long as one that came back late took: strangers on the same CPU have one part in 128 of its time.
//! Not here: the same in assembly (preload, handover.rs); which writes those are (quiet.rs); every other wait (policy.rs).
use super::per_us;
use crate::Me;
use byway_mem::layout::Keeper;
use byway_sys::{clock, process};
use core::sync::atomic::Ordering::Relaxed;

/// From one to the next.
const APART_US: u64 = 50;
/// Longer than so many times that is late.
pub const LATE: u64 = 8;
/// No more for so many times as long, as a shift.
pub const REST: u32 = 7;
/// No rest is longer than so many times from one to the next, as a shift: some seconds. One that says so is of another clock, or of a
/// thread that was stopped.
pub const LONGEST: u32 = 17;

/// Cycles from one to the next; 0: none is made, for there is more than one CPU, or the thread is a real-time one, which the kernel lets
/// go on before all others of its priority: a yield would put it behind them. Asked anew each time, seldom enough: both may change.
pub fn apart(me: &Me) -> u32 {
    if process::allowed_cpus() == 1 && process::is_time_shared() {
        (APART_US * per_us(me)) as u32
    } else {
        0
    }
}

/// After a write that may have woken a reader, by the thread whose place is `k`.
#[inline]
pub fn hand_over(k: &Keeper, apart: u32) {
    let began = clock::now();
    let apart = u64::from(apart);
    let not_yet = k.yields_from.load(Relaxed).saturating_sub(began);
    if not_yet > 0 && not_yet <= apart << LONGEST {
        return;
    }
    process::yield_now();
    let now = clock::now();
    let took = now.wrapping_sub(began);
    let rest = if took > LATE * apart {
        took.min(apart << (LONGEST - REST)) << REST
    } else {
        apart
    };
    k.yields_from.store(now.wrapping_add(rest), Relaxed);
}
