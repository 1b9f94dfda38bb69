//! The tables of the page.
//!
//! Invariant: every text that comes from a record is escaped; better and worse are said by a sign too, not by colour alone.
//! Not here: the frame around them (page.rs).
use super::{Named, short};
use crate::net::carried;
use crate::pairs::{BASE, fifo_text};
use crate::published;
use crate::record::{Clear, Ratio, Record};
use crate::stats::{self, Statistic};
use std::fmt::Write;

/// Text for HTML.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}

/// A table that can be moved sideways, also by keyboard. Cells are HTML; the first of each row is its heading.
pub fn table(class: &str, caption: &str, heads: &[String], rows: &[Vec<String>]) -> String {
    let mut t = format!(
        "<div class=\"wide {class}\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption><thead><tr>",
        escaped(caption)
    );
    for h in heads {
        let _ = write!(t, "<th scope=\"col\">{h}</th>");
    }
    t.push_str("</tr></thead><tbody>");
    for row in rows {
        t.push_str("<tr>");
        for (i, cell) in row.iter().enumerate() {
            let _ = match i {
                0 => write!(t, "<th scope=\"row\">{cell}</th>"),
                _ => write!(t, "<td>{cell}</td>"),
            };
        }
        t.push_str("</tr>");
    }
    t.push_str("</tbody></table></div>\n");
    t
}

fn heads(names: &[&str]) -> Vec<String> {
    names.iter().map(|n| escaped(n)).collect()
}

fn sign(q: &Ratio) -> (&'static str, &'static str) {
    match q.clear() {
        Clear::Better => ("better", "▲"),
        Clear::Worse => ("worse", "▼"),
        Clear::Neither => ("same", "="),
    }
}

/// An interval; of one round there is none.
pub fn range(ci95: [f64; 2], rounds: usize) -> String {
    if rounds == 1 {
        return "one round".into();
    }
    format!("{} – {}", short(ci95[0]), short(ci95[1]))
}

/// A line for each workload and pair: in how many cases better, worse, or neither.
pub fn overview(all: &[Named]) -> String {
    let mut rows = vec![];
    for n in all {
        let mut pairs: Vec<(&str, &str)> = vec![];
        for q in &n.record.ratios {
            if !pairs.contains(&(&q.backend, &q.over)) {
                pairs.push((&q.backend, &q.over));
            }
        }
        for (backend, over) in pairs {
            let own = n
                .record
                .ratios
                .iter()
                .filter(|q| q.backend == backend && q.over == over);
            let own: Vec<_> = own.collect();
            let count = |class: &str| {
                own.iter()
                    .filter(|q| sign(q).0 == class)
                    .count()
                    .to_string()
            };
            let values: Vec<f64> = own.iter().map(|q| q.ratio).collect();
            let median = stats::median(&values);
            let ends = [0.0, 100.0].map(|p| short(stats::percentile(&values, p)));
            rows.push(vec![
                format!("<a href=\"#{}\">{}</a>", n.name, escaped(&n.name)),
                format!("{} over {}", escaped(backend), escaped(over)),
                format!("<b>{}</b>", short(median)),
                own.len().to_string(),
                count("better"),
                count("same"),
                count("worse"),
                format!("{} to {}", ends[0], ends[1]),
            ]);
        }
    }
    let h = [
        "workload",
        "compared",
        "times better (median)",
        "cases",
        "better ▲",
        "neither =",
        "worse ▼",
        "worst to best case",
    ];
    table(
        "",
        "All comparisons: a case is better or worse if its whole 95 % interval is",
        &heads(&h),
        &rows,
    )
}

/// The ratios of a record, case by case.
pub fn ratios(r: &Record) -> String {
    if r.ratios.is_empty() {
        return String::new();
    }
    let row = |q: &Ratio| {
        let (class, sign) = sign(q);
        vec![
            escaped(&q.case),
            format!("{} over {}", escaped(&q.backend), escaped(&q.over)),
            escaped(&q.metric.replace('_', " ")),
            format!("<span class=\"{class}\">{sign} {}</span>", short(q.ratio)),
            range(q.ci95, q.rounds),
            format!("{:.0} %", 100.0 * Ratio::less_time(q.ratio)),
            format!("{:.0} %", 100.0 * Ratio::more_throughput(q.ratio)),
        ]
    };
    let h = [
        "case",
        "compared",
        "metric",
        "times better",
        "95 % interval",
        "less time",
        "more throughput",
    ];
    let rows: Vec<_> = r.ratios.iter().map(row).collect();
    table(
        "",
        &format!("{}: comparison by case", r.workload),
        &heads(&h),
        &rows,
    )
}

