//! NetPIPE's curves as text: throughput and time of a block by its size, and what is read off them.
//!
//! Invariant: no line is longer than 79 characters; no colours. A row says what part of each column was carried.
//! Not here: the curves' points, which the record has (and the report draws).
use super::Backend;
use super::curve::Curve;
use crate::net::carried;
use crate::pairs::text::short;
use crate::record::Record;

pub const NOTES: [&str; 4] = [
    "block: half of the time that a block takes there and back; stream: the receiver's time from the first block to the \
     last, over their number; Mbit: 2^20 bits, as NPtcp prints them; MB: 10^6 bytes",
    "byway-tcp, byway-unix, byway-pipe: the same program under `byway run`; carried: the part of the bytes that --explain \
     counted, so at most; byway-core: the pipe core called directly",
    "saturation: the smallest block from which on all take at least five times as long as the smallest of all",
    "mb_alloc, present, malloc: two threads of a process; a block lies in an mbuf of 256 B, or in a chain of clusters of \
     2 KiB, which one thread allocates and the other frees; all others are two processes",
];
pub const CHECKED: &str = "-i: every block was filled and compared, so the times are of no use";

/// Sizes that have a line, if they were measured.
fn shown() -> impl Iterator<Item = usize> {
    (0..12).map(|i| 1 << (2 * i)).chain([8 << 20])
}

/// Bytes in few characters.
fn bytes(n: usize) -> String {
    match n {
        n if n >= 1 << 20 && n.is_multiple_of(1 << 20) => format!("{} MiB", n >> 20),
        n if n >= 1 << 10 && n.is_multiple_of(1 << 10) => format!("{} KiB", n >> 10),
        n => format!("{n} B"),
    }
}

/// Figures are short, so a column is as wide as its backend's name.
fn row(name: &str, backends: &[&str], cells: impl Iterator<Item = String>) -> String {
    let widths = backends.iter().map(|b| (b.len() + 1).max(8));
    let cells: String = widths.zip(cells).map(|(w, c)| format!("{c:>w$}")).collect();
    format!("{name:<12}{cells}")
}

/// The tables of a case: a column for each backend; allocators have their own, since nobody else is compared with them.
pub fn tables(record: &Record, case: &str, backends: &[Backend]) -> Vec<String> {
    let names = |allocates: bool| -> Vec<_> {
        let own = backends.iter().filter(|b| b.way.allocates() == allocates);
        own.map(|b| b.name).collect()
    };
    let chains = format!("{case}, chains of clusters between two threads");
    let mut lines = vec![];
    for (title, names) in [(case, names(false)), (&chains, names(true))] {
        if !names.is_empty() {
            lines.extend(tables_of(record, case, title, &names));
        }
    }
    lines
}

fn tables_of(record: &Record, case: &str, title: &str, backends: &[&str]) -> Vec<String> {
    // The median of each size is a point of a graph.
    let graph = |b: &str| {
        let mut all = record.series.iter();
        let found = all.find(|s| s.case == case && s.backend == b && s.metric == "saturation");
        let points = found.map(|s| &s.points[..]).unwrap_or_default();
        let sizes: Vec<_> = points.iter().map(|p| p[1] as usize).collect();
        let ns: Vec<_> = points.iter().map(|p| p[0] * 1e3).collect();
        (sizes, ns)
    };
    let graphs: Vec<_> = backends.iter().map(|b| graph(b)).collect();
    let curves = || graphs.iter().map(|(sizes, ns)| Curve { sizes, ns });
    let measured = |size: &usize| curves().any(|c| c.at(*size).is_some());
    let table = |title: &str, f: &dyn Fn(usize, f64) -> f64| {
        let heads = backends.iter().map(|b| (*b).to_string());
        let mut v = vec![row(title, backends, heads)];
        for size in shown().filter(measured) {
            let cell = |c: Curve| c.at(size).map_or("-".into(), |ns| short(f(size, ns)));
            let size = format!("  {}", bytes(size));
            v.push(row(&size, backends, curves().map(cell)));
        }
        v
    };
    let mark = |title: &str, metric: &str, f: &dyn Fn(f64) -> String| {
        let cell = |b: &&str| {
            let found = record.find(case, b, metric);
            found.map_or("-".into(), |r| f(r.median))
        };
        row(title, backends, backends.iter().map(cell))
    };
    let mut lines = vec![format!("{title}: Mbit/s by size of block")];
    lines.extend(table("Mbit/s", &super::curve::mbit));
    lines.push(format!("{title}: time of a block, us"));
    lines.extend(table("us", &|_, ns| ns / 1e3));
    if backends
        .iter()
        .any(|b| record.find(case, b, "latency").is_some())
    {
        lines.push(mark("latency, us", "latency", &short));
    }
    lines.push(mark("peak, MB/s", "peak", &short));
    lines.push(mark("saturation", "saturation", &|n| bytes(n as usize)));
    let part = carried::METRIC.0;
    if backends
        .iter()
        .any(|b| record.find(case, b, part).is_some())
    {
        lines.push(mark("carried, %", part, &short));
    }
    lines.push(String::new());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::{HERE, workload};
    use super::*;

    #[test]
    fn fits_eighty_columns_with_every_backend() {
        let mut r = Record::new("netpipe");
        let sizes: Vec<_> = shown().collect();
        for b in &HERE {
            let ns: Vec<f64> = sizes.iter().map(|&s| 99_999.0 + s as f64).collect();
            workload::graphs(&mut r, "stream", b, &sizes, &ns);
            let value = [vec![123_456.0]];
            for metric in ["latency", "peak", "saturation"] {
                r.row("stream", b.name, (metric, "x", None), &value);
            }
        }
        let lines = tables(&r, "stream", &HERE);
        let each = 2 * (2 + sizes.len()) + 3 + 1;
        assert_eq!(lines.len(), 2 * each);
        assert!(lines.iter().all(|l| l.len() < 80), "{lines:#?}");
        assert!(
            lines[2].starts_with("  1 B ") && lines[2].ends_with("0.08"),
            "{}",
            lines[2]
        );
        assert!(lines[1].ends_with("byway-core") && lines[each + 1].ends_with("malloc"));
        // Nothing was measured, as after an early Ctrl-C: no rows, and no fault.
        assert_eq!(tables(&r, "block", &HERE).len(), 2 * (4 + 2 + 1));
        assert_eq!(tables(&r, "block", &HERE[..3]).len(), 4 + 2 + 1);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!(bytes(1), "1 B");
        assert_eq!(bytes(65_536), "64 KiB");
        assert_eq!(bytes(8 << 20), "8 MiB");
        assert_eq!(bytes(98_307), "98307 B");
    }
}
