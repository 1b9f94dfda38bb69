//! Whether a writer's reader is still there, and the service that watches a run's FIFOs: when to ask the kernel.
//!
//! Invariant: a writer asks at most every 50 us, and at once when somebody in the domain closed an end, ended, or
//! reaped a child. So it writes in vain for 50 us at most after the last reader was killed unseen. A poller that finds bytes
//! asks as often whether there is a writer still.
//! Not here: the question itself (lane.rs), and what follows from the answer (write.rs).
use crate::Caller;
use crate::channel::Channel;
use crate::policy::per_us;
use byway_mem::layout::flags::NO_FIFO;
use byway_sys::{clock, process, rseq};
use core::sync::atomic::Ordering::Relaxed;

/// A writer asks the kernel whether its reader is there when it has not done so for this long.
const LOOK_US: u64 = 50;
/// Of `since`: on average so little went by from write to write that only one in so many looks at the clock.
const OFTEN: u32 = 1 << 31;
const UNTIMED: u32 = 64;
const WRITES_PER_US: u64 = 4;

/// Whether what the kernel said of a pipe's ends at cycle `at`, when the domain's epoch was `epoch`, may have changed in a way
/// that its user can know.
pub fn may_have_ended(me: &Caller, epoch: u32, at: u64) -> bool {
    me.domain.header().death_epoch.load(Relaxed) != epoch
        || clock::now().wrapping_sub(at) > LOOK_US * per_us(me)
}

/// Whether nobody watches any more who opens FIFOs: the service has ended, or was killed (asked every 10 ms).
pub fn unwatched(me: &Caller) -> bool {
    let h = me.domain.header();
    let (now, next) = (clock::now(), h.service_look.load(Relaxed));
    let wait = 10_000 * per_us(me);
    if now >= next || next - now > 2 * wait {
        h.service_look.store(now + wait, Relaxed);
        if process::is_gone(h.creator.load(Relaxed)) {
            h.flags.fetch_or(NO_FIFO, Relaxed);
        }
    }
    h.flags.load(Relaxed) & NO_FIFO != 0
}

/// What `look_again` would say. The clock takes as long as a short write does otherwise. So a thread that has written
/// often since the last look goes by it, a few times, if it has not lost its CPU meanwhile: who waited for news, or was
/// told some, has.
#[inline]
pub fn is_look_due(me: &Caller, ch: &Channel) -> bool {
    let (w, head) = (&ch.writer.0, me.domain.header());
    if w.epoch.load(Relaxed) != head.death_epoch.load(Relaxed) {
        return true;
    }
    let since = w.since.load(Relaxed);
    let area = if me.rseq { rseq::area() } else { None };
    if since & OFTEN != 0 && !since.is_multiple_of(UNTIMED) && area.is_some_and(|a| a.is_marked()) {
        w.since.store(since.wrapping_add(1), Relaxed);
        return false;
    }
    let spent = clock::now().wrapping_sub(w.looked.load(Relaxed));
    if spent > LOOK_US * per_us(me) {
        return true;
    }
    let writes = (since & !OFTEN) + 1;
    match area {
        Some(a) if WRITES_PER_US * spent < u64::from(writes) * per_us(me) => {
            a.mark();
            w.since.store(writes | OFTEN, Relaxed);
        }
        _ => w.since.store(writes, Relaxed),
    }
    false
}

/// Whether a writer should ask the kernel if its last reader has gone: at most every 50 us, and at once when
/// somebody in the domain closed a read end, ended, or reaped a child.
pub fn look_again(me: &Caller, ch: &Channel) -> bool {
    let due = is_look_due(me, ch);
    if due {
        looks(me, ch);
    }
    due
}

/// The look comes now: what happens from here on is the next one's to tell.
pub fn looks(me: &Caller, ch: &Channel) {
    let w = &ch.writer.0;
    let epoch = me.domain.header().death_epoch.load(Relaxed);
    w.epoch.store(epoch, Relaxed);
    w.looked.store(clock::now(), Relaxed);
    w.since.store(0, Relaxed);
    // A thread seldom changes its CPU, and to ask for it takes as long as the clock.
    ch.m.0.writer_cpu.set(clock::now_cpu().1);
}

/// What the look told is for another to find: it is due again.
pub fn looks_in_vain(ch: &Channel) {
    ch.writer.0.looked.store(0, Relaxed);
}
