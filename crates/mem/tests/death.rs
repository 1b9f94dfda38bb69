//! Death at every step: a process is killed at each crash point, and from outside at any moment; then a sweep brings
//! home what it had, and nothing is lost, doubled or foreign. Run with `--features crash`.
//!
//! Invariant: each armed death is checked to have been a death at that point (SIGKILL, which nothing else sends there).
//! Not here: death inside a restartable sequence, which commits with one store (sequences.rs interrupts it everywhere).
#![cfg(feature = "crash")]
mod common;
use byway_mem::audit::{Audit, audit};
use byway_mem::cache::{User, alloc, drain, free, hold};
use byway_mem::crash::{Point, arm};
use byway_mem::domain::Domain;
use byway_mem::layout::{CHANNEL, Class};
use byway_mem::{reclaim, sweep};
use byway_sys::process;
use common::*;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

const KILLED: i32 = 256 + libc::SIGKILL;
const SLABS: usize = 6;

/// A bit of everything; comes by every crash point of its kind of front.
fn workload(u: &User, turns: u32) {
    let d = u.domain;
    for turn in 0..turns {
        for class in Class::ALL {
            // More than two buckets, so that full ones go to the depot and empty ones come.
            let n = class.cap() * 3 + 1;
            let v: Vec<u32> = (0..n).map_while(|_| alloc(u, class)).collect();
            for &x in &v {
                if x % 3 == 0 {
                    hold(u, x);
                    free(u, x, class);
                }
            }
            for &x in v.iter().rev() {
                free(u, x, class);
            }
        }
        if turn % 2 == 1 {
            drain(u);
            reclaim::give(u, usize::MAX);
        }
        if turn % 5 == 4 {
            sweep::sweep(u, |_| {});
            audit(&d, |_| {});
        }
    }
}

fn swept(d: Domain, what: &str) -> Audit {
    assert!(sweep::sweep(&user(d), |_| {}).is_some(), "{what}: no sweep");
    let a = audit(&d, |_| {}).unwrap();
    assert!(a.is_clean() && a.held == 0, "{what}: {a:?}");
    a
}

/// After a sweep with nobody left: all memory can be had again, as in a new domain.
fn whole(d: Domain, what: &str, fresh: &[usize]) {
    drain_all(d);
    let a = audit(&d, |_| {}).unwrap();
    assert_eq!(
        (a.objects, a.at_home, a.in_buckets),
        (0, 0, 0),
        "{what}: {a:?}"
    );
    let got = Class::ALL.map(|c| capacity(d, c));
    assert_eq!(got.as_slice(), fresh, "{what}");
}

fn fresh(make: fn(usize) -> Domain, slabs: usize) -> Vec<usize> {
    let d = make(slabs);
    let v = Class::ALL.map(|c| capacity(d, c)).to_vec();
    for (c, n) in Class::ALL.iter().zip(&v) {
        assert_eq!(*n, slabs * c.of_slab(), "{c:?}");
    }
    v
}

fn at_every_point(make: fn(usize) -> Domain, unreachable: &[Point]) {
    // One CPU, so that its front is the only one that this thread must look into afterwards.
    pin(cpus()[0]);
    let all = fresh(make, SLABS);
    let mut deaths = 0;
    for p in Point::ALL {
        for nth in (1..=8).chain([13, 31, 64, 100, 200]) {
            let d = make(SLABS);
            // Somebody who lives, and keeps something, is not disturbed.
            let u = user(d);
            let mine: Vec<(u32, Class)> = Class::ALL.map(|c| (alloc(&u, c).unwrap(), c)).to_vec();
            let end = child(|| {
                let u = user(d);
                arm(p, nth);
                workload(&u, 400);
                0
            });
            let what = format!("{p:?}, time {nth}");
            if unreachable.contains(&p) {
                assert_eq!(end, 0, "{what}: listed as out of reach");
                break;
            }
            assert_eq!(end, KILLED, "{what}: did not die there");
            deaths += 1;
            assert!(sweep::sweep(&u, |_| {}).is_some(), "{what}");
            let a = audit(&d, |_| {}).unwrap();
            assert!(a.is_clean() && a.held == mine.len(), "{what}: {a:?}");
            for (x, c) in mine {
                free(&u, x, c);
            }
            swept(d, &what);
            whole(d, &what, &all);
        }
    }
    assert_eq!(deaths, (Point::ALL.len() - unreachable.len()) * 13);
}

