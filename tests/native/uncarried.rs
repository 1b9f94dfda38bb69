//! Without a domain: what the library does over pipes that are the kernel's alone, and what it says of the rest.
//!
//! In a process of its own, which looks for the domain once. The first body is the kernel's pipe's too.
//! Not here: `byway run` (tests/native.sh has programs of the library's under it).
use crate::ends::{In, Out, kernel_pipe, uncarried_pipe};
use crate::peer::{self, LONG, number, read_all, write_all};
use byway::events::{Change, Event, Filter, Flags, Queue};
use byway::{Receiver, Sender};
use std::io::{BufRead, Error, ErrorKind, Read, Write};
use std::thread;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(5);

/// In a process that has that in its environment, and is told to try `hint`.
fn with(name: &str, value: &str, hint: &str) {
    let c = peer::spawn(peer::command("uncarried", hint).env(name, value));
    assert!(peer::ended(c), "with {name}={value}");
}

#[test]
fn turned_off() {
    with("BYWAY", "off", "unset BYWAY");
}

#[test]
fn without_a_folder_for_shared_memory() {
    with("BYWAY_SHM", "/proc/none", "set BYWAY_SHM to a folder");
}

#[test]
fn a_pipe_of_somebody_elses_where_others_are_carried() {
    let (r, w) = std::io::pipe().unwrap();
    let mut s = Sender::new(byway::Writer::from_fd(w.into()).unwrap());
    let mut r = Receiver::new(byway::Reader::from_fd(r.into()).unwrap());
    let e = s.send(&vec![1; Sender::INLINE + 1]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unsupported);
    assert!(e.to_string().contains("send shorter ones"), "{e}");
    s.send(&vec![1; Sender::INLINE]).unwrap();
    assert_eq!(r.message().unwrap().unwrap().len(), Sender::INLINE);
}

pub fn uncarried(hint: &str) {
    let why = byway::why_not_carried().expect("nothing is carried");
    assert!(why.contains(hint), "{why}");
    let ours = attempts(uncarried_pipe());
    assert_eq!(ours, attempts(kernel_pipe()));
    bytes();
    a_peer();
    records();
    many_senders();
    longer_ones(hint);
    both_ways();
    events();
}

fn kind<T>(r: Result<T, Error>) -> ErrorKind {
    r.err().expect("it fails").kind()
}

/// What attempts find: nothing, room for so much, a piece of it, the rest, the end; a broken pipe.
fn attempts((mut r, mut w): (In, Out)) -> (Option<usize>, usize, [Option<usize>; 4], ErrorKind) {
    let none = r.read(10);
    let room = w.fill();
    let some = r.read(5000);
    let more = w.write(4000).ok();
    let mut rest = 0;
    while let Some(n) = r.read(100_000) {
        rest += n;
    }
    drop(w);
    let end = r.read(10);
    let (r, mut w) = match r {
        In::Native(_) => uncarried_pipe(),
        In::Kernel(_) => kernel_pipe(),
    };
    drop(r);
    let broken = kind(w.write(10));
    (none, room, [some, more, Some(rest), end], broken)
}

