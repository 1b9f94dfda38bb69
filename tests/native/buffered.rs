//! A reader that reads ahead: nothing lost or seen twice, what is shown stays, and nobody waits for it.
use crate::peer::{self, byte, write_all};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

const N: usize = 10_000_000;

/// A pipe whose next bytes lie in its ring.
fn with(bytes: &[u8]) -> (byway::Reader, byway::Writer) {
    let (r, mut w) = byway::pipe().unwrap();
    w.write_all(bytes).unwrap();
    assert!(r.is_carried());
    (r, w)
}

#[test]
fn every_byte_once_and_in_order() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let t = thread::spawn(move || write_all(&mut w, N).unwrap());
    let (mut at, mut size, mut b) = (0, 1, r.buffered());
    loop {
        let seen = b.fill_buf().unwrap();
        if seen.is_empty() {
            break;
        }
        assert!(seen.iter().enumerate().all(|(i, &x)| x == byte(at + i)));
        // All of them, some, none; and some by a read.
        let k = seen.len().min(size);
        b.consume(k);
        at += k;
        size = size * 5 / 2 % 70_001;
        if size % 7 == 3 {
            let mut some = [0; 500];
            let n = b.read(&mut some).unwrap();
            assert!(
                some[..n]
                    .iter()
                    .enumerate()
                    .all(|(i, &x)| x == byte(at + i))
            );
            at += n;
        }
    }
    assert_eq!(at, N);
    t.join().unwrap();
}

#[test]
fn lines_of_a_fifo() {
    let f = byway::Fifo::new(&format!("lines-{}", std::process::id())).unwrap();
    let g = f.clone();
    let t = thread::spawn(move || {
        let mut w = g.writer().unwrap();
        for k in 0..200_000 {
            writeln!(w, "line {k}").unwrap();
        }
    });
    let mut r = f.reader().unwrap();
    for (k, line) in r.buffered().lines().enumerate() {
        assert_eq!(line.unwrap(), format!("line {k}"));
    }
    t.join().unwrap();
    f.remove().unwrap();
}

#[test]
fn what_is_left_stays() {
    let (mut r, w) = with(b"hello");
    let mut b = r.buffered();
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    b.consume(2);
    assert_eq!(b.fill_buf().unwrap(), b"llo");
    drop(b);
    let mut rest = [0; 9];
    assert_eq!(r.read(&mut rest).unwrap(), 3);
    drop(w);
    assert_eq!(r.buffered().fill_buf().unwrap(), b"");
}

/// The writer gives the pipe to the kernel while bytes of it are looked at: it does not wait, and what was shown stays.
#[test]
fn a_hand_back_does_not_wait() {
    let (mut r, w) = with(&(0..50_000).map(byte).collect::<Vec<_>>());
    let mut b = r.buffered();
    let n = b.fill_buf().unwrap().len();
    assert!(n > 1000);
    drop(w.into_fd().unwrap());
    let seen = b.fill_buf().unwrap();
    assert_eq!(seen.len(), n);
    assert!(seen.iter().enumerate().all(|(i, &x)| x == byte(i)));
    b.consume(1000);
    drop(b);
    let mut rest = Vec::new();
    r.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 49_000);
    assert!(rest.iter().enumerate().all(|(i, &x)| x == byte(1000 + i)));
}

/// Calls of the same thread on the same pipe go on meanwhile; another reader finds what comes behind.
#[test]
fn calls_of_the_same_thread_go_on() {
    let (mut r, mut w) = with(b"hello");
    let mut other = r.try_clone().unwrap();
    let mut b = r.buffered();
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    let kind = |e: std::io::Result<usize>| e.unwrap_err().kind();
    assert_eq!(kind(other.try_read(&mut [0; 9])), ErrorKind::WouldBlock);
    assert_eq!(w.write(b"x").unwrap(), 1);
    assert_eq!(other.read(&mut [0; 9]).unwrap(), 1);
    let q = byway::events::Queue::new().unwrap();
    q.apply(byway::events::Change::write(&mut w)).unwrap();
    let mut events = [Default::default(); 2];
    assert_eq!(q.wait(&mut events, None).unwrap(), 1);
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    b.consume(5);
    assert_eq!(w.write(b"y").unwrap(), 1);
    assert_eq!(b.fill_buf().unwrap(), b"y");
}

