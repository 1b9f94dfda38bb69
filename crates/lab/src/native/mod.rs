//! `native`: the native library between two processes, beside other libraries, the kernel's ways and the least that is
//! possible.
//!
//! ```text
//! oneway-64   records of 64 bytes, one way                           ns each
//! rtt-spin    a record of 8 bytes there and back, without a pause    ns for both ways
//! oneway-64k  64 KiB by grants: reserved, numbered, sent, given back us each
//! oneway-1m   1 MiB: the same time, if nothing is copied             us each
//! wake-sleep  the receiver has been asleep for a while               us from send to receive
//! python-64   records of 64 bytes, one way, from Python to Python    ns each
//! python-1m   1 MiB the same way                                     us each
//! ```
//! Invariant: each run of a backend is in new processes, on the CPUs of a pair; records that are not those that were sent
//! make the record of the measurement wrong. A backend whose program or library is not here is left out, and
//! named with the remedy before anything is measured.
//! Not here: unmodified programs (pairs), whose turn it is (runner.rs), the command line.
pub mod apart;
pub mod case;
mod kernel;
mod limit;
mod ours;
pub mod place;
mod python;
pub mod run;
#[cfg(test)]
mod tests;
pub mod text;
pub mod way;
mod zeromq;

use crate::child::{self, Failure};
use crate::pairs::{pair, turns};
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Figures, Limits};
use crate::workload::Workload;
use case::{Case, Kind};
use run::Done;
use std::collections::BTreeMap;
use std::time::Duration;

/// Longer than any run takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// The benchmark, ready to be run.
pub struct Native {
    cpus: Vec<usize>,
    quick: bool,
    /// Backends that cannot be measured here, by what they need, and why.
    absent: BTreeMap<Needs, String>,
}

/// What a backend needs besides this program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Needs {
    Iceoryx2,
    Zeromq,
    Python,
    Wheel,
}

impl Needs {
    /// What the backends of a case need.
    fn of(case: Case, kind: Kind) -> Option<Needs> {
        match kind {
            Kind::Iceoryx2 => Some(Needs::Iceoryx2),
            Kind::Zeromq => Some(Needs::Zeromq),
            Kind::Multiprocessing => Some(Needs::Python),
            _ if case.python() => Some(Needs::Wheel),
            _ => None,
        }
    }

