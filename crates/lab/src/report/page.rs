//! The page: one file with its style, its script and the library that draws.
//!
//! Invariant: nothing is loaded: the page's own policy allows only what is in it. Without script its tables say all. What
//! may make every figure worthless stands before them, unfolded.
//! Not here: what is drawn (summary.rs, plot.rs), tables (tables.rs).
use super::svg::forest::{self, Shape};
use super::tables::{escaped, figures, ours, overview, published, ratios, table};
use super::{Named, plot, short, summary};
use crate::noise::Noise;
use crate::record::{End, Ratio, Record};
use crate::runner::Ended;
use std::fmt::Write;

pub const UPLOT: &str = include_str!("../../assets/uPlot.iife.min.js");
pub const UPLOT_CSS: &str = include_str!("../../assets/uPlot.min.css");
const UPLOT_LICENSE: &str = include_str!("../../assets/uPlot.LICENSE");
const STYLE: &str = include_str!("../../assets/report.css");
const SCRIPT: &str = include_str!("../../assets/report.js");
const MORE_STYLE: &str = include_str!("page.css");
const AXES: &str = include_str!("axes.js");

/// The page of all records.
pub fn page(all: &[Named]) -> String {
    let mut p = begin("byway bench: report");
    p.push_str(&opening(all));
    let beside = beside(all);
    p.push_str(&head(all, !beside.is_empty()));
    p.push_str(&beside);
    p.push_str(
        "<section><details><summary><h2>Every comparison</h2></summary><div id=\"comparison\">\n",
    );
    p.push_str(&overview(all));
    let _ = writeln!(
        p,
        "<p>Times better: above 1 the first does better than the second, whatever the metric. A ratio of 1.5 is {:.0} % less \
         time for the same work (1 − 1/ratio), or {:.0} % more throughput in the same time (ratio − 1). Intervals are 95 % \
         bootstrap intervals of medians; a ratio compares neighbouring runs only.</p></div></details></section>",
        100.0 * Ratio::less_time(1.5),
        100.0 * Ratio::more_throughput(1.5)
    );
    all.iter().for_each(|n| part(&mut p, n));
    let footer = format!(
        "<p>Plots: values appear under the pointer, or with the arrow keys once a plot has the focus. Every value stands in \
         a table too.</p><details><summary>uPlot 1.6.32, which draws them: licence</summary><pre>{}</pre></details>",
        escaped(UPLOT_LICENSE)
    );
    end(&mut p, &footer, true);
    p
}

/// The head of a page and its heading.
pub fn begin(title: &str) -> String {
    let mut p = String::from("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n");
    p.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    p.push_str(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n<link rel=\"icon\" href=\"data:,\">\n",
    );
    let _ = writeln!(
        p,
        "<title>{title}</title>\n<style>{UPLOT_CSS}\n{STYLE}\n{MORE_STYLE}</style></head><body>"
    );
    let _ = writeln!(
        p,
        "<header><h1>{title}</h1><button id=\"theme\" type=\"button\">dark or light</button></header>\n<main>"
    );
    p
}

/// The end of a page; with what draws plots, if it has some.
pub fn end(p: &mut String, footer: &str, has_plots: bool) {
    let _ = writeln!(p, "</main>\n<footer>{footer}</footer>");
    if has_plots {
        let _ = writeln!(p, "<script>{UPLOT}</script>\n<script>{AXES}</script>");
    }
    let _ = writeln!(p, "<script>{SCRIPT}</script></body></html>");
}

/// One sentence, one picture, and how to read it.
fn opening(all: &[Named]) -> String {
    let rows = summary::rows(all);
    let sentence = summary::sentence(&rows);
    let mut h = format!(
        "<section id=\"summary\"><h2 class=\"say\">{}</h2>\n",
        escaped(&sentence)
    );
    if !rows.is_empty() {
        for shape in [Shape::Desk, Shape::Phone] {
            h.push_str(&forest::draw(&rows, &sentence, forest::AXIS, shape));
        }
        let _ = writeln!(
            h,
            "<p class=\"legend\">{}</p>\n<details><summary>The picture as a table</summary>\n{}</details>",
            summary::legend(&rows),
            summary::rows_table(&rows)
        );
    }
    h.push_str("</section>\n");
    h
}

/// Ours and the published tables, by workload; nothing where no record has a source with tables.
fn beside(all: &[Named]) -> String {
    let mut workloads: Vec<&str> = vec![];
    for n in all {
        if !workloads.contains(&&n.record.workload[..]) {
            workloads.push(&n.record.workload);
        }
    }
    let mut h = String::new();
    for w in workloads {
        let theirs = published(w);
        if theirs.is_empty() {
            continue;
        }
        let own = all.iter().filter(|n| n.record.workload == w).map(ours);
        let own: String = own.collect();
        let _ = writeln!(
            h,
            "<h3>{}</h3>\n<div class=\"beside\">\n{theirs}{own}</div>",
            escaped(w)
        );
    }
    if h.is_empty() {
        return h;
    }
    format!(
        "<section id=\"published\"><h2>Beside the published figures</h2>\n<p>The published figures are of other machines: no \
         ratio is made with them.</p>\n{h}</section>\n"
    )
}

