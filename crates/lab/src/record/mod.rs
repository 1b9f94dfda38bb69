//! The document that every measurement writes (schema 2: docs/record.md, docs/record.schema.json).
//!
//! Invariant: a ratio above 1 always says that `backend` does better than `over`, whatever the metric; every figure can be
//! made again from the samples that stand beside it.
//! Not here: how it is filled (rows.rs), written and read (document.rs), shown (table.rs, report), how two are compared
//! (compare.rs).
mod document;
mod rows;

use crate::machine::Machine;
use crate::noise::{Noise, Warning};
use crate::runner::Ended;
use crate::stats::Statistic;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// Of every row, besides the median; in percent.
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

    /// The row of a backend's metric.
    pub fn find(&self, case: &str, backend: &str, metric: &str) -> Option<&Row> {
        let mut rows = self.results.iter();
        rows.find(|r| r.case == case && r.backend == backend && r.metric == metric)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
