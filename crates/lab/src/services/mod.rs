//! `services` and `originals`: real servers and the clients that ask them, plain and under one `byway run`. The first are
//! services on UNIX sockets, the second the original tools of the network's sources, over the loopback.
//!
//! ```text
//! case.rs     the cases, the programs that they need        user.rs    as whom PostgreSQL runs, if root measures
//! folder.rs   the folder of all files, which goes
//! worker.rs   the process that starts a server and its client, of which there is one for each run
//! redis.rs  memcached.rs  postgres.rs  nginx.rs  originals.rs    what each server and its client are told
//! ```
//! Invariant: each run has a server of its own and ends it; answers are compared in every run. A run that goes wrong is a
//! fault of its case, and the other cases are measured all the same.
//! Not here: sockets without a service (net), pairs of processes (pairs).
mod case;
mod folder;
mod memcached;
mod nginx;
mod originals;
mod postgres;
mod redis;
mod user;
pub mod worker;

use crate::child::Failure;
use crate::interrupt;
use crate::net::{carried, text};
use crate::pairs::start::{Byway, Call, Done, Of};
use crate::record::{Metric, Parameters, Record};
use crate::runner::{Contest, Limits};
use crate::workload::Workload;
use case::{CASES, Case, ORIGINALS, Service};
use folder::Folder;
use std::path::{Path, PathBuf};
use std::time::Duration;
use user::User;
use worker::{COMMAND, Job};

/// Longer than any worker takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(90);
const BACKENDS: [&str; 2] = ["kernel", "byway"];
const OVER: &str = BACKENDS[0];
/// The words of `byway run`, if there is one.
const RUNS: [Option<&[&str]>; 2] = [None, Some(&[])];
const NOTE: &str = "each run starts its server and its client, all under one `byway run` or none; rates are the client's own, \
     without the start";
const TOOLS_NOTE: &str = "NPtcp compares every block of a first pass; sockperf counts what is lost, wrk what fails; NPtcp's and sockperf's \
     latency is half of a round trip";

/// The cases, or some, ready to be run.
pub struct Services {
    byway: Byway,
    cpus: Vec<usize>,
    quick: bool,
    name: &'static str,
    cases: &'static [Case],
    folder: Option<Folder>,
}

impl Services {
    /// `byway` is the program.
    pub fn new(byway: &Path, cpus: Vec<usize>, quick: bool) -> Services {
        Services {
            byway: Byway::new(byway),
            cpus,
            quick,
            name: "services",
            cases: &CASES,
            folder: None,
        }
    }

    /// The original tools in place of services.
    pub fn originals(byway: &Path, cpus: Vec<usize>, quick: bool) -> Services {
        Services {
            name: "originals",
            cases: &ORIGINALS,
            ..Services::new(byway, cpus, quick)
        }
    }

    /// As whom `service` runs, if not as who measures.
    fn user(service: Service) -> Option<User> {
        User::other().filter(|_| service == Service::Postgres)
    }

    /// Why the cases of `service` cannot be run here.
    fn missing(&self, service: Service) -> Option<String> {
        let cannot = |u: User| {
            let program = self.byway.path();
            let why = format!(
                "{} does not run as root, and the user {} may not start {}; measure as another user than root",
                service.name(),
                u.name,
                program.display()
            );
            (!u.may_start(program)).then_some(why)
        };
        service
            .missing()
            .or_else(|| Services::user(service).and_then(cannot))
    }

    /// A worker of `case`, plain or under `byway run`.
    fn worker(
        &self,
        case: &Case,
        run: Option<&'static [&'static str]>,
        prepare: bool,
    ) -> Result<Done, Failure> {
        let Some(folder) = &self.folder else {
            return Err(Failure::Said("services were not prepared".into()));
        };
        let user = Services::user(case.service);
        let own: PathBuf = folder.of(case.service, user.as_ref())?;
        let job = Job {
            case: case.id.into(),
            quick: self.quick,
            folder: own.clone(),
            prepare,
        };
        let call = Call {
            program: None,
            words: vec![COMMAND.into(), job.word()],
            cpus: &self.cpus,
            run,
            namespace: None,
        };
        let mut c = self.byway.command(&call);
        // Whatever a server leaves in the folder that it is started in goes with it.
        c.current_dir(folder.path());
        if let Some(u) = &user {
            u.of(&mut c, &own);
        }
        self.byway.finish(&call, &mut c, LIMIT, Of::Sockets)
    }

    /// One run of the backend at `k`.
    fn one(&self, case: &Case, k: usize) -> Result<Done, Failure> {
        let done = self.worker(case, RUNS[k], false)?;
        match done.figures.len() == case.figures().len() {
            true => Ok(done),
            false => Err(Failure::Said(
                "a worker said something else than figures".into(),
            )),
        }
    }
}

