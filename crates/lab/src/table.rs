//! A record as text for a terminal of 80 columns: the lines of pipelines, and what stands below every table.
//!
//! Invariant: no line is longer than 79 characters, but for a word that is; no colours.
//! Not here: statistics; the tables of workloads (pairs/text.rs, mbuf/text.rs).
use crate::record::{Ratio, Record};
use crate::runner::Ended;

/// The heading of the lines of `line`, with what is in the first column.
pub fn heading(first: &str) -> String {
    format!(
        "{:<18}{:>11}{:>11}{:>8}  {:<13}{}",
        first, "plain", "byway", "ratio", "95 %", "same"
    )
}

/// A time with its unit, in five or six characters.
pub fn time(s: f64) -> String {
    match s {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.2} us", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// One line after its name: medians of both sides, the ratio with its interval, whether the outputs were the same.
pub fn line(record: &Record, ratio: &Ratio, name: &str, same: bool) -> String {
    let of = |backend: &str| {
        record
            .results
            .iter()
            .find(|r| r.case == ratio.case && r.backend == backend && r.metric == ratio.metric)
            .map_or(String::new(), |r| time(r.median))
    };
    format!(
        "{:<18}{:>11}{:>11}{:>8.2}  {:<13}{}",
        name,
        of(&ratio.over),
        of(&ratio.backend),
        ratio.ratio,
        if ratio.rounds == 1 {
            "-".into()
        } else {
            format!("{:.2}-{:.2}", ratio.ci95[0], ratio.ci95[1])
        },
        if same { "yes" } else { "NO" }
    )
}

/// `text` after `head`, in lines that fit.
pub fn wrapped(head: &str, text: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    let mut line = head.to_string();
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 79 {
            lines.push(std::mem::replace(&mut line, " ".repeat(head.len())));
        }
        line = format!("{line} {word}");
    }
    lines.push(line);
    lines
}

/// Cases that are named; the record has all.
const MOST: usize = 12;

/// What stands below the table of any record: how it ended, what the harness takes, notes, warnings.
pub fn footer(r: &Record) -> Vec<String> {
    let mut lines = vec![];
    let wanted = r.limits.as_ref().map_or(0.0, |l| l.width);
    for (by, text) in [
        (
            Ended::Width,
            format!("95 % intervals narrower than {:.3} % in", 100.0 * wanted),
        ),
        (Ended::Time, "the time was spent in".into()),
        (Ended::Rounds, "the rounds were spent in".into()),
        (Ended::Interrupt, "interrupted in".into()),
    ] {
        let cases: Vec<_> = (r.ended.iter().filter(|e| e.by == by))
            .map(|e| format!("{} ({})", e.case, e.rounds))
            .collect();
        if !cases.is_empty() {
            let text = text.replace(".000 %", " %");
            let rest = cases.len().saturating_sub(MOST);
            let more = if rest > 0 {
                format!(" and {rest} more")
            } else {
                String::new()
            };
            let first = cases[..cases.len() - rest].join(", ");
            lines.extend(wrapped("ended:", &format!("{text} {first}{more}")));
        }
    }
    if !r.ended.is_empty() {
        let text = "in brackets: rounds that count; a ratio of 1.50 is 33 % less time (1 - 1/ratio), or 50 % more throughput \
                    (ratio - 1)";
        lines.extend(wrapped("      ", text));
    }
    let takes = r
        .overhead
        .iter()
        .map(|o| format!("{} {}", o.what, with_unit(o.value, &o.unit)));
    let takes: Vec<_> = takes.collect();
    if !takes.is_empty() {
        let text = format!("{}; that is in the figures", takes.join(", "));
        lines.extend(wrapped("harness:", &text));
    }
    for n in &r.notes {
        lines.extend(wrapped("note:", n));
    }
    for w in &r.warnings {
        lines.extend(wrapped("warning:", &format!("{}: {}", w.text, w.remedy)));
    }
    lines.extend(faults(r));
    lines
}

/// The lines of the footer that no table may be without: what went wrong, and that it is not all.
pub fn faults(r: &Record) -> Vec<String> {
    let mut lines: Vec<_> = (r.faults.iter())
        .flat_map(|f| wrapped("WRONG:", f))
        .collect();
    if r.partial {
        let text = "interrupted: this is what was complete, and the record says that it is partial";
        lines.extend(wrapped("PARTIAL:", text));
    }
    lines
}

fn with_unit(value: f64, unit: &str) -> String {
    if value < 10.0 {
        format!("{value:.1} {unit}")
    } else {
        format!("{value:.0} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, End, Wanted};

    #[test]
    fn fits_eighty_columns() {
        let mut r = Record::new("demo");
        let case = "python-lines@1cpu";
        for b in ["kernel", "byway"] {
            r.row(case, b, ("wall", "s", None), &[vec![123.456], vec![124.0]]);
        }
        let (a, b) = ([vec![500.0]], [vec![0.01]]);
        r.ratio(case, "wall", Better::Less, ("byway", &b), ("kernel", &a));
        assert!(line(&r, &r.ratios[0], case, false).len() < 80);
        assert!(heading("pipeline").len() < 80);
    }

    #[test]
    fn a_note_keeps_its_words() {
        let text = "word ".repeat(60);
        let v = wrapped("note:", &text);
        assert!(v.len() > 1 && v.iter().all(|l| l.len() < 80));
        assert_eq!(v.join(" ").split_whitespace().count(), 61);
    }

    #[test]
    fn the_footer_says_how_it_ended() {
        let mut r = Record::new("t");
        for (case, by) in [("a", Ended::Width), ("b", Ended::Time), ("c", Ended::Width)] {
            r.ended.push(End {
                case: case.into(),
                by,
                rounds: 7,
                seconds: 1.0,
                width: None,
            });
        }
        r.limits = Some(Wanted {
            width: 0.05,
            time: 1.0,
            least: 5,
            most: 9,
            warm: 1,
        });
        r.notes.push("word ".repeat(40));
        r.partial = true;
        let text = footer(&r);
        assert!(
            text[0].contains("narrower than 5 % in a (7), c (7)"),
            "{text:?}"
        );
        assert!(text[1].contains("time was spent in b (7)"));
        assert!(text.iter().any(|l| l.starts_with("PARTIAL")));
        assert!(text.iter().all(|l| l.len() < 80));
    }

    #[test]
    fn times_keep_their_unit() {
        assert_eq!(time(0.0000021), "2.10 us");
        assert_eq!(time(0.5), "500.0 ms");
    }
}
