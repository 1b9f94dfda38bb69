//! The case `cross`: one process allocates, another, on another CPU, frees; between them a ring.
//!
//! ```text
//! producer, CPU 0: alloc, write --> ring of 1024 words, published 16 at a time --> read, free: consumer, CPU 1
//! ```
//! Invariant: the ring is the same for every backend, and its cost is the harness's figure. Neither side is timed
//! alone: from the producer's first allocation to the consumer's last release.
//! Not here: heaps of one process (heaps.rs), which cannot do this.
use super::allocator::{Allocator, Local, Room};
use super::child::{self, Failure, Gate, Span, now, ran};
use super::shared::Shared;
use super::{spin, timed};
use byway_mem::layout::Class;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

/// Words of the ring.
const SLOTS: usize = 1024;
/// Words published at a time, so that it is the allocator that is measured, and not the ring.
const BURST: u64 = 16;
/// Says that no more will come; no object is numbered so.
const END: u64 = u64::MAX;

/// A ring for one producer and one consumer, in memory that processes share. Counts run free.
#[derive(Clone, Copy)]
struct Ring {
    written: &'static AtomicU64,
    read: &'static AtomicU64,
    slots: &'static [AtomicU64],
}

/// One end of a ring: its own count, and what it last saw of the other's.
struct End {
    ring: Ring,
    own: u64,
    seen: u64,
}

impl Ring {
    fn new() -> Result<Ring, Failure> {
        let memory = Shared::new(256 + SLOTS * 8)?;
        memory.populate()?;
        Ok(Ring {
            written: &memory.words(0, 1)[0],
            read: &memory.words(128, 1)[0],
            slots: memory.words(256, SLOTS),
        })
    }
    fn end(self) -> End {
        End {
            ring: self,
            own: 0,
            seen: 0,
        }
    }
}

impl End {
    /// The producer's: one word, seen with its burst. A full ring is waited for.
    #[inline]
    fn put(&mut self, v: u64) {
        let r = self.ring;
        if self.own - self.seen == SLOTS as u64 {
            spin::until(|| {
                // ORDER: the consumer has taken what was there.
                self.seen = r.read.load(Acquire);
                self.own - self.seen < SLOTS as u64
            });
        }
        r.slots[self.own as usize % SLOTS].store(v, Relaxed);
        self.own += 1;
        if self.own.is_multiple_of(BURST) || v == END {
            // ORDER: the words, and what their objects hold, before the count.
            r.written.store(self.own, Release);
        }
    }
    /// The consumer's: the next word. An empty ring is waited for.
    #[inline]
    fn get(&mut self) -> u64 {
        let r = self.ring;
        if self.own == self.seen {
            spin::until(|| {
                // ORDER: the words below the count are there.
                self.seen = r.written.load(Acquire);
                self.own != self.seen
            });
        }
        let v = r.slots[self.own as usize % SLOTS].load(Relaxed);
        self.own += 1;
        if self.own.is_multiple_of(BURST) {
            // ORDER: the words have been read before they may be overwritten.
            r.read.store(self.own, Release);
        }
        v
    }
}

/// Allocates and sends for `run`.
fn produce<L: Local>(a: &mut L, ring: Ring, gate: Gate, run: Duration) -> Result<Span, Failure> {
    let (run, mut end) = (run.as_nanos() as u64, ring.end());
    gate.pass();
    // The first tenth is not counted: there the consumer's cache of the allocator fills.
    let warm = now() + run / 10;
    let (mut began, mut before, mut first, mut sent) = (0, 0, 0, 0);
    loop {
        for i in 0..1024 {
            let x = a.alloc(Class::Mbuf).ok_or(Failure::NoMemory)?;
            // SAFETY: an object that we have.
            unsafe { timed::touch(a.at(x), i) };
            end.put(x as u64);
        }
        sent += 1024;
        let t = now();
        if began == 0 && t >= warm {
            (began, before, first) = (t, ran(), sent);
        }
        if began != 0 && t - began >= run {
            break;
        }
    }
    end.put(END);
    Ok(Span {
        began,
        ended: now(),
        operations: sent - first,
        ran: ran() - before,
    })
}

/// Receives and frees until the end.
fn consume<L: Local>(a: &mut L, ring: Ring, gate: Gate) -> Result<Span, Failure> {
    let (mut end, mut sum) = (ring.end(), 0u64);
    gate.pass();
    let (began, before) = (now(), ran());
    loop {
        let x = end.get();
        if x == END {
            break;
        }
        // SAFETY: an object that its sender has written and now is ours.
        sum = sum.wrapping_add(unsafe { a.at(x as usize).read_volatile() });
        a.free(x as usize, Class::Mbuf);
    }
    std::hint::black_box(sum);
    Ok(Span {
        began,
        ended: now(),
        operations: 0,
        ran: ran() - before,
    })
}

/// One run: ns for an object that was allocated here and freed there; and which part of the CPUs the processes had.
///
/// # Errors
/// There was no memory, or a process died.
pub fn run<A: Allocator>(cpus: &[usize], run: Duration) -> Result<[f64; 2], Failure> {
    let a = A::make(Room {
        mbufs: 8 * SLOTS,
        jumbos: 0,
    })?;
    let ring = Ring::new()?;
    let spans = child::processes(&[cpus[0], cpus[1 % cpus.len()]], |i, gate| {
        let mut local = a.join();
        match i {
            0 => produce(&mut local, ring, gate, run),
            _ => consume(&mut local, ring, gate),
        }
    })?;
    let ns = (spans[1].ended - spans[0].began) as f64 / spans[0].operations.max(1) as f64;
    Ok([ns, child::busy(&spans, cpus.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_or_doubled_on_the_way() {
        let ring = Ring::new().unwrap();
        let n = 100_000;
        std::thread::scope(|s| {
            s.spawn(move || {
                let mut e = ring.end();
                (0..n).for_each(|i| e.put(i));
                e.put(END);
            });
            let mut e = ring.end();
            for i in 0..n {
                assert_eq!(e.get(), i);
            }
            assert_eq!(e.get(), END);
        });
    }
}
