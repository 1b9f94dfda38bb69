//! A pipe that has long done nothing but wake: its calls are the kernel's own then (docs/pipe.md, Quiet), and what its
//! ends may do next.
//!
//! That it comes to that, and that a stream ends it, is told in reader.rs of crates/native, which sees the channel.
use crate::peer::{self, LONG, number, read_all, write_all};
use byway::{Reader, Receiver, Sender, Writer};
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// More wake-ups than it takes until a ring is left.
pub const WAKES: usize = 150;

/// Bytes one by one, each to a reader that has had the time to fall asleep.
fn wakes<R: Read + Send, W: Write>(r: &mut R, w: &mut W, n: usize) {
    let got = AtomicUsize::new(0);
    thread::scope(|t| {
        t.spawn(|| {
            for k in 0..n {
                let mut b = [0];
                r.read_exact(&mut b).unwrap();
                assert_eq!(b[0], k as u8);
                got.fetch_add(1, Relaxed);
            }
        });
        let until = Instant::now() + LONG;
        for k in 0..n {
            w.write_all(&[k as u8]).unwrap();
            while got.load(Relaxed) <= k {
                assert!(Instant::now() < until, "a byte is not read");
                thread::yield_now();
            }
            thread::sleep(Duration::from_micros(150));
        }
    });
}

fn hushed() -> (Reader, Writer) {
    let (mut r, mut w) = byway::pipe().unwrap();
    wakes(&mut r, &mut w, WAKES);
    (r, w)
}

#[test]
fn then_streams_and_wakes_again_and_again() {
    let (mut r, mut w) = hushed();
    for n in [3u32, 1000, 100_000, 5_000_000] {
        thread::scope(|t| {
            let w = &mut w;
            t.spawn(move || {
                for k in 0..n {
                    w.write_all(&k.to_le_bytes()).unwrap();
                }
            });
            let mut b = vec![0; 4000];
            let mut k = 0u32;
            while k < n {
                let most = b.len().min(4 * (n - k) as usize);
                r.read_exact(&mut b[..most]).unwrap();
                for four in b[..most].chunks(4) {
                    assert_eq!(four, k.to_le_bytes());
                    k += 1;
                }
            }
        });
        wakes(&mut r, &mut w, WAKES);
    }
    assert!(r.is_carried() && w.is_carried());
    thread::scope(|t| {
        t.spawn(move || write_all(&mut w, 10_000_000).unwrap());
        assert_eq!(read_all(&mut r).unwrap(), (10_000_000, true));
    });
}

#[test]
fn then_one_side_closes() {
    let (mut r, w) = hushed();
    thread::scope(|t| {
        let end = t.spawn(move || r.read(&mut [0]).unwrap());
        thread::sleep(Duration::from_millis(5));
        drop(w);
        assert_eq!(end.join().unwrap(), 0);
    });
    let (r, mut w) = hushed();
    peer::close(r);
    broken(&mut w);
}

/// Nobody reads.
fn broken(w: &mut Writer) {
    let e = w.write(b"x").unwrap_err();
    assert_eq!(e.kind(), ErrorKind::BrokenPipe);
    assert!(e.to_string().contains("nobody reads"), "{e}");
}

#[test]
fn then_one_side_is_killed() {
    for _ in 0..5 {
        let (mut r, w) = byway::pipe().unwrap();
        let arg = format!("{} 1000", number(&w));
        let mut c = peer::start("wake-forever", &arg, Some(number(&w)));
        drop(w);
        for _ in 0..WAKES {
            r.read_exact(&mut [0]).unwrap();
        }
        c.kill().unwrap();
        while r.read(&mut [0]).unwrap() > 0 {}
        c.wait().unwrap();

        let (r, mut w) = byway::pipe().unwrap();
        let mut c = peer::start("be-woken", &number(&r).to_string(), Some(number(&r)));
        peer::close(r);
        for _ in 0..WAKES {
            w.write_all(b".").unwrap();
            thread::sleep(Duration::from_micros(300));
        }
        c.kill().unwrap();
        c.wait().unwrap();
        broken(&mut w);
    }
}

/// The roles of the above.
pub fn wake_forever(mut w: Writer, us: u64) {
    while w.write_all(b".").is_ok() {
        thread::sleep(Duration::from_micros(us));
    }
}
pub fn be_woken(mut r: Reader) {
    while r.read(&mut [0]).unwrap() > 0 {}
}

#[test]
fn then_its_ends_are_other_threads() {
    let (mut r, mut w) = hushed();
    // `wakes` reads in a thread of its own each time: here all goes on with the threads before in such calls of other pipes.
    let (mut r2, mut w2) = hushed();
    thread::scope(|t| {
        t.spawn(|| wakes(&mut r, &mut w2, WAKES / 3));
        wakes(&mut r2, &mut w, WAKES / 3);
    });
    wakes(&mut r, &mut w, WAKES / 3);
    thread::spawn(move || wakes(&mut r2, &mut w2, WAKES / 3))
        .join()
        .unwrap();
}

