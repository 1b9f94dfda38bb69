//! The page of two measurements: what has changed from the records of before to those of after.
//!
//! Invariant: what `byway bench compare` would say of two records is what stands here; where there are several, the
//! intervals are for the rows of all of them together. What differs between the machines stands before every figure.
//! Not here: the verdicts (compare.rs), the frame of a page (page.rs), the picture (svg/forest.rs).
use super::page::{self, day};
use super::summary::{Row, Verdict as Looks};
use super::svg::forest::{self, Shape};
use super::tables::{escaped, range, table};
use super::{Named, named, short, units};
use crate::compare::{self, Change, Difference, OF_MACHINE, Verdict};
use crate::record::{Clear, Record};
use std::fmt::Write;

/// With so many rows each has its own in the picture; with more, each backend of a record.
const EACH: usize = 40;

/// A record of before, with that of after.
struct Pair {
    before: Named,
    after: Record,
}

/// The page.
///
/// # Errors
/// A sentence: no two records can be compared, and why.
pub fn page(before: Vec<Record>, after: Vec<Record>) -> Result<String, String> {
    let (pairs, left) = paired(before, after);
    let records: Vec<_> = (pairs.iter())
        .map(|p| (&p.before.record, &p.after))
        .collect();
    let changes = compare::of_all(&records, 0.0);
    if changes.iter().all(Vec::is_empty) {
        let why = match &left[..] {
            [] => "the records have no row in common; measure the same cases".into(),
            all => all.join("; "),
        };
        return Err(why);
    }
    let rows = rows(&pairs, &changes);
    let sentence = sentence(&changes.concat());
    let mut p = page::begin("byway bench: before and after");
    let _ = writeln!(
        p,
        "<section id=\"summary\"><h2 class=\"say\">{}</h2>",
        escaped(&sentence)
    );
    p.push_str(&differ(&pairs, &left));
    for shape in [Shape::Desk, Shape::Phone] {
        p.push_str(&forest::draw(&rows, &sentence, "times better after", shape));
    }
    p.push_str(
        "<p class=\"legend\">The dot is the ratio of the medians, above 1 if it is better after; the line is its interval, \
         for all rows together: where nothing has changed, 95 of 100 such pages call no row better or worse. Where a row has \
         several cases, the dot is the middle one, and the pale bar reaches from the worst to the best. Faint and dashed is \
         unclear. Records of two times differ by more than their intervals show: repeat a small change before it is believed.</p>\n</section>\n",
    );
    for (pair, changes) in pairs.iter().zip(&changes) {
        p.push_str(&part(pair, changes));
    }
    page::end(&mut p, "", false);
    Ok(p)
}

/// Each record of before with the first of after that measures the same, one of the same number of CPUs if there is
/// one; and a sentence about each of the others.
fn paired(before: Vec<Record>, mut after: Vec<Record>) -> (Vec<Pair>, Vec<String>) {
    let meant = OF_MACHINE.map(String::from);
    let (mut pairs, mut left) = (vec![], vec![]);
    for b in named(before) {
        let fits = |a: &Record| compare::comparable(&b.record, a, &meant).is_ok();
        let alike = |a: &Record| a.affinity.len() == b.record.affinity.len();
        let found =
            (after.iter().position(|a| fits(a) && alike(a))).or(after.iter().position(fits));
        if let Some(k) = found {
            let after = after.remove(k);
            pairs.push(Pair { before: b, after });
            continue;
        }
        let same = |a: &&Record| a.workload == b.record.workload;
        left.push(match after.iter().find(same) {
            Some(a) => {
                let why = compare::comparable(&b.record, a, &meant);
                format!("{}: {}", b.name, why.err().unwrap_or_default())
            }
            None => format!("{}: only before", b.name),
        });
    }
    // Those of a workload of before have been told there.
    let untold = after.iter().filter(|a| {
        !left
            .iter()
            .any(|l| l.starts_with(&format!("{}:", a.workload)))
    });
    let only: Vec<_> = untold
        .map(|a| format!("{}: only after", a.workload))
        .collect();
    left.extend(only);
    (pairs, left)
}

