//! Benchmarks between two processes: FIFOs and pipes of the kernel, and the same carried by Byway, in turn.
//!
//! ```text
//! fifo       messages through a FIFO       runner.rs --per round, case and backend--> a worker --fork--> the pair
//! bw-pipe    bytes one way                                    start.rs: plain, or        worker.rs        pair.rs,
//! pipeflex   readers that compute                             under `byway run`                           link.rs
//! lat-pipe   one byte, there and back
//! ready      readers that poll first
//! grep       cat 50 MB | grep (a pipeline of the shell, not of a worker, but for its bound)
//! ```
//! Invariant: every backend runs the same code of the same program, each run in new processes; of two that one pair of processes has in
//! turn (lat_pipe.rs), both figures are of one round.
//! Not here: progress, the command line.
pub mod bw_pipe;
mod direct;
pub mod fifo;
pub mod fifo_text;
pub mod grep;
pub mod lat_pipe;
pub mod link;
pub mod pair;
pub mod pipeflex;
pub mod ready;
pub mod start;
#[cfg(test)]
mod tests;
pub mod text;
pub mod turns;
pub mod variants_text;
pub mod worker;

use crate::child::Failure;
use crate::published;
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Limits};
use crate::workload::Workload;
use crate::workload::pipeline::Texts;
use link::Kind;
use pipeflex::Options;
use start::{Byway, Done};
use worker::{Job, Work};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bench {
    Fifo,
    BwPipe,
    Pipeflex,
    LatPipe,
    Grep,
    Ready,
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

/// The pipe that its variants are compared with.
pub const BASE: &str = "base";
/// The source's own base: a pipe of one page.
pub const PAGE: &str = "base-4k";
/// What bounds a pipe that copies its bytes once: one copy, and no pipe.
pub const BOUND: &str = "memcpy";
/// What `byway run --pipe` may know besides `auto`, and how it is told.
pub const PIPES: [(&str, &[&str]); 5] = [
    (BASE, &["--pipe", "base"]),
    (PAGE, &["--pipe", "base", "--capacity", "4K"]),
    ("lp", &["--pipe", "lp"]),
    ("zc", &["--pipe", "zc"]),
    ("lp+zc", &["--pipe", "lp+zc"]),
];

/// `auto`, and those of `pipes`.
fn carried_pipes(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = vec![Backend::carried("auto", Kind::Pipe, &[])];
    v.extend(variants(pipes));
    v
}

/// Those of `pipes`, in our order.
fn variants(pipes: &[&'static str]) -> impl Iterator<Item = Backend> {
    let known = PIPES.iter().filter(move |p| pipes.contains(&p.0));
    known.map(|(name, words)| Backend::carried(name, Kind::Pipe, words))
}

/// How much is measured, and on what.
#[derive(Clone)]
pub struct Plan {
    /// The CPUs to use.
    pub cpus: Vec<usize>,
    pub quick: bool,
    /// Of pipeflex.
    pub flex: Options,
    /// What `byway run --pipe` knows here besides `auto`.
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
    pub const ALL: [Bench; 6] = [
        Bench::Fifo,
        Bench::BwPipe,
        Bench::Pipeflex,
        Bench::LatPipe,
        Bench::Grep,
        Bench::Ready,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Bench::Fifo => "fifo",
            Bench::BwPipe => "bw-pipe",
            Bench::Pipeflex => "pipeflex",
            Bench::LatPipe => "lat-pipe",
            Bench::Grep => "grep",
            Bench::Ready => "ready",
        }
    }

    /// Whether it is one of those of the pipe's variants.
    fn varies(self) -> bool {
        !matches!(self, Bench::Fifo | Bench::Ready)
    }

    /// What has no `--pipe`.
    fn auto(self) -> &'static str {
        match self {
            Bench::LatPipe => lat_pipe::AUTO,
            Bench::Ready => ready::AUTO,
            _ => "auto",
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
            Bench::Ready => ready::cases(),
        }
    }

    pub fn backends(self, plan: &Plan) -> Vec<Backend> {
        match self {
            Bench::Fifo => fifo::BACKENDS.into(),
            Bench::BwPipe => bw_pipe::backends(&plan.pipes),
            Bench::Pipeflex => pipeflex::backends(&plan.pipes),
            Bench::LatPipe => lat_pipe::backends(&plan.pipes),
            Bench::Grep => grep::backends(&plan.pipes),
            Bench::Ready => ready::BACKENDS.into(),
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
            Bench::Ready => &ready::OVER,
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
            Bench::Ready => ready::metric(case),
        }
    }

    /// What a worker is to do for `case`; `None`: there is no such case, or it is not for a worker.
    fn work(self, case: &str, plan: &Plan) -> Option<Work> {
        let number = || case.parse().ok();
        Some(match self {
            Bench::Fifo => {
                let cell = fifo::Cell::of(case)?;
                Work::Fifo(cell, fifo::Runs::of(cell, plan.quick))
            }
            Bench::BwPipe => Work::Stream(number()?, bw_pipe::total(plan)),
            Bench::Pipeflex => Work::Flex(Options {
                read: number()?,
                ..plan.flex
            }),
            Bench::LatPipe if case == "spin" => Work::Spin(lat_pipe::trips(plan), false),
            Bench::LatPipe => Work::Sleep(lat_pipe::wakes(plan), lat_pipe::PAUSE_US, false, false),
            Bench::Ready => return ready::work(case, plan),
            Bench::Grep => return None,
        })
    }
}

