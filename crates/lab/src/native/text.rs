//! The record of `native` as text: a line for each backend of a case, and how many times as long as `byway` it takes.
//!
//! Invariant: no line is longer than 79 characters; no colours.
//! Not here: units or statistics.
use crate::pairs::text::{range, short};
use crate::record::Record;

/// What the figures are.
pub const ABOUT: &str = "x: how many times as long as byway the others take; limit: of a round trip two words of shared \
                         memory, of a large record one memcpy; a grant is numbered, and its pages are left alone";

/// The heading of the lines of `lines`.
pub fn heading() -> String {
    format!(
        "{:<11}{:<15}{:>9} {:<4} {:<14}{:>8}  95 %",
        "case", "backend", "median", "unit", "95 %", "x"
    )
}

/// A line for each backend of `case`.
pub fn lines(record: &Record, case: &str) -> Vec<String> {
    let rows = record.results.iter().filter(|r| r.case == case);
    rows.map(|r| {
        let ratio = record
            .ratios
            .iter()
            .find(|q| q.case == case && q.over == r.backend)
            .map_or(String::new(), |q| {
                format!("{:>8}  {}", short(q.ratio), range(q.ci95))
            });
        let line = format!(
            "{:<11}{:<15}{:>9} {:<4} {:<14}{ratio}",
            r.case,
            r.backend,
            short(r.median),
            r.unit,
            range(r.ci95)
        );
        line.trim_end().to_string()
    })
    .collect()
}
