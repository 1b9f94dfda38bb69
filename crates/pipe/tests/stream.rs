//! The pipe core between two processes, called directly: every byte in order, whatever sizes meet.
mod common;

use byway_mem::domain::Domain;
use byway_pipe::reason::Reason;
use byway_pipe::word::Head;
use byway_pipe::{clusters, handback};
use byway_sys::{file, process};
use common::{Pipe, me, pipe};
use std::sync::atomic::Ordering::Relaxed;

fn pattern(i: u64) -> u8 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Sends `total` bytes in pieces from `wsizes`, reads in pieces from `rsizes`; `at` may disturb the reader.
fn stream(
    total: u64,
    wsizes: &[usize],
    rsizes: &[usize],
    slow_reader: bool,
    slow_writer: bool,
    back_at: Option<u64>,
) {
    stream_on(
        &pipe(),
        total,
        wsizes,
        rsizes,
        slow_reader,
        slow_writer,
        back_at,
    );
}

/// The same, on `p`.
fn stream_on(
    p: &Pipe,
    total: u64,
    wsizes: &[usize],
    rsizes: &[usize],
    slow_reader: bool,
    slow_writer: bool,
    back_at: Option<u64>,
) {
    // SAFETY: the child only uses this test's code and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        file::close(p.r);
        let (mut sent, mut k) = (0u64, 0);
        while sent < total {
            let n = (wsizes[k % wsizes.len()] as u64).min(total - sent) as usize;
            let b: Vec<u8> = (0..n as u64).map(|i| pattern(sent + i)).collect();
            let got = p.put(&b);
            if got != n as isize {
                // SAFETY: leaving the child.
                unsafe { libc::_exit(3) };
            }
            sent += n as u64;
            k += 1;
            if slow_writer && k % 64 == 0 {
                process::nap(300);
            }
        }
        // SAFETY: leaving the child.
        unsafe { libc::_exit(0) };
    }
    file::close(p.w);
    let (mut seen, mut k, mut back) = (0u64, 0, back_at);
    let mut b = vec![0u8; *rsizes.iter().max().unwrap()];
    loop {
        let want = rsizes[k % rsizes.len()];
        let n = p.get(&mut b[..want]);
        assert!(n >= 0, "read said {n} at {seen}");
        if n == 0 {
            break;
        }
        for (i, &c) in b[..n as usize].iter().enumerate() {
            assert_eq!(
                c,
                pattern(seen + i as u64),
                "byte {} of {total}",
                seen + i as u64
            );
        }
        seen += n as u64;
        k += 1;
        if slow_reader && k % 64 == 0 {
            process::nap(300);
        }
        // On a busy machine the writer opens the ring later.
        if back.is_some_and(|at| seen >= at) && carried(p) > 0 {
            handback::hand_back(&me(p.d), p.ch, p.r, true, Reason::Control);
            back = None;
        }
    }
    assert_eq!(seen, total);
    let mut status = 0;
    // SAFETY: waits for our child.
    unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!(status, 0);
    assert!(carried(p) > 0, "nothing was carried");
}

fn carried(p: &Pipe) -> u64 {
    p.ch.writer.0.bytes.load(Relaxed)
}

#[test]
fn even_sizes() {
    for n in [64, 512, 4096, 65536, 131072] {
        stream(8 << 20, &[n], &[131072], false, false, None);
    }
}

#[test]
fn odd_sizes_meet() {
    stream(
        6 << 20,
        &[1, 7, 511, 4096, 4097, 65536, 200_000],
        &[3, 4096, 100_000, 17],
        false,
        false,
        None,
    );
}

#[test]
fn slow_reader_fills_ring() {
    stream(
        8 << 20,
        &[4096, 100, 131072],
        &[4096, 1000],
        true,
        false,
        None,
    );
}

#[test]
fn slow_writer_starves_reader() {
    stream(4 << 20, &[100, 9000], &[65536], false, true, None);
}

