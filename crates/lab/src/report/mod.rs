//! Records as one page that needs nothing else, and each of its plots as an SVG file.
//!
//! ```text
//! records --summary.rs--> a row of each, one sentence --svg/forest.rs--> the picture that the page opens with
//! two of each --changes.rs-> what has changed, a page of its own, with the same picture
//!         --plot.rs-----> what each plot shows --page.rs, assets/--> one HTML file: tables, and plots that a browser draws
//!                                              --svg.rs----------> an SVG file of each
//! ```
//! Invariant: the summary comes first, then the sources' tables, and all else is folded; every plotted value stands in a table too; figures of other machines are marked
//! wherever they appear; the page asks for nothing over the network (its own policy forbids it).
//! Not here: files and folders (cli).
mod cases;
mod changes;
mod curves;
mod page;
mod plot;
mod summary;
mod svg;
mod tables;
mod units;

use crate::record::Record;
pub use changes::page as compared;
pub use page::{day, page};

/// The workloads of the sources, in their order, and then the lab's own.
const ORDER: [&str; 15] = [
    "fifo",
    "bw-pipe",
    "pipeflex",
    "grep",
    "lat-pipe",
    "pipeline",
    "mbuf",
    "netpipe",
    "netperf",
    "ftp",
    "ready",
    "start",
    "services",
    "originals",
    "native",
];
/// How many of them are the sources'.
const OF_SOURCES: usize = 10;

/// Where a workload stands; one that is not known comes last.
fn place(workload: &str) -> usize {
    // Records of schema 1 call it so.
    let name = if workload == "demo" {
        "pipeline"
    } else {
        workload
    };
    let known = ORDER.iter().position(|o| *o == name);
    known.unwrap_or(ORDER.len())
}

fn is_of_a_source(workload: &str) -> bool {
    place(workload) < OF_SOURCES
}

/// The picture of the summary and the plots of all records as files: name, text.
///
/// # Errors
/// A sentence: a plot could not be drawn.
pub fn svgs(records: &[Named]) -> Result<Vec<(String, String)>, String> {
    let rows = summary::rows(records);
    let picture = svg::forest::file(&rows, &summary::sentence(&rows), svg::forest::AXIS);
    let first = [Ok(("summary.svg".to_string(), picture))].into_iter();
    let plots = records.iter().flat_map(|n| plot::plots(&n.name, &n.record));
    first
        .chain(plots.map(|p| Ok((format!("{}.svg", p.id), svg::draw(&p)?))))
        .collect()
}

/// A record and the name of its part of the page: letters, digits, `-`.
pub struct Named {
    pub name: String,
    pub record: Record,
}

/// Puts them in the order of their workloads, those of one CPU after the others, and names them; the second of a workload
/// gets a number.
pub fn named(mut records: Vec<Record>) -> Vec<Named> {
    records.sort_by_key(|r| (place(&r.workload), r.affinity.len() == 1));
    let mut v: Vec<Named> = vec![];
    for record in records {
        let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        let base: String = record.workload.chars().map(fit).collect();
        let n = v
            .iter()
            .filter(|n| n.record.workload == record.workload)
            .count();
        let name = if n == 0 {
            base
        } else {
            format!("{base}-{}", n + 1)
        };
        v.push(Named { name, record });
    }
    v
}

/// A figure in five characters or so.
fn short(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        a if a >= 1e7 => format!("{v:.3e}"),
        a if a >= 100.0 => format!("{v:.0}"),
        a if a >= 10.0 => format!("{v:.1}"),
        a if a >= 0.01 => format!("{v:.3}"),
        _ => format!("{v:.2e}"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::{Better, End, Series, Wanted};
    use crate::runner::Ended;

    /// Records like those of `fifo`, `bw-pipe` and `mbuf`, with a name that has to be escaped.
    pub fn some() -> Vec<Named> {
        let rounds =
            |v: f64| -> Vec<Vec<f64>> { (0..9).map(|i| vec![v + f64::from(i) / 50.0]).collect() };
        let mut all = vec![];
        for (workload, cases) in [
            ("fifo", vec!["64x100", "128x100", "64x1000", "128x1000"]),
            ("bw-pipe", vec!["2048", "65536"]),
            ("odd", vec!["<b>", "two", "three"]),
        ] {
            let mut r = Record::new(workload);
            for (i, case) in cases.iter().enumerate() {
                let metric = ("elapsed", "us", Some(Better::Less));
                let (old, new) = (rounds(100.0 + i as f64), rounds(20.0 + i as f64));
                r.row(case, "kernel-64k", metric, &old);
                r.row(case, "auto", metric, &new);
                r.ratio(
                    case,
                    "elapsed",
                    Better::Less,
                    ("auto", &new),
                    ("kernel-64k", &old),
                );
                if workload == "fifo" {
                    r.mean_row(case, "kernel-fifo", ("elapsed_mean", "us", None), &old);
                }
                r.ended.push(End {
                    case: (*case).into(),
                    by: Ended::Width,
                    rounds: 9,
                    seconds: 1.0,
                    width: Some(0.02),
                });
            }
            r.limits = Some(Wanted {
                width: 0.05,
                time: 60.0,
                least: 7,
                most: 60,
                warm: 1,
            });
            all.push(r);
        }
        for run in 0..2 {
            all[2].series.push(Series {
                case: "two".into(),
                backend: "auto".into(),
                metric: "held".into(),
                run,
                units: ["s".into(), "MiB".into()],
                points: vec![[0.0, 1000.0], [1.0, 8.0], [2.0, 1.0 + run as f64]],
            });
        }
        named(all)
    }

    #[test]
    fn names_are_told_apart() {
        let all = ["native", "a b", "fifo", "ready", "ftp", "fifo"].map(Record::new);
        let names: Vec<_> = named(all.into()).into_iter().map(|n| n.name).collect();
        assert_eq!(names, ["fifo", "fifo-2", "ftp", "ready", "native", "a-b"]);
        assert!(is_of_a_source("ftp") && !is_of_a_source("ready") && !is_of_a_source("a b"));
    }

    #[test]
    fn every_plot_is_a_file() {
        let all = some();
        let files = svgs(&all).unwrap();
        let n: usize = all
            .iter()
            .map(|r| plot::plots(&r.name, &r.record).len())
            .sum();
        assert_eq!(files.len(), n + 1);
        let mut names: Vec<_> = files.iter().map(|f| &f.0).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), n + 1);
        for (name, text) in &files {
            assert!(
                text.starts_with("<svg") && text.trim_end().ends_with("</svg>"),
                "{name}"
            );
            assert!(!text.contains("<b>") && !text.contains("NaN"), "{name}");
        }
    }

    #[test]
    fn what_is_bundled_is_what_was_published() {
        assert_eq!(page::UPLOT.len(), 51_081);
        assert_eq!(page::UPLOT_CSS.len(), 1857);
        assert!(page::UPLOT.contains("v1.6.32"));
    }
}
