//! Lines that a reader takes as if to write to them: nothing changes for whoever writes there, and nothing is touched
//! that is not there.
//!
//! Not here: what it is worth (docs/adr/0015); streams through a ring whose lines are taken (stream.rs: every domain of
//! these tests says that they are to be).
#![cfg(not(miri))]
mod common;
use byway_pipe::policy::{self, Lines};
use byway_sys::line;
use common::{Pipe, pipe, pipe_in};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const LINES: usize = 8;

/// So many pages, of which the last can neither be read nor written.
fn pages(n: usize) -> *mut u8 {
    // SAFETY: a new mapping, and a part of it.
    unsafe {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let p = libc::mmap(std::ptr::null_mut(), n * PAGE, 3, flags, -1, 0).cast::<u8>();
        assert_ne!(p.cast(), libc::MAP_FAILED);
        assert_eq!(libc::mprotect(p.add((n - 1) * PAGE).cast(), PAGE, 0), 0);
        p
    }
}

/// Said when it is dropped, by a panic too.
struct Said<'a>(&'a AtomicBool);
impl Drop for Said<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_writer_loses_nothing() {
    let p = pages(2) as usize;
    let done = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !done.load(Relaxed) {
                // SAFETY: a page of ours.
                unsafe { line::take(p as *const u8, 64 * LINES, 64 * LINES) };
            }
        });
        let _said = Said(&done);
        // A few lines: each is written again when what was written before has left this CPU.
        for round in 0..1_000_000u64 {
            for i in 0..LINES {
                let word = (p + 64 * i) as *mut u64;
                // SAFETY: as above; nobody else writes there.
                unsafe {
                    assert_eq!(word.read_volatile(), round, "a write was lost");
                    word.write_volatile(round + 1);
                }
            }
        }
    });
}

/// Whether taking `n` bytes at `p`, of which `there` are there, ends the process.
fn faults(p: *const u8, n: usize, there: usize) -> bool {
    // SAFETY: the child makes one call and ends.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            line::take(p, n, there);
            libc::_exit(0);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
        status != 0
    }
}

#[test]
fn no_line_but_those_that_begin_in_it_and_are_there() {
    // SAFETY: inside the mapping.
    let end = unsafe { pages(2).add(PAGE) };
    let before = |n| end.wrapping_sub(n);
    // The last line ends where the mapping does.
    assert!(!faults(before(64), 64, 64));
    assert!(!faults(before(300), 300, 300));
    // A line begins behind it: not all of it is there, or none of it is asked for.
    assert!(!faults(before(32), 64, 64));
    assert!(!faults(before(32), 32, 4096));
    assert!(!faults(before(1), 0, 0));
    // What is asked for, and said to be there.
    assert!(faults(before(32), 33, 96));
    assert!(faults(before(64), 65, 128));
}

/// Lines are taken only from another CPU, and where they are said to be worth it.
#[test]
fn from_another_cpu_alone() {
    let p = pipe();
    let at = &p.ch.m.0;
    let takes = |cpus, rseq| {
        let me = byway_pipe::Caller {
            cpus,
            rseq,
            ..p.me()
        };
        p.ch.reader.0.lines.store(0, Relaxed);
        policy::reads_here(&me, p.ch);
        [1, 64, 4096, 1 << 20].map(|n| policy::lines(p.ch, n) == Lines::Taken)
    };
    at.reader_cpu.set(0);
    at.writer_cpu.set(0);
    assert_eq!(takes(2, false), [false; 4]);
    at.writer_cpu.set(1);
    assert_eq!(takes(2, false), [true; 4]);
    assert_eq!(takes(1, false), [false; 4]);
    p.d.header().shared_lines.store(0, Relaxed);
    assert_eq!(takes(2, false), [false; 4]);
    p.d.header().shared_lines.store(1, Relaxed);
    if byway_sys::rseq::area().is_some() {
        at.writer_cpu.set(4000);
        at.reader_cpu.set(4000);
        assert_eq!(takes(2, true), [true; 4]);
        assert_ne!(at.reader_cpu.get(), 4000);
    }
}

/// All of `b`.
fn fill(p: &Pipe, b: &mut [u8]) {
    let mut n = 0;
    while n < b.len() {
        let k = p.get(&mut b[n..]);
        assert!(k > 0, "read: {k}");
        n += k as usize;
    }
}

/// Questions by one pipe, answers by another of the same domain, which their writers keep: who waited for a question,
/// and read it, has asked for the line of its answer; each answer is right.
#[test]
fn who_waited_asks_for_the_line_of_its_answer() {
    let to = pipe();
    let fro = pipe_in(to.d);
    // Whoever may be waited for asleep, the ring stays, and who writes holds the bias.
    let put = |p: &Pipe, b: [u8; 8]| {
        let w = &p.ch.writer.0;
        w.native_bytes.store(1 << 20, Relaxed);
        w.lone_wakes.store(0, Relaxed);
        w.last.store(p.me().tid, Relaxed);
        w.alone_for.store(0, Relaxed);
        w.alone.store(1 << 30, Relaxed);
        assert_eq!(p.put(&b), 8);
    };
    let may = to.me().has_barriers && to.cpus > 1;
    let asked = AtomicBool::new(!may);
    thread::scope(|s| {
        s.spawn(|| {
            let me = fro.me();
            let wrote = &me.domain.thread_slot(me.tid).wrote;
            let mut q = [0; 8];
            loop {
                let before = wrote.load(Relaxed);
                fill(&to, &mut q);
                if before != 0 && wrote.load(Relaxed) == 0 {
                    asked.store(true, Relaxed);
                }
                let answer = u64::from_le_bytes(q).wrapping_mul(3).to_le_bytes();
                put(&fro, answer);
                if q == [0xff; 8] {
                    break;
                }
            }
        });
        let until = Instant::now() + Duration::from_secs(60);
        let ask = |q: u64| {
            let mut b = [0; 8];
            put(&to, q.to_le_bytes());
            fill(&fro, &mut b);
            assert_eq!(u64::from_le_bytes(b), q.wrapping_mul(3));
        };
        let enough = |n: u64| n > 20_000 && (asked.load(Relaxed) || Instant::now() > until);
        for n in (0..).take_while(|&n| !enough(n)) {
            ask(n);
        }
        ask(u64::MAX);
    });
    assert!(asked.load(Relaxed));
}
