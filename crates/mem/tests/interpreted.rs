//! The allocator's fronts under locks, buckets, slabs, spans and audit, small enough for an interpreter (ci/miri.sh), which
//! sees each access outside of what was allocated, each read of what was never written, and each race of plain accesses.
//!
//! Restartable sequences are not here: an interpreter has no C library that registers any.
use byway_mem::cache::{self, User};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, Geometry, LOCKED, MAGIC, SLAB_BYTES, flags};
use byway_mem::{audit, holdings, reclaim, span, sweep};
use byway_sys::process;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;

/// A domain in memory of this process alone.
fn domain(slabs: usize) -> Domain {
    let g = Geometry::of(slabs);
    // SAFETY: new memory of the size and alignment that `over` wants; never freed.
    let d = unsafe {
        let p = alloc_zeroed(Layout::from_size_align(g.bytes, 4096).unwrap());
        assert!(!p.is_null());
        Domain::over(p, slabs)
    };
    d.lay_out();
    let h = d.header();
    h.cpus.store(2, Relaxed);
    h.cycles_per_us.store(2000, Relaxed);
    h.flags.store(flags::NO_RSEQ, Relaxed);
    h.magic.store(MAGIC, Relaxed);
    d
}

fn user(d: Domain) -> User {
    User::new(d, process::getpid(), process::gettid())
}

/// Fewer where each step takes a thousand times as long.
fn some(n: usize) -> usize {
    if cfg!(miri) { n / 40 } else { n }
}

fn fill(d: &Domain, unit: u32, class: Class, with: u8) {
    let p = d.address(unit, class).unwrap();
    // SAFETY: it is ours, of this size.
    unsafe { p.write_bytes(with, 256) };
}

fn holds(d: &Domain, unit: u32, class: Class, with: u8) -> bool {
    let p = d.address(unit, class).unwrap();
    // SAFETY: as above; `fill` wrote them.
    (0..256).all(|i| unsafe { p.add(i).read() } == with)
}

fn settled(d: &Domain) {
    cache::drain(&user(*d));
    for i in 0..LOCKED {
        // A number of no thread, that chooses front `i`; nobody else is there.
        let tid = (1 << 29) + i as u32;
        cache::drain(&User::without_rseq(*d, process::getpid(), tid));
    }
    let a = audit::audit(d, |f| holdings::reach(d, f)).unwrap();
    assert!(a.is_clean() && a.held == 0, "{a:?}");
}

#[test]
fn objects_of_each_class() {
    let d = domain(4);
    let u = user(d);
    for class in Class::ALL {
        let v: Vec<u32> = (0..if cfg!(miri) { 40 } else { 300 })
            .map_while(|_| cache::alloc(&u, class))
            .collect();
        assert!(v.len() > 15);
        v.iter()
            .enumerate()
            .for_each(|(i, &x)| fill(&d, x, class, i as u8));
        assert!(
            v.iter()
                .enumerate()
                .all(|(i, &x)| holds(&d, x, class, i as u8))
        );
        for &x in &v {
            cache::hold(&u, x);
            cache::free(&u, x, class);
        }
        assert!(
            v.iter()
                .enumerate()
                .all(|(i, &x)| holds(&d, x, class, i as u8))
        );
        v.iter().for_each(|&x| cache::free(&u, x, class));
        cache::drain(&u);
        reclaim::give(&u, usize::MAX);
    }
    sweep::sweep(&u, |f| holdings::reach(&d, f)).unwrap();
    settled(&d);
}

#[test]
fn one_thread_allocates_and_another_frees() {
    let d = domain(4);
    let (to, from) = mpsc::channel::<(u32, u8)>();
    std::thread::scope(|s| {
        s.spawn(move || {
            let u = user(d);
            for i in 0..some(4000) {
                let Some(x) = cache::alloc(&u, Class::Mbuf) else {
                    process::yield_now();
                    continue;
                };
                fill(&d, x, Class::Mbuf, i as u8);
                to.send((x, i as u8)).unwrap();
            }
        });
        s.spawn(move || {
            let u = user(d);
            for (x, with) in from {
                assert!(holds(&d, x, Class::Mbuf, with));
                cache::free(&u, x, Class::Mbuf);
            }
        });
        s.spawn(move || {
            let u = user(d);
            for i in 0..some(400) {
                let v: Vec<u32> = (0..i % 9)
                    .map_while(|_| cache::alloc(&u, Class::Cluster))
                    .collect();
                v.iter().for_each(|&x| fill(&d, x, Class::Cluster, i as u8));
                reclaim::look(&u);
                assert!(v.iter().all(|&x| holds(&d, x, Class::Cluster, i as u8)));
                v.iter().for_each(|&x| cache::free(&u, x, Class::Cluster));
            }
        });
    });
    settled(&d);
}

#[test]
fn spans_and_those_who_hold_them() {
    let d = domain(6);
    let u = user(d);
    for n in 1..4 {
        let x = span::alloc(&u, n * SLAB_BYTES, u32::MAX).unwrap();
        let (p, bytes) = holdings::object(&d, x).unwrap();
        assert_eq!(bytes, n * SLAB_BYTES);
        // SAFETY: the span is ours, of this size.
        unsafe {
            p.write(1);
            p.add(bytes - 1).write(2);
        }
        let h = holdings::enter(&u, x, process::getpid(), 0).unwrap();
        holdings::give_up(&u, h, process::getpid());
    }
    holdings::sweep(&u, holdings::is_dead);
    span::give_back(&u, usize::MAX);
    sweep::sweep(&u, |f| holdings::reach(&d, f)).unwrap();
    let a = audit::audit(&d, |f| holdings::reach(&d, f)).unwrap();
    assert!(a.is_clean(), "{a:?}");
}

/// Whatever a peer writes into the tables, nothing outside of the domain is touched and every call ends.
#[test]
fn nonsense_in_the_tables() {
    let d = domain(2);
    let u = user(d);
    let tables = d.header() as *const _ as *const u8;
    let (from, to) = (4096, d.geometry().arena_at);
    let mut seed = 1u64;
    let mut next = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) as usize % n
    };
    for turn in 0..some(2000) {
        let word = (from + next(to - from)) & !3;
        // SAFETY: a word of the tables, which all are atomics; exposed by `over`.
        let word =
            unsafe { &*(std::ptr::with_exposed_provenance::<AtomicU32>(tables.addr() + word)) };
        word.store(
            [0, u32::MAX, next(1 << 20) as u32, 1 << 31][turn % 4],
            Relaxed,
        );
        for class in Class::ALL {
            if let Some(x) = cache::alloc(&u, class) {
                cache::free(&u, x, class);
            }
        }
        if turn % 64 == 0 {
            cache::drain(&u);
            reclaim::give(&u, usize::MAX);
            let _ = audit::audit(&d, |f| holdings::reach(&d, f));
        }
    }
}
