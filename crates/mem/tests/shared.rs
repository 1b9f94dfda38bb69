//! Spans and holdings: memory in one piece, and who has it.
mod common;
use byway_mem::cache::{self, User};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, SLAB_BYTES};
use byway_mem::{audit, holdings, span, sweep};
use byway_sys::process;
use std::sync::atomic::Ordering::Relaxed;

fn user(d: Domain) -> User {
    User::new(d, process::getpid(), process::gettid())
}

fn used(d: &Domain) -> usize {
    (0..d.slabs())
        .filter(|&i| d.slab(i).unwrap().is_used())
        .count()
}

/// Runs `f` in a child that then is killed.
fn killed(f: impl FnOnce()) {
    // SAFETY: the child touches the domain only, and is killed without running the harness.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            f();
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
    }
}

/// Everything that the dead had has come home.
fn settled(d: Domain) {
    let u = user(d);
    holdings::sweep(&u, holdings::is_dead);
    sweep::sweep(&u, |f| holdings::reach(&d, f)).unwrap();
    holdings::sweep(&u, holdings::is_dead);
    let a = audit::audit(&d, |f| holdings::reach(&d, f)).unwrap();
    assert!(a.is_clean(), "{a:?}");
}

#[test]
fn spans_lie_apart_and_come_back() {
    let d = common::domain(16);
    let u = user(d);
    let sizes = [1, 2, 3, 1, 2];
    let spans: Vec<u32> = sizes
        .iter()
        .map(|n| span::alloc(&u, n * SLAB_BYTES, u32::MAX).unwrap())
        .collect();
    for (k, &s) in spans.iter().enumerate() {
        assert_eq!(span::bytes(&d, s), Some(sizes[k] * SLAB_BYTES));
        // SAFETY: this test's own.
        unsafe {
            span::address(&d, s)
                .unwrap()
                .write_bytes(k as u8, sizes[k] * SLAB_BYTES)
        };
    }
    for (k, &s) in spans.iter().enumerate() {
        let p = span::address(&d, s).unwrap();
        assert!(
            (0..sizes[k] * SLAB_BYTES)
                .step_by(511)
                // SAFETY: as above.
                .all(|i| unsafe { p.add(i).read() } == k as u8)
        );
    }
    assert_eq!(used(&d), 9);
    assert!(span::alloc(&u, 8 * SLAB_BYTES, u32::MAX).is_none());
    spans.iter().for_each(|&s| holdings::discard(&u, s));
    // Idle now; the same sizes find them again, one after the other, and the first after the last.
    assert_eq!(span::idle_bytes(&d), 9 * SLAB_BYTES);
    for (last, next) in [(1, 4), (4, 1)] {
        let found = span::alloc(&u, 2 * SLAB_BYTES, spans[last]);
        assert_eq!(found, Some(spans[next]));
        holdings::discard(&u, spans[next]);
    }
    assert_eq!(span::alloc(&u, 2 * SLAB_BYTES, spans[1]), Some(spans[4]));
    assert_eq!(span::idle_bytes(&d), 7 * SLAB_BYTES);
    // In one piece there is only what remains when the idle ones make room.
    let big = span::alloc(&u, 7 * SLAB_BYTES, u32::MAX).unwrap();
    holdings::discard(&u, big);
    holdings::discard(&u, spans[4]);
    span::give_back(&u, usize::MAX);
    assert_eq!((used(&d), span::idle_bytes(&d)), (0, 0));
}

#[test]
fn spans_and_small_objects_share_the_arena() {
    let d = common::domain(8);
    let u = user(d);
    for _ in 0..20 {
        let s = span::alloc(&u, 3 * SLAB_BYTES, u32::MAX).unwrap();
        let small: Vec<u32> = (0..30)
            .map(|_| cache::alloc(&u, Class::Jumbo).unwrap())
            .collect();
        for &x in &small {
            let (p, n) = holdings::object(&d, x).unwrap();
            let (q, m) = holdings::object(&d, s).unwrap();
            assert!(p as usize + n <= q as usize || q as usize + m <= p as usize);
        }
        small.iter().for_each(|&x| cache::free(&u, x, Class::Jumbo));
        holdings::discard(&u, s);
        cache::drain(&u);
        byway_mem::reclaim::give(&u, usize::MAX);
    }
    assert_eq!(span::idle_bytes(&d), 0);
}

