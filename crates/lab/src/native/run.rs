//! One run: a pair of processes with a way between them, or two, and what it took.
//!
//! Invariant: some records go before those that count; every record that was sent is received before a run ends, and its
//! number looked at.
//! Not here: the ways (way.rs), how often a run is repeated (mod.rs).
use super::Case;
use super::way::{self, Kind, Way};
use crate::child::{Failure, now};
use crate::machine;
use crate::pairs::pair::{board, pair};
use crate::stats;
use byway_sys::process;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What it took.
pub struct Done {
    /// Of one record, or of both ways of one.
    pub ns: f64,
    /// Records that were not those that were sent.
    pub wrong: u64,
}

/// The pause before each record that is to find a sleeper, longer than anybody spins, us.
pub const PAUSE_US: u64 = 200;
/// Records before the first of those that count; of the other cases a tenth as many as count.
const WARM: usize = 64;

/// Runs `case`, in a process that has no other children: `n` records count.
///
/// # Errors
/// No process, memory or descriptor could be had, or one of the pair died.
pub fn run(case: Case, kind: Kind, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    match case {
        Case::Oneway64k | Case::Oneway1m if kind == Kind::Limit => {
            machine::bind(&cpus[..1]);
            let ns = way::memcpy(case.bytes(), n);
            Ok(Done { ns, wrong: 0 })
        }
        Case::Oneway64 | Case::Oneway64k | Case::Oneway1m => one_way(kind, cpus, case.bytes(), n),
        Case::RttSpin => round_trip(kind, cpus, n),
        Case::WakeSleep => wake(kind, cpus, n as usize),
    }
}

/// Counts what came instead of what was sent. Only one process has a counter.
fn check(got: u64, sent: u64, wrong: &AtomicU64) {
    if got != sent {
        wrong.store(wrong.load(Relaxed) + 1, Relaxed);
    }
}

/// Of records whose time the receiver took as a whole.
fn each(time: &AtomicU64, n: u64, wrong: &AtomicU64) -> Done {
    Done {
        ns: time.load(Relaxed) as f64 / n as f64,
        wrong: wrong.load(Relaxed),
    }
}

fn one_way(kind: Kind, cpus: &[usize], bytes: usize, n: u64) -> Result<Done, Failure> {
    let way = Way::new(kind, bytes)?;
    let board = board(2)?;
    let (time, wrong) = (&board[0], &board[1]);
    let warm = n / 10;
    pair(
        cpus,
        |gate| {
            let mut out = way.sender()?;
            gate.pass();
            for i in 0..warm + n {
                out.send(i)?;
            }
            Ok(())
        },
        |gate| {
            let mut from = way.receiver()?;
            gate.pass();
            let mut began = now();
            for i in 0..warm + n {
                if i == warm {
                    began = now();
                }
                check(from.receive()?, i, wrong);
            }
            time.store(now() - began, Relaxed);
            Ok(())
        },
    )?;
    Ok(each(time, n, wrong))
}

fn round_trip(kind: Kind, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    let (to, fro) = (Way::new(kind, 8)?, Way::new(kind, 8)?);
    let board = board(2)?;
    let (time, wrong) = (&board[0], &board[1]);
    let warm = n / 10;
    pair(
        cpus,
        |gate| {
            let (mut out, mut back) = (to.sender()?, fro.receiver()?);
            gate.pass();
            let mut began = now();
            for i in 0..warm + n {
                if i == warm {
                    began = now();
                }
                out.send(i)?;
                check(back.receive()?, i, wrong);
            }
            time.store(now() - began, Relaxed);
            Ok(())
        },
        |gate| {
            let (mut from, mut back) = (to.receiver()?, fro.sender()?);
            gate.pass();
            for _ in 0..warm + n {
                back.send(from.receive()?)?;
            }
            Ok(())
        },
    )?;
    Ok(each(time, n, wrong))
}

/// The median of `n` wake-ups.
fn wake(kind: Kind, cpus: &[usize], n: usize) -> Result<Done, Failure> {
    let way = Way::new(kind, 8)?;
    let board = board(2 + n)?;
    let (arrived, wrong, times) = (&board[0], &board[1], &board[2..]);
    pair(
        cpus,
        |gate| {
            let mut out = way.sender()?;
            gate.pass();
            for i in 0..WARM + n {
                process::nap(PAUSE_US);
                let began = now();
                out.send(i as u64)?;
                // ORDER: the time that the receiver left comes with its count.
                while arrived.load(Acquire) <= i as u64 {
                    process::nap(PAUSE_US / 4);
                }
                if i >= WARM {
                    let t = &times[i - WARM];
                    t.store(t.load(Relaxed) - began, Relaxed);
                }
            }
            Ok(())
        },
        |gate| {
            let mut from = way.receiver()?;
            gate.pass();
            for i in 0..WARM + n {
                check(from.receive()?, i as u64, wrong);
                if i >= WARM {
                    times[i - WARM].store(now(), Relaxed);
                }
                // ORDER: as above.
                arrived.store(i as u64 + 1, Release);
            }
            Ok(())
        },
    )?;
    let ns: Vec<f64> = times.iter().map(|t| t.load(Relaxed) as f64).collect();
    Ok(Done {
        ns: stats::median(&ns),
        wrong: wrong.load(Relaxed),
    })
}
