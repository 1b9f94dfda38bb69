//! A program that is started plain or under `byway run`: the times that it and its children took, and what it said.
//!
//! Invariant: what a program costs is what wait4(2) reports of it and of every descendant that was waited for. A program
//! that outlives the lab's process is told to end.
//! Not here: which programs there are (pipeline.rs, start).
use crate::child::Failure;
use crate::record::{Overhead, Record};
use crate::{machine, program, stats};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How a program is started.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    Plain,
    /// Plain, after this was done in the new process: system calls, nothing else.
    After(fn() -> std::io::Result<()>),
    /// Under `byway run`, with these words.
    Carried(&'a [&'a str]),
}

/// One run of one side.
pub struct Ran {
    /// Wall time, s.
    pub wall: f64,
    /// CPU time of the program and its descendants, user and system, s.
    pub cpu: f64,
    pub said: program::Output,
}

impl Side<'_> {
    /// `program`, or `byway run -- program`.
    pub fn command(self, byway: &Path, program: &Path) -> Command {
        let mut c = match self {
            Side::Carried(words) => {
                let mut c = Command::new(byway);
                c.arg("run").args(words).arg("--").arg(program);
                c
            }
            _ => Command::new(program),
        };
        // Other defaults of this user's are not what is measured.
        c.env("BYWAY_CONFIG", "off");
        c
    }

    /// Runs what `command` made, on `cpus` if they are given.
    ///
    /// # Errors
    /// It could not be started, or did not end within `limit`.
    pub fn run(
        self,
        c: &mut Command,
        cpus: Option<&[usize]>,
        limit: Duration,
    ) -> Result<Ran, Failure> {
        let cpus = cpus.map(<[usize]>::to_vec);
        let first = match self {
            Side::After(first) => Some(first),
            _ => None,
        };
        // SAFETY: `bind`, prctl(2) and `first` only make system calls.
        unsafe {
            c.pre_exec(move || {
                if let Some(cpus) = &cpus {
                    machine::bind(cpus);
                }
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                first.map_or(Ok(()), |first| first())
            });
        }
        let (began, used) = (Instant::now(), children());
        let said = program::output(c, limit)?;
        Ok(Ran {
            wall: began.elapsed().as_secs_f64(),
            cpu: children() - used,
            said,
        })
    }
}

/// Notes in `record` what the harness takes to start nothing: the median of five runs, `one` of which takes so many seconds.
///
/// # Errors
/// The first run that failed.
pub fn overhead(
    record: &mut Record,
    what: &str,
    mut one: impl FnMut() -> Result<f64, Failure>,
) -> Result<(), Failure> {
    let times: Result<Vec<f64>, Failure> = (0..5).map(|_| one()).collect();
    record.overhead.push(Overhead {
        what: what.into(),
        value: stats::median(&times?) * 1e3,
        unit: "ms".into(),
    });
    Ok(())
}

/// Notes in `record` a fault of `case` unless all its runs have the same output and status.
pub fn compare<'a>(
    record: &mut Record,
    case: &str,
    mut runs: impl Iterator<Item = (&'a [u8], Option<i32>)>,
) {
    let first = runs.next();
    if !runs.all(|r| Some(r) == first) {
        record
            .faults
            .push(format!("{case}: outputs or statuses differ"));
    }
}

/// Whether `case` has no fault.
pub fn is_right(record: &Record, case: &str) -> bool {
    let own = format!("{case}:");
    !record.faults.iter().any(|f| f.starts_with(&own))
}

/// CPU seconds of all children waited for so far.
fn children() -> f64 {
    // SAFETY: fills a struct of ours.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

/// The Python interpreter itself: what is called python3 may be a shell script that looks for it.
pub fn python() -> Option<OsString> {
    let out = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .stdin(Stdio::null())
        .output();
    let out = out.ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&out.stdout).trim().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_grandchildren_counts() {
        let line = "(i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done); sleep 0.2";
        let mut c = Side::Plain.command(Path::new("none"), Path::new("sh"));
        c.args(["-c", line]);
        let ran = Side::Plain.run(&mut c, None, Duration::from_secs(20));
        let ran = ran.unwrap();
        assert!(ran.said.status.success());
        assert!(
            ran.cpu > 0.001 && ran.wall > 0.2,
            "{} {}",
            ran.cpu,
            ran.wall
        );
    }
}