#[test]
fn handed_back_in_mid_stream() {
    for at in [100_000, 700_001, 3_000_000] {
        stream(
            6 << 20,
            &[4096, 131072, 10],
            &[8192, 77],
            true,
            false,
            Some(at),
        );
        stream(
            6 << 20,
            &[4096, 131072, 10],
            &[131072],
            false,
            true,
            Some(at),
        );
    }
}

/// Rings of every size, turned around several times; with unread bytes in them, what is not needed goes back.
#[test]
fn a_channel_at_rest_keeps_what_nobody_read() {
    for asked in [8 << 10, 64 << 10, 128 << 10, 512 << 10, 1 << 20, 8 << 20] {
        let p = pipe();
        p.d.header().ring_bytes.store(asked, Relaxed);
        let (mut sent, mut seen) = (0u64, 0u64);
        let put = |sent: &mut u64, n: u64| {
            let b: Vec<u8> = (0..n).map(|i| pattern(*sent + i)).collect();
            assert_eq!(p.put(&b), n as isize);
            *sent += n;
        };
        let get = |seen: &mut u64, n: u64| {
            let mut b = vec![0; n as usize];
            assert_eq!(p.get(&mut b), n as isize, "ring {asked}");
            for &c in &b {
                assert_eq!(c, pattern(*seen), "ring {asked}, byte {seen}");
                *seen += 1;
            }
        };
        for _ in 0..20 {
            put(&mut sent, 3001);
            get(&mut seen, 3001);
        }
        let ring = p.ch.ring(&p.d).unwrap().bytes() as u32;
        assert!(ring == asked || asked > 512 << 10, "ring {ring} of {asked}");
        let (mut gone, turns) = (0, if ring > 1 << 20 { 8 } else { 40 });
        for turn in 0..turns {
            for _ in 0..u64::from(ring) / 6000 {
                put(&mut sent, 3001);
                get(&mut seen, 3001);
            }
            let left = (u64::from(ring) - 4096) * turn / turns;
            for _ in 0..left / 1000 {
                put(&mut sent, 1000);
            }
            let m = me(p.d);
            gone += clusters::trim(&m, &clusters::user(&m), p.ch);
            for _ in 0..left / 1000 {
                get(&mut seen, 1000);
            }
        }
        assert!(gone > 0, "ring {ring}: nothing went back");
        assert!(p.ch.writer.0.bytes.load(Relaxed) > 0, "nothing was carried");
        assert!(!p.ch.tail().closed());
        file::close(p.r);
        file::close(p.w);
    }
}

/// What a full ring of many clusters holds all goes into the kernel lane at once, and its table of a cluster of its own
/// goes back.
#[test]
fn a_large_ring_is_handed_back_full() {
    for end in [0, 40_000] {
        let p = pipe();
        p.d.header().ring_bytes.store(8 << 20, Relaxed);
        let mut sent = 0u64;
        let mut put = |n: u64| {
            let b: Vec<u8> = (0..n).map(|i| pattern(sent + i)).collect();
            assert_eq!(p.put(&b), n as isize);
            sent += n;
        };
        (0..20).for_each(|_| put(3001));
        let mut b = vec![0; 60_020];
        assert_eq!(p.get(&mut b), 60_020);
        let ring = p.ch.ring(&p.d).unwrap();
        // Not from the ring's begin on.
        put(40_000);
        let mut b = vec![0; end];
        assert_eq!(p.get(&mut b), end as isize);
        let left = ring.room() - (40_000 - end as u64);
        put(left);
        let used = |d: Domain| {
            let mut n = 0;
            clusters::reach(d, p.ch, &mut |_| n += 1);
            n
        };
        assert!(used(p.d) as u64 >= ring.bytes() / 65536);
        handback::hand_back(&me(p.d), p.ch, p.r, false, Reason::Control);
        assert!(p.ch.tail().closed());
        assert_eq!(used(p.d), 0);
        let mut seen = 60_020 + end as u64;
        while seen < sent {
            let mut b = vec![0; 1 << 20];
            let n = p.get(&mut b);
            assert!(n > 0, "{seen} of {sent}");
            for &c in &b[..n as usize] {
                assert_eq!(c, pattern(seen), "byte {seen}");
                seen += 1;
            }
        }
        file::close(p.r);
        file::close(p.w);
    }
}

