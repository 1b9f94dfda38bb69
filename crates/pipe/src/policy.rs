//! When to spin, yield or sleep.
//!
//! Invariant: a spin is bounded, and happens only while the peer last ran on another CPU; a yield happens once per
//! wait, where it has helped before, and is backed off for the whole domain where it proved dear. So no wait takes a
//! CPU from one who could end it.
//! Not here: how to sleep (that is the caller's own call in the kernel); the reader's pause for more to come
//! (policy/batch.rs); the yield of one who has woken a reader on one CPU, which has bounds of its own
//! (policy/handover.rs).
use crate::Caller;
use crate::channel::{Channel, Cpu, Line, PIPE_BUF, Reason, WriterSide};
use crate::lock::Patience;
use crate::pass_through;
use crate::word::Tail;
use byway_mem::layout::{Class, flags::NO_FIFO, flags::NO_SPIN};
use byway_mem::reclaim::{self, Band};
use byway_sys::{clock, line, process, rseq};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

mod batch;
mod cache_lines;
mod handover;
pub use batch::{NO_GAIN, QUICK, gather, gathered, looked, may_gather};
use cache_lines::come_when_asked;
pub use cache_lines::{Lines, begins, ended, expect_tail, lines, reads_here, will_answer};
pub use cache_lines::{clusters, is_to_shorten, lap, shortened};
pub use handover::{CALM, DOUBLED, LATE, LONGEST, REST, apart, hand_over};

const ONE_CPU_RING: usize = 256 * 1024;
const RING: usize = 512 * 1024;
const PIECE: usize = 64 * 1024;
/// For how long a wait spins, us: about what a sleep and its wake-up take (12 to 20 measured, ADR 18). So a wait costs
/// at most twice the better of the two.
const SPIN_US: u64 = 20;
/// Who is answered sooner is answered by a peer that runs now.
const PROMPT_US: u64 = 1;
/// A writer that found the ring full waits for so much room, and not for its next message's: else both look at the
/// other's line for each.
pub const ROOM: usize = 16 * 1024;
const LONG_US: u64 = 1000;
/// Traffic that makes a channel worth a ring.
const HOT_BYTES: u64 = 64 * 1024;
const HOT_OPS: u64 = 16;
/// Writes in a row by one thread after which it holds the bias: a barrier takes as long as some hundred of them.
const ALONE: u32 = 1024;
/// A writer asks the kernel whether its reader is there when it has not done so for this long.
const LOOK_US: u64 = 50;
/// Of `since`: on average so little went by from write to write that only one in so many looks at the clock.
const OFTEN: u32 = 1 << 31;
const UNTIMED: u32 = 64;
const WRITES_PER_US: u64 = 4;
/// Bells in a row after which a ring is left.
const IN_VAIN: u32 = 64;
/// On one CPU, wake-ups that one write which woke nobody makes good; on more of them, all. Who wakes another there may
/// lose the CPU to it before it waits itself, and finds the answer in the ring: that saves little.
const FLOW: u32 = 4;
/// What was learned from rings in vain goes by half with each so many bytes of a ring that is not.
const LEARNED: u64 = 1024 * 1024;

/// The size of a new ring: what lies in flight should stay in a CPU's second-level cache, and on one CPU that cache
/// holds the buffers of both ends too; or what the run was told. When half of the domain's memory is in use, two
/// clusters: in one, with the room that a pump needs, a pipe would hold less than the kernel's.
pub fn ring_bytes(me: &Caller) -> usize {
    let told = ring_told(me);
    if reclaim::band(&me.domain) > Band::Grow {
        return told.min(2 * Class::Jumbo.bytes());
    }
    told
}

fn ring_told(me: &Caller) -> usize {
    match me.domain.header().ring_bytes.load(Relaxed) as usize {
        0 if me.cpus == 1 => ONE_CPU_RING,
        0 => RING,
        n => n,
    }
}

