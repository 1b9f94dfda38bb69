//! What pays: when a ring, of which size, a bias of the writers' lock, a single copy.
//!
//! Invariant: nothing is decided but by the counters of the channel and the settings of the domain. No call of the
//! kernel is made, and no wait. A wrong answer costs time, and never a byte.
//! Not here: waiting awake (wait.rs), how cache lines travel (policy/cache_lines.rs), whether a reader is left
//! (liveness.rs).
use crate::Caller;
use crate::channel::{Channel, Line, PIPE_BUF, WriterSide};
use crate::reason::Reason;
use crate::word::Tail;
use crate::{pass_through, peer, wait};
use byway_mem::layout::Class;
use byway_mem::reclaim::{self, Band};
use byway_sys::{clock, line};
use core::sync::atomic::Ordering::Relaxed;

mod cache_lines;
mod score;
pub(crate) use cache_lines::come_when_asked as lines_come_when_asked;
pub use cache_lines::{Lines, begins, ended, expect_tail, lines, reads_here, will_answer};
pub use cache_lines::{clusters, is_to_shorten, lap, shortened};
pub use score::Score;

const ONE_CPU_RING: usize = 256 * 1024;
const RING: usize = 512 * 1024;
const PIECE: usize = 64 * 1024;
/// A writer that found the ring full waits for so much room, and not for its next message's: else both look at the
/// other's line for each.
pub const ROOM: usize = 16 * 1024;
/// Traffic that makes a channel worth a ring.
const HOT_BYTES: u64 = 64 * 1024;
const HOT_OPS: u64 = 16;
/// Writes in a row by one thread after which it holds the bias: a barrier takes as long as some hundred of them.
const ALONE: u32 = 1024;
/// Writes that it takes at least to open a channel again whose ring brought nothing.
const LEAST_LEFT: u32 = 1 << 10;
/// Wake-ups in a row after which a ring is left, or waits of a set.
pub const IN_VAIN: u32 = 64;
/// A socket's ring that brought nothing again is left for good where its wake-ups came as close as this, us: then a
/// connection is in use, one of some hundred at a busy server, and its ends sleep all the same. One that rests longer
/// between messages may be busier later.
const CLOSE_US: u64 = 10_000;
/// So few calls that move bytes themselves do not count.
const FEW: u32 = 64;
/// On one CPU, wake-ups that one write which woke nobody makes good; on more of them, all. Who wakes another there may
/// lose the CPU to it before it waits itself, and finds the answer in the ring: that saves little. Of a socket one on any:
/// its ends wait for others beside it, and to arm it for that costs about what such a write saves.
const FLOW: u32 = 4;
const SOCKET_FLOW: u32 = 1;
/// What was learned from rings in vain goes by half with each so many bytes of a ring that is not, or so many short writes.
const LEARNED: u64 = 1024 * 1024;
const LEARNED_WRITES: u64 = 16 * 1024;
/// So many carried bytes keep a socket's ring from being left for good.
const PROVEN: u64 = 16 * LEARNED;

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

