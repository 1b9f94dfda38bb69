//! Small runs of every case and way in processes of their own, which check each byte and count.
//!
//! Invariant: no test fails on a time.
//! Not here: workers under `byway run`, and what the command line says (tests/net.sh).
use super::netperf::{self, Test};
use super::netpipe;
use super::worker::{Job, Work};
use super::*;
use crate::child;
use crate::machine;
use std::time::Duration;

fn figures(cpus: Vec<usize>, work: Work) -> Vec<f64> {
    let job = Job {
        cpus,
        peer: None,
        work,
    };
    let v = child::isolated(Duration::from_secs(60), || job.run());
    v.unwrap_or_else(|e| panic!("{job:?}: {e}"))
}

/// On all CPUs, and on one.
fn places() -> Vec<Vec<usize>> {
    let all = machine::allowed();
    vec![all.clone(), vec![all[0]]]
}

#[test]
fn blocks_of_every_size_come_back_by_every_way() {
    let plain = |b: &&Backend| !b.carried;
    for way in netpipe::HERE.iter().filter(plain).map(|b| b.way) {
        for (cpus, stream) in places().into_iter().zip([false, true]) {
            let o = netpipe::Options {
                stream,
                check: true,
                repeats: 2,
                upper: 300_000,
                perturbation: 3,
                ..netpipe::Options::usual(true)
            };
            let v = figures(cpus, Work::Netpipe(way, o.clone()));
            assert_eq!(v.len(), o.sizes().len(), "{way:?}");
            assert!(v.iter().all(|&ns| ns > 0.0));
        }
    }
}

#[test]
fn repeats_fill_about_the_time_that_they_are_given() {
    let o = netpipe::Options {
        upper: 64,
        time: Duration::from_millis(1),
        ..netpipe::Options::usual(true)
    };
    let v = figures(machine::allowed(), Work::Netpipe(Way::Pipe, o.clone()));
    assert_eq!(v.len(), o.sizes().len());
}

#[test]
fn every_test_of_netperf_counts_what_it_sent() {
    let name = format!("byway-test-netperf-{}", std::process::id());
    let folder = crate::scratch::Scratch::create(&name, &[netperf::server::SOCKET]).unwrap();
    for test in Test::ALL {
        for (cpus, request) in places().into_iter().zip([1, 100]) {
            let o = netperf::Options {
                ms: 20,
                request,
                response: 7,
                check: true,
                ..netperf::Options::usual(true)
            };
            let v = figures(
                cpus,
                Work::Netperf(test, o, Some(folder.path().display().to_string())),
            );
            assert_eq!(v.len(), test.metrics().len(), "{test:?}");
            assert!(v.iter().all(|f| f.is_finite() && *f >= 0.0), "{v:?}");
        }
    }
}

#[test]
fn words_come_back_as_the_job() {
    let works = [
        Work::Netpipe(Way::Core, netpipe::Options::usual(true)),
        Work::Netperf(
            Test::UnixCrr,
            netperf::Options::usual(false),
            Some("/tmp/a b".into()),
        ),
        Work::Serve("192.0.2.2:0".parse().unwrap()),
    ];
    for work in works {
        let job = Job {
            cpus: vec![0, 3],
            peer: Some("[::1]:7".parse().unwrap()),
            work,
        };
        assert_eq!(serde_json::from_str::<Job>(&job.word()).unwrap(), job);
    }
    assert_eq!(worker::main("{}"), 2);
}
