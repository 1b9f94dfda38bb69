//! `netperf` as a workload: each test a case, the kernel's sockets plain and under `byway run`.
//!
//! Invariant: the bytes of every case are compared once, in a run of each backend that does not count; the counts of both
//! sides are compared in all of them. Sockets of UNIX are in a folder that goes with the value.
//! Not here: a run (mod.rs).
use super::case::Case;
use super::{BACKENDS, Options, server, text};
use crate::child::Failure;
use crate::net::carried;
use crate::net::place::{Hosts, Place};
use crate::net::setting::Setting;
use crate::net::worker::Work;
use crate::pairs::start::Done;
use crate::record::{Metric, Parameters, Record};
use crate::runner::{Contest, Limits};
use crate::scratch::Scratch;
use crate::workload::Workload;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

pub struct Netperf {
    setting: Setting,
    options: Options,
    /// Once it is prepared, where both sides are here: where UNIX sockets are.
    folder: Option<Scratch>,
}

/// ms of the run of a case in which bytes are compared, at most.
const CHECKED_MS: u64 = 100;
/// LINUX unix(7): bytes of a socket's path, less the null at its end.
const LONGEST_PATH: usize = 107;

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
            folder: None,
        })
    }

    /// Where UNIX sockets are: only this user can connect to them.
    fn folder() -> Result<Scratch, Failure> {
        let name = format!("byway-bench-netperf-{}", std::process::id());
        let remedy = |why: &str| {
            let temporary = std::env::temp_dir();
            let temporary = temporary.display();
            Failure::Said(format!(
                "no UNIX socket in {temporary}: {why}; set TMPDIR to a folder of yours, such as /tmp"
            ))
        };
        let path = std::env::temp_dir().join(&name).join(server::SOCKET);
        match path.to_str() {
            None => return Err(remedy("its name is not in UTF-8")),
            Some(p) if p.len() > LONGEST_PATH => return Err(remedy("its name is too long")),
            Some(_) => {}
        }
        let folder =
            Scratch::create(&name, &[server::SOCKET]).map_err(|e| remedy(&e.to_string()))?;
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o700))?;
        Ok(folder)
    }

    /// One run of the backend at `k`.
    fn one(&self, case: &Case, k: usize, o: Options) -> Result<Run, Failure> {
        let folder = self.folder.as_ref().map(|f| f.path().display().to_string());
        let work = Work::Netperf(case.test, o, folder);
        let cpus = self.setting.cpus();
        let cpus = if case.one_cpu { &cpus[..1] } else { &cpus };
        let done = self.setting.run_on(cpus, k, work)?;
        if done.figures.len() != case.test.metrics().len() {
            return Err(Failure::Said(
                "a worker said something else than figures".into(),
            ));
        }
        Ok(Run(done))
    }
}

impl Workload for Netperf {
    fn name(&self) -> &'static str {
        "netperf"
    }
    fn cases(&self) -> Vec<String> {
        let here = self.setting.place.hosts == Hosts::Here;
        let many_cpus = self.setting.cpus().len() > 1;
        let all = Case::all(here, many_cpus);
        all.iter().map(Case::name).collect()
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
            ..Limits::usual(self.setting.quick, 20, 240)
        }
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        for case in cases.iter().filter_map(|c| Case::of(c)) {
            let o = case.options(self.options);
            o.possible(case.test).map_err(Failure::Said)?;
        }
        if self.setting.place.hosts == Hosts::Here {
            self.folder = Some(Netperf::folder()?);
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
        let what = Case::of(case).ok_or(Failure::Said(format!("there is no test {case}")))?;
        let o = what.options(self.options);
        let (names, ratios) = (self.setting.names(), self.setting.against(OVER));
        let metrics = what.test.metrics();
        let (metric, unit, better) = metrics[0];
        let contest = Contest {
            case,
            metric,
            unit,
            better,
            backends: &names,
            ratios: &ratios,
        };
        let checked = Options {
            ms: o.ms.min(CHECKED_MS),
            check: true,
            ..o
        };
        for k in (0..names.len()).filter(|_| !o.check) {
            self.one(&what, k, checked)?;
        }
        let outcome = contest.run(limits, |k| self.one(&what, k, o), tick)?;
        record.add(&contest, &outcome);
        if outcome.rounds() == 0 {
            return Ok(());
        }
        for (i, &(metric, unit, better)) in metrics.iter().enumerate().skip(1) {
            for (k, name) in names.iter().enumerate() {
                let samples = outcome.runs[k].iter().map(|r| vec![r.0.figures[i]]);
                let metric: Metric = (metric, unit, Some(better));
                record.row(case, name, metric, &samples.collect::<Vec<_>>());
            }
        }
        for (k, name) in names.iter().enumerate() {
            carried::add(record, case, name, outcome.runs[k].iter().map(|r| &r.0));
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
struct Run(Done);

impl crate::runner::Figures for Run {
    fn figures(&self) -> &[f64] {
        &self.0.figures[..1]
    }
}
