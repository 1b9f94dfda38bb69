//! The table of `fifo`, in the rows and columns of the source, with its published figures beside ours.
//!
//! Invariant: no line is longer than 79 characters; the published figures never stand without the words that they are of
//! another machine, and no ratio is made of the two.
//! Not here: other benchmarks' lines (text.rs).
//!
//! Source: published/fifo_freebsd8_2009.csv, from "FIFO Optimization status 4" (Zhao Shuai, 25 July 2009).
use super::fifo::{self, COUNTS, Cell, SIZES};
use super::text::short;
use crate::record::Record;
use crate::stats;

const CSV: &str = include_str!("../../published/fifo_freebsd8_2009.csv");
/// The metric of the means.
pub const MEAN: &str = "elapsed_mean";
/// The words that the published figures stand under, and what is said of them in the record.
const SPREAD: &str = "spread of the middle half, %";
const ELSEWHERE: &str = "published: FreeBSD 8, 2009";
pub const SOURCE: &str = "published figures: FreeBSD 8.0-CURRENT on a Core 2 Quad 9400, July 2009, means of 100 runs, us \
     (Zhao Shuai, FIFO Optimization status 4): another machine and another system, no ratio is made with them";

/// A published mean, us; `implementation` is `socket` or `pipe`.
pub fn published(implementation: &str, cell: Cell) -> Option<f64> {
    CSV.lines().skip(1).find_map(|l| {
        let mut f = l.split(',');
        let same = f.next()? == implementation
            && f.next()?.parse() == Ok(cell.size)
            && f.next()?.parse() == Ok(cell.count);
        same.then(|| f.next()?.trim().parse().ok()).flatten()
    })
}

/// Width of the column of a count: on the left ours, on the right the published ones or ratios.
const OURS: usize = 7;
const RIGHT: [usize; 5] = [5, 6, 6, 6, 7];

fn row(name: &str, left: impl Fn(usize) -> String, right: impl Fn(usize) -> String) -> String {
    let left: String = COUNTS.map(|c| format!("{:>OURS$}", left(c))).concat();
    let right: String = (COUNTS.iter().zip(RIGHT))
        .map(|(&c, w)| format!("{:>w$}", right(c)))
        .collect();
    format!("{name:<6}{left} |{right}").trim_end().to_string()
}

/// Of how many runs the means are: the fewest, the most, and those that have fewer than the source's.
type Counts = (usize, usize, Vec<(String, usize)>);

fn counts(record: &Record) -> Option<Counts> {
    let mut cells: Vec<(String, usize)> = vec![];
    for r in record.results.iter().filter(|r| r.metric == MEAN) {
        if cells.last().is_none_or(|c| c.0 != r.case) {
            cells.push((r.case.clone(), r.n));
        }
    }
    let of = cells.iter().map(|c| c.1);
    let (least, most) = (of.clone().min()?, of.max()?);
    cells.retain(|c| c.1 < fifo::RUNS);
    Some((least, most, cells))
}

/// Which means are of fewer runs than the source's, as a note.
pub fn runs(record: &Record) -> Option<String> {
    let (_, most, few) = counts(record)?;
    if few.is_empty() {
        return None;
    }
    let each = |(case, n): &(String, usize)| format!("{case} {n}");
    let few: Vec<_> = match most < fifo::RUNS {
        true => vec!["all".into()],
        false => few.iter().map(each).collect(),
    };
    Some(format!(
        "means of fewer than {} runs, as many as the source's are of (without --time, --runs and --quick there are no fewer): {}",
        fifo::RUNS,
        few.join(", ")
    ))
}

/// Of how many runs the means are, in a few words.
pub fn counted(record: &Record) -> String {
    let source = fifo::RUNS;
    match counts(record) {
        None => "no means".into(),
        Some((least, most, _)) if least == most => format!("means of {least} runs"),
        Some((least, most, few)) if few.is_empty() => format!("means of {least} to {most} runs"),
        Some((least, most, few)) => {
            let n = few.len();
            format!("means of {least} to {most} runs (of fewer than {source}: {n} cells)")
        }
    }
}

