//! What alloc and free promise, on both fronts: objects are distinct, memory is theirs, exhaustion is an answer, and
//! the audit finds each in one place.
mod common;
use byway_mem::audit::audit;
use byway_mem::cache::{alloc, drain, free, hold};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, SLAB_BYTES};
use byway_mem::{reclaim, stats};
use common::{child, cpus, domain, locked_domain, pin, user};
use std::collections::HashSet;
use std::sync::atomic::Ordering::Relaxed;

fn both(slabs: usize, f: impl Fn(Domain)) {
    f(domain(slabs));
    f(locked_domain(slabs));
}

/// As `both`, by a thread that stays on one CPU: what another CPU's front has at hand cannot be had from here.
fn both_on_one_cpu(slabs: usize, f: impl Fn(Domain) + Send) {
    let one = || {
        pin(cpus()[0]);
        both(slabs, f);
    };
    std::thread::scope(|s| s.spawn(one).join()).unwrap();
}

fn clean(d: &Domain) -> byway_mem::audit::Audit {
    let a = audit(d, |_| {}).unwrap();
    assert!(a.is_clean(), "{a:?}");
    a
}

#[test]
fn objects_are_distinct_and_aligned_and_writable() {
    both(16, |d| {
        let u = user(d);
        for class in Class::ALL {
            let v: Vec<u32> = (0..70).map_while(|_| alloc(&u, class)).collect();
            assert!(v.len() >= 8 * 5, "{class:?} {}", v.len());
            let places: HashSet<usize> = v
                .iter()
                .map(|&x| d.address(x, class).unwrap() as usize)
                .collect();
            assert_eq!(places.len(), v.len());
            for (i, &x) in v.iter().enumerate() {
                // SAFETY: it is ours.
                unsafe {
                    d.address(x, class)
                        .unwrap()
                        .write_bytes(i as u8, class.bytes())
                };
            }
            for (i, &x) in v.iter().enumerate() {
                let p = d.address(x, class).unwrap();
                // SAFETY: it is ours.
                let all = unsafe { std::slice::from_raw_parts(p, class.bytes()) };
                assert!(all.iter().all(|&b| b == i as u8), "{class:?} {i}");
            }
            assert_eq!(clean(&d).held, v.len());
            for x in v {
                free(&u, x, class);
            }
            assert_eq!(clean(&d).held, 0);
        }
    });
}

#[test]
fn the_last_reference_frees() {
    both(2, |d| {
        let u = user(d);
        let x = alloc(&u, Class::Cluster).unwrap();
        hold(&u, x);
        free(&u, x, Class::Cluster);
        assert_eq!(clean(&d).held, 1);
        let y = alloc(&u, Class::Cluster).unwrap();
        assert_ne!(x, y);
        free(&u, x, Class::Cluster);
        free(&u, y, Class::Cluster);
        assert_eq!(clean(&d).held, 0);
    });
}

#[test]
fn reuse_is_lifo() {
    both_on_one_cpu(2, |d| {
        let u = user(d);
        let x = alloc(&u, Class::Mbuf).unwrap();
        free(&u, x, Class::Mbuf);
        let y = alloc(&u, Class::Mbuf).unwrap();
        free(&u, y, Class::Mbuf);
        let z = alloc(&u, Class::Mbuf).unwrap();
        free(&u, z, Class::Mbuf);
        assert!(x == y && y == z);
    });
}

#[test]
fn exhaustion_is_an_answer_and_everything_can_be_had_again() {
    both_on_one_cpu(3, |d| {
        let u = user(d);
        for round in 0..3 {
            for class in Class::ALL {
                let mut v = Vec::new();
                while let Some(x) = alloc(&u, class) {
                    v.push(x);
                }
                // Buckets of other classes in the fronts may hold a slab each.
                assert!(
                    v.len() >= class.of_slab(),
                    "round {round} {class:?}: {} objects",
                    v.len()
                );
                assert!(alloc(&u, class).is_none());
                assert!(stats::class(&d, class).events.failures > 0);
                for x in v {
                    free(&u, x, class);
                }
                drain(&u);
                reclaim::give(&u, usize::MAX);
                clean(&d);
            }
        }
        let s = Class::ALL.map(|c| stats::class(&d, c).in_use);
        assert_eq!(s, [0; 3]);
    });
}

