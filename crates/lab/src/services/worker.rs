//! A worker of services: a service and its client, started by one process, which is plain or under `byway run`.
//!
//! Invariant: the worker does the same whoever started it, and its server ends with it. Figures go to standard output, one
//! a line.
//! Not here: how a worker is started (mod.rs), what each service is told.
use super::case::{Case, Service};
use super::{memcached, nginx, originals, postgres, redis};
use crate::child::Failure;
use crate::program;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The command that a worker is started with.
pub const COMMAND: &str = "service-worker";
/// Longer than any client takes, and less than a worker may (mod.rs), so that it is the worker that says who was late.
const CLIENT: Duration = Duration::from_secs(60);

/// What is to be done: one word of a command line, in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    pub case: String,
    pub quick: bool,
    /// The service's own folder.
    pub folder: PathBuf,
    /// Makes what the service finds in every run, and measures nothing.
    pub prepare: bool,
}

impl Job {
    pub fn word(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The figures, in the order of `Case::figures`.
    ///
    /// # Errors
    /// What went wrong: a sentence.
    fn run(&self) -> Result<Vec<f64>, Failure> {
        let case = Case::of(&self.case)
            .ok_or_else(|| Failure::Said(format!("there is no case {}", self.case)))?;
        if self.prepare {
            postgres::prepare(&self.folder)?;
            return Ok(vec![0.0]);
        }
        let n = case.amount(self.quick);
        let run = run_folder(&self.folder)?;
        match case.service {
            Service::Redis => redis::run(case, n, &run),
            Service::Memcached => memcached::run(case, n, &run),
            Service::Postgres => postgres::run(case, n, &self.folder, &run),
            Service::Nginx => nginx::run(case, n, &run),
            Service::Nptcp => originals::nptcp(case, n, &run),
            Service::Iperf3 => originals::iperf3(case, n, &run),
            Service::Sockperf => originals::sockperf(case, n, &run),
            Service::Wrk => originals::wrk(case, n, &run),
            Service::Netperf => originals::netperf(case, n, &run),
        }
    }
}

/// A new folder for the sockets and files of one run. A worker that was killed has left its own.
///
/// # Errors
/// It cannot be made.
pub fn run_folder(folder: &Path) -> std::io::Result<PathBuf> {
    let run = folder.join("run");
    match std::fs::remove_dir_all(&run) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        _ => std::fs::create_dir(&run)?,
    }
    Ok(run)
}

/// What a client of a service says on standard output.
///
/// # Errors
/// A sentence: it failed, or did not end.
pub fn client(name: &str, c: &mut Command) -> Result<String, Failure> {
    program::client(name, c, CLIENT)
}

/// The first number after `label` in `text`.
pub fn number(text: &str, label: &str) -> Option<f64> {
    let after = text.split_once(label)?.1.trim_start();
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.');
    after[..end.unwrap_or(after.len())].parse().ok()
}

/// A client has said something else than is expected of it.
pub fn strange(name: &str, said: &str) -> Failure {
    Failure::Said(format!(
        "{name} says {said:?}, which this version cannot read"
    ))
}

/// The whole life of a worker; 2 and a sentence if there are no figures.
pub fn main(word: &str) -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let Ok(job) = serde_json::from_str::<Job>(word) else {
        eprintln!(
            "byway: {COMMAND}: `byway bench` starts it, with a word of its own; try `byway bench --help`"
        );
        return 2;
    };
    match job.run() {
        Ok(figures) => {
            let lines: String = figures.iter().map(|f| format!("{f}\n")).collect();
            print!("{lines}");
            0
        }
        Err(e) => {
            eprintln!("byway: {COMMAND}: {e}");
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_after_their_labels() {
        let text = "tps = 1234.5 (without)\nfailed: 0\nend 7";
        assert_eq!(number(text, "tps ="), Some(1234.5));
        assert_eq!(number(text, "failed:"), Some(0.0));
        assert_eq!(number(text, "end"), Some(7.0));
        assert_eq!(number(text, "none"), None);
    }

    #[test]
    fn a_worker_by_hand_is_told() {
        assert_eq!(main("{}"), 2);
    }
}
