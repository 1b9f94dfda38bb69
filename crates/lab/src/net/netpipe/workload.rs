//! `netpipe` as a workload: block and stream mode in turn, every backend's curve, and what is read off it.
//!
//! Invariant: a row's samples are of the same rounds as the curves; a graph is the median of the rounds' curves.
//! Not here: a run (mod.rs).
use super::curve::{Curve, mb, mbit};
use super::{Backend, CASES, HERE, HOSTS, Options, text};
use crate::child::Failure;
use crate::net::Way;
use crate::net::carried;
use crate::net::place::{Hosts, Place};
use crate::net::setting::Setting;
use crate::net::worker::Work;
use crate::pairs::start::Done;
use crate::record::{Better, Metric, Parameters, Record, Series};
use crate::runner::{Contest, Limits, Outcome};
use crate::stats;
use crate::workload::Workload;

/// Sizes whose throughput has a row: small, a page, the two that others print most, and the largest usual one.
const MARKS: [usize; 5] = [64, 4096, 65_536, 1 << 20, 8 << 20];

/// The metric that ends a case, first, and those that are read off the same curves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mark {
    /// Of the smallest block, us.
    Latency,
    At(usize),
    Peak,
}

impl Mark {
    fn name(self) -> String {
        match self {
            Mark::Latency => "latency".into(),
            Mark::At(size) => format!("at_{size}"),
            Mark::Peak => "peak".into(),
        }
    }
    fn unit(self) -> &'static str {
        match self {
            Mark::Latency => "us",
            _ => "MB/s",
        }
    }
    fn better(self) -> Better {
        match self {
            Mark::Latency => Better::Less,
            _ => Better::More,
        }
    }
    fn of(self, c: Curve) -> f64 {
        match self {
            Mark::Latency => c.ns.first().map_or(0.0, |ns| ns / 1e3),
            Mark::At(size) => c.at(size).map_or(0.0, |ns| mb(size, ns)),
            Mark::Peak => c.peak(),
        }
    }
}

pub struct Netpipe {
    setting: Setting,
    options: Options,
    cases: Vec<String>,
}

impl Netpipe {
    /// With both modes, or stream only if the options say so; `backends` are names, all if there is none.
    ///
    /// # Errors
    /// A sentence: the options cannot be met, or there is no such backend.
    pub fn new(
        place: Place,
        options: Options,
        quick: bool,
        backends: &[String],
    ) -> Result<Netpipe, String> {
        options.possible()?;
        let all: &[Backend] = match place.hosts {
            Hosts::Here => &HERE,
            _ => &HOSTS,
        };
        let cases = if options.stream {
            &CASES[1..]
        } else {
            &CASES[..]
        };
        Ok(Netpipe {
            setting: Setting::new(place, all, backends, quick)?,
            cases: cases.iter().map(|c| (*c).into()).collect(),
            options,
        })
    }

    fn options(&self, case: &str) -> Options {
        Options {
            stream: case == CASES[1],
            ..self.options.clone()
        }
    }

    /// Of a run that measured so many sizes.
    fn marks(&self, case: &str, sizes: &[usize]) -> Vec<Mark> {
        // What comes in a stream's small blocks may come bundled, so the original calls that no latency either.
        let latency = (case == CASES[0]).then_some(Mark::Latency);
        let at = MARKS.into_iter().filter(|s| sizes.contains(s));
        latency
            .into_iter()
            .chain(at.map(Mark::At))
            .chain([Mark::Peak])
            .collect()
    }

    fn one(&self, case: &str, k: usize) -> Result<Done, Failure> {
        let (o, way) = (self.options(case), self.setting.backends[k].way);
        self.setting.run(k, Work::Netpipe(way, o))
    }

