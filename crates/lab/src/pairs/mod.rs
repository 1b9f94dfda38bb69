//! Benchmarks between two processes: FIFOs and pipes of the kernel, and the same carried by Byway, in turn.
//!
//! ```text
//! fifo       messages through a FIFO       byway bench --per round, case and backend--> a worker --fork--> the pair
//! bw-pipe    bytes one way                   (measure)        start.rs: plain, or        worker.rs        pair.rs,
//! pipeflex   readers that compute                             under `byway run`                           link.rs
//! lat-pipe   one byte, there and back
//! grep       cat 50 MB | grep (a pipeline of the shell, not of a worker)
//! ```
//! Invariant: every backend runs the same code of the same program; within a round they run one after the other, each in
//! new processes, and each round begins with another of them. A ratio compares runs of the same round only.
//! Not here: progress, the command line.
pub mod bw_pipe;
mod direct;
pub mod fifo;
pub mod fifo_text;
pub mod grep;
pub mod lat_pipe;
mod link;
mod pair;
pub mod pipeflex;
pub mod start;
#[cfg(test)]
mod tests;
pub mod text;
pub mod worker;

use crate::child::Failure;
use crate::record::{Better, Record};
use crate::stats;
use link::Kind;
use pipeflex::Options;
use start::Byway;
use worker::{Job, Work};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bench {
    Fifo,
    BwPipe,
    Pipeflex,
    LatPipe,
    Grep,
}

/// A way for the bytes: its name in the record, and how its worker is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backend {
    pub name: &'static str,
    kind: Kind,
    /// The words of `byway run`; `None`: without it.
    pub run: Option<&'static [&'static str]>,
}

impl Backend {
    const fn plain(name: &'static str, kind: Kind) -> Backend {
        Backend {
            name,
            kind,
            run: None,
        }
    }
    const fn carried(name: &'static str, kind: Kind, run: &'static [&'static str]) -> Backend {
        Backend {
            name,
            kind,
            run: Some(run),
        }
    }
}

/// What `byway run --pipe` may know beside `auto`, and how it is told.
pub const PIPES: [(&str, &[&str]); 4] = [
    ("base", &["--pipe", "base"]),
    ("lp", &["--pipe", "lp"]),
    ("zc", &["--pipe", "zc"]),
    ("lp+zc", &["--pipe", "lp+zc"]),
];

/// `auto`, and those of `pipes`.
fn carried_pipes(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = vec![Backend::carried("auto", Kind::Pipe, &[])];
    let known = PIPES.iter().filter(|p| pipes.contains(&p.0));
    v.extend(known.map(|(name, words)| Backend::carried(name, Kind::Pipe, words)));
    v
}

/// How much is measured, and on what.
#[derive(Clone)]
pub struct Plan {
    /// The CPUs to use.
    pub cpus: Vec<usize>,
    pub quick: bool,
    /// Of pipeflex.
    pub flex: Options,
    /// What `byway run --pipe` knows here beside `auto`.
    pub pipes: Vec<&'static str>,
}

impl Plan {
    pub fn new(cpus: Vec<usize>, quick: bool) -> Plan {
        Plan {
            cpus,
            quick,
            flex: Options::usual(quick),
            pipes: vec![],
        }
    }
}

impl Bench {
    pub const ALL: [Bench; 5] = [
        Bench::Fifo,
        Bench::BwPipe,
        Bench::Pipeflex,
        Bench::LatPipe,
        Bench::Grep,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Bench::Fifo => "fifo",
            Bench::BwPipe => "bw-pipe",
            Bench::Pipeflex => "pipeflex",
            Bench::LatPipe => "lat-pipe",
            Bench::Grep => "grep",
        }
    }

    /// Ids of all cases.
    pub fn cases(self, plan: &Plan) -> Vec<String> {
        let ids = |v: &[usize]| v.iter().map(usize::to_string).collect();
        match self {
            Bench::Fifo => fifo::cells().into_iter().map(fifo::Cell::id).collect(),
            Bench::BwPipe => ids(&bw_pipe::CHUNKS),
            Bench::Pipeflex if plan.flex.read > 0 => ids(&[plan.flex.read]),
            Bench::Pipeflex => ids(&pipeflex::READS),
            Bench::LatPipe => lat_pipe::CASES.map(String::from).into(),
            Bench::Grep => vec![grep::CASE.into()],
        }
    }

    pub fn backends(self, plan: &Plan) -> Vec<Backend> {
        match self {
            Bench::Fifo => fifo::BACKENDS.into(),
            Bench::BwPipe => bw_pipe::backends(&plan.pipes),
            Bench::Pipeflex => pipeflex::backends(&plan.pipes),
            Bench::LatPipe => lat_pipe::BACKENDS.into(),
            Bench::Grep => grep::backends(&plan.pipes),
        }
    }

