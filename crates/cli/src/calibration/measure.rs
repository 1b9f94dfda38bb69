//! Two measurements of a machine: what a wake-up from CPU to CPU takes, and whether one copy by the kernel is faster than two by a process.
//!
//! Invariant: each ends in time, and leaves nothing: its threads end with it, its pipe is the kernel's own.
//! Not here: what follows from the figures (calibration.rs).
use byway_lab::machine::{allowed, bind};
use byway_sys::{clock, process};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

/// Of each of the two, at most.
const TIME: Duration = Duration::from_millis(20);
const WAKES: usize = 40;
/// Who sleeps according to the kernel is off its CPU so much later; an interval at which others wake too.
const ASLEEP: Duration = Duration::from_micros(20);
const ROUNDS: usize = 9;
const MIB: usize = 1 << 20;
/// As one CPU has it (crate pipe: policy.rs), and what a reader takes of an offer at once (direct.rs).
const RING: usize = 256 << 10;
const PIECE: usize = 128 << 10;

/// Wake-ups: how many, and their quartiles, ns.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Wakes {
    pub n: u64,
    pub low: u64,
    pub middle: u64,
    pub high: u64,
}

/// Rounds of both ways to move 1 MiB: how many, the median of each, ns, and in how many the one copy took longer.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Pulls {
    pub n: u64,
    pub ring: u64,
    pub pull: u64,
    pub lost: u64,
}

