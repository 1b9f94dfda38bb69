//! Backends in turn, round by round, until what is known of them is narrow enough.
//!
//! ```text
//! round   w (not counted)   0          1          2      ...   until every median, and every ratio, has a narrow interval,
//! runs    a b c             a b c      b c a      c a b        or the time is spent, or the rounds are
//! ```
//! Invariant: a round counts when every backend has run in it; each round begins with another backend, so that who comes
//! after whom, and what the machine does meanwhile, meets all alike.
//! Not here: what a run is; the record (record.rs); whether more can be done in the time (who calls shares it out).
//!
//! Looking again and again until an interval is narrow makes it narrow a little too often: one of 95 % then covers some
//! percent less. That is why there is a least number of rounds, and why every record says how it ended.
use crate::child::Failure;
use crate::interrupt;
use crate::record::Better;
use crate::stats::{self, Statistic};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What is compared with what.
#[derive(Clone)]
pub struct Contest<'a> {
    pub case: &'a str,
    pub metric: &'a str,
    pub unit: &'a str,
    pub better: Better,
    pub backends: &'a [&'a str],
    /// Places in `backends`: the first is compared with the second.
    pub ratios: &'a [(usize, usize)],
}

/// When it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Width of the 95 % intervals, as a part of the median.
    pub width: f64,
    pub time: Duration,
    /// Rounds that count: before so many no interval is narrow enough; after so many it ends.
    pub least: usize,
    pub most: usize,
    /// Rounds before them that do not.
    pub warm: usize,
    /// Whether the least rounds come, whatever time they take.
    pub sure: bool,
}

impl Limits {
    /// Five percent, within a time, s.
    pub fn usual(quick: bool, quick_seconds: u64, seconds: u64) -> Limits {
        Limits {
            width: 0.05,
            time: Duration::from_secs(if quick { quick_seconds } else { seconds }),
            least: if quick { 5 } else { 7 },
            most: if quick { 15 } else { 60 },
            warm: 1,
            sure: false,
        }
    }
}

/// Why it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ended {
    /// Every interval was narrow enough.
    Width,
    Time,
    Rounds,
    /// Ctrl-C.
    Interrupt,
}

/// What a run gives: its samples of the metric of the contest, one or more, as many for each backend.
pub trait Figures {
    fn figures(&self) -> &[f64];
}

impl Figures for Vec<f64> {
    fn figures(&self) -> &[f64] {
        self
    }
}

/// All that was run.
pub struct Outcome<T> {
    /// By backend, then by round; only complete rounds.
    pub runs: Vec<Vec<T>>,
    pub ended: Ended,
    pub seconds: f64,
    /// The widest of the intervals, as a part of its median; infinite while there is none.
    pub width: f64,
}

impl<T: Figures> Outcome<T> {
    pub fn rounds(&self) -> usize {
        self.runs.first().map_or(0, Vec::len)
    }
    /// The samples of a backend, round by round.
    pub fn samples(&self, backend: usize) -> Vec<Vec<f64>> {
        let of = |t: &T| t.figures().to_vec();
        self.runs[backend].iter().map(of).collect()
    }
}

/// The clock and the keyboard.
pub struct World<'a> {
    pub now: &'a dyn Fn() -> Duration,
    pub interrupted: &'a dyn Fn() -> bool,
}

