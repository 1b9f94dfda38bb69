//! A pipe that is full of grants, or of records, be it nameless or a FIFO: its descriptor says so, until the receiver
//! takes something. The nameless pipe is the oracle for the FIFO.
use crate::peer::{LONG, number};
use byway::{Fifo, Grant, Receiver, SendError, Sender};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_millis(20);

/// Calls `body` with the ends of a nameless pipe, then with those of a FIFO.
fn each(body: fn(Receiver, Sender)) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let (r, s) = byway::records().unwrap();
    body(r, s);
    let name = format!(
        "full-{}-{}",
        std::process::id(),
        NUMBER.fetch_add(1, Relaxed)
    );
    let f = Fifo::new(&name).unwrap();
    let r = f.try_reader().unwrap();
    let w = f.try_writer().unwrap();
    f.remove().unwrap();
    body(Receiver::new(r), Sender::new(w));
}

fn grant(size: usize, mark: u8) -> Grant {
    let mut w = byway::reserve(size).unwrap();
    w.fill(mark);
    w.share().unwrap()
}

/// Sends until there is no room; how many, and the one that was too much.
fn fill(s: &mut Sender, size: usize) -> (usize, SendError) {
    let mut n = 0;
    loop {
        match s.try_send_grant(grant(size, n as u8)) {
            Ok(()) => n += 1,
            Err(e) => return (n, e),
        }
        assert!(n <= 200, "{n} of {size}");
    }
}

fn is_writable(s: &Sender, most: Duration) -> bool {
    let mut p = libc::pollfd {
        fd: number(s),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    unsafe { libc::poll(&mut p, 1, most.as_millis() as i32) == 1 }
}

#[test]
fn the_descriptor_tells() {
    each(|mut r, mut s| {
        for size in [100, 60_000, 1 << 20] {
            let (n, e) = fill(&mut s, size);
            assert_eq!(e.error.kind(), ErrorKind::WouldBlock, "{n} of {size}");
            assert!(n >= 8, "{n} of {size}");
            // It stays so, however often it is tried.
            assert!(!is_writable(&s, Duration::ZERO));
            let e = s.try_send_grant(e.grant).unwrap_err();
            assert_eq!(e.error.kind(), ErrorKind::WouldBlock);
            assert!(!is_writable(&s, Duration::ZERO));
            for k in 0..n {
                let m = r.try_message().unwrap().unwrap();
                assert!(m.len() == size && m.iter().all(|&x| x == k as u8));
            }
            assert!(is_writable(&s, Duration::ZERO));
            s.try_send_grant(e.grant).unwrap();
            assert_eq!(r.try_message().unwrap().unwrap().len(), size);
        }
    });
}

#[test]
fn one_who_waits_for_an_edge_is_told() {
    each(|mut r, mut s| {
        let (n, e) = fill(&mut s, 1 << 20);
        // SAFETY: a new descriptor; one struct epoll_event.
        let told = unsafe {
            let q = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let mut ev = libc::epoll_event {
                events: (libc::EPOLLOUT | libc::EPOLLET) as u32,
                u64: 0,
            };
            assert_eq!(
                libc::epoll_ctl(q, libc::EPOLL_CTL_ADD, number(&s), &mut ev),
                0
            );
            assert_eq!(libc::epoll_wait(q, &mut ev, 1, 0), 0);
            thread::spawn(move || {
                let n = libc::epoll_wait(q, &mut ev, 1, LONG.as_millis() as i32);
                libc::close(q);
                n
            })
        };
        // Some, not all of them.
        for _ in 0..n / 2 {
            assert_eq!(r.message_timeout(LONG).unwrap().unwrap().len(), 1 << 20);
        }
        assert_eq!(told.join().unwrap(), 1);
        s.try_send_grant(e.grant).unwrap();
    });
}

#[test]
fn one_who_waits_for_a_time_has_that_time() {
    each(|mut r, mut s| {
        let (n, e) = fill(&mut s, 1 << 20);
        let began = Instant::now();
        let e = s.send_grant_timeout(e.grant, SOON).unwrap_err();
        assert_eq!(e.error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() >= SOON);
        // One who takes some in that time lets it through.
        thread::scope(|t| {
            t.spawn(|| {
                thread::sleep(SOON);
                for _ in 0..=n {
                    r.message_timeout(LONG).unwrap().unwrap();
                }
            });
            s.send_grant_timeout(e.grant, LONG).unwrap();
        });
    });
}

#[test]
fn a_signal_handler_ends_the_wait() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &a, std::ptr::null_mut()), 0);
    }
    each(|r, mut s| {
        let (_, e) = fill(&mut s, 1 << 20);
        let (started, has_started) = mpsc::channel();
        let (said, is_over) = mpsc::channel();
        let t = thread::spawn(move || {
            // SAFETY: this thread's own name.
            started.send(unsafe { libc::pthread_self() }).unwrap();
            let kind = s.send_grant(e.grant).unwrap_err().error.kind();
            said.send(kind).unwrap();
            // It is there until it has been told so.
            s
        });
        let who = has_started.recv().unwrap();
        let until = Instant::now() + LONG;
        let kind = loop {
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(who, libc::SIGUSR2) };
            match is_over.recv_timeout(Duration::from_millis(2)) {
                Ok(kind) => break kind,
                Err(_) => assert!(Instant::now() < until, "it waits for ever"),
            }
        };
        assert_eq!(kind, ErrorKind::Interrupted);
        drop((t.join().unwrap(), r));
    });
}

