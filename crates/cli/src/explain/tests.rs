//! How a run is told, without a run.
//!
//! Not here: the figures of real pipes (tests/run.sh).
use super::*;
use crate::account::{Counts, Kind};

fn entry(ends: (&str, &str), carried: u64, kernel: u64, cause: Option<Cause>) -> Entry {
    Entry {
        kind: Kind::Pipe,
        inode: 1,
        writer: ends.0.into(),
        reader: ends.1.into(),
        counts: Counts {
            carried,
            direct: 0,
            kernel,
            ..Counts::default()
        },
        is_exact: true,
        calls: 0,
        cause,
    }
}

fn little() -> Option<Cause> {
    Some(account::cause(Reason::Cold, None))
}

fn polled() -> Option<Cause> {
    Some(account::cause(Reason::Readiness, Some("xargs".into())))
}

fn told(mut channels: Vec<Entry>) -> Told {
    channels.sort_by_key(|e| std::cmp::Reverse(e.all()));
    Told {
        channels,
        ..Told::default()
    }
}

#[test]
fn the_first_line_says_it_all() {
    let mut v = vec![entry(("cat", "wc"), 960, 40, None)];
    v.extend((0..3).map(|_| entry(("xargs", "sh"), 0, 0, polled())));
    assert_eq!(
        told(v.clone()).text()[0],
        "1 of 4 pipes carried, 96 % of the bytes; xargs polls its pipes"
    );
    // What was not counted makes the share smaller.
    v[1].is_exact = false;
    assert_eq!(
        told(v.clone()).text()[0],
        "1 of 4 pipes carried, at most 97 % of the bytes; xargs polls its pipes"
    );
    v[0].counts.kernel = 0;
    assert_eq!(
        told(v).text()[0],
        "1 of 4 pipes carried; xargs polls its pipes"
    );
    assert_eq!(told(vec![]).text(), ["no pipe was seen"]);
    let few = vec![entry(("sed", "sh"), 0, 9, little())];
    assert_eq!(told(few).text()[0], "none of 1 pipe carried");
}

#[test]
fn a_program_that_took_no_part_comes_before_the_pipes() {
    let mut t = told(vec![entry(("?", "wc"), 0, 9, None)]);
    t.absent.push(Absent {
        name: "node".into(),
        count: 2,
        left: false,
        why: "is static".into(),
    });
    assert_eq!(
        t.text(),
        [
            "none of 1 pipe carried; node is static",
            "2 x node took no part: it is static",
            "? -> wc: not carried, 9 bytes by the kernel",
        ]
    );
}

#[test]
fn alike_ones_are_one_line_and_the_largest_is_first() {
    let mut v: Vec<_> = (0..27)
        .map(|_| entry(("sed", "sh"), 0, 40, little()))
        .collect();
    v.push(entry(("cat", "wc"), 500, 0, None));
    v.push(entry(("cat", "wc"), 700, 65, None));
    v.push(entry(("a", "b"), 9000, 0, None));
    let text = told(v).text();
    assert_eq!(
        text[1..],
        [
            "a -> b  9000 bytes carried, none by the kernel",
            "2 x cat -> wc  1200 bytes carried, 65 by the kernel",
            "27 x sed -> sh: under 64 KiB",
        ]
    );
}

#[test]
fn a_line_fits_a_terminal() {
    let ends = ("fifteen_letters", "fifteen-letters");
    let mut e = entry(ends, 1 << 40, 1 << 30, polled());
    e.is_exact = false;
    e.kind = Kind::Fifo;
    for line in told(vec![e.clone(), e]).text() {
        for part in line.lines() {
            assert!(part.chars().count() <= COLUMNS, "{part}");
        }
    }
}

#[test]
fn one_document() {
    let t = told(vec![entry(("cat", "wc"), 10, 5, polled())]);
    let j = t.json();
    assert_eq!(j["channels"][0]["kernel_bytes"], 5);
    assert_eq!(j["channels"][0]["why"], "xargs polls its pipes");
    assert_eq!(
        Told::nothing("no room").json()["summary"],
        "nothing is carried: no room"
    );
}

#[test]
fn waits_are_told_where_there_were_some() {
    let mut waited = entry(("a", "b"), 9000, 0, None);
    (waited.counts.polls, waited.counts.wakes) = (12, 1);
    let told = told(vec![waited]);
    let line = "a -> b  9000 bytes carried, none by the kernel";
    let rest = "12 polls, 1 wake-up, 0 hand-backs";
    assert_eq!(told.text()[1], format!("{line}\n    {rest}"));
    assert_eq!(told.json()["channels"][0]["wake_ups"], 1);
}
