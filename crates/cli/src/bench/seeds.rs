//! `byway bench seeds`: every workload in the order of the documents that they come from, each beside what was published.
//!
//! Invariant: one machine, one time for all, shared out by what each workload usually takes: what one takes more, with its
//! preparations, those after it have less, and what it leaves they have more. A record of each in one folder.
//! Not here: the workloads; the page that is made of the folder (`byway report`).
use super::flags::{self, Wanted};
use super::make::{Made, between, ftp, lines, mbuf, native, netperf, netpipe, starts};
use super::outcome::Done;
use super::session;
use crate::output::{writable, written};
use byway_lab::pairs::Bench;
use byway_lab::workload::Workload;
use byway_lab::{interrupt, table};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What it may be told.
#[derive(Args)]
pub struct Seeds {
    /// As any workload; CASES are names of workloads here
    #[command(flatten)]
    wanted: Wanted,
    /// Write WORKLOAD.json of each into this folder, which is made
    #[arg(long, value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    out: Option<PathBuf>,
}

impl Seeds {
    /// Where the record of a workload is written, if it is.
    fn record(&self, name: &str) -> Option<PathBuf> {
        let dir = self.out.as_ref()?;
        Some(dir.join(format!("{name}.json")))
    }
}

type Entry = (&'static str, fn(&Wanted) -> Made);

/// A document, and a workload of it. To join: a line.
const ALL: [Entry; 13] = [
    ("FIFO Optimization status 4 (FreeBSD, 2009)", |w| {
        between(w, Bench::Fifo, None)
    }),
    ("Pipe performance results (Linux Scalability Effort)", |w| {
        between(w, Bench::Grep, None)
    }),
    ("Pipe performance results", |w| {
        between(w, Bench::BwPipe, None)
    }),
    ("Pipe performance results", |w| {
        between(w, Bench::Pipeflex, None)
    }),
    (
        "mb_alloc: Preliminary Performance Measurements (FreeBSD, 2001)",
        mbuf,
    ),
    ("its other half: NetPIPE", netpipe),
    ("Benchmarks für Networking Stack (Haiku, 2008)", netperf),
    ("Benchmarks für Networking Stack", ftp),
    ("added here: one byte (lmbench)", |w| {
        between(w, Bench::LatPipe, None)
    }),
    ("added here: readers that poll", |w| {
        between(w, Bench::Ready, None)
    }),
    ("added here: records (the native library)", native),
    ("added here: whole pipelines", |w| {
        lines(w, flags::size(w.quick))
    }),
    ("added here: the start of processes", starts),
];

/// Seconds of all of them: `make bench` ends within ten minutes, and with --quick within two.
const FULL: f64 = 470.0;
const QUICK: f64 = 108.0;
/// What even the last has, s: a round of each of its cases.
const LEAST: f64 = 0.1;

/// Seconds for the first of those that usually take so many each, of `left` for all of them.
fn share(left: f64, usual: &[f64]) -> f64 {
    let sum: f64 = usual.iter().sum();
    usual
        .first()
        .map_or(0.0, |first| left * first / sum)
        .max(LEAST)
}

/// Runs them.
///
/// # Errors
/// A sentence: what could not be measured.
pub fn run(s: &Seeds) -> Result<Done, String> {
    let w = &s.wanted;
    let all = ready(s)?;
    let usual = all.iter().map(|(_, m)| match m.missing() {
        Some(_) => 0.0,
        None => m.usual().time.as_secs_f64(),
    });
    let usual: Vec<f64> = usual.collect();
    let whole = w.time.unwrap_or(if w.quick { QUICK } else { FULL });
    let began = Instant::now();
    let mut result = Done::Well;
    let mut failed = vec![];
    for (i, (document, mut workload)) in all.into_iter().enumerate() {
        let name = workload.name();
        if i > 0 {
            println!();
        }
        println!("{name}: {document}");
        if let Some(why) = workload.missing() {
            left_out(&why);
            continue;
        }
        let left = whole - began.elapsed().as_secs_f64();
        let own = Wanted {
            time: (w.runs.is_none()).then_some(share(left, &usual[i..])),
            json: s.record(name),
            cases: vec![],
            ..w.clone()
        };
        match session::run(workload.as_mut(), &own) {
            Ok(Done::Interrupted) => return Ok(Done::Interrupted),
            Ok(Done::Wrong) => result = Done::Wrong,
            Ok(Done::Well) => {}
            // The others have their records all the same.
            Err(why) => {
                left_out(&why);
                failed.push(name);
            }
        }
        if interrupt::asked() {
            return Ok(Done::Interrupted);
        }
    }
    if let Some(dir) = &s.out {
        say_what_next(dir);
    }
    match failed.is_empty() {
        true => Ok(result),
        false => Err(format!(
            "{} could not be measured: see above",
            failed.join(", ")
        )),
    }
}

type Ready = (&'static str, Box<dyn Workload>);

/// The workloads that are wanted, each with its document. What cannot be is said now, not after minutes.
fn ready(s: &Seeds) -> Result<Vec<Ready>, String> {
    let w = &s.wanted;
    if w.json.is_some() || w.csv.is_some() {
        return Err(
            "there is a record of each workload; give --out DIR instead of --json or --csv".into(),
        );
    }
    let mut all = vec![];
    for (document, make) in ALL {
        all.push((document, make(w)?));
    }
    let names = all.iter().map(|(_, m)| m.name().to_string()).collect();
    let chosen = w.chosen(names)?;
    all.retain(|(_, m)| chosen.iter().any(|c| c == m.name()));
    if let Some(dir) = &s.out {
        written(std::fs::create_dir_all(dir), dir, "--out")?;
    }
    for to in all.iter().filter_map(|(_, m)| s.record(m.name())) {
        written(writable(&to), &to, "--out")?;
    }
    w.limits(all[0].1.usual())?;
    w.parts()?;
    for (_, m) in all.iter().filter(|(_, m)| m.missing().is_none()) {
        w.compared_with(m.name())?;
    }
    Ok(all)
}

/// How a page is made of the records in `dir`.
fn say_what_next(dir: &Path) {
    println!();
    let text = format!(
        "`byway report {0} -o {0}/report.html` makes a page of them",
        dir.display()
    );
    table::wrapped("records:", &text)
        .iter()
        .for_each(|l| println!("{l}"));
}

fn left_out(why: &str) {
    table::wrapped("left out:", why)
        .iter()
        .for_each(|l| println!("{l}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_more_leaves_less() {
        assert_eq!(share(60.0, &[1.0, 2.0, 3.0]), 10.0);
        // The first took 20 in place of 10; the second takes its part of what is left, the third all that then is.
        assert_eq!(share(40.0, &[2.0, 3.0]), 16.0);
        assert_eq!(share(24.0, &[3.0]), 24.0);
        assert_eq!(share(-5.0, &[3.0]), LEAST);
    }

    #[test]
    fn there_is_time_for_each_and_each_is_there_once() {
        let w = Wanted::default();
        let all: Vec<_> = ALL.iter().map(|(_, make)| make(&w).unwrap()).collect();
        let mut names: Vec<_> = all.iter().map(|m| m.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ALL.len());
        assert!(all.iter().all(|m| m.usual().time.as_secs() >= 2));
    }
}
