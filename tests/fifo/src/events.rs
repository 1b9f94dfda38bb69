//! Fear: a wait that is not ended, or ended by nothing: poll and epoll in every mode, from threads, and what hang-up does to them.
use crate::check::{Heat, cases};
use crate::kernel::{Epoll, nonblocking, poll};
use crate::roles;
use crate::stream::{
    MIB, asleep, at_eof, fifo, fill, flood, get, hot, put, reader_now, same, sleeper, warm, writer,
};
use libc::{
    EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP, EPOLLIN, EPOLLONESHOT, EPOLLOUT, POLLERR, POLLHUP,
    POLLIN, POLLOUT,
};
use std::io::{ErrorKind, Read, Write};
use std::thread;

cases! {
    each: poll_bits poll_for_nothing_but_hang_up woken_in_poll pr76144_a_close_wakes_a_poll pr116770_no_writer_ever
        hang_up_and_back epoll_level epoll_edge epoll_edge_of_the_writer epoll_oneshot epoll_exclusive
        epoll_of_a_clone;
    once: edges_drive_a_stream levels_drive_a_stream;
}

const SOON: i32 = 15_000;

fn poll_bits(heat: Heat) {
    let (path, r, w) = hot(heat);
    assert_eq!(poll(&r, POLLIN, 0), 0);
    assert_eq!(poll(&w, POLLOUT, 0), POLLOUT);
    let n = fill(&w, 0);
    assert_eq!(poll(&w, POLLOUT, 0), 0);
    assert_eq!(poll(&r, POLLIN, 0), POLLIN);
    get(&r, n, 0, 8192);
    assert_eq!(poll(&r, POLLIN, 0), 0);
    flood(&path, &r, &w, 300_000, 0, heat);
    put(&w, 5, 0, 5);
    drop(w);
    assert_eq!(poll(&r, POLLIN, 0), POLLIN | POLLHUP);
    get(&r, 5, 0, 5);
    assert_eq!(poll(&r, POLLIN, 0), POLLHUP);
}

/// std asks so for its standard descriptors at every start. It tells nothing of bytes.
fn poll_for_nothing_but_hang_up(heat: Heat) {
    let (path, r, w) = hot(heat);
    for round in 0..4 {
        put(&w, 10_000, round, 1000);
        assert_eq!((poll(&r, 0, 0), poll(&w, 0, 0)), (0, 0));
        get(&r, 4000, round, 1000);
        assert_eq!((poll(&r, 0, 0), poll(&w, 0, 0)), (0, 0));
        get(&r, 6000, 4000 + round, 1000);
        flood(&path, &r, &w, 300_000, round, heat);
    }
    // A sleeper is woken by the hang-up, and by that alone.
    let r2 = r.try_clone().expect("dup");
    let (waits, task) = sleeper(move || poll(&r2, 0, SOON));
    asleep(task);
    put(&w, 500, 0, 500);
    get(&r, 300, 0, 300);
    asleep(task);
    assert!(!waits.is_finished(), "bytes do not end it");
    drop(w);
    assert_eq!(waits.join().expect("poll"), POLLHUP);
    get(&r, 200, 300, 200);
    at_eof(&r);
    let w = writer(&path);
    assert_eq!(poll(&r, 0, 0), 0);
    drop(r);
    assert_eq!(poll(&w, 0, 0), POLLERR);
}

