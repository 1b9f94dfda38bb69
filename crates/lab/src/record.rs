//! The document that every measurement writes (schema 2: docs/record.md, docs/record.schema.json).
//!
//! Invariant: a ratio above 1 always says that `backend` does better than `over`, whatever the metric; every figure can be
//! made again from the samples that stand beside it.
//! Not here: how it is shown (table.rs, report), how two are compared (compare.rs).
use crate::lines::Lines;
use crate::machine::Machine;
use crate::noise::{Noise, Warning};
use crate::runner::{Contest, Ended, Figures, Limits, Outcome};
use crate::stats::{self, Statistic};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

pub const SCHEMA: u32 = 2;

/// What two records must have in common to be of the same measurement.
pub type Parameters = BTreeMap<String, serde_json::Value>;

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Record {
    /// 2; another number is another layout. Records of schema 1 are read: what they do not have is empty.
    pub schema: u32,
    pub workload: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// The commit of the program; `+changes` when the tree had others.
    pub commit: String,
    pub machine: Machine,
    /// CPUs that were used.
    #[serde(default)]
    pub affinity: Vec<usize>,
    #[serde(default)]
    pub parameters: Parameters,
    /// When it was to end.
    #[serde(default)]
    pub limits: Option<Wanted>,
    /// Whether Ctrl-C ended it: cases, or rounds of the last case, are missing.
    #[serde(default)]
    pub partial: bool,
    /// How each case ended.
    #[serde(default)]
    pub ended: Vec<End>,
    pub results: Vec<Row>,
    pub ratios: Vec<Ratio>,
    /// What the harness itself takes, which is in the figures.
    #[serde(default)]
    pub overhead: Vec<Overhead>,
    /// What else the machine did meanwhile.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// What makes the figures worth less, and what to do about it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
    /// What was wrong: outputs that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<String>,
    /// What a reader of the figures should know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Curves, if the workload has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
    /// Of every row, beside the median; in percent.
    #[serde(skip)]
    pub percentiles: Vec<f64>,
}

/// The limits of the runner; the time is that of all cases together, s.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Wanted {
    pub width: f64,
    pub time: f64,
    pub least: usize,
    pub most: usize,
    pub warm: usize,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct End {
    pub case: String,
    pub by: Ended,
    pub rounds: usize,
    pub seconds: f64,
    /// The widest interval, as a part of its median; none after one round.
    pub width: Option<f64>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Overhead {
    pub what: String,
    pub value: f64,
    pub unit: String,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Row {
    pub case: String,
    pub backend: String,
    pub metric: String,
    pub unit: String,
    /// Which way it is good; none where it only says what was.
    #[serde(default)]
    pub better: Option<Better>,
    pub median: f64,
    /// 95 % interval of the median.
    pub ci95: [f64; 2],
    /// Counted runs.
    pub n: usize,
    /// Whether `median` is one, or a mean.
    #[serde(default)]
    pub statistic: Statistic,
    /// Percent, and the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub percentiles: Vec<[f64; 2]>,
    /// Samples far out.
    #[serde(default)]
    pub outliers: usize,
    /// Round by round, as they came.
    #[serde(default)]
    pub samples: Vec<Vec<f64>>,
}

/// A curve of one run.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Series {
    pub case: String,
    pub backend: String,
    pub metric: String,
    /// Which run, from 0.
    pub run: usize,
    /// Of the two coordinates.
    pub units: [String; 2],
    pub points: Vec<[f64; 2]>,
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Ratio {
    pub case: String,
    pub backend: String,
    pub over: String,
    pub metric: String,
    /// Median of the ratios of neighbouring runs.
    pub ratio: f64,
    /// 95 % interval of that median; of one round it is none.
    pub ci95: [f64; 2],
    /// Rounds that it is of; 0 where that is not known (schema 1).
    #[serde(default)]
    pub rounds: usize,
}

/// What an interval says of a ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clear {
    Better,
    Worse,
    /// 1 is within it, or there is none.
    Neither,
}

impl Ratio {
    /// Whether the whole interval is above 1, or below.
    pub fn clear(&self) -> Clear {
        match self.ci95 {
            _ if self.rounds == 1 => Clear::Neither,
            [low, _] if low > 1.0 => Clear::Better,
            [_, high] if high < 1.0 => Clear::Worse,
            _ => Clear::Neither,
        }
    }

    /// The two ways to say it of the same work: which part of the time is saved, and how much more is done in the same
    /// time. 1.5 is 33 % less time, or 50 % more throughput.
    pub fn less_time(ratio: f64) -> f64 {
        1.0 - 1.0 / ratio
    }
    pub fn more_throughput(ratio: f64) -> f64 {
        ratio - 1.0
    }
}

/// Which way a metric is good.
#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Less,
    More,
}

