//! A call of the kernel's on a channel whose ring was left, without a word that changes.
//!
//! ```text
//! caller:  passing := slot;  tail = PASS_THROUGH?  its own read(2), or write(2) of little;  passing := 0
//! opener:  tail: PASS_THROUGH taken away;  a few writes later: the lock;  barrier;  is anybody still in such a call?  opens
//! ```
//! A channel that is the kernel's counts in the tail who is in a call on it, so that nobody opens it under one who
//! sleeps there. Where its ring brought nothing (`policy::on_wake`) each call meets cold caches, and the tail's line
//! comes from the other CPU. So the tail says PASS_THROUGH there, and a thread says in its own line that it is in a
//! call. So it is where calls such as splice(2) move the bytes themselves (`enters`, ADR 47), and mark nothing then.
//!
//! Invariant: PASS_THROUGH is set only where the channel is closed and nobody has the writers' lock, and only who takes
//! it away, or later, opens it; nobody opens a channel on which a living thread is in a pass-through call. A thread is
//! in one such call at a time: a handler that comes over it is counted in the tail.
//! Not here: when a ring is left (policy.rs), the call itself; the library's way here, in assembly, does what `read`
//! and `write` do (preload, entry.rs).
use crate::biased_lock::{self, number};
use crate::channel::Channel;
use crate::policy::Leave;
use crate::reason::Reason;
use crate::{Caller, handback, tcp, wait};
use byway_mem::domain::Domain;
use byway_mem::layout::{THREAD_SLOTS, ThreadSlot};
use byway_sys::errno::Ret;
use byway_sys::{barrier, process};
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{Ordering::SeqCst, compiler_fence};

/// Pass-through writes that a thread may make until one is counted, with those before it.
pub const WRITES: u32 = 64;

/// Longer writes are worth a ring, whoever else wants the CPU: each is counted.
pub const MOST: usize = 24 * 1024;

/// Inside a call of the kernel's, until it is dropped.
pub struct Inside(Found);

impl Inside {
    /// Of a write: it is over, and `n` is what it said. On one CPU whom it woke has the CPU now.
    #[inline]
    pub fn wrote(self, n: Ret) {
        let Found { slot, apart, .. } = self.0;
        drop(self);
        if apart != 0 && n > 0 {
            wait::hand_over(slot, apart);
        }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        // EDGE E9: what the call did comes before its end.
        self.0.slot.passing.store(0, Release);
    }
}

/// What an end's last pass-through call found out, for its next one: the thread's own line, where the tail stands, and
/// the channel's number. After a sleep each line on the way there is one more to wait for.
#[derive(Clone, Copy)]
pub struct Shortcut(Option<Found>);

#[derive(Clone, Copy)]
struct Found {
    slot: &'static ThreadSlot,
    channel: &'static Channel,
    number: u32,
    /// Of writes, as wait/handover.rs has it.
    apart: u32,
}

impl Shortcut {
    /// None.
    pub const NONE: Shortcut = Shortcut(None);

