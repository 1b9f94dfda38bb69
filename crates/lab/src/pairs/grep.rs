//! `grep`: the first benchmark of "Pipe performance results": `grep` over a file of 50 MB, for a pattern that is not there.
//!
//! Invariant: whole programs from the shell's start to its end, in the kernel's own places: nothing is bound or warmed but
//! the file, which is in memory since it was written. Every run must say 0.
//! Not here: other pipelines (`byway demo`).
use super::start::{Byway, Done};
use super::{Backend, Plan, carried_pipes};
use crate::child::Failure;
use crate::workload::pipeline::{self, Side, Texts};
use std::io;

pub const CASE: &str = "50MB";
pub const OVER: [&str; 1] = ["kernel-64k"];

pub fn backends(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = carried_pipes(pipes);
    v.push(Backend::plain("kernel-64k", super::link::Kind::Pipe));
    v
}

/// The file.
///
/// # Errors
/// A sentence: there is no room.
pub fn texts() -> Result<Texts, Failure> {
    Texts::fifty().map_err(|e| {
        Failure::Said(format!(
            "no file of 50 MB in {}: {e}; set TMPDIR to a folder of yours with more room",
            std::env::temp_dir().display()
        ))
    })
}

/// One run, ms.
///
/// # Errors
/// It could not be started, or said something else than 0.
pub fn run(backend: &Backend, plan: &Plan, byway: &Byway, texts: &Texts) -> Result<Done, Failure> {
    let all = pipeline::cases();
    let case = all
        .iter()
        .find(|c| c.id == "grep-50MB")
        .ok_or_else(|| io::Error::other("no such pipeline"))?;
    let side = backend.run.map_or(Side::Plain, Side::Carried);
    let run = pipeline::run(case, side, byway.path(), texts, Some(&plan.cpus))?;
    if run.output != b"0\n" {
        return Err(Failure::Said(format!(
            "cat and grep said {:?}, not 0; are both installed?",
            String::from_utf8_lossy(&run.output)
        )));
    }
    Ok(Done {
        figures: vec![run.wall * 1e3],
        carried: None,
    })
}
