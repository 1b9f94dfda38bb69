//! Tiny runs of every kind of work with every link, in processes of their own.
//!
//! Invariant: no test fails on a time.
//! Not here: workers under `byway run`, which need the program and its library (tests/run.sh does such things).
use super::fifo::{Cell, Runs};
use super::ready::work::Members;
use super::worker::{Job, Work};
use super::*;
use crate::child;
use crate::machine;
use std::time::Duration;

const RUNS: Runs = Runs {
    count: 3,
    warm_ms: 2,
};

fn figures(kind: Kind, cpus: Vec<usize>, work: Work) -> Vec<f64> {
    let job = Job { kind, cpus, work };
    let v = child::isolated(Duration::from_secs(60), || job.run());
    v.unwrap_or_else(|e| panic!("{job:?}: {e}"))
}

/// On all CPUs, and on one.
fn places() -> Vec<Vec<usize>> {
    let all = machine::allowed();
    vec![all.clone(), vec![all[0]]]
}

#[test]
fn messages_arrive_by_every_link() {
    for kind in [Kind::Fifo, Kind::Socket, Kind::Core] {
        for cpus in places() {
            let cell = Cell {
                size: 512,
                count: 100,
            };
            let v = figures(kind, cpus, Work::Fifo(cell, RUNS));
            assert_eq!(v.len(), 3);
            assert!(v.iter().all(|&us| us > 0.0));
        }
    }
}

#[test]
fn streams_have_a_rate() {
    for kind in [
        Kind::Pipe,
        Kind::Pipe1M,
        Kind::Vmsplice,
        Kind::Core,
        Kind::Nothing,
    ] {
        for cpus in places() {
            // One that does not fill a power of two.
            for chunk in [65536, 24_576] {
                let v = figures(kind, cpus.clone(), Work::Stream(chunk, 2 << 20));
                assert!(v.len() == 1 && v[0] > 0.0, "{kind:?}");
            }
        }
    }
}

#[test]
fn readers_that_compute_get_bytes() {
    for kind in [Kind::Pipe, Kind::Core, Kind::Vmsplice, Kind::Nothing] {
        for cpus in places() {
            for write in [512, 3000, 1 << 21] {
                let options = Options {
                    processes: 4,
                    ms: 30,
                    read: 4096,
                    write_us: 5,
                    write,
                    ..Options::usual(true)
                };
                assert!(figures(kind, cpus.clone(), Work::Flex(options))[0] > 0.0);
            }
        }
    }
}

#[test]
fn a_byte_goes_round_and_wakes() {
    for kind in [Kind::Pipe, Kind::Core, Kind::Pipe1M, Kind::Vmsplice] {
        for cpus in places() {
            assert!(figures(kind, cpus.clone(), Work::Spin(100, false))[0] > 0.0);
            for both in [false, true] {
                let v = figures(kind, cpus.clone(), Work::Sleep(5, 100, both, false));
                assert_eq!(v.len(), 1 + usize::from(both));
                assert!(v.iter().all(|&us| us > 0.0));
            }
        }
    }
}

#[test]
fn readers_that_ask_get_every_message() {
    for cpus in places() {
        let mut all = vec![Work::Spin(100, true), Work::Sleep(5, 100, false, true)];
        all.extend([64, 65536].map(|size| Work::Polled(size, 300)));
        all.extend([(10, 10, false), (300, 10, false), (10, 1, true)].map(
            |(members, active, plain)| {
                let m = Members {
                    members,
                    active,
                    plain,
                };
                Work::Set(m, 3000)
            },
        ));
        for work in all {
            let v = figures(Kind::Pipe, cpus.clone(), work);
            assert!(v.len() == 1 && v[0] > 0.0);
        }
    }
}

#[test]
fn nothing_takes_its_time() {
    for cpus in places() {
        assert_eq!(figures(Kind::Nothing, cpus, Work::Nothing(10)).len(), 10);
    }
    assert!(pair::clock_ns() > 0.0);
}

#[test]
fn every_case_has_its_work_and_its_backends() {
    let mut plan = Plan::new(vec![0, 1], true);
    assert_eq!(Bench::BwPipe.backends(&plan)[0].name, "auto");
    plan.pipes = vec!["base", "lp"];
    for bench in Bench::ALL {
        let backends = bench.backends(&plan);
        let names: Vec<_> = backends.iter().map(|b| b.name).collect();
        assert!(bench.over().iter().all(|o| names.contains(o)), "{names:?}");
        for case in bench.cases(&plan) {
            let whole = bench == Bench::Grep || ready::is_program(&case);
            assert_eq!(bench.work(&case, &plan).is_some(), !whole, "{case}");
        }
    }
    plan.pipes = PIPES.map(|p| p.0).into();
    let names = |bench: Bench| -> Vec<_> { bench.backends(&plan).iter().map(|b| b.name).collect() };
    let pipes = [
        "auto",
        "base",
        "base-4k",
        "lp",
        "zc",
        "lp+zc",
        "kernel-64k",
        "kernel-1m",
        "vmsplice",
        "memcpy",
    ];
    for bench in [Bench::BwPipe, Bench::Pipeflex, Bench::Grep] {
        assert_eq!(names(bench), pipes);
    }
    let latency = [
        "byway-preload",
        "byway-core",
        "base",
        "lp",
        "zc",
        "lp+zc",
        "kernel",
        "kernel-1m",
        "vmsplice",
    ];
    assert_eq!(names(Bench::LatPipe), latency);
    plan.flex.read = 10_000;
    assert_eq!(Bench::Pipeflex.cases(&plan), ["10000"]);
}

#[test]
fn ratios_are_with_the_kernel_among_the_kernels_one_way_and_with_base() {
    let backends = Bench::Fifo.backends(&Plan::new(vec![0], true));
    let names: Vec<_> = backends.iter().map(|b| b.name).collect();
    let all = compared(Bench::Fifo, &names);
    let has = |b: &str, o: &str| all.iter().any(|&(k, l)| (names[k], names[l]) == (b, o));
    assert!(has("byway-preload", "kernel-fifo") && has("byway-core", "unix-socket"));
    assert!(has("kernel-fifo", "unix-socket") && !has("unix-socket", "kernel-fifo"));
    assert_eq!(all.len(), 5);
    let names = ["auto", "base", "base-4k", "lp", "kernel-64k", "memcpy"];
    let all = compared(Bench::BwPipe, &names);
    let over = |o: &str| -> Vec<_> {
        let own = all.iter().filter(|q| names[q.1] == o);
        own.map(|q| names[q.0]).collect()
    };
    assert_eq!(over("base"), ["auto", "lp"]);
    assert_eq!(over("base-4k"), ["auto", "lp"]);
    assert_eq!(over("memcpy"), ["auto", "lp"]);
    let kernels = ["auto", "base", "base-4k", "lp", "memcpy"];
    assert_eq!(over("kernel-64k"), kernels);
    // There the one without --pipe has another name.
    let names = ["byway-preload", "byway-core", "base", "lp", "kernel"];
    let all = compared(Bench::LatPipe, &names);
    let own = all.iter().filter(|q| names[q.1] == "base");
    let own: Vec<_> = own.map(|q| names[q.0]).collect();
    assert_eq!(own, ["byway-preload", "lp"]);
}