/// The figures of a record.
pub fn figures(r: &Record) -> String {
    let percents: Vec<f64> = (r.results.iter().map(|w| &w.percentiles))
        .find(|p| !p.is_empty())
        .map_or(vec![], |p| p.iter().map(|p| p[0]).collect());
    let row = |w: &crate::record::Row| {
        let of = match w.statistic {
            Statistic::Median => "",
            Statistic::Mean => " (mean)",
        };
        let mut v = vec![
            escaped(&w.case),
            escaped(&w.backend),
            format!("{}{of}", escaped(&w.metric.replace('_', " "))),
            format!("{} {}", short(w.median), escaped(&w.unit)),
            range(w.ci95, if w.n == 1 { 1 } else { w.samples.len() }),
            w.n.to_string(),
            w.outliers.to_string(),
        ];
        for p in &percents {
            let found = w.percentiles.iter().find(|q| q[0] == *p);
            v.push(found.map_or("–".into(), |q| short(q[1])));
        }
        v
    };
    let mut h = heads(&[
        "case",
        "backend",
        "metric",
        "median",
        "95 % interval",
        "samples",
        "far out",
    ]);
    h.extend(percents.iter().map(|p| format!("{p} %")));
    let rows: Vec<_> = r.results.iter().map(row).collect();
    table("", &format!("{}: figures", r.workload), &h, &rows)
}

/// The published tables of a workload; nothing for most.
pub fn published(workload: &str) -> String {
    let mut out = String::new();
    for t in published::tables(workload) {
        let caption = format!("Published, another machine: {} ({})", t.title, t.source);
        let mut h = vec![escaped(t.unit)];
        h.extend(t.columns.iter().map(|c| escaped(c)));
        let cell = |v: &Option<f64>| v.map_or("–".into(), |v| v.to_string());
        let rows: Vec<_> = (t.rows.iter())
            .map(|(name, cells)| {
                [escaped(name)]
                    .into_iter()
                    .chain(cells.iter().map(cell))
                    .collect()
            })
            .collect();
        out.push_str(&table("elsewhere", &caption, &h, &rows));
    }
    out
}

/// Ours of a record as its source has them; nothing where the source has no table.
pub fn ours(n: &Named) -> String {
    let r = &n.record;
    if published::tables(&r.workload).is_empty() {
        return String::new();
    }
    match &r.workload[..] {
        "fifo" => grid(n),
        "netperf" | "ftp" => networks(n),
        _ => improvements(n),
    }
}

/// Whose figures a table of ours has: the machine, and which record where there are several of a workload.
fn whose(n: &Named) -> String {
    let cpus = match n.record.affinity.len() {
        0 => String::new(),
        1 => ", 1 CPU".into(),
        c => format!(", {c} CPUs"),
    };
    format!("This machine, {}{cpus}", n.name)
}

/// Ours by size and count, in the source's rows and columns: means, as the source has them.
fn grid(n: &Named) -> String {
    let r = &n.record;
    let mut out = String::new();
    let Some(t) = published::tables(&r.workload).into_iter().next() else {
        return out;
    };
    let mut backends: Vec<&str> = vec![];
    for w in r.results.iter().filter(|w| w.statistic == Statistic::Mean) {
        if !backends.contains(&&w.backend[..]) {
            backends.push(&w.backend);
        }
    }
    for b in backends {
        let cell = |row: &str, column: &str| {
            let found = r.find(&format!("{row}x{column}"), b, fifo_text::MEAN);
            found.map_or("–".into(), |w| short(w.median))
        };
        let mut h = vec!["us".to_string()];
        h.extend(t.columns.iter().map(|c| escaped(c)));
        let rows: Vec<_> = (t.rows.iter())
            .map(|(row, _)| {
                let cells = t.columns.iter().map(|c| cell(row, c));
                [escaped(row)].into_iter().chain(cells).collect()
            })
            .collect();
        let caption = format!(
            "{}, {b}: mean time by message size (rows, bytes) and number of messages (columns); {}",
            whose(n),
            fifo_text::counted(r)
        );
        out.push_str(&table("numbers", &caption, &h, &rows));
    }
    out
}

/// Ours of the network in the columns of the source's first table: a row for each backend.
fn networks(n: &Named) -> String {
    let r = &n.record;
    let Some(t) = published::tables(&r.workload).into_iter().next() else {
        return String::new();
    };
    let mut backends: Vec<&str> = vec![];
    for w in &r.results {
        if !backends.contains(&&w.backend[..]) {
            backends.push(&w.backend);
        }
    }
    let cell = |b: &str, column: &str| {
        let (case, metric) = measured(column);
        let mark = if carried::is_kernels(r, case, b) {
            carried::MARK
        } else {
            ""
        };
        let found = metric.iter().find_map(|m| r.find(case, b, m));
        found.map_or("–".into(), |w| short(w.median) + mark)
    };
    let mut h = vec![escaped(t.unit)];
    h.extend(t.columns.iter().map(|c| escaped(c)));
    let rows: Vec<_> = (backends.iter())
        .map(|b| {
            let cells = t.columns.iter().map(|c| cell(b, c));
            [escaped(b)].into_iter().chain(cells).collect()
        })
        .collect();
    let caption = format!(
        "{}, in the columns of the source; {}",
        whose(n),
        carried::LEGEND
    );
    table("numbers", &caption, &h, &rows)
}