    /// The kernel's backends, with whom all are compared; the first is the one that a reader looks for.
    pub fn over(self) -> &'static [&'static str] {
        match self {
            Bench::Fifo => &fifo::OVER,
            Bench::BwPipe => &bw_pipe::OVER,
            Bench::Pipeflex => &pipeflex::OVER,
            Bench::LatPipe => &lat_pipe::OVER,
            Bench::Grep => &grep::OVER,
        }
    }

    /// Metric, unit, and which way it is good.
    pub fn metric(self, case: &str) -> (&'static str, &'static str, Better) {
        match self {
            Bench::Fifo => ("elapsed", "us", Better::Less),
            Bench::BwPipe | Bench::Pipeflex => ("rate", "MB/s", Better::More),
            Bench::LatPipe if case == "spin" => ("round_trip", "us", Better::Less),
            Bench::LatPipe => ("one_way", "us", Better::Less),
            Bench::Grep => ("wall", "ms", Better::Less),
        }
    }

    pub fn rounds(self, plan: &Plan) -> usize {
        match self {
            Bench::Fifo => fifo::rounds(plan),
            Bench::BwPipe => bw_pipe::rounds(plan),
            Bench::Pipeflex => pipeflex::rounds(plan),
            Bench::LatPipe => lat_pipe::rounds(plan),
            Bench::Grep => grep::rounds(plan),
        }
    }

    /// What a worker is to do for `case`; `None`: there is no such case, or it is not for a worker.
    fn work(self, case: &str, plan: &Plan) -> Option<Work> {
        let number = || case.parse().ok();
        Some(match self {
            Bench::Fifo => {
                let cell = fifo::Cell::of(case)?;
                Work::Fifo(cell, fifo::runs(cell, plan))
            }
            Bench::BwPipe => Work::Stream(number()?, bw_pipe::total(plan)),
            Bench::Pipeflex => Work::Flex(Options {
                read: number()?,
                ..plan.flex
            }),
            Bench::LatPipe if case == "spin" => Work::Spin(lat_pipe::trips(plan)),
            Bench::LatPipe => Work::Sleep(lat_pipe::wakes(plan), lat_pipe::PAUSE_US),
            Bench::Grep => return None,
        })
    }
}

/// Measures `case`, and adds it to the record; `tick` is told after each worker.
///
/// # Errors
/// The first run that failed.
pub fn measure(
    record: &mut Record,
    bench: Bench,
    case: &str,
    plan: &Plan,
    byway: &Byway,
    mut tick: impl FnMut(),
) -> Result<(), Failure> {
    let backends = bench.backends(plan);
    let texts = match bench {
        Bench::Grep => Some(grep::texts()?),
        _ => None,
    };
    let mut values = vec![vec![]; backends.len()];
    let mut little = vec![None; backends.len()];
    for round in 0..bench.rounds(plan) {
        for k in 0..backends.len() {
            let k = (k + round) % backends.len();
            let b = &backends[k];
            let done = match (&texts, bench.work(case, plan)) {
                (Some(t), _) => grep::run(b, plan, byway, t)?,
                (None, Some(work)) => {
                    let job = Job {
                        kind: b.kind,
                        cpus: plan.cpus.clone(),
                        work,
                    };
                    byway.worker(&job, b.run)?
                }
                (None, None) => return Err(Failure::Said(format!("there is no case {case}"))),
            };
            values[k].extend(done.figures);
            if let Some(part) = done.carried.filter(|&part| part < 0.9) {
                little[k] = Some(little[k].unwrap_or(1.0f64).min(part));
            }
            tick();
        }
    }
    for (b, part) in backends.iter().zip(&little) {
        if let Some(part) = part {
            record.notes.push(format!(
                "{case}: {} carried only {:.0} % of the bytes in some run, the rest was the kernel's",
                b.name,
                part * 100.0
            ));
        }
    }
    keep(record, bench, case, &backends, &values);
    Ok(())
}

/// The rows and ratios of `case`.
fn keep(record: &mut Record, bench: Bench, case: &str, backends: &[Backend], values: &[Vec<f64>]) {
    let (metric, unit, better) = bench.metric(case);
    for (b, v) in backends.iter().zip(values) {
        record.row(case, b.name, metric, unit, v);
        if bench == Bench::Fifo {
            record.mean_row(case, b.name, "elapsed_mean", unit, v);
        }
    }
    let rank = |name: &str| bench.over().iter().position(|o| *o == name);
    for (b, v) in backends.iter().zip(values) {
        for (o, old) in backends.iter().zip(values) {
            // The kernel's among themselves: the first over those that follow.
            let (Some(over), own) = (rank(o.name), rank(b.name)) else {
                continue;
            };
            if own.is_none_or(|own| own < over) {
                record.ratio(case, metric, better, (b.name, v), (o.name, old));
            }
        }
    }
}

/// What the harness itself takes, as a note.
///
/// # Errors
/// A worker could not be started, or died.
pub fn overhead(record: &mut Record, plan: &Plan, byway: &Byway) -> Result<(), Failure> {
    let job = Job {
        kind: Kind::Nothing,
        cpus: plan.cpus.clone(),
        work: Work::Nothing(if plan.quick { 100 } else { 1000 }),
    };
    let done = byway.worker(&job, None)?;
    let us = stats::median(&done.figures) / 1e3;
    record.notes.push(format!(
        "harness: a look at the clock takes {:.0} ns, two processes leave the start {us:.1} us apart (median); \
         both are in the figures",
        pair::clock_ns()
    ));
    let where_ = match plan.cpus.len() {
        1 => format!("both processes of a pair on CPU {}", plan.cpus[0]),
        _ => format!(
            "the processes of a pair on CPUs {} and {}, each bound to its own (pipeflex, grep: where the kernel puts them)",
            plan.cpus[0], plan.cpus[1]
        ),
    };
    record.notes.push(where_);
    Ok(())
}
