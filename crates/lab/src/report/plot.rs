//! What each plot shows: the comparison by case, the figures by case, then the curves.
//!
//! Invariant: a plot has two points at least (else its table says all); what is not ours is `elsewhere`.
//! Not here: where a case stands (cases.rs), the curves (curves.rs), pixels.
use super::cases::{Cases, Kind, distinct, unit_of_cases, wide};
use super::curves::curves;
use super::units::{Step, quantity, steps};
use crate::published;
use crate::record::{Ratio, Record, Row};
use crate::stats::Statistic;
use serde::Serialize;

#[derive(Serialize, Clone, Debug)]
pub struct Plot {
    /// A name for a file and for the page.
    pub id: String,
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub lines: Vec<Line>,
    /// Whether 1 divides better from worse.
    pub unity: bool,
}

#[derive(Serialize, Clone, Debug)]
pub struct Axis {
    /// The unit, or what a case is.
    pub label: String,
    pub log: bool,
    /// Of the places 0, 1, ... where the axis is not one of numbers.
    pub names: Vec<String>,
    /// What it shows, beside its marks.
    pub title: String,
    /// How its marks are written.
    pub steps: Vec<Step>,
}

impl Axis {
    /// One of numbers; `label` is their unit.
    pub fn new(label: &str, log: bool) -> Axis {
        Axis {
            label: label.into(),
            log,
            names: vec![],
            title: quantity(label).into(),
            steps: steps(label),
        }
    }
}

#[derive(Serialize, Clone, Debug)]
pub struct Line {
    pub name: String,
    /// Figures of other machines.
    pub elsewhere: bool,
    /// x, y, and the interval of y.
    pub points: Vec<[f64; 4]>,
    /// A point of it that is looked for, marked with a ring; its name says what it is.
    pub marked: Option<[f64; 2]>,
}

/// All plots of a record; ids begin with `name`.
pub fn plots(name: &str, r: &Record) -> Vec<Plot> {
    let mut v = ratios(name, r);
    v.extend(figures(name, r));
    v.extend(curves(name, r));
    let points = |p: &Plot| p.lines.iter().map(|l| l.points.len()).max();
    v.retain(|p| points(p).is_some_and(|n| n > 1));
    v
}

/// What a ratio is of: its case, and its metric where a case has several.
fn subject(r: &Record, q: &Ratio) -> String {
    let same = |o: &&Ratio| (&o.case, &o.backend, &o.over) == (&q.case, &q.backend, &q.over);
    if r.ratios.iter().filter(same).count() > 1 {
        format!("{} {}", q.case, q.metric.replace('_', " "))
    } else {
        q.case.clone()
    }
}

/// How many times better, by case: a plot for each that is compared with, or, where one is compared with many, for it.
fn ratios(name: &str, r: &Record) -> Vec<Plot> {
    let subjects: Vec<_> = r.ratios.iter().map(|q| subject(r, q)).collect();
    let cases = Cases::of(distinct(subjects.iter()));
    let backends = distinct(r.ratios.iter().map(|q| &q.backend));
    let mut overs = distinct(r.ratios.iter().map(|q| &q.over));
    let by_over = overs.len() <= backends.len();
    if by_over && cases.kind == Kind::Two {
        // A plot for each second number is many: only with the first, who is looked for.
        overs.truncate(1);
    }
    let (groups, lines) = if by_over {
        (&overs, &backends)
    } else {
        (&backends, &overs)
    };
    let mut v = vec![];
    for group in groups {
        for plot in cases.plots() {
            let line = |line: &String| {
                let own = r.ratios.iter().zip(&subjects).filter(|(q, _)| {
                    let (g, l) = if by_over {
                        (&q.over, &q.backend)
                    } else {
                        (&q.backend, &q.over)
                    };
                    g == group && l == line
                });
                let places = own.filter_map(|(q, s)| Some((q, cases.place(s)?)));
                Line {
                    name: if by_over {
                        line.clone()
                    } else {
                        format!("over {line}")
                    },
                    elsewhere: false,
                    marked: None,
                    points: places
                        .filter(|(_, p)| p.plot == plot)
                        .map(|(q, p)| [p.x, q.ratio, q.ci95[0], q.ci95[1]])
                        .collect(),
                }
            };
            let lines: Vec<_> = lines
                .iter()
                .map(line)
                .filter(|l| !l.points.is_empty())
                .collect();
            let what = if by_over {
                format!("times better than {group}")
            } else {
                format!("{group}: times better than others")
            };
            v.push(Plot {
                id: id(&[name, "ratio", group, plot.as_deref().unwrap_or("")]),
                title: titled(&r.workload, &what, plot.as_deref()),
                x: cases.axis(unit_of_cases(&r.workload), &lines),
                y: Axis::new(
                    "times better",
                    lines.iter().flat_map(|l| &l.points).all(|p| p[2] > 0.0),
                ),
                lines,
                unity: true,
            });
        }
    }
    v
}