/// With a limit, and a stream that waits.
fn bytes() {
    const N: usize = 3_000_000;
    let (mut r, mut w) = byway::pipe().unwrap();
    assert_eq!(kind(r.read_timeout(&mut [0; 9], SOON)), ErrorKind::TimedOut);
    while w.try_write(&[0; 4096]).is_ok() {}
    assert_eq!(kind(w.write_timeout(&[0; 9], SOON)), ErrorKind::TimedOut);
    let t = thread::spawn(move || w.write_timeout(&[1; 9], LONG).map(|_| w));
    while r.read_timeout(&mut [0; 4096], LONG).unwrap() == 4096 {}
    let mut w = t.join().unwrap().unwrap();
    let t = thread::spawn(move || write_all(&mut w, N).unwrap());
    assert_eq!(read_all(&mut r).unwrap(), (N, true));
    t.join().unwrap();
    // In the bytes before they are taken; two readers, and descriptors that come and go.
    let (mut r, w) = byway::pipe().unwrap();
    let mut w = byway::Writer::from_fd(w.into_fd().unwrap()).unwrap();
    w.write_all(b"one\ntwo\nthree").unwrap();
    // What is shown and not taken is there for whatever comes next.
    let mut line = String::new();
    assert_eq!(r.buffered().read_line(&mut line).unwrap(), 4);
    assert_eq!(r.buffered().read_line(&mut line).unwrap(), 4);
    assert_eq!((line.as_str(), r.ahead()), ("one\ntwo\n", &b"three"[..]));
    assert_eq!(r.try_read(&mut [0; 2]).unwrap(), 2);
    assert_eq!(r.read_timeout(&mut [0; 2], SOON).unwrap(), 2);
    assert_eq!(r.read(&mut [0; 9]).unwrap(), 1);
    assert_eq!(kind(r.try_read(&mut [0; 9])), ErrorKind::WouldBlock);
    let (r, mut w) = byway::pipe().unwrap();
    w.write_all(b"fourfive").unwrap();
    assert_eq!(r.try_clone().unwrap().read(&mut [0; 4]).unwrap(), 4);
    let mut r = byway::Reader::from_fd(r.into_fd().unwrap()).unwrap();
    assert_eq!(r.read(&mut [0; 9]).unwrap(), 4);
}

/// A program that was started with an end of it, and is killed.
fn a_peer() {
    let (mut r, w) = byway::pipe().unwrap();
    let mut c = peer::start("write-forever", &number(&w).to_string(), Some(number(&w)));
    drop(w);
    let mut b = vec![0; 30_000];
    assert!(r.read(&mut b).unwrap() > 0);
    c.kill().unwrap();
    c.wait().unwrap();
    while r.read_timeout(&mut b, LONG).unwrap() > 0 {}
}

fn records() {
    let (mut r, mut s) = byway::records().unwrap();
    let mut b = vec![0; Sender::INLINE];
    assert_eq!(kind(r.try_receive(&mut b)), ErrorKind::WouldBlock);
    assert_eq!(kind(r.receive_timeout(&mut b, SOON)), ErrorKind::TimedOut);
    for k in 0..40 {
        let sent: Vec<u8> = peer::record(k).into_iter().take(Sender::INLINE).collect();
        s.send(&sent).unwrap();
        if k % 3 == 0 {
            assert_eq!(&r.message().unwrap().unwrap()[..], &sent[..], "record {k}");
        } else {
            assert_eq!(r.receive(&mut b).unwrap(), Some(sent.len()));
            assert_eq!(b[..sent.len()], sent);
        }
    }
    // One for which the buffer is too short stays.
    s.send(b"long").unwrap();
    let e = r.receive(&mut b[..2]).unwrap_err();
    assert_eq!(e.raw_os_error(), Some(libc::EMSGSIZE));
    assert_eq!(r.receive(&mut b).unwrap(), Some(4));
    // A full pipe, and a timed send to it; all that was sent arrives whole.
    let mut n = 0;
    while s.try_send(&[n as u8; 1000]).is_ok() {
        n += 1;
    }
    assert!(n > 0);
    assert_eq!(kind(s.send_timeout(&[0; 1000], SOON)), ErrorKind::TimedOut);
    for k in 0..n {
        assert_eq!(&r.message().unwrap().unwrap()[..], &[k as u8; 1000]);
    }
    drop(s);
    assert_eq!(r.receive(&mut b).unwrap(), None);
    let (r, mut s) = byway::records().unwrap();
    peer::close(r);
    assert_eq!(kind(s.send(b"x")), ErrorKind::BrokenPipe);
}

/// What they send is not mixed.
fn many_senders() {
    const EACH: usize = 3000;
    let (mut r, s) = byway::records().unwrap();
    thread::scope(|t| {
        for k in 1..=3u8 {
            let mut s = s.try_clone().unwrap();
            t.spawn(move || {
                for n in 0..EACH {
                    s.send(&vec![k; n * 7 % (Sender::INLINE + 1)]).unwrap();
                }
            });
        }
        drop(s);
        let mut count = 0;
        while let Some(m) = r.message().unwrap() {
            assert!(m.iter().all(|&x| x == m[0]));
            count += 1;
        }
        assert_eq!(count, 3 * EACH);
    });
}