/// How many runs there were, then a block for each backend: mean us of a run; beside it the published means, or how many times faster than the
/// kernel's FIFO it is (medians of neighbouring runs); then medians, and how far the middle half of the runs is spread. Cells that were not
/// measured are a dash.
pub fn table(record: &Record) -> Vec<String> {
    let source = fifo::RUNS;
    let mut lines = vec![
        format!("{}; the source's are of {source}", counted(record)),
        String::new(),
    ];
    for (backend, was) in [
        ("unix-socket", Some(("old, socket version", "socket"))),
        ("kernel-fifo", Some(("new, pipe version", "pipe"))),
        ("byway-preload", None),
        ("byway-core", None),
    ] {
        let mean = |size: usize, count: usize| {
            let id = Cell { size, count }.id();
            let found = record
                .results
                .iter()
                .find(|r| r.case == id && r.backend == backend && r.metric == MEAN);
            found.map_or("-".into(), |r| whole(r.median))
        };
        let ratio = |size: usize, count: usize| {
            let id = Cell { size, count }.id();
            let found = record
                .ratios
                .iter()
                .find(|q| q.case == id && q.backend == backend && q.over == fifo::OVER[0]);
            found.map_or("-".into(), |q| short(q.ratio))
        };
        let (name, right) = match was {
            Some((version, _)) => (format!("{backend} ({version})"), ELSEWHERE),
            None => (backend.into(), "times faster than kernel-fifo"),
        };
        lines.push(format!("{:<41} | {right}", format!("{name}, mean us")));
        lines.push(row("", |c| c.to_string(), |c| c.to_string()));
        for size in SIZES {
            let name = format!("{size}B");
            lines.push(match was {
                Some((_, implementation)) => row(
                    &name,
                    |c| mean(size, c),
                    |count| {
                        published(implementation, Cell { size, count })
                            .map_or("-".into(), |v| format!("{v:.0}"))
                    },
                ),
                None => row(&name, |c| mean(size, c), |c| ratio(size, c)),
            });
        }
        lines.push(format!(
            "{:<41} | {SPREAD}",
            format!("{backend}, median us")
        ));
        let of = |size, count| {
            let id = Cell { size, count }.id();
            record.results.iter().find(|r| {
                r.case == id && r.backend == backend && r.metric != MEAN && r.unit == "us"
            })
        };
        for size in SIZES {
            lines.push(row(
                &format!("{size}B"),
                |c| of(size, c).map_or("-".into(), |r| whole(r.median)),
                |c| of(size, c).map_or("-".into(), |r| spread(&r.samples.concat())),
            ));
        }
        lines.push(String::new());
    }
    lines.pop();
    lines
}

/// From the lower to the upper quartile, in percent of the median.
fn spread(samples: &[f64]) -> String {
    let at = |percent| stats::percentile(samples, percent);
    match samples {
        [] => "-".into(),
        _ => format!("{:.0}", 100.0 * (at(75.0) - at(25.0)) / at(50.0)),
    }
}

/// Without a fraction where there are two digits before it.
fn whole(us: f64) -> String {
    if us < 10.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Better;

    #[test]
    fn every_published_cell_is_there() {
        for cell in fifo::cells() {
            for implementation in ["socket", "pipe"] {
                assert!(published(implementation, cell).is_some(), "{cell:?}");
            }
        }
        let first = Cell {
            size: 64,
            count: 100,
        };
        assert_eq!(published("pipe", first), Some(274.0));
        assert_eq!(published("socket", first), Some(85.0));
        assert_eq!(published("ring", first), None);
    }

    #[test]
    fn fits_eighty_columns_and_says_whose_figures() {
        let mut r = Record::new("fifo");
        let empty = table(&r);
        for cell in fifo::cells() {
            for b in fifo::BACKENDS {
                let metric = (MEAN, "us", None);
                r.mean_row(&cell.id(), b.name, metric, &[vec![999_999.0]]);
                let metric = ("elapsed", "us", None);
                r.row(&cell.id(), b.name, metric, &[vec![90.0, 100.0, 110.0]]);
                let (new, old) = ([vec![1.0]], [vec![99_999.0]]);
                let over = ("kernel-fifo", &old[..]);
                r.ratio(&cell.id(), "elapsed", Better::Less, (b.name, &new), over);
            }
        }
        let full = table(&r);
        assert_eq!(empty.len(), full.len());
        assert_eq!(full.len(), 2 + 4 * 18 - 1);
        assert_eq!(full[0], "means of 1 runs; the source's are of 100");
        for l in empty.iter().chain(&full) {
            assert!(l.len() < 80, "{l}");
        }
        assert_eq!(full.iter().filter(|l| l.contains(ELSEWHERE)).count(), 2);
        assert!(full[4].starts_with("64B ") && full[10].starts_with("4096B "));
        assert!(full[10].ends_with("905902"));
        assert!(full[11].ends_with(SPREAD));
        let medians = "64B       100    100    100    100    100 |   10    10    10    10     10";
        assert_eq!(full[12], medians);
    }

    #[test]
    fn it_says_how_many_runs_each_mean_is_of() {
        let mut r = Record::new("fifo");
        assert!(table(&r)[0].starts_with("no means") && runs(&r).is_none());
        let mut cell = |id: &str, n: usize| {
            for b in fifo::BACKENDS {
                r.mean_row(id, b.name, (MEAN, "us", None), &[vec![1.0; n]]);
            }
            (table(&r)[0].clone(), runs(&r).unwrap_or_default())
        };
        let (head, few) = cell("64x100", 44);
        assert!(head.starts_with("means of 44 runs;") && few.ends_with(": all"));
        let (head, few) = cell("64x1000", 105);
        let expected = "means of 44 to 105 runs (of fewer than 100: 1 cells);";
        assert!(head.starts_with(expected) && few.ends_with(": 64x100 44"));
        let mut r = Record::new("fifo");
        r.mean_row(
            "64x100",
            "kernel-fifo",
            (MEAN, "us", None),
            &[vec![1.0; 100]],
        );
        r.mean_row(
            "64x1000",
            "kernel-fifo",
            (MEAN, "us", None),
            &[vec![1.0; 105]],
        );
        assert_eq!(
            (counted(&r), runs(&r)),
            ("means of 100 to 105 runs".into(), None)
        );
    }
}