/// The machines, what is to be known before any figure, and where everything is.
fn head(all: &[Named], has_published: bool) -> String {
    let mut machines: Vec<String> = vec![];
    for n in all {
        let m = machine(&n.record);
        if !machines.contains(&m) {
            machines.push(m);
        }
    }
    let mut h = String::new();
    if machines.len() > 1 {
        h.push_str("<p class=\"warning\"><b>Records of different machines or kernels:</b> figures of one part cannot be compared with those of another.</p>");
    }
    for m in &machines {
        let _ = writeln!(h, "<p>{}</p>", escaped(m));
    }
    let partial: Vec<_> = all
        .iter()
        .filter(|n| n.record.partial)
        .map(|n| escaped(&n.name))
        .collect();
    if !partial.is_empty() {
        let _ = writeln!(
            h,
            "<p class=\"warning\"><b>Partial, interrupted:</b> {}</p>",
            partial.join(", ")
        );
    }
    let wrong = all.iter().filter(|n| !n.record.faults.is_empty());
    for n in wrong {
        let faults: Vec<_> = n.record.faults.iter().map(|f| escaped(f)).collect();
        let _ = writeln!(
            h,
            "<p class=\"warning\"><b>Wrong, {}:</b> {}</p>",
            escaped(&n.name),
            faults.join("; ")
        );
    }
    h.push_str("<nav aria-label=\"Parts\"><a href=\"#summary\">Summary</a>");
    if has_published {
        h.push_str(" <a href=\"#published\">Published</a>");
    }
    h.push_str(" <a href=\"#comparison\">Every comparison</a>");
    for n in all {
        let _ = write!(h, " <a href=\"#{0}\">{1}</a>", n.name, escaped(&n.name));
    }
    h.push_str("</nav>\n");
    h
}

pub fn machine(r: &Record) -> String {
    let m = &r.machine;
    format!(
        "{}, {} CPUs, {} MiB, Linux {}, {}",
        m.cpu, m.cpus, m.memory_mib, m.kernel, m.libc
    )
}

/// The part of one record, folded: its plots, the comparison first, its tables, how it was measured.
fn part(p: &mut String, n: &Named) {
    let r = &n.record;
    let warnings = match r.warnings.len() {
        0 => String::new(),
        1 => "; 1 warning".into(),
        n => format!("; {n} warnings"),
    };
    let _ = writeln!(
        p,
        "<section><details><summary><h2>{0}</h2> <span class=\"made\">{1}, commit {2}{warnings}{3}</span></summary>\n\
         <div id=\"{0}\"><p class=\"made\">{4}</p>",
        escaped(&n.name),
        day(r.machine.time),
        escaped(&r.commit),
        if r.partial {
            "; <b>partial: interrupted</b>"
        } else {
            ""
        },
        escaped(&machine(r))
    );
    for w in &r.warnings {
        let _ = writeln!(
            p,
            "<p class=\"warning\">{}. <i>{}.</i></p>",
            escaped(&w.text),
            escaped(&w.remedy)
        );
    }
    let plots = plot::plots(&n.name, r);
    p.push_str("<div class=\"plots\">");
    plots.iter().for_each(|q| figure(p, q));
    p.push_str("</div>\n");
    p.push_str(&ratios(r));
    let _ = writeln!(
        p,
        "<details><summary>All figures of {}</summary>\n{}</details>",
        escaped(&n.name),
        figures(r)
    );
    let _ = writeln!(
        p,
        "<details><summary>How it was measured</summary>\n{}</details></div></details></section>",
        how(r)
    );
}

/// Its plot, its keys, and a line that says the values.
fn figure(p: &mut String, q: &plot::Plot) {
    let data = serde_json::to_string(q)
        .unwrap_or_default()
        .replace('<', "\\u003c");
    let _ = writeln!(
        p,
        "<figure class=\"plot\" id=\"{}\"><figcaption>{}</figcaption><div class=\"keys\"></div><div class=\"canvas\"></div>\
         <p class=\"readout\" aria-live=\"polite\"></p><script type=\"application/json\">{data}</script></figure>",
        q.id,
        escaped(&q.title)
    );
}

