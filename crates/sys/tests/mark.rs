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
    assert!(!outlives(|| process::nap(20)));
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
