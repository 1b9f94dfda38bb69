//! A backend that lives in a program of its own, beside this one: it is linked into nothing else.
//!
//! ```text
//! byway bench mbuf --words--> byway-mimalloc --fork--> the run, as that of any backend
//!      <-- figures, a line each --
//! ```
//! Invariant: the program runs the same cases, compiled from the same source, as the backends here; it dies with its
//! parent.
//! Not here: the backends.
use super::allocator::Allocator;
use super::child::{self, Failure};
use super::{Case, Plan, of};
use crate::program;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Status of a program that has said on standard error why there is no figure.
const SAID: i32 = 2;

/// `case` and what it needs of `plan`.
fn words(case: &Case, plan: &Plan) -> Vec<String> {
    let cpus: Vec<String> = plan.cpus.iter().map(usize::to_string).collect();
    let ns = |d: Duration| d.as_nanos().to_string();
    let burst = plan.burst.to_string();
    vec![
        case.id(),
        cpus.join(","),
        ns(plan.run),
        burst,
        ns(plan.calm),
    ]
}

/// The same, back.
fn parse(words: &[String]) -> Option<(Case, Plan)> {
    let [case, cpus, run, burst, calm] = words else {
        return None;
    };
    let cpus: Vec<usize> = cpus
        .split(',')
        .map(|c| c.parse().ok())
        .collect::<Option<_>>()?;
    let ns = |s: &str| s.parse().ok().map(Duration::from_nanos);
    let mut plan = Plan::new(cpus, true);
    plan.run = ns(run)?;
    plan.burst = burst.parse().ok()?;
    plan.calm = ns(calm)?;
    let all = Case::all(plan.cpus.len());
    Some((all.into_iter().find(|c| c.id() == *case)?, plan))
}

/// The `main` of such a program.
pub fn serve<A: Allocator>(args: impl Iterator<Item = String>) -> i32 {
    let args: Vec<String> = args.collect();
    let Some((case, plan)) = parse(&args) else {
        eprintln!("a part of `byway bench mbuf`, which starts it; it has no use by itself");
        return SAID;
    };
    match child::isolated(plan.limit(), || of::<A>(&case, &plan)) {
        Ok(figures) => {
            figures.iter().for_each(|f| println!("{f}"));
            0
        }
        Err(e) => {
            eprintln!("{e}");
            SAID
        }
    }
}

/// Where `program` is: beside this one, or beside the folder of tests.
fn beside(program: &str) -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe()?;
    let folders = exe.ancestors().skip(1).take(2);
    let mut there = folders.map(|d| d.join(program)).filter(|p| p.is_file());
    there.next().ok_or_else(|| {
        Failure::Said(format!(
            "{program} is not beside {}; build it with `make build`",
            exe.display()
        ))
    })
}

/// One run of `case` by the backend in `program`.
///
/// # Errors
/// The program is not there, or what went wrong in it.
pub fn run(program: &str, case: &Case, plan: &Plan) -> Result<Vec<f64>, Failure> {
    let mut c = Command::new(beside(program)?);
    c.args(words(case, plan));
    // SAFETY: prctl(2) only.
    unsafe {
        c.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    // It limits its own time; this is only for what hangs before it does.
    let said = program::output(&mut c, 2 * plan.limit())?;
    let status = said.status;
    if status.code() == Some(SAID) {
        let why = String::from_utf8_lossy(&said.err);
        return Err(Failure::Said(why.trim_end().into()));
    }
    let figures = String::from_utf8_lossy(&said.out);
    let figures: Vec<f64> = figures.lines().filter_map(|l| l.parse().ok()).collect();
    if !status.success() || figures.is_empty() {
        return Err(Failure::Said(format!(
            "{program} ended with {status}; try it again"
        )));
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        let plan = Plan::new(vec![0, 3], false);
        for case in Case::all(2) {
            let (c, p) = parse(&words(&case, &plan)).unwrap();
            assert_eq!((c, p.cpus), (case, vec![0, 3]));
            assert_eq!((p.run, p.burst, p.calm), (plan.run, plan.burst, plan.calm));
        }
        assert!(parse(&["pair".into(), "x".into()]).is_none());
    }
}
