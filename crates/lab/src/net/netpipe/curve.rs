//! What a curve of NetPIPE says: throughput, latency, and from which block on time grows as bytes do.
//!
//! Invariant: Mbit are 2^20 bits, as NPtcp prints them; MB are 10^6 bytes.
//! Not here: how a block's time is measured (sides.rs).

/// How many times the smallest block's time a block takes from which on a link counts as saturated: of five, four are for
/// its bytes. Where time is a + b n, the slope of log(time) over log(size) is 1 - a / time: there it is 0.8, of 1 at most.
const SATURATED: f64 = 5.0;

/// Blocks and what one takes, ns; in ascending order of their sizes.
#[derive(Clone, Copy)]
pub struct Curve<'a> {
    pub sizes: &'a [usize],
    pub ns: &'a [f64],
}

/// Mbit/s of a block.
pub fn mbit(size: usize, ns: f64) -> f64 {
    size as f64 * 8.0 / f64::from(1 << 20) / (ns / 1e9)
}

/// MB/s of a block.
pub fn mb(size: usize, ns: f64) -> f64 {
    size as f64 / ns * 1e3
}

impl Curve<'_> {
    pub fn points(&self) -> impl Iterator<Item = (usize, f64)> {
        self.sizes.iter().copied().zip(self.ns.iter().copied())
    }

    /// What a block of that size takes, if it was measured.
    pub fn at(&self, size: usize) -> Option<f64> {
        self.points().find(|p| p.0 == size).map(|p| p.1)
    }

    /// The highest throughput, MB/s.
    pub fn peak(&self) -> f64 {
        self.points().map(|(s, ns)| mb(s, ns)).fold(0.0, f64::max)
    }

    /// The saturation point: the smallest block from which on time grows about as the bytes do (`SATURATED`); none if that
    /// is never so.
    ///
    /// Source: Snell, Mikler, Gustafson 1996, section 4, which reads it off the graph's knee.
    pub fn saturation(&self) -> Option<usize> {
        let least = SATURATED * self.ns.first()?;
        let n = self.sizes.len().min(self.ns.len());
        let points = self.sizes[..n].iter().zip(self.ns).rev();
        let saturated = points.take_while(|(_, ns)| **ns >= least);
        saturated.last().map(|p| *p.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netpipe::sizes::sizes;

    #[test]
    fn units() {
        // 1 MiB in 10 ms: 100 times 8 Mbit a second.
        assert!((mbit(1 << 20, 1e7) - 800.0).abs() < 1e-9);
        assert!((mb(1_000_000, 1e9) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn saturation_of_a_link_that_is_known() {
        // Time = a + b n is five times a where n is four times a / b.
        let s = sizes(1, 8 << 20, 3);
        let ns: Vec<f64> = s.iter().map(|&n| 5000.0 + 0.5 * n as f64).collect();
        let c = Curve { sizes: &s, ns: &ns };
        let at = c.saturation().unwrap();
        assert!((40_000..50_000).contains(&at), "{at}");
        assert_eq!(c.at(1), Some(5000.5));
        assert!(c.peak() < 2000.0 && c.peak() > 1990.0);
    }

    #[test]
    fn a_link_that_is_never_saturated() {
        let s = sizes(1, 4096, 0);
        let ns = vec![5000.0; s.len()];
        let c = |n: usize| Curve {
            sizes: &s[..n],
            ns: &ns[..n],
        };
        assert_eq!(c(s.len()).saturation(), None);
        assert_eq!(c(1).saturation(), None);
        assert_eq!(c(0).saturation(), None);
    }
}
