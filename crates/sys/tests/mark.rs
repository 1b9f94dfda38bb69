//! A mark in the thread's area of restartable sequences tells whether it has lost its CPU.
//!
//! Invariant: a mark may be gone too soon (somebody else wanted the CPU), never stay too long: so each case asks for one that is
//! gone at once, and for one in a thousand that stays.
//! Not here: sequences (crate mem).
use byway_sys::{process, rseq};

/// Whether a mark has outlived `f`, one time in a thousand.
fn outlives(f: impl Fn()) -> bool {
    (0..1000).any(|_| {
        let Some(a) = rseq::area() else {
            return false;
        };
        a.mark();
        f();
        a.is_marked()
    })
}

#[test]
fn it_goes_with_the_cpu() {
    if rseq::area().is_none() {
        eprintln!("skipped: the C library registered no area");
        return;
    }
    assert!(outlives(|| ()));
    assert!(outlives(|| {
        process::getpid();
    }));
    assert!(!outlives(lose_the_cpu));
}

/// Sleeps until the kernel has counted that: a short nap may be over before it has begun, where the host takes the CPU meanwhile.
fn lose_the_cpu() {
    let before = switches();
    while switches() == before {
        process::nap(20);
    }
}

fn switches() -> i64 {
    // SAFETY: integers only.
    let mut r: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: room for a struct rusage.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut r) };
    r.ru_nvcsw
}

extern "C" fn nothing(_: i32) {}

#[test]
fn and_with_a_signal() {
    if rseq::area().is_none() {
        eprintln!("skipped: the C library registered no area");
        return;
    }
    // SAFETY: a handler that does nothing.
    unsafe { libc::signal(libc::SIGUSR1, nothing as *const () as usize) };
    assert!(!outlives(|| {
        // SAFETY: raise(3).
        unsafe { libc::raise(libc::SIGUSR1) };
    }));
}
