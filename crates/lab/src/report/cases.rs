//! How the cases of a record are laid out in its plots.
//!
//! ```text
//! cases 2048 4096 ...     a number: an axis, mostly logarithmic
//! cases 64x100 64x1000    two numbers: the first is the axis, a plot for each of the second
//! cases wc sort ...       names, in their order
//! ```
//! Invariant: every case has one place, and a place no two of a plot.
//! Not here: what is shown there (plot.rs).
use super::plot::{Axis, Line};

/// Where a case stands: in which plot, and where on its axis.
pub struct Place {
    pub plot: Option<String>,
    pub x: f64,
}

/// How the cases of a record are laid out.
pub struct Cases {
    names: Vec<String>,
    pub kind: Kind,
}

#[derive(PartialEq)]
pub enum Kind {
    Number,
    Two,
    Name,
}

impl Cases {
    pub fn of(names: Vec<String>) -> Cases {
        let number = |c: &String| c.parse::<f64>().is_ok();
        let two = |c: &String| {
            let parts = c.split_once('x');
            parts.is_some_and(|(a, b)| a.parse::<f64>().is_ok() && b.parse::<f64>().is_ok())
        };
        let kind = if names.iter().all(number) {
            Kind::Number
        } else if names.iter().all(two) {
            Kind::Two
        } else {
            Kind::Name
        };
        Cases { names, kind }
    }

    pub fn place(&self, case: &str) -> Option<Place> {
        let number = |s: &str| s.parse().ok();
        Some(match self.kind {
            Kind::Number => Place {
                plot: None,
                x: number(case)?,
            },
            Kind::Two => {
                let (a, b) = case.split_once('x')?;
                Place {
                    plot: Some(b.into()),
                    x: number(a)?,
                }
            }
            Kind::Name => Place {
                plot: None,
                x: self.names.iter().position(|n| n == case)? as f64,
            },
        })
    }

    /// The second numbers, or one plot of all.
    pub fn plots(&self) -> Vec<Option<String>> {
        let mut v = vec![];
        for p in self.names.iter().filter_map(|n| self.place(n)) {
            if !v.contains(&p.plot) {
                v.push(p.plot);
            }
        }
        v
    }

    pub fn axis(&self, label: &str, lines: &[Line]) -> Axis {
        let names = if self.kind == Kind::Name {
            self.names.clone()
        } else {
            vec![]
        };
        let log = names.is_empty() && wide(lines.iter().flat_map(|l| &l.points).map(|p| p[0]));
        Axis {
            names,
            ..Axis::new(label, log)
        }
    }
}

/// Whether values are so far apart, and all above zero, that a logarithmic axis shows them better.
pub fn wide(values: impl Iterator<Item = f64>) -> bool {
    let (mut low, mut high) = (f64::INFINITY, 0.0f64);
    for v in values {
        (low, high) = (low.min(v), high.max(v));
    }
    low > 0.0 && high / low > 20.0
}

/// What a case is, of the workloads whose cases are numbers.
pub fn unit_of_cases(workload: &str) -> &'static str {
    match workload {
        "fifo" => "bytes of a message",
        "bw-pipe" => "bytes of a chunk",
        "pipeflex" => "bytes of a read",
        _ => "case",
    }
}

pub fn distinct<'a>(all: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut v: Vec<String> = vec![];
    for s in all {
        if !v.contains(s) {
            v.push(s.clone());
        }
    }
    v
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Cases {
        Cases::of(names.iter().map(|n| (*n).into()).collect())
    }

    #[test]
    fn each_kind_has_its_places() {
        let at = |c: &Cases, case| c.place(case).map(|p| (p.plot, p.x));
        let c = of(&["2048", "4096"]);
        assert_eq!(at(&c, "4096"), Some((None, 4096.0)));
        let c = of(&["64x100", "128x100", "64x1000"]);
        assert_eq!(at(&c, "128x100"), Some((Some("100".into()), 128.0)));
        assert_eq!(c.plots(), [Some("100".into()), Some("1000".into())]);
        // One that is no number makes all of them names.
        let c = of(&["2048", "spin"]);
        assert_eq!((at(&c, "spin"), c.plots()), (Some((None, 1.0)), vec![None]));
        assert_eq!(at(&c, "sleep"), None);
    }
}