/// The figures by case: a plot for each metric that is good or bad, and for each of its units.
fn figures(name: &str, r: &Record) -> Vec<Plot> {
    let rows = || {
        r.results
            .iter()
            .filter(|w| w.better.is_some() && w.statistic == Statistic::Median)
    };
    let mut v = vec![];
    let mut kinds: Vec<(&String, &String)> = vec![];
    for w in rows() {
        if !kinds.contains(&(&w.metric, &w.unit)) {
            kinds.push((&w.metric, &w.unit));
        }
    }
    for &(metric, unit) in &kinds {
        // Of a metric with several units, MB/s of some cases and messages a second of others, each has its own axis.
        let several = kinds.iter().filter(|k| k.0 == metric).count() > 1;
        let (what, of) = match several {
            true => (format!("{metric}, {unit}"), &unit[..]),
            false => (metric.clone(), ""),
        };
        let own = rows().filter(|w| w.metric == *metric && w.unit == *unit);
        let own: Vec<&Row> = own.collect();
        let cases = Cases::of(distinct(own.iter().map(|w| &w.case)));
        for plot in cases.plots() {
            let line = |backend: &String| {
                let own = own.iter().filter(|w| w.backend == *backend);
                let places = own.filter_map(|w| Some((w, cases.place(&w.case)?)));
                Line {
                    name: backend.clone(),
                    elsewhere: false,
                    marked: None,
                    points: places
                        .filter(|(_, p)| p.plot == plot)
                        .map(|(w, p)| [p.x, w.median, w.ci95[0], w.ci95[1]])
                        .collect(),
                }
            };
            let backends = distinct(own.iter().map(|w| &w.backend));
            let mut lines: Vec<_> = backends.iter().map(line).collect();
            if let Some(column) = &plot {
                lines.extend(elsewhere(&r.workload, column));
            }
            lines.retain(|l| !l.points.is_empty());
            v.push(Plot {
                id: id(&[name, metric, of, plot.as_deref().unwrap_or("")]),
                title: titled(&r.workload, &what.replace('_', " "), plot.as_deref()),
                x: cases.axis(unit_of_cases(&r.workload), &lines),
                y: Axis::new(
                    unit,
                    wide(lines.iter().flat_map(|l| &l.points).map(|p| p[1])),
                ),
                lines,
                unity: false,
            });
        }
    }
    v
}

/// A column of the published tables.
fn elsewhere(workload: &str, column: &str) -> Vec<Line> {
    let line = |t: published::Table| {
        let c = t.columns.iter().position(|c| c == column)?;
        let what = t.title.split(':').next().unwrap_or("").to_string();
        Some(Line {
            name: format!("published: {what}"),
            elsewhere: true,
            marked: None,
            points: (t.rows.iter())
                .filter_map(|(row, cells)| Some((row.parse().ok()?, cells[c]?)))
                .map(|(x, y): (f64, f64)| [x, y, y, y])
                .collect(),
        })
    };
    published::tables(workload)
        .into_iter()
        .filter_map(line)
        .collect()
}