/// The two machines and commits, what differs, and what is not compared.
fn differ(pairs: &[Pair], left: &[String]) -> String {
    let mut h = String::new();
    let mut all: Vec<Difference> = vec![];
    for p in pairs {
        let found = compare::differences(&p.before.record, &p.after);
        all.extend(found);
    }
    let mut said: Vec<String> = vec![];
    for d in &all {
        let one = format!("{}: {}, then {}", d.name, d.before, d.after);
        if !said.contains(&one) {
            said.push(one);
        }
    }
    let items = |all: &[String]| {
        let items = all.iter().map(|s| format!("<li>{}</li>", escaped(s)));
        items.collect::<String>()
    };
    if !said.is_empty() {
        let _ = writeln!(
            h,
            "<div class=\"warning\" id=\"differs\"><b>The machines differ, so a ratio is not of the program alone:</b><ul>{}</ul></div>",
            items(&said)
        );
    }
    if !left.is_empty() {
        let _ = writeln!(
            h,
            "<div class=\"warning\" id=\"left\"><b>Not compared:</b><ul>{}</ul></div>",
            items(left)
        );
    }
    for (when, of) in [("Before", true), ("After", false)] {
        let mut told: Vec<String> = vec![];
        for p in pairs {
            let r = if of { &p.before.record } else { &p.after };
            let one = format!(
                "{}, commit {}; {}",
                day(r.machine.time),
                r.commit,
                page::machine(r)
            );
            if !told.contains(&one) {
                told.push(one);
            }
        }
        let _ = writeln!(
            h,
            "<p class=\"made\">{when}: {}</p>",
            escaped(&told.join(" – "))
        );
    }
    h
}

/// The rows of the picture: each change, or, where there are many, each backend of a record by its middle case.
fn rows(pairs: &[Pair], changes: &[Vec<Change>]) -> Vec<Row> {
    let each = changes.iter().map(Vec::len).sum::<usize>() <= EACH;
    let mut v = vec![];
    for (pair, changes) in pairs.iter().zip(changes) {
        let drawn: Vec<_> = changes
            .iter()
            .filter(|c| c.worse.is_finite() && c.worse > 0.0)
            .collect();
        if each {
            v.extend(drawn.iter().map(|c| {
                let label = format!("{} {}", c.case, c.backend);
                row(pair, &label, &[c])
            }));
            continue;
        }
        let mut backends: Vec<&str> = vec![];
        for c in &drawn {
            if !backends.contains(&&c.backend[..]) {
                backends.push(&c.backend);
            }
        }
        for b in backends {
            let own: Vec<_> = drawn.iter().filter(|c| c.backend == b).copied().collect();
            v.push(row(pair, b, &own));
        }
    }
    v
}

/// One row of the picture, of some changes.
fn row(pair: &Pair, label: &str, own: &[&Change]) -> Row {
    let mut own = own.to_vec();
    own.sort_by(|a, b| b.worse.total_cmp(&a.worse));
    let middle = own[(own.len() - 1) / 2];
    let mut doubts: Vec<String> = match middle.verdict {
        Verdict::Unclear => vec!["1 is within".into()],
        Verdict::Few => vec!["few rounds".into()],
        Verdict::Better | Verdict::Worse => vec![],
    };
    if pair.before.record.partial || pair.after.partial {
        doubts.push("interrupted".into());
    }
    let looks = |c: &Change| match c.verdict {
        Verdict::Better => Looks::Faster,
        Verdict::Worse => Looks::Slower,
        Verdict::Unclear | Verdict::Few => Looks::Uncertain,
    };
    let mut cases = [0; 3];
    own.iter().for_each(|c| cases[looks(c) as usize] += 1);
    let ci95 = better(middle.interval);
    Row {
        part: pair.before.name.clone(),
        label: label.into(),
        compared: "after over before".into(),
        head: pair.before.name.clone(),
        case: middle.case.clone(),
        ratio: 1.0 / middle.worse,
        ci95,
        rounds: 0,
        verdict: if doubts.is_empty() {
            looks(middle)
        } else {
            Looks::Uncertain
        },
        leans: match ci95 {
            [low, _] if low > 1.0 => Clear::Better,
            [_, high] if high < 1.0 => Clear::Worse,
            _ => Clear::Neither,
        },
        doubts,
        span: [own[0], own[own.len() - 1]].map(|c| 1.0 / c.worse),
        cases,
    }
}

/// How many times better: the other way round.
fn better([low, high]: [f64; 2]) -> [f64; 2] {
    [1.0 / high, 1.0 / low]
}

