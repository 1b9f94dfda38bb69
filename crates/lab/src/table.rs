//! A record as text for a terminal of 80 columns.
//!
//! Invariant: no line is longer than 79 characters; no colours.
//! Not here: units or statistics.
use crate::record::{Ratio, Record};

/// The heading of the lines of `line`.
pub fn heading() -> String {
    format!(
        "{:<18}{:>11}{:>11}{:>8}  {:<13}{}",
        "pipeline", "plain", "byway", "ratio", "95 %", "same"
    )
}

/// A time with its unit, in five or six characters.
pub fn time(s: f64) -> String {
    match s {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// One line: medians of both sides, the ratio with its interval, and whether the outputs were the same.
pub fn line(record: &Record, ratio: &Ratio, same: bool) -> String {
    let of = |backend: &str| {
        record
            .results
            .iter()
            .find(|r| r.case == ratio.case && r.backend == backend && r.metric == ratio.metric)
            .map_or(String::new(), |r| time(r.median))
    };
    format!(
        "{:<18}{:>11}{:>11}{:>8.2}  {:<13}{}",
        ratio.case,
        of(&ratio.over),
        of(&ratio.backend),
        ratio.ratio,
        format!("{:.2}-{:.2}", ratio.ci95[0], ratio.ci95[1]),
        if same { "yes" } else { "NO" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Better;

    #[test]
    fn fits_eighty_columns() {
        let mut r = Record::new("demo");
        let case = "python-lines@1cpu";
        for b in ["kernel", "byway"] {
            r.row(case, b, "wall", "s", &[123.456, 124.0]);
        }
        let (a, b) = ([500.0], [0.01]);
        r.ratio(case, "wall", Better::Less, ("byway", &b), ("kernel", &a));
        assert!(line(&r, &r.ratios[0], false).len() < 80);
        assert!(heading().len() < 80);
    }

    #[test]
    fn times_keep_their_unit() {
        assert_eq!(time(0.0000021), "2.10 us");
        assert_eq!(time(0.5), "500.0 ms");
    }
}