/// A metric: its name, its unit, which way it is good.
pub type Metric<'a> = (&'a str, &'a str, Option<Better>);

impl Record {
    pub fn new(workload: &str) -> Record {
        Record {
            schema: SCHEMA,
            workload: workload.into(),
            command: std::env::args().collect(),
            commit: env!("BYWAY_COMMIT").into(),
            machine: crate::machine::this(),
            affinity: crate::machine::allowed(),
            parameters: Parameters::new(),
            limits: None,
            partial: false,
            ended: vec![],
            results: vec![],
            ratios: vec![],
            overhead: vec![],
            noise: None,
            warnings: vec![],
            faults: vec![],
            notes: vec![],
            series: vec![],
            percentiles: vec![],
        }
    }

    /// When it is to end, all cases together.
    pub fn limit(&mut self, limits: &Limits) {
        self.limits = Some(Wanted {
            width: limits.width,
            time: limits.time.as_secs_f64(),
            least: limits.least,
            most: limits.most,
            warm: limits.warm,
        });
    }

    /// All that a contest gave: rows, ratios, how it ended.
    pub fn add<T: Figures>(&mut self, c: &Contest, outcome: &Outcome<T>) {
        self.end(c.case, outcome);
        if outcome.rounds() == 0 {
            return;
        }
        let samples: Vec<_> = (0..c.backends.len()).map(|k| outcome.samples(k)).collect();
        for (b, s) in c.backends.iter().zip(&samples) {
            self.row(c.case, b, (c.metric, c.unit, Some(c.better)), s);
        }
        for &(a, b) in c.ratios {
            let (new, old) = (
                (c.backends[a], &samples[a][..]),
                (c.backends[b], &samples[b][..]),
            );
            self.ratio(c.case, c.metric, c.better, new, old);
        }
    }

    /// How a contest ended.
    fn end<T: Figures>(&mut self, case: &str, outcome: &Outcome<T>) {
        self.partial |= outcome.ended == Ended::Interrupt;
        self.ended.push(End {
            case: case.into(),
            by: outcome.ended,
            rounds: outcome.rounds(),
            seconds: outcome.seconds,
            width: Some(outcome.width).filter(|w| w.is_finite()),
        });
    }

    /// The median of a backend, from its samples round by round.
    pub fn row(&mut self, case: &str, backend: &str, metric: Metric, rounds: &[Vec<f64>]) {
        self.row_of(case, backend, metric, rounds, Statistic::Median);
    }

    /// As `row`, of the mean: there `median` is the mean, and the interval is its own. Without samples, which stand in
    /// the row of the median.
    pub fn mean_row(&mut self, case: &str, backend: &str, metric: Metric, rounds: &[Vec<f64>]) {
        self.row_of(case, backend, metric, rounds, Statistic::Mean);
    }

