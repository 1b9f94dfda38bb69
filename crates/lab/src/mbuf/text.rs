//! The benchmark's record as text: a table of all cases, and for `burst` the curves, in numbers and drawn.
//!
//! Invariant: no line is longer than 79 characters; no colours.
//! Not here: units or statistics.
use super::{Backend, Case};
use crate::record::{Record, Series};
use crate::stats;

/// The heading of the lines of `lines`.
pub fn heading() -> String {
    format!(
        "{:<9}{:<10}{:>9} {:<6}  {:<17}{:>9}  95 %",
        "case", "backend", "median", "unit", "95 %", "mb_alloc"
    )
}

/// A figure in four characters or so.
fn short(v: f64) -> String {
    match v {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// An interval; of one round there is none.
fn range(ci95: [f64; 2]) -> String {
    if ci95[0] == ci95[1] {
        return "-".into();
    }
    format!("{}-{}", short(ci95[0]), short(ci95[1]))
}

/// A line for each backend of `case`: its median, and how much better mb_alloc is.
pub fn lines(record: &Record, case: &Case) -> Vec<String> {
    let (id, (metric, ..)) = (case.id(), case.metric());
    let rows = record
        .results
        .iter()
        .filter(|r| r.case == id && r.metric == metric);
    rows.map(|r| {
        let ratio = record
            .ratios
            .iter()
            .find(|q| q.case == id && q.over == r.backend && q.metric == metric)
            .map_or(String::new(), |q| {
                format!("{:>9}  {}", format!("{}x", short(q.ratio)), range(q.ci95))
            });
        let line = format!(
            "{:<9}{:<10}{:>9} {:<6}  {:<17}{ratio}",
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

/// Seconds at which the curves are printed.
const TIMES: [f64; 11] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0];

/// What a curve says at `t`: its last point not later, but never the peak before the release.
fn at(points: &[[f64; 2]], t: f64) -> f64 {
    let after = points.get(1..).unwrap_or(&[]);
    let known = after.iter().take_while(|p| p[0] <= t).last();
    known.or(after.first()).map_or(0.0, |p| p[1])
}

fn curves<'a>(record: &'a Record, backend: &Backend) -> Vec<&'a Series> {
    let id = Case::Burst.id();
    record
        .series
        .iter()
        .filter(|s| s.case == id && s.backend == backend.name())
        .collect()
}

/// The curves of `burst` in numbers: medians of the runs at some moments, MiB.
pub fn curve_table(record: &Record) -> Vec<String> {
    let backends = Case::Burst.backends();
    let mut lines = vec![format!(
        "{:<10}{}",
        "held, MiB",
        backends
            .iter()
            .map(|b| format!("{:>10}", b.name()))
            .collect::<String>()
    )];
    let mut line = |name: String, value: &dyn Fn(&Series) -> f64| {
        let cells: String = backends
            .iter()
            .map(|b| {
                let v: Vec<f64> = curves(record, b).iter().map(|s| value(s)).collect();
                format!("{:>10}", short(stats::median(&v)))
            })
            .collect();
        lines.push(format!("{name:<10}{cells}"));
    };
    line("in use".into(), &|s| s.points.first().map_or(0.0, |p| p[1]));
    for t in TIMES {
        // A calm that was shorter has no such line.
        let long = |b| {
            curves(record, b)
                .iter()
                .any(|s| s.points.last().is_some_and(|p| p[0] >= t))
        };
        if backends.iter().any(long) {
            line(format!("{t} s"), &|s| at(&s.points, t));
        }
    }
    lines
}

const WIDTH: usize = 66;

fn letter(b: &Backend) -> u8 {
    match b {
        Backend::MbAlloc => b'*',
        Backend::Present => b'p',
        Backend::Pool => b'o',
        Backend::Malloc => b'm',
        Backend::Mimalloc => b'i',
        Backend::Harness => b'h',
    }
}

/// The step of the scale that `v` is nearest to; each is twice the one below, the lowest 1.
fn step(v: f64) -> usize {
    let (mut v, mut n) = (v, 0);
    while v >= std::f64::consts::SQRT_2 {
        (v, n) = (v / 2.0, n + 1);
    }
    n
}

/// The curves of `burst` drawn, the first run of each; MiB on a logarithmic scale, `watermark` in bytes dotted in.
pub fn plot(record: &Record, watermark: usize) -> Vec<String> {
    let backends = Case::Burst.backends();
    let firsts: Vec<_> = backends
        .iter()
        .filter_map(|b| Some((b, *curves(record, b).first()?)))
        .collect();
    let points = || firsts.iter().flat_map(|(_, s)| &s.points);
    let top = step(points().map(|p| p[1]).fold(2.0, f64::max));
    let end = points().map(|p| p[0]).fold(0.1, f64::max);
    let row = |v: f64| top - step(v).min(top);
    let column = |t: f64| ((t / end * (WIDTH - 1) as f64).round() as usize).min(WIDTH - 1);
    let mut grid = vec![[b' '; WIDTH]; top + 1];
    let low = row(watermark as f64 / f64::from(1 << 20));
    for c in (0..WIDTH).step_by(2) {
        grid[low][c] = b'.';
    }
    // Ours last, so that nothing hides it.
    for (b, s) in firsts.iter().rev() {
        for p in &s.points {
            grid[row(p[1])][column(p[0])] = letter(b);
        }
    }
    let mut lines: Vec<String> = grid
        .iter()
        .enumerate()
        .map(|(i, cells)| {
            let text = String::from_utf8_lossy(cells);
            format!("{:>5} MiB |{}", 1 << (top - i), text.trim_end())
        })
        .collect();
    lines.push(format!("{:>9} +{}", "", "-".repeat(WIDTH)));
    lines.push(format!(
        "{:>11}0 s{:>w$}",
        "",
        format!("{end:.1} s"),
        w = WIDTH - 3
    ));
    let names: Vec<_> = firsts
        .iter()
        .map(|(b, _)| format!("{} {}", letter(b) as char, b.name()))
        .collect();
    lines.push(format!("{:>11}{}  . watermark", "", names.join("  ")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Better;

    fn full() -> Record {
        let mut r = Record::new("mbuf");
        for case in Case::all(64) {
            let (metric, unit, _) = case.metric();
            for b in case.backends() {
                let rounds = [vec![12345.6], vec![99999.9]];
                r.row(&case.id(), b.name(), (metric, unit, None), &rounds);
                r.ratio(
                    &case.id(),
                    metric,
                    Better::Less,
                    ("mb_alloc", &[vec![1.0, 2.0]]),
                    (b.name(), &[vec![12345.0, 99999.0]]),
                );
            }
        }
        for b in Case::Burst.backends() {
            r.series.push(Series {
                case: "burst".into(),
                backend: b.name().into(),
                metric: "held".into(),
                run: 0,
                units: ["s".into(), "MiB".into()],
                points: vec![[0.0, 12345.0], [0.0, 12000.0], [1.0, 8.0], [2.0, 1.0]],
            });
        }
        r
    }

    #[test]
    fn fits_eighty_columns() {
        let r = full();
        let mut all = vec![heading()];
        Case::all(64).iter().for_each(|c| all.extend(lines(&r, c)));
        all.extend(curve_table(&r));
        all.extend(plot(&r, 8 << 20));
        for l in &all {
            assert!(l.len() < 80, "{l}");
        }
    }

    #[test]
    fn every_backend_has_its_line() {
        let r = full();
        for case in Case::all(2) {
            assert_eq!(lines(&r, &case).len(), case.backends().len());
        }
    }

    #[test]
    fn a_curve_between_its_points() {
        let p = [[0.0, 100.0], [0.0, 90.0], [0.5, 50.0]];
        assert_eq!((at(&p, 0.0), at(&p, 0.4), at(&p, 3.0)), (90.0, 90.0, 50.0));
    }

    #[test]
    fn steps_double() {
        assert_eq!([0.0, 1.0, 1.5, 8.3, 1024.0].map(step), [0, 0, 1, 3, 10]);
    }

    #[test]
    fn the_plot_has_everybody() {
        let drawn = plot(&full(), 8 << 20).join("\n");
        assert!(drawn.contains('*') && drawn.contains(". ."));
        assert!(drawn.contains("16384 MiB |") && drawn.contains("2.0 s"));
    }
}
