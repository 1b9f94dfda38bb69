//! The block sizes of NetPIPE: exponentially spaced, two to an octave, and some bytes above and below each.
//!
//! ```text
//! 1 2 3 | 4 6 | 8 12 | 13 16 19, 21 24 27 | 29 32 35, 45 48 51 | ...      the step doubles at each bar
//! ```
//! Invariant: the same sizes as NPtcp 3.7.2 with the same -l, -u and -p; ascending.
//! Source: Q. O. Snell, A. R. Mikler, J. L. Gustafson, "NetPIPE: A Network Protocol Independent Performance Evaluator",
//! 1996, section 3; what NPtcp 3.7.2 (Debian) prints.

/// From `lower` to `upper`, each also `perturbation` bytes above and below where the step is large enough for that.
pub fn sizes(lower: usize, upper: usize, perturbation: usize) -> Vec<usize> {
    let mut v = vec![];
    let (mut size, mut step, mut turn) = (lower, (lower / 2).max(1), usize::from(lower > 1));
    while size <= upper {
        if turn > 2 && turn % 2 == 1 {
            step *= 2;
        }
        if perturbation > 0 && step > perturbation + 1 {
            v.extend([size - perturbation, size, size + perturbation]);
        } else {
            v.push(size);
        }
        size += step;
        turn += 1;
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `NPtcp -u 140` prints.
    const ORIGINAL: [usize; 28] = [
        1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96,
        99, 125, 128, 131,
    ];

    #[test]
    fn as_the_original_has_them() {
        assert_eq!(sizes(1, 140, 3), ORIGINAL);
    }

    #[test]
    fn without_perturbation_two_to_an_octave() {
        let v = sizes(1, 8 << 20, 0);
        assert_eq!(v[..8], [1, 2, 3, 4, 6, 8, 12, 16]);
        assert_eq!(v.last(), Some(&(8 << 20)));
        assert_eq!(v.len(), 1 + 2 * 22 + 1);
    }

    #[test]
    fn the_whole_range_ascends() {
        for (lower, perturbation) in [(1, 3), (1, 0), (2, 3), (64, 5), (1000, 3)] {
            let v = sizes(lower, 8 << 20, perturbation);
            assert!(v.windows(2).all(|w| w[0] < w[1]), "{v:?}");
            assert!(v.contains(&lower));
        }
        assert!(sizes(9, 8, 3).is_empty());
    }
}
