//! The case `burst`: a rush of packets, then calm: does the memory come back, with nobody to see to it?
//!
//! ```text
//! resident      ____
//!              /    \____ ...      watermark - - - - - - - - -
//! ____________/          \______________________ ...
//! start     taken  freed    ordinary traffic for 2 s
//! ```
//! Invariant: after the rush nothing is called but alloc and free, by the one process there is; a look at the resident
//! set allocates nothing (resident.rs). Every object of the rush is in use at once, and written to.
//! Not here: time. The traffic has pauses, as traffic has, and is not measured.
use super::allocator::{Allocator, Local, Room};
use super::child::{Failure, now};
use super::resident::Looker;
use super::timed::touch;
use crate::machine;
use byway_mem::layout::{Class, PAGE};
use std::time::Duration;

/// An mbuf as header for each jumbo.
const PACKET: usize = Class::Jumbo.bytes() + Class::Mbuf.bytes();
/// Ordinary traffic: mbufs and jumbos in flight at a time, and the pause between two such handfuls. More jumbos than
/// the eight that a CPU has at hand, so buckets change hands: that is when mb_alloc looks at what is free. Traffic that
/// stays below 120 mbufs and 8 jumbos never does, and then nothing goes back; mimalloc is alike in this.
const HANDFUL: usize = 100;
const JUMBOS: usize = 12;
const PAUSE: Duration = Duration::from_millis(1);
/// Between two looks.
const LOOK: u64 = 25_000_000;

/// What came of it.
pub struct Curve {
    /// Seconds since the rush was over, bytes. The first is the peak, before it.
    pub points: Vec<[f64; 2]>,
    /// Bytes for objects, as the allocator itself says at the end; below zero if it cannot.
    pub told: f64,
}

impl Curve {
    pub fn peak(&self) -> f64 {
        self.points.first().map_or(0.0, |p| p[1])
    }
    pub fn last(&self) -> f64 {
        self.points.last().map_or(0.0, |p| p[1])
    }
    /// As figures of a run, and back.
    pub fn from(figures: &[f64]) -> Curve {
        let (told, points) = figures.split_first().unwrap_or((&-1.0, &[]));
        Curve {
            points: points.chunks_exact(2).map(|p| [p[0], p[1]]).collect(),
            told: *told,
        }
    }
}

/// Writes to each page of `x`, as a copy into it would.
fn fill<L: Local>(a: &L, x: usize, class: Class) {
    for page in 0..class.bytes().div_ceil(PAGE) {
        // SAFETY: inside an object that we have.
        unsafe { touch(a.at(x).byte_add(page * PAGE), page as u64) };
    }
}

/// A handful of ordinary traffic: mbufs, now and then a jumbo.
fn handful<L: Local>(a: &mut L, held: &mut [usize]) -> Option<()> {
    let class = |i: usize| {
        if i < HANDFUL {
            Class::Mbuf
        } else {
            Class::Jumbo
        }
    };
    for (i, h) in held.iter_mut().enumerate() {
        *h = a.alloc(class(i))?;
        fill(a, *h, class(i));
    }
    for (i, h) in held.iter().enumerate() {
        a.free(*h, class(i));
    }
    Some(())
}

/// One run with a rush of `bytes`, and `calm` after it. Figures for `Curve::from`.
///
/// # Errors
/// There was no memory.
pub fn run<A: Allocator>(cpu: usize, bytes: usize, calm: Duration) -> Result<Vec<f64>, Failure> {
    machine::pin(cpu);
    let packets = bytes / PACKET;
    // What the run itself needs, before the first look.
    let mut held = vec![[1usize; 2]; packets];
    let mut few = [0; HANDFUL + JUMBOS];
    let mut figures = Vec::with_capacity(4096);
    // Held to the end: a large block freed would change how the C library's heap gives back.
    let mut whole = Looker::new(None)?;
    let before = whole.bytes()?;
    let a = A::make(Room {
        mbufs: packets + 4096,
        jumbos: packets + 256,
        ..Room::default()
    })?;
    let before = if a.mapping().is_some() { 0 } else { before };
    let mut look = Looker::new(a.mapping())?;
    let mut local = a.join();
    let mut note = |t: f64, told: f64| -> Result<(), Failure> {
        if figures.is_empty() {
            figures.push(told);
        }
        figures.extend([t, look.bytes()?.saturating_sub(before) as f64]);
        Ok(())
    };

    for h in &mut held {
        for (h, class) in h.iter_mut().zip([Class::Mbuf, Class::Jumbo]) {
            *h = local.alloc(class).ok_or(Failure::NoMemory)?;
            fill(&local, *h, class);
        }
    }
    note(0.0, -1.0)?;
    for h in &held {
        local.free(h[0], Class::Mbuf);
        local.free(h[1], Class::Jumbo);
    }
    let began = now();
    let (mut t, mut next) = (began, began);
    while t - began < calm.as_nanos() as u64 {
        if t >= next {
            note((t - began) as f64 / 1e9, -1.0)?;
            next += LOOK;
        }
        handful(&mut local, &mut few).ok_or(Failure::NoMemory)?;
        std::thread::sleep(PAUSE);
        t = now();
    }
    note((t - began) as f64 / 1e9, -1.0)?;
    figures[0] = a.told().map_or(-1.0, |n| n as f64);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_a_curve() {
        let c = Curve::from(&[5.0, 0.0, 100.0, 2.0, 10.0]);
        assert_eq!((c.peak(), c.last(), c.told), (100.0, 10.0, 5.0));
        assert_eq!(c.points.len(), 2);
    }
}
