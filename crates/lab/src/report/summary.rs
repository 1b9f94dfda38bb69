//! What the page says first: a row for each comparison of Byway with what a program has without it, and a sentence about all.
//!
//! Invariant: the sentence, the picture (svg/forest.rs) and the table say the same of a row; what could be chance is called
//! neither faster nor slower.
//! Not here: pixels (svg/forest.rs), every comparison of a record (tables.rs).
use super::tables::{escaped, range, table};
use super::{Named, is_of_a_source, short};
use crate::noise::{ENOUGH, FAR};
use crate::record::{Clear, Ratio, Record};
use std::fmt::Write;

/// One workload of one record, on one number of CPUs.
#[derive(Debug)]
pub struct Row {
    /// Of the record's part of the page.
    pub part: String,
    pub label: String,
    pub(super) compared: String,
    /// The heading above it in the picture, where rows have different ones.
    pub head: String,
    /// The case with the middle ratio; of an even number, the lower of the two in the middle.
    pub case: String,
    pub ratio: f64,
    pub ci95: [f64; 2],
    pub(super) rounds: usize,
    pub verdict: Verdict,
    /// What its interval alone says.
    pub leans: Clear,
    /// Why it is uncertain.
    pub doubts: Vec<String>,
    /// The worst ratio of all cases, and the best.
    pub span: [f64; 2],
    /// Cases that are faster, uncertain, slower.
    pub cases: [usize; 3],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Faster,
    Uncertain,
    Slower,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Uncertain => "uncertain",
            Verdict::Slower => "slower",
        }
    }
}

impl Row {
    /// All that is known of it, as a sentence.
    pub fn told(&self) -> String {
        let why = match &self.doubts[..] {
            [] => String::new(),
            doubts => format!(": {}", doubts.join(", ")),
        };
        format!(
            "{}, {}: {} times better, 95 % interval {}, {}{why}. Middle case {}; {}",
            self.label,
            self.compared,
            short(self.ratio),
            range(self.ci95, self.rounds),
            self.verdict.word(),
            self.case,
            self.counted()
        )
    }

    fn counted(&self) -> String {
        let [faster, uncertain, slower] = self.cases;
        format!("cases: {faster} faster, {uncertain} uncertain, {slower} slower")
    }
}

/// What a workload's first row compares with what: those of these pairs that the record has.
fn pairs(workload: &str) -> &'static [(&'static str, &'static str)] {
    match workload {
        "fifo" => &[("byway-preload", "kernel-fifo")],
        "grep" | "bw-pipe" | "pipeflex" => &[("auto", "kernel-64k")],
        "lat-pipe" => &[("byway-preload", "kernel")],
        "mbuf" => &[("mb_alloc", "malloc")],
        // The first three; until 2026-11-23 the last two.
        "netpipe" => &[
            ("byway-pipe", "pipe"),
            ("byway-unix", "unix"),
            ("byway-tcp", "tcp"),
            ("byway", "pipe"),
            ("tcp+byway", "tcp"),
        ],
        "native" => &[("byway", "kernel-pipe"), ("byway", "multiprocessing")],
        _ => &[("byway", "kernel")],
    }
}

/// The rows of all records, in their order.
pub fn rows(all: &[Named]) -> Vec<Row> {
    let mut v = vec![];
    for n in all {
        let r = &n.record;
        let has = |p: &&(&str, &str)| {
            r.ratios
                .iter()
                .any(|q| (&q.backend[..], &q.over[..]) == **p)
        };
        let found: Vec<_> = pairs(&r.workload).iter().filter(has).collect();
        for &&(backend, over) in &found {
            let name = match found.len() {
                1 => n.name.clone(),
                _ => format!("{}: {over}", n.name),
            };
            for one_cpu in [false, true] {
                let own = r.ratios.iter().filter(|q| {
                    (&q.backend[..], &q.over[..]) == (backend, over)
                        && is_of_one_cpu(r, q) == one_cpu
                });
                v.extend(row(n, &name, one_cpu, own.collect()));
            }
        }
    }
    v
}

/// Cases of one CPU say so in their name, where the others of their record have more.
fn is_of_one_cpu(r: &Record, q: &Ratio) -> bool {
    r.affinity.len() == 1 || q.case.ends_with("@1cpu")
}