#[test]
fn at_every_point_with_rseq() {
    if !user(domain(1)).has_rseq() {
        println!("skipped: no restartable sequences here");
        return;
    }
    at_every_point(domain, &[Point::Front]);
}

#[test]
fn at_every_point_with_locks() {
    at_every_point(locked_domain, &[]);
}

/// Allocates, writes, checks and frees until it is killed; 7: somebody else wrote into an object of ours.
fn worker(d: Domain, seed: u64, count: &AtomicU32) -> i32 {
    let u = user(d);
    let mut r = Rng::new(seed);
    let mut held: Vec<(u32, Class, u64)> = Vec::new();
    loop {
        let class = Class::ALL[[0, 0, 0, 1, 1, 2][r.below(6)]];
        if held.len() < 400 && r.below(100) < 52 {
            if let Some(x) = alloc(&u, class) {
                let tag = (r.next() << 16) | u64::from(u.who.pid & 0xffff);
                let p = d.address(x, class).unwrap().cast::<u64>();
                // SAFETY: ours.
                unsafe {
                    p.write_volatile(tag);
                    p.add(class.bytes() / 8 - 1).write_volatile(tag);
                }
                held.push((x, class, tag));
            }
        } else if !held.is_empty() {
            let (x, class, tag) = held.swap_remove(r.below(held.len()));
            let p = d.address(x, class).unwrap().cast::<u64>();
            // SAFETY: ours.
            let (a, b) = unsafe {
                (
                    p.read_volatile(),
                    p.add(class.bytes() / 8 - 1).read_volatile(),
                )
            };
            if (a, b) != (tag, tag) {
                return 7;
            }
            free(&u, x, class);
        }
        match r.below(20_000) {
            0 => drop(sweep::sweep(&u, |_| {})),
            1..20 => drop(reclaim::give(&u, r.below(4 << 20))),
            20..40 => drain(&u),
            _ => {}
        }
        count.fetch_add(1, Relaxed);
    }
}

fn killed_at_random(make: fn(usize) -> Domain, seed: u64) {
    const WORKERS: usize = 5;
    const KILLS: usize = 300;
    println!("seed {seed}");
    pin(cpus()[0]);
    let (d, count) = (make(24), shared::<AtomicU32>());
    let mut r = Rng::new(seed);
    let begin = |k: usize| {
        start(move || {
            cpus_of_machine();
            worker(d, seed * 1000 + k as u64, count)
        })
    };
    let mut them: Vec<i32> = (0..WORKERS).map(begin).collect();
    let mut sweeps = 0;
    for k in 0..KILLS {
        process::nap(r.below(12_000) as u64);
        let i = r.below(WORKERS);
        assert_eq!(
            kill(them[i]),
            KILLED,
            "kill {k}: 7 is an object of two owners"
        );
        them[i] = begin(WORKERS + k);
        if k % 3 == 0 {
            sweeps += usize::from(sweep::sweep(&user(d), |_| {}).is_some());
        }
    }
    // Enough has been done for this to mean something.
    while sweeps == 0 || count.load(Relaxed) < 10_000 {
        sweeps += usize::from(sweep::sweep(&user(d), |_| {}).is_some());
        process::nap(1000);
    }
    for &pid in &them {
        assert_eq!(kill(pid), KILLED);
    }
    let what = format!("after {KILLS} kills, seed {seed}");
    swept(d, &what);
    // The fronts of all CPUs, one after the other.
    for cpu in cpus_of_machine() {
        pin(cpu);
        drain(&user(d));
    }
    whole(d, &what, &Class::ALL.map(|c| 24 * c.of_slab()));
}

/// Those that this process may be pinned to; it may run on all of them from now on.
fn cpus_of_machine() -> Vec<usize> {
    // SAFETY: the mask is ours.
    unsafe {
        let set = [0xffu8; 128];
        assert_eq!(libc::sched_setaffinity(0, 128, set.as_ptr().cast()), 0);
    }
    cpus()
}

