//! The writers' lock inside the tail, the owners inside the head, and what to do when an owner has died.
//!
//! Invariant: a lock is taken from another only after the kernel said that its owner is dead; then `handback::repair`
//! settles whatever it had begun before anything else happens.
//! Not here: what the lock protects.
use crate::channel::Channel;
use crate::spiller::is_at_work;
use crate::wait::late;
use crate::word::{Head, Tail};
use crate::{Caller, biased_lock};
use byway_sys::signal::Held;
use byway_sys::{clock, process};

/// One step of waiting for another thread: short pauses, then yields, then naps.
pub struct Patience {
    turns: u32,
}

impl Patience {
    /// Turns in which nobody sleeps.
    pub const SOON: u32 = 96;
    /// Turns that take longer than one who can run waits for a CPU on a busy machine: some 30 ms.
    pub const LONG: u32 = 513;

    pub fn new() -> Patience {
        Patience { turns: 0 }
    }
    /// Waits a little; true now and then, when it is worth asking whether the owner lives.
    pub fn wait(&mut self, me: &Caller) -> bool {
        self.turns += 1;
        match self.turns {
            n if n < 64 && me.cpus > 1 => clock::pause(),
            // The owner was preempted by this thread, which it woke.
            n if n < Self::SOON && me.cpus == 1 => late::lets_run(me),
            n if n < Self::SOON => process::yield_now(),
            _ => process::nap(50),
        }
        self.turns.is_multiple_of(32)
    }
    /// Whether it was `LONG`.
    pub fn is_over(&self) -> bool {
        self.turns >= Self::LONG
    }
    /// Turns so far.
    pub fn turns(&self) -> u32 {
        self.turns
    }
}

impl Default for Patience {
    fn default() -> Self {
        Self::new()
    }
}

/// The writers' lock was taken, and signals are held off until this is dropped: over what has more steps than one, a handler
/// that writes, or gives the channel back, would move the words.
#[must_use]
pub struct Taken {
    _signals: Option<Held>,
}

/// Takes the writers' lock, for what no handler may run over. `None` when `give_up` says so of a value of the tail.
pub fn take(me: &Caller, ch: &Channel, fd: usize, give_up: fn(Tail) -> bool) -> Option<Taken> {
    loop {
        enter(me, ch, fd, give_up)?;
        let held = me.hold_signals();
        // Else a handler that came in between has dropped it.
        if held.is_none() || ch.tail().lock_owner() == me.tid {
            return Some(Taken { _signals: held });
        }
    }
}

/// One try of [`take`], if the tail is still `t`, where nobody has the lock.
pub fn try_take(me: &Caller, ch: &Channel, t: Tail) -> Option<Taken> {
    let held = me.hold_signals();
    ch.cas_tail(t, t.with_lock(me.tid)).ok()?;
    biased_lock::evict(me, ch, t);
    Some(Taken { _signals: held })
}

/// Takes the writers' lock. `None` when `give_up` says so of a value of the tail.
///
/// A thread that finds itself the owner is a signal handler that interrupted its own write: it goes on as owner, and
/// the interrupted write notices, because nothing it does holds but while the tail is what it was.
#[inline]
pub fn enter(me: &Caller, ch: &Channel, fd: usize, give_up: fn(Tail) -> bool) -> Option<()> {
    let t = ch.tail();
    if t.lock_owner() == 0 && !give_up(t) && take_free(me, ch, t) {
        return Some(());
    }
    take_from_another(me, ch, fd, give_up)
}

/// Takes the lock, which nobody has, by a CAS from `t`; a bias owner has left when this is true.
#[inline]
fn take_free(me: &Caller, ch: &Channel, t: Tail) -> bool {
    // A handler that came before the bias owner has left would find the lock its own, and write where the bias owner
    // still copies.
    let _held = match t.bias_owner() {
        0 => None,
        _ => me.hold_signals(),
    };
    let taken = ch.cas_tail(t, t.with_lock(me.tid)).is_ok();
    if taken {
        biased_lock::revoke(me, ch, t);
    }
    taken
}

#[cold]
fn take_from_another(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    give_up: fn(Tail) -> bool,
) -> Option<()> {
    let mut p = Patience::new();
    loop {
        let t = ch.tail();
        if give_up(t) {
            return None;
        }
        let owner = t.lock_owner();
        if owner == me.tid {
            return Some(());
        }
        if owner == 0 {
            if take_free(me, ch, t) {
                return Some(());
            }
            continue;
        }
        // By a descriptor that is another file's by now nothing can be settled.
        if p.wait(me) && process::is_dead(owner) && ch.is_behind(fd) {
            let _held = me.hold_signals();
            // WOKEN is cleared: the dead owner may have set it and not woken.
            let mine = t.with_lock(me.tid).without(Tail::WOKEN);
            if ch.cas_tail(t, mine).is_ok() {
                // It may have died before it had waited for a bias owner.
                biased_lock::evict_all(me, ch);
                ch.offer().end();
                crate::handback::repair(me, ch, fd);
                if ch.tail().lock_owner() == me.tid {
                    return Some(());
                }
            }
        }
    }
}

/// Drops the writers' lock if this thread still has it.
pub fn unlock(me: &Caller, ch: &Channel) {
    let mut t = ch.tail();
    while t.lock_owner() == me.tid {
        match ch.cas_tail(t, t.with_lock(0)) {
            Ok(()) => return,
            Err(now) => t = now,
        }
    }
}

/// Waits until nobody has the writers' lock, or a spiller that lives, and settles what an owner that died has begun.
pub fn settle(me: &Caller, ch: &Channel, fd: usize) {
    if enter(me, ch, fd, |t| t.lock_owner() == 0 || is_at_work(t)).is_some() {
        unlock(me, ch);
    }
}

/// Takes the readers' side with `bit` (READS_LANE or SPILLS), waiting for another owner. Returns the head.
pub fn hold(me: &Caller, ch: &Channel, bit: u64) -> u64 {
    let mut p = Patience::new();
    loop {
        let h = ch.head();
        let free = !h.held() || h.owner() == me.tid;
        if (free || (p.wait(me) && process::is_dead(h.owner())))
            && ch.cas_head(h, Head::owned(h.position(), me.tid, bit))
        {
            return h.position();
        }
    }
}

/// One try of [`hold`], only while the head is `r`.
pub fn try_hold(me: &Caller, ch: &Channel, r: u64, bit: u64) -> bool {
    let h = ch.head();
    !h.held() && h.position() == r && ch.cas_head(h, Head::owned(r, me.tid, bit))
}

/// Gives the readers' side back at position `r`.
pub fn release(me: &Caller, ch: &Channel, r: u64) {
    let h = ch.head();
    if h.held() && h.owner() == me.tid {
        ch.cas_head(h, Head::free(r));
    }
}