fn row(n: &Named, name: &str, one_cpu: bool, mut own: Vec<&Ratio>) -> Option<Row> {
    own.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let (worst, best) = (own.first()?.ratio, own.last()?.ratio);
    let middle = own[(own.len() - 1) / 2];
    let (verdict, doubts) = judged(&n.record, middle);
    let judged = own.iter().map(|q| judged(&n.record, q).0);
    let cases = judged.fold([0; 3], |mut count, v| {
        count[v as usize] += 1;
        count
    });
    Some(Row {
        part: n.name.clone(),
        label: format!("{name}{}", if one_cpu { ", 1 CPU" } else { "" }),
        compared: format!("{} over {}", middle.backend, middle.over),
        head: match is_of_a_source(&n.record.workload) {
            true => "from the sources".into(),
            false => "the lab’s own".into(),
        },
        case: middle.case.clone(),
        ratio: middle.ratio,
        ci95: middle.ci95,
        rounds: middle.rounds,
        verdict,
        leans: middle.clear(),
        doubts,
        span: [worst, best],
        cases,
    })
}

/// What a ratio says, and what makes it uncertain.
fn judged(r: &Record, q: &Ratio) -> (Verdict, Vec<String>) {
    let mut doubts = vec![];
    if q.rounds == 1 {
        doubts.push("one round".into());
    } else {
        if q.clear() == Clear::Neither {
            doubts.push("1 is within".into());
        }
        if (1..ENOUGH).contains(&q.rounds) {
            doubts.push(format!("{} rounds", q.rounds));
        }
    }
    let far = |backend| {
        let row = r.find(&q.case, backend, &q.metric);
        row.is_some_and(|w| w.outliers as f64 > FAR * w.n as f64)
    };
    if far(&q.backend) || far(&q.over) {
        doubts.push("outliers".into());
    }
    if r.partial {
        doubts.push("interrupted".into());
    }
    let verdict = match (doubts.is_empty(), q.ratio > 1.0) {
        (false, _) => Verdict::Uncertain,
        (true, true) => Verdict::Faster,
        (true, false) => Verdict::Slower,
    };
    (verdict, doubts)
}

/// How many rows of them are `v`.
fn count(rows: &[Row], v: Verdict) -> usize {
    rows.iter().filter(|r| r.verdict == v).count()
}

/// All rows in one sentence.
pub fn sentence(rows: &[Row]) -> String {
    let are = |n: usize| match n {
        0 => "none is".to_string(),
        1 => "1 is".to_string(),
        n => format!("{n} are"),
    };
    match rows {
        [] => "No record here compares Byway with what a program has without it.".into(),
        [one] => match one.verdict {
            Verdict::Uncertain => "Whether the one row is faster with Byway is uncertain.".into(),
            v => format!("The one row is {} with Byway than without.", v.word()),
        },
        _ => format!(
            "Of {} rows, {} faster with Byway than without, {} slower{}, and {} uncertain{}.",
            rows.len(),
            are(count(rows, Verdict::Faster)),
            are(count(rows, Verdict::Slower)),
            named(rows.iter().filter(|r| r.verdict == Verdict::Slower)),
            are(count(rows, Verdict::Uncertain)),
            leaning(rows)
        ),
    }
}

/// What the intervals of uncertain rows say: nobody is to take "uncertain" for "not slower".
fn leaning(rows: &[Row]) -> String {
    let lean = |to: Clear| {
        let uncertain = rows.iter().filter(|r| r.verdict == Verdict::Uncertain);
        uncertain.filter(move |r| r.leans == to)
    };
    let [faster, slower] = [Clear::Better, Clear::Worse].map(|to| lean(to).count());
    let names = named(lean(Clear::Worse));
    let looks = |n: usize| if n == 1 { "looks" } else { "look" };
    match (faster, slower) {
        (0, 0) => String::new(),
        (f, 0) => format!(" ({f} of them {} faster)", looks(f)),
        (0, s) => format!(" ({s} of them {} slower{names})", looks(s)),
        (f, s) => format!(": {f} of these {} faster, {s} slower{names}", looks(f)),
    }
}

/// The names of the first of these rows, in brackets; nothing if there are none.
fn named<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    const MOST: usize = 4;
    let names: Vec<_> = rows.map(|r| &r.label[..]).collect();
    match names.len() {
        0 => String::new(),
        n if n > MOST => format!(" ({} and {} more)", names[..MOST].join(", "), n - MOST),
        _ => format!(" ({})", names.join(", ")),
    }
}

