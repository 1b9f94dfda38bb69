//! Starts workers, plain or under `byway run`, and reads what they say.
//!
//! Invariant: a worker that does not end within its time is ended (program.rs), and one whose parent dies ends with it.
//! Not here: what a worker does (worker.rs).
use super::PIPES;
use super::worker::Job;
use crate::child::Failure;
use crate::net::veth;
use crate::record::Record;
use crate::runner::Figures;
use crate::{machine, program};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longer than any worker takes on a machine that is not stuck.
pub(super) const LIMIT: Duration = Duration::from_secs(90);

/// The program that is measured, which is the one that runs.
#[derive(Clone)]
pub struct Byway {
    path: PathBuf,
}

/// What a run says.
pub struct Done {
    pub figures: Vec<f64>,
    /// Which part of its bytes Byway carried, at most; `None` where it was not asked to.
    pub carried: Option<f64>,
    /// Why nothing was carried, as `--explain` has it.
    pub why: Option<String>,
}

impl Done {
    /// Of a run of two backends: what it says of each.
    ///
    /// # Errors
    /// It says something else.
    pub fn halves(self) -> Result<[Done; 2], Failure> {
        let [a, b] = self.figures[..] else {
            let n = self.figures.len();
            return Err(Failure::Said(format!("a worker said {n} figures, not two")));
        };
        Ok([a, b].map(|f| Done {
            figures: vec![f],
            carried: self.carried,
            why: self.why.clone(),
        }))
    }
}

impl Figures for Done {
    fn figures(&self) -> &[f64] {
        &self.figures
    }
}

impl Byway {
    /// `path` is the program.
    pub fn new(path: &Path) -> Byway {
        Byway { path: path.into() }
    }
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What `run --pipe` knows besides `auto`.
    pub fn pipes(&self) -> Vec<&'static str> {
        let help = Command::new(&self.path)
            .args(["run", "--help"])
            .stdin(Stdio::null())
            .output();
        help.map_or(vec![], |o| in_help(&String::from_utf8_lossy(&o.stdout)))
    }

    /// Runs `job` in a worker; `run` are the words of `byway run`, if it is to be carried.
    ///
    /// # Errors
    /// What went wrong there.
    pub fn worker(&self, job: &Job, run: Option<&'static [&'static str]>) -> Result<Done, Failure> {
        let mut words = vec!["pair-worker".to_string()];
        words.extend(job.words());
        let call = Call {
            program: None,
            words,
            cpus: &job.cpus,
            run,
            namespace: None,
        };
        let mut done = self.call(&call, LIMIT, job.work.bytes())?;
        done.carried = done.carried.filter(|_| job.work.is_by_pipes());
        Ok(done)
    }

    /// Runs a worker that has to end within `limit`, and moves so many bytes through pipes at least; 0: as many as were
    /// counted.
    ///
    /// # Errors
    /// What went wrong there.
    pub fn call(&self, call: &Call, limit: Duration, bytes: u64) -> Result<Done, Failure> {
        self.finish(call, &mut self.command(call), limit, bytes)
    }

    /// The same with what `command` made of `call`, to which its caller may have added.
    ///
    /// # Errors
    /// As `call`.
    pub fn finish(
        &self,
        call: &Call,
        command: &mut Command,
        limit: Duration,
        bytes: u64,
    ) -> Result<Done, Failure> {
        let said = program::output(command, limit)?;
        let (out, err) = (
            String::from_utf8_lossy(&said.out),
            String::from_utf8_lossy(&said.err),
        );
        let figures: Vec<f64> = out.lines().filter_map(|l| l.parse().ok()).collect();
        if figures.is_empty() {
            return Err(call.silent(&err));
        }
        let carried = match call.run {
            Some(_) => Some(part(&err, bytes)?),
            None => None,
        };
        Ok(Done {
            figures,
            carried,
            why: why(&err),
        })
    }

    /// What starts the worker of `call`.
    pub fn command(&self, call: &Call) -> Command {
        let program = call.program.unwrap_or(&self.path);
        let mut c = match call.run {
            None => Command::new(program),
            Some(words) => {
                let mut c = Command::new(&self.path);
                // By itself, so that nobody else's pipes are in its memory.
                c.args(["run", "--explain", "--private"]).args(words);
                c.arg("--").arg(program);
                c
            }
        };
        c.args(&call.words);
        // A worker that starts others under Byway would not be plain.
        c.env_remove("BYWAY").env_remove("LD_PRELOAD");
        // Other defaults of this user's are not what is measured.
        c.env("BYWAY_CONFIG", "off");
        let (cpus, namespace) = (call.cpus.to_vec(), call.namespace);
        // SAFETY: `bind`, `enter` and prctl(2) only make system calls.
        unsafe {
            c.pre_exec(move || {
                machine::bind(&cpus);
                // `byway run` passes it on, and its worker dies with it.
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                namespace.map_or(Ok(()), veth::enter)
            });
        }
        c
    }
}

/// What a worker is started with.
pub struct Call<'a> {
    /// This one if none.
    pub program: Option<&'a Path>,
    /// Its command, and what that is told.
    pub words: Vec<String>,
    pub cpus: &'a [usize],
    /// The words of `byway run`, if it is to be carried.
    pub run: Option<&'static [&'static str]>,
    /// The network that it is in; its parent's if none.
    pub namespace: Option<RawFd>,
}

