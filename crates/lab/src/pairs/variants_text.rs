//! The table of the pipe's variants, as the source has it: percent over base by bytes of a transfer, beside its own.
//!
//! Invariant: no line is longer than 79 characters; the published figures never stand without the words that they are of
//! another machine, and no ratio is made of the two.
//! Not here: the lines of all backends (text.rs).
//!
//! Source: published/pipe_linux_lse.csv, from "Pipe performance results" (Linux Scalability Effort).
use super::text::short;
use super::{BASE, BOUND, Bench, PAGE, lat_pipe};
use crate::published::{self, Table};
use crate::record::{Ratio, Record, Row};

/// What is said of the published figures in the record.
pub const SOURCE: &str = "published figures: percent over a base kernel of Linux 2.5, before 2004; LP: large pipes, ZC: zero copy \
     (Linux Scalability Effort, Pipe performance results): another machine and another kernel, no ratio is made with them";
/// The words that they stand under.
const ELSEWHERE: &str = "published: Linux 2.5, other machine";
/// Ours, in the order of the source; after them what a user has, `auto`.
const OURS: [&str; 3] = ["lp", "zc", "lp+zc"];

/// Of the source: which of its tables, the column, what it is called here.
type Column = (usize, &'static str, &'static str);
const TWO: [Column; 3] = [
    (0, "2-way LP(32k)", "LP 32k"),
    (0, "2-way ZC", "ZC"),
    (0, "2-way LP(32k)+ZC", "LP+ZC"),
];
const ONE: [Column; 5] = [
    (0, "UP LP(32k)", "LP 32k"),
    (0, "UP ZC", "ZC"),
    (0, "UP LP(32k)+ZC", "LP+ZC"),
    (1, "UP LP(4k)", "LP 4k"),
    (1, "UP LP(4k)+ZC", "LP+ZC"),
];

fn row(name: &str, base: &str, ours: impl Iterator<Item = String>, theirs: &[String]) -> String {
    let ours: String = ours.map(|c| format!("{c:>6}")).collect();
    let theirs: String = theirs.iter().map(|c| format!("{c:>7}")).collect();
    format!("{name:<7}{base:>10}{ours} |{theirs}")
}

/// A figure of a published table.
fn figure(t: &Table, name: &str, column: &str) -> Option<f64> {
    let c = t.columns.iter().position(|c| c == column)?;
    let (_, cells) = t.rows.iter().find(|r| r.0 == name)?;
    cells[c]
}

/// What was measured on so many CPUs beside what was published of as many, in the source's rows: over our base, and over one as small as
/// the source's. What was not measured is a dash.
pub fn table(record: &Record, bench: Bench, cpus: usize) -> Vec<String> {
    let mut lines = over(record, bench, cpus, BASE);
    if record.results.iter().any(|r| r.backend == PAGE) {
        lines.push(String::new());
        lines.extend(over(record, bench, cpus, PAGE));
    }
    let bound = bound(record, bench, cpus);
    if !bound.is_empty() {
        lines.push(String::new());
        lines.extend(bound);
    }
    lines
}

/// How many times as fast as their bound the variants are, in the cases that were measured; nothing where none was.
fn bound(record: &Record, bench: Bench, cpus: usize) -> Vec<String> {
    let line = |case: &str, of_bound: &str, ours: &mut dyn Iterator<Item = String>| {
        let ours: String = ours.map(|c| format!("{c:>6}")).collect();
        format!("{case:<7}{of_bound:>12}{ours}")
    };
    let (metric, unit, _) = bench.metric("");
    let what = if cpus == 1 { "1 CPU" } else { "2 CPUs" };
    let mut lines = vec![
        format!("{}, {what}: times as fast as {BOUND}", bench.name()),
        line(
            "",
            &format!("{BOUND} {unit}"),
            &mut OURS.into_iter().chain(["auto"]).map(String::from),
        ),
    ];
    let measured = |r: &&Row| r.backend == BOUND && r.metric == metric;
    for row in record.results.iter().filter(measured) {
        let ratio = |b: &str| {
            let mut all = record.ratios.iter();
            let found = all.find(|q| q.case == row.case && q.backend == b && q.over == BOUND);
            found.map_or("-".into(), |q| short(q.ratio))
        };
        let ours = OURS.into_iter().chain([bench.auto()]).map(ratio);
        lines.push(line(&row.case, &short(row.median), &mut { ours }));
    }
    if lines.len() == 2 { vec![] } else { lines }
}