/// A benchmark with its plan, ready to be run.
pub struct Pairs {
    pub bench: Bench,
    pub plan: Plan,
    pub byway: Byway,
    /// Of grep and of ready's programs, once it has begun.
    texts: Option<Texts>,
}

impl Pairs {
    pub fn new(bench: Bench, plan: Plan, byway: Byway) -> Pairs {
        Pairs {
            bench,
            plan,
            byway,
            texts: None,
        }
    }

    /// Why `case` cannot run here.
    fn missing(&self, case: &str) -> Option<String> {
        (self.bench == Bench::Ready).then(|| ready::missing(case))?
    }

    /// One run of a backend. `other`: what a run of two said of the other one, until that one's turn comes.
    fn one(&self, case: &str, b: &Backend, other: &mut Option<Done>) -> Result<Done, Failure> {
        match (&self.texts, self.bench.work(case, &self.plan)) {
            (_, Some(Work::Sleep(wakes, pause, _, false)))
                if lat_pipe::TOGETHER.contains(&b.name) =>
            {
                if let Some(done) = other.take() {
                    return Ok(done);
                }
                let job = Job {
                    kind: Kind::Core,
                    cpus: self.plan.cpus.clone(),
                    work: Work::Sleep(wakes, pause, true, false),
                };
                let mut both = self.byway.worker(&job, None)?.halves()?;
                if b.name != lat_pipe::TOGETHER[0] {
                    both.reverse();
                }
                let [own, others] = both;
                *other = Some(others);
                Ok(own)
            }
            (_, Some(work)) => {
                let job = Job {
                    kind: b.kind,
                    cpus: self.plan.cpus.clone(),
                    work,
                };
                self.byway.worker(&job, b.run)
            }
            (Some(t), None) if self.bench == Bench::Grep => {
                grep::run(b, &self.plan, &self.byway, t)
            }
            (Some(t), None) => ready::run(case, b, &self.plan, &self.byway, t),
            (None, None) => Err(Failure::Said(format!("there is no case {case}"))),
        }
    }
}

