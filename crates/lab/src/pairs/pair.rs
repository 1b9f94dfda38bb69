//! What all benchmarks between two processes share: where they run, how they begin, how they tell when what happened.
//!
//! ```text
//! the worker --fork--> one, on the first CPU     both pass the gate, then look at the clock that they share,
//!            --fork--> other, on the second      and leave what it said on the board
//! ```
//! Invariant: with two CPUs each process is bound to one of its own, with one both to that; the way through the kernel's
//! scheduler is then the same for every backend. Every byte that was sent is received before a run ends.
//! Not here: what carries the bytes (link.rs).
use super::link::{End, Kind, Link};
use crate::child::{self, Failure, Gate, Span, now};
use crate::record::Overhead;
use crate::shared::Shared;
use crate::stats;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// How many CPUs two processes on `cpus` have.
pub fn apart(cpus: &[usize]) -> usize {
    cpus.len().min(2)
}

/// Runs both, each in a process of its own.
///
/// # Errors
/// What went wrong in the first that failed; the other then ends with the run.
pub fn pair(
    cpus: &[usize],
    one: impl Fn(Gate) -> Result<(), Failure>,
    other: impl Fn(Gate) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let second = cpus[1 % cpus.len()];
    child::processes(&[cpus[0], second], |i, gate| {
        if i == 0 {
            one(gate)?
        } else {
            other(gate)?
        }
        // Who has sent all stays until all is received: the end of a process takes its time, and that of its CPU.
        gate.pass();
        Ok(Span::default())
    })?;
    Ok(())
}

/// One process sends and the other receives: first `warm`, then `total`, whose time counts. `sender` and `receiver` make
/// what moves so much, each in its process. Nanoseconds from before the first is sent until the last is received.
///
/// # Errors
/// As `pair`.
pub fn one_way<S, R>(
    cpus: &[usize],
    [warm, total]: [u64; 2],
    sender: impl Fn() -> Result<S, Failure>,
    receiver: impl Fn() -> Result<R, Failure>,
) -> Result<u64, Failure>
where
    S: Fn(u64) -> io::Result<()>,
    R: FnMut(u64) -> io::Result<()>,
{
    let times = board(2)?;
    pair(
        cpus,
        |gate| {
            let send = sender()?;
            gate.pass();
            send(warm)?;
            gate.pass();
            times[0].store(now(), Relaxed);
            send(total)?;
            Ok(())
        },
        |gate| {
            let mut receive = receiver()?;
            gate.pass();
            receive(warm)?;
            gate.pass();
            receive(total)?;
            times[1].store(now(), Relaxed);
            Ok(())
        },
    )?;
    Ok(times[1].load(Relaxed) - times[0].load(Relaxed))
}

/// MB/s.
pub fn rate(bytes: u64, ns: u64) -> f64 {
    bytes as f64 * 1e3 / ns.max(1) as f64
}

/// Words that both processes see, zeroes at first; for the life of the worker.
///
/// # Errors
/// No memory.
pub fn board(words: usize) -> io::Result<&'static [AtomicU64]> {
    let memory = Shared::new(words * 8)?;
    memory.populate()?;
    Ok(memory.words(0, words))
}

/// A process under `byway run` counts its CPUs at the first call that is carried, or could be. An ordinary program is
/// bound to none then; here that call comes before the processes are bound, so that it finds as many.
///
/// # Errors
/// No pipe could be made.
pub fn take_part() -> Result<(), Failure> {
    let p = Link::new(Kind::Pipe, 1)?;
    p.writer().put(&[0])?;
    p.reader().get(&mut [0])?;
    p.close();
    Ok(())
}

/// A stream of which the sender decides on its way when it ends.
#[derive(Clone, Copy)]
pub struct Flow {
    /// All its bytes; `OPEN` until that is known, which is before the last of them is sent.
    total: &'static AtomicU64,
}

const OPEN: u64 = u64::MAX;

impl Flow {
    /// One whose end is told in `total`, a word of the board.
    pub fn new(total: &'static AtomicU64) -> Flow {
        total.store(OPEN, Relaxed);
        Flow { total }
    }

    /// Sends `size` bytes of `from` and then those after them, in turn, until `last`, told what was sent so far, says
    /// that the next are the last. The bytes sent.
    ///
    /// # Errors
    /// The link's.
    pub fn send(
        &self,
        end: &End,
        from: &[u8],
        size: usize,
        mut last: impl FnMut(u64) -> bool,
    ) -> io::Result<u64> {
        let (mut sent, mut at) = (0, 0);
        loop {
            let ends = last(sent);
            if ends {
                // ORDER: before the bytes that the receiver ends with.
                self.total.store(sent + size as u64, Release);
            }
            end.put(&from[at..at + size])?;
            sent += size as u64;
            at = if at + 2 * size > from.len() {
                0
            } else {
                at + size
            };
            if ends {
                return Ok(sent);
            }
        }
    }

    /// Reads into `buf` until the end; `each` is told of every read.
    ///
    /// # Errors
    /// The link's.
    pub fn receive(
        &self,
        end: &End,
        buf: &mut [u8],
        mut each: impl FnMut(usize),
    ) -> io::Result<()> {
        let mut got = 0;
        loop {
            // ORDER: as told by the sender, before bytes that have been read.
            if got == self.total.load(Acquire) {
                return Ok(());
            }
            let n = end.get(buf)?;
            got += n as u64;
            each(n);
        }
    }
}

/// Reads `bytes`, in pieces of `buf` at most.
///
/// # Errors
/// The link's.
#[inline]
pub fn take(end: &End, buf: &mut [u8], mut bytes: u64) -> io::Result<()> {
    while bytes > 0 {
        let most = (buf.len() as u64).min(bytes) as usize;
        bytes -= end.get(&mut buf[..most])? as u64;
    }
    Ok(())
}

/// What the harness itself takes: ns between the moments at which the two processes come out of the gate, once for each
/// of `runs`; no message is sent.
///
/// # Errors
/// A process died.
pub fn nothing(cpus: &[usize], runs: usize) -> Result<Vec<f64>, Failure> {
    let times = board(2 * runs)?;
    let come_out = |side: usize| {
        move |gate: Gate| {
            for run in 0..runs {
                gate.pass();
                times[2 * run + side].store(now(), Relaxed);
            }
            Ok(())
        }
    };
    pair(cpus, come_out(0), come_out(1))?;
    let at = |i: usize| times[i].load(Relaxed);
    Ok((0..runs)
        .map(|run| at(2 * run).abs_diff(at(2 * run + 1)) as f64)
        .collect())
}

/// Where the processes of a pair are, as a note.
pub fn placed(cpus: &[usize]) -> String {
    match cpus {
        [cpu] => format!("both processes of a pair on CPU {cpu}"),
        _ => format!(
            "the processes of a pair on CPUs {} and {}, each bound to its own",
            cpus[0], cpus[1]
        ),
    }
}

/// What the harness takes, with the times of `nothing`.
pub fn overhead(apart: &[f64]) -> [Overhead; 2] {
    let takes = |what: &str, value, unit: &str| Overhead {
        what: what.into(),
        value,
        unit: unit.into(),
    };
    let apart = stats::median(apart) / 1e3;
    [
        takes("a look at the clock", clock_ns(), "ns"),
        takes("between the starts of two processes of a pair", apart, "us"),
    ]
}

/// Nanoseconds that a look at the clock takes.
pub fn clock_ns() -> f64 {
    let began = now();
    (0..1000).for_each(|_| {
        std::hint::black_box(now());
    });
    (now() - began) as f64 / 1000.0
}
