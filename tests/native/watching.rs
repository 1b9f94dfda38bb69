//! An event queue at work: among threads, other queues and forked children, and streams that are read by what it tells.
use crate::ends::{In, each};
use crate::events::{next, now};
use crate::peer::byte;
use byway::events::{Change, Event, Filter, Flags, Queue};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn shows(fd: i32) -> bool {
    let mut p = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    unsafe { libc::poll(&mut p, 1, 0) == 1 }
}

/// The queue's own descriptor tells of what only shared memory knows.
#[test]
fn queues_nest() {
    each(|mut r, mut w| {
        let (inner, outer) = (Queue::new().unwrap(), Queue::new().unwrap());
        inner.apply(r.change()).unwrap();
        outer.apply(Change::read(inner.as_fd()).udata(1)).unwrap();
        assert_eq!(now(&inner), None);
        assert_eq!(now(&outer), None);
        w.write(10).unwrap();
        assert_eq!(next(&outer).udata, 1);
        assert_eq!(now(&inner).map(|e| e.data), Some(10));
        // Not all of it is read: it waits still.
        assert_eq!(r.read(4), Some(4));
        assert!(now(&outer).is_some() && shows(inner.as_raw_fd()));
        assert_eq!(now(&inner).map(|e| e.data), Some(6));
        assert_eq!(r.read(100), Some(6));
        assert_eq!(r.read(100), None);
        while now(&outer).is_some() {
            assert_eq!(now(&inner), None);
        }
        // Read without the queue, and in part: the rest waits.
        w.write(9).unwrap();
        assert_eq!(r.read(1), Some(1));
        assert!(now(&outer).is_some());
        inner.apply(Change::user(3)).unwrap();
        inner.trigger(3, 0).unwrap();
        assert!(shows(inner.as_raw_fd()));
    });
}

#[test]
fn two_filters_of_one_descriptor_have_modes_of_their_own() {
    let (a, mut b) = UnixStream::pair().unwrap();
    let q = Queue::new().unwrap();
    q.apply(Change::write(a.as_fd()).flags(Flags::CLEAR).udata(1))
        .unwrap();
    q.apply(Change::read(a.as_fd()).udata(2)).unwrap();
    let first = now(&q).unwrap();
    assert_eq!((first.filter, first.udata), (Filter::Write, 1));
    assert!(first.data > 0);
    assert_eq!(now(&q), None);
    b.write_all(b"abc").unwrap();
    let mut all = [Event::default(); 4];
    for _ in 0..2 {
        let n = q.wait(&mut all, Some(Duration::ZERO)).unwrap();
        let reads: Vec<_> = all[..n]
            .iter()
            .filter(|e| e.filter == Filter::Read)
            .collect();
        assert_eq!(reads.len(), 1);
        assert_eq!((reads[0].data, reads[0].udata), (3, 2));
    }
    b.shutdown(std::net::Shutdown::Write).unwrap();
    let n = q.wait(&mut all, None).unwrap();
    assert!(
        all[..n]
            .iter()
            .any(|e| e.filter == Filter::Read && e.flags.has(Flags::EOF) && e.data == 3)
    );
    q.apply(Change::entry(
        a.as_raw_fd() as u64,
        Filter::Read,
        Flags::DELETE,
    ))
    .unwrap();
    drop(b);
    assert!(next(&q).flags.has(Flags::EOF));
}

#[test]
fn connections_are_counted() {
    let l = TcpListener::bind("127.0.0.1:0").unwrap();
    let q = Queue::new().unwrap();
    q.apply(Change::read(l.as_fd())).unwrap();
    assert_eq!(now(&q), None);
    let at = l.local_addr().unwrap();
    let _three: Vec<_> = (0..3).map(|_| TcpStream::connect(at).unwrap()).collect();
    // The third handshake is over when its connect is.
    while next(&q).data < 3 {}
    for left in [2, 1] {
        l.accept().unwrap();
        assert_eq!(next(&q).data, left);
    }
}

