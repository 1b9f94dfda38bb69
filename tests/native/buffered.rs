//! Bytes that are looked at in the ring: no copy, nothing lost or seen twice, and nobody moves them meanwhile.
use crate::peer::{self, byte, write_all};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::sync::mpsc;
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
fn nothing_is_copied_and_what_is_left_stays() {
    let (mut r, w) = with(b"hello");
    let mut b = r.buffered();
    let first = b.fill_buf().unwrap().as_ptr();
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    b.consume(2);
    let seen = b.fill_buf().unwrap();
    assert_eq!(seen, b"llo");
    assert_eq!(seen.as_ptr() as usize, first as usize + 2);
    drop(b);
    let mut rest = [0; 9];
    assert_eq!(r.read(&mut rest).unwrap(), 3);
    drop(w);
    assert_eq!(r.buffered().fill_buf().unwrap(), b"");
}

/// The writer gives the pipe to the kernel while bytes of it are looked at: they stay until they are taken, and then so
/// it is.
#[test]
fn a_hand_back_waits() {
    let (mut r, w) = with(&(0..50_000).map(byte).collect::<Vec<_>>());
    let mut b = r.buffered();
    let n = b.fill_buf().unwrap().len();
    assert!(n > 0);
    let t = thread::spawn(move || w.into_fd().unwrap());
    thread::sleep(Duration::from_millis(30));
    assert!(!t.is_finished());
    let seen = b.fill_buf().unwrap();
    assert!(seen.iter().enumerate().all(|(i, &x)| x == byte(i)));
    b.consume(1000);
    drop(b);
    drop(t.join().unwrap());
    let mut rest = Vec::new();
    r.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len(), 49_000);
    assert!(rest.iter().enumerate().all(|(i, &x)| x == byte(1000 + i)));
}

