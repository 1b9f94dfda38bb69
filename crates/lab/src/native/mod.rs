//! `native`: the native library between two processes, beside the kernel's ways and the least that is possible.
//!
//! ```text
//! oneway-64   records of 64 bytes, one way                           ns each
//! rtt-spin    a record of 8 bytes there and back, without a pause    ns for both ways
//! oneway-64k  64 KiB by grants: reserved, numbered, sent, given back us each
//! oneway-1m   1 MiB: the same time, if nothing is copied             us each
//! wake-sleep  the receiver has been asleep for a while               us from send to receive
//! ```
//! Invariant: each run of a backend is in new processes, on the CPUs of a pair; records that are not those that were sent
//! make the record of the measurement wrong.
//! Not here: unmodified programs (pairs), whose turn it is (runner.rs), the command line.
mod run;
#[cfg(test)]
mod tests;
pub mod text;
mod way;

use crate::child::{self, Failure};
use crate::pairs::pair;
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Figures, Limits};
use crate::workload::Workload;
use std::time::Duration;
use way::Kind;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    Oneway64,
    RttSpin,
    Oneway64k,
    Oneway1m,
    WakeSleep,
}

impl Case {
    pub const ALL: [Case; 5] = [
        Case::Oneway64,
        Case::RttSpin,
        Case::Oneway64k,
        Case::Oneway1m,
        Case::WakeSleep,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Case::Oneway64 => "oneway-64",
            Case::RttSpin => "rtt-spin",
            Case::Oneway64k => "oneway-64k",
            Case::Oneway1m => "oneway-1m",
            Case::WakeSleep => "wake-sleep",
        }
    }
    fn of(id: &str) -> Option<Case> {
        Case::ALL.into_iter().find(|c| c.id() == id)
    }

    /// Ours first: all others are compared with it.
    fn backends(self) -> &'static [Kind] {
        use Kind::{Byway, BywayCopy, Eventfd, Limit, Pipe, Unix};
        match self {
            Case::Oneway64 => &[Byway, Unix, Pipe],
            Case::RttSpin => &[Byway, Unix, Pipe, Limit],
            // A record of the kernel's is a copy; so is the limit of those who copy: memcpy.
            Case::Oneway64k | Case::Oneway1m => &[Byway, BywayCopy, Pipe, Limit],
            Case::WakeSleep => &[Byway, Pipe, Eventfd],
        }
    }

    /// Metric, unit, and how many ns one of it is.
    fn metric(self) -> (&'static str, &'static str, f64) {
        match self {
            Case::Oneway64 => ("each", "ns", 1.0),
            Case::RttSpin => ("round_trip", "ns", 1.0),
            Case::Oneway64k | Case::Oneway1m => ("each", "us", 1e3),
            Case::WakeSleep => ("one_way", "us", 1e3),
        }
    }

    fn bytes(self) -> usize {
        match self {
            Case::Oneway64 => 64,
            Case::Oneway64k => 64 << 10,
            Case::Oneway1m => 1 << 20,
            Case::RttSpin | Case::WakeSleep => 8,
        }
    }

    /// Records of a run that count.
    fn records(self, quick: bool) -> u64 {
        let all = match self {
            Case::Oneway64 => 300_000,
            Case::Oneway64k => 10_000,
            Case::Oneway1m => 2_000,
            Case::RttSpin => 10_000,
            Case::WakeSleep => 300,
        };
        if quick { all / 10 } else { all }
    }
}

/// Longer than any run takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// The benchmark, ready to be run.
pub struct Native {
    cpus: Vec<usize>,
    quick: bool,
}

/// A run: its figure, and how many records were not those that were sent.
struct Run {
    figure: [f64; 1],
    wrong: u64,
}

impl Figures for Run {
    fn figures(&self) -> &[f64] {
        &self.figure
    }
}

impl Native {
    /// On these CPUs; the ordinary one, or the quick one.
    pub fn new(cpus: Vec<usize>, quick: bool) -> Native {
        Native { cpus, quick }
    }

    /// Joins the native library's shared memory, here and not in a run: whoever joined removes it at its end, and a run
    /// may be killed.
    fn join() -> Result<(), Failure> {
        native::why_not_carried().map_or(Ok(()), |why| Err(Failure::Said(why)))
    }

    /// One run of a backend, in processes of its own.
    fn one(&self, case: Case, kind: Kind, records: u64) -> Result<Run, Failure> {
        let said = child::isolated(LIMIT, || {
            let done = run::run(case, kind, &self.cpus, records)?;
            Ok(vec![done.ns, done.wrong as f64])
        })?;
        let (.., ns) = case.metric();
        Ok(Run {
            figure: [said[0] / ns],
            wrong: said[1] as u64,
        })
    }
}

impl Workload for Native {
    fn name(&self) -> &'static str {
        "native"
    }
    fn cases(&self) -> Vec<String> {
        Case::ALL.map(|c| c.id().into()).into()
    }
    fn cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }
    fn parameters(&self) -> Parameters {
        let records = |c: Case| {
            let name = format!("{}_records", c.id().replace('-', "_"));
            (name, c.records(self.quick).into())
        };
        let mut p: Parameters = Case::ALL.into_iter().map(records).collect();
        p.insert("pause_us".into(), run::PAUSE_US.into());
        p
    }
    fn usual(&self) -> Limits {
        Limits {
            // Runs warm up by themselves.
            warm: usize::from(!self.quick),
            ..Limits::usual(self.quick, 5, 60)
        }
    }
    /// Round trips through the kernel and large copies take longest.
    fn weight(&self, case: &str) -> f64 {
        match Case::of(case) {
            Some(Case::RttSpin | Case::Oneway1m) => 2.0,
            _ => 1.0,
        }
    }

    fn prepare(&mut self, record: &mut Record, _: &[String]) -> Result<(), Failure> {
        Native::join()?;
        let runs = if self.quick { 100 } else { 1000 };
        let apart = child::isolated(LIMIT, || pair::nothing(&self.cpus, runs))?;
        record.overhead.extend(pair::overhead(&apart));
        record.notes.push(text::ABOUT.into());
        record.notes.push(pair::placed(&self.cpus));
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        id: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let case = Case::of(id).ok_or_else(|| Failure::Said(format!("there is no case {id}")))?;
        let backends = case.backends();
        let names: Vec<_> = backends.iter().map(|k| k.name()).collect();
        let ratios: Vec<_> = (1..backends.len()).map(|k| (0, k)).collect();
        let (metric, unit, _) = case.metric();
        let contest = Contest {
            case: id,
            metric,
            unit,
            better: Better::Less,
            backends: &names,
            ratios: &ratios,
        };
        let records = case.records(self.quick);
        let one = |k: usize| self.one(case, backends[k], records);
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        for (name, runs) in names.iter().zip(&outcome.runs) {
            let wrong: u64 = runs.iter().map(|r| r.wrong).sum();
            if wrong > 0 {
                record.faults.push(format!(
                    "{id}: {name}: {wrong} records were not those that were sent"
                ));
            }
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![text::heading()]
    }
    fn lines(&self, record: &Record, id: &str) -> Vec<String> {
        text::lines(record, id)
    }
}
