//! Tiny runs of every case with every backend that is here, and their table.
//!
//! Invariant: no test fails on a time, or for want of a program or library of somebody else's.
//! Not here: the library's own tests (tests/native); that the others are there (tests/comparators.sh).
use super::*;
use crate::machine;

/// On all CPUs, and on one.
fn places() -> Vec<Vec<usize>> {
    let all = machine::allowed();
    vec![all.clone(), vec![all[0]]]
}

#[test]
fn every_record_arrives_by_every_way() {
    Native::join().unwrap();
    for cpus in places() {
        let mut native = Native::new(cpus, true);
        native.find(&mut Record::new("native"), &Case::ALL).unwrap();
        for case in Case::ALL {
            for kind in native.backends(case) {
                let run = native.one(case, kind, 40, &mut vec![]).unwrap();
                assert!(run.figure[0] > 0.0, "{case:?} {kind:?}");
                assert_eq!(run.wrong, 0, "{case:?} {kind:?}");
            }
        }
    }
}

#[test]
fn who_is_not_here_is_left_out_and_named() {
    let absent = |needs: &[Needs]| {
        let mut native = Native::new(machine::allowed(), true);
        native.absent = needs.iter().map(|&n| (n, "why".into())).collect();
        native
    };
    let native = absent(&[Needs::Zeromq, Needs::Python]);
    let all = Case::Oneway64.backends();
    let here = native.backends(Case::Oneway64);
    assert_eq!(here.len(), all.len() - 1);
    assert!(!here.contains(&Kind::Zeromq) && here[0] == Kind::Byway);
    // Nobody to compare with, but ours.
    assert_eq!(native.backends(Case::Python64), [Kind::Byway]);
    // Without ours there is nothing to compare.
    let native = absent(&[Needs::Wheel]);
    assert!(native.backends(Case::Python1m).is_empty());
    assert_eq!(native.backends(Case::Oneway64), all);
    // That is an error only where nothing else would be measured.
    let python = [Case::Python64, Case::Python1m];
    assert_eq!(native.nothing(&python), Some(&"why".to_string()));
    assert_eq!(native.nothing(&Case::ALL), None);
    assert_eq!(absent(&[Needs::Zeromq]).nothing(&python), None);
}

#[test]
fn a_case_has_rows_and_ratios_and_the_table_fits() {
    let mut native = Native::new(machine::allowed(), true);
    let mut r = Record::new("native");
    let (id, rounds) = (Case::Oneway64k.id(), 2);
    let cases = [id.to_string()];
    let left_out = native.look(&mut r, &cases).unwrap();
    assert_eq!(left_out.len(), native.absent.len());
    native.prepare(&mut r, &cases).unwrap();
    let limits = Limits {
        least: rounds,
        most: rounds,
        warm: 0,
        ..native.usual()
    };
    native.measure(&mut r, id, &limits, &mut |_| ()).unwrap();
    let n = native.backends(Case::Oneway64k).len();
    assert!(n >= 5);
    assert_eq!((r.results.len(), r.ratios.len()), (n, n - 1));
    assert!(r.results.iter().all(|row| row.n == rounds));
    assert!(r.faults.is_empty() && r.overhead.len() == 2);
    assert!(native.measure(&mut r, "1m", &limits, &mut |_| ()).is_err());

    let case = Case::WakeSleep.id();
    for backend in ["byway", "kernel-pipe"] {
        let rounds = [vec![123_456.7], vec![199_999.9]];
        r.row(case, backend, ("one_way", "us", None), &rounds);
    }
    let (new, old) = ([vec![1.0], vec![1.0]], [vec![99_999.0], vec![123_456.0]]);
    let (new, old) = (("byway", &new[..]), ("kernel-pipe", &old[..]));
    r.ratio(case, "one_way", Better::Less, new, old);
    let lines = native.lines(&r, case);
    assert!(lines.len() == 2 && lines[1].contains("111728"), "{lines:?}");
    assert!(lines.iter().all(|l| l.len() < 80), "{lines:?}");
    assert!(text::heading().len() < 80);
}
