//! `fifo`: the producer and consumer of the FIFO optimization project (FreeBSD, Google Summer of Code 2009).
//!
//! ```text
//! producer: count messages of size bytes --FIFO--> consumer: reads of size bytes, until all have come
//! ```
//! Invariant: the FIFO stays open from the first message of a worker to its last, and has carried messages of the same
//! size for a while before any is timed; a run is from the producer's first write to the consumer's last read.
//! Not here: the table (fifo_text.rs).
//!
//! Source: "FIFO Optimization status 4" (Zhao Shuai, freebsd.org, 25 July 2009), which leaves open whether it warmed up.
use super::Backend;
use super::link::{Kind, Link};
use super::pair::{self, Flow};
use crate::child::{Failure, now};
use crate::runner::Limits;
use std::sync::atomic::Ordering::Relaxed;

/// Message sizes, bytes, and counts, as the project had them.
pub const SIZES: [usize; 7] = [64, 128, 256, 512, 1024, 2048, 4096];
pub const COUNTS: [usize; 5] = [100, 1000, 5000, 10_000, 100_000];

/// Ours; what a FIFO was before the project, a socket; after it, a pipe.
pub const BACKENDS: [Backend; 4] = [
    Backend::carried("byway-preload", Kind::Fifo, &[]),
    Backend::plain("byway-core", Kind::Core),
    Backend::plain("kernel-fifo", Kind::Fifo),
    Backend::plain("unix-socket", Kind::Socket),
];
/// Whom the others are compared with.
pub const OVER: [&str; 2] = ["kernel-fifo", "unix-socket"];

/// One cell of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cell {
    pub size: usize,
    pub count: usize,
}

impl Cell {
    pub fn id(self) -> String {
        format!("{}x{}", self.size, self.count)
    }
    pub fn of(id: &str) -> Option<Cell> {
        let (size, count) = id.split_once('x')?;
        Some(Cell {
            size: size.parse().ok()?,
            count: count.parse().ok()?,
        })
    }
    pub fn bytes(self) -> u64 {
        (self.size * self.count) as u64
    }
    /// About what a run takes, us, on average of the backends: to share out the time that there is, not a measurement.
    fn about(self) -> f64 {
        5.0 + self.count as f64 * 0.45 + self.bytes() as f64 / 7500.0
    }
}

/// All of them, row by row.
pub fn cells() -> Vec<Cell> {
    SIZES
        .iter()
        .flat_map(|&size| COUNTS.map(|count| Cell { size, count }))
        .collect()
}

/// What a worker does with a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runs {
    /// One after the other.
    pub count: usize,
    /// For how long messages come before them, ms.
    pub warm_ms: u64,
}

/// Runs that each mean of the source is of; ours are of no fewer where nobody asks for less (--time, --runs, --quick).
pub const RUNS: usize = 100;

impl Runs {
    pub const MOST: usize = 5;

    /// Of the cells that take no time.
    fn most(quick: bool) -> Runs {
        let (count, warm_ms) = if quick { (2, 10) } else { (Runs::MOST, 20) };
        Runs { count, warm_ms }
    }

    /// Fewer where each takes long.
    pub fn of(cell: Cell, quick: bool) -> Runs {
        let us = if quick { 60_000.0 } else { 100_000.0 };
        let most = Runs::most(quick);
        Runs {
            count: ((us / cell.about()) as usize).clamp(1, most.count),
            ..most
        }
    }
}

/// When a cell is to end, where all of them are to end as `limits` has it: not before it has the runs of the source, unless
/// the rounds are told, or the time.
pub fn limits(case: &str, quick: bool, limits: &Limits) -> Limits {
    let told = quick || limits.least == limits.most;
    match Cell::of(case) {
        Some(cell) if !told => {
            let least = RUNS.div_ceil(Runs::of(cell, quick).count);
            let most = limits.most.max(least);
            Limits {
                least,
                most,
                ..*limits
            }
        }
        _ => *limits,
    }
}

/// What a worker's start takes, us.
const START_US: f64 = 9000.0;

/// Which share of the time a cell has: what a worker takes for it.
pub fn weight(cell: Cell, quick: bool) -> f64 {
    let runs = Runs::of(cell, quick);
    runs.count as f64 * cell.about() + runs.warm_ms as f64 * 1e3 + START_US
}