#[test]
fn the_last_holder_frees() {
    let d = common::domain(8);
    let u = user(d);
    let me = process::getpid();
    for class in [Some(Class::Mbuf), Some(Class::Jumbo), None] {
        let unit = match class {
            Some(c) => cache::alloc(&u, c).unwrap(),
            None => span::alloc(&u, 2 * SLAB_BYTES, u32::MAX).unwrap(),
        };
        let refs = || d.object(unit).unwrap().refs.load(Relaxed);
        let a = holdings::enter(&u, unit, me, 7).unwrap();
        holdings::share(&d, unit);
        let b = holdings::again(&u, a, holdings::channel(3)).unwrap();
        assert_eq!(refs(), 2);
        // Only its holder passes an entry on, once.
        assert!(!holdings::pass(&d, b, holdings::channel(4), me));
        assert!(!holdings::pass(&d, b, me, me));
        assert!(holdings::pass(&d, b, holdings::channel(3), me));
        assert!(!holdings::pass(&d, b, holdings::channel(3), me));
        holdings::give_up(&u, a, me);
        holdings::give_up(&u, a, me);
        assert_eq!(refs(), 1);
        holdings::give_up(&u, b, me);
        assert_eq!(holdings::count(&d), (0, 0));
        if class.is_none() {
            assert_eq!(span::idle_bytes(&d), 2 * SLAB_BYTES);
        }
        settled(d);
    }
}

#[test]
fn what_the_dead_had_comes_home() {
    let d = common::domain(32);
    for round in 0..20 {
        killed(|| {
            let u = user(d);
            for k in 0..10u32 {
                let unit = match k % 4 {
                    0 => cache::alloc(&u, Class::Mbuf).unwrap(),
                    1 => cache::alloc(&u, Class::Cluster).unwrap(),
                    2 => cache::alloc(&u, Class::Jumbo).unwrap(),
                    _ => span::alloc(&u, SLAB_BYTES + 1, u32::MAX).unwrap(),
                };
                // Taken; entered; shared; shared twice.
                if (k + round) % 5 == 0 {
                    continue;
                }
                let h = holdings::enter(&u, unit, u.who.pid, k * 100).unwrap();
                if (k + round) % 5 == 1 {
                    continue;
                }
                holdings::share(&d, unit);
                if (k + round) % 5 == 2 {
                    holdings::again(&u, h, u.who.pid).unwrap();
                }
            }
        });
        settled(d);
        assert_eq!(holdings::count(&d), (0, 0), "round {round}");
    }
    let u = user(d);
    span::give_back(&u, usize::MAX);
    assert_eq!(span::idle_bytes(&d), 0);
    // All of the arena can be had in one piece but for what the table and the fronts have.
    assert!(span::alloc(&u, 24 * SLAB_BYTES, u32::MAX).is_some());
}

#[test]
fn what_flies_is_left_alone_until_its_channel_goes() {
    let d = common::domain(8);
    killed(|| {
        let u = user(d);
        let unit = span::alloc(&u, SLAB_BYTES, u32::MAX).unwrap();
        let h = holdings::enter(&u, unit, u.who.pid, 0).unwrap();
        holdings::share(&d, unit);
        assert!(holdings::pass(&d, h, u.who.pid, holdings::channel(9)));
    });
    settled(d);
    assert_eq!(holdings::count(&d), (0, 1));
    let u = user(d);
    assert_eq!(holdings::sweep(&u, |h| h == holdings::channel(9)), 1);
    assert_eq!(holdings::count(&d), (0, 0));
    assert_eq!(span::idle_bytes(&d), SLAB_BYTES);
}

#[test]
fn nonsense_in_the_tables_is_no_fault() {
    let d = common::domain(8);
    let u = user(d);
    let unit = span::alloc(&u, 2 * SLAB_BYTES, u32::MAX).unwrap();
    let s = d
        .slab(unit as usize / byway_mem::layout::SLAB_UNITS)
        .unwrap();
    for n in [0, 3, 100, u32::MAX] {
        s.span.store(n, Relaxed);
        if let Some(b) = span::bytes(&d, unit) {
            let p = span::address(&d, unit).unwrap() as usize;
            let start = d.address(0, Class::Mbuf).unwrap() as usize;
            assert!(p + b <= start + d.slabs() * SLAB_BYTES);
        }
    }
    s.span.store(2, Relaxed);
    for unit in [1, 17, 1 << 20, u32::MAX - 1, u32::MAX] {
        assert!(holdings::object(&d, unit).is_none_or(|(_, n)| n <= SLAB_BYTES));
        holdings::give_up(&u, holdings::Holding { entry: unit, unit }, 1);
    }
    for table in [1, 2, 255, 1 << 20, u32::MAX] {
        d.header().holdings.store(table, Relaxed);
        holdings::count(&d);
        holdings::sweep(&u, |_| false);
        let _ = holdings::enter(&u, 0, 5, u32::MAX);
    }
}
