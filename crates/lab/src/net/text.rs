//! What the tables of the network share: a line for each backend of a case, and the figures that were published.
//!
//! Invariant: no line is longer than 79 characters; published figures never stand without the words that they are of
//! another machine, and no ratio is made of the two.
//! Not here: the tables themselves (netpipe/text.rs, netperf/text.rs, ftp/text.rs).
//!
//! Source: published/netstack_haiku_2008.csv, from "Benchmarks für Networking Stack" (30 July 2008; Oliver Tappe's figures).
use crate::pairs::text::short;
use crate::record::Record;

const CSV: &str = include_str!("../../published/netstack_haiku_2008.csv");
/// What is said of them in the record.
pub const SOURCE: &str = "published figures: O. Tappe, July 2008, with netperf -f M (MB: 2^20 bytes) and FTP, on machines of his: other \
     machines and other systems, no ratio is made with them";

/// A line of the published tables.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    pub table: &'static str,
    pub system: &'static str,
    /// `before` or `after` the changes that the source is about.
    pub state: &'static str,
    pub virtualised: bool,
    pub test: &'static str,
    /// `send` or `recv`, where the source tells them apart.
    pub direction: &'static str,
    pub value: f64,
}

impl Published {
    /// The row of the source that it is in.
    pub fn row(&self) -> String {
        let what = if self.virtualised { "VM" } else { "native" };
        format!("{} ({what}) {}", self.system, self.state)
            .trim_end()
            .into()
    }
}

/// All of a table, in its order.
pub fn published(table: &str) -> Vec<Published> {
    let all = CSV.lines().skip(1).filter_map(|l| {
        let f: Vec<&'static str> = l.trim().split(',').collect();
        let [table, system, state, virtualised, test, direction, value, _] = f[..] else {
            return None;
        };
        Some(Published {
            table,
            system,
            state,
            virtualised: virtualised == "yes",
            test,
            direction,
            value: value.parse().ok()?,
        })
    });
    all.filter(|p| p.table == table).collect()
}

/// Its rows, in its order, without those that repeat.
pub fn rows(published: &[Published]) -> Vec<String> {
    let mut v: Vec<String> = vec![];
    for row in published.iter().map(Published::row) {
        if !v.contains(&row) {
            v.push(row);
        }
    }
    v
}

/// The heading of the lines of `lines`.
pub fn heading(over: &str) -> String {
    format!(
        "{:<13}{:<9}{:<9}{:>10} {:<6}{:<17}{:>13}",
        "case",
        "backend",
        "metric",
        "median",
        "unit",
        "95 %",
        format!("x {over}")
    )
}

/// A line for each metric of each backend of `case`.
pub fn lines(record: &Record, case: &str, over: &str) -> Vec<String> {
    let rows = record.results.iter().filter(|r| r.case == case);
    let line = |r: &crate::record::Row| {
        let found = record.ratios.iter().find(|q| {
            q.case == case && q.backend == r.backend && q.metric == r.metric && q.over == over
        });
        let ratio = found.map_or(String::new(), |q| short(q.ratio));
        let range = format!("{}-{}", short(r.ci95[0]), short(r.ci95[1]));
        format!(
            "{:<13}{:<9}{:<9}{:>10} {:<6}{range:<17}{ratio:>13}",
            r.case,
            r.backend,
            r.metric,
            short(r.median),
            r.unit
        )
        .trim_end()
        .to_string()
    };
    rows.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Better;

    #[test]
    fn every_published_figure_is_read() {
        let n = |t: &str| published(t).len();
        assert_eq!(
            n("localhost") + n("lan") + n("ftp_520MB"),
            CSV.lines().count() - 1
        );
        assert_eq!((n("localhost"), n("lan"), n("ftp_520MB")), (36, 8, 4));
        let all = published("localhost");
        assert_eq!(rows(&all)[0], "Ubuntu (VM)");
        assert_eq!(rows(&all)[7], "Haiku (native) after");
        assert_eq!(all[4].direction, "send");
        assert_eq!((all[4].test, all[4].value), ("UDP_STREAM", 182.0));
    }

    #[test]
    fn fits_eighty_columns() {
        let mut r = Record::new("netperf");
        let v = [vec![123_456.7], vec![199_999.9]];
        for b in ["kernel", "byway"] {
            r.row("UNIX_STREAM", b, ("receive", "MiB/s", None), &v);
        }
        r.ratio(
            "UNIX_STREAM",
            "receive",
            Better::More,
            ("byway", &v),
            ("kernel", &v),
        );
        let lines = lines(&r, "UNIX_STREAM", "kernel");
        assert_eq!(lines.len(), 2);
        for l in lines.iter().chain([&heading("kernel")]) {
            assert!(l.len() < 80, "{l}");
        }
        assert!(lines[1].ends_with("1.00") && !lines[0].ends_with("1.00"));
    }
}