    /// Whether it may hold.
    #[inline]
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

impl Found {
    fn by(me: &Caller, channel: &'static Channel, writes: bool) -> Option<Found> {
        let slot = place(me)?;
        Some(Found {
            slot,
            channel,
            number: number(me, channel),
            // A reader wakes nobody, and need not ask the kernel.
            apart: if writes {
                wait::apart(me, channel, slot)
            } else {
                0
            },
        })
    }
}

/// Whether the caller may make its own read(2) now: it is inside until the result is dropped.
#[inline]
pub fn read(me: &Caller, ch: &'static Channel, shortcut: &mut Shortcut) -> Option<Inside> {
    if shortcut.0.is_none() && ch.tail().passes_through() {
        shortcut.0 = Found::by(me, ch, false);
    }
    read_again(me.tid, shortcut)
}

/// The same of an end whose last read passed through. To be asked first: elsewhere it looks at nothing.
#[inline]
pub fn read_again(tid: u32, shortcut: &mut Shortcut) -> Option<Inside> {
    let inside = enter(tid, shortcut.0?);
    if inside.is_none() {
        *shortcut = Shortcut::NONE;
    }
    inside
}

/// As `read`, for a write(2) of `n` bytes. Who is told EAGAIN sets `full`, as `write::finish` does.
#[inline]
pub fn write(
    me: &Caller,
    ch: &'static Channel,
    n: usize,
    shortcut: &mut Shortcut,
) -> Option<Inside> {
    // Elsewhere the tail, which a reader polls, is not looked at for this.
    let may = n <= MOST && ch.writer.0.native_ops.load(Relaxed) != 0;
    if may && shortcut.0.is_none() && ch.tail().passes_through() {
        shortcut.0 = Found::by(me, ch, true);
    }
    write_again(me.tid, n, shortcut)
}

/// As `read_again`.
#[inline]
pub fn write_again(tid: u32, n: usize, shortcut: &mut Shortcut) -> Option<Inside> {
    let k = shortcut.0?.slot;
    let made = k.writes.load(Relaxed);
    if k.tid.load(Relaxed) != tid || n > MOST || made >= WRITES {
        *shortcut = Shortcut::NONE;
        return None;
    }
    k.writes.store(made + 1, Relaxed);
    read_again(tid, shortcut)
}

/// Whether the caller may make another call that moves bytes now: it is inside until `ends`.
pub fn enters(me: &Caller, ch: &'static Channel) -> bool {
    let found = ch.tail().passes_through().then(|| Found::by(me, ch, false));
    let inside = found.flatten().and_then(|found| enter(me.tid, found));
    inside.map(core::mem::forget).is_some()
}

/// Ends that call of thread `tid`.
pub fn ends(d: Domain, tid: u32) {
    // EDGE E9: as above.
    d.thread_slot(tid).passing.store(0, Release);
}

#[inline]
fn enter(tid: u32, found: Found) -> Option<Inside> {
    let k = found.slot;
    // Another's: the cursor came over a fork, or with its end from another thread. Not 0: a handler over such a call.
    if k.tid.load(Relaxed) != tid || k.passing.load(Relaxed) != 0 {
        return None;
    }
    k.passing.store(found.number, Relaxed);
    // EDGE E9: said before the look; between CPUs the opener's barrier sees to it.
    compiler_fence(SeqCst);
    let inside = Inside(found);
    found.channel.tail().passes_through().then_some(inside)
}

/// The calling thread's place, if barriers reach it.
#[inline]
pub fn place(me: &Caller) -> Option<&'static ThreadSlot> {
    let k = me.domain.thread_slot(me.tid);
    (me.has_barriers && (k.tid.load(Relaxed) == me.tid || biased_lock::claim_slot(me))).then_some(k)
}

/// The thread's writes that were not counted until now.
pub(crate) fn uncounted(me: &Caller) -> u64 {
    place(me).map_or(0, |k| u64::from(k.writes.swap(0, Relaxed).min(WRITES)))
}

/// What the calling thread's place says is of one who had its id before: it makes its first call.
pub fn begin(d: Domain, tid: u32) {
    let k = d.thread_slot(tid);
    if k.tid.load(Relaxed) == tid {
        k.passing.store(0, Relaxed);
    }
}

/// Gives the channel back, for its ring brings nothing.
pub fn leave(me: &Caller, ch: &Channel, fd: usize, how: Leave) {
    handback::hand_back(me, ch, fd, how == Leave::ForGood, Reason::Cold);
    if how == Leave::ForGood {
        // For `--explain`: nobody counts the kernel's calls any more.
        ch.facts.0.passed.store(1, Relaxed);
        if ch.is_tcp() {
            tcp::leaves(me, ch, fd);
        }
    }
    begins(ch);
}

/// The calls on `ch`, which is closed, need not be counted.
pub fn begins(ch: &Channel) {
    if ch.rules().passes_through {
        ch.passes_through();
    }
}

/// Under the writers' lock of a closed channel that is not PASS_THROUGH any more: whether somebody may still be in a
/// call that the tail does not count.
pub(crate) fn is_somebody_inside(me: &Caller, ch: &Channel) -> bool {
    if ch.facts.0.passing.load(Relaxed) == 0 {
        return false;
    }
    // EDGE E9: PASS_THROUGH was taken away before the looks at the places.
    barrier::everywhere();
    let here = number(me, ch);
    let inside = (0..THREAD_SLOTS as u32).any(|place| {
        let k = me.domain.thread_slot(place);
        k.passing.load(Relaxed) == here && !process::is_dead(k.tid.load(Relaxed))
    });
    if !inside {
        ch.facts.0.passing.store(0, Relaxed);
    }
    inside
}
