//! The document that every measurement writes (schema 1).
//!
//! Invariant: a ratio above 1 always says that `backend` does better than `over`, whatever the metric.
//! Not here: how it is shown (table.rs).
use crate::machine::Machine;
use crate::stats;
use serde::Serialize;

#[derive(Serialize)]
pub struct Record {
    /// 1; another number is another layout.
    pub schema: u32,
    pub workload: String,
    /// The command line that made it.
    pub command: Vec<String>,
    /// The commit of the program; `+changes` when the tree had others.
    pub commit: &'static str,
    pub machine: Machine,
    pub results: Vec<Row>,
    pub ratios: Vec<Ratio>,
    /// What a reader of the figures should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Curves, if the workload has any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<Series>,
}

#[derive(Serialize, Clone)]
pub struct Row {
    pub case: String,
    pub backend: String,
    pub metric: String,
    pub unit: String,
    pub median: f64,
    /// 95 % interval of the median.
    pub ci95: [f64; 2],
    /// Counted runs.
    pub n: usize,
}

/// A curve of one run.
#[derive(Serialize, Clone)]
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

#[derive(Serialize, Clone)]
pub struct Ratio {
    pub case: String,
    pub backend: String,
    pub over: String,
    pub metric: String,
    /// Median of the ratios of neighbouring runs.
    pub ratio: f64,
    /// 95 % interval of that median.
    pub ci95: [f64; 2],
}

/// Which way a metric is good.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Better {
    Less,
    More,
}

impl Record {
    pub fn new(workload: &str) -> Record {
        Record {
            schema: 1,
            workload: workload.into(),
            command: std::env::args().collect(),
            commit: env!("BYWAY_COMMIT"),
            machine: crate::machine::this(),
            results: Vec::new(),
            ratios: Vec::new(),
            notes: Vec::new(),
            series: Vec::new(),
        }
    }

    pub fn row(&mut self, case: &str, backend: &str, metric: &str, unit: &str, values: &[f64]) {
        self.results.push(Row {
            case: case.into(),
            backend: backend.into(),
            metric: metric.into(),
            unit: unit.into(),
            median: stats::median(values),
            ci95: stats::interval(values),
            n: values.len(),
        });
    }

    /// As `row`, of the mean: there `median` is the mean, and the interval is its own (normal: 1.96 standard errors).
    pub fn mean_row(
        &mut self,
        case: &str,
        backend: &str,
        metric: &str,
        unit: &str,
        values: &[f64],
    ) {
        let (mean, error) = stats::mean(values);
        self.row(case, backend, metric, unit, values);
        if let Some(r) = self.results.last_mut() {
            r.median = mean;
            r.ci95 = [mean - 1.96 * error, mean + 1.96 * error];
        }
    }

    /// `backend` against `over`, from runs that were neighbours in time.
    pub fn ratio(
        &mut self,
        case: &str,
        metric: &str,
        better: Better,
        (backend, new): (&str, &[f64]),
        (over, old): (&str, &[f64]),
    ) {
        let r = match better {
            Better::Less => stats::ratios(old, new),
            Better::More => stats::ratios(new, old),
        };
        self.ratios.push(Ratio {
            case: case.into(),
            backend: backend.into(),
            over: over.into(),
            metric: metric.into(),
            ratio: stats::median(&r),
            ci95: stats::interval(&r),
        });
    }

    /// Writes the document to `to`, `-` being standard output.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, to: &std::path::Path) -> std::io::Result<()> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        if to.as_os_str() == "-" {
            use std::io::Write;
            std::io::stdout().write_all(text.as_bytes())
        } else {
            std::fs::write(to, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn above_one_is_better_for_either_kind_of_metric() {
        let mut r = Record::new("t");
        r.ratio(
            "c",
            "wall",
            Better::Less,
            ("byway", &[1.0]),
            ("kernel", &[2.0]),
        );
        r.ratio(
            "c",
            "rate",
            Better::More,
            ("byway", &[2.0]),
            ("kernel", &[1.0]),
        );
        assert!(r.ratios.iter().all(|r| r.ratio == 2.0));
    }
}
