//! The benchmark `mbuf`: our allocator against others, as the measurement page of the first mb_alloc did it in 2001.
//!
//! ```text
//! case      what is done                                         backends (files of this folder)
//! pair      alloc, write, free, one thread                       all
//! pair-2    the same, two threads of a process on two CPUs       all
//! cross     one process allocates, another frees                 those in shared memory
//! scale-N   N processes, each 8 allocs then 8 frees              all
//! burst     a rush, then 2 s of ordinary traffic: what is held   all
//! ```
//! Invariant: each run of a backend is in a fresh process.
//! Not here: whose turn it is (runner.rs), progress, tables (table.rs), the command line.
//!
//! Source: "mb_alloc: Preliminary Performance Measurements" (B. Milekic, 2001). NetPIPE measured the allocator through
//! a whole network stack and under Giant; here it is measured alone, which shows the lock that Giant hid.
pub mod allocator;
pub mod apart;
mod burst;
mod cross;
mod harness;
pub mod heaps;
pub mod ours;
mod pool;
pub mod present;
mod resident;
#[cfg(test)]
mod tests;
pub mod text;
mod timed;

use crate::record::{Better, Parameters, Record, Series};
use crate::runner::{Contest, Figures, Limits};
use crate::workload::Workload;
use crate::{child, domain, shared, spin};
use std::time::Duration;

pub use crate::child::Failure;
pub use burst::Curve;

/// A case, as its id in the record says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    Pair,
    Pair2,
    Cross,
    /// With so many processes.
    Scale(usize),
    Burst,
}

impl Case {
    pub fn id(&self) -> String {
        match self {
            Case::Pair => "pair".into(),
            Case::Pair2 => "pair-2".into(),
            Case::Cross => "cross".into(),
            Case::Scale(n) => format!("scale-{n}"),
            Case::Burst => "burst".into(),
        }
    }

    /// All of them on a machine with `cpus`: processes by powers of two, and as many as there are CPUs, to twice that.
    pub fn all(cpus: usize) -> Vec<Case> {
        let mut n: Vec<usize> = (0..)
            .map(|p| 1 << p)
            .take_while(|&n| n <= 2 * cpus)
            .collect();
        n.extend([cpus, 2 * cpus]);
        n.sort_unstable();
        n.dedup();
        let mut all = vec![Case::Pair, Case::Pair2, Case::Cross];
        all.extend(n.into_iter().map(Case::Scale));
        all.push(Case::Burst);
        all
    }

    /// The backends that can do it, ours first.
    pub fn backends(&self) -> Vec<Backend> {
        use Backend::{Harness, Malloc, MbAlloc, Mimalloc, Pool, Present};
        match self {
            Case::Pair | Case::Pair2 => vec![MbAlloc, Present, Pool, Malloc, Mimalloc, Harness],
            Case::Cross => vec![MbAlloc, Present, Pool, Harness],
            Case::Scale(_) | Case::Burst => vec![MbAlloc, Present, Pool, Malloc, Mimalloc],
        }
    }