/// The value that so many quarters are below.
fn quartile(sorted: &[u64], quarters: usize) -> u64 {
    let at = sorted.len() * quarters / 4;
    sorted
        .get(at.min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(0)
}

/// What the sleeper tells of itself: first its number, then when it woke, and where.
enum News {
    Thread(u32),
    Woke(Instant, u32),
}

/// From a write of one byte until the read that slept for it is over, on another CPU. `None` where there is no other, or
/// threads cannot be had.
pub fn wakes() -> Option<Wakes> {
    let cpus = allowed();
    // The first two are often one core's; the first and the last seldom.
    let (&a, &b) = (cpus.first()?, cpus.last()?);
    if a == b {
        return None;
    }
    let (end, other) = std::io::pipe().ok()?;
    let (tell, told) = channel();
    let mut all = scope(|s| {
        // Whatever ends the one who wakes ends the pipe, and with it the one who sleeps.
        let sleeps = Builder::new().spawn_scoped(s, move || sleep(b, end, &tell));
        let wakes = Builder::new().spawn_scoped(s, move || wake(a, other, &told));
        sleeps.ok()?;
        wakes.ok()?.join().ok()
    })?;
    all.sort_unstable();
    Some(Wakes {
        n: all.len() as u64,
        low: quartile(&all, 1),
        middle: quartile(&all, 2),
        high: quartile(&all, 3),
    })
}

fn sleep(cpu: usize, mut end: PipeReader, tell: &Sender<News>) {
    bind(&[cpu]);
    let mut news = News::Thread(process::gettid());
    let mut byte = [0u8];
    while tell.send(news).is_ok() && end.read_exact(&mut byte).is_ok() {
        news = News::Woke(Instant::now(), clock::now_cpu().1);
    }
}

/// Each time in ns. Fewer than wanted where the time is over, or the kernel does not say who sleeps.
fn wake(cpu: usize, mut end: PipeWriter, told: &Receiver<News>) -> Vec<u64> {
    bind(&[cpu]);
    let until = Instant::now() + TIME;
    let mut all = Vec::with_capacity(WAKES);
    let Ok(News::Thread(tid)) = told.recv() else {
        return all;
    };
    let Ok(stat) = File::open(format!("/proc/self/task/{tid}/stat")) else {
        return all;
    };
    while all.len() < WAKES && is_asleep(&stat, until) {
        let seen = Instant::now();
        while seen.elapsed() < ASLEEP {
            clock::pause();
        }
        let (here, began) = (clock::now_cpu().1, Instant::now());
        if end.write_all(&[0]).is_err() {
            break;
        }
        let Ok(News::Woke(woke, there)) = told.recv() else {
            break;
        };
        if here != there {
            all.push(woke.saturating_duration_since(began).as_nanos() as u64);
        }
    }
    all
}

/// Waits until the thread of this /proc/.../stat sleeps; false when that is not before `until`.
fn is_asleep(stat: &File, until: Instant) -> bool {
    while Instant::now() < until {
        let mut text = [0u8; 64];
        let n = stat.read_at(&mut text, 0).unwrap_or(0);
        // The name may hold anything, so the state is the letter after the last ')'.
        let name = text[..n].iter().rposition(|&c| c == b')');
        if name.is_some_and(|i| text.get(i + 2) == Some(&b'S')) {
            return true;
        }
    }
    false
}

/// 1 MiB in two copies, by way of a ring, against the same in one, by the kernel: in turn, on the CPU that this is. `None` where the
/// kernel does not let a process read another's memory.
pub fn pulls() -> Option<Pulls> {
    let until = Instant::now() + TIME;
    let from = vec![1u8; MIB];
    let (mut ring, mut to) = (vec![2u8; RING], vec![3u8; MIB]);
    let mut rounds = Vec::with_capacity(ROUNDS);
    // The first one finds the caches cold, and counts for nothing.
    for round in 0..=ROUNDS {
        let mut times = [0u64; 2];
        // Each is the first in every other one.
        for way in [round & 1, round & 1 ^ 1] {
            let began = Instant::now();
            match way {
                0 => copy_twice(&from, &mut ring, &mut to),
                _ => pull(&from, &mut to)?,
            }
            times[way] = began.elapsed().as_nanos() as u64;
        }
        if round > 0 {
            rounds.push(times);
        }
        if Instant::now() > until {
            break;
        }
    }
    let median = |way: usize| {
        let mut all: Vec<u64> = rounds.iter().map(|t| t[way]).collect();
        all.sort_unstable();
        quartile(&all, 2)
    };
    Some(Pulls {
        n: rounds.len() as u64,
        ring: median(0),
        pull: median(1),
        lost: rounds.iter().filter(|t| t[1] > t[0]).count() as u64,
    })
}

/// As crate pipe copies (copy.rs).
fn copy(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    // SAFETY: two slices of one length, of which one is ours alone; the ABI keeps the direction flag clear.
    unsafe {
        std::arch::asm!("rep movsb", inout("rcx") to.len() => _, inout("rdi") to.as_mut_ptr() => _,
                        inout("rsi") from.as_ptr() => _, options(nostack, preserves_flags));
    }
}

fn copy_twice(from: &[u8], ring: &mut [u8], to: &mut [u8]) {
    for (from, to) in from.chunks(RING).zip(to.chunks_mut(RING)) {
        copy(ring, from);
        copy(to, ring);
    }
}

/// As a reader takes an offer: piece by piece; here of its own memory, which the kernel copies in the same way.
fn pull(from: &[u8], to: &mut [u8]) -> Option<()> {
    for (from, to) in from.chunks(PIECE).zip(to.chunks_mut(PIECE)) {
        let local = libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: to.len(),
        };
        let remote = libc::iovec {
            iov_base: from.as_ptr().cast_mut().cast(),
            iov_len: from.len(),
        };
        // SAFETY: both are slices of ours, and the one that is written is ours alone.
        let n = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
        if n != to.len() as isize {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles() {
        assert_eq!(quartile(&[], 2), 0);
        assert_eq!(quartile(&[7], 3), 7);
        let all: Vec<u64> = (0..40).collect();
        assert_eq!([1, 2, 3].map(|q| quartile(&all, q)), [10, 20, 30]);
    }

    #[test]
    fn both_ways_move_every_byte() {
        let from: Vec<u8> = (0..MIB).map(|i| (i % 251) as u8).collect();
        let (mut ring, mut to) = (vec![0u8; RING], vec![0u8; MIB]);
        copy_twice(&from, &mut ring, &mut to);
        assert!(to == from);
        to.fill(0);
        if pull(&from, &mut to).is_some() {
            assert!(to == from);
        }
    }

    #[test]
    fn wakes_are_of_a_sleeper_on_another_cpu() {
        let mask = allowed();
        match wakes() {
            None => assert_eq!(mask.len(), 1),
            Some(w) => {
                assert!(w.n <= WAKES as u64 && w.low <= w.middle && w.middle <= w.high);
                // Nothing comes from one CPU to another, through two calls of the kernel, in less.
                assert!(w.n == 0 || w.low > 100);
            }
        }
        assert_eq!(allowed(), mask, "the caller's own CPUs");
    }
}
