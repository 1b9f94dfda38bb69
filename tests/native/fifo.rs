//! FIFOs by name.
use crate::peer::{self, LONG, read_all, write_all};
use std::io::{ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

/// A name that nobody else has, for one test.
struct Named(byway::Fifo);

impl Named {
    fn new(name: &str) -> Named {
        let f = byway::Fifo::new(&format!("{name}-{}", std::process::id())).unwrap();
        f.remove().unwrap();
        Named(f)
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        self.0.remove().unwrap();
    }
}

#[test]
fn between_unrelated_programs() {
    const N: usize = 20_000_000;
    let f = Named::new("unrelated");
    let a = peer::start("fifo-read", &format!("{} {N}", f.0.name()), None);
    let b = peer::start("fifo-write", &format!("{} {N}", f.0.name()), None);
    assert!(peer::ended(b));
    assert!(peer::ended(a));
}

#[test]
fn to_and_from_this_program() {
    const N: usize = 5_000_000;
    let f = Named::new("here");
    let c = peer::start("fifo-write", &format!("{} {N}", f.0.name()), None);
    let mut r = f.0.reader().unwrap();
    assert!(r.is_carried());
    assert_eq!(read_all(&mut r).unwrap(), (N, true));
    drop(r);
    assert!(peer::ended(c));
    // A process that another test has just forked may have `r` still, and let go of it before the next reader comes.
    while f.0.try_writer().is_ok() {
        std::thread::yield_now();
    }
    let c = peer::start("fifo-read", &format!("{} {N}", f.0.name()), None);
    let mut w = f.0.writer().unwrap();
    write_all(&mut w, N).unwrap();
    drop(w);
    assert!(peer::ended(c));
}

#[test]
fn a_new_life_has_nothing_of_the_old() {
    // By itself: a child that another test forks has the descriptors until it executes, and the old life goes on so long.
    peer::apart("lives");
}
pub fn lives() {
    let f = Named::new("lives");
    for life in 0..20u8 {
        let g = f.0.clone();
        let t = thread::spawn(move || {
            let mut w = g.writer().unwrap();
            w.write_all(&vec![life; 100_000]).unwrap();
        });
        let mut r = f.0.reader().unwrap();
        let mut b = vec![0; 70_000];
        r.read_exact(&mut b).unwrap();
        let other = b.iter().position(|&x| x != life);
        assert_eq!(other.map(|at| (at, b[at])), None, "in life {life}");
        t.join().unwrap();
        // The rest is never read: it goes with the last descriptor.
    }
}

#[test]
fn the_stream_ends_and_begins_again() {
    let f = Named::new("again");
    // Somebody reads all the time.
    let mut r = f.0.try_reader().unwrap();
    let mut b = [0; 100];
    let e = r.try_read(&mut b).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    for round in 0..10u8 {
        let mut w = f.0.writer_timeout(LONG).unwrap();
        w.write_all(&[round; 30]).unwrap();
        drop(w);
        let mut got = Vec::new();
        r.read_to_end(&mut got).unwrap();
        assert_eq!(got, [round; 30]);
    }
}

#[test]
fn nobody_is_there() {
    let f = Named::new("nobody");
    let e = f.0.try_writer().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    let e = f.0.writer_timeout(Duration::from_millis(20)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
}

#[test]
fn names_that_are_none() {
    for name in [
        "",
        "a/b",
        "..",
        "memory",
        "users",
        "x y",
        "-v",
        &"n".repeat(201),
    ] {
        let e = byway::Fifo::new(name).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput, "{name}");
    }
}
