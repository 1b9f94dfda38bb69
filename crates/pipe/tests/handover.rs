//! Who wakes a reader on one CPU: when it yields to it, and when no more; and when a reader that it woke waits for it.
//!
//! Not here: what a program sees of it (tests/conformance/pass_through.c).
mod common;
use byway_mem::layout::ThreadSlot;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::{lock, wait};
use byway_sys::clock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

fn place() -> ThreadSlot {
    ThreadSlot {
        tid: AtomicU32::new(1),
        inside: AtomicU32::new(0),
        passing: AtomicU32::new(0),
        wrote: AtomicU32::new(0),
        writes: AtomicU32::new(0),
        yields_from: AtomicU64::new(0),
        calm: AtomicU32::new(0),
        late: AtomicU32::new(0),
        apart: AtomicU32::new(0),
        asked: AtomicU64::new(0),
    }
}

/// The calling thread, to one CPU.
fn bind(cpu: u32) {
    // SAFETY: a set of ours, of the size given; the calling thread alone.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

#[test]
fn the_next_is_apart() {
    let (k, apart) = (place(), 1 << 30);
    wait::hand_over(&k, apart);
    let from = k.yields_from.load(Relaxed);
    assert!(from > clock::now());
    wait::hand_over(&k, apart);
    assert_eq!(k.yields_from.load(Relaxed), from, "made in that time");
}

/// Where somebody's yield was dear to the domain, the next is not this thread's.
#[test]
fn what_a_wait_has_learned_counts() {
    let (p, k) = (common::pipe(), place());
    std::thread::scope(|s| {
        s.spawn(|| {
            bind(clock::now_cpu().1);
            let until = clock::now() + (1 << 40);
            let dear = &p.d.header().noyield_until;
            dear.iter().for_each(|d| d.store(until, Relaxed));
            assert!(wait::apart(&p.me(), p.ch, &k) > 0);
            assert_eq!(k.yields_from.load(Relaxed), until);
            dear.iter().for_each(|d| d.store(1, Relaxed));
            wait::apart(&p.me(), p.ch, &k);
            assert_eq!(k.yields_from.load(Relaxed), until, "not sooner");
        });
    });
}

#[test]
fn no_rest_is_for_ever() {
    let (k, apart) = (place(), 1000u32);
    // Of one that was stopped for an hour, or of another machine's clock.
    let never = clock::now() + (u64::from(apart) << (wait::LONGEST + 4));
    k.yields_from.store(never, Relaxed);
    wait::hand_over(&k, apart);
    let longest = u64::from(apart) << wait::LONGEST;
    assert!(k.yields_from.load(Relaxed) <= clock::now() + longest);
}

#[test]
fn a_real_time_thread_goes_on_before_others() {
    let p = common::pipe();
    let class = |class| {
        let priority = libc::sched_param {
            sched_priority: i32::from(class == libc::SCHED_FIFO),
        };
        // SAFETY: a structure of ours; the calling thread alone.
        unsafe { libc::sched_setscheduler(0, class, &priority) }
    };
    std::thread::scope(|s| {
        s.spawn(|| {
            if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) {
                assert_eq!(wait::apart(&p.me(), p.ch, &place()), 0, "on several CPUs");
            }
            bind(clock::now_cpu().1);
            // Told anew, also of a process that began on several.
            assert!(wait::apart(&p.me(), p.ch, &place()) > 0, "on one");
            assert_eq!(class(libc::SCHED_BATCH), 0);
            assert!(wait::apart(&p.me(), p.ch, &place()) > 0, "as a batch");
            p.ch.facts.0.left.store(1000, Relaxed);
            assert_eq!(wait::apart(&p.me(), p.ch, &place()), 0, "to who splices");
            p.ch.facts.0.left.store(0, Relaxed);
            if class(libc::SCHED_FIFO) != 0 {
                println!("skipped: this user has no real-time priorities");
                return;
            }
            assert_eq!(wait::apart(&p.me(), p.ch, &place()), 0, "in real time");
        });
    });
}

/// Yields beside a busy thread until one comes back late: the rest that follows, in cycles. Each is made as if so many
/// had come back in time before it, for how many really do depends on what else the machine does.
fn until_late(k: &ThreadSlot, apart: u32, calm: u32) -> u64 {
    let late = wait::LATE * u64::from(apart);
    // Beside other work it may be long in coming.
    let begun = std::time::Instant::now();
    while begun.elapsed().as_secs() < 20 {
        k.calm.store(calm, Relaxed);
        k.yields_from.store(0, Relaxed);
        let began = clock::now();
        wait::hand_over(k, apart);
        let took = clock::now() - began;
        let rest = k.yields_from.load(Relaxed).wrapping_sub(began);
        if k.calm.load(Relaxed) != calm + 1 {
            assert!(took > late);
            assert_eq!(k.calm.load(Relaxed), 0);
            return rest;
        }
        assert!(rest < 2 * late);
    }
    panic!("the busy thread never kept the CPU");
}

#[test]
fn each_that_comes_back_late_is_the_last_for_longer() {
    // A busy thread on the same CPU, that only computes.
    let cpu = clock::now_cpu().1;
    let yields = || {
        bind(cpu);
        let (k, apart) = (place(), 10_000u32);
        let late = wait::LATE * u64::from(apart);
        for n in 1..=3 {
            assert!(until_late(&k, apart, 5) > late << (wait::REST + n));
            assert_eq!(k.late.load(Relaxed), n);
        }
        // Not for ever, whatever stands there.
        k.late.store(u32::MAX, Relaxed);
        let longest = u64::from(apart) << wait::LONGEST;
        assert!((longest..2 * longest).contains(&until_late(&k, apart, 5)));
        assert_eq!(k.late.load(Relaxed), wait::DOUBLED);
        // After many that did not, it is the first again.
        assert!(until_late(&k, apart, wait::CALM) > late << wait::REST);
        assert_eq!(k.late.load(Relaxed), 0);
    };
    let over = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            bind(cpu);
            while !over.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        let wait = s.spawn(|| {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&yields));
            over.store(true, Relaxed);
            done
        });
        if let Err(e) = wait.join().unwrap() {
            std::panic::resume_unwind(e);
        }
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
            let taken = lock::try_take(&me, p.ch, p.ch.tail()).expect("nobody has it");
            tell.send(()).unwrap();
            let _ = gone.recv();
            lock::unlock(&me, p.ch);
            drop(taken);
        });
        told.recv().unwrap();
        let (me, was) = (p.me(), p.ch.tail().position());
        let before = sleeps();
        let more = &p.ch.m.0.more;
        more.store(1, Relaxed);
        wait::let_publish(&me, p.ch, PIPE_BUF - 1, was);
        more.store(0, Relaxed);
        wait::let_publish(&me, p.ch, PIPE_BUF, was);
        assert_eq!(sleeps(), before, "that was all of it");
        more.store(1, Relaxed);
        wait::let_publish(&me, p.ch, PIPE_BUF, was);
        assert!(sleeps() > before + 100, "more may come");
        drop(go);
    });
}
