//! Fear: many FIFOs, many openings, limits met: nothing is mixed up, nothing leaks, and a refusal leaves nothing behind.
use crate::check::{Heat, cases, fails};
use crate::kernel;
use crate::roles;
use crate::stream::{MIB, at_eof, ends, fifo, fill, flood, get, hot, put, reader, same, writer};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::thread;

cases! {
    each: many_filled_at_once many_openings_of_one no_descriptor_left;
    once: opened_2000_times lives_leave_no_memory many_threads many_processes;
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd")
        .expect("/proc/self/fd")
        .count()
}

/// Resident memory of this process, in KiB.
fn resident_kib() -> i64 {
    let text = fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).and_then(|n| n.parse::<i64>().ok());
    pages.expect("statm's second number") * 4
}

fn many_filled_at_once(heat: Heat) {
    const MANY: usize = 60;
    let all: Vec<_> = (0..MANY).map(|_| hot(heat)).collect();
    let filled: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(i, (_, _, w))| fill(w, i * 131))
        .collect();
    for i in (0..MANY).map(|i| i * 7 % MANY) {
        let (_, r, w) = &all[i];
        get(r, filled[i], i * 131, 8192);
        assert_eq!(kernel::bytes_waiting(r), 0);
        put(w, 9, i, 9);
    }
    for (i, (_, r, w)) in all.into_iter().enumerate() {
        drop(w);
        get(&r, 9, i, 9);
        at_eof(&r);
    }
}

fn many_openings_of_one(heat: Heat) {
    const MANY: usize = 60;
    let (path, r, w) = hot(heat);
    let readers: Vec<_> = (0..MANY).map(|_| reader(&path)).collect();
    let writers: Vec<_> = (0..MANY).map(|_| writer(&path)).collect();
    for _ in 0..10 {
        for (i, w) in writers.iter().enumerate() {
            put(w, 300, i * 300, 300);
        }
        for i in 0..MANY * 300 / 500 {
            get(&readers[i * 7 % MANY], 500, i * 500, 500);
        }
    }
    flood(&path, &readers[5], &writers[9], 300_000, 0, heat);
    drop(writers);
    drop(readers);
    put(&w, 10, 0, 10);
    drop(w);
    get(&r, 10, 0, 10);
    at_eof(&r);
}

/// EMFILE: the opening that failed is no end of anything.
fn no_descriptor_left(heat: Heat) {
    let (path, r, w) = hot(heat);
    let other = fifo();
    put(&w, 1000, 0, 1000);
    kernel::limit_files(open_files() as u64 + 4);
    let mut more = Vec::new();
    let e = loop {
        match File::open(&path) {
            Ok(f) => more.push(f),
            Err(e) => break e,
        }
    };
    assert_eq!(e.raw_os_error(), Some(libc::EMFILE));
    fails(w.try_clone(), libc::EMFILE);
    fails(
        File::options().read(true).write(true).open(&other),
        libc::EMFILE,
    );
    get(&r, 500, 0, 500);
    get(&more[0], 500, 500, 500);
    // The FIFO works on with no number free.
    thread::scope(|s| {
        s.spawn(|| put(&w, MIB, 0, 4096));
        get(&r, MIB, 0, 8192);
    });
    more.clear();
    put(&w, 100, 0, 100);
    drop(w);
    get(&r, 100, 0, 100);
    at_eof(&r);
}

fn opened_2000_times() {
    let path = fifo();
    let mut before = (0, 0);
    for i in 0..2100 {
        if i == 100 {
            before = (open_files(), resident_kib());
        }
        let (r, w) = ends(&path);
        assert_eq!((&w).write(&[i as u8; 100]).expect("write"), 100);
        if i % 3 == 0 {
            let mut b = [0; 100];
            (&r).read_exact(&mut b).expect("read");
            assert_eq!(b, [i as u8; 100]);
        }
        if i % 2 == 0 {
            drop(r);
        }
    }
    assert_eq!(open_files(), before.0);
    let grown = resident_kib() - before.1;
    assert!(grown < 4096, "memory grew by {grown} KiB");
}

/// Heavy ones, each carried, each left with bytes inside.
fn lives_leave_no_memory() {
    let path = fifo();
    let mut before = (0, 0);
    for i in 0..100 {
        if i == 20 {
            before = (open_files(), resident_kib());
        }
        let (r, w) = ends(&path);
        flood(&path, &r, &w, 300_000, i, Heat::Thread);
        put(&w, 5000, i, 5000);
        if i % 2 == 0 {
            drop(r);
        }
    }
    assert_eq!(open_files(), before.0);
    let grown = resident_kib() - before.1;
    assert!(grown < 8192, "memory grew by {grown} KiB");
}

fn many_threads() {
    const MANY: usize = 30;
    thread::scope(|s| {
        for i in 0..MANY {
            s.spawn(move || {
                let path = fifo();
                thread::scope(|s| {
                    s.spawn(|| put(writer(&path), MIB, i, 3000));
                    let mut all = Vec::new();
                    reader(&path).read_to_end(&mut all).expect("read_to_end");
                    assert_eq!(all.len(), MIB);
                    same(&all, i);
                });
            });
        }
    });
}

/// Each child on a FIFO of its own, all at once, one reader that takes from each by turns.
fn many_processes() {
    const MANY: usize = 25;
    const EACH: usize = 300_000;
    let mut children = Vec::new();
    let mut open = Vec::new();
    for i in 0..MANY {
        let path = fifo();
        children.push(roles::write(&path, EACH, i, 4096));
        open.push((reader(&path), i));
    }
    let mut b = vec![0; 10_000];
    while !open.is_empty() {
        open.retain_mut(|(r, pos)| {
            let n = r.read(&mut b).expect("read");
            same(&b[..n], *pos);
            *pos += n;
            n > 0
        });
    }
    for child in children {
        child.done();
    }
}