impl Contest<'_> {
    /// Runs it: `one` is a run of the backend at that place, `tick` is told after each about which part is done.
    ///
    /// # Errors
    /// The first run that failed, if it was not because of Ctrl-C.
    pub fn run<T: Figures>(
        &self,
        limits: &Limits,
        one: impl FnMut(usize) -> Result<T, Failure>,
        tick: &mut dyn FnMut(f64),
    ) -> Result<Outcome<T>, Failure> {
        let began = Instant::now();
        let world = World {
            now: &|| began.elapsed(),
            interrupted: &interrupt::asked,
        };
        self.run_in(&world, limits, one, tick)
    }

    /// The same with another clock.
    ///
    /// # Errors
    /// As `run`.
    pub fn run_in<T: Figures>(
        &self,
        world: &World,
        limits: &Limits,
        mut one: impl FnMut(usize) -> Result<T, Failure>,
        tick: &mut dyn FnMut(f64),
    ) -> Result<Outcome<T>, Failure> {
        let n = self.backends.len();
        let began = (world.now)();
        let mut outcome = Outcome {
            runs: (0..n).map(|_| vec![]).collect(),
            ended: Ended::Rounds,
            seconds: 0.0,
            width: f64::INFINITY,
        };
        let most = limits.most.max(1);
        let whole = limits.time.as_secs_f64().max(1e-9);
        let (mut round, mut part) = (0, 0.0f64);
        while outcome.rounds() < most {
            let at = (world.now)();
            let mut runs: Vec<Option<T>> = (0..n).map(|_| None).collect();
            for k in 0..n {
                let k = (k + round) % n;
                let run = match one(k) {
                    _ if (world.interrupted)() => Err(Failure::Interrupted),
                    run => run,
                };
                match run {
                    Ok(t) => runs[k] = Some(t),
                    Err(Failure::Interrupted) => {
                        outcome.ended = Ended::Interrupt;
                        outcome.seconds = ((world.now)() - began).as_secs_f64();
                        return Ok(outcome);
                    }
                    Err(e) => return Err(e),
                }
                let spent = match limits.sure {
                    true => 0.0,
                    false => ((world.now)() - began).as_secs_f64() / whole,
                };
                tick(part.max(spent).min(1.0));
            }
            let now = (world.now)();
            outcome.seconds = (now - began).as_secs_f64();
            round += 1;
            // A round that only warms up is left out where there is hardly time for one.
            let counts = round > limits.warm || now - began >= limits.time;
            if counts {
                for (all, run) in outcome.runs.iter_mut().zip(runs) {
                    all.extend(run);
                }
                outcome.width = self.width(&outcome);
                if outcome.rounds() >= limits.least && outcome.width <= limits.width {
                    outcome.ended = Ended::Width;
                    break;
                }
                // Widths go down as the root of the rounds.
                let narrow = (limits.width / outcome.width).powi(2);
                let narrow = narrow.min(outcome.rounds() as f64 / limits.least.max(1) as f64);
                part = (outcome.rounds() as f64 / most as f64).max(narrow);
                // Another round would not fit.
                let spent = now - began + (now - at) > limits.time;
                let needed = limits.sure && outcome.rounds() < limits.least;
                if spent && !needed && outcome.rounds() < most {
                    outcome.ended = Ended::Time;
                    break;
                }
            }
        }
        Ok(outcome)
    }

    /// The widest interval.
    fn width<T: Figures>(&self, outcome: &Outcome<T>) -> f64 {
        let samples: Vec<_> = (0..self.backends.len())
            .map(|k| outcome.samples(k))
            .collect();
        let of = |rounds: &[Vec<f64>]| {
            let ci95 = stats::interval(rounds, Statistic::Median);
            stats::width(ci95, stats::median(&rounds.concat()))
        };
        if outcome.rounds() < 2 {
            return f64::INFINITY;
        }
        let medians = samples.iter().map(|s| of(s));
        let ratios = self.ratios.iter();
        let ratios = ratios.map(|&(a, b)| of(&stats::ratios(&samples[a], &samples[b])));
        medians.chain(ratios).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    const LIMITS: Limits = Limits {
        width: 0.05,
        time: Duration::from_secs(1000),
        least: 5,
        most: 30,
        warm: 1,
        sure: false,
    };

    fn contest<'a>(backends: &'a [&'a str], ratios: &'a [(usize, usize)]) -> Contest<'a> {
        Contest {
            case: "c",
            metric: "time",
            unit: "s",
            better: Better::Less,
            backends,
            ratios,
        }
    }

    /// Runs of one second each by a clock that only they move; what they measure is `value(backend, run)`.
    fn run(
        limits: &Limits,
        stop_at: usize,
        value: impl Fn(usize, usize) -> f64,
    ) -> (Result<Outcome<Vec<f64>>, Failure>, Vec<usize>) {
        let (time, order) = (Cell::new(0), RefCell::new(vec![]));
        let world = World {
            now: &|| Duration::from_secs(time.get()),
            interrupted: &|| order.borrow().len() >= stop_at,
        };
        let r = contest(&["a", "b", "c"], &[(0, 1)]).run_in(
            &world,
            limits,
            |k| {
                let n = order.borrow().len();
                order.borrow_mut().push(k);
                time.set(time.get() + 1);
                match value(k, n) {
                    v if v < 0.0 => Err(Failure::NoMemory),
                    v => Ok(vec![v]),
                }
            },
            &mut |_| (),
        );
        (r, order.into_inner())
    }

    /// Noise that no number of rounds makes narrow.
    fn noise(_: usize, run: usize) -> f64 {
        [10.0, 90.0][run % 7 % 2]
    }

    #[test]
    fn each_round_begins_with_another() {
        let (r, order) = run(&LIMITS, usize::MAX, |_, _| 1.0);
        assert_eq!(order[..9], [0, 1, 2, 1, 2, 0, 2, 0, 1]);
        // Equal samples: as soon as there may be an end, after a round that warmed up.
        let r = r.unwrap();
        assert_eq!((r.ended, r.rounds(), r.width), (Ended::Width, 5, 0.0));
        assert_eq!(order.len(), 18);
    }

    #[test]
    fn rounds_that_warm_up_are_not_counted() {
        let (r, _) = run(
            &LIMITS,
            usize::MAX,
            |_, run| if run < 3 { 1000.0 } else { 1.0 },
        );
        assert!(r.unwrap().runs.concat().iter().all(|v| v == &[1.0]));
    }

    #[test]
    fn it_goes_on_until_it_is_narrow() {
        // Half of one percent wide apart: narrow at once. Ten percent: not.
        let near = |_: usize, run: usize| 1.0 + (run % 5) as f64 / 1000.0;
        let far = |_: usize, run: usize| 1.0 + (run % 5) as f64 / 10.0;
        assert_eq!(
            run(&LIMITS, usize::MAX, near).0.unwrap().ended,
            Ended::Width
        );
        let r = run(&LIMITS, usize::MAX, far).0.unwrap();
        assert!(r.rounds() > 5);
    }

    #[test]
    fn the_rounds_are_spent() {
        let r = run(&LIMITS, usize::MAX, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Rounds, 30));
    }

    #[test]
    fn the_time_is_spent_before_another_round_would_not_fit() {
        let limits = Limits {
            time: Duration::from_secs(20),
            ..LIMITS
        };
        let r = run(&limits, usize::MAX, noise).0.unwrap();
        // 3 s to warm up, then five rounds of 3 s are 18; a sixth would end at 21.
        assert_eq!((r.ended, r.rounds(), r.seconds), (Ended::Time, 5, 18.0));
    }

    #[test]
    fn rounds_that_have_to_be_come_whatever_time_they_take() {
        let limits = Limits {
            time: Duration::from_secs(20),
            sure: true,
            ..LIMITS
        };
        // As above; then none that has not, but all that the time has room for.
        let r = run(&limits, usize::MAX, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Time, 5));
        let none = Limits {
            time: Duration::ZERO,
            ..limits
        };
        let r = run(&none, usize::MAX, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Time, 5));
        let more = Limits { least: 9, ..limits };
        let r = run(&more, usize::MAX, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Time, 9));
    }

    #[test]
    fn there_is_a_round_even_without_time() {
        let limits = Limits {
            time: Duration::ZERO,
            ..LIMITS
        };
        let r = run(&limits, usize::MAX, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Time, 1));
    }

    #[test]
    fn interrupted_it_keeps_what_is_complete() {
        // The second run of the third counted round.
        let (r, order) = run(&LIMITS, 11, noise);
        let r = r.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Interrupt, 2));
        assert_eq!(order.len(), 11);
        // And with nothing.
        let r = run(&LIMITS, 1, noise).0.unwrap();
        assert_eq!((r.ended, r.rounds()), (Ended::Interrupt, 0));
    }

    #[test]
    fn a_run_that_fails_ends_all() {
        let (r, order) = run(
            &LIMITS,
            usize::MAX,
            |_, run| if run == 4 { -1.0 } else { 1.0 },
        );
        assert!(matches!(r, Err(Failure::NoMemory)));
        assert_eq!(order.len(), 5);
    }

    #[test]
    fn a_ratio_has_to_be_narrow_too() {
        // Each by itself is narrow enough, but not when one goes up where the other goes down.
        let v = |k: usize, run: usize| 1.0 + [0.02, -0.02][(run / 3 + k.min(1)) % 2];
        let limits = Limits {
            width: 0.045,
            ..LIMITS
        };
        let alone = contest(&["a", "b", "c"], &[]);
        let with = contest(&["a", "b", "c"], &[(0, 1)]);
        let width = |c: &Contest| {
            let runs = (0..3).map(|k| (0..6).map(|r| vec![v(k, 3 * r)]).collect());
            c.width(&Outcome {
                runs: runs.collect(),
                ended: Ended::Rounds,
                seconds: 0.0,
                width: 0.0,
            })
        };
        assert!(width(&alone) <= limits.width && width(&with) > limits.width);
    }

    #[test]
    fn the_part_that_is_done_grows_to_no_more_than_one() {
        let parts = RefCell::new(vec![]);
        let time = Cell::new(0);
        let world = World {
            now: &|| Duration::from_secs(time.get()),
            interrupted: &|| false,
        };
        let one = |_| {
            time.set(time.get() + 1);
            Ok(vec![noise(0, time.get() as usize)])
        };
        let mut tick = |p| parts.borrow_mut().push(p);
        let c = contest(&["a"], &[]);
        c.run_in(&world, &LIMITS, one, &mut tick).unwrap();
        let parts = parts.into_inner();
        assert!(parts.iter().all(|p| (0.0..=1.0).contains(p)));
        assert!(parts[parts.len() - 1] > 0.9 && parts[0] < 0.1);
    }
}