    fn row_of(
        &mut self,
        case: &str,
        backend: &str,
        metric: Metric,
        rounds: &[Vec<f64>],
        statistic: Statistic,
    ) {
        let all = rounds.concat();
        let percentiles = self.percentiles.iter();
        let (metric, unit, better) = metric;
        self.results.push(Row {
            case: case.into(),
            backend: backend.into(),
            metric: metric.into(),
            unit: unit.into(),
            better,
            median: statistic.of(&all),
            ci95: stats::interval(rounds, statistic),
            n: all.len(),
            statistic,
            percentiles: match statistic {
                Statistic::Median => percentiles
                    .map(|&p| [p, stats::percentile(&all, p)])
                    .collect(),
                Statistic::Mean => vec![],
            },
            outliers: stats::outliers(&all),
            samples: match statistic {
                Statistic::Median => rounds.to_vec(),
                Statistic::Mean => vec![],
            },
        });
    }

    /// `backend` against `over`, from runs that were neighbours in time. None where there is nothing to divide by.
    pub fn ratio(
        &mut self,
        case: &str,
        metric: &str,
        better: Better,
        (backend, new): (&str, &[Vec<f64>]),
        (over, old): (&str, &[Vec<f64>]),
    ) {
        let r = match better {
            Better::Less => stats::ratios(old, new),
            Better::More => stats::ratios(new, old),
        };
        let ratio = Ratio {
            case: case.into(),
            backend: backend.into(),
            over: over.into(),
            metric: metric.into(),
            ratio: stats::median(&r.concat()),
            ci95: stats::interval(&r, Statistic::Median),
            rounds: r.len(),
        };
        if ratio
            .ci95
            .iter()
            .chain([&ratio.ratio])
            .all(|v| v.is_finite())
        {
            self.ratios.push(ratio);
        }
    }

    /// The row of a backend's metric.
    pub fn find(&self, case: &str, backend: &str, metric: &str) -> Option<&Row> {
        let mut rows = self.results.iter();
        rows.find(|r| r.case == case && r.backend == backend && r.metric == metric)
    }

    /// As text: an object on each line of a list.
    pub fn text(&self) -> String {
        let mut out = vec![];
        let mut s = serde_json::Serializer::with_formatter(&mut out, Lines::default());
        // Strings, numbers and lists of our own cannot fail to be written to memory.
        let done = self.serialize(&mut s);
        debug_assert!(done.is_ok());
        out.push(b'\n');
        String::from_utf8_lossy(&out).into_owned()
    }