/// How `cells` are measured, as notes: what comes before, and which of them have fewer runs.
pub fn notes(cells: &[Cell], quick: bool) -> Vec<String> {
    let Runs { count, warm_ms } = Runs::most(quick);
    let fewer: Vec<_> = cells
        .iter()
        .filter(|c| Runs::of(**c, quick).count < count)
        .map(|c| format!("{} {}", c.id(), Runs::of(*c, quick).count))
        .collect();
    let mut v = vec![format!(
        "each worker sends messages of the same size for {warm_ms} ms and {} MiB before any is timed, and keeps the FIFO \
         open; a round is a worker of each backend with {count} runs",
        WARM_BYTES >> 20
    )];
    if !fewer.is_empty() {
        v.push(format!(
            "for want of time fewer runs a worker of: {}",
            fewer.join(", ")
        ));
    }
    v
}

/// Bytes of the messages that come at least before those that are timed.
const WARM_BYTES: u64 = 2 << 20;

/// The worker's part: us of each run.
///
/// # Errors
/// A process could not be started, or died.
pub fn work(kind: Kind, cpus: &[usize], cell: Cell, runs: Runs) -> Result<Vec<f64>, Failure> {
    let link = Link::new(kind, pair::apart(cpus))?;
    let n = runs.count;
    let board = pair::board(1 + 2 * n)?;
    let warm = Flow::new(&board[0]);
    let times = &board[1..];
    pair::pair(
        cpus,
        |gate| {
            let (end, message) = (link.writer(), vec![1; cell.size]);
            gate.pass();
            let until = now() + runs.warm_ms * 1_000_000;
            // The clock is read once in so many messages, so that they come as thick as the others.
            let every = 64 * cell.size as u64;
            warm.send(&end, &message, cell.size, |sent| {
                sent >= WARM_BYTES && sent.is_multiple_of(every) && now() >= until
            })?;
            for run in 0..n {
                gate.pass();
                times[2 * run].store(now(), Relaxed);
                for _ in 0..cell.count {
                    end.put(&message)?;
                }
            }
            Ok(())
        },
        |gate| {
            let (end, mut message) = (link.reader(), vec![0; cell.size]);
            gate.pass();
            warm.receive(&end, &mut message, |_| ())?;
            for run in 0..n {
                gate.pass();
                pair::take(&end, &mut message, cell.bytes())?;
                times[2 * run + 1].store(now(), Relaxed);
            }
            Ok(())
        },
    )?;
    let at = |i: usize| times[i].load(Relaxed);
    Ok((0..n)
        .map(|run| (at(2 * run + 1) - at(2 * run)) as f64 / 1e3)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_stand_in_the_order_of_the_source() {
        let v = cells();
        assert_eq!(v.len(), 35);
        assert_eq!(v[0].id(), "64x100");
        assert_eq!(v[4].id(), "64x100000");
        assert_eq!(v[34].id(), "4096x100000");
        assert!(v.iter().all(|c| Cell::of(&c.id()) == Some(*c)));
        assert_eq!(Cell::of("64"), None);
    }

    #[test]
    fn small_cells_have_all_runs_and_each_has_some() {
        for (quick, all) in [(false, 5), (true, 2)] {
            let n = |c| Runs::of(c, quick).count;
            assert_eq!(n(cells()[0]), all);
            assert!(cells().into_iter().all(|c| n(c) >= 1));
            let said = notes(&cells(), quick).join(" ");
            assert!(said.contains("4096x100000") && !said.contains("64x100 "));
        }
    }

    #[test]
    fn every_cell_has_the_runs_of_the_source_unless_others_are_asked_for() {
        let usual = Limits::usual(false, 1, 60);
        for cell in cells() {
            let l = limits(&cell.id(), false, &usual);
            assert!(l.least * Runs::of(cell, false).count >= RUNS && l.most >= l.least);
            assert_eq!((l.time, l.sure), (usual.time, usual.sure));
            let told = Limits {
                least: 3,
                most: 3,
                ..usual
            };
            assert_eq!(limits(&cell.id(), false, &told), told);
            assert_eq!(limits(&cell.id(), true, &usual), usual);
        }
    }

    #[test]
    fn a_large_cell_has_more_of_the_time() {
        let (small, large) = (cells()[0], cells()[34]);
        assert!(weight(large, false) > 3.0 * weight(small, false));
    }
}