fn woken_in_poll(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (r2, w2) = (r.try_clone().expect("dup"), w.try_clone().expect("dup"));
    let (waits, task) = sleeper(move || poll(&r2, POLLIN, SOON));
    asleep(task);
    put(&w, 3, 0, 3);
    assert_eq!(waits.join().expect("poll"), POLLIN);
    get(&r, 3, 0, 3);
    let n = fill(&w, 0);
    let (waits, task) = sleeper(move || poll(&w2, POLLOUT, SOON));
    asleep(task);
    get(&r, n, 0, 8192);
    assert_eq!(waits.join().expect("poll"), POLLOUT);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// FREEBSD PR kern/76144 (with 76525 and 94772): a drop in one thread ends the poll of another.
fn pr76144_a_close_wakes_a_poll(heat: Heat) {
    let (path, r, w) = hot(heat);
    for _ in 0..4 {
        let r2 = r.try_clone().expect("dup");
        let (waits, task) = sleeper(move || poll(&r2, POLLIN, SOON));
        let w2 = writer(&path);
        asleep(task);
        assert!(!waits.is_finished());
        drop(w2);
        put(&w, 1, 0, 1);
        assert_eq!(waits.join().expect("poll"), POLLIN);
        get(&r, 1, 0, 1);
    }
    let r2 = r.try_clone().expect("dup");
    let (waits, task) = sleeper(move || poll(&r2, POLLIN, SOON));
    asleep(task);
    drop(w);
    assert_eq!(waits.join().expect("poll"), POLLHUP);
    let w = writer(&path);
    warm(&path, &r, &w, heat);
    fill(&w, 0);
    let (waits, task) = sleeper(move || poll(&w, POLLOUT, SOON));
    asleep(task);
    drop(r);
    let woken = waits.join().expect("poll");
    assert_eq!(woken & POLLERR, POLLERR);
}

/// FREEBSD PR kern/116770: a reader that no writer ever joined is told of no EOF, though its read returns 0.
fn pr116770_no_writer_ever(heat: Heat) {
    let (path, r, w) = hot(heat);
    drop((r, w));
    for round in 0..3 {
        let r = reader_now(&path);
        nonblocking(&r, true);
        let e = Epoll::of(&r, EPOLLIN);
        let t = Epoll::of(&r, EPOLLIN | EPOLLET);
        for _ in 0..2 {
            assert_eq!((poll(&r, POLLIN, 0), e.wait(0), t.wait(0)), (0, 0, 0));
            assert_eq!((&r).read(&mut [0]).expect("no writer"), 0);
        }
        nonblocking(&r, false);
        let w = writer(&path);
        assert_eq!((poll(&r, POLLIN, 0), e.wait(0)), (0, 0));
        warm(&path, &r, &w, heat);
        put(&w, 9, round, 9);
        get(&r, 9, round, 9);
        t.wait(0);
        drop(w);
        assert_eq!(poll(&r, POLLIN, 0), POLLHUP);
        assert_eq!((e.wait(SOON), t.wait(SOON)), (EPOLLHUP, EPOLLHUP));
        // Who comes later has not met that writer.
        assert_eq!(poll(&reader_now(&path), POLLIN, 0), 0);
    }
}

/// The status change that the seed's author left open: hang-up goes when a writer comes, and comes again.
fn hang_up_and_back(heat: Heat) {
    let (path, r, mut w) = hot(heat);
    let e = Epoll::of(&r, EPOLLIN);
    let t = Epoll::of(&r, EPOLLIN | EPOLLET);
    for _ in 0..4 {
        t.wait(0);
        assert_eq!((poll(&r, POLLIN, 0), e.wait(0)), (0, 0));
        put(&w, 7, 0, 7);
        drop(w);
        assert_eq!(poll(&r, POLLIN, 0), POLLIN | POLLHUP);
        assert_eq!(e.wait(SOON), EPOLLIN | EPOLLHUP);
        assert_eq!(t.wait(SOON), EPOLLIN | EPOLLHUP);
        w = writer(&path);
        assert_eq!((poll(&r, POLLIN, 0), e.wait(SOON)), (POLLIN, EPOLLIN));
        get(&r, 7, 0, 7);
        drop(w);
        assert_eq!((poll(&r, POLLIN, 0), e.wait(SOON)), (POLLHUP, EPOLLHUP));
        assert_eq!((t.wait(SOON), t.wait(0)), (EPOLLHUP, 0));
        w = writer(&path);
        warm(&path, &r, &w, heat);
    }
}

fn epoll_level(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (e, o) = (Epoll::of(&r, EPOLLIN), Epoll::of(&w, EPOLLOUT));
    assert_eq!((e.wait(0), o.wait(0)), (0, EPOLLOUT));
    put(&w, 2, 0, 2);
    assert_eq!((e.wait(-1), e.wait(-1)), (EPOLLIN, EPOLLIN));
    get(&r, 1, 0, 1);
    assert_eq!(e.wait(0), EPOLLIN);
    get(&r, 1, 1, 1);
    assert_eq!(e.wait(0), 0);
    let n = fill(&w, 0);
    assert_eq!(o.wait(0), 0);
    get(&r, n, 0, 8192);
    assert_eq!(o.wait(0), EPOLLOUT);
    flood(&path, &r, &w, 300_000, 0, heat);
    drop(w);
    assert_eq!(e.wait(-1), EPOLLHUP);
}

fn epoll_edge(heat: Heat) {
    let (path, r, mut w) = hot(heat);
    let e = Epoll::of(&r, EPOLLIN | EPOLLET);
    assert_eq!(e.wait(0), 0);
    for i in 0..5 {
        put(&w, 2, i * 2, 2);
        assert_eq!((e.wait(SOON), e.wait(0)), (EPOLLIN, 0));
    }
    get(&r, 5, 0, 5);
    assert_eq!(e.wait(0), 0, "reading a part is no event");
    get(&r, 5, 5, 5);
    put(&w, 1, 0, 1);
    drop(w);
    assert_eq!((e.wait(SOON), e.wait(0)), (EPOLLIN | EPOLLHUP, 0));
    get(&r, 1, 0, 1);
    w = writer(&path);
    e.wait(0);
    put(&w, 1, 0, 1);
    assert_eq!((e.wait(SOON), e.wait(0)), (EPOLLIN, 0));
}

fn epoll_edge_of_the_writer(heat: Heat) {
    let (_, r, w) = hot(heat);
    let n = fill(&w, 0);
    let e = Epoll::of(&w, EPOLLOUT | EPOLLET);
    assert_eq!(e.wait(0), 0);
    get(&r, n, 0, 8192);
    assert_eq!((e.wait(SOON), e.wait(0)), (EPOLLOUT, 0));
    fill(&w, 0);
    drop(r);
    assert_eq!((e.wait(SOON), e.wait(0)), (EPOLLERR, 0));
}

fn epoll_oneshot(heat: Heat) {
    let (_, r, w) = hot(heat);
    let once = EPOLLIN | EPOLLONESHOT;
    let e = Epoll::of(&r, once);
    put(&w, 1, 0, 1);
    assert_eq!(e.wait(SOON), EPOLLIN);
    put(&w, 1, 1, 1);
    assert_eq!(e.wait(0), 0);
    e.again(&r, once);
    assert_eq!(e.wait(SOON), EPOLLIN);
    drop(w);
    assert_eq!(e.wait(0), 0);
    e.again(&r, once);
    assert_eq!(e.wait(SOON), EPOLLIN | EPOLLHUP);
    get(&r, 2, 0, 2);
}

/// Each byte wakes at least one of those who wait exclusively, and is read by one.
fn epoll_exclusive(heat: Heat) {
    let (_, r, w) = hot(heat);
    nonblocking(&r, true);
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let r = r.try_clone().expect("dup");
            let (handle, task) = sleeper(move || {
                let e = Epoll::of(&r, EPOLLIN | EPOLLEXCLUSIVE);
                loop {
                    assert_eq!(e.wait(SOON) & EPOLLIN, EPOLLIN, "nobody woke it");
                    match (&r).read(&mut [0]) {
                        Ok(n) => break n,
                        Err(e) => assert_eq!(e.kind(), ErrorKind::WouldBlock),
                    }
                }
            });
            asleep(task);
            handle
        })
        .collect();
    put(&w, 3, 0, 1);
    let taken: usize = waiters.into_iter().map(|h| h.join().expect("waiter")).sum();
    assert_eq!(taken, 3);
}

