//! The lock that a lone writer keeps, taken from it again and again in the midst of its writes.
//!
//! Invariant: every record is whole, and each writer's in order, although a thread holds the bias after each short
//! write and the others take it away; with `biased_lock::wait` taken out these tests fail within a second. Short records stand
//! inline too, and are taken from there: what a writer put there that lost the lock, or was killed, must never be read.
//! Writes of more than PIPE_BUF may come in pieces; then each word counts on.
//! Not here: whole programs (tests/conformance/alone.c).
mod common;

use byway_sys::process;
use common::{Pipe, pipe};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const WRITERS: usize = 3;

/// From now on every short write holds the bias.
fn keep_at_once(p: &Pipe) {
    let w = &p.ch.writer.0;
    w.alone.store(1 << 30, Relaxed);
    w.alone_for.store(0, Relaxed);
}

/// What a record of `who`'s life `life` says, the `n`th of that life.
fn word(who: u64, life: u64, n: u64) -> u64 {
    who << 60 | life << 40 | n
}

/// Forks a writer for ever, of writes of so many words; `says` makes the `n`th of them.
fn forked(p: &Pipe, who: u64, words: usize, says: impl Fn(u64, &mut [u64])) -> i32 {
    // SAFETY: the child only uses this test's code and leaves by _exit.
    match unsafe { libc::fork() } {
        0 => {}
        pid => return pid,
    }
    // SAFETY: no pointers. If the test fails, its children end too.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut record = vec![0; words];
    for n in 0.. {
        p.ch.writer.0.last.store(process::gettid(), Relaxed);
        keep_at_once(p);
        says(n, &mut record);
        // SAFETY: words as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(record.as_ptr().cast(), 8 * words) };
        if p.put(bytes) != bytes.len() as isize {
            break;
        }
        if n % 64 == who {
            // Out of step with the others.
            process::nap(1 + n % 7);
        }
    }
    // SAFETY: leaving the child.
    unsafe { libc::_exit(0) }
}

/// A writer of records, of so many words that all say the same.
fn writer(p: &Pipe, who: u64, life: u64, words: usize) -> i32 {
    forked(p, who, words, |n, record| record.fill(word(who, life, n)))
}

/// A writer of words that count on, so many in a write.
fn counter(p: &Pipe, who: u64, life: u64, words: usize) -> i32 {
    forked(p, who, words, |n, record| {
        for (w, i) in record.iter_mut().zip(n * words as u64..) {
            *w = word(who, life, i);
        }
    })
}

fn end(pid: i32) {
    // SAFETY: a child of ours.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
    }
}

/// Whether there is more to see: it takes three seconds, and on a busy machine until each writer has come often enough, and
/// the lock was biased often enough.
fn goes_on(began: Instant, biased: u64, all: &[u64; WRITERS], least: u64) -> bool {
    let enough = biased > 100 && all.iter().all(|&n| n > least);
    let took = began.elapsed();
    assert!(
        took < Duration::from_secs(100),
        "biased at {biased}; {all:?}"
    );
    !enough || took < Duration::from_secs(3)
}

