//! How cache lines come from CPU to CPU: which are asked for before they are written, which a reader takes whole, and
//! in how much memory a ring goes round.
//!
//! Invariant: hints. Whatever is said here, the same bytes go the same way; nothing is written but where a reader runs.
//! Not here: the instructions (crate sys, line.rs), how far ahead a stream asks for its lines (fast_path.rs).
use super::{RING, per_us};
use crate::Caller;
use crate::channel::Channel;
use crate::ring::Ring;
use byway_mem::layout::{Class, flags::NO_RSEQ};
use byway_mem::reclaim::{self, Band};
use byway_sys::{clock, rseq};
use core::sync::atomic::Ordering::Relaxed;

/// Bytes of the lap of a ring whose places are to be out of its reader's own caches when they come again: twice a
/// second-level cache.
const LAP: usize = 2 << 20;
/// New clusters of a lap for each MiB of stream, until it is all there.
const NEW: usize = 4;
/// Reads of fewer bytes take their lines however near the writer is: each of its messages waits for its own.
const LONG: usize = 1024;
/// What a reader that takes its lines needs for each; and for the tail. Lines that come to the writer more slowly than
/// that are late.
const LATE_NS: u64 = 4;
const T_NS: u64 = 40;
const CLUSTER: u64 = Class::Jumbo.bytes() as u64;
/// Clusters more than a ring's bytes that one may have without a longer lap: its ends lie inside some.
const MORE: u64 = 4;

/// Whether a line that others have too comes to who asks for it, so that a write need not wait (ADR 15).
#[inline]
pub(crate) fn come_when_asked(me: &Caller) -> bool {
    me.domain.header().shared_lines.load(Relaxed) == 0
}

/// The tail is about to be changed: its line, which the other side polls, takes longest to come.
#[inline]
pub fn expect_tail(me: &Caller, ch: &Channel) {
    if come_when_asked(me) {
        ch.expect_tail();
    }
}

/// The caller waited for what it has just read, and has written somewhere before it waited: there its answer will go.
/// That the tail's line, which the other side polls, comes while the caller makes the answer (ADR 20).
#[inline]
pub fn will_answer(me: &Caller) {
    let k = me.domain.thread_slot(me.tid);
    let number = k.wrote.load(Relaxed);
    if number != 0 && k.tid.load(Relaxed) == me.tid {
        k.wrote.store(0, Relaxed);
        ask(me, number as usize - 1);
    }
}

#[inline]
fn ask(me: &Caller, slot: usize) {
    let Some(ch) = Channel::at(me.domain, slot) else {
        return;
    };
    if come_when_asked(me) {
        ch.expect_tail();
    } else {
        // A store is on its way while its thread goes on, as an instruction that asks is elsewhere. The next short
        // write begins with this one, and anybody may make it (inline_payload.rs).
        ch.inline_payload().clear();
    }
}

/// Bytes of memory in which a ring of `bytes` goes round, or fewer. Without rseq nobody could tell whether the ends run
/// on one CPU, and its table would have each of the many fronts keep a bucket of clusters.
pub fn lap(me: &Caller, bytes: usize) -> usize {
    let rseq =
        me.rseq && me.domain.header().flags.load(Relaxed) & NO_RSEQ == 0 && rseq::area().is_some();
    if me.cpus == 1 || !rseq || come_when_asked(me) || bytes < RING {
        return bytes;
    }
    bytes.max(LAP)
}

/// How many clusters a lap may have when a writer of `n` bytes comes to `at`, where it has none. What the ring itself
/// needs, at once.
pub fn clusters(me: &Caller, ch: &Channel, ring: Ring, at: u64, n: usize) -> usize {
    let own = (ring.bytes() / CLUSTER) as usize;
    if ring.bytes() == ring.lap() {
        return usize::MAX;
    }
    if n < LONG || !are_apart(ch) || reclaim::band(&me.domain) > Band::Grow {
        return own;
    }
    own + NEW * Left::of(ch).may_be_since(at)
}

/// Whether the two ends last ran on two CPUs: on one there is nothing to take, and the shorter the lap the better.
fn are_apart(ch: &Channel) -> bool {
    ch.m.0.reader_cpu.get() != ch.m.0.writer_cpu.get()
}

/// Whether the lap is longer than it should be: a writer that has the lock is to shorten it.
#[inline]
pub fn is_to_shorten(ch: &Channel) -> bool {
    ch.m.0.left.load(Relaxed) & Left::SHORTEN != 0
}

/// It is done.
pub fn shortened(ch: &Channel) {
    let left = &ch.m.0.left;
    left.store(left.load(Relaxed) & !Left::SHORTEN, Relaxed);
}

/// Whether readers leave the lines that they copy from where they are, as the writer finds best: 31; 30..28 how many of
/// its own came late meanwhile, on balance; 27 the lap is to be shortened; 26..24 how often it was in vain; 23..0 since
/// when it is as it is, MiB of the stream.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Left(u32);

impl Left {
    const IS: u32 = 1 << 31;
    const SHORTEN: u32 = 1 << 27;
    const MIB: u32 = (1 << 24) - 1;
    /// So many that came late, and they are taken again.
    const LATE: u32 = 4;
    /// MiB until it is tried for the first time, and how often that doubles.
    const TRY: u32 = 8;
    const SELDOM: u32 = 7;
    /// MiB that went well, after which nothing was in vain.
    const WELL: u32 = 64;

