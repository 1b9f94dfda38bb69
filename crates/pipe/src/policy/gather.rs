//! A reader that leaves the writer's cache lines alone for a moment.
//!
//! Invariant: it pauses only while the peer last ran on another CPU, for GATHER_US at most, and where that has brought more of late; it
//! touches nothing but the reader's own line.
//! Not here: every other wait (policy.rs).
use super::per_us;
use crate::Me;
use crate::channel::{Channel, Line, ReaderSide};
use byway_mem::layout::flags::NO_SPIN;
use byway_sys::clock;
use core::sync::atomic::Ordering::Relaxed;

const GATHER_US: u64 = 4;
/// Records that must come in that time for a `gather` to pay.
pub const QUICK: u64 = 16;
/// Less than this at a look at T, and fewer reads than these, may be worth a `gather`.
const LITTLE: u64 = 16384;
const FEW: u64 = 8;

/// Whether so few bytes are there, for a reader that takes `one` at a time, that a `gather` may pay: a few reads, or a
/// quarter of what the last one brought.
#[inline]
pub fn is_little(r: &Line<ReaderSide>, there: u64, one: usize) -> bool {
    let brought = Gain(r.0.gain.load(Relaxed)).brought();
    there < LITTLE && there < (FEW * one as u64).max(brought / 4)
}

/// A reader that found only a little: leaves the writer's cache lines alone for a moment, if that has brought more of late.
/// Else a stream of small messages pays for the lines' way between the CPUs with each of them. True if it did.
pub fn gather(me: &Me, ch: &Channel) -> bool {
    if me.cpus == 1 {
        return false;
    }
    // Now and then it is tried again.
    let r = &ch.reader.0;
    let gain = Gain(r.gain.load(Relaxed)).asked_once_more();
    r.gain.store(gain.0, Relaxed);
    if !gain.is_to_be_tried() {
        return false;
    }
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
    r.0.gain
        .store(Gain::of(now, gain.asked(), after).0, Relaxed);
}

/// What is remembered of the gathers of a channel: 31..19 bytes that were there after the last one, by 32; 18..9 how often it
/// was asked; 8..0 whether they brought more, 0 to 256.
struct Gain(u32);

impl Gain {
    /// From this score on.
    const WORTH: u32 = 64;

    fn of(score: u32, asked: u32, brought: u64) -> Gain {
        let brought = (brought / 32).min(0x1fff) as u32;
        Gain(brought << 19 | (asked & 1023) << 9 | score & 511)
    }
    /// Where they bring nothing, once in 128 times, and more seldom with each that does not either: a round trip must not pay for it.
    fn is_to_be_tried(&self) -> bool {
        let every = 128 << (3 - (self.score() / 16).min(3));
        // A power of two: a division would be dear beside the rest.
        self.score() >= Gain::WORTH || self.asked() & (every - 1) == 0
    }
    fn score(&self) -> u32 {
        self.0 & 511
    }
    fn asked(&self) -> u32 {
        self.0 >> 9 & 1023
    }
    fn brought(&self) -> u64 {
        32 * (self.0 >> 19) as u64
    }
    fn asked_once_more(&self) -> Gain {
        Gain::of(self.score(), self.asked() + 1, self.brought())
    }
}
