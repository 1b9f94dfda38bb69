//! `lat-pipe`: one byte from one process to another, and back (lat_pipe of lmbench).
//!
//! ```text
//! spin    round trip: one byte there, one back, without a pause; each waits for the other all the time
//! sleep   one way: the reader has been asleep for a while when the byte is written, and the kernel has to wake it
//! ```
//! Invariant: `sleep` is from before the write to after the read, by the clock that both processes share.
//! Not here: whole programs (pingpong.rs for the demo uses the same loop).
use super::link::{Kind, Link};
use super::pair;
use super::{Backend, Plan};
use crate::child::{Failure, now};
use crate::stats;
use byway_sys::process;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub const CASES: [&str; 2] = ["spin", "sleep"];
pub const BACKENDS: [Backend; 3] = [
    Backend::carried("byway-preload", Kind::Pipe, &[]),
    Backend::plain("byway-core", Kind::Core),
    Backend::plain("kernel", Kind::Pipe),
];
pub const OVER: [&str; 1] = ["kernel"];

/// Round trips of a run; bytes to sleepers, and the pause before each, us.
pub fn trips(plan: &Plan) -> u64 {
    if plan.quick { 2000 } else { 10_000 }
}
pub fn wakes(plan: &Plan) -> usize {
    if plan.quick { 100 } else { 500 }
}
pub const PAUSE_US: u64 = 200;

/// The worker's part of `spin`: us of a round trip, from `trips` of them after a tenth as many unmeasured.
///
/// # Errors
/// A process could not be started, or died.
pub fn spin(kind: Kind, cpus: &[usize], trips: u64) -> Result<Vec<f64>, Failure> {
    let n = pair::apart(cpus);
    let (to, fro) = (Link::new(kind, n)?, Link::new(kind, n)?);
    let time = &pair::board(1)?[0];
    let warm = trips / 10;
    pair::pair(
        cpus,
        |gate| {
            let (out, back) = (to.writer(), fro.reader());
            gate.pass();
            let mut began = now();
            for i in 0..warm + trips {
                if i == warm {
                    began = now();
                }
                let (a, mut b) = ([i as u8], [0]);
                out.put(&a)?;
                back.get(&mut b)?;
                if a != b {
                    return Err(Failure::Said("a byte came back wrong".into()));
                }
            }
            time.store(now() - began, Relaxed);
            Ok(())
        },
        |gate| {
            let (from, back) = (to.reader(), fro.writer());
            gate.pass();
            for _ in 0..warm + trips {
                let mut b = [0];
                from.get(&mut b)?;
                back.put(&b)?;
            }
            Ok(())
        },
    )?;
    Ok(vec![time.load(Relaxed) as f64 / 1e3 / trips as f64])
}

/// Seconds of a round trip through pipes, whoever carries them.
///
/// # Errors
/// As `spin`.
pub fn between(cpus: &[usize], trips: u64) -> Result<f64, Failure> {
    Ok(spin(Kind::Pipe, cpus, trips)?[0] / 1e6)
}

/// The worker's part of `sleep`: the median us from write to read of `wakes` bytes, `pause` us apart.
///
/// # Errors
/// As `spin`.
pub fn sleep(kind: Kind, cpus: &[usize], wakes: usize, pause: u64) -> Result<Vec<f64>, Failure> {
    let link = Link::new(kind, pair::apart(cpus))?;
    let board: &[AtomicU64] = pair::board(1 + wakes)?;
    let (arrived, times) = (&board[0], &board[1..]);
    // More than the messages that make a pipe worth a ring.
    let warm = 64;
    pair::pair(
        cpus,
        |gate| {
            let out = link.writer();
            gate.pass();
            for i in 0..warm + wakes {
                process::nap(pause);
                let began = now();
                out.put(&[i as u8])?;
                // ORDER: the time that the reader left comes with its count.
                while arrived.load(Acquire) <= i as u64 {
                    process::nap(pause / 4);
                }
                if i >= warm {
                    let t = &times[i - warm];
                    t.store(t.load(Relaxed) - began, Relaxed);
                }
            }
            Ok(())
        },
        |gate| {
            let from = link.reader();
            gate.pass();
            for i in 0..warm + wakes {
                from.get(&mut [0])?;
                if i >= warm {
                    times[i - warm].store(now(), Relaxed);
                }
                // ORDER: as above.
                arrived.store(i as u64 + 1, Release);
            }
            Ok(())
        },
    )?;
    let us: Vec<f64> = times.iter().map(|t| t.load(Relaxed) as f64 / 1e3).collect();
    Ok(vec![stats::median(&us)])
}
