//! On one CPU: who has woken a reader hands the CPU over to it at once.
//!
//! The kernel lets the reader wait in part of the cases until the writer sleeps: two wakes of five (docs/adr/0017). A lone wake is waited for,
//! and its writer loses nothing that it would not lose a moment later; of a burst that follows, all but the first are the kernel's.
//!
//! Invariant: one sched_yield(2) a write, after the write and outside of what an opener waits for; none within APART_US of the last, and
//! none for REST times as long as one that came back late took: a stranger on the same CPU has one part in 128 of the time.
//! Not here: the same in assembly (preload, entry.rs); which writes those are (quiet.rs); every other wait (policy.rs).
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

/// Cycles from one to the next; 0: there is more than one CPU, and none is made.
pub fn apart(me: &Me) -> u32 {
    match me.cpus {
        1 => (APART_US * per_us(me)) as u32,
        _ => 0,
    }
}

/// After a write that may have woken a reader, by the thread whose place is `k`.
#[inline]
pub fn hand_over(k: &Keeper, apart: u32) {
    let began = clock::now();
    if began < k.yields_from.load(Relaxed) {
        return;
    }
    process::yield_now();
    let now = clock::now();
    let (took, apart) = (now.wrapping_sub(began), u64::from(apart));
    let rest = if took > LATE * apart {
        took << REST
    } else {
        apart
    };
    k.yields_from.store(now.wrapping_add(rest), Relaxed);
}
