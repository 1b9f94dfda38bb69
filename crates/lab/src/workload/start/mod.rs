//! What the start of processes costs: programs that start many others and carry few bytes, plain and under `byway run`.
//!
//! ```text
//! case.rs       the lines of the shell, and the programs that they need
//! configure.sh  a configure script, written by hand
//! calls.rs      counts the system calls of one program
//! ```
//! Invariant: the two sides run one after the other, and every output and status is compared. A case whose program is not
//! here has no rows, and the record says so.
//! Not here: how a side is started and its times are taken (shell.rs); pipelines that carry bytes (pipeline.rs).
pub mod calls;
mod case;

use super::Workload;
use super::shell::{self, Ran, Side};
use crate::child::Failure;
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Figures, Limits};
use crate::scratch::Scratch;
use crate::{program, table};
use case::{CASES, Case};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longer than any case takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(300);
const BACKENDS: [&str; 2] = ["kernel", "byway"];
const SIDES: [Side; 2] = [Side::Plain, Side::Carried(&[])];
const CPU: &str = "cpu";
const WALL: &str = "wall";
const CALLS: &str = "system_calls";
/// The case in whose rows the system calls stand.
const COUNTED: &str = "true-loop";

/// The cases, or some, ready to be run.
pub struct Starts {
    byway: PathBuf,
    cpus: Vec<usize>,
    quick: bool,
    place: Option<Place>,
}

/// What the lines of the cases name.
struct Place {
    folder: Scratch,
    python: OsString,
    truth: PathBuf,
}

/// A run with its CPU time in seconds.
struct Timed {
    cpu: [f64; 1],
    ran: Ran,
}

impl Figures for Timed {
    fn figures(&self) -> &[f64] {
        &self.cpu
    }
}

impl Place {
    fn create() -> std::io::Result<Place> {
        let name = format!("byway-start-{}", std::process::id());
        let folder = Scratch::create(&name, &case::FILES)?;
        std::fs::write(folder.path().join(case::FILES[0]), case::CONFIGURE)?;
        std::fs::write(folder.path().join(case::FILES[1]), case::makefile())?;
        Ok(Place {
            folder,
            // A case that needs one of them is left out where it is not here.
            python: shell::python().unwrap_or_else(|| "python3".into()),
            truth: program::find("true", &[]).unwrap_or_else(|| "true".into()),
        })
    }
}

impl Starts {
    /// `byway` is the program.
    pub fn new(byway: &Path, cpus: Vec<usize>, quick: bool) -> Starts {
        Starts {
            byway: byway.into(),
            cpus,
            quick,
            place: None,
        }
    }

