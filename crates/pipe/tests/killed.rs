//! A process that is killed inside a call of the core: each state that it can leave behind, and what is read then.
//!
//! The call is single-stepped (ptrace(2)), and its process is killed at the first change of the channel that another
//! process can see; in the next round at the second, and so on, until it ends by itself. Not here: kills at any moment
//! of whole programs (tests/conformance/kill.c, splice_mix.c).
//!
//! Code that is not optimized takes ten times as many steps: `--profile tests`.
mod common;

use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::read::Armed;
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, Step, fifo, handback, lock, opening, read};
use byway_sys::file;
use common::{Pipe, pipe, sockets};
use std::sync::atomic::Ordering::Relaxed;

fn pattern(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// The calling thread. A restartable sequence would begin anew at each step.
fn me(p: &Pipe) -> Caller {
    Caller {
        rseq: false,
        ..common::me(p.d)
    }
}

/// A pipe with a ring, the bytes that were written to it and are unread, and a reader that is inside its read(2).
struct Begun {
    p: Pipe,
    written: usize,
    /// Of the write that is killed.
    more: usize,
    seen: usize,
    asleep: Option<Armed>,
}

impl Begun {
    fn open() -> Begun {
        Begun::open_as(pipe())
    }

    fn open_as(mut p: Pipe) -> Begun {
        p.rseq = false;
        let mut warm = vec![0; 4096];
        for _ in 0..20 {
            assert_eq!(p.put(&warm), 4096);
            assert_eq!(p.get(&mut warm), 4096);
        }
        assert!(!p.ch.tail().closed());
        Begun {
            p,
            written: 0,
            more: 0,
            seen: 0,
            asleep: None,
        }
    }

    fn put(&mut self, n: usize) {
        let b: Vec<u8> = (self.written..self.written + n).map(pattern).collect();
        assert_eq!(self.p.put(&b), n as isize);
        self.written += n;
    }

    /// The reader goes to sleep: it will be inside the kernel's call when it is woken.
    fn sleeps(&mut self) {
        let mut b = [0u8; 1];
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: READ,
        }];
        let mut armed = Armed::NOT;
        let at = Buffers::new(&v);
        let step = read::read(&me(&self.p), self.p.ch, self.p.r, at, READ, 0, &mut armed);
        assert!(step == Step::NativeCounted && armed.was_open());
        self.asleep = Some(armed);
    }

    /// The kernel's call of the reader, if that was woken, and its end.
    fn wakes(&mut self) {
        if file::fionread(self.p.r) > 0 {
            self.comes_out();
        }
    }

    fn comes_out(&mut self) {
        let Some(armed) = self.asleep.take() else {
            return;
        };
        let mut b = vec![0; READ];
        // SAFETY: our own fd and buffer.
        let n = unsafe { libc::read(self.p.r as i32, b.as_mut_ptr().cast(), READ) };
        read::finish(&me(&self.p), self.p.ch, armed, n);
        self.saw(&b[..n as usize]);
    }

    fn saw(&mut self, b: &[u8]) {
        for (i, &x) in b.iter().enumerate() {
            assert_eq!(x, pattern(self.seen + i), "the byte at {}", self.seen + i);
        }
        self.seen += b.len();
    }

    /// Reads to the end of the stream: all that was written, once and in order, and as much as came of the write that
    /// was killed. The reader finds the dead, or before it a writer that hands the channel back.
    fn ends(&mut self, hands_back: bool) {
        self.wakes();
        if hands_back {
            self::hands_back(self);
        }
        file::close(self.p.w);
        self.comes_out();
        let mut b = vec![0; 10_000];
        loop {
            match self.p.get(&mut b) {
                0 => break,
                n => self.saw(&b[..n as usize]),
            }
        }
        assert!((self.written..=self.written + self.more).contains(&self.seen));
        if self.p.ch.tail().lock_owner() == 0 {
            assert_eq!(self.p.ch.facts.0.intent.load(Relaxed), 0);
        }
        file::close(self.p.r);
    }

    /// What another process can see of the channel.
    fn state(&self) -> [u64; 7] {
        let (ch, f) = (self.p.ch, &self.p.ch.facts.0);
        [
            ch.tail().0,
            ch.head().0,
            ch.chunk().0,
            f.intent.load(Relaxed),
            u64::from(f.lane.load(Relaxed)),
            u64::from(f.shrunk.load(Relaxed)),
            file::fionread(self.p.r) as u64,
        ]
    }
}

/// What a reader that sleeps has room for.
const READ: usize = 65536;
/// A reader that was woken comes out of the kernel once the channel has stood still for so many instructions.
const STILL: u32 = 3000;

