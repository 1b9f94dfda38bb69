//! What the tables of the network share: a line for each backend of a case, and the figures that were published.
//!
//! Invariant: no line is longer than 79 characters; published figures never stand without the words that they are of
//! another machine, and no ratio is made of the two.
//! Not here: the tables themselves (netpipe/text.rs, netperf/text.rs, ftp/text.rs), the published figures (published.rs).
use crate::pairs::text::short;
use crate::published::Network;
use crate::record::Record;

/// What is said of the published figures in the record.
pub const SOURCE: &str = "published figures: O. Tappe, July 2008, with netperf -f M (MB: 2^20 bytes) and FTP, on machines of his: other \
     machines and other systems, no ratio is made with them";

/// The rows of a published table, in their order.
pub fn rows(published: &[Network]) -> Vec<String> {
    let mut v: Vec<String> = vec![];
    for n in published {
        if !v.contains(&n.row) {
            v.push(n.row.clone());
        }
    }
    v
}

/// The heading of the lines of `lines`.
pub fn heading(over: &str) -> String {
    format!(
        "{:<21}{:<9}{:<8}{:>10} {:<6}{:<15}{:>9}",
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
            "{:<21}{:<9}{:<8}{:>10} {:<6}{range:<15}{ratio:>9}",
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
    fn rows_keep_their_order() {
        let v = rows(&crate::published::network("localhost"));
        assert_eq!(
            (v.len(), &v[0][..], &v[7][..]),
            (8, "Ubuntu (VM)", "Haiku (native) after")
        );
    }

    #[test]
    fn fits_eighty_columns() {
        let mut r = Record::new("netperf");
        let case = "UNIX_STREAM-64k@1cpu";
        let v = [vec![123_456.7], vec![199_999.9]];
        for b in ["kernel", "byway"] {
            r.row(case, b, ("receive", "MiB/s", None), &v);
        }
        r.ratio(case, "receive", Better::More, ("byway", &v), ("kernel", &v));
        let lines = lines(&r, case, "kernel");
        assert_eq!(lines.len(), 2);
        for l in lines.iter().chain([&heading("kernel")]) {
            assert!(l.len() < 80, "{l}");
        }
        assert!(lines[1].ends_with("1.00") && !lines[0].ends_with("1.00"));
    }
}
