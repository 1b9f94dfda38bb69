//! The table of programs that took no part: alike ones are one entry, a full table still counts.
mod common;
use byway_mem::departures;
use byway_mem::layout::{DEPARTURE_PATH, DEPARTURES};

const RUN: u32 = 1;

#[test]
fn alike_ones_are_counted_in_one_entry() {
    let d = common::domain(4);
    for _ in 0..3 {
        departures::note(&d, RUN, 7, [1, 2], b"/lib/x");
    }
    departures::note(&d, RUN, 8, [1, 2], b"/lib/x");
    departures::note(&d, RUN + 1, 7, [1, 2], b"/lib/x");
    let seen: Vec<_> = departures::of(&d, RUN).map(|s| (s.why, s.count)).collect();
    assert_eq!(seen, [(7, 3), (8, 1)]);
    let one = departures::of(&d, RUN).next().unwrap();
    assert_eq!(
        (one.name, one.path.starts_with(b"/lib/x\0")),
        ([1, 2], true)
    );
    assert_eq!(departures::untold(&d), 0);
}

#[test]
fn of_a_long_path_the_end_is_kept() {
    let d = common::domain(4);
    let path = [[b'a'; DEPARTURE_PATH].as_slice(), b"/the/end"].concat();
    departures::note(&d, RUN, 7, [1, 0], &path);
    let one = departures::of(&d, RUN).next().unwrap();
    assert!(one.path.ends_with(b"a/the/end"));
}

#[test]
fn a_full_table_counts_the_rest() {
    let d = common::domain(4);
    let many = DEPARTURES as u64 + 10;
    for name in 1..=many {
        departures::note(&d, RUN, 7, [name, 0], b"");
    }
    assert_eq!(departures::of(&d, RUN).count(), DEPARTURES - 1);
    assert_eq!(
        u64::from(departures::untold(&d)),
        many - (DEPARTURES as u64 - 1)
    );
}

/// The run of process 2^22 and more is none that there could be.
#[test]
fn the_entries_of_a_run_that_has_ended_are_taken_again() {
    let d = common::domain(4);
    let gone = 1 << 22;
    for name in 1..DEPARTURES as u64 {
        departures::note(&d, gone, 7, [name, 0], b"");
    }
    departures::note(&d, RUN, 7, [1, 0], b"");
    assert_eq!(departures::of(&d, RUN).count(), 1);
    assert_eq!(departures::untold(&d), 0);
}