#[test]
fn nobody_receives_any_more() {
    each(|r, mut s| {
        let (_, e) = fill(&mut s, 1 << 20);
        let t = thread::spawn(move || s.send_grant_timeout(e.grant, LONG).unwrap_err());
        thread::sleep(SOON);
        drop(r);
        assert_eq!(t.join().unwrap().error.kind(), ErrorKind::BrokenPipe);
    });
    each(|r, mut s| {
        let (_, e) = fill(&mut s, 100);
        drop(r);
        assert!(is_writable(&s, Duration::ZERO));
        let e = s.send_grant_timeout(e.grant, LONG).unwrap_err();
        assert_eq!(e.error.kind(), ErrorKind::BrokenPipe);
    });
}

/// The oldest bytes of a full FIFO are in the kernel's pipe, and end within a record.
#[test]
fn records_of_a_full_one_are_whole() {
    each(|mut r, mut s| {
        for size in [1000, 3, 4088, 700, 0] {
            let mut n = 0;
            let record = |n: usize| vec![(n ^ n >> 8) as u8; size];
            while s.try_send(&record(n)).is_ok() {
                n += 1;
            }
            assert!(!is_writable(&s, Duration::ZERO), "{n} of {size}");
            for k in 0..n {
                assert_eq!(&r.try_message().unwrap().unwrap()[..], &record(k)[..]);
                // What is sent meanwhile stands behind them.
                if k % 97 == 0 && s.try_send(&record(n + k / 97)).is_err() {
                    assert!(!is_writable(&s, Duration::ZERO));
                }
            }
            while r.try_message().is_ok() {}
        }
    });
}

/// Grants among so many records that the ring itself is full again and again.
#[test]
fn grants_and_records_through_one_that_is_always_full() {
    each(|mut r, mut s| {
        const N: usize = 20_000;
        let t = thread::spawn(move || {
            for k in 0..N {
                match k % 50 {
                    0 => s.send_grant(grant(100_000, k as u8)).unwrap(),
                    _ => s.send(&vec![k as u8; k * 7 % 4089]).unwrap(),
                }
            }
        });
        for k in 0..N {
            let m = r.message_timeout(LONG).unwrap().unwrap();
            let n = if k % 50 == 0 { 100_000 } else { k * 7 % 4089 };
            assert!(m.len() == n && m.iter().all(|&x| x == k as u8), "{k}");
            if k % 400 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        t.join().unwrap();
    });
}
