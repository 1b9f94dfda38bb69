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
        let mut done = self.call(&call, LIMIT, Of::Bytes(job.work.bytes()))?;
        done.carried = done.carried.filter(|_| job.work.is_by_pipes());
        Ok(done)
    }

    /// Runs a worker that has to end within `limit`.
    ///
    /// # Errors
    /// What went wrong there.
    pub fn call(&self, call: &Call, limit: Duration, of: Of) -> Result<Done, Failure> {
        self.finish(call, &mut self.command(call), limit, of)
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
        of: Of,
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
            Some(_) => Some(part(&err, of)?),
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

/// Of which bytes a run's carried part is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// So many at least, of pipes.
    Bytes(u64),
    /// All that `--explain` counted.
    All,
    /// The same of sockets alone: what programs say goes through pipes.
    Sockets,
}

/// What `--explain` says of one channel, or of several alike: the lines that go on have four spaces more.
fn entries(explained: &str) -> Vec<String> {
    let mut all: Vec<String> = vec![];
    for line in explained.lines().filter_map(|l| l.strip_prefix("byway: ")) {
        match (line.strip_prefix("    "), all.last_mut()) {
            (Some(more), Some(last)) => *last += &format!(", {more}"),
            _ => all.push(line.into()),
        }
    }
    all
}

/// Which part was carried, as `--explain` has it.
fn part(explained: &str, of: Of) -> Result<f64, Failure> {
    if let Some(why) = explained
        .lines()
        .find_map(|l| l.strip_prefix("byway: nothing is carried: "))
    {
        return Err(Failure::Said(format!("byway run carries nothing: {why}")));
    }
    let is_meant = |e: &&String| of != Of::Sockets || e.contains("socket: ");
    let entries = entries(explained);
    // The number that stands before `words`, entry by entry.
    let sum = |words: &str| -> u64 {
        let own = entries.iter().filter(is_meant);
        let number = |before: &str| before.rsplit(' ').next()?.parse::<u64>().ok();
        own.filter_map(|e| number(e.split_once(words)?.0)).sum()
    };
    let carried = sum(" bytes carried");
    let all = match of {
        Of::Bytes(n) => n,
        _ => carried + sum(" by the kernel") + sum(" bytes by the kernel"),
    };
    Ok((carried as f64 / all.max(1) as f64).min(1.0))
}

/// Why sockets or pipes were not carried: what the first line of `--explain` says where that is of all, or else what it says
/// of the largest of the sockets that were not.
fn why(explained: &str) -> Option<String> {
    let entries = entries(explained);
    let all = entries.iter().find(|e| e.starts_with("none of "));
    // Where that line is long, it goes on in another.
    if let Some((_, why)) =
        all.and_then(|e| e.split_once("carried; ").or(e.split_once("carried, ")))
    {
        return Some(why.into());
    }
    let sockets = entries.iter().filter_map(|e| e.split_once("socket: "));
    let causes = sockets.filter_map(|(_, s)| s.split_once(": ")?.1.split(", ").next());
    let mut causes = causes.filter(|c| !HARMLESS.contains(c));
    causes.next().map(String::from)
}

/// What `--explain` says of sockets that were not worth it.
const HARMLESS: [&str; 2] = ["nothing went through", "under 64 KiB"];

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
        let some = "byway: 1 of 3 pipes carried\nbyway: a -> b  9 bytes carried, none by the kernel\n\
                    byway: socket: c -> d: under 64 KiB\nbyway: 2 x socket: a -> ?: a polls its pipes\n\
                    byway:     at least 7 bytes by the kernel\n";
        assert_eq!(is(some), "a polls its pipes");
    }

    #[test]
    fn what_was_carried() {
        let said = "byway: pipe:[1]  byway -> byway  100 bytes carried, 0 calls left to the kernel\n\
                    byway: fifo:[2]  byway -> byway  50 bytes carried, 7 calls left to the kernel\n";
        assert_eq!(part(said, Of::Bytes(300)).unwrap(), 0.5);
        assert_eq!(part(said, Of::Bytes(100)).unwrap(), 1.0);
        assert_eq!(part("", Of::All).unwrap(), 0.0);
        let said = "byway: 2 of 3 pipes and sockets' directions carried\n\
                    byway: 2 x socket: a -> b  300 bytes carried, 60 by the kernel\n\
                    byway: socket: a -> ?: a polls its pipes, at least 30 bytes by the kernel\n\
                    byway: a -> b  100 bytes carried, none by the kernel\n\
                    byway: socket: a -> ?: no program that takes part read\n\
                    byway:     at least 10 bytes by the kernel\n";
        assert_eq!(part(said, Of::All).unwrap(), 0.8);
        assert_eq!(part(said, Of::Sockets).unwrap(), 0.75);
        let e = part("byway: nothing is carried: no library; build it\n", Of::All).unwrap_err();
        assert!(e.to_string().contains("build it"));
    }
}
