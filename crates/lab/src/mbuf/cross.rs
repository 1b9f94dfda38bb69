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
use super::timed;
use crate::ring::{Ring, SLOTS};
use byway_mem::layout::Class;
use std::time::Duration;

/// Allocates and sends for `run`.
fn produce<L: Local>(a: &mut L, ring: Ring, gate: Gate, run: Duration) -> Result<Span, Failure> {
    let (run, mut end) = (run.as_nanos() as u64, ring.producer());
    gate.pass();
    // The first tenth is not counted: there the consumer's cache of the allocator fills.
    let warm = now() + run / 10;
    let (mut began, mut before, mut first, mut sent) = (0, 0, 0, 0);
    loop {
        for i in 0..1024 {
            let x = a.alloc(Class::Mbuf).ok_or(Failure::NoMemory)?;
            // SAFETY: an object that we have.
            unsafe { timed::touch(a.at(x), i) };
            end.put(x as u64)?;
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
    drop(end);
    Ok(Span {
        began,
        ended: now(),
        operations: sent - first,
        ran: ran() - before,
    })
}

/// Receives and frees until the end.
fn consume<L: Local>(a: &mut L, ring: Ring, gate: Gate) -> Result<Span, Failure> {
    let (mut end, mut sum) = (ring.consumer(), 0u64);
    gate.pass();
    let (began, before) = (now(), ran());
    while let Some(x) = end.get() {
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
        ..Room::default()
    })?;
    // Awake on one CPU too, where sleeps would be most of what is measured.
    let ring = Ring::new(false)?;
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
