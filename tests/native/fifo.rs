//! FIFOs by name.
use crate::peer::{self, LONG, read_all, write_all};
use byway::{Fifo, Reader};
use std::io::{Error, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
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
    peer::close(r);
    assert!(peer::ended(c));
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

/// The opens for reading that wait: the kernel's own first, then the one with a time limit.
const OPENS: [fn(&Fifo) -> std::io::Result<Reader>; 2] =
    [|f| f.reader(), |f| f.reader_timeout(LONG)];

#[test]
fn a_writer_that_says_nothing_has_come() {
    for (k, open) in OPENS.iter().enumerate() {
        let f = Named::new(&format!("silent-{k}"));
        for late in [0, 30] {
            let (opened, is_open) = mpsc::channel();
            let g = f.0.clone();
            let t = thread::spawn(move || {
                thread::sleep(Duration::from_millis(late));
                let mut w = g.writer().unwrap();
                // Says nothing before the other side is open too.
                is_open.recv_timeout(LONG + LONG).unwrap();
                w.write_all(b"now").unwrap();
            });
            let mut r = open(&f.0).unwrap();
            opened.send(()).unwrap();
            let mut got = Vec::new();
            r.read_to_end(&mut got).unwrap();
            assert_eq!(got, b"now");
            t.join().unwrap();
        }
    }
}

#[test]
fn a_writer_that_came_and_left_has_come() {
    for (k, open) in OPENS.iter().enumerate() {
        let f = Named::new(&format!("fleeting-{k}"));
        for round in 0..60usize {
            let g = f.0.clone();
            // Nothing; what fits the kernel's pipe; what does not, and is in the ring.
            let bytes = vec![round as u8; [0, 5, 50_000][round % 3]];
            let sent = bytes.clone();
            let t = thread::spawn(move || {
                thread::sleep(Duration::from_micros(round as u64 * 101));
                g.writer().unwrap().write_all(&sent).unwrap();
            });
            let mut r = open(&f.0).unwrap();
            // All of it, and then the end of it: nobody else writes.
            let mut got = Vec::new();
            r.read_to_end(&mut got).unwrap();
            assert_eq!(got.len(), bytes.len(), "open {k}, round {round}");
            assert_eq!(got, bytes);
            t.join().unwrap();
        }
    }
}

#[test]
fn a_timed_reader_is_there_while_it_waits_and_gone_then() {
    // By itself: a child that another test forks has the descriptors until it executes.
    peer::apart("timed");
}
pub fn timed() {
    let f = Named::new("timed");
    let e = f.0.reader_timeout(Duration::from_millis(20)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    assert!(e.to_string().contains("for writing"), "{e}");
    let e = f.0.try_writer().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    // Somebody writes already: no time is needed.
    let first = f.0.try_reader().unwrap();
    let e = f.0.reader_timeout(Duration::ZERO).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    let mut w = f.0.try_writer().unwrap();
    let mut r = f.0.reader_timeout(Duration::ZERO).unwrap();
    assert!(r.is_carried());
    // Its descriptor can be shared with programs that know nothing of the library.
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(r.as_raw_fd(), libc::F_GETFL) };
    assert_eq!(flags & libc::O_NONBLOCK, 0);
    let e = r.try_read(&mut [0; 9]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    drop(first);
    w.write_all(&[3; 9]).unwrap();
    assert_eq!(r.read(&mut [0; 99]).unwrap(), 9);
    drop((r, w));
    // While it waits it is a reader: the writer's own wait is over.
    let g = f.0.clone();
    let t = thread::spawn(move || g.reader_timeout(LONG).map(|_| ()));
    let w = f.0.writer().unwrap();
    t.join().unwrap().unwrap();
    drop(w);
    // What a writer that has gone left to another reader counts as his coming: the one difference from an open that waits.
    let first = f.0.try_reader().unwrap();
    f.0.try_writer().unwrap().write_all(&[4; 9]).unwrap();
    let mut r = f.0.reader_timeout(Duration::ZERO).unwrap();
    assert_eq!(r.read(&mut [0; 99]).unwrap(), 9);
    drop((first, r));
    // A signal handler ends each open that waits, as the kernel's own.
    let opens: [fn(&Fifo) -> Option<Error>; 4] = [
        |f| f.writer().err(),
        |f| f.writer_timeout(LONG).err(),
        |f| f.reader().err(),
        |f| f.reader_timeout(LONG).err(),
    ];
    for open in opens {
        let e = beside_signals(|| open(&f.0)).expect("nobody is there");
        assert_eq!(e.kind(), ErrorKind::Interrupted);
    }
}

/// What `call` says, in whose thread a handler that does nothing runs again and again.
fn beside_signals<T>(call: impl FnOnce() -> T) -> T {
    extern "C" fn nothing(_: i32) {}
    let done = AtomicBool::new(false);
    // SAFETY: a handler that does nothing, without SA_RESTART; this thread is there as long as the scope.
    let me = unsafe {
        let mut a: libc::sigaction = std::mem::zeroed();
        a.sa_sigaction = nothing as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &a, std::ptr::null_mut()), 0);
        libc::pthread_self()
    };
    thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Relaxed) {
                thread::sleep(Duration::from_millis(1));
                // SAFETY: as above.
                unsafe { libc::pthread_kill(me, libc::SIGUSR1) };
            }
        });
        let said = call();
        done.store(true, Relaxed);
        said
    })
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
