//! Who wakes a reader on one CPU: when it yields to it, and when no more; and when a reader that it woke waits for it.
//!
//! Not here: what a program sees of it (tests/conformance/quiet.c).
mod common;
use byway_mem::layout::Keeper;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::{lock, policy};
use byway_sys::clock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

fn place() -> Keeper {
    Keeper {
        tid: AtomicU32::new(1),
        inside: AtomicU32::new(0),
        quiet: AtomicU32::new(0),
        writes: AtomicU32::new(0),
        yields_from: AtomicU64::new(0),
    }
}

#[test]
fn the_next_is_apart() {
    let (k, apart) = (place(), 1 << 30);
    policy::hand_over(&k, apart);
    let from = k.yields_from.load(Relaxed);
    assert!(from > clock::now());
    policy::hand_over(&k, apart);
    assert_eq!(k.yields_from.load(Relaxed), from, "made in that time");
}

#[test]
fn one_that_came_back_late_is_the_last_for_long() {
    // A stranger on the same CPU, that only computes.
    let cpu = clock::now_cpu().1 as usize;
    let bind = || {
        // SAFETY: a set of ours, of the size given; the calling thread alone.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(cpu, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
        }
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            bind();
            while !over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let wait = s.spawn(|| {
            bind();
            let (k, apart) = (place(), 10_000u32);
            let late = (0..200).any(|_| {
                k.yields_from.store(0, Relaxed);
                let began = clock::now();
                policy::hand_over(&k, apart);
                let took = clock::now() - began;
                let rest = k.yields_from.load(Relaxed).wrapping_sub(began);
                assert!(
                    took > policy::LATE * u64::from(apart)
                        || rest < 2 * policy::LATE * u64::from(apart)
                );
                rest > (policy::LATE * u64::from(apart)) << policy::REST
            });
            over.store(true, Relaxed);
            late
        });
        assert!(wait.join().unwrap(), "the stranger never kept the CPU");
    });
}

/// Naps of the calling thread so far, and other sleeps.
fn sleeps() -> i64 {
    // SAFETY: a structure of ours; the calling thread alone.
    unsafe {
        let mut r: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut r), 0);
        r.ru_nvcsw
    }
}

#[test]
fn a_reader_waits_for_the_rest_of_a_write_only() {
    let p = common::pipe();
    std::thread::scope(|s| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let p = &p;
        s.spawn(move || {
            let me = p.me();
            let taken = lock::try_take(&me, p.ch, p.ch.t()).expect("nobody has it");
            tell.send(()).unwrap();
            let _ = gone.recv();
            lock::drop(&me, p.ch);
            drop(taken);
        });
        told.recv().unwrap();
        let (me, was) = (p.me(), p.ch.t().w());
        let before = sleeps();
        policy::let_publish(&me, p.ch, PIPE_BUF - 1, was);
        assert_eq!(sleeps(), before, "that was all of it");
        policy::let_publish(&me, p.ch, PIPE_BUF, was);
        assert!(sleeps() > before + 100, "more may come");
        drop(go);
    });
}