    fn of(ch: &Channel) -> Left {
        Left(ch.m.0.left.load(Relaxed))
    }
    fn new(is: bool, late: u32, in_vain: u32, since: u32) -> Left {
        Left(u32::from(is) << 31 | late << 28 | in_vain << 24 | since & Left::MIB)
    }
    fn is(self) -> bool {
        self.0 & Left::IS != 0
    }
    fn late(self) -> u32 {
        self.0 >> 28 & 7
    }
    fn in_vain(self) -> u32 {
        self.0 >> 24 & 7
    }
    /// MiB that have gone by at `pos`.
    fn gone(self, pos: u64) -> u32 {
        ((pos >> 20) as u32).wrapping_sub(self.0) & Left::MIB
    }
    /// For how many MiB it has been so at `pos`, or could have been tried.
    fn may_be_since(self, pos: u64) -> usize {
        let wait = if self.is() {
            0
        } else {
            Left::TRY << self.in_vain()
        };
        self.gone(pos).saturating_sub(wait) as usize
    }
    /// From `pos` on not, for its lap is to be shortened.
    fn shorten(self, pos: u64, in_vain: u32) -> Left {
        let then = Left::new(false, 0, in_vain, (pos >> 20) as u32);
        Left(then.0 | Left::SHORTEN)
    }
    /// After a write at `pos`, whose lines came late or not; `whole`: the lap is.
    fn after(self, pos: u64, lap: u64, whole: bool, late: bool) -> Left {
        let now = (pos >> 20) as u32;
        let (balance, vain) = (self.late(), self.in_vain());
        if !self.is() {
            return match whole && self.may_be_since(pos) > 0 {
                true => Left::new(true, 0, vain, now),
                false => self,
            };
        }
        if !whole {
            // Memory went, or none was left: nothing is known against it.
            return Left::new(false, 0, vain, now);
        }
        if u64::from(self.gone(pos)) << 20 <= lap {
            // These places were taken before.
            return self;
        }
        match late {
            true if balance + 1 >= Left::LATE => self.shorten(pos, (vain + 1).min(Left::SELDOM)),
            true => Left::new(true, balance + 1, vain, self.0),
            false => {
                let well = self.gone(pos) >= Left::WELL;
                let vain = if well { 0 } else { vain };
                Left::new(true, balance.saturating_sub(1), vain, self.0)
            }
        }
    }
}

/// Whether readers leave the lines of long messages, which come to the writer in time all the same.
#[inline]
fn are_left(ch: &Channel) -> bool {
    Left::of(ch).is()
}

/// Whether they do, or it is not known yet that they should not.
pub(super) fn may_be_left(ch: &Channel) -> bool {
    let left = Left::of(ch);
    left.is() || ch.facts.0.laps.load(Relaxed) > 0 && left.in_vain() == 0
}

/// Which reads take lines, as a reader remembers it.
const SHORT_ONES: u32 = 1;
const LONG_ONES: u32 = 2;

/// How a reader copies lines of the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// As the processor likes it best.
    Copied,
    /// By loads. A copy that the processor makes by itself reaches for lines beyond it, which the writer then finds shared.
    Loaded,
    /// Each is taken first, as by a write: one that the reader had only to read the writer has as well, and that one
    /// waits for it when the ring comes round.
    Taken,
}

/// How a reader of `n` bytes does.
#[inline]
pub fn lines(ch: &Channel, n: usize) -> Lines {
    match ch.reader.0.lines.load(Relaxed) {
        0 => Lines::Copied,
        SHORT_ONES if n >= LONG => Lines::Loaded,
        _ => Lines::Taken,
    }
}

/// The caller reads; where it runs, and which of its next reads take lines. A reader that never waits would tell nobody.
#[inline]
pub fn reads_here(me: &Caller, ch: &Channel) {
    if me.cpus == 1 || come_when_asked(me) {
        return;
    }
    let at = &ch.m.0;
    if me.rseq
        && let Some(a) = rseq::area()
    {
        at.reader_cpu.set(a.cpu());
    }
    let which = if !are_apart(ch) {
        0
    } else if are_left(ch) {
        SHORT_ONES
    } else {
        SHORT_ONES | LONG_ONES
    };
    let lines = &ch.reader.0.lines;
    if lines.load(Relaxed) != which {
        lines.store(which, Relaxed);
    }
}

/// The clock, where it is to be known how long the write of `n` bytes at `pos` takes: one in the midst of each cluster,
/// where nothing else is new.
#[inline]
pub fn begins(me: &Caller, pos: u64, n: usize) -> Option<u64> {
    let due = n >= LONG && pos.wrapping_sub(CLUSTER / 2) % CLUSTER < n as u64;
    (due && me.cpus > 1 && !come_when_asked(me)).then(clock::now)
}

/// It is published. Of a whole lap the places that come next are in no reader's own cache any more, but in one that
/// both CPUs have, if those are near each other and nobody else needs it: then readers are to leave the lines alone.
#[cold]
pub fn ended(me: &Caller, ch: &Channel, (pos, n): (u64, usize), began: u64) {
    let took = clock::now().wrapping_sub(began);
    let Some(ring) = ch.ring(&me.domain) else {
        return;
    };
    let ns = T_NS + LATE_NS * (n / 64) as u64;
    let late = took.saturating_mul(1000) > ns * per_us(me);
    let (has, lap) = (ring.clusters() as u64 * CLUSTER, ring.lap());
    let left = Left::of(ch);
    let now = if are_apart(ch) {
        left.after(pos, lap, lap >= LAP as u64 && has >= lap, late)
    } else if lap > ring.bytes() && has > ring.bytes() + MORE * CLUSTER {
        left.shorten(pos, left.in_vain())
    } else {
        left
    };
    if now != left {
        ch.m.0.left.store(now.0, Relaxed);
    }
}
