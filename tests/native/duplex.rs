//! Bidirectional pipes: both ways at once, each way's end by itself, halves, records, a peer that is killed.
use crate::peer::{self, byte};
use byway::events::{Change, Event, Filter, Queue};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::thread;

#[test]
fn both_ways_at_once() {
    const N: usize = 5_000_000;
    let (here, there) = byway::duplex().unwrap();
    assert!(here.is_carried() && there.is_carried());
    thread::scope(|s| {
        for end in [here, there] {
            let (mut r, mut w) = end.into_halves();
            s.spawn(move || peer::write_all(&mut w, N).unwrap());
            s.spawn(move || assert_eq!(peer::read_all(&mut r).unwrap(), (N, true)));
        }
    });
}

#[test]
fn questions_and_answers() {
    let (mut here, mut there) = byway::duplex().unwrap();
    let t = thread::spawn(move || {
        let mut b = [0; 4];
        while there.read_exact(&mut b).is_ok() {
            let n = u32::from_le_bytes(b);
            there.write_all(&(2 * n).to_le_bytes()).unwrap();
        }
    });
    for k in 0..20_000u32 {
        here.write_all(&k.to_le_bytes()).unwrap();
        let mut b = [0; 4];
        here.read_exact(&mut b).unwrap();
        assert_eq!(u32::from_le_bytes(b), 2 * k);
    }
    drop(here);
    t.join().unwrap();
}

#[test]
fn each_way_ends_by_itself() {
    let (here, mut there) = byway::duplex().unwrap();
    let (mut r, w) = here.into_halves();
    assert_eq!(
        there.try_read(&mut [0; 9]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
    drop(w);
    assert_eq!(there.read(&mut [0; 9]).unwrap(), 0);
    assert_eq!(there.try_write(b"still").unwrap(), 5);
    assert_eq!(r.read(&mut [0; 9]).unwrap(), 5);
    peer::close(r);
    assert_eq!(there.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn clones_records_and_events() {
    let (here, mut there) = byway::duplex().unwrap();
    let (r, w) = here.try_clone().unwrap().into_halves();
    drop(here);
    let (mut receiver, mut sender) = (byway::Receiver::new(r), byway::Sender::new(w));
    let q = Queue::new().unwrap();
    let (r, w) = there.halves();
    let numbers = (r.as_raw_fd() as u64, w.as_raw_fd() as u64);
    q.apply(Change::read(r)).unwrap();
    q.apply(Change::write(w)).unwrap();
    sender.send(b"question").unwrap();
    let mut events = [Event::default(); 4];
    let n = q.wait(&mut events, None).unwrap();
    let mut found: Vec<_> = events[..n].iter().map(|e| (e.ident, e.filter)).collect();
    found.sort_by_key(|f| f.1 as i16);
    assert_eq!(
        found,
        [(numbers.1, Filter::Write), (numbers.0, Filter::Read)]
    );
    let (r, w) = there.into_halves();
    let (mut r, mut s) = (byway::Receiver::new(r), byway::Sender::new(w));
    assert_eq!(&r.message().unwrap().unwrap()[..], b"question");
    s.send(&vec![byte(3); 100_000]).unwrap();
    assert_eq!(receiver.message().unwrap().unwrap().len(), 100_000);
}

#[test]
fn a_killed_peer_ends_both_ways() {
    let (here, there) = byway::duplex().unwrap();
    let (mut r, mut w) = here.into_halves();
    let (r2, w2) = there.into_halves();
    let number = peer::number(&w2);
    let mut c = peer::start("write-forever", &number.to_string(), Some(number));
    drop((r2, w2));
    assert!(r.read(&mut [0; 1000]).unwrap() > 0);
    c.kill().unwrap();
    c.wait().unwrap();
    while r.read(&mut [0; 100_000]).unwrap() > 0 {}
    assert_eq!(w.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
}