/// All changes in one sentence.
fn sentence(all: &[Change]) -> String {
    let count = |v: Verdict| all.iter().filter(|c| c.verdict == v).count();
    let few = match count(Verdict::Few) {
        0 => String::new(),
        n => format!(", {n} of too few rounds"),
    };
    format!(
        "Of {} rows, {} better after, {} worse, {} unclear{few}.",
        all.len(),
        count(Verdict::Better),
        count(Verdict::Worse),
        count(Verdict::Unclear)
    )
}

/// The rows of two records, the worst first.
fn part(pair: &Pair, changes: &[Change]) -> String {
    let mut sorted: Vec<_> = changes.iter().collect();
    sorted.sort_by(|a, b| b.worse.total_cmp(&a.worse));
    let cells = |c: &&Change| {
        let verdict = match c.verdict {
            Verdict::Worse => "<span class=\"worse\">▼ worse</span>",
            Verdict::Better => "<span class=\"better\">▲ better</span>",
            Verdict::Unclear => "unclear",
            Verdict::Few => "few rounds",
        };
        vec![
            escaped(&c.case),
            escaped(&c.backend),
            escaped(&c.metric),
            escaped(&units::value(c.before, &c.unit)),
            escaped(&units::value(c.after, &c.unit)),
            format!("<b>{}</b>", short(1.0 / c.worse)),
            range(better(c.interval), 0),
            verdict.into(),
        ]
    };
    let heads = [
        "case",
        "backend",
        "metric",
        "before",
        "after",
        "times better",
        "interval",
        "verdict",
    ];
    let rows: Vec<_> = sorted.iter().map(cells).collect();
    let name = escaped(&pair.before.name);
    format!(
        "<section><details open><summary><h2>{name}</h2></summary><div id=\"{name}\">{}</div></details></section>\n",
        table("", &pair.before.name, &heads.map(String::from), &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::some;

    /// The records of `some`, with the first row of the first slower by `times`.
    fn records(times: f64) -> Vec<Record> {
        let mut all: Vec<_> = some().into_iter().map(|n| n.record).collect();
        for s in all[0].results[0].samples.iter_mut().flatten() {
            *s *= times;
        }
        all
    }

    #[test]
    fn each_record_meets_its_own_and_the_verdicts_are_those_of_compare() {
        let mut after = records(2.0);
        after.reverse();
        let p = page(records(1.0), after).unwrap();
        assert!(p.contains("worse, "));
        assert_eq!(p.matches("▼ worse").count(), 1);
        assert_eq!(p.matches("▲ better").count(), 0);
        assert!(!p.contains("id=\"differs\"") && !p.contains("id=\"left\""));
        assert_eq!(p.matches("<section>").count(), 3);
        // A name is escaped, and nothing is drawn nowhere.
        assert!(!p.contains("<td><b></td>") && p.contains("&lt;b&gt;") && !p.contains("NaN"));
    }

    #[test]
    fn the_intervals_are_for_all_rows_together() {
        let (a, b) = (records(1.0), records(1.1));
        let alone = compare::changes(&a[1], &b[1], 0.0)[0].interval;
        let pairs: Vec<_> = a.iter().zip(&b).collect();
        let [low, high] = compare::of_all(&pairs, 0.0)[1][0].interval;
        assert!(low <= alone[0] && high >= alone[1]);
    }

    #[test]
    fn what_differs_and_what_is_left_stands_at_the_top() {
        let (before, mut after) = (records(1.0), records(1.0));
        after[0].machine.kernel = "0.1 <b>".into();
        after[1].parameters.insert("size".into(), 5.into());
        after[2].workload = "another".into();
        let p = page(before, after).unwrap();
        let top = p.split("<svg").next().unwrap();
        assert!(top.contains("kernel: ") && top.contains("then 0.1 &lt;b&gt;"));
        assert!(top.contains("bw-pipe: ") && top.contains("size (none, then 5)"));
        assert!(top.contains("odd: only before") && top.contains("another: only after"));
    }

    #[test]
    fn nothing_in_common_is_an_error() {
        let mut other = Record::new("another");
        other.row("c", "a", ("m", "s", None), &[vec![1.0]]);
        assert!(page(vec![other.clone()], records(1.0)).is_err());
        let e = page(vec![other.clone()], vec![other]).unwrap_err();
        assert!(e.contains("measure the same cases"), "{e}");
    }
}
