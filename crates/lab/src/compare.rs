//! Two records of one measurement: what has changed, and whether that is more than chance.
//!
//! ```text
//! after / before (or before / after, where more is better)      1     1 + threshold
//!   worse       the whole interval is above the threshold       |        |  [----]
//!   better      the whole interval is below 1 / it     [----]   |        |
//!   unclear     else, or too few rounds to say                [----]
//! ```
//! Invariant: figures are compared only if everything that makes them is the same, or the user said which difference is
//! meant; a verdict is of all rows together: where nothing has changed, 95 of 100 comparisons find nothing.
//! Not here: where baselines are saved (cli).
//!
//! Two records are of two times. What differs between two times on an unchanged machine (where pages lie, what else runs)
//! is in no interval of one record: that is what a threshold is for.
use crate::record::{Better, Record, Row};
use crate::stats;
use std::collections::BTreeSet;

/// What became of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Worse,
    Better,
    Unclear,
    /// Fewer rounds than can say anything.
    Few,
}

/// A row of both records.
#[derive(Clone, Debug)]
pub struct Change {
    pub case: String,
    pub backend: String,
    pub metric: String,
    pub unit: String,
    /// Medians.
    pub before: f64,
    pub after: f64,
    /// How many times worse: above 1 it is.
    pub worse: f64,
    /// Its interval, for all rows together.
    pub interval: [f64; 2],
    pub verdict: Verdict,
}

/// Rounds below which there is no verdict.
const ENOUGH: usize = 5;

/// What the two were not alike in: the name, and both values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    pub name: String,
    pub before: String,
    pub after: String,
}

/// Names of the differences that are of the machine, not of the measurement.
pub const OF_MACHINE: [&str; 8] = [
    "cpu",
    "cpus",
    "memory_mib",
    "kernel",
    "libc",
    "governor",
    "turbo",
    "affinity",
];

/// All that makes figures, where the two differ. Names are those of the record.
pub fn differences(a: &Record, b: &Record) -> Vec<Difference> {
    let mut v = vec![];
    let mut differ = |name: &str, before: String, after: String| {
        if before != after {
            v.push(Difference {
                name: name.into(),
                before,
                after,
            });
        }
    };
    let (m, n) = (&a.machine, &b.machine);
    differ("schema", a.schema.to_string(), b.schema.to_string());
    differ("workload", a.workload.clone(), b.workload.clone());
    differ("cpu", m.cpu.clone(), n.cpu.clone());
    differ("cpus", m.cpus.to_string(), n.cpus.to_string());
    differ(
        "memory_mib",
        m.memory_mib.to_string(),
        n.memory_mib.to_string(),
    );
    differ("kernel", m.kernel.clone(), n.kernel.clone());
    differ("libc", m.libc.clone(), n.libc.clone());
    differ(
        "governor",
        format!("{:?}", m.governor),
        format!("{:?}", n.governor),
    );
    differ("turbo", format!("{:?}", m.turbo), format!("{:?}", n.turbo));
    differ(
        "affinity",
        format!("{:?}", a.affinity),
        format!("{:?}", b.affinity),
    );
    let names: BTreeSet<_> = a.parameters.keys().chain(b.parameters.keys()).collect();
    for name in names {
        let value = |r: &Record| {
            r.parameters
                .get(name)
                .map_or("none".into(), ToString::to_string)
        };
        differ(name, value(a), value(b));
    }
    v
}

/// Whether the two can be compared; differences whose names are in `meant` are.
///
/// # Errors
/// A sentence: which differ.
pub fn comparable(a: &Record, b: &Record, meant: &[String]) -> Result<(), String> {
    for r in [a, b] {
        if r.results.iter().all(|w| w.samples.is_empty()) {
            return Err(format!(
                "a record of schema {} of {} has no samples to compare; measure again with --json",
                r.schema, r.workload
            ));
        }
    }
    let v: Vec<_> = (differences(a, b).iter())
        .filter(|d| !meant.contains(&d.name))
        .map(|d| format!("{} ({}, then {})", d.name, d.before, d.after))
        .collect();
    if v.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the records are not of the same measurement; they differ in {}; measure both alike, or say which difference is \
         meant: --despite NAME",
        v.join(", ")
    ))
}

/// Every row that both have; `threshold` is a part, such as 0.05.
pub fn changes(a: &Record, b: &Record, threshold: f64) -> Vec<Change> {
    of_all(&[(a, b)], threshold).concat()
}