/// Whether a ring may have `bytes` bytes, where it is to have no fewer.
pub fn may_have(me: &Caller, bytes: usize) -> bool {
    reclaim::band(&me.domain) <= Band::Grow || bytes <= 2 * Class::Jumbo.bytes()
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

/// Cycles in a microsecond.
pub fn per_us(me: &Caller) -> u64 {
    let cycles = &me.domain.header().cycles_per_us;
    u64::from(cycles.load(Relaxed).clamp(100, 20_000))
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
    if !Score::load(&w.offers).pays() {
        let skip = w.skip.load(Relaxed);
        if skip > 0 {
            w.skip.store(skip - 1, Relaxed);
            return false;
        }
        Score::PAYS.store(&w.offers);
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

/// Whether the writes since a ring was last asked for, and not to be had, were as long as this one is: more than `n` bytes.
pub fn is_bulk(w: &Line<WriterSide>, n: usize) -> bool {
    let (bytes, writes) = (w.0.native_bytes.load(Relaxed), w.0.native_ops.load(Relaxed));
    w.0.worth.load(Relaxed) >= 1 << 10 && bytes > writes.saturating_mul(n as u64)
}

/// To ask was dear, and somebody is: after twice as many as before.
pub fn ask_rarely(w: &Line<WriterSide>) {
    let worth = w.0.worth.load(Relaxed).saturating_mul(2);
    w.0.worth
        .store(worth.clamp(HOT_OPS as u32, 1 << 20), Relaxed);
    w.0.forget_native();
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

/// How a ring is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leave {
    /// For four times as many writes each time.
    ForNow,
    ForGood,
}

/// Counts a write that woke a reader. Not `None` when the ring has brought nothing of late, for each write was a small one to
/// a reader asleep, which the kernel does for less: the ring is to be left.
pub fn on_wake(me: &Caller, ch: &Channel, n: usize) -> Option<Leave> {
    let w = &ch.writer;
    if me.cpus > 1 {
        ch.m.0.writer_cpu.set(clock::now_cpu().1);
    }
    if n > PIPE_BUF {
        // A socket's kernel call takes as much at once, without the arming.
        if me.cpus > 1 && !ch.is_socket() || n > pass_through::MOST {
            on_flow(me, ch, n);
            return None;
        }
        if me.cpus == 1 && !ch.is_socket() && !wait::is_shared(me) {
            // Not in vain, but no news of a busy thread that only rests: what his slices taught stays.
            if w.0.lone_wakes.load(Relaxed) != 0 {
                on_flow(me, ch, n);
            }
            return None;
        }
    }
    let lone_wakes = w.0.lone_wakes.load(Relaxed).saturating_add(1);
    w.0.lone_wakes.store(lone_wakes, Relaxed);
    if lone_wakes == 1 && ch.is_socket() {
        w.0.runs.store(clock::now(), Relaxed);
    }
    if lone_wakes < IN_VAIN || !me.resign {
        return None;
    }
    w.0.lone_wakes.store(0, Relaxed);
    Some(how_left(me, ch, w.0.runs.load(Relaxed)))
}

/// How a ring is left that was in vain `IN_VAIN` times, the first at `from`.
pub fn how_left(me: &Caller, ch: &Channel, from: u64) -> Leave {
    // One that is left for the first time, or was worth its ring since, may have met a busy moment of the machine. One that
    // has carried much may meet it at any time.
    let w = &ch.writer.0;
    let proven = w.worth.load(Relaxed) <= peer::WORTH || w.counted() >= PROVEN;
    if ch.is_socket() && is_close(me, from) && !proven {
        return Leave::ForGood;
    }
    open_later(ch, Reason::Cold);
    Leave::ForNow
}

/// Whether what was in vain, `IN_VAIN` times since `from`, came close behind each other.
fn is_close(me: &Caller, from: u64) -> bool {
    let took = clock::now().saturating_sub(from);
    took < u64::from(IN_VAIN) * CLOSE_US * per_us(me)
}

/// The ring is being closed because it brought nothing, several readers sleep, or a call moves bytes by itself: it takes
/// four times as many writes to open it again as the last time.
pub fn open_later(ch: &Channel, why: Reason) {
    let worth = &ch.writer.0.worth;
    let more = worth.load(Relaxed).saturating_mul(4);
    worth.store(more.clamp(LEAST_LEFT, 1 << 20), Relaxed);
    ch.facts.0.why.store(why as u8, Relaxed);
}

/// Whether it had a ring that brought nothing, and none that did since.
pub fn was_left(ch: &Channel) -> bool {
    ch.writer.0.worth.load(Relaxed) >= LEAST_LEFT
}

/// Whether what makes one channel worth its ring makes another one, to which its bytes go, worth one too.
pub fn is_as_worthy(to: &Line<WriterSide>, from: &Line<WriterSide>) -> bool {
    to.0.worth.load(Relaxed) <= from.0.worth.load(Relaxed)
}

/// Whether a splice that finds the target's ring not to be had yet costs the source's nothing: among the first `calls`, while
/// programs start, that is for a moment.
pub fn is_early(calls: u32) -> bool {
    const EARLY: u32 = 16;
    calls < EARLY
}

/// Whether what the ring carried outweighs the calls that moved bytes themselves. Each of those takes longer than the
/// kernel's own alone; what a ring saves on a page makes that good.
pub fn outweighs(ch: &Channel) -> bool {
    let calls = ch.facts.0.left.load(Relaxed);
    calls <= FEW || ch.writer.0.counted() >= u64::from(calls) * PIPE_BUF as u64
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
pub fn on_flow(me: &Caller, ch: &Channel, n: usize) {
    let w = &ch.writer;
    let lone_wakes = w.0.lone_wakes.load(Relaxed);
    if lone_wakes != 0 {
        let left = match (ch.is_socket(), me.cpus) {
            (true, _) => SOCKET_FLOW,
            (false, 1) => FLOW,
            _ => u32::MAX,
        };
        w.0.lone_wakes
            .store(lone_wakes.saturating_sub(left), Relaxed);
        return;
    }
    let worth = w.0.worth.load(Relaxed);
    // A power of two, for a division here would be dear, and by none a panic.
    let every = LEARNED_WRITES * (n as u64).min(LEARNED / LEARNED_WRITES).next_power_of_two();
    if worth != 0 && w.0.counted() & (every - 1) < n as u64 {
        w.0.worth.store(worth / 2, Relaxed);
    }
}

/// Whether an offer was taken, all of it. A reader with small buffers, or one that computes, never does: each try in vain
/// doubles the number of writes until the next.
pub fn on_offer(w: &Line<WriterSide>, all: bool) {
    let w = &w.0;
    let taken = Score::load(&w.offers);
    if all {
        taken.after(true).store(&w.offers);
        w.penalty.store(0, Relaxed);
        return;
    }
    let taken = taken.after_dear();
    taken.store(&w.offers);
    if !taken.pays() {
        let penalty = w.penalty.load(Relaxed).saturating_mul(2).clamp(64, 8192);
        w.penalty.store(penalty, Relaxed);
        w.skip.store(penalty, Relaxed);
    }
}
