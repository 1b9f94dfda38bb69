//! Medians, percentiles, outliers, and intervals by resampling.
//!
//! ```text
//! rounds  [a a a] [a a] [a a a] ...   --draw as many rounds, some twice, some never, 2000 times-->  2000 medians
//!                                     --the middle 95 % of them-->  the interval
//! ```
//! Invariant: a round is drawn as a whole, since the samples of one round share its process, its memory and its moment;
//! and with it the other side's, for a ratio. The draws are the same for the same samples: a record can be checked.
//! Not here: which samples belong together; when there are enough (runner.rs).
//!
//! Source: B. Efron, R. Tibshirani, "An Introduction to the Bootstrap" (1993), 13.3 (percentile intervals), 8.3 (what to
//! draw); J. Tukey, "Exploratory Data Analysis" (1977), 2C (fences).
use serde::{Deserialize, Serialize};

/// Draws of one interval.
const DRAWS: usize = 2000;

/// The median; 0 of nothing.
pub fn median(v: &[f64]) -> f64 {
    median_of(&mut v.to_vec())
}

/// The same, in place.
fn median_of(v: &mut [f64]) -> f64 {
    let n = v.len();
    if n == 0 {
        return 0.0;
    }
    let (below, &mut middle, _) = v.select_nth_unstable_by(n / 2, f64::total_cmp);
    if n % 2 == 1 {
        return middle;
    }
    let before = below.iter().copied().max_by(f64::total_cmp);
    f64::midpoint(before.unwrap_or(middle), middle)
}

/// The mean; 0 of nothing.
pub fn mean(v: &[f64]) -> f64 {
    v.iter().sum::<f64>() / v.len().max(1) as f64
}

/// The value that `percent` of `v` are not above, between its neighbours where it is none of them; 0 of nothing.
pub fn percentile(v: &[f64], percent: f64) -> f64 {
    percentile_of(&sorted(v), percent)
}

fn percentile_of(sorted: &[f64], percent: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return 0.0;
    };
    let at = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let (i, part) = (at as usize, at.fract());
    sorted[i] + part * (sorted[(i + 1).min(last)] - sorted[i])
}

/// How many values are far out: beyond three times the distance of the quartiles from them.
pub fn outliers(v: &[f64]) -> usize {
    let v = sorted(v);
    let (low, high) = (percentile_of(&v, 25.0), percentile_of(&v, 75.0));
    let far = 3.0 * (high - low);
    v.iter()
        .filter(|&&x| x < low - far || x > high + far)
        .count()
}

/// What is made of samples.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    #[default]
    Median,
    Mean,
}

impl Statistic {
    pub fn of(self, v: &[f64]) -> f64 {
        self.in_place(&mut v.to_vec())
    }
    fn in_place(self, v: &mut [f64]) -> f64 {
        match self {
            Statistic::Median => median_of(v),
            Statistic::Mean => mean(v),
        }
    }
}

/// The 95 % interval of the statistic of all samples of `rounds`. Of one round it is no interval; of fewer than six it
/// covers less than it says.
pub fn interval(rounds: &[Vec<f64>], statistic: Statistic) -> [f64; 2] {
    let mut draws = Draws::new();
    let mut drawn = vec![];
    let values = (0..DRAWS).map(|_| {
        drawn.clear();
        draws.each(rounds.len(), |i| drawn.extend_from_slice(&rounds[i]));
        statistic.in_place(&mut drawn)
    });
    middle(values, 5.0)
}

/// The samples of two sides, round by round and pair by pair: `a` over `b`.
pub fn ratios(a: &[Vec<f64>], b: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let of = |a: &Vec<f64>, b: &Vec<f64>| a.iter().zip(b).map(|(a, b)| a / b).collect();
    a.iter().zip(b).map(|(a, b)| of(a, b)).collect()
}

/// The median of `a` over that of `b`, with an interval that leaves out so many percent, where the rounds of the two were
/// not neighbours: each side is drawn by itself.
pub fn ratio_apart(a: &[Vec<f64>], b: &[Vec<f64>], out: f64) -> (f64, [f64; 2]) {
    let mut draws = Draws::new();
    let mut drawn = vec![];
    let mut one = |rounds: &[Vec<f64>]| {
        drawn.clear();
        draws.each(rounds.len(), |i| drawn.extend_from_slice(&rounds[i]));
        median_of(&mut drawn)
    };
    let interval = middle((0..DRAWS).map(|_| one(a) / one(b)), out);
    (median(&a.concat()) / median(&b.concat()), interval)
}

/// How wide an interval is, as a part of what it is of; infinite where that says nothing.
pub fn width(ci95: [f64; 2], of: f64) -> f64 {
    let wide = ci95[1] - ci95[0];
    if wide == 0.0 {
        0.0
    } else {
        let part = (wide / of).abs();
        if part.is_nan() { f64::INFINITY } else { part }
    }
}

