//! On one CPU: who has woken a reader hands the CPU over to it at once.
//!
//! The kernel lets the reader wait in part of the cases until the writer sleeps: two wakes of five (docs/adr/0017). A
//! lone wake is waited for, and its writer loses nothing that it would not lose a moment later; of a burst that
//! follows, all but the first are the kernel's.
//!
//! Invariant: one sched_yield(2) a write, after the write and outside of what an opener waits for; none within APART_US
//! of a thread's last, and none for 2^REST times as long as one that came back late took, twice as long each time that
//! another is late soon after: a busy thread that stays on the same CPU costs one yield in some seconds.
//! Not here: the same in assembly (preload, handover.rs); which writes those are (pass_through.rs); every other wait
//! (wait.rs).
use super::dear_until;
use crate::Caller;
use crate::channel::Channel;
use crate::policy::{self, per_us};
use byway_mem::layout::ThreadSlot;
use byway_sys::{clock, process};
use core::sync::atomic::Ordering::Relaxed;

/// From one to the next.
const APART_US: u64 = 50;
/// Whether there are any is asked so seldom: a thread that writes to several pipes in turn would ask at each write.
const ASKED_US: u64 = 10_000;
/// Longer than so many times that is late.
pub const LATE: u64 = 8;
/// No more for so many times as long, as a shift: at first.
pub const REST: u32 = 7;
/// No rest is longer than so many times from one to the next, as a shift: some seconds. One that says so is of another
/// clock, or of a thread that was stopped.
pub const LONGEST: u32 = 17;
/// Yields after which a late one is the first again. LINUX yield_task_fair: who yields gives up what was left of his
/// slice, so beside a busy thread a yield costs more than the time that it takes, and half of those that did not come
/// back late cost it later.
pub const CALM: u32 = 64;
/// A rest is no more often twice as long.
pub const DOUBLED: u32 = LONGEST - REST;

/// Cycles from one to the next; 0: none is made. So it is where calls move the bytes of `ch` themselves, for what such a
/// reader takes pays in long runs; where there is more than one CPU; and of a real-time thread, which the kernel lets go on
/// before all others of its priority: a yield would put it behind them. The last two may change, and are two calls.
pub fn apart(me: &Caller, ch: &Channel, k: &ThreadSlot) -> u32 {
    if !policy::outweighs(ch) {
        return 0;
    }
    let now = clock::now();
    if now.wrapping_sub(k.asked.load(Relaxed)) > ASKED_US * per_us(me) {
        k.asked.store(now, Relaxed);
        let yields = process::allowed_cpus() == 1 && process::is_time_shared();
        let apart = if yields { APART_US * per_us(me) } else { 0 };
        k.apart.store(apart as u32, Relaxed);
    }
    let apart = k.apart.load(Relaxed);
    if apart != 0 {
        // Where another wait's yield was dear, one of ours would be.
        let until = dear_until(me, clock::now_cpu().1).load(Relaxed);
        k.yields_from.fetch_max(until, Relaxed);
    }
    apart
}

/// After a write that may have woken a reader, by the thread whose place is `k`.
#[inline]
pub fn hand_over(k: &ThreadSlot, apart: u32) {
    let began = clock::now();
    let apart = u64::from(apart);
    let not_yet = k.yields_from.load(Relaxed).saturating_sub(began);
    if not_yet > 0 && not_yet <= apart << LONGEST {
        return;
    }
    process::yield_now();
    let now = clock::now();
    let took = now.wrapping_sub(began);
    let calm = k.calm.load(Relaxed);
    let rest = if took > LATE * apart {
        let late = match calm {
            0..CALM => k.late.load(Relaxed).saturating_add(1).min(DOUBLED),
            _ => 0,
        };
        k.late.store(late, Relaxed);
        k.calm.store(0, Relaxed);
        (took.min(apart << (LONGEST - REST)) << REST << late).min(apart << LONGEST)
    } else {
        k.calm.store(calm.wrapping_add(1), Relaxed);
        apart
    };
    k.yields_from.store(now.wrapping_add(rest), Relaxed);
}