/// A reader that is killed takes with it what it has read ahead, and nothing else.
#[test]
fn a_killed_reader_has_taken_what_it_read_ahead() {
    let (mut r, mut w) = with(&(0..50_000).map(byte).collect::<Vec<_>>());
    let mark = std::env::temp_dir().join(format!("byway-look-{}", std::process::id()));
    let arg = format!("{} {}", peer::number(&r), mark.display());
    let mut c = peer::start("look-forever", &arg, Some(peer::number(&r)));
    let until = Instant::now() + peer::LONG;
    let had: usize = loop {
        assert!(Instant::now() < until);
        match std::fs::read_to_string(&mark).map(|s| s.parse()) {
            Ok(Ok(n)) => break n,
            _ => thread::sleep(Duration::from_millis(1)),
        }
    };
    std::fs::remove_file(&mark).unwrap();
    c.kill().unwrap();
    c.wait().unwrap();
    w.write_all(&(50_000..60_000).map(byte).collect::<Vec<_>>())
        .unwrap();
    drop(w);
    let mut all = Vec::new();
    r.read_to_end(&mut all).unwrap();
    assert_eq!(had + all.len(), 60_000);
    assert!(all.iter().enumerate().all(|(i, &x)| x == byte(had + i)));
}

/// What was read ahead is the reader's: whatever it is asked by next, and however the bytes came.
#[test]
fn what_was_read_ahead_comes_next() {
    for asleep in [false, true] {
        let (mut r, mut w) = byway::pipe().unwrap();
        if asleep {
            // Armed: the next bytes come through the kernel's pipe.
            r.try_read(&mut [0; 9]).unwrap_err();
        }
        w.write_all(b"one\ntwo\nthree\nfour\nfive\nsix, and more")
            .unwrap();
        let line = |r: &mut byway::Reader| {
            let mut s = String::new();
            r.buffered().read_line(&mut s).unwrap();
            s
        };
        assert_eq!(line(&mut r), "one\n");
        assert!(!r.ahead().is_empty());
        assert_eq!(line(&mut r), "two\n");
        let mut b = [0; 6];
        assert_eq!((r.read(&mut b).unwrap(), &b[..]), (6, &b"three\n"[..]));
        // A clone has what is left in the pipe, which is nothing.
        assert_eq!(r.ahead().len(), 23);
        let mut other = r.try_clone().unwrap();
        assert!(other.try_read(&mut b).is_err());
        assert_eq!(
            (r.try_read(&mut b[..5]).unwrap(), &b[..5]),
            (5, &b"four\n"[..])
        );
        let n = r.read_timeout(&mut b[..5], peer::LONG).unwrap();
        assert_eq!((n, &b[..5]), (5, &b"five\n"[..]));
        // A queue counts them too; with what is in the pipe.
        w.write_all(b"!").unwrap();
        let q = byway::events::Queue::new().unwrap();
        q.apply(byway::events::Change::read(&mut r)).unwrap();
        let mut e = [byway::events::Event::default(); 2];
        assert_eq!(q.wait(&mut e, Some(peer::LONG)).unwrap(), 1);
        assert_eq!(e[0].data, 14);
        assert_eq!(r.buffered().fill_buf().unwrap(), b"six, and more");
        r.buffered().consume(4);
        assert_eq!(q.wait(&mut e, Some(peer::LONG)).unwrap(), 1);
        assert_eq!(e[0].data, 10);
        // Who gets the descriptor would miss them.
        let e = r.into_fd().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidInput);
        assert!(e.to_string().contains("9 bytes"), "{e}");
    }
}

/// Lines that come now and then, so that the reader often sleeps, taken in every way.
#[test]
fn no_line_is_lost_whoever_reads_it() {
    const N: usize = 3000;
    for fifo in [false, true] {
        let (mut r, mut w) = match fifo {
            false => byway::pipe().unwrap(),
            true => {
                let f = byway::Fifo::new(&format!("ahead-{}", std::process::id())).unwrap();
                let ends = (f.try_reader().unwrap(), f.try_writer().unwrap());
                f.remove().unwrap();
                ends
            }
        };
        let t = thread::spawn(move || {
            for k in 0..N {
                writeln!(w, "line {k}").unwrap();
                if k % 10 == 0 {
                    thread::sleep(Duration::from_micros(200));
                }
            }
        });
        for k in 0..N {
            let mut line = Vec::new();
            let mut one = [0];
            while line.last() != Some(&b'\n') {
                match (k % 4, line.len()) {
                    (0 | 1, _) => _ = r.buffered().read_until(b'\n', &mut line).unwrap(),
                    (2, n) if n < 3 => {
                        assert_eq!(r.read(&mut one).unwrap(), 1);
                        line.push(one[0]);
                    }
                    (2, _) => _ = r.buffered().read_until(b'\n', &mut line).unwrap(),
                    _ => {
                        assert_eq!(r.read_timeout(&mut one, peer::LONG).unwrap(), 1);
                        line.push(one[0]);
                    }
                }
            }
            assert_eq!(String::from_utf8(line).unwrap(), format!("line {k}\n"));
        }
        t.join().unwrap();
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 0);
    }
}