/// The middle of so many values, without the `out` percent of them that lie outside.
fn middle(values: impl Iterator<Item = f64>, out: f64) -> [f64; 2] {
    let v = sorted(&values.collect::<Vec<_>>());
    [
        percentile_of(&v, out / 2.0),
        percentile_of(&v, 100.0 - out / 2.0),
    ]
}

/// Numbers by chance, the same ones each time (splitmix64: G. Steele et al., OOPSLA 2014).
struct Draws(u64);

impl Draws {
    fn new() -> Draws {
        Draws(2009)
    }
    /// `n` numbers below `n`.
    fn each(&mut self, n: usize, mut f: impl FnMut(usize)) {
        for _ in 0..n {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = self.0;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            x ^= x >> 31;
            // The upper half of the product: as even as the number, without a division.
            f(((u128::from(x) * n as u128) >> 64) as usize);
        }
    }
}

fn sorted(v: &[f64]) -> Vec<f64> {
    let mut v = v.to_vec();
    v.sort_by(f64::total_cmp);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(v: &[f64]) -> Vec<Vec<f64>> {
        v.iter().map(|&x| vec![x]).collect()
    }

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[7.0, 1.0, 3.0, 2.0, 6.0, 5.0, 4.0]), 4.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        let v: Vec<f64> = (0..=10).map(f64::from).collect();
        assert_eq!(
            [0.0, 50.0, 95.0, 100.0].map(|p| percentile(&v, p)),
            [0.0, 5.0, 9.5, 10.0]
        );
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(mean(&[]), 0.0);
        assert_eq!(percentile(&[], 50.0), 0.0);
        assert_eq!(outliers(&[]), 0);
        assert_eq!(interval(&[], Statistic::Median), [0.0; 2]);
    }

    #[test]
    fn far_out_is_counted_and_the_rest_is_not() {
        let mut v: Vec<f64> = (0..20).map(f64::from).collect();
        assert_eq!(outliers(&v), 0);
        v.extend([1000.0, -1000.0]);
        assert_eq!(outliers(&v), 2);
        assert_eq!(outliers(&[5.0; 9]), 0);
    }

    /// P(a drawn median is the k-th of 5 or below) is known: the interval of 1 to 5 is [1, 5], since 1 is it in
    /// P(Binomial(5, 1/5) >= 3) = 5.8 % of the draws.
    #[test]
    fn an_interval_of_five_is_their_range() {
        assert_eq!(
            interval(&each(&[3.0, 1.0, 5.0, 2.0, 4.0]), Statistic::Median),
            [1.0, 5.0]
        );
    }

    /// Of 1 to 101 the drawn medians spread by about sqrt(1/(4 n)) in rank: 51 +- 1.96 * 5.
    #[test]
    fn an_interval_is_as_wide_as_theory_has_it() {
        let v: Vec<f64> = (1..=101).map(f64::from).collect();
        let [low, high] = interval(&each(&v), Statistic::Median);
        assert!(
            (38.0..=44.0).contains(&low) && (58.0..=64.0).contains(&high),
            "{low} {high}"
        );
        // The mean: 51 +- 1.96 * 29.15 / sqrt(101).
        let [low, high] = interval(&each(&v), Statistic::Mean);
        assert!(
            (low - 45.3).abs() < 0.6 && (high - 56.7).abs() < 0.6,
            "{low} {high}"
        );
    }

    #[test]
    fn samples_of_a_round_are_drawn_together() {
        let alone: Vec<f64> = (0..40).map(|i| f64::from(i % 4)).collect();
        let together: Vec<Vec<f64>> = (0..4).map(|i| vec![f64::from(i); 10]).collect();
        let wide = |ci: [f64; 2]| ci[1] - ci[0];
        assert!(
            wide(interval(&together, Statistic::Mean))
                > 2.0 * wide(interval(&each(&alone), Statistic::Mean))
        );
    }

    #[test]
    fn intervals_do_not_change_from_one_look_to_the_next() {
        let v = each(&[5.0, 3.0, 9.0, 1.0, 7.0, 4.0]);
        assert_eq!(
            interval(&v, Statistic::Median),
            interval(&v, Statistic::Median)
        );
    }

    /// What disturbs both sides of a round alike is no uncertainty of their ratio, but is of two that lie apart.
    #[test]
    fn neighbours_share_what_disturbs_them() {
        let b: Vec<Vec<f64>> = (1..=9).map(|i| vec![f64::from(i)]).collect();
        let a: Vec<Vec<f64>> = (1..=9).map(|i| vec![2.0 * f64::from(i)]).collect();
        assert_eq!(interval(&ratios(&a, &b), Statistic::Median), [2.0, 2.0]);
        let (ratio, [low, high]) = ratio_apart(&a, &b, 5.0);
        assert!(ratio == 2.0 && low < 1.5 && high > 2.5);
    }

    #[test]
    fn widths_are_parts() {
        assert_eq!(width([9.0, 11.0], 10.0), 0.2);
        assert_eq!(width([0.0, 0.0], 0.0), 0.0);
        assert_eq!(width([0.0, 1.0], 0.0), f64::INFINITY);
    }
}
