//! A transfer from one pipe into another: what it moves at once, and what each pipe has when it is killed at any step.
//!
//! Invariant: no byte comes twice, and none out of order. A transfer that is killed between its two publications loses what
//! it had taken, as a read(2) and a write(2) do.
//! Not here: waits (tests/conformance/splice_waits.c).
mod common;

use byway_pipe::Caller;
use byway_pipe::copy::Iov;
use byway_pipe::transfer::{Moved, transfer};
use byway_sys::file;
use common::{Pipe, pipe_in};

fn pattern(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Two open pipes of one domain; the first has bytes that come from `pattern`.
fn two(n: usize) -> [Pipe; 2] {
    let d = common::domain();
    let both = [pipe_in(d), pipe_in(d)];
    let mut warm = vec![0; 4096];
    for p in &both {
        for _ in 0..20 {
            assert_eq!(p.put(&warm), 4096);
            assert_eq!(p.get(&mut warm), 4096);
        }
        assert!(!p.ch.tail().closed());
        for fd in [p.r, p.w] {
            // SAFETY: no pointers.
            unsafe { libc::fcntl(fd as i32, libc::F_SETFL, libc::O_NONBLOCK) };
        }
    }
    let bytes: Vec<u8> = (0..n).map(pattern).collect();
    assert_eq!(both[0].put(&bytes), n as isize);
    both
}

fn moves(both: &[Pipe; 2], want: usize) -> Moved {
    moves_by(both, want, &mut vec![0; 65536])
}

fn moves_by([from, to]: &[Pipe; 2], want: usize, own: &mut [u8]) -> Moved {
    let aside = Iov {
        base: own.as_mut_ptr() as usize,
        len: own.len(),
    };
    let me = Caller {
        rseq: false,
        ..common::me(from.d)
    };
    transfer(&me, (from.ch, from.r), (to.ch, to.w), want, aside)
}

/// What `p` has left; `None`: nothing came.
fn rest(p: &Pipe) -> Vec<u8> {
    let mut all = Vec::new();
    let mut b = vec![0; 65536];
    while let n @ 1.. = p.get(&mut b) {
        all.extend(&b[..n as usize]);
    }
    all
}

#[test]
fn as_much_as_is_asked_for_or_there() {
    let both = two(30_000);
    assert_eq!(moves(&both, 20_000), Moved::Bytes(20_000));
    assert_eq!(moves(&both, 20_000), Moved::Bytes(10_000));
    assert_eq!(moves(&both, 20_000), Moved::Nothing);
    assert!(rest(&both[1]).into_iter().eq((0..30_000).map(pattern)));
    assert!(both.iter().all(|p| !p.ch.tail().closed()));
}

#[test]
fn as_much_as_there_is_room_for() {
    let both = two(30_000);
    let page = [0u8; 4096];
    while both[1].put(&page) == 4096 {}
    assert_eq!(moves(&both, 20_000), Moved::NoRoom);
    assert!(rest(&both[0]).into_iter().eq((0..30_000).map(pattern)));
}

/// As in tests/killed.rs.
mod killed {
    use super::*;
    use byway_pipe::copy::Buffers;
    use byway_pipe::read::{self, Armed};
    use byway_pipe::{Step, handback};

    /// What another process can see of both.
    fn state(both: &[Pipe; 2]) -> Vec<u64> {
        let of = |p: &Pipe| {
            let ch = p.ch;
            [
                ch.tail().0,
                ch.head().0,
                ch.chunk().0,
                file::fionread(p.r) as u64,
            ]
        };
        both.iter().flat_map(of).collect()
    }

    /// Runs a transfer in a process that is killed at its `k`th change. False: it ended before.
    fn killed_at(k: usize, both: &[Pipe; 2]) -> bool {
        // SAFETY: the child leaves by _exit; the tracer's calls are of our child.
        unsafe {
            let mut own = vec![0; 65536];
            let pid = libc::fork();
            if pid == 0 {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::raise(libc::SIGSTOP);
                moves_by(both, 6_000, &mut own);
                libc::_exit(0);
            }
            let (mut status, mut changes) = (0, 0);
            let mut was = state(both);
            loop {
                assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                if !libc::WIFSTOPPED(status) {
                    assert_eq!(status, 0);
                    return false;
                }
                let now = state(both);
                if now != was {
                    (was, changes) = (now, changes + 1);
                }
                if changes == k {
                    libc::kill(pid, libc::SIGKILL);
                    assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
                    return true;
                }
                libc::ptrace(libc::PTRACE_SINGLESTEP, pid, 0, 0);
            }
        }
    }

    /// A reader of the target that counts as asleep.
    fn sleeps(to: &Pipe) -> Armed {
        let mut b = [0u8; 1];
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: 65536,
        }];
        let mut armed = Armed::NOT;
        let step = read::read(
            &to.me(),
            to.ch,
            to.r,
            Buffers::new(&v),
            65536,
            0,
            &mut armed,
        );
        assert!(step == Step::NativeCounted && armed.was_open());
        armed
    }

    /// `most`: changes between the taking and the last publication.
    fn at_each_change(least: usize, most: usize, asleep: bool) {
        // SAFETY: no pointers. A wrong state may be waited for without an end.
        unsafe { libc::alarm(120) };
        let (mut k, mut whole) = (1, 0);
        loop {
            let both = two(9_000);
            let armed = asleep.then(|| sleeps(&both[1]));
            let was_killed = killed_at(k, &both);
            let mut came = Vec::new();
            if let Some(armed) = armed {
                let mut b = vec![0u8; 65536];
                // SAFETY: our own fd and buffer.
                let n = unsafe { libc::read(both[1].r as i32, b.as_mut_ptr().cast(), b.len()) };
                read::finish(&both[1].me(), both[1].ch, armed, n);
                came.extend(&b[..n.max(0) as usize]);
            }
            for p in &both {
                handback::settle(&p.me(), p.ch, p.r);
            }
            came.extend(rest(&both[1]));
            let left = rest(&both[0]);
            assert!(came.iter().copied().eq((0..came.len()).map(pattern)), "{k}");
            let from = 9_000 - left.len();
            assert!(left.iter().copied().eq((from..9_000).map(pattern)), "{k}");
            assert!(
                came.len() <= from && from <= 6_000,
                "{k}: {} {from}",
                came.len()
            );
            whole += usize::from(came.len() == from);
            for p in &both {
                file::close(p.r);
                file::close(p.w);
            }
            if !was_killed {
                break;
            }
            k += 1;
        }
        assert!(k > least, "{k}");
        assert!(whole + most >= k, "{whole} of {k}");
    }

    #[test]
    fn into_a_ring() {
        at_each_change(3, 2, false);
    }

    #[test]
    fn to_a_reader_asleep() {
        at_each_change(4, 5, true);
    }
}
