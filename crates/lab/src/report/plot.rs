//! What each plot shows: the comparison by case, the figures by case, the curves.
//!
//! ```text
//! cases 2048 4096 ...     a number: an axis, mostly logarithmic
//! cases 64x100 64x1000    two numbers: the first is the axis, a plot for each of the second
//! cases wc sort ...       names, in their order
//! ```
//! Invariant: a plot has two points at least (else its table says all); what is not ours is `elsewhere`.
//! Not here: pixels.
use super::short;
use crate::published;
use crate::record::{Ratio, Record, Row, Series};
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
    pub label: String,
    pub log: bool,
    /// Of the places 0, 1, ... where the axis is not one of numbers.
    pub names: Vec<String>,
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

/// Where a case stands: in which plot, and where on its axis.
struct Place {
    plot: Option<String>,
    x: f64,
}

/// How the cases of a record are laid out.
struct Cases {
    names: Vec<String>,
    kind: Kind,
}

#[derive(PartialEq)]
enum Kind {
    Number,
    Two,
    Name,
}

impl Cases {
    fn of(names: Vec<String>) -> Cases {
        let number = |c: &String| c.parse::<f64>().is_ok();
        let two = |c: &String| {
            let parts = c.split_once('x');
            parts.is_some_and(|(a, b)| a.parse::<f64>().is_ok() && b.parse::<f64>().is_ok())
        };
        let kind = if names.iter().all(number) {
            Kind::Number
        } else if names.iter().all(two) {
            Kind::Two
        } else {
            Kind::Name
        };
        Cases { names, kind }
    }

    fn place(&self, case: &str) -> Option<Place> {
        let number = |s: &str| s.parse().ok();
        Some(match self.kind {
            Kind::Number => Place {
                plot: None,
                x: number(case)?,
            },
            Kind::Two => {
                let (a, b) = case.split_once('x')?;
                Place {
                    plot: Some(b.into()),
                    x: number(a)?,
                }
            }
            Kind::Name => Place {
                plot: None,
                x: self.names.iter().position(|n| n == case)? as f64,
            },
        })
    }

    /// The second numbers, or one plot of all.
    fn plots(&self) -> Vec<Option<String>> {
        let mut v = vec![];
        for p in self.names.iter().filter_map(|n| self.place(n)) {
            if !v.contains(&p.plot) {
                v.push(p.plot);
            }
        }
        v
    }

    fn axis(&self, label: &str, lines: &[Line]) -> Axis {
        let names = if self.kind == Kind::Name {
            self.names.clone()
        } else {
            vec![]
        };
        Axis {
            label: label.into(),
            log: names.is_empty() && wide(lines.iter().flat_map(|l| &l.points).map(|p| p[0])),
            names,
        }
    }
}

/// Whether values are so far apart, and all above zero, that a logarithmic axis shows them better.
fn wide(values: impl Iterator<Item = f64>) -> bool {
    let (mut low, mut high) = (f64::INFINITY, 0.0f64);
    for v in values {
        (low, high) = (low.min(v), high.max(v));
    }
    low > 0.0 && high / low > 20.0
}

/// What a case is, of the workloads whose cases are numbers.
fn unit_of_cases(workload: &str) -> &'static str {
    match workload {
        "fifo" => "bytes of a message",
        "bw-pipe" => "bytes of a chunk",
        "pipeflex" => "bytes of a read",
        _ => "case",
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut v: Vec<String> = vec![];
    for s in all {
        if !v.contains(s) {
            v.push(s.clone());
        }
    }
    v
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
                y: Axis {
                    label: "times better".into(),
                    log: lines.iter().flat_map(|l| &l.points).all(|p| p[2] > 0.0),
                    names: vec![],
                },
                lines,
                unity: true,
            });
        }
    }
    v
}

