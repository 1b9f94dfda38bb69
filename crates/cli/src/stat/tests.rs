//! The forms of `byway stat`: tables that fit a terminal whatever the figures are, and the text of OpenMetrics.
//!
//! Not here: a look at live runs (tests/stat.py).
use super::*;

fn events(n: u64) -> EventStats {
    EventStats {
        refills: n,
        drains: n,
        remote_returns: n,
        failures: n,
        bytes_given_back: n,
    }
}

/// A run whose every figure is as large as it can be.
fn largest() -> RunStats {
    let classes = Class::ALL.map(|c| ClassStats {
        class: c.name(),
        object_bytes: c.bytes(),
        in_use: usize::MAX,
        cached: usize::MAX,
        at_home: usize::MAX,
        slabs: usize::MAX,
        slabs_high_water: usize::MAX / SLAB_BYTES,
        present_bytes: usize::MAX,
        events: events(u64::MAX),
    });
    let fronts = Class::ALL.map(|c| FrontStats {
        front: CPUS + LOCKED - 1,
        shared: true,
        class: c.name(),
        cached: usize::MAX,
        events: events(u64::MAX),
    });
    RunStats {
        // The most that a process id can be (PID_MAX_LIMIT).
        runs: vec![4_194_304; 1000],
        limit_bytes: usize::MAX,
        slab_bytes: SLAB_BYTES,
        slabs_in_use: u32::MAX,
        slabs_high_water: u32::MAX,
        free_bytes: usize::MAX,
        low_bytes: usize::MAX,
        high_bytes: usize::MAX,
        decay_ms: u32::MAX,
        band: "no growth",
        direct_from: u32::MAX,
        fifos_counted: 8192,
        // A year and more.
        fifo_cpu_us: 99_999_999_999_999,
        classes: classes.into(),
        fronts: fronts.into(),
    }
}

#[test]
fn tables_fit_into_80_columns() {
    for line in lines(&largest(), true) {
        assert!(line.len() <= 80, "{}: {line}", line.len());
    }
}

#[test]
fn columns_stay_apart() {
    let lines = lines(&largest(), false);
    let words = |l: &String| l.split_whitespace().count();
    // Two heads are of two words.
    assert_eq!(words(&lines[2]), 13);
    for class in &lines[3..6] {
        assert_eq!(words(class), 11, "{class}");
    }
}

#[test]
fn long_figures_are_short() {
    for (n, text) in [
        (0, "0"),
        (999_999, "999999"),
        (1_000_000, "1000k"),
        (99_999_999, "99999k"),
        (100_000_000, "100M"),
        (u64::MAX, "18446P"),
    ] {
        assert_eq!(count(n), text);
    }
    for (n, text) in [
        (9999, "9999"),
        (10_000, "9K"),
        (10_000 << 10, "9M"),
        (9999 << 20, "9999M"),
        (10_000 << 20, "9G"),
        (usize::MAX, "15E"),
    ] {
        assert_eq!(size(n), text);
    }
}

#[test]
fn open_metrics_of_no_run_have_their_families_alone() {
    let text = openmetrics::text(&[]);
    assert!(text.ends_with("# EOF\n") && text.lines().all(|l| l.starts_with("# ")));
    let one = openmetrics::text(&[largest()]);
    assert!(one.contains("byway_band{run=\"4194304\",byway_band=\"no growth\"} 1\n"));
    assert!(one.contains("byway_failures_total{run=\"4194304\",class=\"jumbo\"} "));
}
