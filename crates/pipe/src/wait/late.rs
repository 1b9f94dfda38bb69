//! Whether another program wants the one CPU that this process may run on, or a peer that never sleeps keeps it.
//!
//! LINUX 6.18, yield_task_fair: a yield gives up the rest of the slice. Where another program wants the CPU that is paid
//! later, at some sleep, and the yield itself looks cheap. So a waiter for a lock naps there instead. A
//! nap takes longer than a yield where nobody else is there, and longer still where the pipe's own programs compute.
//! Invariant: a wrong answer costs time, and never a byte.
//! Not here: the yield of a wait for bytes or room, and what it is to cost (wait.rs).
use crate::Caller;
use crate::policy::per_us;
use byway_mem::layout::Share;
use byway_sys::{clock, process};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A sleep of so long ended late, or was for something slow.
const LATE_US: u64 = 1000;
/// Two of them within so long count, for as long again. One alone is a start, or a disk.
const COUNTS_US: u64 = 32_000;
/// What participants have of the CPU is added up over such spans. Each process adds its own once in `ADDS_US`.
const SPAN_US: u64 = 64_000;
const ADDS_US: u64 = 1000;
/// So many spans in a row must say so: in the first one programs start.
const FEW: u64 = 2;

static ASLEEP: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);
static UNTIL: AtomicU64 = AtomicU64::new(0);
/// Of this process: the cycle at which it was last added, and its CPU time then.
static ADDED: AtomicU64 = AtomicU64::new(0);
static USED: AtomicU64 = AtomicU64::new(0);

/// A thread is about to sleep.
pub fn sleeps(me: &Caller) {
    if me.cpus != 1 {
        return;
    }
    let (now, cpu) = clock::now_cpu();
    ASLEEP.store(now, Relaxed);
    let us = per_us(me);
    if now.wrapping_sub(ADDED.load(Relaxed)) < ADDS_US * us {
        return;
    }
    ADDED.store(now, Relaxed);
    let used = process::cpu_us();
    let more = used.wrapping_sub(USED.swap(used, Relaxed));
    let all = &me.domain.header().shares;
    add(&all[cpu as usize % all.len()], more, now, us);
}

/// A participant has had `more` of the CPU, us.
fn add(share: &Share, more: u64, now: u64, us: u64) {
    let used = share.used.fetch_add(more, Relaxed) + more;
    let since = share.since.load(Relaxed);
    let span = now.wrapping_sub(since) / us;
    if span < SPAN_US {
        return;
    }
    // Of two that come here at once one begins the next span.
    if share
        .since
        .compare_exchange(since, now, Relaxed, Relaxed)
        .is_ok()
    {
        let had = used.wrapping_sub(share.used_before.swap(used, Relaxed));
        // After a rest the span says nothing.
        let others = span < 2 * SPAN_US && had < span / 4 * 3;
        let spans = share.others.load(Relaxed).min(FEW) + 1;
        share.others.store(if others { spans } else { 0 }, Relaxed);
    }
}

/// It has come back.
pub fn returns(me: &Caller) {
    if me.cpus != 1 {
        return;
    }
    let ((now, cpu), us) = (clock::now_cpu(), per_us(me));
    // 0: a call of the kernel's that was made at once.
    let since = ASLEEP.swap(0, Relaxed);
    if since == 0 || now.wrapping_sub(since) <= LATE_US * us {
        return;
    }
    let again = now.wrapping_sub(LAST.swap(now, Relaxed)) < COUNTS_US * us;
    let all = &me.domain.header().shares;
    if again && all[cpu as usize % all.len()].others.load(Relaxed) >= FEW {
        UNTIL.store(now + COUNTS_US * us, Relaxed);
    }
}

/// Lets the owner of a lock run, on one CPU: a yield, or a nap where sleeps or yields have ended late of late.
#[inline(never)] // A handler's stack may be small.
pub fn lets_run(me: &Caller) {
    let before = clock::now();
    if before < UNTIL.load(Relaxed) {
        return process::nap(1);
    }
    process::yield_now();
    let (now, us) = (clock::now(), per_us(me));
    // LINUX a thread that yields is not woken: an owner that goes on, and never sleeps, keeps the CPU for its slice.
    if now.wrapping_sub(before) > LATE_US * us {
        UNTIL.store(now + COUNTS_US * us, Relaxed);
    }
}
