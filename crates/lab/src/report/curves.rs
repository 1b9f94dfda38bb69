//! The curves of a record as plots: NetPIPE's three graphs, memory over time.
//!
//! Invariant: who is never compared stands in plots of its own: backends that measure different things share no axis.
//! Not here: what stands by cases (plot.rs).
use super::cases::{distinct, wide};
use super::plot::{Axis, Line, Plot, id};
use super::short;
use crate::record::{Record, Series};

/// Curves of single runs of which there are others made of all runs.
const SINGLE: &str = "block_time";

/// The curves, the first run of each: a plot for each case and metric of those who are compared.
pub fn curves(name: &str, r: &Record) -> Vec<Plot> {
    let first = || {
        let all = r.series.iter();
        all.filter(|s| s.run == 0 && s.metric != SINGLE)
    };
    let backends = distinct(first().map(|s| &s.backend));
    let groups = compared(r, &backends);
    let mut keys: Vec<(&str, &str)> = vec![];
    for s in first() {
        if !keys.contains(&(&s.case, &s.metric)) {
            keys.push((&s.case, &s.metric));
        }
    }
    let mut v = vec![];
    for (case, metric) in keys {
        for (i, group) in groups.iter().enumerate() {
            let own = first().filter(|s| s.case == case && s.metric == metric);
            let own: Vec<_> = own.filter(|s| group.contains(&&s.backend[..])).collect();
            let mut plot = match &own[..] {
                [] => continue,
                own => plot(r, own),
            };
            plot.id = id(&[
                name,
                "curve",
                case,
                metric,
                if i > 0 { group[0] } else { "" },
            ]);
            if i > 0 {
                plot.title = format!("{}: {}", plot.title, group.join(", "));
            }
            v.push(plot);
        }
    }
    v
}

/// Those among whom there are ratios, directly or by way of others; all of them if there are none at all.
fn compared<'a>(r: &'a Record, backends: &'a [String]) -> Vec<Vec<&'a str>> {
    if r.ratios.is_empty() {
        return vec![backends.iter().map(|b| &b[..]).collect()];
    }
    let mut groups: Vec<Vec<&str>> = backends.iter().map(|b| vec![&b[..]]).collect();
    for q in &r.ratios {
        let place = |name: &str| groups.iter().position(|g| g.contains(&name));
        if let (Some(a), Some(b)) = (place(&q.backend), place(&q.over))
            && a != b
        {
            let other = groups.remove(a.max(b));
            groups[a.min(b)].extend(other);
        }
    }
    groups
}

/// One plot of curves of one case and metric.
fn plot(r: &Record, own: &[&Series]) -> Plot {
    let Series { case, metric, .. } = own[0];
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
    let flat = |k: usize| k == 1 && ["throughput", "signature"].contains(&&metric[..]);
    let axis = |k: usize| {
        let log = !flat(k) && wide(lines.iter().flat_map(|l| &l.points).map(|p| p[k]));
        Axis::new(&own[0].units[k], log)
    };
    Plot {
        id: String::new(),
        title: format!("{}: {case}, {}", r.workload, metric.replace('_', " ")),
        x: axis(0),
        y: axis(1),
        lines,
        unity: false,
    }
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

#[cfg(test)]
mod tests {
    use super::super::plot::plots;
    use super::*;
    use crate::record::Better;
    use crate::report::tests::some;

    #[test]
    fn curves_are_those_of_the_first_run() {
        let n = &some()[2];
        let v = plots(&n.name, &n.record);
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
    fn who_is_never_compared_stands_apart() {
        let mut r = Record::new("netpipe");
        let one = |x: f64| vec![vec![x]];
        for (backend, over) in [("pipe", "tcp"), ("mb_alloc", "malloc"), ("byway", "pipe")] {
            let (new, old) = ((backend, &one(1.0)[..]), (over, &one(2.0)[..]));
            r.ratio("block", "latency", Better::Less, new, old);
        }
        for backend in ["tcp", "pipe", "byway", "mb_alloc", "malloc"] {
            r.series.push(Series {
                case: "block".into(),
                backend: backend.into(),
                metric: "throughput".into(),
                run: 0,
                units: ["B".into(), "Mbit/s".into()],
                points: vec![[1.0, 1.0], [2.0, 2.0]],
            });
        }
        let v = curves("netpipe", &r);
        let names = |p: &Plot| p.lines.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        let titles: Vec<_> = v.iter().map(|p| (&p.id[..], &p.title[..])).collect();
        let expected = [
            (
                "netpipe-curve-block-throughput",
                "netpipe: block, throughput",
            ),
            (
                "netpipe-curve-block-throughput-mb-alloc",
                "netpipe: block, throughput: mb_alloc, malloc",
            ),
        ];
        assert_eq!(titles, expected);
        assert_eq!(names(&v[0]), ["tcp", "pipe", "byway"]);
        assert_eq!(names(&v[1]), ["mb_alloc", "malloc"]);
    }
}