    /// Everything that the curves of a case say, besides the metric of the contest.
    fn keep(
        &self,
        record: &mut Record,
        case: &str,
        sizes: &[usize],
        marks: &[Mark],
        ratios: &[(usize, usize)],
        outcome: &Outcome<Run>,
    ) {
        let samples = |k: usize, f: &dyn Fn(Curve) -> f64| -> Vec<Vec<f64>> {
            let of = |r: &Run| vec![f(r.curve(sizes))];
            outcome.runs[k].iter().map(of).collect()
        };
        for m in &marks[1..] {
            let values: Vec<_> = (0..self.setting.backends.len())
                .map(|k| samples(k, &|c| m.of(c)))
                .collect();
            let name = m.name();
            let metric: Metric = (&name, m.unit(), Some(m.better()));
            for (b, v) in self.setting.backends.iter().zip(&values) {
                record.row(case, b.name, metric, v);
            }
            for &(a, b) in ratios {
                let (new, old) = (&self.setting.backends[a], &self.setting.backends[b]);
                let (new, old) = ((new.name, &values[a][..]), (old.name, &values[b][..]));
                record.ratio(case, &name, m.better(), new, old);
            }
        }
        for (k, b) in self.setting.backends.iter().enumerate() {
            let point = samples(k, &|c| c.saturation().unwrap_or(0) as f64);
            if point.iter().all(|p| p[0] > 0.0) {
                record.row(case, b.name, ("saturation", "B", None), &point);
            }
            let runs = outcome.runs[k].iter();
            for (run, r) in runs.clone().enumerate() {
                let curve = r.curve(sizes);
                let points = curve.points().map(|(s, ns)| [s as f64, ns / 1e3]);
                let points = points.collect();
                record
                    .series
                    .push(series(case, b, "block_time", run, ["B", "us"], points));
            }
            let all: Vec<_> = runs.map(|r| r.curve(sizes).ns).collect();
            graphs(record, case, b, sizes, &medians(&all));
        }
    }
}

/// Size by size; as many as all have.
fn medians(curves: &[&[f64]]) -> Vec<f64> {
    let n = curves.iter().map(|c| c.len()).min().unwrap_or(0);
    let at = |i: usize| stats::median(&curves.iter().map(|c| c[i]).collect::<Vec<_>>());
    (0..n).map(at).collect()
}

fn series(
    case: &str,
    b: &Backend,
    metric: &str,
    run: usize,
    units: [&str; 2],
    points: Vec<[f64; 2]>,
) -> Series {
    Series {
        case: case.into(),
        backend: b.name.into(),
        metric: metric.into(),
        run,
        units: units.map(String::from),
        points,
    }
}

/// The three graphs of the seed: throughput against block size, block size against time (saturation), throughput
/// against time (signature).
pub fn graphs(record: &mut Record, case: &str, b: &Backend, sizes: &[usize], ns: &[f64]) {
    let c = Curve { sizes, ns };
    let all = |f: &dyn Fn(f64, f64, f64) -> [f64; 2]| -> Vec<[f64; 2]> {
        let of = |(s, ns)| f(s as f64, ns / 1e3, mbit(s, ns));
        c.points().map(of).collect()
    };
    let [rate, time, size] = ["Mbit/s", "us", "B"];
    for (metric, units, points) in [
        ("throughput", [size, rate], all(&|s, _, r| [s, r])),
        ("saturation", [time, size], all(&|s, t, _| [t, s])),
        ("signature", [time, rate], all(&|_, t, r| [t, r])),
    ] {
        record
            .series
            .push(series(case, b, metric, 0, units, points));
    }
}

/// A run, and what it says of the metric that ends the case.
struct Run {
    done: Done,
    key: [f64; 1],
}

impl Run {
    fn curve<'a>(&'a self, sizes: &'a [usize]) -> Curve<'a> {
        Curve {
            sizes,
            ns: &self.done.figures,
        }
    }
}

impl crate::runner::Figures for Run {
    fn figures(&self) -> &[f64] {
        &self.key
    }
}