    /// Metric, unit, and which way it is good.
    pub fn metric(&self) -> (&'static str, &'static str, Better) {
        match self {
            Case::Pair | Case::Pair2 | Case::Cross => ("time", "ns/op", Better::Less),
            Case::Scale(_) => ("rate", "Mop/s", Better::More),
            Case::Burst => ("held", "MiB", Better::Less),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backend {
    MbAlloc,
    Present,
    Pool,
    Malloc,
    Mimalloc,
    /// The loop with nothing in it.
    Harness,
}

impl Backend {
    pub fn name(&self) -> &'static str {
        match self {
            Backend::MbAlloc => "mb_alloc",
            Backend::Present => "present",
            Backend::Pool => "pool",
            Backend::Malloc => "malloc",
            Backend::Mimalloc => "mimalloc",
            Backend::Harness => "harness",
        }
    }
}

/// How much is measured.
#[derive(Clone)]
pub struct Plan {
    /// The CPUs to use.
    pub cpus: Vec<usize>,
    /// How long a run of the timed cases is.
    pub run: Duration,
    /// Rounds of `burst`, its size in bytes, and how long the calm after it is.
    pub bursts: usize,
    pub burst: usize,
    pub calm: Duration,
}

impl Plan {
    /// The ordinary one, or the quick one.
    pub fn new(cpus: Vec<usize>, quick: bool) -> Plan {
        Plan {
            cpus,
            run: Duration::from_millis(if quick { 30 } else { 60 }),
            bursts: if quick { 1 } else { 3 },
            burst: if quick { 128 << 20 } else { 1 << 30 },
            calm: Duration::from_secs(2),
        }
    }

    /// Half of what the machine can give is the most that a burst takes. Whether that made it smaller.
    ///
    /// # Errors
    /// There is not enough for any.
    pub fn fit(&mut self) -> Result<bool, Failure> {
        let most = resident::available() / 2;
        if most < 32 << 20 {
            return Err(Failure::NoMemory);
        }
        let smaller = self.burst > most;
        self.burst = self.burst.min(most);
        Ok(smaller)
    }

    /// Longer than any run takes on a machine that is not stuck.
    fn limit(&self) -> Duration {
        Duration::from_secs(60) + 2 * (self.run + self.calm)
    }
}

/// The benchmark with its plan, ready to be run.
pub struct Mbuf {
    pub plan: Plan,
    quick: bool,
    /// Bytes; known once it has begun.
    watermark: usize,
}

impl Mbuf {
    /// The ordinary one, or the quick one.
    pub fn new(cpus: Vec<usize>, quick: bool) -> Mbuf {
        Mbuf {
            plan: Plan::new(cpus, quick),
            quick,
            watermark: 0,
        }
    }
    fn case(&self, id: &str) -> Option<Case> {
        let all = Case::all(self.plan.cpus.len());
        all.into_iter().find(|c| c.id() == id)
    }
}

/// A run: its figure of the metric, and all that it gave.
struct Run {
    figure: [f64; 1],
    all: Vec<f64>,
}

impl Figures for Run {
    fn figures(&self) -> &[f64] {
        &self.figure
    }
}

impl Workload for Mbuf {
    fn name(&self) -> &'static str {
        "mbuf"
    }
    fn cases(&self) -> Vec<String> {
        let all = Case::all(self.plan.cpus.len());
        all.iter().map(Case::id).collect()
    }
    fn cpus(&self) -> Vec<usize> {
        self.plan.cpus.clone()
    }
    fn parameters(&self) -> Parameters {
        let p = &self.plan;
        Parameters::from([
            ("run_ms".into(), (p.run.as_millis() as u64).into()),
            ("burst_bytes".into(), p.burst.into()),
            ("calm_s".into(), p.calm.as_secs().into()),
        ])
    }
    fn usual(&self) -> Limits {
        Limits {
            // Each run warms up by itself.
            warm: usize::from(!self.quick),
            ..Limits::usual(self.quick, 16, 130)
        }
    }
    /// A run of `burst` is a second or so, and its calm; those of the others are short.
    fn weight(&self, case: &str) -> f64 {
        if case == Case::Burst.id() { 12.0 } else { 1.0 }
    }

    fn missing(&self) -> Option<String> {
        apart::program(MIMALLOC).err().map(|e| e.to_string())
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        let facts = ours::facts()?;
        if !facts.rseq {
            record.notes.push(
                "mb_alloc without restartable sequences (glibc 2.35 or later has them): its fronts are under locks".into(),
            );
        }
        self.watermark = facts.watermark;
        if cases.contains(&Case::Burst.id()) && self.plan.fit()? {
            record.notes.push(format!(
                "burst of {} MiB, half of the memory that there is",
                self.plan.burst >> 20
            ));
        }
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        id: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let case = self
            .case(id)
            .ok_or_else(|| Failure::Said(format!("there is no case {id}")))?;
        let backends = case.backends();
        let names: Vec<_> = backends.iter().map(Backend::name).collect();
        let (metric, unit, better) = case.metric();
        let others = 1..backends.len();
        let ratios: Vec<_> = others
            .filter(|&k| backends[k] != Backend::Harness)
            .map(|k| (0, k))
            .collect();
        let contest = Contest {
            case: id,
            metric,
            unit,
            better,
            backends: &names,
            ratios: &ratios,
        };
        let mut limits = *limits;
        if case == Case::Burst {
            // Curves that hardly differ; what a process does first is what is asked.
            (limits.least, limits.most, limits.warm) = (self.plan.bursts, self.plan.bursts, 0);
        }
        let one = |k: usize| {
            let all = run(&case, backends[k], &self.plan)?;
            let figure = match case {
                // A page, so that who keeps nothing has a ratio.
                Case::Burst => mib(Curve::from(&all).last().max(4096.0)),
                _ => all.first().copied().unwrap_or(0.0),
            };
            Ok(Run {
                figure: [figure],
                all,
            })
        };
        let outcome = contest.run(&limits, one, tick)?;
        record.add(&contest, &outcome);
        if outcome.rounds() == 0 {
            return Ok(());
        }
        if case == Case::Burst {
            for (b, runs) in backends.iter().zip(&outcome.runs) {
                let curves: Vec<_> = runs.iter().map(|r| Curve::from(&r.all)).collect();
                keep(record, b, &curves, self.watermark);
            }
        } else {
            let runs = outcome.runs.iter().flatten();
            disturbed(record, &case, &runs.map(|r| &r.all[..]).collect::<Vec<_>>());
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![text::heading()]
    }
    fn lines(&self, record: &Record, id: &str) -> Vec<String> {
        self.case(id).map_or(vec![], |c| text::lines(record, &c))
    }
    fn tables(&self, record: &mut Record, _: &[String]) -> Vec<String> {
        if record.series.is_empty() {
            return vec![];
        }
        let mut v = vec![String::new()];
        v.extend(text::curve_table(record));
        v.push(String::new());
        v.extend(text::plot(record, self.watermark));
        v
    }
}

/// Below this part of their CPUs' time workers have been disturbed by other work of the machine.
const UNDISTURBED: f64 = 0.95;

/// A note, if more than a quarter of the runs of `case` were disturbed. Each of `runs` is a figure and the part.
fn disturbed(record: &mut Record, case: &Case, runs: &[&[f64]]) {
    let n = runs
        .iter()
        .filter(|r| r.get(1).is_some_and(|&part| part < UNDISTURBED))
        .count();
    if 4 * n > runs.len() {
        record.notes.push(format!(
            "{}: other work had CPUs in {n} of {} runs; measure again while the machine is idle",
            case.id(),
            runs.len()
        ));
    }
}

/// What `burst` has besides its metric: the curve of each run, the peak, and what is over the watermark at the end.
fn keep(record: &mut Record, backend: &Backend, curves: &[Curve], watermark: usize) {
    let (case, name) = (Case::Burst.id(), backend.name());
    let mut row = |metric: &str, f: &dyn Fn(&Curve) -> f64| {
        let v: Vec<_> = curves.iter().map(|c| vec![mib(f(c))]).collect();
        record.row(&case, name, (metric, "MiB", None), &v);
    };
    row("peak", &Curve::peak);
    row("over_watermark", &|c| {
        (c.last() - watermark as f64).max(0.0)
    });
    if curves.iter().all(|c| c.told >= 0.0) {
        row("told", &|c| c.told);
    }
    for (run, c) in curves.iter().enumerate() {
        record.series.push(Series {
            case: case.clone(),
            backend: name.into(),
            metric: "held".into(),
            run,
            units: ["s".into(), "MiB".into()],
            points: c.points.iter().map(|p| [p[0], mib(p[1])]).collect(),
        });
    }
}

fn mib(bytes: f64) -> f64 {
    bytes / f64::from(1 << 20)
}

/// The program of that backend.
const MIMALLOC: &str = "byway-mimalloc";

/// One run of one backend, in a process of its own.
fn run(case: &Case, backend: Backend, plan: &Plan) -> Result<Vec<f64>, Failure> {
    let of = match backend {
        Backend::MbAlloc => of::<ours::MbAlloc>,
        Backend::Present => of::<present::Present>,
        Backend::Pool => of::<pool::Pool>,
        Backend::Malloc => of::<heaps::Malloc>,
        Backend::Mimalloc => return apart::run(MIMALLOC, case, plan),
        Backend::Harness if *case == Case::Cross => of::<harness::Harness<2048>>,
        Backend::Harness => of::<harness::Harness<16>>,
    };
    child::isolated(plan.limit(), || of(case, plan))
}

fn of<A: allocator::Allocator>(case: &Case, plan: &Plan) -> Result<Vec<f64>, Failure> {
    match case {
        Case::Cross => Ok(cross::run::<A>(&plan.cpus, plan.run)?.into()),
        Case::Burst => burst::run::<A>(plan.cpus[0], plan.burst, plan.calm),
        _ => Ok(timed::run::<A>(case, &plan.cpus, plan.run)?.into()),
    }
}
