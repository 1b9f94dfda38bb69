//! `netperf` as a workload: each test a case, the kernel's sockets plain and under `byway run`.
//!
//! Invariant: sockets are not carried, so the ratio of the two says what Byway costs where it has nothing to do.
//! Not here: a run (mod.rs).
use super::{BACKENDS, Options, Test, text};
use crate::child::Failure;
use crate::net::place::{Hosts, Place};
use crate::net::setting::Setting;
use crate::net::worker::Work;
use crate::record::{Metric, Parameters, Record};
use crate::runner::{Contest, Limits};
use crate::workload::Workload;

pub struct Netperf {
    setting: Setting,
    options: Options,
}

/// With whom all are compared.
pub const OVER: &str = "kernel";

impl Netperf {
    /// `backends` are names, all if there is none.
    ///
    /// # Errors
    /// A sentence: there is no such backend.
    pub fn new(
        place: Place,
        options: Options,
        quick: bool,
        backends: &[String],
    ) -> Result<Netperf, String> {
        Ok(Netperf {
            setting: Setting::new(place, &BACKENDS, backends, quick)?,
            options,
        })
    }
}

impl Workload for Netperf {
    fn name(&self) -> &'static str {
        "netperf"
    }
    fn cases(&self) -> Vec<String> {
        let here = self.setting.place.hosts == Hosts::Here;
        let all = Test::ALL.into_iter().filter(|t| here || t.travels());
        all.map(|t| t.name().into()).collect()
    }
    fn cpus(&self) -> Vec<usize> {
        self.setting.cpus()
    }

    fn parameters(&self) -> Parameters {
        let o = &self.options;
        let pair = |b: crate::net::socket::Buffers| vec![b.send, b.receive].into();
        self.setting.parameters([
            ("message", o.message.into()),
            ("local_buffers", pair(o.local)),
            ("remote_buffers", pair(o.remote)),
            ("request", o.request.into()),
            ("response", o.response.into()),
            ("run_ms", o.ms.into()),
            ("check", o.check.into()),
        ])
    }

    fn usual(&self) -> Limits {
        Limits {
            warm: usize::from(!self.setting.quick),
            ..Limits::usual(self.setting.quick, 10, 150)
        }
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        for test in cases.iter().filter_map(|c| Test::of(c)) {
            self.options.possible(test).map_err(Failure::Said)?;
        }
        let checked = self.options.check.then_some(text::CHECKED);
        self.setting.prepare(record, &text::NOTES, checked)
    }

    fn measure(
        &mut self,
        record: &mut Record,
        case: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let test = Test::of(case).ok_or(Failure::Said(format!("there is no test {case}")))?;
        let (names, ratios) = (self.setting.names(), self.setting.against(OVER));
        let metrics = test.metrics();
        let (metric, unit, better) = metrics[0];
        let contest = Contest {
            case,
            metric,
            unit,
            better,
            backends: &names,
            ratios: &ratios,
        };
        let one = |k: usize| {
            let work = Work::Netperf(test, self.options);
            let done = self.setting.run(k, work, 0)?;
            if done.figures.len() != metrics.len() {
                return Err(Failure::Said(
                    "a worker said something else than figures".into(),
                ));
            }
            Ok(Run(done.figures))
        };
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        if outcome.rounds() == 0 {
            return Ok(());
        }
        for (i, &(metric, unit, better)) in metrics.iter().enumerate().skip(1) {
            for (k, name) in names.iter().enumerate() {
                let samples = outcome.runs[k].iter().map(|r| vec![r.0[i]]);
                let metric: Metric = (metric, unit, Some(better));
                record.row(case, name, metric, &samples.collect::<Vec<_>>());
            }
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![crate::net::text::heading(OVER)]
    }
    fn lines(&self, record: &Record, case: &str) -> Vec<String> {
        crate::net::text::lines(record, case, OVER)
    }
    fn tables(&self, record: &mut Record, _: &[String]) -> Vec<String> {
        let table = match self.setting.place.hosts {
            Hosts::Here => "localhost",
            _ => "lan",
        };
        record.notes.push(crate::net::text::SOURCE.into());
        text::table(record, &self.setting.names(), table)
    }
}

/// The figures of a run, in the order of `Test::metrics`.
struct Run(Vec<f64>);

impl crate::runner::Figures for Run {
    fn figures(&self) -> &[f64] {
        &self.0[..1]
    }
}