/// The case that a published column is of, and its metric: the first of these that there is.
fn measured(column: &str) -> (&str, &'static [&'static str]) {
    match column.rsplit_once(' ') {
        Some((case, "send")) => (case, &["send"]),
        Some((case, "recv")) => (case, &["receive"]),
        Some(("FTP", case)) => (case, &["rate"]),
        // Of datagrams the source has one figure, or both sides'; ours are both sides'.
        _ if column == "UDP_STREAM" => (column, &[]),
        _ => (column, &["receive", "rate"]),
    }
}

/// Ours as the source says it: percent over base, or else over whom all are compared with.
fn improvements(n: &Named) -> String {
    let r = &n.record;
    let base = r.ratios.iter().find(|q| q.over == BASE);
    let Some(over) = base.or(r.ratios.first()).map(|q| &q.over) else {
        return String::new();
    };
    let own = || r.ratios.iter().filter(|q| q.over == *over);
    let (mut cases, mut backends): (Vec<&str>, Vec<&str>) = (vec![], vec![]);
    for q in own() {
        if !cases.contains(&&q.case[..]) {
            cases.push(&q.case);
        }
        if !backends.contains(&&q.backend[..]) {
            backends.push(&q.backend);
        }
    }
    let cell = |case: &str, b: &str| {
        let found = own().find(|q| q.case == case && q.backend == b);
        found.map_or("–".into(), |q| {
            format!("{:.0}", 100.0 * Ratio::more_throughput(q.ratio))
        })
    };
    let mut h = vec!["%".to_string()];
    h.extend(backends.iter().map(|b| escaped(b)));
    let row = |c: &&str| {
        [escaped(c)]
            .into_iter()
            .chain(backends.iter().map(|b| cell(c, b)))
            .collect()
    };
    let rows: Vec<_> = cases.iter().map(row).collect();
    table(
        "numbers",
        &format!(
            "{}: improvement over {over}, more throughput, by case",
            whose(n)
        ),
        &h,
        &rows,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::some;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(
            escaped("<a href=\"x\">&"),
            "&lt;a href=&quot;x&quot;&gt;&amp;"
        );
        let all = some();
        for n in &all {
            for t in [ratios(&n.record), figures(&n.record), ours(n)] {
                assert!(
                    !t.contains("<b>two") && !t.contains("row\"><b>"),
                    "{}",
                    n.name
                );
            }
        }
        assert!(figures(&all[2].record).contains("&lt;b&gt;"));
    }

    #[test]
    fn better_and_worse_have_signs() {
        let t = ratios(&some()[0].record);
        assert!(
            t.contains("▲ 4.984") && t.contains("80 %") && t.contains("398 %"),
            "{t}"
        );
    }

    #[test]
    fn published_figures_are_marked_and_ours_stand_in_their_order() {
        let all = some();
        let t = published("fifo");
        assert_eq!(t.matches("class=\"wide elsewhere\"").count(), 2);
        assert_eq!(t.matches("Published, another machine").count(), 4);
        assert!(ours(&all[0]).contains("kernel-fifo: mean time"));
        assert!(ours(&all[1]).contains("improvement over kernel-64k"));
        assert!(published("odd").is_empty() && ours(&all[2]).is_empty());
    }

    #[test]
    fn the_network_has_a_row_for_each_backend_and_says_what_was_not_carried() {
        let mut r = Record::new("netperf");
        for b in ["kernel", "byway"] {
            for (case, metric) in [
                ("UDP_STREAM", "receive"),
                ("UDP_STREAM", "send"),
                ("TCP_STREAM", "receive"),
                ("TCP_RR", "rate"),
            ] {
                r.row(case, b, (metric, "x", None), &[vec![1234.0]]);
            }
        }
        carried::add(
            &mut r,
            "TCP_STREAM",
            "byway",
            [carried::tests::run(0.0)].iter(),
        );
        carried::add(&mut r, "TCP_RR", "byway", [carried::tests::run(1.0)].iter());
        let named = |record: Record| Named {
            name: record.workload.clone(),
            record,
        };
        let t = networks(&named(r));
        let row = |name: &str| {
            let after = t.split_once(&format!("<th scope=\"row\">{name}</th>"));
            let cells = after.unwrap().1.split_once("</tr>").unwrap().0;
            cells.replace("<td>", "").replace("</td>", "|")
        };
        assert_eq!(row("kernel"), "–|1234|–|1234|1234|1234|");
        assert_eq!(row("byway"), "–|1234*|–|1234|1234|1234|");
        let mut r = Record::new("ftp");
        r.row("get", "byway", ("rate", "MB/s", None), &[vec![77.0]]);
        assert!(networks(&named(r)).contains("<td>77.0</td><td>–</td>"));
    }

    #[test]
    fn the_overview_has_every_pair() {
        let t = overview(&some());
        assert_eq!(t.matches("auto over kernel-64k").count(), 3);
    }
}