impl Workload for Pairs {
    fn name(&self) -> &'static str {
        self.bench.name()
    }
    fn cases(&self) -> Vec<String> {
        self.bench.cases(&self.plan)
    }
    fn cpus(&self) -> Vec<usize> {
        self.plan.cpus.clone()
    }

    fn parameters(&self) -> Parameters {
        let (plan, mut p) = (&self.plan, Parameters::new());
        p.insert("quick".into(), plan.quick.into());
        match self.bench {
            Bench::BwPipe => {
                p.insert("bytes".into(), bw_pipe::total(plan).into());
            }
            Bench::LatPipe => {
                p.insert("trips".into(), lat_pipe::trips(plan).into());
                p.insert("wakes".into(), lat_pipe::wakes(plan).into());
                p.insert("pause_us".into(), lat_pipe::PAUSE_US.into());
                p.insert("turn".into(), turns::TURN.into());
            }
            Bench::Pipeflex => {
                let o = &plan.flex;
                let all = [
                    ("processes", o.processes as u64),
                    ("run_ms", o.ms),
                    ("read_delay_us", o.read_us),
                    ("write_delay_us", o.write_us),
                    ("write", o.write as u64),
                ];
                p.extend(all.map(|(k, v)| (k.to_string(), v.into())));
            }
            Bench::Ready => {
                p.insert("messages".into(), ready::messages(plan).into());
                p.insert("trips".into(), lat_pipe::trips(plan).into());
            }
            Bench::Fifo | Bench::Grep => {}
        }
        p
    }

    fn usual(&self) -> Limits {
        let (quick, full) = match self.bench {
            Bench::Fifo => (17, 150),
            Bench::BwPipe => (8, 90),
            Bench::Pipeflex => (16, 130),
            Bench::LatPipe => (4, 50),
            Bench::Grep => (4, 30),
            Bench::Ready => (9, 60),
        };
        let fifo = self.bench == Bench::Fifo;
        // Theirs warm up by themselves.
        let warm = matches!(self.bench, Bench::Fifo | Bench::BwPipe);
        Limits {
            // Of fifo that is only for the smallest cells (`measure`).
            least: match self.plan.quick {
                true => 5,
                false if fifo => fifo::RUNS.div_ceil(fifo::Runs::MOST),
                false => 7,
            },
            warm: usize::from(!warm && !self.plan.quick),
            sure: fifo && !self.plan.quick,
            ..Limits::usual(self.plan.quick, quick, full)
        }
    }

    fn weight(&self, case: &str) -> f64 {
        match self.bench {
            Bench::Fifo => fifo::Cell::of(case).map_or(1.0, |c| fifo::weight(c, self.plan.quick)),
            _ => 1.0,
        }
    }

    fn look(&mut self, _: &mut Record, cases: &[String]) -> Result<Vec<String>, Failure> {
        let all: Vec<_> = cases.iter().filter_map(|c| self.missing(c)).collect();
        match all.len() == cases.len() {
            true => Err(Failure::Said(all.join("; "))),
            false => Ok(all),
        }
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        record.notes.push(text::about(self.bench).into());
        overhead(record, &self.plan, &self.byway)?;
        match self.bench {
            Bench::Grep => self.texts = Some(grep::texts()?),
            Bench::Ready if cases.iter().any(|c| ready::is_program(c)) => {
                self.texts = Some(grep::texts()?);
            }
            Bench::Fifo => {
                let cells = cases.iter().filter_map(|c| fifo::Cell::of(c));
                let cells: Vec<_> = cells.collect();
                record.notes.extend(fifo::notes(&cells, self.plan.quick));
                record.notes.push(fifo_text::SOURCE.into());
            }
            _ => {}
        }
        if !published::tables(self.bench.name()).is_empty() && self.bench.varies() {
            record.notes.push(variants_text::SOURCE.into());
        }
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        case: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        // `look` has said so.
        if self.missing(case).is_some() {
            return Ok(());
        }
        let backends = self.bench.backends(&self.plan);
        let names: Vec<_> = backends.iter().map(|b| b.name).collect();
        let (metric, unit, better) = self.bench.metric(case);
        let contest = Contest {
            case,
            metric,
            unit,
            better,
            backends: &names,
            ratios: &compared(self.bench, &names),
        };
        let limits = &match self.bench {
            Bench::Fifo => fifo::limits(case, self.plan.quick, limits),
            _ => *limits,
        };
        let mut other = None;
        let one = |k: usize| self.one(case, &backends[k], &mut other);
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        for (k, name) in names.iter().enumerate() {
            if self.bench == Bench::Fifo && outcome.rounds() > 0 {
                let metric = (fifo_text::MEAN, unit, Some(better));
                record.mean_row(case, name, metric, &outcome.samples(k));
            }
            start::note(record, case, name, outcome.runs[k].iter());
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        match self.bench {
            Bench::Fifo => vec![],
            bench => vec![text::heading(bench)],
        }
    }
    fn lines(&self, record: &Record, case: &str) -> Vec<String> {
        match self.bench {
            Bench::Fifo => vec![],
            bench => text::lines(record, bench, case, &self.plan),
        }
    }
    fn tables(&self, record: &mut Record, _: &[String]) -> Vec<String> {
        match self.bench {
            Bench::Fifo => {
                record.notes.extend(fifo_text::runs(record));
                fifo_text::table(record)
            }
            bench if bench.varies() => {
                let mut v = vec![String::new()];
                v.extend(variants_text::table(record, bench, self.plan.cpus.len()));
                v
            }
            _ => vec![],
        }
    }
}

/// The pairs of backends that have a ratio. All are compared with the kernel's, and the first of the kernel's with those
/// that follow. The variants of our pipe are compared with its bases, and with what bounds it.
fn compared(bench: Bench, names: &[&str]) -> Vec<(usize, usize)> {
    let rank = |name: &str| bench.over().iter().position(|o| *o == name);
    let ours = |name: &str| name == bench.auto() || PIPES.iter().any(|p| p.0 == name);
    let mut v = vec![];
    for (k, name) in names.iter().enumerate() {
        for (o, over) in names.iter().enumerate() {
            if rank(over).is_some_and(|over| rank(name).is_none_or(|own| own < over)) {
                v.push((k, o));
            }
        }
    }
    for base in [BASE, PAGE, BOUND] {
        if let Some(base) = names.iter().position(|n| *n == base) {
            let bases = |name: &str| name == BASE || name == PAGE;
            let variants = (0..names.len()).filter(|&k| ours(names[k]) && !bases(names[k]));
            v.extend(variants.map(|k| (k, base)));
        }
    }
    v
}

/// What the harness itself takes, and where it runs.
///
/// # Errors
/// A worker could not be started, or died.
fn overhead(record: &mut Record, plan: &Plan, byway: &Byway) -> Result<(), Failure> {
    let job = Job {
        kind: Kind::Nothing,
        cpus: plan.cpus.clone(),
        work: Work::Nothing(if plan.quick { 100 } else { 1000 }),
    };
    let done = byway.worker(&job, None)?;
    record.overhead.extend(pair::overhead(&done.figures));
    let place = pair::placed(&plan.cpus);
    record.notes.push(match plan.cpus.len() {
        1 => place,
        _ => format!(
            "{place} (pipeflex, grep and the programs of ready: where the kernel puts them)"
        ),
    });
    Ok(())
}