/// Which are compared, of those that are there: all with TCP, and what Byway carries with the same way of the kernel's; our
/// allocator with the others alone, since there is no way of the kernel that does what it does.
fn compared(backends: &[Backend]) -> Vec<(usize, usize)> {
    let mut v = vec![];
    for (k, b) in backends.iter().enumerate() {
        let overs: &[&str] = match b.way {
            Way::Tcp => &["tcp"],
            Way::Unix => &["tcp", "unix"],
            Way::Pipe | Way::Core => &["tcp", "pipe"],
            Way::MbAlloc => &["present", "malloc"],
            Way::Present | Way::Malloc => &[],
        };
        let places = overs
            .iter()
            .filter_map(|o| backends.iter().position(|b| b.name == *o));
        v.extend(places.filter(|&o| o != k).map(|o| (k, o)));
    }
    v
}

impl Workload for Netpipe {
    fn name(&self) -> &'static str {
        "netpipe"
    }
    fn cases(&self) -> Vec<String> {
        self.cases.clone()
    }
    fn cpus(&self) -> Vec<usize> {
        self.setting.cpus()
    }

    fn parameters(&self) -> Parameters {
        let o = &self.options;
        self.setting.parameters([
            ("lower", o.lower.into()),
            ("upper", o.upper.into()),
            ("perturbation", o.perturbation.into()),
            ("repeats", o.repeats.into()),
            ("size_ms", (o.time.as_micros() as f64 / 1e3).into()),
            ("buffer", o.buffers.send.into()),
            ("check", o.check.into()),
        ])
    }

    fn usual(&self) -> Limits {
        let limits = Limits::usual(self.setting.quick, 10, 150);
        Limits {
            // Each run warms up before its first size.
            warm: 0,
            least: if self.setting.quick { 3 } else { 5 },
            most: if self.setting.quick { 7 } else { 20 },
            ..limits
        }
    }

    fn prepare(&mut self, record: &mut Record, _: &[String]) -> Result<(), Failure> {
        let checked = self.options.check.then_some(text::CHECKED);
        self.setting.prepare(record, &text::NOTES, checked)
    }

    fn measure(
        &mut self,
        record: &mut Record,
        case: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let sizes = self.options.sizes();
        let marks = self.marks(case, &sizes);
        let names = self.setting.names();
        let (key, ratios) = (marks[0], compared(&self.setting.backends));
        let contest = Contest {
            case,
            metric: &key.name(),
            unit: key.unit(),
            better: key.better(),
            backends: &names,
            ratios: &ratios,
        };
        let one = |k: usize| {
            let done = self.one(case, k)?;
            let curve = Curve {
                sizes: &sizes,
                ns: &done.figures,
            };
            Ok(Run {
                key: [key.of(curve)],
                done,
            })
        };
        let outcome = contest.run(limits, one, tick)?;
        record.add(&contest, &outcome);
        if outcome.rounds() > 0 {
            self.keep(record, case, &sizes, &marks, &ratios, &outcome);
        }
        for (k, b) in self.setting.backends.iter().enumerate() {
            let runs = outcome.runs[k].iter().map(|r| &r.done);
            carried::add(record, case, b.name, runs);
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![]
    }
    fn lines(&self, record: &Record, case: &str) -> Vec<String> {
        text::tables(record, case, &self.setting.backends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_compared_among_themselves() {
        let all = compared(&HERE);
        let name = |k: usize| HERE[k].name;
        let over = |b: &str| -> Vec<_> {
            let own = all.iter().filter(|q| name(q.0) == b);
            own.map(|q| name(q.1)).collect()
        };
        assert_eq!(over("mb_alloc"), ["present", "malloc"]);
        assert_eq!(over("byway-core"), ["tcp", "pipe"]);
        assert_eq!(over("pipe"), ["tcp"]);
        assert_eq!(over("byway-tcp"), ["tcp"]);
        assert_eq!(over("byway-unix"), ["tcp", "unix"]);
        assert!(over("tcp").is_empty() && over("present").is_empty());
        assert_eq!(compared(&HERE[8..]), []);
    }
}