fn over(record: &Record, bench: Bench, cpus: usize, base: &str) -> Vec<String> {
    let published = published::tables(bench.name());
    let (columns, what) = match cpus {
        _ if published.is_empty() => (&[][..], if cpus == 1 { "1 CPU" } else { "2 CPUs" }),
        1 => (&ONE[..], "1 CPU"),
        _ => (&TWO[..], "2 CPUs"),
    };
    let rows: Vec<String> = match published.first() {
        Some(first) => first.rows.iter().map(|r| r.0.clone()).collect(),
        None => lat_pipe::CASES.map(String::from).into(),
    };
    let heads: Vec<_> = columns.iter().map(|c| c.2.to_string()).collect();
    let head = format!("{}, {what}: % over {base}", bench.name());
    let (_, unit, _) = bench.metric("");
    let ours = OURS.into_iter().chain([bench.auto()]);
    let base_of = row(
        "",
        &format!("base {unit}"),
        OURS.into_iter().chain(["auto"]).map(String::from),
        &heads,
    );
    let width = base_of.find('|').unwrap_or(0);
    let right = if columns.is_empty() {
        "a trip in half the time: +100"
    } else {
        ELSEWHERE
    };
    let mut lines = vec![format!("{head:<width$}| {right}"), base_of];
    for name in &rows {
        let (metric, ..) = bench.metric(name);
        let of_base = record.find(name, base, metric);
        let ours = ours.clone().map(|b| {
            let mut all = record.ratios.iter();
            let found = all.find(|q| q.case == *name && q.backend == b && q.over == base);
            found.map_or("-".into(), |q| {
                format!("{:+.0}", 100.0 * Ratio::more_throughput(q.ratio))
            })
        });
        let theirs = columns.iter().map(|&(t, column, _)| {
            let found = published.get(t).and_then(|t| figure(t, name, column));
            found.map_or("-".into(), |v| format!("{v:+}"))
        });
        let of_base = of_base.map_or("-".into(), |r| short(r.median));
        lines.push(row(name, &of_base, ours, &theirs.collect::<Vec<_>>()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::Plan;
    use crate::record::Better;

    #[test]
    fn every_published_column_is_there() {
        for bench in [Bench::BwPipe, Bench::Pipeflex, Bench::Grep] {
            let all = published::tables(bench.name());
            for (t, column, _) in TWO.into_iter().chain(ONE) {
                for (name, _) in &all[t].rows {
                    assert!(figure(&all[t], name, column).is_some(), "{name} {column}");
                }
            }
        }
        let t = &published::tables("pipeflex")[0];
        assert_eq!(figure(t, "65536", "2-way LP(32k)+ZC"), Some(338.0));
        assert_eq!(figure(t, "65536", "3-way ZC"), None);
    }

    #[test]
    fn ours_stand_beside_theirs_and_fit_eighty_columns() {
        let mut r = Record::new("bw-pipe");
        for case in Bench::BwPipe.cases(&Plan::new(vec![0, 1], false)) {
            let of = |v: f64| vec![vec![v]];
            r.row(&case, BASE, ("rate", "MB/s", None), &of(12_345.0));
            for (b, v) in [("lp", 18_517.5), ("zc", 6172.5), ("lp+zc", 135_795.0)] {
                let (new, old) = ((b, &of(v)[..]), (BASE, &of(12_345.0)[..]));
                r.ratio(&case, "rate", Better::More, new, old);
            }
        }
        let lines = table(&r, Bench::BwPipe, 2);
        assert_eq!(lines.len(), 2 + 10);
        assert!(lines[0].ends_with(ELSEWHERE));
        let cells = |l: &str| -> Vec<String> { l.split_whitespace().map(String::from).collect() };
        let expected = [
            "2048", "12345", "+50", "-50", "+1000", "-", "|", "+4", "+54", "+102",
        ];
        assert_eq!(cells(&lines[2]), expected);
        assert_eq!(cells(&lines[4])[..4], ["6144", "12345", "+50", "-50"]);
        // Over a page too, where that was measured.
        r.row("4096", PAGE, ("rate", "MB/s", None), &[vec![1000.0]]);
        let (new, old) = (("lp", &[vec![5000.0]][..]), (PAGE, &[vec![1000.0]][..]));
        r.ratio("4096", "rate", Better::More, new, old);
        let both = table(&r, Bench::BwPipe, 2);
        assert_eq!(
            (both.len(), &both[..lines.len()]),
            (2 * lines.len() + 1, &lines[..])
        );
        assert!(both[13].contains("% over base-4k"), "{}", both[13]);
        assert_eq!(cells(&both[16])[..4], ["4096", "1000", "+400", "-"]);
        let one = table(&r, Bench::BwPipe, 1);
        assert!(one[2].ends_with("-2.58     +2"), "{}", one[2]);
        for bench in [Bench::BwPipe, Bench::Pipeflex, Bench::Grep] {
            for l in [table(&r, bench, 1), table(&r, bench, 2)].concat() {
                assert!(l.len() < 80, "{l}");
            }
        }
    }

    #[test]
    fn ours_are_compared_with_their_bound_where_it_was_measured() {
        let mut r = Record::new("bw-pipe");
        let of = |v: f64| vec![vec![v]];
        r.row("65536", BOUND, ("rate", "MB/s", None), &of(15_100.0));
        for (b, v) in [("lp+zc", 24_009.0), ("auto", 7550.0)] {
            let (new, old) = ((b, &of(v)[..]), (BOUND, &of(15_100.0)[..]));
            r.ratio("65536", "rate", Better::More, new, old);
        }
        let all = table(&r, Bench::BwPipe, 2);
        let lines = &all[all.len() - 3..];
        assert_eq!(lines[0], "bw-pipe, 2 CPUs: times as fast as memcpy");
        let cells: Vec<_> = lines[2].split_whitespace().collect();
        assert_eq!(cells, ["65536", "15100", "-", "-", "1.59", "0.50"]);
        assert_eq!(lines[1].len(), lines[2].len(), "columns are aligned");
        assert!(lines.iter().all(|l| l.len() < 80));
    }

    #[test]
    fn what_has_no_published_figures_stands_alone() {
        let mut r = Record::new("lat-pipe");
        let of = |v: f64| vec![vec![v]];
        r.row("spin", BASE, ("round_trip", "us", None), &of(0.5));
        for (b, v) in [("zc", 0.25), (lat_pipe::AUTO, 1.0)] {
            let (new, old) = ((b, &of(v)[..]), (BASE, &of(0.5)[..]));
            r.ratio("spin", "round_trip", Better::Less, new, old);
        }
        let lines = table(&r, Bench::LatPipe, 2);
        let cells: Vec<_> = lines[2].split_whitespace().collect();
        assert_eq!(cells, ["spin", "0.50", "-", "+100", "-", "-50", "|"]);
        assert_eq!((lines.len(), lines[1].ends_with("auto |")), (4, true));
        assert!(lines.iter().all(|l| l.len() < 80 && !l.contains(ELSEWHERE)));
    }
}
