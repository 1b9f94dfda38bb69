//! Fear: what else a File is asked or told: state, flags, copies of it, how many there are, who inherits it.
use crate::check::{Heat, cases};
use crate::kernel::{self, bytes_waiting, poll, selected, status_flags};
use crate::roles::{command, output};
use crate::stream::{at, at_eof, fill, flood, get, hot, put, writer};
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

cases! {
    each: stat_of_an_end bytes_waiting_is_exact append_changes_nothing a_clone_shares_its_flags clones_in_any_order
        raw_and_owned nobody_inherits pr76525_the_writer_goes pr94772_the_reader_goes;
    once: ;
}

fn stat_of_an_end(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 5000, 0, 5000);
    let name = fs::metadata(&path).expect("stat");
    for f in [&r, &w] {
        let m = f.metadata().expect("fstat");
        assert!(m.file_type().is_fifo());
        assert_eq!((m.dev(), m.ino()), (name.dev(), name.ino()));
        assert_eq!((m.len(), m.blocks(), m.nlink()), (0, 0, 1));
    }
    get(&r, 5000, 0, 5000);
}

fn bytes_waiting_is_exact(heat: Heat) {
    let (path, r, w) = hot(heat);
    for round in 0..3 {
        assert_eq!(bytes_waiting(&r), 0);
        put(&w, 33_333, 0, 1000);
        assert_eq!((bytes_waiting(&r), bytes_waiting(&w)), (33_333, 33_333));
        get(&r, 3, 0, 3);
        assert_eq!(bytes_waiting(&r), 33_330);
        get(&r, 33_330, 3, 9000);
        let n = fill(&w, 0);
        assert_eq!(bytes_waiting(&r), n);
        get(&r, n, 0, 9000);
        flood(&path, &r, &w, 300_000, round, heat);
    }
    put(&w, 100, 0, 100);
    drop(w);
    assert_eq!(bytes_waiting(&r), 100);
    get(&r, 100, 0, 100);
    assert_eq!(bytes_waiting(&r), 0);
}

fn append_changes_nothing(heat: Heat) {
    let (path, r, w) = hot(heat);
    let a = File::options().append(true).open(&path).expect("O_APPEND");
    assert_eq!(status_flags(&a) & libc::O_APPEND, libc::O_APPEND);
    for i in 0..50 {
        put(if i % 2 == 0 { &a } else { &w }, 700, i * 700, 700);
    }
    get(&r, 35_000, 0, 900);
    flood(&path, &r, &a, 300_000, 0, heat);
}

/// One open file description: O_NONBLOCK is theirs together, FD_CLOEXEC is each one's own and set.
fn a_clone_shares_its_flags(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (r2, w2) = (r.try_clone().expect("dup"), w.try_clone().expect("dup"));
    for f in [&r, &r2, &w, &w2] {
        assert!(kernel::closes_on_exec(f));
    }
    kernel::nonblocking(&r2, true);
    let e = (&r).read(&mut [0]).expect_err("empty");
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    // Another opening is not concerned.
    let w3 = writer(&path);
    kernel::nonblocking(&w3, true);
    assert_eq!(status_flags(&w) & libc::O_NONBLOCK, 0);
    kernel::nonblocking(&r, false);
    for i in 0..30 {
        put([&w, &w2][i % 2], 999, i * 999, 999);
    }
    for i in 0..30 {
        get([&r, &r2][i / 3 % 2], 999, i * 999, 999);
    }
    flood(&path, &r2, &w2, 300_000, 0, heat);
}

/// The end is closed when the last of its Files is dropped, whichever that is.
fn clones_in_any_order(heat: Heat) {
    for first in 0..4 {
        let (_, r, w) = hot(heat);
        let mut writers = vec![w];
        for _ in 0..3 {
            writers.push(writers[0].try_clone().expect("dup"));
        }
        let mut pos = 0;
        for k in 0..3 {
            drop(writers.remove((first + k) % writers.len()));
            put(&writers[0], 3000, pos, 1000);
            pos += 3000;
        }
        assert_eq!(poll(&r, libc::POLLIN, 0), libc::POLLIN);
        get(&r, pos, 0, 8192);
        assert_eq!(poll(&r, libc::POLLIN, 0), 0, "no end while one is left");
        writers.clear();
        at_eof(&r);
    }
}

fn raw_and_owned(heat: Heat) {
    let (path, r, w) = hot(heat);
    let number = w.into_raw_fd();
    // SAFETY: the number was this File's, and is nobody's now.
    let owned = unsafe { OwnedFd::from_raw_fd(number) };
    let copy = File::from(owned.as_fd().try_clone_to_owned().expect("dup"));
    let w = File::from(owned);
    put(&w, 3000, 0, 1000);
    put(&copy, 3000, 3000, 1000);
    // Leaked ends stay open.
    let kept = copy.into_raw_fd();
    drop(w);
    get(&r, 6000, 0, 1000);
    assert_eq!(poll(&r, libc::POLLIN, 0), 0);
    // SAFETY: as above.
    let w = File::from(unsafe { OwnedFd::from_raw_fd(kept) });
    flood(&path, &r, &w, 300_000, 0, heat);
    drop(w);
    at_eof(&r);
}

/// std opens with O_CLOEXEC: a child has none of our ends but those that it was given, so that EOF comes though it lives.
fn nobody_inherits(heat: Heat) {
    let (path, r, w) = hot(heat);
    let clone = w.try_clone().expect("dup");
    put(&w, 3000, 0, 1000);
    assert_eq!(output(&mut command("ends", &[&path.display()])), b"");
    let mut c = command("ends", &[&path.display()]);
    let given = output(c.stdin(r.try_clone().expect("dup")));
    assert_eq!(given.iter().filter(|b| **b == b'\n').count(), 1);
    let mut lives = command("hold", &[&"/dev/null", &"read", &0]);
    lives.stdin(std::process::Stdio::piped());
    let mut lives = crate::roles::Other::start(lives.stdout(std::process::Stdio::piped()));
    lives.ready();
    drop((w, clone));
    get(&r, 3000, 0, 1000);
    at_eof(&r);
    lives.killed();
}

/// FREEBSD PR kern/76525: select on the reading end after the writer went.
fn pr76525_the_writer_goes(heat: Heat) {
    let (_, r, w) = hot(heat);
    assert!(!selected(&r, false));
    put(&w, 10, 0, 10);
    assert!(selected(&r, false));
    drop(w);
    get(&r, 10, 0, 10);
    for _ in 0..3 {
        assert!(selected(&r, false), "EOF can be read");
        assert_eq!(poll(&r, libc::POLLIN, -1), libc::POLLHUP);
    }
    at_eof(&r);
}

/// FREEBSD PR kern/94772: the same on the writing end after the reader went.
fn pr94772_the_reader_goes(heat: Heat) {
    let (_, r, w) = hot(heat);
    assert!(selected(&w, true));
    fill(&w, 0);
    assert!(!selected(&w, true));
    drop(r);
    for _ in 0..3 {
        assert!(selected(&w, true), "the error can be met");
        assert_eq!(poll(&w, 0, -1), libc::POLLERR);
    }
    let e = (&w).write(&at(0)[..10]).expect_err("no reader");
    assert_eq!(e.kind(), ErrorKind::BrokenPipe);
}
