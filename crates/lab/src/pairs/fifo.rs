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
use super::link::{Kind, Link};
use super::pair::{self, Flow};
use super::{Backend, Plan};
use crate::child::{Failure, now};
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
    /// About what a run of the kernel's FIFO takes, us: to share out the time that there is, not a measurement.
    fn about(self) -> f64 {
        5.0 + self.count as f64 * 0.7 + self.bytes() as f64 / 1500.0
    }
}

/// All of them, row by row.
pub fn cells() -> Vec<Cell> {
    SIZES
        .iter()
        .flat_map(|&size| COUNTS.map(|count| Cell { size, count }))
        .collect()
}

/// What a backend may take for a cell in one round, us.
const ROUND_US: f64 = 300_000.0;

/// Runs in a worker, one after the other: fewer where they take long.
pub fn runs(cell: Cell, plan: &Plan) -> usize {
    let most = if plan.quick { 2 } else { 10 };
    ((ROUND_US / cell.about()) as usize).clamp(1, most)
}

/// Which share of the time a cell has: its runs, and what every worker takes.
pub fn weight(cell: Cell, plan: &Plan) -> f64 {
    runs(cell, plan) as f64 * cell.about() + WARM_NS as f64 / 1e3
}

/// How `cells` are measured, as notes: what comes before, and which of them have fewer runs.
pub fn notes(cells: &[Cell], plan: &Plan) -> Vec<String> {
    let most = if plan.quick { 2 } else { 10 };
    let fewer: Vec<_> = cells
        .iter()
        .filter(|c| runs(**c, plan) < most)
        .map(|c| format!("{} {}", c.id(), runs(*c, plan)))
        .collect();
    let mut v = vec![format!(
        "each worker sends messages of the same size for {} ms and {} MiB before any is timed, and keeps the FIFO open; \
         a round is a worker of each backend with {most} runs",
        WARM_NS / 1_000_000,
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

/// The messages that come before those that are timed: as many bytes as this, and for as long.
const WARM_BYTES: u64 = 2 << 20;
const WARM_NS: u64 = 20_000_000;

/// The worker's part: us of each run.
///
/// # Errors
/// A process could not be started, or died.
pub fn work(kind: Kind, cpus: &[usize], cell: Cell, runs: usize) -> Result<Vec<f64>, Failure> {
    let link = Link::new(kind, pair::apart(cpus))?;
    let board = pair::board(1 + 2 * runs)?;
    let warm = Flow::new(&board[0]);
    let times = &board[1..];
    pair::pair(
        cpus,
        |gate| {
            let (end, message) = (link.writer(), vec![1; cell.size]);
            gate.pass();
            let until = now() + WARM_NS;
            // The clock is read once in so many messages, so that they come as thick as the others.
            let every = 64 * cell.size as u64;
            warm.send(&end, &message, |sent| {
                sent >= WARM_BYTES && sent.is_multiple_of(every) && now() >= until
            })?;
            for run in 0..runs {
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
            for run in 0..runs {
                gate.pass();
                pair::take(&end, &mut message, cell.bytes())?;
                times[2 * run + 1].store(now(), Relaxed);
            }
            Ok(())
        },
    )?;
    let at = |i: usize| times[i].load(Relaxed);
    Ok((0..runs)
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
        for (quick, all) in [(false, 10), (true, 2)] {
            let plan = Plan::new(vec![0], quick);
            let n = |c| runs(c, &plan);
            assert_eq!(n(cells()[0]), all);
            assert!(cells().into_iter().all(|c| n(c) >= 1));
            let said = notes(&cells(), &plan).join(" ");
            assert!(said.contains("4096x100000") && !said.contains("64x100 "));
        }
    }

    #[test]
    fn a_large_cell_has_more_of_the_time() {
        let plan = Plan::new(vec![0], false);
        let (small, large) = (cells()[0], cells()[34]);
        assert!(weight(large, &plan) > 3.0 * weight(small, &plan));
    }
}
