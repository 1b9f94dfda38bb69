//! How a record is filled: rows and ratios of the samples that a contest gave.
//!
//! Invariant: a row has all samples that it is of, round by round; a ratio is of neighbouring runs only.
//! Not here: the statistics (stats.rs), whose turn it was (runner.rs).
use super::{Better, End, Metric, Ratio, Record, Row, Wanted};
use crate::runner::{Contest, Ended, Figures, Limits, Outcome};
use crate::stats::{self, Statistic};

impl Record {
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
}

#[cfg(test)]
pub mod tests {
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
}
