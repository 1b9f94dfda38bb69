//! Byte streams between threads, forked children and other programs.
use crate::peer::{self, LONG, number, read_all, write_all};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const MANY: usize = 30_000_000;

#[test]
fn bytes_are_carried_here() {
    assert_eq!(byway::why_not_carried(), None);
}

#[test]
fn between_threads() {
    let (mut r, mut w) = byway::pipe().unwrap();
    assert!(r.is_carried() && w.is_carried());
    let t = thread::spawn(move || write_all(&mut w, MANY));
    assert_eq!(read_all(&mut r).unwrap(), (MANY, true));
    t.join().unwrap().unwrap();
}

#[test]
fn to_another_program() {
    let (r, mut w) = byway::pipe().unwrap();
    let c = peer::start(
        "read-fd",
        &format!("{} {MANY}", number(&r)),
        Some(number(&r)),
    );
    drop(r);
    write_all(&mut w, MANY).unwrap();
    drop(w);
    assert!(peer::ended(c));
}

#[test]
fn from_another_program() {
    let (mut r, w) = byway::pipe().unwrap();
    let c = peer::start(
        "write-fd",
        &format!("{} {MANY}", number(&w)),
        Some(number(&w)),
    );
    drop(w);
    assert_eq!(read_all(&mut r).unwrap(), (MANY, true));
    assert!(peer::ended(c));
}

#[test]
fn with_a_forked_child() {
    // By itself: the child has every descriptor of the process until it ends.
    peer::apart("forked");
}
pub fn forked() {
    const N: usize = 3_000_000;
    let (mut r, mut w) = byway::pipe().unwrap();
    // SAFETY: the child touches only its own ends, and ends without running the harness.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        drop(r);
        let ok = write_all(&mut w, N).is_ok();
        drop(w);
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if ok { 0 } else { 1 }) };
    }
    drop(w);
    assert_eq!(read_all(&mut r).unwrap(), (N, true));
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
}

#[test]
fn many_writers_are_not_mixed() {
    const WRITERS: usize = 4;
    const EACH: usize = 5_000;
    let (mut r, w) = byway::pipe().unwrap();
    let threads: Vec<_> = (0..WRITERS)
        .map(|id| {
            let mut w = w.try_clone().unwrap();
            thread::spawn(move || {
                for k in 0..EACH {
                    // Whole or not at all: up to PIPE_BUF.
                    let mut b = vec![id as u8; 16 + (k * 37) % 4000];
                    let n = b.len() as u32;
                    b[4..8].copy_from_slice(&n.to_le_bytes());
                    b[8..12].copy_from_slice(&(k as u32).to_le_bytes());
                    assert_eq!(w.write(&b).unwrap(), b.len());
                }
            })
        })
        .collect();
    drop(w);
    let mut next: HashMap<u8, u32> = HashMap::new();
    let mut head = [0; 16];
    let mut rest = vec![0; 5000];
    let mut n = 0;
    while r.read(&mut head[..1]).unwrap() == 1 {
        r.read_exact(&mut head[1..]).unwrap();
        let id = head[0];
        let word = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().unwrap());
        let (len, k) = (word(4) as usize, word(8));
        assert_eq!(next.insert(id, k + 1).unwrap_or(0), k);
        r.read_exact(&mut rest[..len - 16]).unwrap();
        assert!(rest[..len - 16].iter().all(|&b| b == id));
        n += 1;
    }
    assert_eq!(n, WRITERS * EACH);
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn many_readers_get_each_byte_once() {
    let (r, mut w) = byway::pipe().unwrap();
    let sum = std::sync::Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (mut r, sum) = (r.try_clone().unwrap(), sum.clone());
            thread::spawn(move || {
                let mut b = [0; 777];
                loop {
                    let n = r.read(&mut b).unwrap();
                    if n == 0 {
                        return;
                    }
                    sum.fetch_add(b[..n].iter().map(|&x| x as usize).sum(), Relaxed);
                }
            })
        })
        .collect();
    drop(r);
    let all: Vec<u8> = (0..2_000_000).map(peer::byte).collect();
    for part in all.chunks(1234) {
        w.write_all(part).unwrap();
    }
    drop(w);
    threads.into_iter().for_each(|t| t.join().unwrap());
    let want: usize = all.iter().map(|&x| x as usize).sum();
    assert_eq!(sum.load(Relaxed), want);
}

/// Whether poll(2) says `events` of `fd` now.
fn shows(fd: i32, events: i16) -> bool {
    let mut p = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    unsafe { libc::poll(&mut p, 1, 0) };
    p.revents & events != 0
}

