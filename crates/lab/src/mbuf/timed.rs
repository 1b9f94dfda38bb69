//! The cases that take a time: `pair`, `pair-2`, `scale-N`.
//!
//! Invariant: an operation is one allocation and one release; the clock is read once in a thousand of them. All workers
//! have warmed up, and work, while any is timed.
//! Not here: objects that change hands (cross.rs), memory that goes back (burst.rs).
use super::Case;
use super::allocator::{Allocator, Local, Room};
use super::child::{self, Failure, Gate, Span, now, ran};
use byway_mem::layout::Class;
use std::hint::black_box;
use std::time::Duration;

/// Operations between two looks at the clock.
const CHUNK: u64 = 1000;
/// Objects that a worker of `scale-N` takes before it frees them.
const BATCH: usize = 8;

/// The first word written, as whoever takes an object does.
///
/// # Safety
/// `p` is the first word of an object in use by the caller.
#[inline]
pub unsafe fn touch(p: *mut u64, v: u64) {
    // SAFETY: as the caller says.
    unsafe { p.write_volatile(v) }
}

/// `CHUNK` operations, one object at a time.
#[inline(never)]
fn pairs<L: Local>(a: &mut L) -> Option<()> {
    for i in 0..CHUNK {
        let x = a.alloc(Class::Mbuf)?;
        // SAFETY: an object that we have.
        unsafe { touch(a.at(x), i) };
        a.free(black_box(x), Class::Mbuf);
    }
    Some(())
}

/// `CHUNK` operations, `BATCH` objects at a time, freed in the order in which they came.
#[inline(never)]
fn batches<L: Local>(a: &mut L) -> Option<()> {
    let mut held = [0; BATCH];
    for i in 0..CHUNK / BATCH as u64 {
        for h in &mut held {
            *h = a.alloc(Class::Mbuf)?;
            // SAFETY: an object that we have.
            unsafe { touch(a.at(*h), i) };
        }
        for h in black_box(&held) {
            a.free(*h, Class::Mbuf);
        }
    }
    Some(())
}

/// A tenth of `run` to warm up, then `run` of it.
fn work<A: Allocator>(
    a: &A,
    gate: Gate,
    run: Duration,
    chunk: impl Fn(&mut A::Local) -> Option<()>,
) -> Result<Span, Failure> {
    let mut local = a.join();
    let run = run.as_nanos() as u64;
    let warm = now() + run / 10;
    while now() < warm {
        chunk(&mut local).ok_or(Failure::NoMemory)?;
    }
    gate.pass();
    let (began, before) = (now(), ran());
    let (mut ended, mut operations) = (began, 0);
    while ended - began < run {
        chunk(&mut local).ok_or(Failure::NoMemory)?;
        operations += CHUNK;
        ended = now();
    }
    Ok(Span {
        began,
        ended,
        operations,
        ran: ran() - before,
    })
}

/// One run of `case`: ns an operation as each thread sees it, or for `scale-N` million operations a second of all; and
/// which part of the CPUs the workers had.
///
/// # Errors
/// There was no memory, or a worker died.
pub fn run<A: Allocator>(case: &Case, cpus: &[usize], run: Duration) -> Result<[f64; 2], Failure> {
    // What lies in a worker's caches, and some slack.
    let room = |workers: usize| Room {
        mbufs: 4096 + 512 * workers,
        ..Room::default()
    };
    let on = |n: usize| -> Vec<usize> { (0..n).map(|i| cpus[i % cpus.len()]).collect() };
    match *case {
        Case::Scale(n) => {
            let a = A::make(room(n))?;
            let spans =
                child::processes(&on(n), |_, gate| work(&a, gate, run, batches::<A::Local>))?;
            Ok([rate(&spans), child::busy(&spans, cpus.len())])
        }
        Case::Pair2 => {
            let a = A::make(room(2))?;
            let spans = child::threads(&on(2), |_, gate| work(&a, gate, run, pairs::<A::Local>))?;
            Ok([each(&spans), child::busy(&spans, cpus.len())])
        }
        // A process with one thread: the best case of a heap that asks for that.
        _ => {
            let a = A::make(room(1))?;
            let spans = child::processes(&on(1), |_, gate| work(&a, gate, run, pairs::<A::Local>))?;
            Ok([each(&spans), child::busy(&spans, cpus.len())])
        }
    }
}

/// ns of a worker for an operation.
fn each(spans: &[Span]) -> f64 {
    let ns: u64 = spans.iter().map(|s| s.ended - s.began).sum();
    let operations: u64 = spans.iter().map(|s| s.operations).sum();
    ns as f64 / operations.max(1) as f64
}

/// Million operations a second, from the first beginning to the last end.
fn rate(spans: &[Span]) -> f64 {
    let began = spans.iter().map(|s| s.began).min().unwrap_or(0);
    let ended = spans.iter().map(|s| s.ended).max().unwrap_or(0);
    let operations: u64 = spans.iter().map(|s| s.operations).sum();
    operations as f64 * 1e3 / (ended - began).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(began: u64, ended: u64, operations: u64) -> Span {
        Span {
            began,
            ended,
            operations,
            ran: 0,
        }
    }

    #[test]
    fn two_that_do_not_disturb_each_other_take_what_one_takes() {
        let one = [span(0, 1000, 100)];
        let two = [span(0, 1000, 100), span(10, 1010, 100)];
        assert_eq!(each(&one), each(&two));
    }

    #[test]
    fn a_rate_is_of_all_workers() {
        assert_eq!(rate(&[span(0, 1000, 100), span(0, 2000, 300)]), 200.0);
    }
}
