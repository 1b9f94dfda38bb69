//! The benchmark `mbuf`: our allocator against others, as the measurement page of the first mb_alloc did it in 2001.
//!
//! ```text
//! case      what is done                                         backends (files of this folder)
//! pair      alloc, write, free, one thread                       all
//! pair-2    the same, two threads of a process on two CPUs       all
//! cross     one process allocates, another frees                 those in shared memory
//! scale-N   N processes, each 8 allocs then 8 frees              all
//! burst     a rush, then 2 s of ordinary traffic: what is kept   all
//! ```
//! Invariant: within a round the backends of a case run one after the other, each in a fresh process, and each round
//! begins with another of them; a ratio compares runs of the same round only.
//! Not here: progress, tables (table.rs), the command line.
//!
//! Source: "mb_alloc: Preliminary Performance Measurements" (B. Milekic, 2001). NetPIPE measured the allocator through
//! a whole network stack and under Giant; here it is measured alone, which shows the lock that Giant hid.
pub mod allocator;
pub mod apart;
mod burst;
mod cross;
mod harness;
mod heaps;
mod ours;
mod pool;
mod present;
mod resident;
#[cfg(test)]
mod tests;
pub mod text;
mod timed;

use crate::record::{Better, Record, Series};
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
    /// Rounds of the timed cases, and how long a run is.
    pub rounds: usize,
    pub run: Duration,
    /// Rounds of `burst`, its size in bytes, and how long the calm after it is.
    pub bursts: usize,
    pub burst: usize,
    pub calm: Duration,
}

impl Plan {
    /// The ordinary one (under two minutes), or the quick one (under twenty seconds).
    pub fn new(cpus: Vec<usize>, quick: bool) -> Plan {
        Plan {
            cpus,
            rounds: if quick { 5 } else { 15 },
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

    /// Runs of `case`.
    pub fn runs(&self, case: &Case) -> usize {
        let rounds = if *case == Case::Burst {
            self.bursts
        } else {
            self.rounds
        };
        rounds * case.backends().len()
    }

    /// Longer than any run takes on a machine that is not stuck.
    fn limit(&self) -> Duration {
        Duration::from_secs(60) + 2 * (self.run + self.calm)
    }
}

/// What holds for all cases, for the record: the watermark, and what is not as it should be.
///
/// # Errors
/// The machine does not give the memory for a domain.
pub fn prepare(record: &mut Record) -> Result<usize, Failure> {
    let facts = ours::facts()?;
    if !facts.rseq {
        record.notes.push(
            "mb_alloc without restartable sequences (glibc 2.35 or later has them): its fronts are under locks".into(),
        );
    }
    Ok(facts.watermark)
}

/// Measures `case`, and adds it to the record; `tick` is told after each run.
///
/// # Errors
/// The first run that failed.
pub fn measure(
    record: &mut Record,
    case: &Case,
    plan: &Plan,
    watermark: usize,
    mut tick: impl FnMut(),
) -> Result<(), Failure> {
    let backends = case.backends();
    let rounds = plan.runs(case) / backends.len();
    let mut values = vec![vec![]; backends.len()];
    for round in 0..rounds {
        for k in 0..backends.len() {
            let k = (k + round) % backends.len();
            values[k].push(run(case, backends[k], plan)?);
            tick();
        }
    }
    if *case == Case::Burst {
        for (b, figures) in backends.iter().zip(&values) {
            let curves: Vec<_> = figures.iter().map(|f| Curve::from(f)).collect();
            keep(record, b, &curves, watermark);
        }
    } else {
        disturbed(record, case, &values.concat());
    }
    let figure = |figures: &Vec<f64>| match case {
        // A page, so that who keeps nothing has a ratio.
        Case::Burst => mib(Curve::from(figures).last().max(4096.0)),
        _ => figures.first().copied().unwrap_or(0.0),
    };
    let values: Vec<Vec<f64>> = values
        .iter()
        .map(|v| v.iter().map(figure).collect())
        .collect();
    let (metric, unit, better) = case.metric();
    for (b, v) in backends.iter().zip(&values) {
        record.row(&case.id(), b.name(), metric, unit, v);
    }
    for (b, v) in backends.iter().zip(&values).skip(1) {
        if *b != Backend::Harness {
            let (ours, other) = (backends[0].name(), b.name());
            record.ratio(&case.id(), metric, better, (ours, &values[0]), (other, v));
        }
    }
    Ok(())
}

/// Below this part of their CPUs' time workers have been disturbed by other work of the machine.
const UNDISTURBED: f64 = 0.95;

/// A note, if more than a quarter of the runs of `case` were disturbed. Each of `runs` is a figure and the part.
fn disturbed(record: &mut Record, case: &Case, runs: &[Vec<f64>]) {
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

/// What `burst` has beside its metric: the curve of each run, the peak, and what is over the watermark at the end.
fn keep(record: &mut Record, backend: &Backend, curves: &[Curve], watermark: usize) {
    let (case, name) = (Case::Burst.id(), backend.name());
    let mut row = |metric: &str, f: &dyn Fn(&Curve) -> f64| {
        let v: Vec<f64> = curves.iter().map(|c| mib(f(c))).collect();
        record.row(&case, name, metric, "MiB", &v);
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

/// One run of one backend, in a process of its own.
fn run(case: &Case, backend: Backend, plan: &Plan) -> Result<Vec<f64>, Failure> {
    let of = match backend {
        Backend::MbAlloc => of::<ours::MbAlloc>,
        Backend::Present => of::<present::Present>,
        Backend::Pool => of::<pool::Pool>,
        Backend::Malloc => of::<heaps::Malloc>,
        Backend::Mimalloc => return apart::run("byway-mimalloc", case, plan),
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