#[test]
fn killed_at_random_with_rseq() {
    killed_at_random(domain, 20_261);
}

#[test]
fn killed_at_random_with_locks() {
    killed_at_random(locked_domain, 20_262);
}

#[test]
fn many_dead_at_once() {
    let d = domain(16);
    for _ in 0..300 {
        let end = child(|| {
            let u = user(d);
            // One stays in this process's hands, the others leave its mark in the buckets.
            let v: Vec<u32> = (0..5).map(|_| alloc(&u, Class::Mbuf).unwrap()).collect();
            v[1..].iter().for_each(|&x| free(&u, x, Class::Mbuf));
            0
        });
        assert_eq!(end, 0);
    }
    let a = audit(&d, |_| {}).unwrap();
    assert_eq!(a.lost, 300, "{a:?}");
    swept(d, "300 dead");
}

#[test]
fn what_channels_reach_stays() {
    let d = domain(8);
    let table: &[AtomicU32; 4] = shared();
    let end = child(|| {
        let u = user(d);
        let (a, b) = (
            alloc(&u, Class::Jumbo).unwrap(),
            alloc(&u, Class::Jumbo).unwrap(),
        );
        let (c, e) = (
            alloc(&u, Class::Mbuf).unwrap(),
            alloc(&u, Class::Jumbo).unwrap(),
        );
        d.object(a).unwrap().mark.store(CHANNEL | 5, Relaxed);
        d.object(c).unwrap().mark.store(CHANNEL | 6, Relaxed);
        [a, b, c, e]
            .iter()
            .zip(table)
            .for_each(|(x, t)| t.store(*x, Relaxed));
        0
    });
    assert_eq!(end, 0);
    let [a, b, c, e] = [0, 1, 2, 3].map(|i| table[i].load(Relaxed));
    // `a`, `c` are marked with a channel, `b` with a dead process; a channel has these three. Nobody has `e`.
    let reach = |f: &mut dyn FnMut(u32)| [a, b, c].into_iter().for_each(f);
    let u = user(d);
    let found = sweep::sweep(&u, reach).unwrap();
    assert_eq!(found.objects, 1, "{found:?}");
    let at = audit(&d, reach).unwrap();
    assert!(
        at.is_clean() && at.in_channels == 3 && at.held == 0,
        "{at:?}"
    );
    let got: Vec<u32> = std::iter::from_fn(|| alloc(&u, Class::Jumbo)).collect();
    assert!(got.contains(&e) && !got.contains(&a) && !got.contains(&b));
    got.iter().for_each(|&x| free(&u, x, Class::Jumbo));
    // The channels give them up, as their last user would: now they can be had again.
    for (x, class) in [(a, Class::Jumbo), (b, Class::Jumbo), (c, Class::Mbuf)] {
        free(&u, x, class);
    }
    let at = audit(&d, |_| {}).unwrap();
    assert!(at.is_clean() && at.held + at.in_channels == 0, "{at:?}");
}

#[test]
fn the_first_thread_may_end_before_the_process() {
    let (d, said) = (domain(4), shared::<AtomicU32>());
    let pid = start(|| {
        let u = user(d);
        let x = alloc(&u, Class::Mbuf).unwrap();
        std::thread::spawn(move || {
            process::nap(20_000);
            said.store(x + 1, Relaxed);
            loop {
                process::nap(1_000_000);
            }
        });
        // LINUX: the process goes on without its first thread, whose state is Z from now on.
        // SAFETY: only this thread ends.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
        0
    });
    while said.load(Relaxed) == 0 {
        process::nap(1000);
    }
    assert!(process::is_dead(pid as u32), "its first thread is a zombie");
    sweep::sweep(&user(d), |_| {}).unwrap();
    let a = audit(&d, |_| {}).unwrap();
    assert!(
        a.is_clean() && a.held == 1,
        "a living process's object was taken: {a:?}"
    );
    assert_eq!(kill(pid), KILLED);
    swept(d, "after its death");
}