    /// A line of the shell, by one side.
    fn run(&self, line: &str, side: Side, place: &Place) -> Result<Ran, Failure> {
        let mut c = side.command(&self.byway, Path::new("bash"));
        c.args(["-c", line])
            .env("D", place.folder.path())
            .env("P", &place.python)
            .env("T", &place.truth);
        // What starts the lab may be make, whose words are not those of the case.
        for theirs in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL"] {
            c.env_remove(theirs);
        }
        side.run(&mut c, Some(&self.cpus), LIMIT)
    }

    /// The system calls of one `true` of many, three times. The cache of rewritten texts is warm after two runs, which do not count.
    fn counted(&self, side: Side, place: &Place) -> Result<Vec<Vec<f64>>, Failure> {
        let mut all = vec![];
        for _ in 0..5 {
            let mut c: Command = side.command(&self.byway, &self.byway);
            c.arg("count-calls").arg(&place.truth);
            let said = side.run(&mut c, Some(&self.cpus), LIMIT)?.said;
            let text = String::from_utf8_lossy(&said.out);
            let n = text.trim().parse::<f64>().map_err(|_| {
                Failure::Said(String::from_utf8_lossy(&said.err).trim().to_string())
            })?;
            all.push(vec![n]);
        }
        Ok(all.split_off(2))
    }

    /// Rows of the system calls, or a note that says why there are none.
    fn count(&self, record: &mut Record, place: &Place) -> Result<(), Failure> {
        for (backend, side) in BACKENDS.iter().zip(SIDES) {
            match self.counted(side, place) {
                Ok(n) => record.row(COUNTED, backend, (CALLS, "calls", Some(Better::Less)), &n),
                Err(Failure::Said(why)) => {
                    let text = format!("left out: the system calls of `true`, {backend}: {why}");
                    record.notes.push(text);
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Workload for Starts {
    fn name(&self) -> &'static str {
        "start"
    }
    fn cases(&self) -> Vec<String> {
        CASES.iter().map(|c| c.id.into()).collect()
    }
    fn cpus(&self) -> Vec<usize> {
        self.cpus.clone()
    }
    fn parameters(&self) -> Parameters {
        let times = |c: &Case| (c.id.into(), c.times(self.quick).into());
        CASES.iter().map(times).collect()
    }
    fn usual(&self) -> Limits {
        Limits::usual(self.quick, 14, 140)
    }
    fn weight(&self, case: &str) -> f64 {
        Case::of(case).map_or(1.0, |c| c.weight)
    }

    fn look(&mut self, _: &mut Record, cases: &[String]) -> Result<Vec<String>, Failure> {
        let missing = |id: &String| {
            let program = Case::of(id)?.missing()?;
            Some(format!("{id}: {program} is not on the PATH; install it"))
        };
        let all: Vec<_> = cases.iter().filter_map(missing).collect();
        match all.len() == cases.len() {
            true => Err(Failure::Said(all.join("; "))),
            false => Ok(all),
        }
    }

    fn prepare(&mut self, record: &mut Record, cases: &[String]) -> Result<(), Failure> {
        let place = Place::create().map_err(|e| {
            Failure::Said(format!(
                "no folder in {}: {e}; set TMPDIR to a folder of yours with more room",
                std::env::temp_dir().display()
            ))
        })?;
        let text = "CPU time is that of the programs and of all that they started, user and system; \
                    a ratio of 0.50 is twice the time";
        record.notes.push(text.into());
        for (side, what) in SIDES
            .into_iter()
            .zip(["bash -c :", "the same under byway run"])
        {
            let what = format!("{what}, CPU time");
            shell::overhead(record, &what, || Ok(self.run(":", side, &place)?.cpu))?;
        }
        if cases.iter().any(|c| c == COUNTED)
            && Case::of(COUNTED).is_some_and(|c| c.missing().is_none())
        {
            self.count(record, &place)?;
        }
        self.place = Some(place);
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        id: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let (Some(case), Some(place)) = (Case::of(id), &self.place) else {
            return Err(Failure::Said(format!("there is no case {id}")));
        };
        // `look` has said so.
        if case.missing().is_some() {
            return Ok(());
        }
        let contest = Contest {
            case: id,
            metric: CPU,
            unit: "s",
            better: Better::Less,
            backends: &BACKENDS,
            ratios: &[(1, 0)],
        };
        let line = case.line(self.quick);
        let one = |k: usize| {
            let ran = self.run(&line, SIDES[k], place)?;
            Ok(Timed {
                cpu: [ran.cpu],
                ran,
            })
        };
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        let all = outcome.runs.iter().flatten().map(|t| &t.ran.said);
        if all.clone().any(|s| !s.status.success()) {
            record.faults.push(format!("{id}: a run failed"));
        }
        shell::compare(record, id, all.map(|s| (&s.out[..], s.status.code())));
        if outcome.rounds() > 0 {
            let wall = |k: usize| -> Vec<Vec<f64>> {
                outcome.runs[k].iter().map(|t| vec![t.ran.wall]).collect()
            };
            let [plain, ours] = [wall(0), wall(1)];
            for (backend, rounds) in BACKENDS.iter().zip([&plain, &ours]) {
                record.row(id, backend, (WALL, "s", Some(Better::Less)), rounds);
            }
            let (new, old) = ((BACKENDS[1], &ours[..]), (BACKENDS[0], &plain[..]));
            record.ratio(id, WALL, Better::Less, new, old);
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![table::heading("start")]
    }
    fn lines(&self, record: &Record, id: &str) -> Vec<String> {
        let same = shell::is_right(record, id);
        let ratios = record.ratios.iter().filter(|r| r.case == id);
        ratios
            .map(|r| table::line(record, r, &format!("{id} {}", r.metric), same))
            .collect()
    }
    fn tables(&self, record: &mut Record, _: &[String]) -> Vec<String> {
        let of = |backend| Some(record.find(COUNTED, backend, CALLS)?.median);
        match (of(BACKENDS[0]), of(BACKENDS[1])) {
            (Some(plain), Some(ours)) => {
                let more = ours - plain;
                let text =
                    format!("of one `true`: {plain} plain, {ours} under byway run, {more} more");
                table::wrapped("system calls", &text)
            }
            _ => vec![],
        }
    }
}
