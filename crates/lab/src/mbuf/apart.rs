//! What a case is to a backend in a program of its own: words, there and back.
//!
//! Invariant: the program runs the same cases, compiled from the same source, as the backends here.
//! Not here: how it is started, and answers (apart.rs at the top); the backends.
use super::allocator::Allocator;
use super::child::{self, Failure};
use super::{Case, Plan, of};
use crate::apart;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// `case` and what it needs of `plan`.
fn words(case: &Case, plan: &Plan) -> Vec<String> {
    let ns = |d: Duration| d.as_nanos().to_string();
    let burst = plan.burst.to_string();
    vec![
        case.id(),
        apart::cpus(&plan.cpus),
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
    let ns = |s: &str| s.parse().ok().map(Duration::from_nanos);
    let mut plan = Plan::new(apart::parse_cpus(cpus)?, true);
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
        let what = "a part of `byway bench mbuf`, which starts it; it has no use by itself";
        return apart::answer(Err(Failure::Said(what.into())));
    };
    apart::answer(child::isolated(plan.limit(), || of::<A>(&case, &plan)))
}

/// Where the backend's program is.
///
/// # Errors
/// It is not there: a sentence with the remedy.
pub fn program(name: &str) -> Result<PathBuf, Failure> {
    apart::find(
        name,
        "build it with `make build`, or install it with `make install`",
    )
}

/// One run of `case` by the backend in `program`.
///
/// # Errors
/// The program is not there, or what went wrong in it.
pub fn run(program: &str, case: &Case, plan: &Plan) -> Result<Vec<f64>, Failure> {
    let mut c = Command::new(self::program(program)?);
    apart::figures(c.args(words(case, plan)), 2 * plan.limit())
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