#[test]
fn then_a_forked_child_has_it_too() {
    // By itself: the child has every descriptor of the process until it ends.
    peer::apart("forked-passing");
}
pub fn forked() {
    let (mut r, mut w) = hushed();
    // SAFETY: the child touches only its own ends, and ends without running the harness.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let mut ok = true;
        for k in 0..WAKES {
            thread::sleep(Duration::from_micros(150));
            ok &= w.write_all(&[k as u8]).is_ok();
        }
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    for k in 0..WAKES {
        let mut b = [0];
        r.read_exact(&mut b).unwrap();
        assert_eq!(b[0], k as u8);
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    wakes(&mut r, &mut w, WAKES);
}

#[test]
fn then_nobody_waits_in_it() {
    let (mut r, mut w) = hushed();
    let mut b = [0; 100];
    for _ in 0..3 {
        let none = r.try_read(&mut b).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::WouldBlock);
        let mut p = libc::pollfd {
            fd: number(&r),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one struct pollfd of ours.
        assert_eq!(unsafe { libc::poll(&mut p, 1, 0) }, 0);
        let late = r
            .read_timeout(&mut b, Duration::from_millis(1))
            .unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        // From here on the descriptor tells.
        assert_eq!(
            r.try_read(&mut b).unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
        w.write_all(b"ab").unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::poll(&mut p, 1, 60_000) }, 1);
        assert_eq!(r.try_read(&mut b).unwrap(), 2);
        wakes(&mut r, &mut w, WAKES);
    }
    // Filled without waiting, then emptied.
    let mut n = 0;
    let e = loop {
        match w.try_write(&[7; 1000]) {
            Ok(k) => n += k,
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    assert!(n >= 60_000, "{n}");
    let mut all = vec![0; n];
    r.read_exact(&mut all).unwrap();
    assert!(all.iter().all(|&b| b == 7));
    w.write_timeout(b"z", LONG).unwrap();
    assert_eq!(r.read_timeout(&mut b, LONG).unwrap(), 1);
}

#[test]
fn then_it_is_full() {
    let (mut r, mut w) = hushed();
    let read = thread::scope(|t| {
        t.spawn(move || {
            // Each sleeps where there is no room.
            for k in 0..50_000u32 {
                w.write_all(&k.to_le_bytes()).unwrap();
            }
        });
        thread::sleep(Duration::from_millis(20));
        let mut all = vec![];
        r.read_to_end(&mut all).unwrap();
        all
    });
    let right = read
        .chunks(4)
        .zip(0u32..)
        .all(|(b, k)| b == k.to_le_bytes());
    assert!(right && read.len() == 200_000, "{}", read.len());
}

#[test]
fn then_somebody_makes_it_non_blocking() {
    let (mut r, mut w) = hushed();
    for e in [number(&r), number(&w)] {
        // SAFETY: fcntl(2) on a descriptor of ours.
        let set = unsafe { libc::fcntl(e, libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(set, 0);
    }
    wakes(&mut r, &mut w, WAKES);
    thread::scope(|t| {
        t.spawn(move || write_all(&mut w, 1_000_000).unwrap());
        assert_eq!(read_all(&mut r).unwrap(), (1_000_000, true));
    });
}

#[test]
fn then_it_is_for_records_and_grants() {
    let (r, w) = hushed();
    let (mut r, mut s) = (Receiver::new(r), Sender::new(w));
    for _ in 0..2 {
        thread::scope(|t| {
            let s = &mut s;
            t.spawn(move || (0..200).for_each(|k| s.send(&peer::record(k)).unwrap()));
            for k in 0..200 {
                let m = r.message().unwrap().unwrap();
                assert!(m[..] == peer::record(k)[..], "record {k}");
            }
        });
        // As bytes again, which its maker may send in between.
        wakes(r.reader(), s.writer(), WAKES);
    }
}

#[test]
fn then_it_is_given_to_one_who_knows_nothing() {
    for _ in 0..2 {
        let (r, mut w) = hushed();
        let mut f = std::fs::File::from(r.into_fd().unwrap());
        wakes(&mut f, &mut w, 10);
        let (mut r, w) = hushed();
        let mut f = std::fs::File::from(w.into_fd().unwrap());
        wakes(&mut r, &mut f, 10);
        drop(f);
        assert_eq!(r.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn then_a_queue_watches_it() {
    use byway::events::{Change, Event, Queue};
    let (mut r, mut w) = hushed();
    let q = Queue::new().unwrap();
    q.apply(Change::read(&mut r)).unwrap();
    let mut one = [Event::default()];
    for n in [1, 5000, 1] {
        assert_eq!(q.wait(&mut one, Some(Duration::ZERO)).unwrap(), 0);
        w.write_all(&vec![3; n]).unwrap();
        assert_eq!(q.wait(&mut one, Some(LONG)).unwrap(), 1);
        assert_eq!(one[0].data, n as i64);
        r.read_exact(&mut vec![0; n]).unwrap();
    }
    // Who reads need not ask the queue first.
    wakes(&mut r, &mut w, WAKES);
    assert_eq!(q.wait(&mut one, Some(Duration::ZERO)).unwrap(), 0);
    w.write_all(b"x").unwrap();
    assert_eq!(q.wait(&mut one, Some(LONG)).unwrap(), 1);
}