/// How to read the picture, and what the single cases say.
pub fn legend(rows: &[Row]) -> String {
    let total = |i: usize| rows.iter().map(|r| r.cases[i]).sum::<usize>();
    let [faster, uncertain, slower] = [0, 1, 2].map(total);
    let mut text = format!(
        "Each row is one workload: the dot is its middle case, the line that case’s 95 % interval, the pale bar reaches from \
         its worst case to its best. Right of the line at 1 is faster. A row is uncertain, faint and dashed, if 1 is within \
         the interval, if it has fewer than {ENOUGH} rounds, or if more than {:.0} % of its samples are far out (outliers). Its colour \
         still says what its interval says.",
        100.0 * FAR
    );
    if !rows.is_empty() {
        let _ = write!(
            text,
            " Of all {} cases, {faster} are faster, {uncertain} uncertain, {slower} slower{}.",
            faster + uncertain + slower,
            worst(rows)
        );
    }
    text
}

/// The worst case of all, if it is below 1.
fn worst(rows: &[Row]) -> String {
    let row = rows.iter().min_by(|a, b| a.span[0].total_cmp(&b.span[0]));
    match row.filter(|r| r.span[0] < 1.0) {
        Some(r) => format!(
            "; the worst, of {}, has a ratio of {}",
            r.label,
            short(r.span[0])
        ),
        None => String::new(),
    }
}

