//! How a mark on an axis is written: with the unit that fits it, as 1 us rather than 1e-6 s.
//!
//! Invariant: a mark has at most four digits before its point, and no exponent, as far as the steps of its unit go.
//! Not here: where marks stand (svg.rs; in the page report.js, and axes.js asks for these steps).
use super::short;
use serde::Serialize;

/// From which value on, in the unit of the axis, a mark is told in how many of that unit, and by which name.
#[derive(Serialize, Clone, Debug, PartialEq)]
pub struct Step {
    pub from: f64,
    pub size: f64,
    pub name: &'static str,
}

/// The steps of a unit, the smallest first; of one without prefixes, thousands and more.
pub fn steps(unit: &str) -> Vec<Step> {
    const TIME: [(f64, &str); 4] = [(1e-9, " ns"), (1e-6, " us"), (1e-3, " ms"), (1.0, " s")];
    const BYTES: [(f64, &str); 4] = [(1.0, " B"), (1e3, " kB"), (1e6, " MB"), (1e9, " GB")];
    const BYTE_RATE: [(f64, &str); 3] = [(1e3, " kB/s"), (1e6, " MB/s"), (1e9, " GB/s")];
    const BIT_RATE: [(f64, &str); 3] = [(1e3, " kbit/s"), (1e6, " Mbit/s"), (1e9, " Gbit/s")];
    const MEMORY: [(f64, &str); 3] = [(1.0, " KiB"), (1024.0, " MiB"), (1_048_576.0, " GiB")];
    let (table, unit): (&[_], f64) = match unit {
        "ns" => (&TIME, 1e-9),
        "us" => (&TIME, 1e-6),
        "ms" => (&TIME, 1e-3),
        "s" => (&TIME, 1.0),
        "B" => (&BYTES, 1.0),
        "MB/s" => (&BYTE_RATE, 1e6),
        "Mbit/s" => (&BIT_RATE, 1e6),
        "MiB" => (&MEMORY, 1024.0),
        // A thousand is short enough without a prefix.
        _ => {
            let steps = [
                (0.0, 1.0, ""),
                (1e4, 1e3, "k"),
                (1e6, 1e6, "M"),
                (1e9, 1e9, "G"),
            ];
            return steps
                .map(|(from, size, name)| Step { from, size, name })
                .into();
        }
    };
    let step = |&(size, name): &(f64, _)| Step {
        from: size / unit,
        size: size / unit,
        name,
    };
    table.iter().map(step).collect()
}

/// What an axis of that unit shows, as its marks have the unit themselves; else what it says already.
pub fn quantity(unit: &str) -> &str {
    match unit {
        "ns" | "us" | "ms" | "s" => "time",
        "B" => "bytes",
        "MB/s" | "Mbit/s" => "rate",
        "MiB" => "memory",
        other => other,
    }
}

/// A mark's text.
pub fn mark(v: f64, steps: &[Step]) -> String {
    // What is 1 but for rounding is 1.
    let reached = |s: &&Step| v.abs() >= s.from * (1.0 - 1e-9);
    match steps.iter().rfind(reached).or(steps.first()) {
        Some(s) if v != 0.0 => plain(v / s.size) + s.name,
        _ => plain(v),
    }
}

/// A figure in a sentence or a cell, with the unit that fits it.
pub fn value(v: f64, unit: &str) -> String {
    let text = mark(v, &steps(unit));
    match quantity(unit) == unit || v == 0.0 {
        true => format!("{text} {unit}"),
        false => text,
    }
}

/// A number without zeros at its end.
fn plain(v: f64) -> String {
    let text = short(v);
    match text.contains('.') && !text.contains('e') {
        true => text.trim_end_matches('0').trim_end_matches('.').into(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_has_the_unit_that_fits() {
        let all = |unit, values: &[f64]| -> Vec<String> {
            let steps = steps(unit);
            values.iter().map(|v| mark(*v, &steps)).collect()
        };
        let times = all("s", &[1e-6, 1e-4, 0.01, 1.0, 0.0]);
        assert_eq!(times, ["1 us", "100 us", "10 ms", "1 s", "0"]);
        assert_eq!(all("us", &[0.2, 1.0, 5e6]), ["200 ns", "1 us", "5 s"]);
        assert_eq!(all("B", &[1.0, 1e4, 1e7]), ["1 B", "10 kB", "10 MB"]);
        assert_eq!(all("MB/s", &[0.5, 2e4]), ["500 kB/s", "20 GB/s"]);
        assert_eq!(all("Mbit/s", &[7e4]), ["70 Gbit/s"]);
        assert_eq!(
            all("MiB", &[0.5, 1.0, 1024.0]),
            ["512 KiB", "1 MiB", "1 GiB"]
        );
        let numbers = all("1/s", &[0.5, 3000.0, 2e4, 1.5e6]);
        assert_eq!(numbers, ["0.5", "3000", "20k", "1.5M"]);
    }

    #[test]
    fn a_figure_has_its_unit() {
        assert_eq!(value(1.17e-5, "s"), "11.7 us");
        assert_eq!(value(0.0, "s"), "0 s");
        assert_eq!(value(2.5e6, "1/s"), "2.5M 1/s");
    }

    #[test]
    fn no_decade_of_a_unit_has_an_exponent() {
        for (unit, decades) in [
            ("s", -9..4),
            ("us", -3..10),
            ("B", 0..12),
            ("MB/s", -3..6),
            ("x", -2..12),
        ] {
            let steps = steps(unit);
            for d in decades {
                let text = mark(10f64.powi(d), &steps);
                let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
                assert!(
                    digits.len() <= 4 && !digits.contains('e'),
                    "{unit} {d} {text}"
                );
            }
        }
    }
}