#[test]
fn attempts_do_not_wait_and_the_descriptor_tells() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let mut b = [0; 100];
    for round in 0..50u8 {
        let e = r.try_read(&mut b).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        assert!(!shows(r.as_raw_fd(), libc::POLLIN));
        assert_eq!(w.try_write(&[round; 60]).unwrap(), 60);
        assert!(shows(r.as_raw_fd(), libc::POLLIN), "round {round}");
        assert_eq!(r.try_read(&mut b[..20]).unwrap(), 20);
        assert_eq!(r.try_read(&mut b).unwrap(), 40);
        assert!(b[..40].iter().all(|&x| x == round));
    }
    // Full.
    let block = vec![1; 10_000];
    let mut n = 0;
    let e = loop {
        match w.try_write(&block) {
            Ok(k) => n += k,
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    assert!(n >= 65_536);
    assert!(!shows(w.as_raw_fd(), libc::POLLOUT));
    // Empty again, and the descriptor knows.
    let mut left = n;
    let mut big = vec![0; 50_000];
    while left > 0 {
        left -= r.try_read(&mut big).unwrap();
    }
    assert!(shows(w.as_raw_fd(), libc::POLLOUT));
    assert!(w.try_write(&block).unwrap() > 0);
    peer::close(r);
    let e = w.write_all(&block).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::BrokenPipe);
}

#[test]
fn an_event_loop_reads_it_all() {
    const N: usize = 5_000_000;
    let (mut r, mut w) = byway::pipe().unwrap();
    // SAFETY: plain calls on a new epoll descriptor; one event of ours.
    let ep = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    let mut ev = libc::epoll_event {
        events: (libc::EPOLLIN | libc::EPOLLET) as u32,
        u64: 0,
    };
    // SAFETY: as above.
    let added = unsafe { libc::epoll_ctl(ep, libc::EPOLL_CTL_ADD, r.as_raw_fd(), &mut ev) };
    assert_eq!(added, 0);
    let t = thread::spawn(move || {
        let mut x = 9usize;
        let all: Vec<u8> = (0..N).map(peer::byte).collect();
        let mut at = 0;
        while at < N {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let k = (x >> 40).min(20_000).min(N - at).max(1);
            w.write_all(&all[at..at + k]).unwrap();
            at += k;
            if x >> 60 == 0 {
                thread::sleep(Duration::from_micros(300));
            }
        }
    });
    let (mut n, mut b, mut end) = (0, vec![0; 7000], false);
    while !end {
        loop {
            match r.try_read(&mut b) {
                Ok(0) => {
                    end = true;
                    break;
                }
                Ok(k) => {
                    assert!(
                        b[..k]
                            .iter()
                            .enumerate()
                            .all(|(i, &x)| x == peer::byte(n + i))
                    );
                    n += k;
                }
                Err(e) => {
                    assert_eq!(e.kind(), ErrorKind::WouldBlock);
                    // SAFETY: as above.
                    let k = unsafe { libc::epoll_wait(ep, &mut ev, 1, LONG.as_millis() as i32) };
                    assert_eq!(k, 1, "after {n} bytes");
                    break;
                }
            }
        }
    }
    assert_eq!(n, N);
    t.join().unwrap();
    // SAFETY: our own.
    unsafe { libc::close(ep) };
}

#[test]
fn time_runs_out() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let (mut b, short) = ([0; 10], Duration::from_millis(30));
    let t = Instant::now();
    let e = r.read_timeout(&mut b, short).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    assert!(t.elapsed() >= short);
    assert_eq!(w.write_timeout(b"12345", short).unwrap(), 5);
    assert_eq!(r.read_timeout(&mut b, LONG).unwrap(), 5);
    // A write that finds room for a part of it ends with that part.
    let big = vec![3; 4 << 20];
    let n = w.write_timeout(&big, short).unwrap();
    assert!(n > 0 && n < big.len());
    let e = w.write_timeout(&big, short).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    let (mut got, mut b) = (0, vec![0; 100_000]);
    while got < n {
        got += r.read_timeout(&mut b, LONG).unwrap();
    }
    assert_eq!(got, n);
}

#[test]
fn handed_to_a_program_that_knows_nothing() {
    use std::process::{Command, Stdio};
    let (r, mut w) = byway::pipe().unwrap();
    w.write_all(b"before ").unwrap();
    let mut cat = peer::spawn(
        Command::new("cat")
            .stdin(Stdio::from(r.into_fd().unwrap()))
            .stdout(Stdio::piped()),
    );
    w.write_all(b"and after").unwrap();
    assert!(!w.is_carried());
    drop(w);
    let mut text = String::new();
    cat.stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(cat.wait().unwrap().success());
    assert_eq!(text, "before and after");
}

#[test]
fn not_a_pipe_is_said_so() {
    let f = std::fs::File::open("/dev/null").unwrap();
    let e = byway::Reader::from_fd(f.into()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
    let (r, _w) = byway::pipe().unwrap();
    let e = byway::Writer::from_fd(r.into_fd().unwrap()).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
}
