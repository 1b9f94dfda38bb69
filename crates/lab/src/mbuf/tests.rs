//! What every backend must do, so that the comparison is between allocators that work.
//!
//! Invariant: the same tests for all; no test fails on a time.
//! Not here: our allocator's own tests (crates/mem/tests).
use super::allocator::{Allocator, Local, Room};
use super::harness::Harness;
use super::heaps::Malloc;
use super::ours::MbAlloc;
use super::pool::Pool;
use super::present::Present;
use super::*;
use crate::machine;
use byway_mem::layout::Class;
use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const ROOM: Room = Room {
    mbufs: 2000,
    clusters: 400,
    jumbos: 40,
};

fn made<A: Allocator>() -> A {
    A::make(ROOM).unwrap()
}

/// The first word of `x`, shared with whoever else was given it by mistake.
fn word<L: Local>(a: &L, x: usize) -> &AtomicU64 {
    // SAFETY: an object that we have: aligned, and there while the test runs.
    unsafe { &*(a.at(x) as *const AtomicU64) }
}

/// Objects in use at once do not overlap, and what is freed is given again.
fn distinct<A: Allocator>() {
    let a: A = made();
    let mut l = a.join();
    let mut places = HashSet::new();
    for _ in 0..10 {
        let mut held = vec![];
        for (class, n) in [
            (Class::Mbuf, 500),
            (Class::Cluster, 100),
            (Class::Jumbo, 20),
        ] {
            for _ in 0..n {
                let x = l.alloc(class).unwrap();
                held.push((x, class));
            }
        }
        let mut ranges: Vec<_> = held
            .iter()
            .map(|&(x, c)| (l.at(x) as usize, c.bytes()))
            .collect();
        places.extend(ranges.iter().copied());
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0));
        for (x, c) in held {
            l.free(x, c);
        }
    }
    // Ten times as many would be without reuse; a ring goes round all of its own.
    assert!(places.len() < 5 * 620, "{}", places.len());
}

/// Two threads that take, sign and return objects: nobody else signs meanwhile, and none gets lost.
fn hammered<A: Allocator>() {
    let a: A = made();
    std::thread::scope(|s| {
        for me in 1..=2u64 {
            s.spawn(move || {
                let mut l = a.join();
                let mut held = [0; 100];
                for turn in 0..2000 {
                    let n = 1 + turn % held.len();
                    for (i, h) in held[..n].iter_mut().enumerate() {
                        *h = l.alloc(Class::Mbuf).unwrap();
                        word(&l, *h).store(me << 32 | i as u64, Relaxed);
                    }
                    for (i, h) in held[..n].iter().enumerate() {
                        assert_eq!(word(&l, *h).load(Relaxed), me << 32 | i as u64);
                        l.free(*h, Class::Mbuf);
                    }
                }
            });
        }
    });
    let mut l = a.join();
    let all: Vec<_> = (0..1000).map(|_| l.alloc(Class::Mbuf).unwrap()).collect();
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), all.len());
}

/// What one thread took, another may return; nothing gets lost by that.
fn passed_on<A: Allocator>() {
    let a: A = made();
    let (to, from) = std::sync::mpsc::sync_channel(200);
    std::thread::scope(|s| {
        s.spawn(move || {
            let mut l = a.join();
            for _ in 0..20_000 {
                to.send(l.alloc(Class::Mbuf).unwrap()).unwrap();
            }
        });
        let mut l = a.join();
        from.iter().for_each(|x| l.free(x, Class::Mbuf));
    });
}

/// With nothing left the answer is `None`, and what comes back is given again.
fn exhausted<A: Allocator>() {
    on_a_thread(|| {
        // What a CPU's front has at hand it gives to that CPU only.
        machine::pin(machine::allowed()[0]);
        let a: A = made();
        let mut l = a.join();
        let held = all_jumbos(&mut l);
        assert!(held.len() >= ROOM.jumbos);
        assert_eq!(l.alloc(Class::Jumbo), None);
        let n = held.len();
        held.into_iter().for_each(|x| l.free(x, Class::Jumbo));
        assert_eq!(all_jumbos(&mut l).len(), n);
    });
}

