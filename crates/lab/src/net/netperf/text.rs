//! The table of `netperf` in the rows and columns of the source, with its published figures below ours.
//!
//! Invariant: as in net/text.rs.
use super::Test;
use crate::net::text::rows;
use crate::pairs::text::short;
use crate::published::{Network, network};
use crate::record::Record;

/// The columns of the source.
const COLUMNS: [(Test, usize); 4] = [
    (Test::UdpStream, 23),
    (Test::TcpStream, 12),
    (Test::UdpRr, 9),
    (Test::TcpRr, 9),
];
const NAME: usize = 24;

pub const NOTES: [&str; 2] = [
    "streams in MiB/s (2^20 bytes, netperf's -f M): receive is what the server got, from its first byte to the end; of \
     datagrams over the sender's time, so that lost is what is missing; requests and responses: answers a second",
    "byway: the same under `byway run`, which leaves UDP to the kernel: 1.00 says that it costs nothing there",
];
pub const CHECKED: &str =
    "--check: every byte was filled and compared, so the figures are of no use";

/// The head of the note of all cases of UNIX sockets whose runs under `byway run` were the kernel's all the same.
const NOT_CARRIED: &str = "no run under `byway run` carried the sockets of these cases, so both backends are the kernel's:";

/// Adds `case` to that note.
pub fn note_not_carried(record: &mut Record, case: &str) {
    let mut notes = record.notes.iter_mut();
    match notes.find(|n| n.starts_with(NOT_CARRIED)) {
        Some(note) => *note += &format!(", {case}"),
        None => record.notes.push(format!("{NOT_CARRIED} {case}")),
    }
}

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
    let ours = |b: &str, t: Test| {
        let cell = match t {
            Test::UdpStream => median(b, t, "send")
                .zip(median(b, t, "receive"))
                .map(|(s, r)| format!("send {s} recv {r}")),
            t if t.streams() => median(b, t, "receive"),
            t => median(b, t, "rate"),
        };
        cell.unwrap_or("-".into())
    };
    if !backends
        .iter()
        .any(|b| COLUMNS.iter().any(|&(t, _)| ours(b, t) != "-"))
    {
        return vec![];
    }
    let all = network(table);
    let mut lines = vec![
        String::new(),
        row("MB/s (2^20), requests/s", |t| t.name().into()),
    ];
    lines.extend(
        backends
            .iter()
            .map(|b| row(&format!("here, {b}"), |t| ours(b, t))),
    );
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
    fn cases_that_were_not_carried_share_a_note() {
        let mut r = Record::new("netperf");
        note_not_carried(&mut r, "UNIX_RR");
        note_not_carried(&mut r, "UNIX_CRR");
        assert_eq!(r.notes.len(), 1);
        assert!(r.notes[0].ends_with("kernel's: UNIX_RR, UNIX_CRR"));
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