/// Runs `call` of a process that is killed at its `k`th change. True: it was; false: the call ended before.
fn killed_at(k: usize, b: &mut Begun, call: fn(&Begun)) -> bool {
    // SAFETY: the child only runs `call` and leaves by _exit; the tracer's calls are of our child.
    unsafe {
        let pid = libc::fork();
        if pid == 0 {
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::raise(libc::SIGSTOP);
            call(b);
            libc::_exit(0);
        }
        let (mut status, mut changes, mut still) = (0, 0, 0);
        let mut state = b.state();
        loop {
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            if !libc::WIFSTOPPED(status) {
                assert_eq!(status, 0);
                return false;
            }
            still += 1;
            let now = b.state();
            if now != state {
                (state, still, changes) = (now, 0, changes + 1);
            }
            if changes == k {
                libc::kill(pid, libc::SIGKILL);
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                return true;
            }
            if still == STILL {
                b.wakes();
                state = b.state();
            }
            libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0);
        }
    }
}

/// Kills at each change, in two rounds: a reader finds the dead, or a writer.
fn at_each_change(least: usize, make: fn() -> Begun, call: fn(&Begun)) {
    for hands_back in [false, true] {
        rounds(hands_back, least, make, call);
    }
}

/// The changes are more than `least`, or the test has seen nothing.
fn rounds(hands_back: bool, least: usize, make: fn() -> Begun, call: fn(&Begun)) {
    // SAFETY: no pointers. A wrong state may be waited for without an end.
    unsafe { libc::alarm(120) };
    let mut k = 1;
    loop {
        let mut b = make();
        let was_killed = killed_at(k, &mut b, call);
        b.ends(hands_back);
        if !was_killed {
            break;
        }
        k += 1;
    }
    assert!(k > least, "{k}");
}

/// Bytes are in the ring alone.
fn ring(p: Pipe) -> Begun {
    let mut b = Begun::open_as(p);
    b.put(30_000);
    b
}

/// The kernel lane has the bytes that wake the reader, the ring those behind them.
fn woken(p: Pipe) -> Begun {
    let mut b = Begun::open_as(p);
    b.sleeps();
    b.put(100);
    b.put(20_000);
    b
}

/// The reader sleeps; the write that is to be killed has `more` bytes.
fn asleep(more: usize) -> Begun {
    let mut b = Begun::open();
    b.sleeps();
    b.more = more;
    b
}

fn hands_back(b: &Begun) {
    handback::hand_back(&me(&b.p), b.p.ch, b.p.w, false, Reason::Splice);
}

#[test]
fn a_hand_back() {
    at_each_change(5, || ring(pipe()), hands_back);
}

/// The reader may take what is poured behind the bytes that woke it.
#[test]
fn a_hand_back_behind_a_reader_that_was_woken() {
    at_each_change(5, || woken(pipe()), hands_back);
}

#[test]
fn a_hand_back_of_a_socket() {
    at_each_change(5, || ring(sockets()), hands_back);
}

#[test]
fn a_hand_back_of_a_socket_behind_a_reader_that_was_woken() {
    at_each_change(5, || woken(sockets()), hands_back);
}

#[test]
fn an_opening() {
    let closed = || {
        let mut b = Begun::open();
        hands_back(&b);
        b.put(10_000);
        assert!(b.p.ch.tail().closed());
        b
    };
    // It takes 200,000 instructions.
    rounds(true, 5, closed, |Begun { p, .. }| {
        assert!(opening::open(&me(p), p.ch, p.w, 10_000));
    });
}

/// A full ring's last bytes are in the kernel lane, and come behind it as soon as there is room.
#[test]
fn a_pump() {
    let full = || {
        let mut b = Begun::open();
        // SAFETY: no pointers.
        unsafe { libc::fcntl(b.p.w as i32, libc::F_SETFL, libc::O_NONBLOCK) };
        while !b.p.ch.chunk().valid() {
            b.put(4096);
        }
        let mut some = vec![0; 20_000];
        let n = b.p.get(&mut some);
        b.saw(&some[..n as usize]);
        b
    };
    at_each_change(7, full, |Begun { p, .. }| {
        handback::pump(&me(p), p.ch, p.r);
    });
}

/// The ring's oldest bytes go into the kernel lane.
#[test]
fn a_move_to_the_front() {
    at_each_change(
        3,
        || ring(pipe()),
        |Begun { p, .. }| {
            let me = me(p);
            let _taken = lock::take(&me, p.ch, p.w, |_| false);
            let (t, r) = (p.ch.tail(), p.ch.head().position());
            fifo::to_front(&me, p.ch, p.w, r, t.wide(r) - r);
            lock::unlock(&me, p.ch);
        },
    );
}

fn writes(b: &Begun) {
    let part: Vec<u8> = (b.written..b.written + b.more).map(pattern).collect();
    assert_eq!(b.p.put(&part), b.more as isize);
}

#[test]
fn a_write() {
    let ring = || {
        let mut b = Begun::open();
        b.put(5_000);
        b.more = 500;
        b
    };
    at_each_change(1, ring, writes);
}

/// The first bytes wake the reader, and those behind them go into the ring.
#[test]
fn a_write_that_wakes_a_reader() {
    rounds(true, 5, || asleep(4_600), writes);
}

#[test]
fn a_short_write_that_wakes_a_reader() {
    at_each_change(5, || asleep(100), writes);
}