/// A descriptor of which nobody told the queue that it was closed, and its number, given anew.
#[test]
fn numbers_that_come_again() {
    let q = Queue::new().unwrap();
    let (mut r, w) = byway::pipe().unwrap();
    let number = r.as_raw_fd();
    q.apply(Change::read(&mut r)).unwrap();
    drop((r, w));
    assert_eq!(now(&q), None);
    let entry = Change::entry(number as u64, Filter::Read, Flags::ENABLE);
    assert_eq!(q.apply(entry).unwrap_err().kind(), ErrorKind::NotFound);
    for _ in 0..3 {
        let (a, mut b) = UnixStream::pair().unwrap();
        q.apply(Change::read(a.as_fd()).udata(b.as_raw_fd() as u64))
            .unwrap();
        b.write_all(b"x").unwrap();
        assert_eq!(now(&q).map(|e| e.udata), Some(b.as_raw_fd() as u64));
    }
    let mut all: Vec<_> = (0..4).map(|_| byway::pipe().unwrap()).collect();
    for (r, w) in &mut all {
        q.apply(Change::read(&mut *r)).unwrap();
        w.write_all(b"xy").unwrap();
        assert_eq!(now(&q).map(|e| e.data), Some(2));
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 2);
    }
}

/// One thread waits, another one reads, and not all that is there.
#[test]
fn what_another_thread_leaves_is_told() {
    each(|mut r, mut w| {
        let q = Queue::new().unwrap();
        q.apply(r.change().flags(Flags::DISPATCH)).unwrap();
        let ident = r.ident();
        std::thread::scope(|s| {
            let (tell, told) = std::sync::mpsc::channel();
            let q = &q;
            s.spawn(move || {
                for _ in 0..3 {
                    tell.send(next(q).data).unwrap();
                }
            });
            w.write(10).unwrap();
            assert_eq!(told.recv().unwrap(), 10);
            // It waits again by now, or soon; whatever it finds is what is left.
            assert_eq!(r.read(3), Some(3));
            q.apply(Change::entry(ident, Filter::Read, Flags::ENABLE))
                .unwrap();
            assert_eq!(told.recv().unwrap(), 7);
            assert_eq!(r.read(7), Some(7));
            q.apply(Change::entry(ident, Filter::Read, Flags::ENABLE))
                .unwrap();
            std::thread::sleep(Duration::from_millis(30));
            w.write(1).unwrap();
            assert_eq!(told.recv().unwrap(), 1);
        });
    });
}

/// Many threads wait for many pipes, one event for one thread at a time.
#[test]
fn threads_share_a_queue() {
    const PIPES: usize = 8;
    const EACH: usize = 4_000;
    let q = Queue::new().unwrap();
    let (mut ends, mut writers) = (Vec::new(), Vec::new());
    for k in 0..PIPES {
        let (mut r, w) = byway::pipe().unwrap();
        q.apply(Change::read(&mut r).flags(Flags::DISPATCH).udata(k as u64))
            .unwrap();
        ends.push(std::sync::Mutex::new((r, 0)));
        writers.push(w);
    }
    q.apply(Change::user(0)).unwrap();
    let (ended, wrong) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                loop {
                    let e = next(&q);
                    if e.filter == Filter::User {
                        return;
                    }
                    // Nobody else has it: it is disabled.
                    let Ok(mut end) = ends[e.udata as usize].try_lock() else {
                        wrong.fetch_add(1, Relaxed);
                        continue;
                    };
                    let (r, at) = &mut *end;
                    let mut b = [0; 100];
                    let n = match r.try_read(&mut b) {
                        Err(e) if e.kind() == ErrorKind::WouldBlock => {
                            wrong.fetch_add(1, Relaxed);
                            continue;
                        }
                        n => n.unwrap(),
                    };
                    let right = b[..n].iter().enumerate().all(|(i, &x)| x == byte(*at + i));
                    wrong.fetch_add(usize::from(!right), Relaxed);
                    *at += n;
                    let ident = r.as_raw_fd() as u64;
                    drop(end);
                    if n > 0 {
                        q.apply(Change::entry(ident, Filter::Read, Flags::ENABLE))
                            .unwrap();
                    } else if ended.fetch_add(1, Relaxed) + 1 == PIPES {
                        q.trigger(0, 0).unwrap();
                    }
                }
            });
        }
        for mut w in writers {
            s.spawn(move || {
                let all: Vec<u8> = (0..EACH).map(byte).collect();
                for part in all.chunks(37) {
                    w.write_all(part).unwrap();
                }
            });
        }
    });
    assert_eq!(wrong.load(Relaxed), 0);
    assert!(ends.iter().all(|e| e.lock().unwrap().1 == EACH));
}

