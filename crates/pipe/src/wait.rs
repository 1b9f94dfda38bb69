//! Waiting awake, before a sleep in the kernel: spins and yields.
//!
//! Invariant: a spin is bounded, and happens only while the peer last ran on another CPU. A yield happens once per
//! wait, where it has helped before, and is backed off for the whole domain where it proved dear. So no wait takes a
//! CPU from one who could end it. A handler that would end the call, were it asleep in the kernel, does not run over an
//! awake wait: it runs behind it, and the wait says so.
//! Not here: how to sleep (that is the caller's own call in the kernel); the reader's pause for more to come
//! (wait/batch.rs); the yield of a writer that woke a reader on one CPU, which has bounds of its own
//! (wait/handover.rs).
use crate::Caller;
use crate::channel::{Channel, PIPE_BUF};
use crate::lock::Patience;
use crate::policy::{ROOM, Score, lines_come_when_asked, per_us};
use crate::word::Tail;
use byway_mem::layout::flags::NO_SPIN;
use byway_mem::reclaim;
use byway_sys::signal::{Enders, Held};
use byway_sys::socket::MSG_DONTWAIT;
use byway_sys::{clock, file, process};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

mod batch;
mod handover;
pub(crate) mod late;
pub use batch::{NO_GAIN, QUICK, gather, gathered, looked, may_gather};
pub use handover::{CALM, DOUBLED, LATE, LONGEST, REST, apart, hand_over};

/// For how long a wait spins, us: until a peer that was asleep has woken up, which takes 12 to 40, and has answered. Two ends
/// that both sleep never find each other awake else (ADR 53).
const SPIN_US: u64 = 40;
/// One that only tries whether it would pay again.
const TRY_US: u64 = 20;
/// An answer that comes sooner comes from a peer that runs now.
const PROMPT_US: u64 = 1;
/// A yield that took longer was dear.
const LONG_US: u64 = 1000;

/// The CPU on which a side last waited, or looked at the clock.
#[repr(transparent)]
pub struct Cpu(AtomicU32);

impl Cpu {
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }
    /// A thread seldom changes it, and a store would take the line from the other side.
    #[inline]
    pub fn set(&self, cpu: u32) {
        if self.get() != cpu {
            self.0.store(cpu, Relaxed);
        }
    }
}

/// The cycle until which nobody yields on `cpu`, for somebody's yield was dear there.
fn dear_until(me: &Caller, cpu: u32) -> &'static AtomicU64 {
    &me.domain.header().noyield_until[cpu as usize % 64]
}

/// Whether a busy thread has wanted this CPU of late, for yields of it have proved dear. A reader that was woken with a
/// longer write's first PIPE_BUF bytes then waits behind him for the rest, which the kernel's pipe would have given it
/// at once.
pub(crate) fn is_shared(me: &Caller) -> bool {
    let (now, cpu) = clock::now_cpu();
    dear_until(me, cpu).load(Relaxed) > now
}

/// How often to look while waiting. Each look takes the line from the CPU that is to write to it.
#[derive(Clone, Copy)]
enum Pace {
    /// For a reader: what it waits for is one store.
    Prompt,
    /// For a writer of long pieces.
    Steady,
    /// For one of short ones: the more room there is when it looks, the better.
    Gentle,
}

impl Pace {
    /// Pauses between two looks; a pause takes about as long as a line takes from CPU to CPU. None at first, where a
    /// writer has asked for the line by then (cache_lines.rs); elsewhere each look is one more that its write waits
    /// for.
    fn pauses(self, first: bool, asked: bool) -> u32 {
        match self {
            Pace::Prompt if first && asked => 0,
            Pace::Prompt | Pace::Steady => 1,
            Pace::Gentle => 16,
        }
    }
}

/// What an awake wait came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Came {
    /// What was waited for.
    Yes,
    /// Nothing, in the time that it was worth.
    No,
    /// A signal whose handler ends the call with EINTR; it has run.
    Signal,
}

