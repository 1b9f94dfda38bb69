//! The writers' lock, biased to a thread that has long been a channel's only writer: it comes in and leaves by a store.
//!
//! ```text
//! bias owner:   inside := channel;  biased_tail = t?  copy;  biased_tail := t';  CAS tail: t -> t', tail + n (else biased_tail := 0);  inside := 0
//! another:  CAS tail: the lock is mine;  biased_tail := 0;  barrier;  wait until the bias owner is not inside     (its CAS fails from now on)
//! ```
//! `biased_tail` is the tail as the bias owner left it, on the writers' own line: the tail's is the readers', who look at it
//! all the time, and to fetch it twice would take as long as the message itself.
//!
//! Invariant: while the tail says BIASED the channel is open, and the kernel lane's place is not set. A reader may arm:
//! that leaves BIASED, and keeps the bias owner out, for the tail is not what it remembers. The bias owner does nothing
//! but copy behind the tail and publish that by a CAS from the very tail that it remembers. What `biased_tail` says is the
//! tail, or what the CAS that follows makes of it, or the tail's lock is another's, who takes it away before anything
//! else. To everyone who does not take the lock a biased one is free.
//! Not here: when it pays (policy.rs), the write (fast_path.rs), the barrier (crate sys).
use crate::channel::Channel;
use crate::cursor::WriteCursor;
use crate::lock::Patience;
use crate::word::Tail;
use crate::{Caller, policy};
use byway_mem::layout::{THREAD_SLOTS, ThreadSlot};
use byway_sys::{barrier, process};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// The value of `inside`, and of `passing`, that names `ch`.
#[inline]
pub fn number(me: &Caller, ch: &Channel) -> u32 {
    me.domain.slot_of(ch as *const Channel as usize) + 1
}

/// The calling thread's place, for a bias. False: another living thread has it.
pub fn claim_slot(me: &Caller) -> bool {
    let k = me.domain.thread_slot(me.tid);
    let now = k.tid.load(Relaxed);
    if now == me.tid {
        // Ours, or of one who had our id and died, perhaps inside.
        k.inside.store(0, Relaxed);
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
        k.passing.store(0, Relaxed);
        k.writes.store(0, Relaxed);
        k.wrote.store(0, Relaxed);
        k.yields_from.store(0, Relaxed);
        k.calm.store(0, Relaxed);
        k.late.store(0, Relaxed);
        k.asked.store(0, Relaxed);
    }
    ours
}

/// Inside a write, until it is dropped.
pub struct Inside(&'static ThreadSlot);

/// The tail, if the calling thread holds the bias and nobody has asked for it.
#[inline]
pub fn biased_tail(me: &Caller, ch: &Channel) -> Option<Tail> {
    let t = Tail(ch.writer.0.biased_tail.load(Relaxed));
    t.is_biased_to(me.tid).then_some(t)
}

/// The tail is about to become `t`: to be remembered, if it is biased then. Under the lock, or inside.
#[inline]
pub fn remember(ch: &Channel, t: Tail) {
    if t.bias_owner() != 0 {
        // EDGE E7: before the CAS on the tail, and so before whoever takes the lock after it takes this away.
        ch.writer.0.biased_tail.store(t.0, Relaxed);
    }
}

/// The tail did not become what was remembered, or its lock was taken.
#[inline]
pub fn forget(ch: &Channel) {
    ch.writer.0.biased_tail.store(0, Relaxed);
}

/// Comes in, and what the tail is. `None`: this thread does not hold the bias any more.
#[inline]
pub fn enter(me: &Caller, ch: &Channel) -> Option<(Inside, Tail)> {
    let k = me.domain.thread_slot(me.tid);
    if k.tid.load(Relaxed) != me.tid {
        // The tail speaks of one who had our id and died, and whose place another has since.
        return None;
    }
    k.inside.store(number(me, ch), Relaxed);
    // EDGE E7: said before the look; between CPUs the other's barrier sees to it.
    compiler_fence(SeqCst);
    let inside = Inside(k);
    Some((inside, biased_tail(me, ch)?))
}

/// Comes in as one who was here last.
#[inline]
pub(crate) fn enter_again(ch: &Channel, cursor: &WriteCursor) -> Option<Inside> {
    let k = cursor.slot?;
    k.wrote.store(cursor.number, Relaxed);
    k.inside.store(cursor.number, Relaxed);
    // EDGE E7: as above.
    compiler_fence(SeqCst);
    let inside = Inside(k);
    (ch.writer.0.biased_tail.load(Relaxed) == cursor.t.0).then_some(inside)
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // EDGE E7: what was copied comes before.
        self.0.inside.store(0, Release);
    }
}

/// The lock was taken by a CAS from `t`: its bias owner has left when this returns. True if that was another living thread.
#[inline]
pub fn evict(me: &Caller, ch: &Channel, t: Tail) -> bool {
    if t.bias_owner() == 0 {
        return false;
    }
    forget(ch);
    let lives = t.bias_owner() != me.tid && wait(me, ch, t.bias_owner());
    // One that was killed between `biased_tail` and its CAS has left there what the tail was to be.
    forget(ch);
    lives
}

/// As [`evict`], by one who wants to write, or to give the channel back: the next bias is to come later.
#[inline]
pub fn revoke(me: &Caller, ch: &Channel, t: Tail) {
    if evict(me, ch, t) {
        policy::on_revoke(&ch.writer);
    }
}

/// False: it is dead.
#[cold]
fn wait(me: &Caller, ch: &Channel, owner: u32) -> bool {
    if process::is_dead(owner) {
        return false;
    }
    // EDGE E7: our CAS on the tail, and what was taken away, before the looks at `inside`.
    barrier::everywhere();
    wait_for(me, ch, owner);
    true
}

/// Each that holds, or held, a bias has left when this returns.
#[cold]
pub fn evict_all(me: &Caller, ch: &Channel) {
    forget(ch);
    // EDGE E7: as above.
    barrier::everywhere();
    for place in 0..THREAD_SLOTS as u32 {
        let owner = me.domain.thread_slot(place).tid.load(Relaxed);
        if owner != 0 && owner != me.tid {
            wait_for(me, ch, owner);
        }
    }
    // As in `leave`.
    forget(ch);
}

fn wait_for(me: &Caller, ch: &Channel, owner: u32) {
    let (k, mut p) = (me.domain.thread_slot(owner), Patience::new());
    // EDGE E7: its copy comes before ours. A place that another has now was a dead one's.
    let here = number(me, ch);
    while k.inside.load(Acquire) == here && k.tid.load(Relaxed) == owner {
        if p.wait(me) && process::is_dead(owner) {
            // RELAXED: that nobody waits for whoever has its id next.
            let _ = k.inside.compare_exchange(here, 0, Relaxed, Relaxed);
            return;
        }
    }
}
