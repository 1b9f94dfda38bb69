//! The restartable sequences interrupted anywhere by timers, whose handlers allocate and free as well, in several
//! processes at once; and the same without the kernel's help, which must show.
//!
//! Invariant: it is counted how often a signal came inside a sequence; with too few the test goes on.
//! Not here: each instruction in turn (sequences.rs).
mod common;
use byway_mem::audit::audit;
use byway_mem::cache::{User, alloc, drain, free};
use byway_mem::domain::Domain;
use byway_mem::layout::Class;
use byway_sys::rseq;
use common::sequence::*;
use common::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

static USER: AtomicPtr<User> = AtomicPtr::new(std::ptr::null_mut());
// Of the stress: signals, those that came inside a sequence, and what the handler holds.
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static ABORTS: AtomicUsize = AtomicUsize::new(0);
static HELD: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];
static LABELS: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];

extern "C" fn ticked(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let ip = *rip(context) as usize;
    if LABELS.iter().any(|l| l.load(Relaxed) == ip) {
        ABORTS.fetch_add(1, Relaxed);
    }
    let k = SIGNALS.fetch_add(1, Relaxed);
    // SAFETY: set before the timer; this thread's.
    let u = unsafe { &*USER.load(Relaxed) };
    let slot = &HELD[k % 8];
    match slot.swap(0, Relaxed) {
        0 => slot.store(alloc(u, Class::Mbuf).map_or(0, |x| x + 1), Relaxed),
        x => free(u, x - 1, Class::Mbuf),
    }
    if k.is_multiple_of(64) {
        drain(u);
    }
}

fn tick(us: i64) {
    let t = libc::timeval {
        tv_sec: 0,
        tv_usec: us,
    };
    let it = libc::itimerval {
        it_interval: t,
        it_value: t,
    };
    // SAFETY: a struct itimerval.
    unsafe {
        assert_eq!(
            libc::setitimer(libc::ITIMER_REAL, &it, std::ptr::null_mut()),
            0
        )
    };
}

/// One process of the stress. 0: all it saw was in order. `blind`: it ends soon, whatever came.
fn stress(d: Domain, seed: u64, blind: bool, aborts: &AtomicUsize) -> i32 {
    let u = user(d);
    USER.store(&raw const u as *mut User, Relaxed);
    LABELS
        .iter()
        .zip(sequences())
        .for_each(|(l, s)| l.store(s.abort, Relaxed));
    on(libc::SIGALRM, ticked);
    let (mut r, begin) = (Rng::new(seed), std::time::Instant::now());
    let more = || {
        if blind {
            return SIGNALS.load(Relaxed) < 5000;
        }
        // Two seconds, and longer if too few signals hit a sequence: this is what the test is about.
        assert!(
            SIGNALS.load(Relaxed) < 3_000_000,
            "no signal ever hits a sequence"
        );
        begin.elapsed().as_millis() < 2000 || ABORTS.load(Relaxed) < 50
    };
    tick(30 + 7 * seed as i64);
    while more() {
        let v: Vec<u32> = (0..1 + r.below(150))
            .map_while(|_| alloc(&u, Class::Mbuf))
            .collect();
        let word = |x| d.address(x, Class::Mbuf).unwrap().cast::<u64>();
        for &x in &v {
            // SAFETY: ours; whoever else has it too will find our tag in it.
            unsafe { word(x).write_volatile((u64::from(x) << 32) | u64::from(u.who.pid)) };
        }
        for &x in v.iter().rev() {
            // SAFETY: ours.
            let tag = unsafe { word(x).read_volatile() };
            if tag != (u64::from(x) << 32) | u64::from(u.who.pid) {
                tick(0);
                return 7;
            }
            free(&u, x, Class::Mbuf);
        }
    }
    tick(0);
    for h in &HELD {
        if let Some(x) = h.load(Relaxed).checked_sub(1) {
            free(&u, x, Class::Mbuf);
        }
    }
    aborts.fetch_add(ABORTS.load(Relaxed), Relaxed);
    0
}

#[test]
fn interrupted_by_timers() {
    if !there_are_sequences() {
        return;
    }
    let (d, aborts) = (domain(32), shared::<AtomicUsize>());
    let them = [0, 1, 2, 3].map(|i| start(|| stress(d, i, false, aborts)));
    assert_eq!(them.map(wait), [0; 4], "7: an object had two owners");
    println!("{} signals came in a sequence", aborts.load(Relaxed));
    assert!(aborts.load(Relaxed) >= 200);
    let a = audit(&d, |_| {}).unwrap();
    assert!(a.is_clean() && a.held == 0, "{a:?}");
}

/// The control: the same with descriptors that name no instruction, so that the kernel lets every sequence go on where
/// it was interrupted. The stress must see it.
#[test]
fn without_the_kernel_it_would_show() {
    if !there_are_sequences() {
        return;
    }
    let (d, aborts) = (domain(32), shared::<AtomicUsize>());
    let blind = |i| {
        // SAFETY: this child's own copy of constants, which nobody else reads now.
        unsafe {
            for cs in [
                &raw const rseq::byway_rseq_pop_cs,
                &raw const rseq::byway_rseq_push_cs,
                &raw const rseq::byway_rseq_exchange_cs,
            ] {
                let first = cs as usize & !4095;
                let len = cs as usize + size_of::<rseq::Critical>() - first;
                assert_eq!(libc::mprotect(first as *mut _, len, 3), 0);
                (&raw mut (*cs.cast_mut()).length).write_volatile(0);
            }
        }
        stress(d, i, true, aborts)
    };
    let ends = [0, 1, 2, 3].map(|i| start(|| blind(i))).map(wait);
    let a = audit(&d, |_| {}).unwrap();
    println!("{ends:?} {a:?}");
    assert_eq!(aborts.load(Relaxed), 0);
    assert!(
        ends != [0; 4] || !a.is_clean() || a.held > 0,
        "the stress sees nothing"
    );
}