fn how(r: &Record) -> String {
    let mut h = String::from("<ul>");
    let mut item = |text: String| {
        let _ = write!(h, "<li>{text}</li>");
    };
    let command = r.command.join(" ");
    item(format!("command: <code>{}</code>", escaped(&command)));
    let cpus: Vec<_> = r.affinity.iter().map(usize::to_string).collect();
    item(format!("CPUs: {}", cpus.join(", ")));
    for (name, value) in &r.parameters {
        item(format!(
            "{}: {}",
            escaped(&name.replace('_', " ")),
            escaped(&value.to_string())
        ));
    }
    if let Some(l) = &r.limits {
        item(format!(
            "until the intervals are narrower than {} %, within {} s; {} to {} rounds after {} to warm up",
            short(100.0 * l.width),
            short(l.time),
            l.least,
            l.most,
            l.warm
        ));
    }
    for o in &r.overhead {
        item(format!(
            "harness: {} takes {} {}; that is in the figures",
            escaped(&o.what),
            short(o.value),
            escaped(&o.unit)
        ));
    }
    if let Some(n) = &r.noise {
        meanwhile(n).into_iter().for_each(&mut item);
    }
    r.notes.iter().for_each(|n| item(escaped(n)));
    h.push_str("</ul>\n");
    h.push_str(&ended(r));
    h
}

/// What the machine did while the record was measured.
fn meanwhile(n: &Noise) -> Vec<String> {
    let mut v = vec![format!(
        "meanwhile other guests had {} % of the CPUs' time, other programs {} %; load {} before; {} involuntary switches, {} moves between CPUs in a second of ours",
        short(100.0 * n.steal),
        short(100.0 * n.others),
        short(n.load),
        short(n.switches),
        n.migrations.map_or("unknown".into(), short)
    )];
    for i in &n.ipc {
        v.push(format!(
            "between the runs CPU {} did {} additions in a cycle, at most {} ({} looks); less than at most: another hardware thread of its core was at work",
            i.cpu,
            short(i.median),
            short(i.most),
            i.looks
        ));
    }
    v
}

/// How each case ended, as a table; nothing without cases.
fn ended(r: &Record) -> String {
    let row = |e: &End| {
        let by = match e.by {
            Ended::Width => "narrow enough",
            Ended::Time => "time spent",
            Ended::Rounds => "rounds spent",
            Ended::Interrupt => "interrupted",
        };
        vec![
            escaped(&e.case),
            by.into(),
            e.rounds.to_string(),
            short(e.seconds),
            e.width
                .map_or("–".into(), |w| format!("{} %", short(100.0 * w))),
        ]
    };
    if r.ended.is_empty() {
        return String::new();
    }
    let heads = ["case", "ended", "rounds", "seconds", "widest interval"].map(String::from);
    let rows: Vec<_> = r.ended.iter().map(row).collect();
    let caption = format!("{}: how each case ended", r.workload);
    table("", &caption, &heads, &rows)
}

/// The day of a time in seconds since 1970, UTC (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
pub fn day(seconds: u64) -> String {
    let z = seconds / 86_400 + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let (d, m) = (
        doy - (153 * mp + 2) / 5 + 1,
        if mp < 10 { mp + 3 } else { mp - 9 },
    );
    let y = yoe + era * 400 + u64::from(m <= 2);
    format!("{y:04}-{m:02}-{d:02}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::some;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_795_245_482), "2026-11-21");
    }

    #[test]
    fn the_page_needs_nothing_else_and_compares_first() {
        let all = some();
        let p = page(&all);
        assert!(p.contains("default-src 'none'"));
        for load in ["src=\"http", "href=\"http", "@import", "url(http"] {
            assert!(!p.contains(load), "{load}");
        }
        let at = |s: &str| p.find(s).unwrap_or(usize::MAX);
        let order = ["summary", "published", "comparison", "fifo"];
        let places = order.map(|id| at(&format!("id=\"{id}\"")));
        assert!(places.is_sorted() && places[3] < usize::MAX, "{places:?}");
        assert!(at("fifo-ratio-kernel-64k-100") < at("fifo-elapsed-100"));
        assert!(p.contains("The MIT License") && !p.contains("Records of different machines"));
        // Without a source's tables there is neither their part nor a link to it.
        let odd = page(&all[2..]);
        assert!(p.contains("\"#published\"") && !odd.contains("published\""));
        // The plots' data cannot end their script.
        assert!(!p.contains("\"<b>\""));
        assert_eq!(
            p.matches("<section").count(),
            p.matches("</section").count()
        );
        assert_eq!(
            p.matches("<details>").count(),
            p.matches("</details>").count()
        );
    }

    #[test]
    fn what_is_partial_or_of_elsewhere_is_said_first() {
        let mut all = some();
        all[1].record.partial = true;
        all[2].record.machine.cpu = "another".into();
        let p = page(&all);
        let first = p.split("<details><summary><h2>").next().unwrap_or("");
        assert!(first.contains("Partial, interrupted:</b> bw-pipe"));
        assert!(first.contains("Records of different machines"));
        all[0].record.faults.push("<i> differs".into());
        let p = page(&all);
        let first = p.split("<details><summary><h2>").next().unwrap_or("");
        assert!(first.contains("Wrong, fifo:</b> &lt;i&gt; differs"));
    }
}
