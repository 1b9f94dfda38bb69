//! The table of `netperf` in the rows and columns of the source, with its published figures below ours.
//!
//! Invariant: as in net/text.rs; a figure under `byway run` of which nothing was carried is marked.
use super::Test;
use crate::net::carried::{self, LEGEND, MARK};
use crate::net::text::rows;
use crate::pairs::text::short;
use crate::published::{Network, network};
use crate::record::Record;

/// The columns of the source.
const COLUMNS: [(Test, usize); 4] = [
    (Test::UdpStream, 23),
    (Test::TcpStream, 12),
    (Test::UdpRr, 12),
    (Test::TcpRr, 9),
];
const NAME: usize = 22;

pub const NOTES: [&str; 3] = [
    "streams in MiB/s (2^20 bytes, netperf's -f M): receive is what the server got, from its first byte to the end; of \
     datagrams over the sender's time, so that lost is what is missing; requests and responses: answers a second",
    "byway: the same under `byway run`; a datagram that finds no room is lost there too, once its sender has waited 10 ms",
    "carried: the part of the bytes that --explain counted, so at most; 0 % is the kernel's figure",
];
pub const CHECKED: &str =
    "--check: every byte was filled and compared, so the figures are of no use";

fn row(name: &str, cell: impl Fn(Test) -> String) -> String {
    let cells: String = COLUMNS
        .iter()
        .map(|&(t, w)| format!("{:>w$}", cell(t)))
        .collect();
    format!("{name:<NAME$}{cells}").trim_end().to_string()
}

/// What the source says of `row` and `test`: one figure, or what was sent and received.
fn said(all: &[Network], row: &str, test: Test) -> String {
    let here = all.iter().filter(|p| p.row == row && p.test == test.name());
    let cells = here.map(|p| match &p.direction[..] {
        "" => short(p.value),
        d => format!("{d} {}", short(p.value)),
    });
    let cells: Vec<_> = cells.collect();
    if cells.is_empty() {
        "-".into()
    } else {
        cells.join(" ")
    }
}

/// Ours above `table` of the source; nothing if none of its columns was measured.
pub fn table(record: &Record, backends: &[&str], table: &str) -> Vec<String> {
    let median = |b: &str, t: Test, metric: &str| {
        let found = record.find(t.name(), b, metric);
        found.map(|r| short(r.median))
    };
    let is_kernels = |b: &str, t: Test| carried::is_kernels(record, t.name(), b);
    let ours = |b: &str, t: Test| {
        let cell = match t {
            Test::UdpStream => median(b, t, "send")
                .zip(median(b, t, "receive"))
                .map(|(s, r)| format!("send {s} recv {r}")),
            t if t.streams() => median(b, t, "receive"),
            t => median(b, t, "rate"),
        };
        let mark = if is_kernels(b, t) { MARK } else { "" };
        cell.map_or("-".into(), |c| c + mark)
    };
    let cells = |b: &str| COLUMNS.map(|(t, _)| ours(b, t));
    let is_measured = |b: &&str| cells(b).iter().any(|c| c != "-");
    if !backends.iter().any(is_measured) {
        return vec![];
    }
    let all = network(table);
    let mut lines = vec![
        String::new(),
        row("MB/s (2^20), answers", |t| t.name().into()),
    ];
    lines.extend(
        backends
            .iter()
            .map(|b| row(&format!("here, {b}"), |t| ours(b, t))),
    );
    if backends
        .iter()
        .any(|b| cells(b).iter().any(|c| c.ends_with(MARK)))
    {
        lines.push(LEGEND.into());
    }
    let what = match table {
        "lan" => "other machines, published 2008: to a Linux server by Gigabit Ethernet",
        _ => "other machines, published 2008: localhost",
    };
    lines.push(what.into());
    lines.extend(rows(&all).iter().map(|r| row(r, |t| said(&all, r, t))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_carried_is_said_in_the_column() {
        let mut r = Record::new("netperf");
        for t in Test::ALL {
            let (metric, unit, _) = t.metrics()[0];
            for b in ["kernel", "byway"] {
                r.row(t.name(), b, (metric, unit, None), &[vec![1234.0]]);
            }
            let part = if t == Test::TcpRr { 0.9 } else { 0.0 };
            carried::add(
                &mut r,
                t.name(),
                "byway",
                [carried::tests::run(part)].iter(),
            );
        }
        let lines = table(&r, &["kernel", "byway"], "localhost");
        let words = |i: usize| lines[i].split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(2), "here, kernel - 1234 1234 1234");
        assert_eq!(words(3), "here, byway - 1234* 1234* 1234");
        assert!(lines[4].starts_with("* under `byway run`, but not carried"));
        assert!(lines.iter().all(|l| l.len() < 80), "{lines:#?}");
    }

    #[test]
    fn fits_eighty_columns_and_says_whose_figures() {
        let mut r = Record::new("netperf");
        assert!(table(&r, &["kernel"], "lan").is_empty());
        for t in Test::ALL {
            for (metric, unit, _) in t.metrics() {
                r.row(t.name(), "kernel", (metric, unit, None), &[vec![99_999.0]]);
            }
        }
        for (name, rows) in [("localhost", 8), ("lan", 2)] {
            let lines = table(&r, &["kernel"], name);
            assert_eq!(lines.len(), 2 + 1 + 1 + rows, "{lines:#?}");
            assert!(lines.iter().all(|l| l.len() < 80), "{lines:#?}");
            assert!(lines[2].contains("send 99999 recv 99999"));
            assert!(lines[3].starts_with("other machines"));
        }
        let lines = table(&r, &["kernel"], "localhost");
        assert!(lines[5].contains("send 182 recv 42") && lines[5].starts_with("Zeta (VM)"));
        assert!(lines[10].ends_with("12216"), "{}", lines[10]);
    }
}