/// Bytes of one copy between two looks at the words: few enough that the other end, on another CPU, works meanwhile.
#[inline]
pub fn piece(me: &Caller) -> usize {
    if me.cpus == 1 { ONE_CPU_RING } else { PIECE }
}

/// The most that a write may publish at once, before any other step: a piece, where a longer one than PIPE_BUF is not
/// to be lent.
#[inline]
pub fn whole(me: &Caller) -> usize {
    match me.domain.header().direct_from.load(Relaxed) as usize {
        from if (1..=piece(me)).contains(&from) => PIPE_BUF,
        _ => piece(me),
    }
}

fn per_us(me: &Caller) -> u64 {
    let cycles = &me.domain.header().cycles_per_us;
    u64::from(cycles.load(Relaxed).clamp(100, 20_000))
}

/// The cycle until which nobody yields on `cpu`, for somebody's yield was dear there.
fn dear_until(me: &Caller, cpu: u32) -> &'static AtomicU64 {
    &me.domain.header().noyield_until[cpu as usize % 64]
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

/// Waits for `ready` without sleeping, as far as that is cheap. True when it became ready.
fn wait(
    me: &Caller,
    pace: Pace,
    mine: &Cpu,
    theirs: &Cpu,
    history: &AtomicU32,
    yields: &AtomicU32,
    ready: impl Fn() -> bool,
) -> bool {
    let head = me.domain.header();
    let (t0, cpu) = clock::now_cpu();
    mine.set(cpu);
    let same = theirs.get() == cpu;
    let us = per_us(me);
    let h = history.load(Relaxed).min(256);
    let asked = come_when_asked(me);
    let may_spin = me.spin
        && head.cpus.load(Relaxed) > 1
        && !same
        && head.flags.load(Relaxed) & NO_SPIN == 0
        && (h >= 64 || t0 & 0xf0 == 0);
    let mut before = t0;
    if may_spin {
        let end = t0 + SPIN_US * us;
        loop {
            let pauses = pace.pauses(before - t0 < PROMPT_US * us, asked);
            for _ in 0..if pauses == 0 { 32 } else { 8 } {
                if ready() {
                    history.store(h + (256 - h) / 8, Relaxed);
                    return true;
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
        history.store(h - h / 8, Relaxed);
    }
    let until = dear_until(me, cpu);
    // LINUX a thread that has yielded is not preempted for one that it wakes next: where yields do not bring what we
    // wait for, they only delay others. Now and then it is tried again.
    let y = yields.load(Relaxed).min(256);
    let pays = y >= 64 || t0 & 0xf0 == 0;
    if (me.cpus == 1 || same) && pays && t0 >= until.load(Relaxed) {
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
        let (up, down) = (y + (256 - y) / 8, y - y / 8);
        yields.store(if came { up } else { down }, Relaxed);
        return came;
    }
    // About to sleep: the time to give back what nobody uses.
    if reclaim::is_due(&me.domain) {
        reclaim::look(&crate::clusters::user(me));
    }
    false
}

/// A reader that found nothing. `ready` tells whether the tail shows something new.
pub fn reader_waits(me: &Caller, ch: &Channel, ready: impl Fn() -> bool) -> bool {
    let (at, r) = (&ch.m.0, &ch.reader.0);
    r.wait();
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

/// A writer that found the ring full, with `n` bytes to write.
pub fn writer_waits(me: &Caller, ch: &Channel, n: usize, ready: impl Fn() -> bool) -> bool {
    let pace = if n < ROOM { Pace::Gentle } else { Pace::Steady };
    let (at, w) = (&ch.m.0, &ch.writer.0);
    w.waiting.store(1, Relaxed);
    let ok = wait(
        me,
        pace,
        &at.writer_cpu,
        &at.reader_cpu,
        &w.history,
        &w.yields,
        ready,
    );
    w.waiting.store(0, Relaxed);
    ok
}

/// Whether the next `n` bytes of a write may be offered to a reader instead of copied into the ring: where the run
/// wants that, and it has worked of late; more and more rarely it is tried again. Not where the ring's lines come by
/// themselves: two copies are faster there than one call of the kernel.
pub fn may_offer(me: &Caller, ch: &Channel, n: usize) -> bool {
    let from = me.domain.header().direct_from.load(Relaxed) as usize;
    if from == 0 || n < from || !me.lend || ch.offer().is_refused() || cache_lines::may_be_left(ch)
    {
        return false;
    }
    let w = &ch.writer.0;
    if w.offers.load(Relaxed) < 64 {
        let skip = w.skip.load(Relaxed);
        if skip > 0 {
            w.skip.store(skip - 1, Relaxed);
            return false;
        }
        w.offers.store(64, Relaxed);
    }
    true
}

/// Counts a write that is the kernel's, of `n` bytes, and `before` others of few; whether the traffic is worth a ring now.
pub fn is_hot(w: &Line<WriterSide>, n: usize, before: u64) -> bool {
    w.0.count_native(n, before);
    let (ops, bytes) = worth(&w.0);
    w.0.native_ops.load(Relaxed) > ops || w.0.native_bytes.load(Relaxed) > bytes
}

/// Writes, or bytes, that make the traffic worth a ring.
fn worth(w: &WriterSide) -> (u64, u64) {
    let worth = u64::from(w.worth.load(Relaxed));
    (HOT_OPS.max(worth), HOT_BYTES.max(worth * PIPE_BUF as u64))
}

/// A ring is worth having, but somebody may be in a call that hinders it: asked again after as many writes as a new
/// channel takes.
pub fn ask_soon(w: &Line<WriterSide>) {
    let (ops, bytes) = worth(&w.0);
    w.0.set_native(ops - HOT_OPS, bytes - HOT_BYTES);
}

/// Somebody is: after half of those that it took.
pub fn ask_later(w: &Line<WriterSide>) {
    let (ops, bytes) = worth(&w.0);
    w.0.set_native(ops / 2, bytes / 2);
}

/// Counts a write that met nothing; whether its thread, long the only writer, may hold the bias.
#[inline]
pub fn may_bias(me: &Caller, w: &Line<WriterSide>) -> bool {
    let w = &w.0;
    let alone = match w.last.load(Relaxed) == me.tid {
        true => w.alone.load(Relaxed).saturating_add(1),
        false => 0,
    };
    w.last.store(me.tid, Relaxed);
    w.alone.store(alone, Relaxed);
    me.has_barriers && alone >= w.alone_for.load(Relaxed).max(ALONE)
}

/// It may not after all: to be tried again after as many writes.
#[cold]
pub fn cannot_bias(w: &Line<WriterSide>) {
    w.0.alone.store(0, Relaxed);
}

/// A biased lock was asked for by another: the next bias comes after twice as many writes.
pub fn on_revoke(w: &Line<WriterSide>) {
    let after = w.0.alone_for.load(Relaxed).clamp(ALONE, 1 << 20);
    w.0.alone_for.store(2 * after, Relaxed);
    w.0.alone.store(0, Relaxed);
}

/// Counts a write that woke a reader. True when the ring has brought nothing of late, for each write was a small one to a
/// reader asleep, which the kernel does for less: the ring is to be left, for four times as many writes each time.
pub fn on_wake(me: &Caller, ch: &Channel, n: usize) -> bool {
    let w = &ch.writer;
    if me.cpus > 1 {
        ch.m.0.writer_cpu.set(clock::now_cpu().1);
    }
    if n > PIPE_BUF {
        if me.cpus > 1 || n > pass_through::MOST {
            on_flow(me, w, n);
            return false;
        }
        if !is_shared(me) {
            // Not in vain, but no news of a busy thread that only rests: what his slices taught stays.
            if w.0.lone_wakes.load(Relaxed) != 0 {
                on_flow(me, w, n);
            }
            return false;
        }
    }
    let lone_wakes = w.0.lone_wakes.load(Relaxed).saturating_add(1);
    w.0.lone_wakes.store(lone_wakes, Relaxed);
    if lone_wakes < IN_VAIN || !me.resign {
        return false;
    }
    w.0.lone_wakes.store(0, Relaxed);
    open_later(ch, Reason::Cold);
    true
}

/// The ring is being closed because it brought nothing, or because several readers sleep: it takes four times as many
/// writes to open it again as the last time.
pub fn open_later(ch: &Channel, why: Reason) {
    let worth = &ch.writer.0.worth;
    let more = worth.load(Relaxed).saturating_mul(4);
    worth.store(more.clamp(1 << 10, 1 << 20), Relaxed);
    ch.facts.0.why.store(why as u8, Relaxed);
}

/// Whether a busy thread has wanted this CPU of late, for yields of it have proved dear. A reader that was woken with a
/// longer write's first PIPE_BUF bytes then waits behind him for the rest, which the kernel's pipe would have given it
/// at once.
fn is_shared(me: &Caller) -> bool {
    let (now, cpu) = clock::now_cpu();
    dear_until(me, cpu).load(Relaxed) > now
}

/// The tail, where a short write is to wake a reader, as those before it did, or is the kernel's altogether. Elsewhere
/// the tail, which a reader polls, is not looked at for this.
#[inline]
pub fn tail_to_wake(me: &Caller, ch: &Channel, n: usize) -> Option<Tail> {
    let w = &ch.writer.0;
    let rang = w.lone_wakes.load(Relaxed) != 0;
    if !rang && w.native_ops.load(Relaxed) == 0 || n > PIPE_BUF || me.handlers {
        return None;
    }
    if rang {
        // The reader had these last, too: all of them come at once.
        line::to_write((&raw const ch.m).cast());
        line::to_read((&raw const ch.readers).cast());
    }
    let t = ch.tail();
    (t.sleepers() > 0 || t.closed()).then_some(t)
}

/// A write of `n` bytes that woke nobody: a ring is worth having. After they were counted.
#[inline]
pub fn on_flow(me: &Caller, w: &Line<WriterSide>, n: usize) {
    let lone_wakes = w.0.lone_wakes.load(Relaxed);
    if lone_wakes != 0 {
        let left = if me.cpus == 1 { FLOW } else { u32::MAX };
        w.0.lone_wakes
            .store(lone_wakes.saturating_sub(left), Relaxed);
        return;
    }
    let worth = w.0.worth.load(Relaxed);
    if worth != 0 && w.0.counted() % LEARNED < n as u64 {
        w.0.worth.store(worth / 2, Relaxed);
    }
}

/// A writer whose bytes a reader may be taking. `ready` tells whether it took more.
pub fn offer_waits(me: &Caller, ch: &Channel, ready: impl Fn() -> bool) -> bool {
    // What came of the offer itself is counted (`lent`).
    let trusting = AtomicU32::new(256);
    wait(
        me,
        Pace::Steady,
        &ch.m.0.writer_cpu,
        &ch.m.0.reader_cpu,
        &trusting,
        &trusting,
        ready,
    )
}

/// Whether an offer was taken, all of it. A reader with small buffers, or one that computes, never does: each try in vain
/// doubles the number of writes until the next.
pub fn on_offer(w: &Line<WriterSide>, all: bool) {
    let w = &w.0;
    let h = w.offers.load(Relaxed).min(256);
    if all {
        w.offers.store(h + (256 - h) / 8, Relaxed);
        w.penalty.store(0, Relaxed);
        return;
    }
    let h = h - h / 4;
    w.offers.store(h, Relaxed);
    if h < 64 {
        let penalty = w.penalty.load(Relaxed).saturating_mul(2).clamp(64, 8192);
        w.penalty.store(penalty, Relaxed);
        w.skip.store(penalty, Relaxed);
    }
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
    let more = n >= PIPE_BUF && ch.m.0.more.load(Relaxed) != 0;
    let mut p = Patience::new();
    while more && ringing() && !p.is_over() {
        p.wait(me.cpus);
    }
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