/// The same of several records, a list for each two: the intervals are for the rows of all of them together.
pub fn of_all(records: &[(&Record, &Record)], threshold: f64) -> Vec<Vec<Change>> {
    let both = |(a, b): &(&Record, &Record)| both(a, b).count();
    let rows: usize = records.iter().map(both).sum();
    let out = 5.0 / rows.max(1) as f64;
    let changes = |(a, b): &(&Record, &Record)| {
        let rows = self::both(a, b);
        rows.map(|(x, y, better)| change(x, y, better, threshold, out))
            .collect()
    };
    records.iter().map(changes).collect()
}

/// The rows of `a`, with those of `b` that measure the same.
fn both<'a>(a: &'a Record, b: &'a Record) -> impl Iterator<Item = (&'a Row, &'a Row, Better)> {
    a.results.iter().filter_map(|x| {
        let y = b.find(&x.case, &x.backend, &x.metric)?;
        let has = |r: &Row| r.samples.iter().any(|s| !s.is_empty());
        Some((x, y, x.better?)).filter(|_| has(x) && has(y))
    })
}

/// One of them; the interval leaves out so many percent.
fn change(x: &Row, y: &Row, better: Better, threshold: f64, out: f64) -> Change {
    let (num, den) = match better {
        Better::Less => (y, x),
        Better::More => (x, y),
    };
    let (worse, interval) = stats::ratio_apart(&num.samples, &den.samples, out);
    let few = x.samples.len().min(y.samples.len()) < ENOUGH;
    let verdict = match interval {
        _ if few => Verdict::Few,
        [low, _] if low > 1.0 + threshold => Verdict::Worse,
        [_, high] if high < 1.0 / (1.0 + threshold) => Verdict::Better,
        _ => Verdict::Unclear,
    };
    Change {
        case: x.case.clone(),
        backend: x.backend.clone(),
        metric: x.metric.clone(),
        unit: x.unit.clone(),
        before: x.median,
        after: y.median,
        worse,
        interval,
        verdict,
    }
}

/// As text, the worst first, in lines that fit a terminal of 80 columns.
pub fn lines(changes: &[Change], threshold: f64) -> Vec<String> {
    let mut sorted: Vec<_> = changes.iter().collect();
    let rank = |v: Verdict| match v {
        Verdict::Worse => 0,
        Verdict::Better => 1,
        Verdict::Unclear => 2,
        Verdict::Few => 3,
    };
    sorted.sort_by(|a, b| {
        let by_verdict = rank(a.verdict).cmp(&rank(b.verdict));
        by_verdict.then(b.worse.total_cmp(&a.worse))
    });
    let mut v = vec![format!(
        "{:<18}{:<14}{:>7}{:>7} {:<5}{:>6} {:<12}{}",
        "case", "backend", "before", "after", "unit", "times", "95 %", "verdict"
    )];
    v.extend(sorted.iter().map(|c| {
        format!(
            "{:<18}{:<14}{:>7}{:>7} {:<5}{:>6.2} {:<12}{}",
            c.case,
            c.backend,
            short(c.before),
            short(c.after),
            c.unit,
            c.worse,
            format!("{:.2}-{:.2}", c.interval[0], c.interval[1]),
            match c.verdict {
                Verdict::Worse => "WORSE",
                Verdict::Better => "better",
                Verdict::Unclear => "",
                Verdict::Few => "few",
            }
        )
        .trim_end()
        .to_string()
    }));
    let n = |v: Verdict| changes.iter().filter(|c| c.verdict == v).count();
    v.push(format!(
        "{} rows: {} worse by more than {} %, {} better, {} within or unclear, {} of too few rounds",
        changes.len(),
        n(Verdict::Worse),
        100.0 * threshold,
        n(Verdict::Better),
        n(Verdict::Unclear),
        n(Verdict::Few)
    ));
    v.push(
        "times: how many times worse, above 1 is worse; the interval is for all rows together"
            .into(),
    );
    v
}