impl Call<'_> {
    /// Why it said nothing: its own sentence, if there is one in `err`.
    pub fn silent(&self, err: &str) -> Failure {
        let head = format!("byway: {}: ", self.words.first().map_or("", |w| w));
        let last = err.lines().rev().find_map(|l| l.strip_prefix(&head));
        Failure::Said(match last {
            Some(said) => said.into(),
            None => format!(
                "a worker said nothing but {:?}; try it again while the machine is idle",
                err.lines().last().unwrap_or("")
            ),
        })
    }
}

/// What `--help` says of `--pipe`.
fn in_help(help: &str) -> Vec<&'static str> {
    let Some((_, after)) = help.split_once("--pipe ") else {
        return vec![];
    };
    let own = after.split("\n      --").next().unwrap_or("");
    // The list of values where there is one: words of the text may be words of the values.
    let own = own.split_once("ossible values:").map_or(own, |p| p.1);
    let words: Vec<_> = own
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '+'))
        .collect();
    let known = PIPES.iter().filter(|p| words.contains(&p.1[1]));
    known.map(|p| p.0).collect()
}

/// Of `bytes` at least, which part `--explain` says was carried; where their number is not known, of those that it counted.
fn part(explained: &str, bytes: u64) -> Result<f64, Failure> {
    if let Some(why) = explained
        .lines()
        .find_map(|l| l.strip_prefix("byway: nothing is carried: "))
    {
        return Err(Failure::Said(format!("byway run carries nothing: {why}")));
    }
    // The number that stands before `words`, line by line.
    let sum = |words: &str| -> u64 {
        let lines = explained.lines().filter_map(|l| l.split_once(words));
        let number = |before: &str| before.rsplit(' ').next()?.parse::<u64>().ok();
        lines.filter_map(|(before, _)| number(before)).sum()
    };
    let carried = sum(" bytes carried");
    let all = match bytes {
        0 => carried + sum(" by the kernel") + sum(" bytes by the kernel"),
        n => n,
    };
    Ok((carried as f64 / all.max(1) as f64).min(1.0))
}

/// Why nothing was carried: the end of the first line of `--explain`, which goes on in a line of its own where it is long.
fn why(explained: &str) -> Option<String> {
    let mut lines = explained.lines();
    let head = lines.find(|l| l.starts_with("byway: none of "))?;
    let why = match head.split_once("; ") {
        Some((_, why)) => why,
        None => lines.next()?.strip_prefix("byway:     ")?,
    };
    Some(why.into())
}

/// Below this part of its bytes a run was hardly carried.
const MOSTLY: f64 = 0.9;

/// A note, if some of a backend's runs were hardly carried.
pub fn note<'a>(
    record: &mut Record,
    case: &str,
    backend: &str,
    runs: impl Iterator<Item = &'a Done>,
) {
    let least = runs.filter_map(|r| r.carried).fold(1.0, f64::min);
    if least < MOSTLY {
        record.notes.push(format!(
            "{case}: {backend} carried only {:.0} % of the bytes in some run, the rest was the kernel's",
            least * 100.0
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_tells_what_pipes_there_are() {
        let help = "      --low <MIB>\n          base\n\n      --pipe <WHAT>\n          `base`: x; `zc` is none\n\n          [possible values: base, lp, auto]\n\n      --capacity <SIZE>\n          zc\n";
        assert_eq!(in_help(help), ["base", "base-4k", "lp"]);
        assert_eq!(
            in_help("  --pipe <WHAT>\n  Possible values:\n  - lp: large\n  - lp+zc: both\n"),
            ["lp", "lp+zc"]
        );
        assert!(in_help("      --private\n").is_empty());
    }

    #[test]
    fn why_nothing_was_carried() {
        let none = "byway: none of 2 pipes carried";
        let is = |said: &str| why(said).unwrap_or_default();
        assert_eq!(
            is(&format!("x\n{none}; a polls its pipes\n")),
            "a polls its pipes"
        );
        assert_eq!(
            is(&format!("{none}\nbyway:     a is static\n")),
            "a is static"
        );
        assert_eq!(is(&format!("{none}\nbyway: a -> b: under 64 KiB\n")), "");
        assert_eq!(is("byway: 1 of 2 pipes carried; a polls its pipes\n"), "");
    }

    #[test]
    fn what_was_carried() {
        let said = "byway: pipe:[1]  byway -> byway  100 bytes carried, 0 calls left to the kernel\n\
                    byway: fifo:[2]  byway -> byway  50 bytes carried, 7 calls left to the kernel\n";
        assert_eq!(part(said, 300).unwrap(), 0.5);
        assert_eq!(part(said, 100).unwrap(), 1.0);
        assert_eq!(part("", 0).unwrap(), 0.0);
        let said = "byway: 2 of 3 pipes and sockets' directions carried\n\
                    byway: 2 x socket: a -> b  300 bytes carried, 60 by the kernel\n\
                    byway: socket: a -> ?: a polls its pipes, at least 30 bytes by the kernel\n\
                    byway: a -> b  100 bytes carried, none by the kernel\n\
                    byway: socket: a -> ?: no program that takes part read\n\
                    byway:     at least 10 bytes by the kernel\n";
        assert_eq!(part(said, 0).unwrap(), 0.8);
        let e = part("byway: nothing is carried: no library; build it\n", 5).unwrap_err();
        assert!(e.to_string().contains("build it"));
    }
}
