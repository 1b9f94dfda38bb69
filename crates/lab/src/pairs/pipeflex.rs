//! `pipeflex`: readers and writers that compute between their calls (pipeflex 1.0.0 of the Linux Scalability Effort).
//!
//! ```text
//! writer: computes -y us, writes -w bytes --a pipe for each two--> reader: reads up to -r bytes, computes -x us
//! ```
//! Invariant: a delay is CPU time of its process, from half of the mean to one and a half, the same in every run; bytes
//! count when they are read within the time. Processes run where the kernel puts them, within the CPUs given.
//! Not here: `-o` and `-m` of the original (output, O_NONBLOCK).
//!
//! `vmsplice` compares unfairly, as in bw_pipe.rs; and since the kernel takes each of its writes for a page, so many fewer bytes
//! lie in the pipe. `memcpy` is a bound where writers do not compute (-y 0), as in the published results: one process for
//! both, which copies what a read has within the nearest cache, a write's bytes at a time, and then computes as the reader does. No pipe
//! can do with less, on one CPU or two.
//!
//! Source: https://lse.sourceforge.net/pipe/Readme; the results in "Pipe performance results" are of
//! `pipeflex -c2 -t20 -x500 -y0 -r SIZE -w512`.
use super::link::{Kind, Link};
use super::pair::{self, Flow};
use super::{Backend, bw_pipe};
use crate::child::{self, Failure, Gate, Span, now, ran};
use byway_sys::clock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The read sizes of the published results.
pub const READS: [usize; 10] = [
    2048, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 65_536, 131_072,
];
pub const OVER: [&str; 2] = bw_pipe::OVER;

pub fn backends(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = super::carried_pipes(pipes);
    v.extend(bw_pipe::plain());
    v
}

/// The options, under the names that the original has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// -c: processes, two to a pipe.
    pub processes: usize,
    /// -t: how long a run is, ms.
    pub ms: u64,
    /// -x: mean time that a reader computes after a read, us.
    pub read_us: u64,
    /// -y: mean time that a writer computes before a write, us.
    pub write_us: u64,
    /// -r: bytes of a read.
    pub read: usize,
    /// -w: bytes of a write.
    pub write: usize,
}

impl Options {
    /// Those of the published results, but for the time: many short runs in turn in place of a long one.
    pub fn usual(quick: bool) -> Options {
        Options {
            processes: 2,
            ms: if quick { 40 } else { 150 },
            read_us: 500,
            write_us: 0,
            read: 0,
            write: 512,
        }
    }
}

/// Computes for `mean` us, give or take half.
fn compute(mean: u64, seed: &mut u64) {
    if mean == 0 {
        return;
    }
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    let until = ran() + mean * 500 + *seed % (mean * 1000);
    while ran() < until {
        (0..16).for_each(|_| clock::pause());
    }
}

/// The worker's part: MB/s of all pipes together.
///
/// # Errors
/// A process could not be started, or died.
pub fn work(kind: Kind, cpus: &[usize], o: Options) -> Result<Vec<f64>, Failure> {
    if kind == Kind::Nothing {
        return copy(cpus, o);
    }
    let links: Vec<Link> = (0..o.processes / 2)
        .map(|_| Link::new(kind, cpus.len()))
        .collect::<Result<_, _>>()?;
    let board = pair::board(o.processes)?;
    let flows: Vec<Flow> = board[..links.len()].iter().map(Flow::new).collect();
    let counts = &board[links.len()..];
    let places = vec![cpus; 2 * links.len()];
    child::group(&places, |i, gate: Gate| {
        let n = i / 2;
        let mut seed = seed(i);
        gate.pass();
        let until = now() + o.ms * 1_000_000;
        if i % 2 == 0 {
            let (end, mut buf, mut counted) = (links[n].reader(), vec![0; o.read], 0);
            flows[n].receive(&end, &mut buf, |got| {
                // After the time the rest is only taken away.
                if now() < until {
                    counted += got as u64;
                    compute(o.read_us, &mut seed);
                }
            })?;
            counts[n].store(counted, Relaxed);
        } else {
            let places = match kind {
                // Two at least, of messages that are larger.
                Kind::Vmsplice => bw_pipe::whole(bw_pipe::SPLICED, o.write).max(2 * o.write),
                _ => o.write,
            };
            let from = vec![1; places];
            flows[n].send(&links[n].writer(), &from, o.write, |_| {
                compute(o.write_us, &mut seed);
                now() >= until
            })?;
        }
        Ok(Span::default())
    })?;
    Ok(vec![rate(counts, o)])
}

/// What the delays of a process begin with.
fn seed(i: usize) -> u64 {
    0x9E37_79B9_7F4A_7C15 ^ (i as u64 + 1)
}

/// MB/s.
fn rate(counts: &[AtomicU64], o: Options) -> f64 {
    let bytes: u64 = counts.iter().map(|c| c.load(Relaxed)).sum();
    bytes as f64 / 1e3 / o.ms as f64
}

/// Without pipes: of each two processes one that computes for both, and copies once what the reader has.
fn copy(cpus: &[usize], o: Options) -> Result<Vec<f64>, Failure> {
    let counts = pair::board(o.processes / 2)?;
    let places = vec![cpus; counts.len()];
    child::group(&places, |n, gate: Gate| {
        let (from, mut into) = (vec![1u8; o.write], vec![0u8; o.read]);
        let (mut own, mut writers) = (seed(2 * n), seed(2 * n + 1));
        let mut counted = 0;
        gate.pass();
        let until = now() + o.ms * 1_000_000;
        while now() < until {
            for part in into.chunks_mut(o.write) {
                compute(o.write_us, &mut writers);
                part.copy_from_slice(&std::hint::black_box(&from)[..part.len()]);
            }
            std::hint::black_box(&into);
            counted += o.read as u64;
            compute(o.read_us, &mut own);
        }
        counts[n].store(counted, Relaxed);
        Ok(Span::default())
    })?;
    Ok(vec![rate(counts, o)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_within_its_bounds() {
        let mut seed = 7;
        for _ in 0..20 {
            let began = ran();
            compute(100, &mut seed);
            assert!(ran() - began >= 50_000);
        }
        let before = seed;
        compute(0, &mut seed);
        assert_eq!(seed, before);
    }
}