/// Another thread has closed the descriptor, or something else has its number by now: what a hand-back would move stays
/// where it is, and whoever still has the pipe finds it.
#[test]
fn hand_back_by_a_descriptor_that_went() {
    let (p, other) = (pipe(), pipe());
    let b = vec![7; 4096];
    (0..30).for_each(|_| assert_eq!(p.put(&b), 4096));
    assert_eq!(p.get(&mut vec![0; 100_000]), 100_000);
    // SAFETY: plain calls on our own descriptors and buffers.
    let null = unsafe {
        assert_eq!(libc::write(other.w as i32, b.as_ptr().cast(), 100), 100);
        libc::open(c"/dev/null".as_ptr(), libc::O_RDWR) as usize
    };
    let me = me(p.d);
    for fd in [null, other.r, other.w, 1 << 20] {
        for forever in [false, true] {
            assert!(!handback::hand_back(
                &me,
                p.ch,
                fd,
                forever,
                Reason::Control
            ));
        }
        let t = p.ch.tail();
        assert!(!t.closed() && t.lock_owner() == 0 && !p.ch.head().held());
    }
    assert_eq!(file::fionread(other.r), 100);
    assert_eq!(p.get(&mut vec![0; 10_000]), 10_000);
    assert!(handback::hand_back(&me, p.ch, p.r, true, Reason::Control));
    assert_eq!(file::fionread(p.r), 30 * 4096 - 110_000);
    [p.r, p.w, other.r, other.w, null]
        .into_iter()
        .for_each(file::close);
}

/// pipe(7): a pipe is full at its capacity, however small the writes were, and however short the domain's memory is.
#[test]
fn a_ring_of_a_domain_that_is_short_of_memory_holds_what_a_pipe_does() {
    let p = pipe();
    let half = p.d.slabs() as u32 / 2;
    p.d.header().slabs_used.fetch_add(half, Relaxed);
    let b = vec![7; 4096];
    for _ in 0..30 {
        assert_eq!(p.put(&b), 4096);
        assert_eq!(p.get(&mut vec![0; 4096]), 4096);
    }
    // SAFETY: fcntl(2) of our own descriptor.
    unsafe { libc::fcntl(p.w as i32, libc::F_SETFL, libc::O_NONBLOCK) };
    let mut n = 0;
    while p.put(&b[..1]) == 1 {
        n += 1;
    }
    assert!(n >= 65536, "{n}");
    assert!(carried(&p) > 100_000, "nothing was carried");
    [p.r, p.w].into_iter().for_each(file::close);
}

/// Writes from 64 KiB on may be direct, which they are not where the ring's lap serves as well.
fn lend(p: &Pipe) {
    let head = p.d.header();
    head.direct_from.store(64 << 10, Relaxed);
    head.shared_lines.store(0, Relaxed);
}

/// Of a stream with single copies from 64 KiB on, the bytes that were copied once.
fn direct(p: &Pipe, wsizes: &[usize], rsizes: &[usize], slow_reader: bool) -> u64 {
    lend(p);
    stream_on(p, 8 << 20, wsizes, rsizes, slow_reader, false, None);
    p.ch.offer().bytes.load(Relaxed)
}

/// An offer needs a reader that is awake just then: on a busy machine that may take a while.
fn some(met: impl Fn() -> bool) {
    assert!((0..300).any(|_| met()));
}

#[test]
fn direct_writes() {
    let sizes = [128 << 10, 1 << 20, 100, 70_001, 5000];
    some(|| direct(&pipe(), &[128 << 10], &[128 << 10], false) > 0);
    some(|| direct(&pipe(), &sizes, &[128 << 10, 33_000, 40_000], false) > 0);
    direct(&pipe(), &sizes, &[128 << 10, 7, 40_000], true);
}