/// As `exhausted`, by a thread that the kernel moves in between: no more is out of its reach than the two buckets of
/// the CPU that it left, and they are there when it comes back.
#[test]
fn moved_to_another_cpu() {
    on_a_thread(|| {
        let cpus = machine::allowed();
        let (here, there) = (cpus[0], cpus[cpus.len() - 1]);
        machine::pin(here);
        let a: MbAlloc = made();
        let mut l = a.join();
        let held = all_jumbos(&mut l);
        let n = held.len();
        held.into_iter().for_each(|x| l.free(x, Class::Jumbo));
        machine::pin(there);
        let mut held = all_jumbos(&mut l);
        assert!(held.len() + 2 * Class::Jumbo.cap() >= n);
        machine::pin(here);
        held.extend(all_jumbos(&mut l));
        assert_eq!(held.len(), n);
    });
}

/// A thread whose CPUs a test may choose: the runner's own may run other tests after it.
fn on_a_thread(test: impl FnOnce() + Send) {
    std::thread::scope(|s| s.spawn(test).join()).unwrap();
}

/// Every jumbo that there is for `l`. Ours has more room than it was asked for, but not without end.
fn all_jumbos<L: Local>(l: &mut L) -> Vec<usize> {
    let mut held = vec![];
    while let Some(x) = l.alloc(Class::Jumbo) {
        held.push(x);
        assert!(held.len() < 100_000);
    }
    held
}

macro_rules! tests {
    ($($name:ident: $backend:ty, $($test:ident)*;)*) => {$(
        mod $name {
            use super::*;
            $(#[test] fn $test() { super::$test::<$backend>() })*
        }
    )*};
}
tests! {
    mb_alloc: MbAlloc, distinct hammered passed_on exhausted;
    present: Present, distinct hammered passed_on exhausted;
    pool: Pool, distinct hammered passed_on exhausted;
    malloc: Malloc, distinct hammered passed_on;
}

#[test]
fn harness_threads_do_not_share_objects() {
    let h: Harness<16> = made();
    let (mut a, mut b) = (h.join(), h.join());
    let of = |l: &mut dyn FnMut() -> usize| (0..40).map(|_| l()).collect::<HashSet<_>>();
    let one = of(&mut || a.alloc(Class::Mbuf).unwrap());
    let two = of(&mut || b.alloc(Class::Mbuf).unwrap());
    assert_eq!((one.len(), two.len()), (16, 16));
    assert!(one.is_disjoint(&two));
}

#[test]
fn cases_follow_the_cpus() {
    let ids = |cpus| Case::all(cpus).iter().map(Case::id).collect::<Vec<_>>();
    assert_eq!(
        ids(2),
        [
            "pair", "pair-2", "cross", "scale-1", "scale-2", "scale-4", "burst"
        ]
    );
    assert!(ids(6).contains(&"scale-12".to_string()));
    assert!(ids(6).contains(&"scale-6".to_string()));
}

/// Every case with every backend gives a figure, whatever it is.
#[test]
fn every_backend_does_its_cases() {
    let mut m = Mbuf::new(crate::machine::allowed(), true);
    m.plan.cpus.truncate(2);
    m.plan.run = Duration::from_millis(2);
    (m.plan.burst, m.plan.calm) = (8 << 20, Duration::from_millis(60));
    let limits = Limits {
        time: Duration::ZERO,
        ..m.usual()
    };
    let mut record = Record::new("mbuf");
    let cases = m.cases();
    m.prepare(&mut record, &cases).unwrap();
    for id in &cases {
        m.measure(&mut record, id, &limits, &mut |_| ()).unwrap();
        let case = m.case(id).unwrap();
        for b in case.backends() {
            let row = record.find(id, b.name(), case.metric().0);
            assert!(row.is_some_and(|r| r.median > 0.0), "{case:?} {b:?}");
        }
        assert_eq!(m.lines(&record, id).len(), case.backends().len());
    }
    assert!(record.series.iter().all(|s| s.points.len() >= 2));
    assert!(!m.tables(&mut record, &cases).is_empty());
}