/// Reads for three seconds, and until enough was met, what writers of records of `words` words write; every `killed` records
/// one of them is killed, and another takes its place.
fn read_all(words: usize, killed: Option<u64>) {
    let p = pipe();
    // A ring from the first byte on.
    p.ch.writer.0.native_bytes.store(1 << 20, Relaxed);
    let mut children: Vec<i32> = (0..WRITERS as u64)
        .map(|who| writer(&p, who, 0, words))
        .collect();
    // Of each writer the next record of the life that was last heard of, and the life of the child.
    let mut next: Vec<u64> = (0..WRITERS as u64).map(|who| word(who, 0, 0)).collect();
    let mut lives = [0u64; WRITERS];
    let (mut got, mut biased, mut all) = (0u64, 0, [0u64; WRITERS]);
    let least = if killed.is_some() { 100 } else { 1000 };
    let began = Instant::now();
    while goes_on(began, biased, &all, least) {
        let mut record = vec![0u64; words];
        // SAFETY: words as bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts_mut(record.as_mut_ptr().cast(), 8 * words) };
        let mut n = 0;
        while n < bytes.len() {
            let k = p.get(&mut bytes[n..]);
            assert!(k > 0, "read: {k}");
            n += k as usize;
        }
        if p.ch.tail().bias_owner() != 0 {
            biased += 1;
        }
        let first = record[0];
        assert!(
            record.iter().all(|&w| w == first),
            "record {got} is not whole: {record:x?}"
        );
        let who = (first >> 60) as usize;
        assert!(who < WRITERS, "record {got} of nobody: {first:x}");
        let begins = first & 0xff_ffff_ffff == 0 && first != next[who];
        assert!(
            begins && first > next[who] || first == next[who],
            "record {got} of writer {who}: {first:x}, not {:x}",
            next[who]
        );
        next[who] = first + 1;
        all[who] += 1;
        got += 1;
        if killed.is_some_and(|k| got.is_multiple_of(k)) {
            let who = (got / 7 % WRITERS as u64) as usize;
            end(children[who]);
            lives[who] += 1;
            children[who] = writer(&p, who as u64, lives[who], words);
        }
    }
    children.into_iter().for_each(end);
    println!("{got} records, {all:?}; biased at {biased}; lives {lives:?}");
}

#[test]
fn records_stay_whole_while_the_lock_is_taken_away() {
    read_all(64, None);
}

#[test]
fn short_records_too() {
    read_all(3, None);
}

#[test]
fn and_as_long_as_fit_beside_the_word() {
    read_all(6, None);
}

#[test]
fn and_when_writers_are_killed() {
    read_all(3, Some(500));
}

/// Writes of more than PIPE_BUF need not stay whole, but every word does, and each writer's come in order.
fn read_words(killed: Option<u64>) {
    const WORDS: [usize; WRITERS] = [1024, 5000, 8192];
    let p = pipe();
    p.ch.writer.0.native_bytes.store(1 << 20, Relaxed);
    let start = |who: usize, life| counter(&p, who as u64, life, WORDS[who]);
    let mut children: Vec<i32> = (0..WRITERS).map(|who| start(who, 0)).collect();
    let mut next: Vec<u64> = (0..WRITERS as u64).map(|who| word(who, 0, 0)).collect();
    let mut lives = [0u64; WRITERS];
    let (mut reads, mut biased, mut all) = (0u64, 0, [0u64; WRITERS]);
    let mut buffer = vec![0u64; 8192];
    let began = Instant::now();
    while goes_on(began, biased, &all, 100_000) {
        let want = 8 * (1 + (reads as usize * 977) % buffer.len());
        // SAFETY: words as bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(buffer.as_mut_ptr().cast(), want) };
        let n = p.get(bytes);
        assert!(n > 0 && n % 8 == 0, "read: {n}");
        for &w in &buffer[..n as usize / 8] {
            let who = (w >> 60) as usize;
            assert!(who < WRITERS, "a word of nobody: {w:x}");
            let begins = w & 0xff_ffff_ffff == 0 && w > next[who];
            assert!(
                begins || w == next[who],
                "read {reads}: {w:x}, not {:x}",
                next[who]
            );
            next[who] = w + 1;
            all[who] += 1;
        }
        if p.ch.tail().bias_owner() != 0 {
            biased += 1;
        }
        reads += 1;
        if killed.is_some_and(|k| reads.is_multiple_of(k)) {
            let who = (reads / 7 % WRITERS as u64) as usize;
            end(children[who]);
            lives[who] += 1;
            children[who] = start(who, lives[who]);
        }
    }
    children.into_iter().for_each(end);
    println!("{reads} reads, {all:?} words; biased at {biased}; lives {lives:?}");
}

#[test]
fn long_writes_stay_in_order() {
    read_words(None);
}

#[test]
fn and_when_their_writers_are_killed() {
    read_words(Some(50));
}