/// Registered is the open file, not its number: a set outlives the File that it was told, while a clone lives.
fn epoll_of_a_clone(heat: Heat) {
    let (path, r, w) = hot(heat);
    let r2 = r.try_clone().expect("dup");
    let e = Epoll::of(&r, EPOLLIN);
    drop(r);
    put(&w, 10, 0, 10);
    assert_eq!(e.wait(SOON), EPOLLIN);
    get(&r2, 10, 0, 10);
    assert_eq!(e.wait(0), 0);
    flood(&path, &r2, &w, 300_000, 0, heat);
    drop(w);
    assert_eq!(e.wait(SOON), EPOLLHUP);
    drop(r2);
    assert_eq!(e.wait(0), 0, "nobody has it open");
}

/// A small event loop: read until WouldBlock, wait, again, until EOF.
fn driven(extra: i32) {
    const TOTAL: usize = 3 * MIB;
    let path = fifo();
    let r = reader_now(&path);
    nonblocking(&r, true);
    let e = Epoll::of(&r, EPOLLIN | extra);
    let child = roles::write(&path, TOTAL / 2, 0, 9000);
    let mut b = vec![0; 7000];
    let mut pos = 0;
    let mut to_eof = |end: usize| {
        loop {
            assert_ne!(e.wait(SOON), 0, "an event was lost at {pos}");
            let eof = loop {
                match (&r).read(&mut b) {
                    Ok(0) => break true,
                    Ok(n) => {
                        same(&b[..n], pos);
                        pos += n;
                    }
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::WouldBlock);
                        break false;
                    }
                }
            };
            if eof && pos == end {
                break;
            }
        }
    };
    to_eof(TOTAL / 2);
    child.done();
    // A second writer after the hang-up, a thread that waits for room by edges.
    thread::scope(|s| {
        let w = writer(&path);
        s.spawn(move || {
            nonblocking(&w, true);
            let o = Epoll::of(&w, EPOLLOUT | extra);
            let mut n = TOTAL / 2;
            while n < TOTAL {
                match (&w).write(&crate::stream::at(n)[..9000.min(TOTAL - n)]) {
                    Ok(k) => n += k,
                    Err(e) => {
                        assert_eq!(e.kind(), ErrorKind::WouldBlock);
                        assert_ne!(o.wait(SOON), 0, "room was not told of at {n}");
                    }
                }
            }
        });
        to_eof(TOTAL);
    });
}

fn edges_drive_a_stream() {
    driven(EPOLLET);
}

fn levels_drive_a_stream() {
    driven(0);
}