/// What would wait for this thread itself says so.
#[test]
fn calls_of_the_same_thread_fail() {
    let (mut r, mut w) = with(b"hello");
    let mut other = r.try_clone().unwrap();
    let mut b = r.buffered();
    assert_eq!(b.fill_buf().unwrap(), b"hello");
    let busy = Some(libc::EBUSY);
    assert_eq!(other.read(&mut [0; 9]).unwrap_err().raw_os_error(), busy);
    assert_eq!(w.write(b"x").unwrap_err().raw_os_error(), busy);
    assert_eq!(
        w.try_clone().unwrap().into_fd().unwrap_err().raw_os_error(),
        busy
    );
    let q = byway::events::Queue::new().unwrap();
    q.apply(byway::events::Change::write(&mut w)).unwrap();
    let mut events = [Default::default(); 2];
    assert_eq!(q.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    // Another pipe is another matter.
    let (mut r2, _w2) = with(b"other");
    assert_eq!(r2.read(&mut [0; 9]).unwrap(), 5);
    b.consume(5);
    assert_eq!(w.write(b"x").unwrap(), 1);
    assert_eq!(q.wait(&mut events, None).unwrap(), 1);
    assert_eq!(b.fill_buf().unwrap(), b"x");
    drop(b);
    assert_eq!(other.read(&mut [0; 9]).unwrap(), 1);
    assert_eq!(
        other.try_read(&mut [0; 9]).unwrap_err().kind(),
        ErrorKind::WouldBlock
    );
}

/// Who is killed while he looks has taken nothing.
#[test]
fn a_killed_reader_has_taken_nothing() {
    let (mut r, mut w) = with(&(0..50_000).map(byte).collect::<Vec<_>>());
    let mark = std::env::temp_dir().join(format!("byway-look-{}", std::process::id()));
    let arg = format!("{} {}", peer::number(&r), mark.display());
    let mut c = peer::start("look-forever", &arg, Some(peer::number(&r)));
    let until = Instant::now() + peer::LONG;
    while !mark.exists() {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(1));
    }
    std::fs::remove_file(&mark).unwrap();
    c.kill().unwrap();
    c.wait().unwrap();
    w.write_all(&(50_000..60_000).map(byte).collect::<Vec<_>>())
        .unwrap();
    drop(w);
    let mut all = Vec::new();
    r.read_to_end(&mut all).unwrap();
    assert_eq!(all.len(), 60_000);
    assert!(all.iter().enumerate().all(|(i, &x)| x == byte(i)));
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
        // Only what came that way had to be read.
        assert_eq!(r.ahead().is_empty(), !asleep);
        assert_eq!(line(&mut r), "two\n");
        let mut b = [0; 6];
        assert_eq!((r.read(&mut b).unwrap(), &b[..]), (6, &b"three\n"[..]));
        // A clone has what is left in the pipe, and no more.
        let ahead = r.ahead().len();
        assert_eq!(ahead, if asleep { 23 } else { 0 });
        let mut other = r.try_clone().unwrap();
        assert_eq!(other.try_read(&mut b).is_err(), asleep);
        if !asleep {
            assert_eq!(&b, b"four\nf");
            continue;
        }
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

/// A reader of another thread that looks at `bytes` until the second end of the pair is dropped, and then takes some.
fn looker(mut r: byway::Reader, takes: usize) -> (mpsc::Sender<()>, thread::JoinHandle<()>) {
    let (looks, is_looking) = mpsc::channel();
    let (stop, stopped) = mpsc::channel::<()>();
    let t = thread::spawn(move || {
        let mut b = r.buffered();
        assert!(!b.fill_buf().unwrap().is_empty());
        looks.send(()).unwrap();
        let _ = stopped.recv();
        b.consume(takes);
    });
    is_looking.recv_timeout(peer::LONG).unwrap();
    (stop, t)
}

fn poll(r: &byway::Reader, most: Duration) -> bool {
    let mut p = libc::pollfd {
        fd: peer::number(r),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    unsafe { libc::poll(&mut p, 1, most.as_millis() as i32) == 1 }
}

/// Who may not wait for one that looks on and on is told so, and its descriptor tells when that has done; and what
/// comes after that.
#[test]
fn nobody_waits_without_end_for_one_who_looks() {
    for takes in [0, 2, 5] {
        let (mut r, mut w) = with(b"hello");
        let (stop, t) = looker(r.try_clone().unwrap(), takes);
        let kind = |e: std::io::Result<usize>| e.unwrap_err().kind();
        let began = Instant::now();
        let soon = Duration::from_millis(5);
        assert_eq!(kind(r.read_timeout(&mut [0; 9], soon)), ErrorKind::TimedOut);
        assert!(began.elapsed() >= soon);
        assert_eq!(kind(r.try_read(&mut [0; 9])), ErrorKind::WouldBlock);
        assert!(!poll(&r, Duration::ZERO));
        // A queue waits as long as it is to.
        let q = byway::events::Queue::new().unwrap();
        q.apply(byway::events::Change::read(&mut r)).unwrap();
        let mut events = [Default::default(); 2];
        assert_eq!(q.wait(&mut events, Some(soon)).unwrap(), 0);
        drop(stop);
        t.join().unwrap();
        if takes == 5 {
            assert!(!poll(&r, Duration::ZERO));
            w.write_all(b"there").unwrap();
        }
        assert!(poll(&r, peer::LONG), "{takes}");
        assert_eq!(q.wait(&mut events, Some(peer::LONG)).unwrap(), 1);
        let mut b = [0; 9];
        let n = r.try_read(&mut b).unwrap();
        assert_eq!(&b[..n], &[&b"hello"[takes..], &b"there"[..]].concat()[..n]);
        // The ring comes back.
        write_all(&mut w, 20_000).unwrap();
        drop(w);
        let mut rest = Vec::new();
        r.read_to_end(&mut rest).unwrap();
        let left = if takes == 5 { 5 } else { 5 - takes };
        assert_eq!(n + rest.len(), left + 20_000);
    }
}

/// Who may wait does, and a signal handler ends it.
#[test]
fn who_waits_for_one_who_looks_is_interrupted() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing, without SA_RESTART.
    unsafe {
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR2, &a, std::ptr::null_mut()), 0);
    }
    let (mut r, _w) = with(b"hello");
    let (stop, t) = looker(r.try_clone().unwrap(), 2);
    let (started, has_started) = mpsc::channel();
    let (said, is_over) = mpsc::channel();
    let waits = thread::spawn(move || {
        // SAFETY: this thread's own name.
        started.send(unsafe { libc::pthread_self() }).unwrap();
        said.send(r.read(&mut [0; 9]).map_err(|e| e.kind()))
            .unwrap();
        // What is left comes when the other has done.
        (r.read(&mut [0; 9]).unwrap(), r)
    });
    let who = has_started.recv().unwrap();
    let until = Instant::now() + peer::LONG;
    let first = loop {
        // SAFETY: the thread has not been joined.
        unsafe { libc::pthread_kill(who, libc::SIGUSR2) };
        match is_over.recv_timeout(Duration::from_millis(2)) {
            Ok(said) => break said,
            Err(_) => assert!(Instant::now() < until, "it waits for ever"),
        }
    };
    assert_eq!(first, Err(ErrorKind::Interrupted));
    drop(stop);
    t.join().unwrap();
    assert_eq!(waits.join().unwrap().0, 3);
}