/// A figure in six characters.
fn short(v: f64) -> String {
    match v.abs() {
        a if a >= 1e6 => format!("{v:.2e}"),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 0.01 || a == 0.0 => format!("{v:.3}"),
        _ => format!("{v:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `shift` times something that varies by two percent, in another order for each seed.
    fn record(rows: usize, shift: f64, seed: usize, better: Better) -> Record {
        let mut r = Record::new("t");
        r.parameters.insert("size".into(), 5.into());
        for row in 0..rows {
            let rounds: Vec<_> = (0..15)
                .map(|i| vec![shift * (1.0 + 0.02 * ((i * 7 + row + seed) % 11) as f64 / 10.0)])
                .collect();
            r.row(&row.to_string(), "a", ("m", "s", Some(better)), &rounds);
        }
        r
    }

    fn worst(a: &Record, b: &Record, threshold: f64) -> Vec<Verdict> {
        let all = changes(a, b, threshold);
        let of = |v| all.iter().any(|c| c.verdict == v).then_some(v);
        [Verdict::Worse, Verdict::Better]
            .into_iter()
            .filter_map(of)
            .collect()
    }

    #[test]
    fn the_same_again_is_no_change() {
        let a = record(100, 1.0, 0, Better::Less);
        let b = record(100, 1.0, 5, Better::Less);
        assert!(worst(&a, &b, 0.0).is_empty());
        assert_eq!(changes(&a, &b, 0.0).len(), 100);
    }

    #[test]
    fn what_is_clear_of_the_threshold_is_worse() {
        for better in [Better::Less, Better::More] {
            let slow = if better == Better::Less {
                1.2
            } else {
                1.0 / 1.2
            };
            let a = record(20, 1.0, 0, better);
            let b = record(20, slow, 3, better);
            assert_eq!(worst(&a, &b, 0.05), [Verdict::Worse]);
            assert_eq!(worst(&b, &a, 0.05), [Verdict::Better]);
            // Twenty percent is not clear of twenty, nor of fifty.
            assert!(worst(&a, &b, 0.2).is_empty() && worst(&a, &b, 0.5).is_empty());
            let c = changes(&a, &b, 0.05);
            assert!((c[0].worse - 1.2).abs() < 0.03);
        }
    }

    #[test]
    fn few_rounds_say_nothing() {
        let one = |v: f64| {
            let mut r = Record::new("t");
            r.row(
                "c",
                "a",
                ("m", "s", Some(Better::Less)),
                &[vec![v], vec![v]],
            );
            r
        };
        assert_eq!(changes(&one(1.0), &one(9.0), 0.1)[0].verdict, Verdict::Few);
    }

    #[test]
    fn rows_that_are_neither_good_nor_bad_are_not_compared() {
        let mut a = record(1, 1.0, 0, Better::Less);
        a.row("0", "a", ("cpus_busy", "cpu", None), &[vec![1.0]]);
        assert_eq!(changes(&a, &a, 0.0).len(), 1);
    }

    #[test]
    fn what_differs_is_named() {
        let a = record(1, 1.0, 0, Better::Less);
        assert_eq!(comparable(&a, &a, &[]), Ok(()));
        let mut b = a.clone();
        b.parameters.insert("size".into(), 6.into());
        b.machine.kernel = "0.01".into();
        let e = comparable(&a, &b, &[]).unwrap_err();
        assert!(
            e.contains("size (5, then 6)") && e.contains("kernel"),
            "{e}"
        );
        let e = comparable(&a, &b, &["kernel".into()]).unwrap_err();
        assert!(e.contains("size") && !e.contains("kernel"));
        assert_eq!(
            comparable(&a, &b, &["kernel".into(), "size".into()]),
            Ok(())
        );
        // One that only one of them has.
        b.parameters.clear();
        assert!(differences(&a, &b).iter().any(|d| d.after == "none"));
    }

    #[test]
    fn old_records_have_nothing_to_compare() {
        let a = record(1, 1.0, 0, Better::Less);
        let mut b = a.clone();
        b.schema = 1;
        b.results[0].samples.clear();
        assert!(comparable(&b, &a, &[]).unwrap_err().contains("schema 1"));
    }

    #[test]
    fn lines_fit_and_the_worst_comes_first() {
        let (a, mut b) = (
            record(3, 1.0, 0, Better::Less),
            record(3, 1.0, 0, Better::Less),
        );
        for s in b.results[1].samples.iter_mut().flatten() {
            *s *= 2.0;
        }
        let v = lines(&changes(&a, &b, 0.1), 0.1);
        assert!(v[1].starts_with("1 ") && v[1].ends_with("WORSE"), "{v:?}");
        assert!(v[4].contains("1 worse by more than 10 %"));
        let long = Change {
            case: "python-lines@1cpu".into(),
            backend: "byway-preload".into(),
            before: 123_456.0,
            after: 1e9,
            worse: 99.999,
            interval: [10.0, 99.99],
            ..changes(&a, &b, 0.1)[0].clone()
        };
        let v = lines(&[long], 0.1);
        assert!(v[..2].iter().all(|l| l.len() < 80), "{v:?}");
    }
}