impl Workload for Services {
    fn name(&self) -> &'static str {
        self.name
    }
    fn cases(&self) -> Vec<String> {
        self.cases.iter().map(|c| c.id.into()).collect()
    }
    fn cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }
    fn parameters(&self) -> Parameters {
        let amount = |c: &Case| (c.id.into(), c.amount(self.quick).into());
        self.cases.iter().map(amount).collect()
    }
    fn usual(&self) -> Limits {
        Limits {
            least: if self.quick { 3 } else { 7 },
            ..Limits::usual(self.quick, 40, 240)
        }
    }

    fn look(&mut self, _: &mut Record, cases: &[String]) -> Result<Vec<String>, Failure> {
        let chosen = |s: Service| {
            let of = |id: &&String| Case::of(id).is_some_and(|c| c.service == s);
            cases.iter().filter(of).cloned().collect::<Vec<_>>()
        };
        let (mut left_out, mut n) = (vec![], 0);
        for s in Service::ALL {
            let of = chosen(s);
            if let (false, Some(why)) = (of.is_empty(), self.missing(s)) {
                n += of.len();
                left_out.push(format!("{}: {why}", of.join(", ")));
            }
        }
        match n == cases.len() {
            true => Err(Failure::Said(left_out.join("; "))),
            false => Ok(left_out),
        }
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        record.notes.push(NOTE.into());
        if self.name == "originals" {
            record.notes.push(TOOLS_NOTE.into());
        }
        // A database is more than a signal's handler can remove.
        interrupt::watch_all()?;
        self.folder = Some(Folder::create()?);
        let postgres = |c: &&Case| c.service == Service::Postgres;
        let first = cases.iter().filter_map(|c| Case::of(c)).find(postgres);
        if let Some(case) = first.filter(|c| self.missing(c.service).is_none()) {
            self.worker(case, None, true)?;
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
        let case = Case::of(id).ok_or(Failure::Said(format!("there is no case {id}")))?;
        // `look` has said so.
        if self.missing(case.service).is_some() {
            return Ok(());
        }
        let figures = case.figures();
        let (metric, unit, better) = figures[0];
        let contest = Contest {
            case: id,
            metric,
            unit,
            better,
            backends: &BACKENDS,
            ratios: &[(1, 0)],
        };
        let one = |k: usize| {
            self.one(case, k).map_err(|e| match e {
                Failure::Interrupted => e,
                e => Failure::Said(format!("{id}: {}: {e}", BACKENDS[k])),
            })
        };
        let outcome = match contest.run(limits, one, tick) {
            Err(Failure::Said(why)) => {
                record.faults.push(why);
                return Ok(());
            }
            done => done?,
        };
        record.add(&contest, &outcome);
        if outcome.rounds() == 0 {
            return Ok(());
        }
        for (i, &(metric, unit, better)) in figures.iter().enumerate().skip(1) {
            let samples = |k: usize| -> Vec<Vec<f64>> {
                let runs = outcome.runs[k].iter();
                runs.map(|d| vec![d.figures[i]]).collect()
            };
            let [plain, ours] = [samples(0), samples(1)];
            let row: Metric = (metric, unit, Some(better));
            record.row(id, BACKENDS[0], row, &plain);
            record.row(id, BACKENDS[1], row, &ours);
            let (new, old) = ((BACKENDS[1], &ours[..]), (BACKENDS[0], &plain[..]));
            record.ratio(id, metric, better, new, old);
        }
        carried::add(record, id, BACKENDS[1], outcome.runs[1].iter());
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![text::heading(OVER)]
    }
    fn lines(&self, record: &Record, id: &str) -> Vec<String> {
        let own = format!("{id}: ");
        let faults = record.faults.iter().filter(|f| f.starts_with(&own));
        let mut lines: Vec<String> = faults
            .flat_map(|f| crate::table::wrapped("FAULT:", f))
            .collect();
        lines.extend(text::lines(record, id, OVER));
        lines
    }
}
