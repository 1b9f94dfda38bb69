//! Medians and their intervals.
//!
//! Invariant: no assumption about the distribution: the interval of a median is that of the order statistics.
//! Not here: which values belong together.

/// The median; 0 of nothing.
pub fn median(v: &[f64]) -> f64 {
    let v = sorted(v);
    let n = v.len();
    if n == 0 {
        0.0
    } else if n % 2 == 1 {
        v[n / 2]
    } else {
        (v[n / 2 - 1] + v[n / 2]) / 2.0
    }
}

/// A 95 % interval of the median: the k-th value from either end, k the largest with 2 P(Binomial(n, 1/2) < k) <= 5 %
/// (sign test; Hollander, Wolfe, Chicken, "Nonparametric Statistical Methods", 3.6). Below n = 6 the whole range, which
/// then covers less than 95 %.
pub fn interval(v: &[f64]) -> [f64; 2] {
    let v = sorted(v);
    let n = v.len();
    if n == 0 {
        return [0.0; 2];
    }
    let (mut below, mut choose, mut k) = (0.0, 0.5f64.powi(n as i32), 0);
    while k < n && 2.0 * (below + choose) <= 0.05 {
        below += choose;
        choose *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let i = k.saturating_sub(1);
    [v[i], v[n - 1 - i]]
}

/// The mean and its standard error; zeroes of nothing.
pub fn mean(v: &[f64]) -> (f64, f64) {
    let n = v.len() as f64;
    if v.is_empty() {
        return (0.0, 0.0);
    }
    let mean = v.iter().sum::<f64>() / n;
    let squares: f64 = v.iter().map(|x| (x - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0) / n).sqrt())
}

/// The values pair by pair, `a` over `b`.
pub fn ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

fn sorted(v: &[f64]) -> Vec<f64> {
    let mut v = v.to_vec();
    v.sort_by(f64::total_cmp);
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_of_seven_is_the_range() {
        let v = [7.0, 1.0, 3.0, 2.0, 6.0, 5.0, 4.0];
        assert_eq!(interval(&v), [1.0, 7.0]);
        assert_eq!(median(&v), 4.0);
    }

    #[test]
    fn interval_narrows() {
        let v: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(interval(&v), [6.0, 15.0]);
    }

    #[test]
    fn a_mean_has_its_error() {
        assert_eq!(mean(&[1.0, 3.0]), (2.0, 1.0));
        assert_eq!(mean(&[5.0]), (5.0, 0.0));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(mean(&[]), (0.0, 0.0));
        assert_eq!(interval(&[]), [0.0, 0.0]);
    }
}