    /// Writes the document to `to`, `-` being standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, to: &Path) -> io::Result<()> {
        if to.as_os_str() == "-" {
            io::stdout().write_all(self.text().as_bytes())
        } else {
            std::fs::write(to, self.text())
        }
    }

    /// Reads a record of schema 1 or 2.
    ///
    /// # Errors
    /// A sentence: it cannot be read, or is none.
    pub fn read(from: &Path) -> Result<Record, String> {
        let name = from.display();
        let text = std::fs::read_to_string(from).map_err(|e| format!("{name}: {e}"))?;
        Record::of(&text).map_err(|e| format!("{name}: {e}"))
    }

    /// The same from its text.
    ///
    /// # Errors
    /// A sentence: it is none.
    pub fn of(text: &str) -> Result<Record, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: u32,
        }
        let no = |e: serde_json::Error| {
            format!("not a record of `byway bench`: {e}; make one with --json FILE")
        };
        let head: Head = serde_json::from_str(text).map_err(no)?;
        if !(1..=SCHEMA).contains(&head.schema) {
            return Err(format!(
                "a record of schema {}, and this byway reads 1 to {SCHEMA}; read it with the byway that made it",
                head.schema
            ));
        }
        serde_json::from_str(text).map_err(no)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(v: &[f64]) -> Vec<Vec<f64>> {
        v.iter().map(|&x| vec![x]).collect()
    }

    /// A record as a workload makes it.
    pub fn sample() -> Record {
        let mut r = Record::new("t");
        r.percentiles = vec![50.0, 99.0];
        let c = Contest {
            case: "c",
            metric: "wall",
            unit: "s",
            better: Better::Less,
            backends: &["byway", "kernel"],
            ratios: &[(0, 1)],
        };
        let outcome = Outcome {
            runs: vec![each(&[1.0, 2.0, 3.0]), each(&[4.0, 4.0, 6.0])],
            ended: Ended::Interrupt,
            seconds: 16.0,
            width: f64::INFINITY,
        };
        r.add(&c, &outcome);
        r
    }

    #[test]
    fn above_one_is_better_for_either_kind_of_metric() {
        let mut r = Record::new("t");
        let (one, two) = (each(&[1.0]), each(&[2.0]));
        r.ratio("c", "wall", Better::Less, ("byway", &one), ("kernel", &two));
        r.ratio("c", "rate", Better::More, ("byway", &two), ("kernel", &one));
        assert!(r.ratios.iter().all(|r| r.ratio == 2.0));
        assert_eq!(r.ratios.len(), 2);
        let nothing = each(&[0.0]);
        r.ratio(
            "c",
            "held",
            Better::More,
            ("byway", &nothing),
            ("kernel", &nothing),
        );
        assert_eq!(r.ratios.len(), 2);
    }

    /// The seed of 2009 calls 1126 us to 753 us "30 % of time saved" and "30 % more throughput".
    #[test]
    fn time_saved_is_not_throughput_gained() {
        let ratio = 1126.0 / 753.0;
        assert_eq!(format!("{:.0}", 100.0 * Ratio::less_time(ratio)), "33");
        assert_eq!(
            format!("{:.0}", 100.0 * Ratio::more_throughput(ratio)),
            "50"
        );
    }

    #[test]
    fn one_round_is_neither_better_nor_worse() {
        let q = |rounds, low, high| Ratio {
            case: "c".into(),
            backend: "a".into(),
            over: "b".into(),
            metric: "m".into(),
            ratio: 2.0,
            ci95: [low, high],
            rounds,
        };
        assert_eq!(q(1, 2.0, 2.0).clear(), Clear::Neither);
        assert_eq!(q(9, 1.9, 2.1).clear(), Clear::Better);
        assert_eq!(q(9, 0.5, 0.9).clear(), Clear::Worse);
        assert_eq!(q(9, 0.9, 1.1).clear(), Clear::Neither);
        assert_eq!(q(0, 1.9, 2.1).clear(), Clear::Better);
    }

    #[test]
    fn a_contest_is_rows_ratios_and_an_end() {
        let r = sample();
        let row = r.find("c", "byway", "wall").unwrap();
        assert_eq!(
            (row.median, row.n, row.better),
            (2.0, 3, Some(Better::Less))
        );
        assert_eq!(row.percentiles, [[50.0, 2.0], [99.0, 2.98]]);
        assert_eq!(r.ratios[0].ratio, 2.0);
        assert_eq!(
            (r.ended[0].by, r.ended[0].rounds, r.ended[0].width),
            (Ended::Interrupt, 3, None)
        );
        assert!(r.partial);
    }

    #[test]
    fn what_is_written_is_read() {
        let r = sample();
        let text = r.text();
        let again = Record::of(&text).unwrap();
        assert_eq!(again.text(), text);
        assert_eq!(again.results[0].samples, r.results[0].samples);
        // A row is a line.
        let rows = text.lines().filter(|l| l.contains("\"samples\"")).count();
        assert_eq!(rows, r.results.len());
    }

    #[test]
    fn what_is_no_record_is_told() {
        assert!(Record::of("{}").unwrap_err().contains("--json FILE"));
        let e = Record::of(&sample().text().replace("\"schema\": 2", "\"schema\": 3")).unwrap_err();
        assert!(e.contains("schema 3") && e.contains("1 to 2"));
        assert!(Record::of("{\"schema\": 2}").is_err());
    }

    #[test]
    fn records_of_schema_1_are_read() {
        for name in ["2026-11-21-demo/raw.json", "2026-11-21-mbuf/raw.json"] {
            let path = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../runs")
                .join(name);
            let r = Record::read(&path).unwrap();
            assert!(r.schema == 1 && !r.results.is_empty() && r.results[0].samples.is_empty());
            assert!(r.parameters.is_empty());
        }
    }
}