/// Streams whose both ends do nothing but what a queue tells them to.
#[test]
fn a_stream_by_events() {
    const N: usize = 3_000_000;
    let until_refused = |r: &mut In, b: usize| {
        let mut all = 0;
        while let Some(n) = r.read(b) {
            if n == 0 {
                break;
            }
            all += n;
        }
        all
    };
    // How the reader is told, and how much it reads then.
    type Way<'a> = (Flags, &'a dyn Fn(&mut In) -> usize);
    let ways: [Way; 4] = [
        (Flags::default(), &|r| r.read(5000).unwrap_or(0)),
        (Flags::default(), &|r| until_refused(r, 70_000)),
        (Flags::CLEAR, &|r| until_refused(r, 3000)),
        (Flags::CLEAR | Flags::DISPATCH, &|r| {
            until_refused(r, 300_000)
        }),
    ];
    for (flags, read) in ways {
        each(|mut r, mut w| {
            let (all, own) = (Queue::new().unwrap(), Queue::new().unwrap());
            all.apply(r.change().flags(flags)).unwrap();
            std::thread::scope(|s| {
                s.spawn(move || {
                    own.apply(w.change()).unwrap();
                    let mut left = N;
                    while left > 0 {
                        let e = next(&own);
                        assert!(!e.flags.has(Flags::EOF) && e.data > 0, "{e:?}");
                        left -= w.write(left.min(50_000)).unwrap_or(0);
                    }
                });
                let mut got = 0;
                loop {
                    let e = next(&all);
                    got += read(&mut r);
                    if e.flags.has(Flags::EOF) && got == N {
                        break;
                    }
                    if flags.has(Flags::DISPATCH) {
                        all.apply(Change::entry(r.ident(), Filter::Read, Flags::ENABLE))
                            .unwrap();
                    }
                }
            });
        });
    }
}

#[test]
fn records_are_counted_in_bytes() {
    let (mut receiver, mut sender) = byway::records().unwrap();
    let q = Queue::new().unwrap();
    q.apply(Change::read(&mut receiver)).unwrap();
    q.apply(Change::write(&mut sender)).unwrap();
    let reads = |q: &Queue| {
        let mut all = [Event::default(); 4];
        let n = q.wait(&mut all, Some(Duration::ZERO)).unwrap();
        all[..n]
            .iter()
            .find(|e| e.filter == Filter::Read)
            .map(|e| e.data)
    };
    assert_eq!(reads(&q), None);
    sender.send(b"one").unwrap();
    sender.send(b"three").unwrap();
    assert_eq!(reads(&q), Some(8 + 3 + 8 + 5));
    let mut b = [0; 9];
    assert_eq!(receiver.receive(&mut b).unwrap(), Some(3));
    assert_eq!(reads(&q), Some(8 + 5));
    assert_eq!(receiver.receive(&mut b).unwrap(), Some(5));
    sender
        .send_grant(byway::reserve(100_000).unwrap().share().unwrap())
        .unwrap();
    assert_eq!(reads(&q), Some(24));
    // Taken out of the stream, and kept because the buffer is too small: it can still be received.
    assert!(receiver.try_receive(&mut b).is_err());
    assert!(reads(&q).is_some());
    assert_eq!(receiver.message().unwrap().unwrap().len(), 100_000);
    assert_eq!(reads(&q), None);
    // As many grants as may fly: the sender is told when one has landed, and not before.
    let mut sent = 0;
    while let Ok(()) = sender.try_send_grant(byway::reserve(10).unwrap().share().unwrap()) {
        sent += 1;
    }
    let mut all = [Event::default(); 4];
    let n = q.wait(&mut all, Some(Duration::ZERO)).unwrap();
    assert!(all[..n].iter().all(|e| e.filter == Filter::Read), "{all:?}");
    for _ in 0..sent {
        assert_eq!(receiver.message().unwrap().unwrap().len(), 10);
    }
    let e = next(&q);
    assert_eq!(e.filter, Filter::Write);
}