/// The rows as a table.
pub fn rows_table(rows: &[Row]) -> String {
    let heads = [
        "row",
        "compared",
        "times better",
        "95 % interval",
        "verdict",
        "middle case",
        "cases faster",
        "uncertain",
        "slower",
        "worst to best case",
    ];
    let cells = |r: &Row| {
        let doubts = match &r.doubts[..] {
            [] => String::new(),
            all => format!(": {}", all.join(", ")),
        };
        vec![
            format!("<a href=\"#{}\">{}</a>", r.part, escaped(&r.label)),
            escaped(&r.compared),
            format!("<b>{}</b>", short(r.ratio)),
            range(r.ci95, r.rounds),
            format!("{}{doubts}", r.verdict.word()),
            escaped(&r.case),
            r.cases[0].to_string(),
            r.cases[1].to_string(),
            r.cases[2].to_string(),
            format!("{} to {}", short(r.span[0]), short(r.span[1])),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table(
        "",
        "The picture as a table",
        &heads.map(String::from),
        &rows,
    )
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::Better;

    /// A case: its ratio, how far its samples are apart, its rounds.
    type Case<'a> = (&'a str, f64, f64, u32);

    /// A record of `workload` whose first pair has these cases.
    fn record(workload: &str, cases: &[Case]) -> Named {
        let mut r = Record::new(workload);
        r.affinity = vec![0, 1];
        let (backend, over) = pairs(workload)[0];
        for &(case, ratio, apart, rounds) in cases {
            let of = |v: f64, apart: f64| -> Vec<Vec<f64>> {
                (0..rounds)
                    .map(|i| vec![v * (1.0 + apart * f64::from(i % 3))])
                    .collect()
            };
            let (old, new) = (of(1.0, 0.0), of(ratio, apart));
            let metric = ("rate", "1/s", Some(Better::More));
            r.row(case, backend, metric, &new);
            r.row(case, over, metric, &old);
            r.ratio(case, "rate", Better::More, (backend, &new), (over, &old));
        }
        let name = workload.into();
        Named { name, record: r }
    }

    /// Rows of each kind: faster, slower, uncertain for three reasons, of one CPU.
    pub(crate) fn some() -> Vec<Row> {
        let mut all = vec![
            record(
                "fifo",
                &[
                    ("a", 2.0, 0.01, 9),
                    ("b", 4.0, 0.01, 9),
                    ("c", 0.5, 0.01, 9),
                ],
            ),
            record("grep", &[("50MB", 0.9, 0.1, 9)]),
            record("lat-pipe", &[("sleep", 2.0, 0.01, 3)]),
            record(
                "pipeline",
                &[("wc", 3.0, 0.01, 9), ("wc@1cpu", 1.5, 0.01, 9)],
            ),
            record("start", &[("<b>", 0.7, 0.01, 9)]),
            record("ready", &[("poll", 5.0, 0.01, 9)]),
        ];
        let noisy = all[5].record.results.iter_mut();
        noisy.for_each(|w| w.outliers = 2);
        rows(&all)
    }

    #[test]
    fn a_row_is_its_middle_case_and_says_where_all_are() {
        let v = some();
        let labels: Vec<_> = v.iter().map(|r| &r.label[..]).collect();
        let expected = [
            "fifo",
            "grep",
            "lat-pipe",
            "pipeline",
            "pipeline, 1 CPU",
            "start",
            "ready",
        ];
        assert_eq!(labels, expected);
        assert_eq!((&v[0].case[..], v[0].cases), ("a", [2, 0, 1]));
        assert!(v[0].span[0] < 0.6 && v[0].span[1] > 3.9);
        // Of an even number, the lower.
        let two = rows(&[record("fifo", &[("a", 2.0, 0.0, 9), ("b", 4.0, 0.0, 9)])]);
        assert_eq!((two.len(), &two[0].case[..]), (1, "a"));
    }

    #[test]
    fn what_could_be_chance_is_uncertain() {
        let v = some();
        let told: Vec<_> = v.iter().map(|r| (r.verdict, r.doubts.join("; "))).collect();
        let expected = [
            (Verdict::Faster, ""),
            (Verdict::Uncertain, "1 is within"),
            (Verdict::Uncertain, "3 rounds"),
            (Verdict::Faster, ""),
            (Verdict::Faster, ""),
            (Verdict::Slower, ""),
            (Verdict::Uncertain, "outliers"),
        ]
        .map(|(v, why)| (v, why.to_string()));
        assert_eq!(told, expected);
        let mut partial = record("fifo", &[("a", 2.0, 0.0, 9)]);
        partial.record.partial = true;
        assert_eq!(rows(&[partial])[0].doubts, ["interrupted"]);
        let one = rows(&[record("fifo", &[("a", 2.0, 0.0, 1)])]);
        assert_eq!(one[0].doubts, ["one round"]);
    }

    #[test]
    fn the_sentence_counts_the_rows() {
        let v = some();
        assert_eq!(
            sentence(&v),
            "Of 7 rows, 3 are faster with Byway than without, 1 is slower (start), and 3 are uncertain (2 of them look faster)."
        );
        let of = |r: &[(&str, &[Case])]| {
            let all: Vec<_> = r.iter().map(|(w, q)| record(w, q)).collect();
            sentence(&rows(&all))
        };
        let (fast, slow) = ([("a", 2.0, 0.0, 9)], [("a", 0.5, 0.0, 9)]);
        assert_eq!(
            of(&[("fifo", &fast), ("grep", &fast)]),
            "Of 2 rows, 2 are faster with Byway than without, none is slower, and none is uncertain."
        );
        assert_eq!(
            of(&[("fifo", &slow)]),
            "The one row is slower with Byway than without."
        );
        assert!(of(&[("fifo", &[("a", 2.0, 0.0, 2)])]).contains("uncertain"));
        // What looks slower is told, however few its rounds.
        let (few, unsure) = ([("a", 0.5, 0.0, 3)], [("a", 2.0, 0.0, 3)]);
        let told = of(&[("fifo", &unsure), ("start", &few)]);
        assert!(
            told.ends_with("2 are uncertain: 1 of these looks faster, 1 slower (start)."),
            "{told}"
        );
        let told = of(&[("fifo", &fast), ("start", &few)]);
        assert!(
            told.ends_with("1 is uncertain (1 of them looks slower (start))."),
            "{told}"
        );
        let many: Vec<_> = ["fifo", "grep", "ftp", "start", "ready"]
            .map(|w| (w, &slow[..]))
            .into();
        assert!(of(&many).contains("5 are slower (fifo, grep, ftp, start and 1 more)"));
        assert!(sentence(&[]).starts_with("No record"));
    }

    #[test]
    fn the_legend_counts_the_cases_and_names_the_worst() {
        let text = legend(&some());
        assert!(
            text.contains("Of all 9 cases, 4 are faster, 3 uncertain, 2 slower"),
            "{text}"
        );
        assert!(
            text.contains("the worst, of fifo, has a ratio of 0.50"),
            "{text}"
        );
        let good = rows(&[record("fifo", &[("a", 2.0, 0.0, 9)])]);
        assert!(legend(&good).ends_with("0 slower."));
    }

    #[test]
    fn each_pair_of_a_workload_is_a_row() {
        let mut n = record("netpipe", &[("block", 2.0, 0.0, 9)]);
        let (new, old) = (vec![vec![2.0]; 9], vec![vec![1.0]; 9]);
        let pair = (("byway-tcp", &new[..]), ("tcp", &old[..]));
        n.record
            .ratio("block", "rate", Better::More, pair.0, pair.1);
        let v = rows(&[n]);
        let labels: Vec<_> = v.iter().map(|r| &r.label[..]).collect();
        assert_eq!(labels, ["netpipe: pipe", "netpipe: tcp"]);
    }

    #[test]
    fn the_table_has_every_row_and_escapes_its_names() {
        let t = rows_table(&some());
        assert_eq!(t.matches("<tr>").count(), 8);
        assert!(t.contains("&lt;b&gt;") && !t.contains("<td><b></td>"));
        assert!(t.contains("uncertain: 3 rounds"));
    }
}
