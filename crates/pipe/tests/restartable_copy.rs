//! A copy that a signal handler interrupts never goes on after it: what the handler wrote stays.
//!
//! Invariant: the handler, as one that writes into the same pipe would, fills the places and changes the word; whatever the
//! copy then says, the places hold the handler's bytes. A plain copy, interrupted likewise, is the control that must fail.
//! Not here: whole streams (tests/conformance/signal.c: storm_handler_writes).
use byway_sys::rseq;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};

const N: usize = 64 * 1024;
const OURS: u8 = 0x11;
const HANDLERS: u8 = 0xEE;
/// 0: a copy may run; else a handler has run over it, or there is none.
static WORD: AtomicU64 = AtomicU64::new(1);
static PLACES: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handler(_: i32) {
    if WORD.fetch_add(1, Relaxed) == 0 {
        // SAFETY: `N` bytes that the test keeps.
        unsafe { (PLACES.load(Relaxed) as *mut u8).write_bytes(HANDLERS, N) };
    }
}

/// SIGALRM to this thread every `ns`.
fn timer(ns: i64) {
    // SAFETY: structures of this frame, in which zero is a valid value everywhere; the handler touches its own statics.
    unsafe {
        libc::signal(libc::SIGALRM, handler as *const () as usize);
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGALRM;
        event.sigev_notify_thread_id = libc::gettid();
        let mut id: libc::timer_t = std::ptr::null_mut();
        assert_eq!(
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id),
            0
        );
        let mut each: libc::itimerspec = std::mem::zeroed();
        each.it_interval.tv_nsec = ns;
        each.it_value.tv_nsec = ns;
        assert_eq!(libc::timer_settime(id, 0, &each, std::ptr::null_mut()), 0);
    }
}

/// Copies until `enough` copies had a handler; of how many the places were not the handler's alone.
fn spoiled(enough: usize, copy: impl Fn(usize, usize)) -> usize {
    let (ours, mut places) = (vec![OURS; N], vec![0u8; N]);
    PLACES.store(places.as_mut_ptr() as usize, Relaxed);
    let (mut handled, mut bad) = (0, 0);
    while handled < enough && bad == 0 {
        places.fill(0);
        WORD.store(0, Relaxed);
        copy(places.as_ptr() as usize, ours.as_ptr() as usize);
        // Nothing comes between the copy and this look but the handler, which would spoil nothing.
        if WORD.swap(1, Relaxed) != 0 {
            handled += 1;
            bad += usize::from(places.iter().any(|&b| b != HANDLERS));
        } else {
            assert!(
                places.iter().all(|&b| b == OURS),
                "a copy that nobody interrupted"
            );
        }
    }
    bad
}

/// LINUX rseq(2): an interruption before the start takes back what was set, and the copy would run unguarded.
#[test]
fn nothing_comes_between_what_is_set_and_the_start() {
    // SAFETY: a constant, and text, of the program.
    let before = unsafe { *((rseq::byway_rseq_copy_cs.start - 4) as *const [u8; 4]) };
    // mov [r10 + 8], rax; of which the sequence sets r10 to the area.
    assert_eq!(before, [0x49, 0x89, 0x42, 0x08]);
}

#[test]
fn what_a_handler_wrote_stays() {
    let Some(area) = rseq::area() else {
        println!("skipped: no restartable sequences here");
        return;
    };
    timer(50_000);
    let counts = [0, 0, 0].map(std::cell::Cell::new);
    let guarded = |to: usize, from: usize| {
        let mut r = -1;
        while r != rseq::COPIED && r != rseq::CHANGED {
            // SAFETY: both are `N` bytes long; the area is this thread's.
            r = unsafe { rseq::byway_rseq_copy(area, to, from, N, &WORD, 0) };
            let c: &std::cell::Cell<u32> = &counts[r.clamp(0, 2) as usize];
            c.set(c.get() + 1);
        }
    };
    assert_eq!(spoiled(2000, guarded), 0);
    println!("copied, changed, interrupted: {counts:?}");
    // SAFETY: as above.
    let plain = |to: usize, from: usize| unsafe {
        std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, N);
    };
    assert_ne!(
        spoiled(1_000_000, plain),
        0,
        "the control finds nothing: this test shows nothing"
    );
}