/// The figures by case: a plot for each metric that is good or bad.
fn figures(name: &str, r: &Record) -> Vec<Plot> {
    let rows = || {
        r.results
            .iter()
            .filter(|w| w.better.is_some() && w.statistic == Statistic::Median)
    };
    let mut v = vec![];
    for metric in distinct(rows().map(|w| &w.metric)) {
        let own: Vec<&Row> = rows().filter(|w| w.metric == metric).collect();
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
            let unit = own.first().map_or("", |w| &w.unit);
            v.push(Plot {
                id: id(&[name, &metric, plot.as_deref().unwrap_or("")]),
                title: titled(&r.workload, &metric.replace('_', " "), plot.as_deref()),
                x: cases.axis(unit_of_cases(&r.workload), &lines),
                y: Axis {
                    label: unit.into(),
                    log: wide(lines.iter().flat_map(|l| &l.points).map(|p| p[1])),
                    names: vec![],
                },
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

/// Curves of single runs of which there are others made of all runs.
const SINGLE: &str = "block_time";

/// The curves, the first run of each.
fn curves(name: &str, r: &Record) -> Vec<Plot> {
    let first = || {
        let all = r.series.iter();
        all.filter(|s| s.run == 0 && s.metric != SINGLE)
    };
    let mut keys: Vec<(&str, &str)> = vec![];
    for s in first() {
        if !keys.contains(&(&s.case, &s.metric)) {
            keys.push((&s.case, &s.metric));
        }
    }
    keys.into_iter()
        .map(|(case, metric)| {
            let own: Vec<_> = first()
                .filter(|s| s.case == case && s.metric == metric)
                .collect();
            let line = |s: &&Series| {
                let (marked, what) = looked_for(r, s).unzip();
                Line {
                    name: s.backend.clone() + &what.unwrap_or_default(),
                    elsewhere: false,
                    points: s.points.iter().map(|p| [p[0], p[1], p[1], p[1]]).collect(),
                    marked,
                }
            };
            let lines: Vec<_> = own.iter().map(line).collect();
            // As NetPIPE draws them: throughput is not logarithmic (the page can).
            let flat = |k: usize| k == 1 && ["throughput", "signature"].contains(&metric);
            let axis = |k: usize| Axis {
                label: own[0].units[k].clone(),
                log: !flat(k) && wide(lines.iter().flat_map(|l| &l.points).map(|p| p[k])),
                names: vec![],
            };
            Plot {
                id: id(&[name, "curve", case, metric]),
                title: format!("{}: {case}, {}", r.workload, metric.replace('_', " ")),
                x: axis(0),
                y: axis(1),
                lines,
                unity: false,
            }
        })
        .collect()
}

/// The point of a curve that its reader looks for, and what it is: where NetPIPE's saturation graph bends, and the latency
/// with which its signature begins.
fn looked_for(r: &Record, s: &Series) -> Option<([f64; 2], String)> {
    match s.metric.as_str() {
        "saturation" => {
            let at = r.find(&s.case, &s.backend, "saturation")?;
            let off = |p: &&[f64; 2]| (p[1].max(1.0).ln() - at.median.max(1.0).ln()).abs();
            let point = s.points.iter().min_by(|a, b| off(a).total_cmp(&off(b)))?;
            Some((
                *point,
                format!(", saturation {} {}", short(point[1]), s.units[1]),
            ))
        }
        "signature" => {
            let point = s.points.first()?;
            Some((
                *point,
                format!(", latency {} {}", short(point[0]), s.units[0]),
            ))
        }
        _ => None,
    }
}

fn titled(workload: &str, what: &str, plot: Option<&str>) -> String {
    match plot {
        Some(p) => format!("{workload}: {what}, {p} messages"),
        None => format!("{workload}: {what}"),
    }
}

/// Letters, digits and dashes of all parts.
fn id(parts: &[&str]) -> String {
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
    fn curves_are_those_of_the_first_run() {
        let v = of(2);
        let p = v.iter().find(|p| p.id == "odd-curve-two-held").unwrap();
        assert_eq!((p.lines.len(), p.lines[0].points.len()), (1, 3));
        assert!(p.y.log && !p.x.log);
    }

    #[test]
    fn what_is_looked_for_is_marked() {
        let mut r = Record::new("netpipe");
        r.row("block", "tcp", ("saturation", "B", None), &[vec![1000.0]]);
        for (metric, points) in [
            ("saturation", [[10.0, 1.0], [12.0, 1024.0], [90.0, 65536.0]]),
            ("signature", [[10.0, 1.0], [12.0, 80.0], [90.0, 900.0]]),
            ("throughput", [[1.0, 1.0], [1024.0, 80.0], [65536.0, 900.0]]),
        ] {
            r.series.push(Series {
                case: "block".into(),
                backend: "tcp".into(),
                metric: metric.into(),
                run: 0,
                units: ["us".into(), "B".into()],
                points: points.into(),
            });
        }
        let v = plots("netpipe", &r);
        assert_eq!(v[0].lines[0].marked, Some([12.0, 1024.0]));
        assert_eq!(v[0].lines[0].name, "tcp, saturation 1024 B");
        assert_eq!(v[1].lines[0].marked, Some([10.0, 1.0]));
        assert_eq!(v[1].lines[0].name, "tcp, latency 10.0 us");
        assert_eq!(v[2].lines[0].marked, None);
        let logs = |p: &Plot| (p.x.log, p.y.log);
        assert_eq!(
            v.iter().map(logs).collect::<Vec<_>>(),
            [(false, true), (false, false), (true, false)]
        );
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
