//! A peer that writes anything into the tables while others use them: nobody leaves the mapping, panics or stops.
//!
//! Invariant: around the mapping lies nothing but guard pages, far enough for any 32-bit index, so that a stray access
//! is SIGSEGV; a watchdog sees each operation end. In the dev profile overflow panics as well, which is a failure too.
//! Not here: what is in the objects, and a file that is cut short: a peer that may write may do both.
mod common;
use byway_mem::audit::audit;
use byway_mem::cache::{User, alloc, drain, free, hold};
use byway_mem::domain::Domain;
use byway_mem::layout::*;
use byway_mem::{reclaim, registry, slab, stats, sweep};
use byway_sys::process;
use common::*;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

const SLABS: usize = 12;
/// On both sides: more than 2^32 buckets, objects or units would need.
const GUARD: usize = 1 << 40;

/// A domain between guards.
fn guarded() -> Domain {
    let g = Geometry::of(SLABS);
    // SAFETY: new mappings; the second replaces the middle of the first.
    let d = unsafe {
        let how = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let all = libc::mmap(std::ptr::null_mut(), g.bytes + 2 * GUARD, 0, how, -1, 0);
        assert_ne!(all, libc::MAP_FAILED, "no room for guards");
        let how = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let p = libc::mmap(all.byte_add(GUARD), g.bytes, 3, how, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        Domain::over(p.cast(), SLABS)
    };
    lay_out(&d);
    d
}

fn lay_out(d: &Domain) {
    d.lay_out();
    let h = d.header();
    h.cycles_per_us.store(2000, Relaxed);
    h.decay_ms.store(0, Relaxed);
    h.high_kib.store(512, Relaxed);
    h.low_kib.store(0, Relaxed);
}

/// Takes the guards and the domain away.
fn unmap(d: Domain) {
    let base = d.header() as *const Header as usize;
    // SAFETY: mapped by `guarded`; nobody uses it any more.
    unsafe { libc::munmap((base - GUARD) as *mut _, d.geometry().bytes + 2 * GUARD) };
}

/// Writes anything anywhere into the tables until it is killed.
fn scribble(d: Domain, seed: u64, writes: &AtomicU64) -> i32 {
    let mut r = Rng::new(seed);
    let base = d.header() as *const Header as usize;
    let g = d.geometry();
    let parts = [
        (8, size_of::<Header>()),
        (MIDDLE_AT, MIDDLE_AT + size_of::<Middle>()),
        (FRONTS_AT, FRONTS_AT + (CPUS + LOCKED) * size_of::<Front>()),
        (COUNTERS_AT, DEPARTURES_AT),
        (PARTS_AT, THREAD_SLOTS_AT),
        (g.channels_at, g.channels_at + CHANNELS * CHANNEL_BYTES),
        (SLABS_AT, SLABS_AT + SLABS * size_of::<Slab>()),
        (g.buckets_at, g.buckets_at + 64 * size_of::<Bucket>()),
        (g.objects_at, g.objects_at + SLABS * SLAB_UNITS * 8),
    ];
    let pids = [
        1,
        process::getpid(),
        process::gettid(),
        NOBODY,
        u32::MAX,
        0,
        DEPOT,
        1 << 22,
    ];
    loop {
        let (from, to) = parts[r.below(parts.len())];
        // A place that is used, more often than any.
        let span = if r.below(3) == 0 {
            (to - from).min(256)
        } else {
            to - from
        };
        let at = base + from + r.below(span - 7);
        let any = r.next();
        let what = match r.below(8) {
            0 => u64::MAX,
            1 => 0,
            2 => any % 64,
            3 => u64::from(pids[r.below(pids.len())]),
            4 => (any % (SLABS * SLAB_UNITS) as u64) * 0x1_0000_0001,
            5 => any | (any << 32) | (1 << 31),
            6 => (u64::from(u32::MAX - (any % 70) as u32) << 32) | (any % 5000),
            _ => (any << 16) ^ any,
        };
        // SAFETY: inside the tables. Bytes, or an aligned word or half of one, as a process would write it.
        unsafe {
            match r.below(4) {
                0 => ((at & !7) as *mut u64).write_volatile(what),
                1 | 2 => ((at & !3) as *mut u32).write_volatile(what as u32),
                _ => (at as *mut u8).write_volatile(what as u8),
            }
        }
        // Now and then memory may be had again, or nothing more would be met.
        if r.below(16) == 0 {
            d.header().flags.store(0, Relaxed);
            lay_out(&d);
        }
        writes.fetch_add(1, Relaxed);
        if r.below(4) == 0 {
            (0..r.below(300)).for_each(|_| byway_sys::clock::pause());
        }
    }
}

/// What the watchdog looks at.
struct Progress {
    steps: AtomicU64,
    what: AtomicU32,
    got: AtomicU64,
    writes: AtomicU64,
}

const WHAT: [&str; 12] = [
    "alloc",
    "free",
    "hold",
    "drain",
    "give",
    "tend",
    "sweep",
    "audit",
    "stats",
    "preallocate",
    "registry",
    "look",
];

/// Uses everything, until it is killed. 3: a unit that is none.
fn user_of_everything(d: Domain, u: User, seed: u64, p: &Progress) -> i32 {
    let mut r = Rng::new(seed);
    let mut held: Vec<(u32, Class)> = Vec::new();
    let heavy = [3, 4, 5, 6, 7, 8, 9, 10, 11];
    loop {
        let what = match r.below(1000) {
            // An audit of what is never clean naps.
            0..50 => match heavy[r.below(heavy.len())] {
                7 if r.below(20) != 0 => 8,
                what => what,
            },
            50..500 => 1,
            500..520 => 2,
            _ => 0,
        };
        p.what.store(what, Relaxed);
        let class = Class::ALL[r.below(3)];
        match what {
            0 => {
                if let Some(x) = alloc(&u, class) {
                    let Some(place) = d.address(x, class) else {
                        return 3;
                    };
                    // SAFETY: inside the arena, or the guards say otherwise.
                    unsafe {
                        place.write_volatile(1);
                        place.add(class.bytes() - 1).write_volatile(1);
                    }
                    held.push((x, class));
                    p.got.fetch_add(1, Relaxed);
                }
                if held.len() > 500 {
                    held.drain(..250).for_each(|(x, c)| free(&u, x, c));
                }
            }
            1 => {
                if let Some((x, c)) = held.pop() {
                    free(&u, x, c);
                } else {
                    // What a peer says in a ring: any number.
                    free(&u, r.next() as u32 % (3 * SLABS * SLAB_UNITS) as u32, class);
                }
            }
            2 => hold(&u, r.next() as u32),
            3 => drain(&u),
            4 => drop(reclaim::give(
                &u,
                [r.below(1 << 20), usize::MAX, 1][r.below(3)],
            )),
            5 => reclaim::tend(&u),
            6 => {
                let any = r.next() as u32;
                sweep::sweep(&u, |f| (0..5).for_each(|k| f(any.rotate_left(k))));
            }
            7 => drop(audit(&d, |f| f(seed as u32))),
            8 => {
                stats::class(&d, class);
                stats::cached(&d, r.below(1 << 20), class);
                stats::events(&d, r.below(1 << 20), class);
                reclaim::free_bytes(&d);
                reclaim::band(&d);
            }
            9 => drop(reclaim::preallocate(&u, r.below(1 << 19))),
            10 => {
                let ino = r.next();
                registry::find(d, 1, ino);
                if let Some(i) = registry::claim(d, 1, ino) {
                    registry::publish(d, i, ino);
                    registry::inode(d, i);
                    registry::release(d, i);
                }
            }
            _ => {
                reclaim::look(&u);
                slab::mend(&d, r.below(5000), u.who.tid);
                slab::give_back(&d, r.below(5000), r.below(1 << 20), u.who.tid);
                slab::bring_home(&d, r.next() as u32, u.who);
            }
        }
        p.steps.fetch_add(1, Relaxed);
    }
}

/// Two users of a domain, one scribbler; the sum of what was done.
fn round(locked: bool, seed: u64, ms: u64, sum: &mut [u64; 3]) {
    let d = guarded();
    let p: [&Progress; 2] = [shared(), shared()];
    let bad = start(|| scribble(d, seed, &p[0].writes));
    let good = [0, 1].map(|i| {
        start(|| {
            let (pid, tid) = (process::getpid(), process::gettid());
            let u = if locked {
                User::without_rseq(d, pid, tid)
            } else {
                User::new(d, pid, tid)
            };
            user_of_everything(d, u, seed * 7 + i as u64, p[i])
        })
    });
    let (mut seen, mut quiet_ms) = ([0; 2], [0; 2]);
    let mut done = 0;
    // Longer than `ms` only until enough has been done.
    while done < ms || seen[0].min(seen[1]) < 400 || p[0].writes.load(Relaxed) < 1000 {
        process::nap(10_000);
        done += 10;
        for i in 0..2 {
            let mut status = 0;
            // SAFETY: our own child and int.
            let ended = unsafe { libc::waitpid(good[i], &mut status, libc::WNOHANG) };
            let what = WHAT[p[i].what.load(Relaxed) as usize % WHAT.len()];
            assert_eq!(
                ended, 0,
                "seed {seed}, in {what}: status {status:#x} (11: it left the mapping)"
            );
            let steps = p[i].steps.load(Relaxed);
            quiet_ms[i] = if steps == seen[i] {
                quiet_ms[i] + 10
            } else {
                0
            };
            assert!(quiet_ms[i] < 10_000, "seed {seed}: {what} does not end");
            seen[i] = steps;
        }
    }
    assert_eq!(kill(bad), 256 + libc::SIGKILL);
    for i in 0..2 {
        let end = kill(good[i]);
        assert_eq!(end, 256 + libc::SIGKILL, "seed {seed}");
        sum[0] += p[i].steps.load(Relaxed);
        sum[1] += p[i].got.load(Relaxed);
        sum[2] += p[i].writes.load(Relaxed);
        // SAFETY: mapped by `shared`; both users have ended.
        unsafe { libc::munmap(p[i] as *const _ as *mut _, size_of::<Progress>()) };
    }
    unmap(d);
}

fn scribbled_on(locked: bool) {
    let mut sum = [0; 3];
    for seed in 1..=30 {
        round(locked, seed + 100 * u64::from(locked), 100, &mut sum);
    }
    let [steps, got, writes] = sum;
    println!("{steps} operations, {got} objects, {writes} writes");
    assert!(steps > 10_000 && got > 1000 && writes > 10_000, "{sum:?}");
}

#[test]
fn scribbled_on_with_rseq() {
    scribbled_on(false);
}

#[test]
fn scribbled_on_with_locks() {
    scribbled_on(true);
}