#[test]
fn direct_writes_that_a_reader_does_not_want() {
    assert_eq!(direct(&pipe(), &[128 << 10], &[4096], false), 0);
    some(|| {
        let mut p = pipe();
        p.pull = false;
        assert_eq!(direct(&p, &[128 << 10], &[128 << 10], false), 0);
        p.ch.offer().is_refused()
    });
}

/// What came before a writer's death inside an offer is there, in order; then the end.
#[test]
fn killed_inside_a_direct_write() {
    let mut taken = 0;
    for round in (0..60u64).cycle().take(600) {
        if taken > 0 && round == 0 {
            return;
        }
        let p = pipe();
        lend(&p);
        // SAFETY: the child only uses this test's code, and is killed.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            file::close(p.r);
            let mut sent = 0u64;
            loop {
                let b: Vec<u8> = (0..200_000).map(|i| pattern(sent + i)).collect();
                p.put(&b);
                sent += 200_000;
            }
        }
        file::close(p.w);
        let (mut seen, mut b) = (0u64, vec![0u8; 90_000]);
        loop {
            let n = p.get(&mut b);
            assert!(n >= 0, "read said {n} at {seen}");
            if n == 0 {
                break;
            }
            for (i, &c) in b[..n as usize].iter().enumerate() {
                assert_eq!(c, pattern(seen + i as u64), "byte {}", seen + i as u64);
            }
            seen += n as u64;
            if seen > round * 50_000 {
                // SAFETY: our own child.
                unsafe { libc::kill(pid, libc::SIGKILL) };
            }
        }
        let mut status = 0;
        // SAFETY: our own child.
        unsafe { libc::waitpid(pid, &mut status, 0) };
        taken += p.ch.offer().bytes.load(Relaxed);
        file::close(p.r);
    }
    assert!(taken > 0, "no offer was taken");
}

/// A ring that was full, and whose writer went to the kernel's pipe, is as any other once its reader has read it all,
/// who did not sleep.
#[test]
fn a_full_ring_leaves_nothing_behind() {
    let p = pipe();
    file::fcntl(p.w, libc::F_SETFL as usize, libc::O_NONBLOCK as usize);
    file::fcntl(p.r, libc::F_SETFL as usize, libc::O_NONBLOCK as usize);
    p.ch.writer.0.native_bytes.store(1 << 20, Relaxed);
    let put = |i: u64| p.put(&[pattern(i); 512]);
    let sent = (0..).take_while(|&i| put(i) == 512).count() as u64;
    assert!(p.ch.chunk().valid() && p.ch.tail().woken(), "no overflow");
    let mut b = [0; 512];
    for i in 0..sent {
        assert_eq!(p.get(&mut b), 512);
        assert!(b.iter().all(|&x| x == pattern(i)), "message {i} of {sent}");
    }
    // One finds the kernel's pipe empty, one leaves nothing to undo, the next finds the tail idle.
    for i in 0..3 {
        assert_eq!(put(i), 512);
        assert_eq!((p.get(&mut b), b[0]), (512, pattern(i)));
    }
    assert!(
        p.ch.tail().is_idle() && !p.ch.chunk().valid(),
        "{:x?}",
        p.ch.tail()
    );
}

/// A thread that holds the readers' side and was stopped keeps a reader waiting, but none that may not wait.
#[test]
fn a_non_blocking_reader_waits_for_no_holder_that_was_stopped() {
    let p = pipe();
    file::fcntl(p.r, libc::F_SETFL as usize, libc::O_NONBLOCK as usize);
    p.ch.writer.0.native_bytes.store(1 << 20, Relaxed);
    assert_eq!(p.put(&[7; 1000]), 1000);
    assert!(!p.ch.tail().closed(), "no ring");
    let holder = std::os::unix::process::parent_id();
    let free = p.ch.head();
    let held = Head::owned(free.position(), holder, Head::READS_LANE);
    assert!(p.ch.cas_head(free, held));
    let mut b = [0; 1000];
    assert_eq!(p.get(&mut b), -(libc::EAGAIN as isize));
    assert!(p.ch.cas_head(held, free));
    assert_eq!((p.get(&mut b), b), (1000, [7; 1000]));
}