/// What there is no ordinary pipe of: an error that tells what to try, and the stream is as it was.
fn longer_ones(hint: &str) {
    let (mut r, mut s) = byway::records().unwrap();
    let says = |what: &str, e: Error| {
        assert_eq!(e.kind(), ErrorKind::Unsupported, "{what}: {e}");
        assert!(e.to_string().contains(hint), "{what}: {e}");
        assert!(e.to_string().contains("; or "), "{what}: {e}");
    };
    let long = vec![1; Sender::INLINE + 1];
    says("send", s.send(&long).unwrap_err());
    says("try_send", s.try_send(&long).unwrap_err());
    says("send_timeout", s.send_timeout(&long, SOON).unwrap_err());
    says("reserve", byway::reserve(10).err().unwrap());
    says("a FIFO", byway::Fifo::new("nowhere").unwrap_err());
    s.send(b"short").unwrap();
    assert_eq!(r.receive(&mut [0; 9]).unwrap(), Some(5));
    assert_eq!(kind(r.try_receive(&mut [0; 9])), ErrorKind::WouldBlock);
    assert_eq!(kind(r.try_clone()), ErrorKind::Unsupported);
}

fn both_ways() {
    let (mut here, there) = byway::duplex().unwrap();
    assert!(!here.is_carried() && !there.is_carried());
    let (mut r, w) = there.into_halves();
    here.write_all(b"ping").unwrap();
    assert_eq!(r.read(&mut [0; 9]).unwrap(), 4);
    let mut s = Sender::new(w);
    s.send(b"pong").unwrap();
    drop(s);
    assert_eq!(
        kind(
            here.write_timeout(&[0; 100_000], SOON)
                .and(here.try_write(b"x"))
        ),
        ErrorKind::WouldBlock
    );
    let (back, to) = here.into_halves();
    let mut back = Receiver::new(back);
    assert_eq!(&back.message().unwrap().unwrap()[..], b"pong");
    assert!(back.message().unwrap().is_none());
    peer::close(r);
    let mut to = to;
    assert_eq!(kind(to.write(b"x")), ErrorKind::BrokenPipe);
}

fn events() {
    let q = Queue::new().unwrap();
    let now = |q: &Queue| {
        let mut e = [Event::default(); 4];
        let n = q.wait(&mut e, Some(Duration::ZERO)).unwrap();
        e[..n].to_vec()
    };
    let (mut r, mut w) = byway::pipe().unwrap();
    q.apply(Change::read(&mut r).udata(9)).unwrap();
    assert!(now(&q).is_empty());
    w.write_all(b"hello").unwrap();
    let e = now(&q);
    assert_eq!(
        (e.len(), e[0].filter, e[0].data, e[0].udata),
        (1, Filter::Read, 5, 9)
    );
    assert_eq!(r.read(&mut [0; 3]).unwrap(), 3);
    assert_eq!(now(&q)[0].data, 2);
    let other = Queue::new().unwrap();
    other
        .apply(Change::write(&mut w).flags(Flags::CLEAR))
        .unwrap();
    assert!(now(&other)[0].data > 0);
    assert!(now(&other).is_empty());
    drop(w);
    let e = now(&q);
    assert!(e[0].flags.has(Flags::EOF) && e[0].data == 2);
    // A receiver, told while another thread sends.
    let (mut r, mut s) = byway::records().unwrap();
    q.apply(Change::read(&mut r)).unwrap();
    let t = thread::spawn(move || s.send(b"record").unwrap());
    let mut e = [Event::default(); 4];
    while !e.iter().any(|e| e.udata == 0 && e.data > 0 && e.ident != 0) {
        q.wait(&mut e, Some(LONG)).unwrap();
    }
    assert_eq!(r.try_receive(&mut [0; 9]).unwrap(), Some(6));
    t.join().unwrap();
}
