//! What part of a backend's bytes Byway carried: a row of the record for each backend under `byway run`, a note of those of
//! which it carried nothing, and what tables say of these.
//!
//! Invariant: a figure that is the kernel's, although it was measured under `byway run`, is told apart wherever it stands.
//! Not here: how a run tells its part (pairs/start.rs).
use crate::pairs::start::Done;
use crate::record::{Metric, Record};

/// The metric: of the bytes that `--explain` counted, so at most. No direction is better: it says what was.
pub const METRIC: Metric = ("carried", "%", None);
/// In a table, after a figure that was the kernel's this time.
pub const MARK: &str = "*";
pub const LEGEND: &str = "* under `byway run`, but not carried: the kernel's figure";
/// The head of the note of all figures of which nothing was carried.
const NOTHING: &str =
    "no run under `byway run` carried a byte of these, so their figures are the kernel's:";

/// Adds the row of `backend`, with a part for each of these runs that was under `byway run`.
pub fn add<'a>(
    record: &mut Record,
    case: &str,
    backend: &str,
    runs: impl Iterator<Item = &'a Done> + Clone,
) {
    let parts = runs.clone().filter_map(|r| r.carried);
    let samples: Vec<_> = parts.map(|p| vec![100.0 * p]).collect();
    if samples.is_empty() {
        return;
    }
    record.row(case, backend, METRIC, &samples);
    if is_kernels(record, case, backend) {
        let why = runs.filter_map(|r| r.why.as_ref()).next();
        let why = why.map_or(String::new(), |w| format!(": {w}"));
        note(record, &format!("{case} ({backend}{why})"));
    }
}

fn note(record: &mut Record, what: &str) {
    let mut notes = record.notes.iter_mut();
    match notes.find(|n| n.starts_with(NOTHING)) {
        Some(note) => *note += &format!(", {what}"),
        None => record.notes.push(format!("{NOTHING} {what}")),
    }
}

/// Whether the figures of `backend` were measured under `byway run`, and are the kernel's all the same.
pub fn is_kernels(record: &Record, case: &str, backend: &str) -> bool {
    let row = record.find(case, backend, METRIC.0);
    row.is_some_and(|r| r.samples.iter().flatten().all(|&p| p == 0.0))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A run under `byway run` of which this part was carried.
    pub fn run(part: f64) -> Done {
        Done {
            figures: vec![],
            carried: Some(part),
            why: None,
        }
    }

    #[test]
    fn what_was_the_kernels_shares_a_note() {
        let mut r = Record::new("netperf");
        add(&mut r, "UNIX_RR", "byway", [run(0.0), run(0.0)].iter());
        let mut why = run(0.0);
        why.why = Some("x is static".into());
        add(&mut r, "UNIX_CRR", "byway", [run(0.0), why].iter());
        add(&mut r, "TCP_RR", "byway", [run(0.0), run(0.5)].iter());
        add(&mut r, "TCP_CRR", "byway", [].iter());
        assert_eq!(r.notes.len(), 1);
        let all = "kernel's: UNIX_RR (byway), UNIX_CRR (byway: x is static)";
        assert!(r.notes[0].ends_with(all), "{}", r.notes[0]);
        assert!(is_kernels(&r, "UNIX_RR", "byway") && !is_kernels(&r, "UNIX_RR", "kernel"));
        assert!(!is_kernels(&r, "TCP_RR", "byway") && !is_kernels(&r, "TCP_CRR", "byway"));
        assert_eq!(r.find("TCP_RR", "byway", "carried").unwrap().median, 25.0);
    }
}