    /// What is there, in words of the record's.
    ///
    /// # Errors
    /// It is not: a sentence with the remedy.
    fn found(self) -> Result<Option<String>, Failure> {
        match self {
            Needs::Iceoryx2 => apart::program().map(|_| None),
            Needs::Zeromq => {
                let version = || Ok(zeromq::version()?.map(f64::from).into());
                match child::isolated(LIMIT, version) {
                    Ok(v) => {
                        let v: Vec<_> = v.iter().map(f64::to_string).collect();
                        Ok(Some(format!("zeromq is libzmq {}", v.join("."))))
                    }
                    Err(Failure::Interrupted) => Err(Failure::Interrupted),
                    Err(_) => Err(Failure::Said(zeromq::ABSENT.into())),
                }
            }
            Needs::Python => Ok(Some(format!("Python {}", python::version()?))),
            Needs::Wheel => python::wheel().map(|()| None),
        }
    }
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
        Native {
            cpus,
            quick,
            absent: BTreeMap::new(),
        }
    }

    /// Joins the native library's shared memory, here and not in a run: whoever joined removes it at its end, and a run
    /// may be killed.
    fn join() -> Result<(), Failure> {
        native::why_not_carried().map_or(Ok(()), |why| Err(Failure::Said(why)))
    }

    /// Finds out what is here of what these cases need. The result says of all else why it is not here.
    fn find(&mut self, record: &mut Record, cases: &[Case]) -> Result<Vec<String>, Failure> {
        let all = cases
            .iter()
            .flat_map(|&c| c.backends().iter().map(move |&k| (c, k)));
        let mut needs: Vec<_> = all.filter_map(|(c, k)| Needs::of(c, k)).collect();
        needs.sort_unstable();
        needs.dedup();
        for need in needs {
            match need.found() {
                Ok(said) => record.notes.extend(said),
                Err(Failure::Said(why)) => {
                    self.absent.insert(need, why);
                }
                Err(e) => return Err(e),
            }
        }
        match self.nothing(cases) {
            Some(why) => Err(Failure::Said(why.clone())),
            None => Ok(self.absent.values().cloned().collect()),
        }
    }

    /// If none of these cases can be measured: why the first cannot.
    fn nothing(&self, cases: &[Case]) -> Option<&String> {
        let mut why = cases.iter().map(|&c| self.why_not(c, Kind::Byway));
        let first = why.next()??;
        why.all(|w| w.is_some()).then_some(first)
    }

    /// Why a backend cannot be measured.
    fn why_not(&self, case: Case, kind: Kind) -> Option<&String> {
        self.absent.get(&Needs::of(case, kind)?)
    }

    /// Those of a case that can be measured; none without ours.
    fn backends(&self, case: Case) -> Vec<Kind> {
        let here = |k: &Kind| self.why_not(case, *k).is_none();
        if !here(&Kind::Byway) {
            return vec![];
        }
        case.backends().iter().copied().filter(here).collect()
    }

    /// One run of a backend, in processes of its own. `others`: what a run of several in turn said of those that are yet to be asked for.
    fn one(
        &self,
        case: Case,
        kind: Kind,
        records: u64,
        others: &mut Vec<(Kind, Done)>,
    ) -> Result<Run, Failure> {
        let done = match kind {
            _ if case == Case::WakeSleep && run::TOGETHER.contains(&kind) => {
                if !others.iter().any(|(k, _)| *k == kind) {
                    *others = self.together(records)?;
                }
                let place = others.iter().position(|(k, _)| *k == kind);
                others.swap_remove(place.expect("a run of all")).1
            }
            _ if case.python() => python::run(case, kind, &self.cpus, records)?,
            Kind::Iceoryx2 => apart::run(case, &self.cpus, records)?,
            _ => {
                let run = || Ok(run::run(case, kind, &self.cpus, records)?.into());
                Done::parse(&child::isolated(LIMIT, run)?)?
            }
        };
        let (.., ns) = case.metric();
        Ok(Run {
            figure: [done.ns / ns],
            wrong: done.wrong,
        })
    }

    /// One run of all that are measured in turn.
    fn together(&self, records: u64) -> Result<Vec<(Kind, Done)>, Failure> {
        let run = || {
            let all = run::together(&self.cpus, records)?;
            Ok(all.into_iter().flat_map(Vec::from).collect())
        };
        let said = child::isolated(LIMIT, run)?;
        let done: Vec<_> = said.chunks(2).map(Done::parse).collect::<Result<_, _>>()?;
        if done.len() != run::TOGETHER.len() {
            return Err(Failure::Said("a run said what it should not".into()));
        }
        Ok(run::TOGETHER.into_iter().zip(done).collect())
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
        p.insert("turn".into(), turns::TURN.into());
        p
    }
    fn usual(&self) -> Limits {
        Limits {
            // Runs warm up by themselves.
            warm: usize::from(!self.quick),
            ..Limits::usual(self.quick, 16, 120)
        }
    }
    fn weight(&self, case: &str) -> f64 {
        Case::of(case).map_or(1.0, Case::weight)
    }

    fn look(&mut self, record: &mut Record, cases: &[String]) -> Result<Vec<String>, Failure> {
        let cases: Vec<_> = cases.iter().filter_map(|c| Case::of(c)).collect();
        self.find(record, &cases)
    }

    fn prepare(&mut self, record: &mut Record, _: &[String]) -> Result<(), Failure> {
        place::sweep();
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
        let backends = self.backends(case);
        if backends.is_empty() {
            return Ok(());
        }
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
        let mut others = vec![];
        let one = |k: usize| self.one(case, backends[k], records, &mut others);
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