/// Waits until it is so.
fn comes(met: impl Fn() -> bool) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !met() {
        assert!(std::time::Instant::now() < until, "it does not come");
        process::nap(1000);
    }
}

/// I7: two readers asleep, in a pipe that was carried. Each message comes to one of them; when one has gone, the stream of
/// the other is carried again.
#[test]
fn carried_again_after_two_readers_slept() {
    let p = pipe();
    let told = pipe();
    let reader = || {
        // SAFETY: the child only uses this test's code and leaves by _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            file::close(p.w);
            let mut b = [0u8; 4096];
            // The byte tells how to go on: 1 once more, 2 leave.
            while p.get(&mut b[..1]) == 1 && b[0] == 1 {
                told.put(b"!");
            }
            // SAFETY: leaving the child.
            unsafe { libc::_exit(0) };
        }
        pid
    };
    // Carried: so much for nobody but this process.
    for _ in 0..20 {
        assert_eq!(p.put(&[1; 4096]), 4096);
        assert_eq!(p.get(&mut [0; 4096]), 4096);
    }
    assert!(!p.ch.tail().closed());
    let children = [reader(), reader()];
    comes(|| p.ch.tail().closed() && p.ch.tail().sleepers() == 2);
    for _ in 0..50 {
        assert_eq!(p.put(&[1]), 1);
        assert_eq!(told.get(&mut [0]), 1);
    }
    comes(|| p.ch.tail().sleepers() == 2);
    assert_eq!(p.put(&[2]), 1);
    comes(|| p.ch.tail().sleepers() == 1);
    assert_eq!(p.put(&[2]), 1);
    for pid in children {
        let mut status = 0;
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
        assert_eq!(status, 0);
    }
    assert!(p.ch.tail().closed() && !p.ch.forever());
    let before = carried(&p);
    stream_on(&p, 20_000_000, &[65536], &[65536], false, false, None);
    assert!(carried(&p) - before > 10_000_000);
}

/// Rings that are handed back whenever they may be: full, with a page in the kernel lane behind them, half read.
#[test]
fn a_ring_is_handed_back_in_order_however_full_it_is() {
    for (asked, pieces) in [(8 << 10, 5_000), (16 << 10, 9_000), (64 << 10, 40_000)] {
        let p = pipe();
        p.d.header().ring_bytes.store(asked, Relaxed);
        for fd in [p.r, p.w] {
            // SAFETY: no pointers.
            unsafe { libc::fcntl(fd as i32, libc::F_SETFL, libc::O_NONBLOCK) };
        }
        let (mut sent, mut seen, mut x) = (0u64, 0u64, 88_172_645_463_325_252u64);
        let mut random = |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let (mut open, mut backs) = (0, 0);
        for _ in 0..60_000 {
            match random(32) {
                0 if !p.ch.tail().closed() => {
                    handback::hand_back(&me(p.d), p.ch, p.w, false, Reason::Control);
                    backs += 1;
                }
                1..17 => {
                    let n = 1 + random(pieces);
                    let b: Vec<u8> = (0..n).map(|i| pattern(sent + i)).collect();
                    sent += p.put(&b).max(0) as u64;
                }
                _ => {
                    let mut b = vec![0; 1 + random(pieces) as usize];
                    let n = p.get(&mut b).max(0) as usize;
                    for &c in &b[..n] {
                        assert_eq!(c, pattern(seen), "ring {asked}, byte {seen}");
                        seen += 1;
                    }
                }
            }
            open += u64::from(!p.ch.tail().closed());
        }
        assert!(open > 1_000 && backs > 50, "ring {asked}: {open} {backs}");
        file::close(p.r);
        file::close(p.w);
    }
}
