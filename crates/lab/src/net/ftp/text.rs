//! The table of `ftp` in the rows and columns of the source, with its published figures below ours.
//!
//! Invariant: as in net/text.rs.
use super::CASES;
use crate::net::carried;
use crate::net::text::rows;
use crate::pairs::text::short;
use crate::published::network;
use crate::record::Record;

/// What is transferred, and how.
pub fn about(bytes: u64) -> String {
    format!(
        "a file of {} MB between vsftpd and curl, file to file in the temporary folder; MB/s (10^6) of the transfer itself, \
         without start and log-in; byway: both programs under one `byway run`",
        bytes / super::MB
    )
}

fn row(name: &str, cell: impl Fn(&str) -> String) -> String {
    let cells: String = CASES.iter().map(|c| format!("{:>12}", cell(c))).collect();
    format!("{name:<24}{cells}")
}

/// Ours above the source's.
pub fn table(record: &Record, backends: &[&str]) -> Vec<String> {
    let ours = |b: &str, case: &str| {
        let found = record.find(case, b, "rate");
        let mark = if carried::is_kernels(record, case, b) {
            carried::MARK
        } else {
            ""
        };
        found.map_or("-".into(), |r| short(r.median) + mark)
    };
    let all = network("ftp_520MB");
    let said = |row: &str, case: &str| {
        let mut all = all.iter();
        let found = all.find(|p| p.row == row && p.test == format!("FTP {case}"));
        found.map_or("-".into(), |p| short(p.value))
    };
    let mut lines = vec![String::new(), row("MB/s", |c| format!("FTP {c}"))];
    lines.extend(
        backends
            .iter()
            .map(|b| row(&format!("here, {b}"), |c| ours(b, c))),
    );
    if lines.iter().any(|l| l.contains(carried::MARK)) {
        lines.push(carried::LEGEND.into());
    }
    lines.push("other machines, published 2008: 520 MB".into());
    lines.extend(rows(&all).iter().map(|r| row(r, |c| said(r, c))));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_stand_above_what_was_published() {
        let mut r = Record::new("ftp");
        r.row("get", "kernel", ("rate", "MB/s", None), &[vec![1234.0]]);
        r.row("put", "byway", ("rate", "MB/s", None), &[vec![567.0]]);
        let lines = table(&r, &["kernel", "byway"]);
        assert_eq!(lines.len(), 2 + 2 + 1 + 2);
        assert!(lines[2].ends_with("1234           -"), "{}", lines[2]);
        assert!(lines[4].starts_with("other machines"));
        assert!(
            lines[5].starts_with("openSUSE (native)") && lines[5].ends_with("51.0        48.0")
        );
        carried::add(&mut r, "put", "byway", [carried::tests::run(0.0)].iter());
        let lines = table(&r, &["kernel", "byway"]);
        assert!(lines[3].ends_with("-        567*"), "{}", lines[3]);
        assert_eq!(lines[4], carried::LEGEND);
    }
}