#[test]
fn what_one_process_allocates_another_frees() {
    both(16, |d| {
        let table: Vec<u32> = {
            let u = user(d);
            (0..200).map(|_| alloc(&u, Class::Mbuf).unwrap()).collect()
        };
        let status = child(|| {
            let u = user(d);
            for &x in &table {
                free(&u, x, Class::Mbuf);
            }
            0
        });
        assert_eq!(status, 0);
        assert_eq!(clean(&d).held, 0);
        let e = stats::class(&d, Class::Mbuf).events;
        assert!(e.refills > 0 && e.drains > 0, "{e:?}");
    });
}

#[test]
fn free_memory_goes_back_to_the_machine() {
    both_on_one_cpu(64, |d| {
        let u = user(d);
        let h = d.header();
        h.low_kib.store(1 << 10, Relaxed);
        h.high_kib.store(2 << 10, Relaxed);
        for class in Class::ALL {
            let mut v = Vec::new();
            while let Some(x) = alloc(&u, class) {
                v.push(x);
            }
            assert!(v.len() * class.bytes() > 50 * SLAB_BYTES);
            for x in v {
                free(&u, x, class);
            }
            drain(&u);
            let before = reclaim::free_bytes(&d);
            let given = reclaim::give(&u, before - (1 << 20));
            let after = reclaim::free_bytes(&d);
            assert!(
                after <= 2 << 20,
                "{class:?}: {before} -> {after}, {given} given"
            );
            let present: usize = Class::ALL
                .iter()
                .map(|&c| stats::class(&d, c).present)
                .sum();
            assert!(present <= 2 << 20, "{present}");
            clean(&d);
        }
    });
}

#[test]
fn preallocation_is_there_before_it_is_wanted() {
    both(16, |d| {
        let u = user(d);
        let got = reclaim::preallocate(&u, 3 << 20);
        assert!(got >= 3 << 20, "{got}");
        assert!(reclaim::free_bytes(&d) >= 3 << 20);
        clean(&d);
    });
}

#[test]
fn a_small_wish_is_a_small_gift() {
    both_on_one_cpu(16, |d| {
        let u = user(d);
        let mut v = Vec::new();
        while let Some(x) = alloc(&u, Class::Cluster) {
            v.push(x);
        }
        v.into_iter().for_each(|x| free(&u, x, Class::Cluster));
        for want in [1, 4096, SLAB_BYTES] {
            let given = reclaim::give(&u, want);
            assert!(
                given >= want && given < want + SLAB_BYTES,
                "{given} of {want}"
            );
        }
        clean(&d);
    });
}

/// A quarter of the arena at a time: grow, no growth, shrink; and back.
#[test]
fn bands_follow_what_is_taken() {
    use byway_mem::reclaim::{Band, band};
    both(16, |d| {
        let u = user(d);
        let mut v = Vec::new();
        let mut take = |slabs: usize| {
            while v.len() < slabs * Class::Jumbo.of_slab() {
                v.push(alloc(&u, Class::Jumbo).unwrap());
            }
            band(&d)
        };
        assert_eq!(band(&d), Band::Grow);
        assert_eq!(take(7), Band::Grow);
        assert_eq!(take(9), Band::Stay);
        assert_eq!(take(13), Band::Shrink);
        for x in v {
            free(&u, x, Class::Jumbo);
        }
        drain(&u);
        // Above three quarters what is free goes at once, without the wait that `decay_ms` sets.
        d.header().decay_ms.store(1_000_000, Relaxed);
        d.header().low_kib.store(0, Relaxed);
        reclaim::tend(&u);
        assert_eq!(band(&d), Band::Grow);
        clean(&d);
    });
}
