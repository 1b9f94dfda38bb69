//! A case for a backend in a program of its own: words, there and back; and what it may leave in /dev/shm.
//!
//! ```text
//! byway bench native --words--> byway-iceoryx2: makes the place --fork--> the run --fork--> the pair
//!      <-- figures ------------ removes the place                <- ends with its parent -
//! ```
//! Invariant: the program runs the same code as the backends here, with a way of its own. Whatever ends a run, the
//! program clears when nobody of the run is left; if it is killed itself, the lab does, and if that is too, the next run.
//! Not here: how a program is started, and answers (apart.rs at the top); the backend.
use super::LIMIT;
use super::case::Case;
use super::place::{self, Place};
use super::run::Done;
use crate::child::{self, Failure};
use crate::{apart, interrupt};
use std::path::PathBuf;
use std::process::Command;

/// The case, the CPUs, records that count, the name of the place.
type Words<'a> = (Case, Vec<usize>, u64, &'a str);

fn words((case, cpus, n, place): &Words) -> [String; 4] {
    let id = case.id().into();
    [id, apart::cpus(cpus), n.to_string(), place.to_string()]
}

/// The same, back.
fn parse(words: &[String]) -> Option<Words<'_>> {
    let [case, cpus, n, place] = words else {
        return None;
    };
    let cpus = apart::parse_cpus(cpus)?;
    Some((Case::of(case)?, cpus, n.parse().ok()?, place))
}

/// The `main` of such a program; `run` is a run on those CPUs, of so many records, whose files have names that `Place` knows.
pub fn serve(
    args: impl Iterator<Item = String>,
    run: impl Fn(Case, &[usize], u64, &str) -> Result<Done, Failure>,
) -> i32 {
    let args: Vec<String> = args.collect();
    let Some((case, cpus, n, name)) = parse(&args) else {
        let what = "a part of `byway bench native`, which starts it; it has no use by itself";
        return apart::answer(Err(Failure::Said(what.into())));
    };
    let held = || {
        interrupt::watch_all()?;
        child::adopt()?;
        let _place = Place::make(name)?;
        let found = child::isolated(LIMIT, || Ok(run(case, &cpus, n, name)?.into()));
        // Before the place goes: who was of the run may be at work there still.
        child::bury();
        found
    };
    apart::answer(held())
}

/// Where the program is.
///
/// # Errors
/// It is not built: a sentence with the remedy.
pub fn program() -> Result<PathBuf, Failure> {
    apart::find("byway-iceoryx2", "build it with `make comparators`")
}

/// One run by the program.
///
/// # Errors
/// The program is not there, or what went wrong in it.
pub fn run(case: Case, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    let name = place::name();
    let mut c = Command::new(program()?);
    let found = apart::figures(c.args(words(&(case, cpus.to_vec(), n, &name))), 2 * LIMIT);
    if found.is_err() {
        place::clear(&name);
    }
    Done::parse(&found?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for case in Case::ALL {
            let all = (case, vec![0, 3], 77, "here");
            assert_eq!(parse(&words(&all)), Some(all));
        }
        let short = ["rtt-spin", "0", "1"].map(String::from);
        assert!(parse(&short).is_none());
    }
}
