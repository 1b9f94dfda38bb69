//! Peers that are killed, at any moment.
use crate::peer::{self, LONG, number};
use std::io::{ErrorKind, Read, Write};
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
