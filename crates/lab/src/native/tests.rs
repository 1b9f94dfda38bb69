//! Tiny runs of every case with every backend, and their table.
//!
//! Invariant: no test fails on a time.
//! Not here: the library's own tests (tests/native).
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
        let native = Native::new(cpus, true);
        for case in Case::ALL {
            for &kind in case.backends() {
                let run = native.one(case, kind, 40).unwrap();
                assert!(run.figure[0] > 0.0, "{case:?} {kind:?}");
                assert_eq!(run.wrong, 0, "{case:?} {kind:?}");
            }
        }
    }
}

#[test]
fn the_first_backend_is_ours_and_ids_are_found() {
    for case in Case::ALL {
        assert_eq!(case.backends()[0], Kind::Byway);
        assert_eq!(Case::of(case.id()), Some(case));
        assert_eq!(case.records(false), 10 * case.records(true));
    }
    assert_eq!(Case::of("oneway"), None);
}

#[test]
fn a_case_has_rows_and_ratios_and_the_table_fits() {
    let mut native = Native::new(machine::allowed(), true);
    let mut r = Record::new("native");
    let (id, rounds) = (Case::Oneway64k.id(), 2);
    native.prepare(&mut r, &[id.into()]).unwrap();
    let limits = Limits {
        least: rounds,
        most: rounds,
        warm: 0,
        ..native.usual()
    };
    native.measure(&mut r, id, &limits, &mut |_| ()).unwrap();
    assert_eq!((r.results.len(), r.ratios.len()), (4, 3));
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
