//! The writers' lock, kept by a thread that has long been a channel's only writer: it comes in and leaves by a store.
//!
//! ```text
//! keeper:   inside := channel;  T still kept by us?  copy;  CAS T: W + n;  inside := 0
//! another:  CAS T: the lock is mine;  barrier;  wait until the keeper is not inside      (its CAS fails from now on)
//! ```
//! Invariant: while T says KEPT the channel is open, nobody sleeps in a read, and K's place is not set; its keeper does nothing
//! but copy behind W and publish that by a CAS from the very T that it saw after it said "inside". To everyone who does not
//! take the lock a kept one is free.
//! Not here: when it pays (policy.rs), the write (quick.rs), the barrier (crate sys).
use crate::channel::Channel;
use crate::lock::Patience;
use crate::word::T;
use crate::{Me, policy};
use byway_mem::layout::{KEEPERS, Keeper};
use byway_sys::{barrier, process};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// The value of `inside` that names `ch`.
fn number(me: &Me, ch: &Channel) -> u32 {
    me.domain.slot_of(ch as *const Channel as usize) + 1
}

/// The calling thread's place, for a lock to be kept. False: another living thread has it.
pub fn place(me: &Me) -> bool {
    let k = me.domain.keeper(me.tid);
    let now = k.tid.load(Relaxed);
    if now == me.tid {
        return true;
    }
    if now != 0 && !process::is_dead(now) {
        return false;
    }
    // RELAXED: nothing is read by it. The dead one may have died inside.
    let ours = k
        .tid
        .compare_exchange(now, me.tid, Relaxed, Relaxed)
        .is_ok();
    if ours {
        k.inside.store(0, Relaxed);
    }
    ours
}

/// Inside a write, until it is dropped.
pub struct Inside(&'static Keeper);

/// Comes in where T is `t`, which says that this thread keeps the lock. `None`: it does not any more.
#[inline]
pub fn enter(me: &Me, ch: &Channel, t: T) -> Option<Inside> {
    let k = me.domain.keeper(me.tid);
    k.inside.store(number(me, ch), Relaxed);
    // EDGE E7: said before the look; between CPUs the other's barrier sees to it.
    compiler_fence(SeqCst);
    let inside = Inside(k);
    (ch.t() == t).then_some(inside)
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // EDGE E7: what was copied comes before.
        self.0.inside.store(0, Release);
    }
}

/// The lock was taken by a CAS from `t`: whoever kept it has left when this returns.
#[inline]
pub fn leave(me: &Me, ch: &Channel, t: T) {
    if t.keeper() != 0 && t.keeper() != me.tid {
        wait(me, ch, t.keeper());
    }
}

/// As [`leave`], by one who wants to write, or to give the channel back: it is to be kept less soon.
#[inline]
pub fn revoke(me: &Me, ch: &Channel, t: T) {
    if t.keeper() != 0 && t.keeper() != me.tid {
        policy::revoked(&ch.writer);
        wait(me, ch, t.keeper());
    }
}

#[cold]
fn wait(me: &Me, ch: &Channel, keeper: u32) {
    if process::is_dead(keeper) {
        return;
    }
    // EDGE E7: our CAS on T before the looks at `inside`.
    barrier::everywhere();
    wait_for(me, ch, keeper);
}

/// Whoever keeps, or kept, the lock has left when this returns.
#[cold]
pub fn leave_all(me: &Me, ch: &Channel) {
    // EDGE E7: as above.
    barrier::everywhere();
    for place in 0..KEEPERS as u32 {
        let keeper = me.domain.keeper(place).tid.load(Relaxed);
        if keeper != 0 && keeper != me.tid {
            wait_for(me, ch, keeper);
        }
    }
}

fn wait_for(me: &Me, ch: &Channel, keeper: u32) {
    let (k, mut p) = (me.domain.keeper(keeper), Patience::new());
    // EDGE E7: its copy comes before ours. A place that another has now was a dead one's.
    while k.inside.load(Acquire) == number(me, ch) && k.tid.load(Relaxed) == keeper {
        if p.wait(me.cpus) && process::is_dead(keeper) {
            return;
        }
    }
}