fn titled(workload: &str, what: &str, plot: Option<&str>) -> String {
    match plot {
        Some(p) => format!("{workload}: {what}, {p} messages"),
        None => format!("{workload}: {what}"),
    }
}

/// Letters, digits and dashes of all parts.
pub fn id(parts: &[&str]) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let parts = parts.iter().filter(|p| !p.is_empty());
    parts
        .map(|p| p.chars().map(fit).collect::<String>())
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::some;

    fn of(i: usize) -> Vec<Plot> {
        let n = &some()[i];
        plots(&n.name, &n.record)
    }

    #[test]
    fn two_numbers_are_an_axis_and_plots() {
        let v = of(0);
        let ids: Vec<_> = v.iter().map(|p| &p.id[..]).collect();
        let expected = [
            "fifo-ratio-kernel-64k-100",
            "fifo-ratio-kernel-64k-1000",
            "fifo-elapsed-100",
            "fifo-elapsed-1000",
        ];
        assert_eq!(ids, expected);
        assert!(v[0].unity && v[0].y.log && !v[0].x.log);
        assert_eq!(
            v[0].lines[0]
                .points
                .iter()
                .map(|p| p[0])
                .collect::<Vec<_>>(),
            [64.0, 128.0]
        );
        let published = v[2].lines.iter().filter(|l| l.elsewhere);
        assert_eq!(
            published.map(|l| l.points.len()).collect::<Vec<_>>(),
            [7, 7]
        );
    }

    #[test]
    fn numbers_far_apart_are_logarithmic() {
        let v = of(1);
        assert!(v[0].x.log && v[0].x.names.is_empty());
        assert!(v.iter().all(|p| p.lines.iter().all(|l| !l.elsewhere)));
    }

    #[test]
    fn names_keep_their_order() {
        let v = of(2);
        assert_eq!(v[0].x.names, ["<b>", "two", "three"]);
        assert_eq!(v[0].lines[0].points[2][0], 2.0);
    }

    #[test]
    fn units_of_one_metric_stand_apart() {
        let mut r = Record::new("ready");
        for (case, unit) in [
            ("a", "MB/s"),
            ("b", "1/s"),
            ("c", "MB/s"),
            ("d", "1/s"),
            ("e", "us"),
        ] {
            let metric = ("rate", unit, Some(crate::record::Better::More));
            r.row(case, "byway", metric, &[vec![2.0]]);
        }
        let told: Vec<_> = plots("ready", &r)
            .iter()
            .map(|p| {
                (
                    p.id.clone(),
                    p.title.clone(),
                    p.y.label.clone(),
                    p.x.names.concat(),
                )
            })
            .collect();
        let expected = [
            ("ready-rate-MB-s", "ready: rate, MB/s", "MB/s", "ac"),
            ("ready-rate-1-s", "ready: rate, 1/s", "1/s", "bd"),
        ]
        .map(|(a, b, c, d)| (a.into(), b.into(), c.into(), d.into()));
        assert_eq!(told, expected);
    }

    #[test]
    fn metrics_of_one_case_stand_apart() {
        let mut r = Record::new("t");
        let v = |x: f64| vec![vec![x], vec![x]];
        for metric in ["at_64", "peak"] {
            let better = crate::record::Better::More;
            r.ratio("block", metric, better, ("a", &v(2.0)), ("b", &v(1.0)));
        }
        assert_eq!(plots("t", &r)[0].x.names, ["block at 64", "block peak"]);
    }

    #[test]
    fn one_compared_with_many_is_one_plot() {
        let mut r = Record::new("t");
        let v = |x: f64| vec![vec![x], vec![x]];
        for case in ["a", "b"] {
            for over in ["x", "y", "z"] {
                let better = crate::record::Better::Less;
                r.ratio(case, "time", better, ("ours", &v(1.0)), (over, &v(2.0)));
            }
        }
        let p = plots("t", &r);
        assert_eq!((p.len(), p[0].lines.len()), (1, 3));
        assert_eq!(p[0].lines[1].name, "over y");
    }
}
