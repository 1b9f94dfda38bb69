//! A reader that leaves the writer's cache lines alone for a moment.
//!
//! Invariant: it pauses only while the peer last ran on another CPU, for GATHER_US at most, and where that has brought
//! more of late; it touches nothing but the reader's own line.
//! Not here: every other wait (wait.rs).
use crate::Caller;
use crate::channel::{Channel, Line, ReaderSide};
use crate::policy::per_us;
use byway_mem::layout::flags::NO_SPIN;
use byway_sys::clock;
use core::sync::atomic::Ordering::Relaxed;

const GATHER_US: u64 = 4;
/// Records that must come in that time for a `gather` to pay.
pub const QUICK: u64 = 16;
/// Less than this at a look at the tail, and fewer reads than these, may be worth a `gather`.
const LITTLE: u64 = 16384;
const FEW: u64 = 8;

/// Whether a `gather` may pay: of so many bytes that are there, for a reader that takes `one` at a time. They are
/// little: a few reads, or a quarter of what the last one brought. Between two tries that are to bring nothing one word
/// tells.
#[inline]
pub fn may_gather(r: &Line<ReaderSide>, there: u64, one: usize) -> bool {
    let gain = Gain(r.0.gain.load(Relaxed));
    gain.until() == 0 && there < LITTLE && there < (FEW * one as u64).max(gain.brought() / 4)
}

/// Counts a look at the tail that `may_gather` was asked about. A round trip waits for a reader's bytes, and not for
/// this: to be called after they were taken.
#[inline]
pub fn looked(r: &Line<ReaderSide>) {
    let gain = Gain(r.0.gain.load(Relaxed));
    if gain.until() > 0 {
        r.0.gain.store(gain.sooner().0, Relaxed);
    }
}

/// A reader that found only a little: leaves the writer's cache lines alone for a moment, if that has brought more of late.
/// Else a stream of small messages pays for the lines' way between the CPUs with each of them. True if it did.
pub fn gather(me: &Caller, ch: &Channel) -> bool {
    if me.cpus == 1 {
        return false;
    }
    let r = &ch.reader.0;
    r.gain.store(Gain(r.gain.load(Relaxed)).tried().0, Relaxed);
    let head = me.domain.header();
    let (t0, cpu) = clock::now_cpu();
    if head.cpus.load(Relaxed) == 1
        || ch.m.0.writer_cpu.get() == cpu
        || head.flags.load(Relaxed) & NO_SPIN != 0
    {
        return false;
    }
    let end = t0 + GATHER_US * per_us(me);
    while clock::now() < end {
        clock::pause();
    }
    true
}

/// What a `gather` brought: bytes there before it, and after.
pub fn gathered(r: &Line<ReaderSide>, before: u64, after: u64) {
    let gain = Gain(r.0.gain.load(Relaxed));
    let score = gain.score().min(256);
    let now = if after >= 3 * before {
        (score + 96).min(256)
    } else if score >= Gain::WORTH {
        score - score / 4
    } else {
        score.saturating_sub(16)
    };
    let until = if now >= Gain::WORTH { 0 } else { gain.until() };
    r.0.gain.store(Gain::of(now, until, after).0, Relaxed);
}

/// What is remembered of the gathers of a channel: 31..22 bytes that were there after the last one, by 256; 21..9 how
/// many looks are to go by until the next; 8..0 whether they brought more, 0 to 256.
struct Gain(u32);

/// Of a new channel: its first looks are without.
pub const NO_GAIN: u32 = Gain::of(Gain::WORTH - 16, Gain::EVERY, 0).0;

impl Gain {
    /// From this score on.
    const WORTH: u32 = 64;
    /// Looks between two tries that hardly bring anything.
    const EVERY: u32 = 127;

    const fn of(score: u32, until: u32, brought: u64) -> Gain {
        let brought = brought / 256;
        let brought = if brought < 1023 { brought as u32 } else { 1023 };
        Gain(brought << 22 | (until & 8191) << 9 | score & 511)
    }
    /// Where they bring nothing, once in 128 looks, and more seldom with each that does not either: once in 8,192.
    fn tried(&self) -> Gain {
        let until = match self.score() {
            Gain::WORTH.. => 0,
            score => ((Gain::EVERY + 1) << (2 * (3 - score / 16))) - 1,
        };
        Gain::of(self.score(), until, self.brought())
    }
    fn score(&self) -> u32 {
        self.0 & 511
    }
    fn until(&self) -> u32 {
        self.0 >> 9 & 8191
    }
    fn sooner(&self) -> Gain {
        Gain(self.0 - (1 << 9))
    }
    fn brought(&self) -> u64 {
        256 * (self.0 >> 22) as u64
    }
}
