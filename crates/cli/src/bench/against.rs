//! Two records, or a record and a baseline: the table of what changed, and the exit status that follows.
//!
//! Invariant: status 1 only if a whole interval is beyond the threshold that was given; records that are not of the same
//! measurement are refused with the names of what differs.
//! Not here: the verdicts (lab, compare.rs).
use super::flags::Gate;
use super::outcome::Done;
use byway_lab::compare::{self, Verdict};
use byway_lab::record::Record;
use byway_lab::table;
use clap::Args;
use std::path::PathBuf;

/// What `bench compare` is told.
#[derive(Args)]
pub struct Files {
    /// The record from before (bench ... --json FILE)
    before: PathBuf,
    /// The record from after
    after: PathBuf,
    #[command(flatten)]
    gate: Gate,
}

/// Compares two files.
///
/// # Errors
/// A sentence: they cannot be compared.
pub fn files(f: &Files) -> Result<Done, String> {
    f.gate.threshold()?;
    let (a, b) = (Record::read(&f.before)?, Record::read(&f.after)?);
    records(&a, &b, &f.gate, &|l| println!("{l}"))
}

/// Compares two records; the table goes to `say`.
///
/// # Errors
/// A sentence: they cannot be compared.
pub fn records(a: &Record, b: &Record, gate: &Gate, say: &dyn Fn(&str)) -> Result<Done, String> {
    let limit = gate.threshold()?;
    compare::comparable(a, b, &gate.despite)?;
    let threshold = limit.unwrap_or(0.0);
    let changes = compare::changes(a, b, threshold);
    if changes.is_empty() {
        return Err("the records have no row in common; measure the same cases".into());
    }
    compare::lines(&changes, threshold)
        .iter()
        .for_each(|l| say(l));
    let only = |x: &Record, y: &Record| {
        let cases = x.ended.iter().map(|e| &e.case);
        let missing = cases.filter(|c| !y.ended.iter().any(|e| e.case == **c));
        missing.cloned().collect::<Vec<_>>()
    };
    for (cases, which) in [(only(a, b), "before"), (only(b, a), "after")] {
        if !cases.is_empty() {
            let text = format!("only {which}, and not compared: {}", cases.join(", "));
            table::wrapped("note:", &text).iter().for_each(|l| say(l));
        }
    }
    let worse = changes.iter().any(|c| c.verdict == Verdict::Worse);
    Ok(if worse && limit.is_some() {
        Done::Wrong
    } else {
        Done::Well
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_lab::record::Better;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        gate: Gate,
    }

    fn gate(words: &str) -> Gate {
        Line::try_parse_from(words.split(' ')).unwrap().gate
    }

    fn record(value: f64) -> Record {
        let mut r = Record::new("t");
        let rounds: Vec<_> = (0..9)
            .map(|i| vec![value + f64::from(i) / 1000.0])
            .collect();
        r.row("c", "a", ("m", "s", Some(Better::Less)), &rounds);
        r
    }

    #[test]
    fn only_a_threshold_makes_it_fail() {
        let (a, b) = (record(1.0), record(2.0));
        let done = |a: &Record, b: &Record, words: &str| records(a, b, &gate(words), &|_| ());
        assert!(matches!(done(&a, &b, "x"), Ok(Done::Well)));
        assert!(matches!(
            done(&a, &b, "x --fail-on-regression 50"),
            Ok(Done::Wrong)
        ));
        assert!(matches!(
            done(&a, &b, "x --fail-on-regression 150"),
            Ok(Done::Well)
        ));
        assert!(matches!(
            done(&b, &a, "x --fail-on-regression 5"),
            Ok(Done::Well)
        ));
    }

    #[test]
    fn others_are_refused() {
        let (a, mut b) = (record(1.0), record(2.0));
        b.affinity = vec![4096];
        let say = |_: &str| panic!("nothing is shown");
        let e = records(&a, &b, &gate("x"), &say).err().unwrap();
        assert!(e.contains("affinity"));
        assert!(records(&a, &b, &gate("x --despite affinity"), &|_| ()).is_ok());
    }
}