/// A child that is forked has the ends, and not the queue.
#[test]
fn a_forked_child_makes_its_own() {
    // By itself: the child has every descriptor of the process until it ends.
    crate::peer::apart("forked-watching");
}
pub fn forked() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let q = Queue::new().unwrap();
    q.apply(Change::read(&mut r)).unwrap();
    assert_eq!(now(&q), None);
    // SAFETY: the child touches what it has, and ends without running the harness.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let refused = q.trigger(1, 0).is_err() && q.wait(&mut [Event::default()], None).is_err();
        let wrote = w.write_all(b"child").is_ok();
        drop((r, q));
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(if refused && wrote { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: our own child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    assert_eq!(status, 0);
    assert_eq!(next(&q).data, 5);
    let mut b = [0; 9];
    assert_eq!(r.read(&mut b).unwrap(), 5);
    assert_eq!(now(&q), None);
    w.write_all(b"parent").unwrap();
    assert_eq!(next(&q).data, 6);
}

/// Rings that nobody uses any more take no memory, also where the wait is the queue's.
#[test]
fn pipes_that_are_watched_rest() {
    crate::peer::apart("watched");
}
pub fn watched() {
    const N: u64 = 200;
    let q = Queue::new().unwrap();
    let mut all: Vec<_> = (0..N).map(|_| byway::pipe().unwrap()).collect();
    for (k, (r, w)) in all.iter_mut().enumerate() {
        // Half of them are told by the queue that nothing is there, half by an attempt.
        q.apply(Change::read(&mut *r)).unwrap();
        w.write_all(&[1; 100_000]).unwrap();
        let mut left = 100_000;
        while left > 0 {
            assert_eq!(next(&q).ident, r.as_raw_fd() as u64);
            left -= r.try_read(&mut vec![0; left]).unwrap();
        }
        if k % 2 == 0 {
            assert!(r.try_read(&mut [0]).is_err());
        }
    }
    let used = crate::rest::resident();
    assert!(used > N << 16, "{used} bytes for {N} rings");
    // What stays is what the allocator keeps at hand, for all of them; the rest goes in steps.
    let until = Instant::now() + crate::peer::LONG;
    while crate::rest::resident() > 10 << 20 {
        assert!(Instant::now() < until, "{} bytes", crate::rest::resident());
        let wait = Some(Duration::from_millis(30));
        assert_eq!(q.wait(&mut [Event::default()], wait).unwrap(), 0);
    }
    // And all of them are there still.
    for (r, w) in &mut all {
        w.write_all(b"again").unwrap();
        assert_eq!(next(&q).ident, r.as_raw_fd() as u64);
        assert_eq!(r.try_read(&mut [0; 9]).unwrap(), 5);
    }
}

/// Given to the kernel, the descriptor is as any other.
#[test]
fn an_end_that_is_given_away() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let q = Queue::new().unwrap();
    q.apply(Change::read(&mut r)).unwrap();
    w.write_all(b"abc").unwrap();
    assert_eq!(now(&q).map(|e| e.data), Some(3));
    let fd = r.into_fd().unwrap();
    assert_eq!(now(&q), None);
    q.apply(Change::read(fd.as_fd())).unwrap();
    assert_eq!(now(&q).map(|e| e.data), Some(3));
    w.write_all(b"d").unwrap();
    assert_eq!(now(&q).map(|e| e.data), Some(4));
}
