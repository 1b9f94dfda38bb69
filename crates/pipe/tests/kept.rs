//! The lock that a lone writer keeps, taken from it again and again in the midst of its writes.
//!
//! Invariant: every record is whole, and each writer's in order, although a thread keeps the lock after each short write and the
//! others take it away; with `kept::wait` taken out this test fails within a second.
//! Not here: whole programs (tests/conformance/alone.c).
mod common;

use byway_sys::process;
use common::{Pipe, pipe};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const WRITERS: usize = 3;
/// Bytes of a record: its words all say the same.
const RECORD: usize = 512;
const WORDS: usize = RECORD / 8;

/// From now on every short write keeps the lock.
fn keep_at_once(p: &Pipe) {
    let w = &p.ch.writer.0;
    w.alone.store(1 << 30, Relaxed);
    w.alone_for.store(0, Relaxed);
}

/// Writes records for ever.
fn writer(p: &Pipe, who: u64) -> ! {
    // SAFETY: no pointers. If the test fails, its children end too.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    for n in 0.. {
        p.ch.writer.0.last.store(process::gettid(), Relaxed);
        keep_at_once(p);
        let record = [who << 48 | n; WORDS];
        // SAFETY: words as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(record.as_ptr().cast(), RECORD) };
        if p.put(bytes) != RECORD as isize {
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

#[test]
fn records_stay_whole_while_the_lock_is_taken_away() {
    let p = pipe();
    // A ring from the first byte on.
    p.ch.writer.0.native_bytes.store(1 << 20, Relaxed);
    let children: Vec<i32> = (0..WRITERS as u64)
        .map(|who| {
            // SAFETY: the child only uses this test's code and leaves by _exit.
            match unsafe { libc::fork() } {
                0 => writer(&p, who),
                pid => pid,
            }
        })
        .collect();
    let (mut next, mut got) = ([0u64; WRITERS], 0u64);
    let until = Instant::now() + Duration::from_secs(3);
    let mut kept = 0;
    while Instant::now() < until {
        let mut record = [0u64; WORDS];
        // SAFETY: words as bytes.
        let bytes = unsafe { std::slice::from_raw_parts_mut(record.as_mut_ptr().cast(), RECORD) };
        let mut n = 0;
        while n < RECORD {
            let k = p.get(&mut bytes[n..]);
            assert!(k > 0, "read: {k}");
            n += k as usize;
        }
        if p.ch.t().keeper() != 0 {
            kept += 1;
        }
        let word = record[0];
        assert!(
            record.iter().all(|&w| w == word),
            "record {got} is not whole: {record:x?}"
        );
        let who = (word >> 48) as usize;
        assert!(who < WRITERS, "record {got} of nobody: {word:x}");
        assert_eq!(
            word & 0xffff_ffff_ffff,
            next[who],
            "record {got} of writer {who}"
        );
        next[who] += 1;
        got += 1;
    }
    for pid in children {
        // SAFETY: children of ours.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
    println!("{got} records, {next:?}; kept at {kept}");
    assert!(next.iter().all(|&n| n > 1000) && kept > 100);
}
