//! Peers that are killed, at any moment.
use crate::peer::{self, LONG, number};
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// So often, each time a little later.
const TIMES: u64 = 40;

#[test]
fn of_the_writer_is_the_end() {
    for k in 0..TIMES {
        let (mut r, w) = byway::pipe().unwrap();
        let mut c = peer::start("write-forever", &number(&w).to_string(), Some(number(&w)));
        drop(w);
        let mut b = vec![0; 30_000];
        assert!(r.read(&mut b).unwrap() > 0);
        let killed_at = Instant::now() + Duration::from_micros(k * 97);
        let mut killed = false;
        loop {
            if !killed && Instant::now() >= killed_at {
                killed = true;
                c.kill().unwrap();
            }
            let n = r.read_timeout(&mut b, LONG).unwrap();
            if n == 0 {
                break;
            }
            assert!(b[..n].iter().all(|&x| x == 7));
        }
        assert!(killed);
        c.wait().unwrap();
    }
}

#[test]
fn of_the_reader_is_a_broken_pipe() {
    for k in 0..TIMES {
        let (r, mut w) = byway::pipe().unwrap();
        let mut c = peer::start("read-slowly", &number(&r).to_string(), Some(number(&r)));
        drop(r);
        let b = vec![5; if k % 2 == 0 { 100 } else { 200_000 }];
        w.write_all(&b[..1]).unwrap();
        let killed_at = Instant::now() + Duration::from_micros(k * 97);
        let mut killed = false;
        let e = loop {
            if !killed && Instant::now() >= killed_at {
                killed = true;
                c.kill().unwrap();
            }
            match w.write_timeout(
                &b,
                if killed {
                    LONG
                } else {
                    Duration::from_millis(1)
                },
            ) {
                Ok(_) => {}
                Err(e) if !killed && e.kind() == ErrorKind::TimedOut => {}
                Err(e) => break e,
            }
        };
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        c.wait().unwrap();
    }
}

#[test]
fn while_both_sleep() {
    // A reader asleep, its writer killed in its sleep.
    let (mut r, w) = byway::pipe().unwrap();
    let mut c = peer::start("sleep", &number(&w).to_string(), Some(number(&w)));
    drop(w);
    let t = std::thread::spawn(move || r.read(&mut [0; 10]).unwrap());
    std::thread::sleep(Duration::from_millis(50));
    c.kill().unwrap();
    c.wait().unwrap();
    assert_eq!(t.join().unwrap(), 0);
    // A writer asleep on a full pipe, its reader killed.
    let (r, mut w) = byway::pipe().unwrap();
    let mut c = peer::start("sleep", &number(&r).to_string(), Some(number(&r)));
    drop(r);
    let t = std::thread::spawn(move || {
        loop {
            if let Err(e) = w.write_all(&[0; 100_000]) {
                return e.kind();
            }
        }
    });
    std::thread::sleep(Duration::from_millis(50));
    c.kill().unwrap();
    c.wait().unwrap();
    assert_eq!(t.join().unwrap(), ErrorKind::BrokenPipe);
}

/// Whether the kernel tells of `event` on that descriptor.
fn shows(fd: &impl AsRawFd, event: i16) -> bool {
    let mut p = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: 0,
        revents: 0,
    };
    // SAFETY: one struct pollfd of ours.
    let n = unsafe { libc::poll(&mut p, 1, 0) };
    n == 1 && p.revents & event != 0
}

/// "Within the kernel's own time", by the order of events: who has reaped a process knows that it has closed all it had
/// (LINUX do_exit: its files before it can be waited for). At that moment a pipe of the kernel's, which the dead held
/// too, tells of it at once; so does ours, to whoever was armed by its descriptor and to whoever attempts by what it
/// says, without a wait in between.
#[test]
fn is_told_when_the_kernel_tells_of_it() {
    // By itself: a child that another test forks has the descriptors until it executes.
    peer::apart("told");
}
pub fn told() {
    for k in 0..TIMES {
        let late = Duration::from_micros(k * 97);
        for role in ["sleep", "write-forever"] {
            of_a_writer(role, late, std::io::pipe().unwrap());
        }
        for role in ["sleep", "read-slowly"] {
            of_a_reader(role, late, std::io::pipe().unwrap());
        }
    }
}

fn of_a_writer(role: &str, late: Duration, (theirs, held): (PipeReader, PipeWriter)) {
    let (mut r, w) = byway::pipe().unwrap();
    let mut b = vec![0; 30_000];
    let mut c = peer::start_holding(role, &number(&w).to_string(), Some(number(&w)), held);
    drop(w);
    let sleeps = role == "sleep";
    if sleeps {
        // From now on the descriptor tells the truth.
        let e = r.try_read(&mut b).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        assert!(!shows(&r, libc::POLLHUP));
    } else {
        assert!(r.read(&mut b).unwrap() > 0);
    }
    std::thread::sleep(late);
    assert!(!shows(&theirs, libc::POLLHUP));
    c.kill().unwrap();
    c.wait().unwrap();
    assert!(shows(&theirs, libc::POLLHUP));
    assert!(shows(&r, libc::POLLHUP));
    // What it had written, and the end, with nothing to wait for.
    while r.try_read(&mut b).unwrap() > 0 {
        assert!(!sleeps);
    }
}

fn of_a_reader(role: &str, late: Duration, (held, mut theirs): (PipeReader, PipeWriter)) {
    let (r, mut w) = byway::pipe().unwrap();
    let mut c = peer::start_holding(role, &number(&r).to_string(), Some(number(&r)), held);
    drop(r);
    let b = [5; 3000];
    let sleeps = role == "sleep";
    if sleeps {
        while w.try_write(&b).is_ok() {}
        assert!(!shows(&w, libc::POLLERR));
    } else {
        w.write_all(&b).unwrap();
    }
    std::thread::sleep(late);
    assert!(!shows(&theirs, libc::POLLERR));
    c.kill().unwrap();
    c.wait().unwrap();
    assert_eq!(theirs.write(&b).unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(shows(&w, libc::POLLERR));
    // A writer asks the kernel every 50 us; what it writes before is for nobody, as what the kernel's pipe took before
    // the death. It is told before it would have to wait: a full pipe that nobody reads is a broken one.
    let e = loop {
        match w.try_write(&b) {
            Ok(_) => assert!(!sleeps, "the pipe was full"),
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::BrokenPipe);
}