/// Waits for `ready` without sleeping, as far as that is cheap.
fn wait(
    me: &Caller,
    pace: Pace,
    mine: &Cpu,
    theirs: &Cpu,
    history: &AtomicU32,
    yields: &AtomicU32,
    ready: impl Fn() -> bool,
) -> Came {
    let head = me.domain.header();
    let (t0, cpu) = clock::now_cpu();
    mine.set(cpu);
    let same = theirs.get() == cpu;
    let us = per_us(me);
    let spins = Score::load(history);
    let again = Score::is_tried_again(t0);
    let asked = lines_come_when_asked(me);
    let may_spin = me.spin
        && head.cpus.load(Relaxed) > 1
        && !same
        && head.flags.load(Relaxed) & NO_SPIN == 0
        && (spins.pays() || again);
    let mut before = t0;
    let until = dear_until(me, cpu);
    // LINUX a thread that has yielded is not preempted for one that it wakes next: where yields do not bring what we
    // wait for, they only delay others.
    let helped = Score::load(yields);
    let may_yield = (me.cpus == 1 || same) && (helped.pays() || again);
    let may_wait = may_spin || may_yield && t0 >= until.load(Relaxed);
    let held = (may_wait && me.enders != Enders::None).then(Held::new);
    if may_spin {
        let pays = spins.pays();
        let end = t0 + if pays { SPIN_US } else { TRY_US } * us;
        loop {
            let pauses = pace.pauses(before - t0 < PROMPT_US * us, asked);
            for _ in 0..if pauses == 0 { 32 } else { 8 } {
                if ready() {
                    spins.after(true).store(history);
                    return Came::Yes;
                }
                for _ in 0..pauses {
                    clock::pause();
                }
            }
            before = clock::now();
            if before > end {
                break;
            }
        }
        // One of twice the length counts as two.
        let vain = match pays {
            true => spins.after_dear(),
            false => spins.after(false),
        };
        vain.store(history);
    }
    if may_yield && t0 >= until.load(Relaxed) {
        process::yield_now();
        let d = clock::now().wrapping_sub(before);
        let f = head.backoff.load(Relaxed).clamp(1, 128);
        if d > LONG_US * us {
            until.store(before + d + d * f as u64, Relaxed);
            head.backoff.store((f * 4).min(128), Relaxed);
        } else {
            head.backoff.store((f - 1).max(1), Relaxed);
        }
        let came = ready();
        helped.after(came).store(yields);
        if came {
            return Came::Yes;
        }
        late::sleeps(me);
        return asleep(me, held);
    }
    late::sleeps(me);
    // About to sleep: the time to give back what nobody uses.
    if reclaim::is_due(&me.domain) {
        reclaim::look(&crate::clusters::user(me));
    }
    asleep(me, held)
}

/// Whether a call on `fd` that finds nothing sleeps: else no signal ends it.
pub(crate) fn may_sleep(me: &Caller, fd: usize) -> bool {
    me.message & MSG_DONTWAIT == 0 && !file::is_nonblocking(fd)
}

/// Nothing came. Whether the call may sleep now, or a handler ends it.
fn asleep(me: &Caller, held: Option<Held>) -> Came {
    match held {
        Some(held) if held.is_ended_by(me.enders) => Came::Signal,
        _ => Came::No,
    }
}

/// A reader that found nothing. `ready` tells whether the tail shows something new.
pub fn reader(me: &Caller, ch: &Channel, ready: impl Fn() -> bool) -> Came {
    let (at, r) = (&ch.m.0, &ch.reader.0);
    wait(
        me,
        Pace::Prompt,
        &at.reader_cpu,
        &at.writer_cpu,
        &r.history,
        &r.yields,
        ready,
    )
}

/// Channels of which one reader waits for any.
pub struct Readers {
    /// Slot, and the tail's position when it was added.
    all: [(u32, u32); Readers::MOST],
    n: usize,
    /// There are too many, or one need not be waited for.
    is_off: bool,
}

impl Readers {
    /// To look at all of them takes some pauses.
    const MOST: usize = 64;
    pub const NONE: Readers = Readers {
        all: [(0, 0); Readers::MOST],
        n: 0,
        is_off: false,
    };

    /// Adds `ch`, in that slot; of a closed one the kernel tells.
    pub fn add(&mut self, slot: u32, ch: &Channel) {
        let (at, t) = (ch.head().position(), ch.tail());
        if t.closed() {
            return;
        }
        self.is_off |= self.n == Readers::MOST || t.wide(at) != at || t.sleepers() > 0;
        if !self.is_off {
            self.all[self.n] = (slot, t.position());
            self.n += 1;
        }
    }

    /// Waits awake for something to read in any of them.
    pub fn wait(&self, me: &Caller) -> Came {
        let all = || {
            self.all[..self.n]
                .iter()
                .filter_map(|(slot, at)| Channel::at(me.domain, *slot as usize).map(|ch| (ch, *at)))
        };
        match all().next().filter(|_| !self.is_off) {
            Some((first, _)) => reader(me, first, || all().any(|(ch, at)| is_new(ch.tail(), at))),
            None => Came::No,
        }
    }
}

/// Whether the tail `t` is not at `at` any more, or was closed.
fn is_new(t: Tail, at: u32) -> bool {
    t.position() != at || t.closed()
}

/// A writer that found the ring full, with `n` bytes to write.
pub fn writer(me: &Caller, ch: &Channel, n: usize, ready: impl Fn() -> bool) -> Came {
    let pace = if n < ROOM { Pace::Gentle } else { Pace::Steady };
    let (at, w) = (&ch.m.0, &ch.writer.0);
    w.waiting.store(1, Relaxed);
    let came = wait(
        me,
        pace,
        &at.writer_cpu,
        &at.reader_cpu,
        &w.history,
        &w.yields,
        ready,
    );
    w.waiting.store(0, Relaxed);
    came
}

/// A writer whose bytes a reader may be taking. `ready` tells whether it took more. Where a handler could end the call it
/// does not wait: the caller has no answer for that yet.
pub fn offer(me: &Caller, ch: &Channel, ready: impl Fn() -> bool) -> bool {
    if me.enders != Enders::None {
        return false;
    }
    // What came of the offer itself is counted (`policy::on_offer`).
    let trusting = AtomicU32::new(0);
    Score::BEST.store(&trusting);
    let came = wait(
        me,
        Pace::Steady,
        &ch.m.0.writer_cpu,
        &ch.m.0.reader_cpu,
        &trusting,
        &trusting,
        ready,
    );
    came == Came::Yes
}

/// Whether the last write of PIPE_BUF bytes into the kernel lane, of which `n` bytes may come, was a part of a longer one.
pub fn is_part(ch: &Channel, n: usize) -> bool {
    n >= PIPE_BUF && ch.m.0.more.load(Relaxed) != 0
}

/// A reader that a wake-up woke with `n` bytes, where the tail was `was`: the rest of that write is in the ring, but
/// its writer may have lost the CPU before it could publish. The kernel's reader would wait for the pipe's lock here;
/// this one does so too, but not for a writer that was stopped. Where the write has no rest its writer, on one CPU, is
/// seldom out of the lock by now, and to yield to it is to yield to a busy thread, behind whom this reader would wait
/// for the CPU with what it was woken for.
pub fn let_publish(me: &Caller, ch: &Channel, n: usize, was: u32) {
    let ringing = || {
        let t = ch.tail();
        t.lock_owner() != 0 && t.position() == was
    };
    let part = is_part(ch, n);
    let mut p = Patience::new();
    while part && ringing() && !p.is_over() {
        p.wait(me);
    }
}
