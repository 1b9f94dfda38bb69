//! `bw-pipe`: how much one process sends another through one pipe, chunk by chunk (bw_pipe of lmbench).
//!
//! Invariant: the writer sends the same chunk again and again, the reader reads pieces of that size at most into the same
//! place: bytes are moved, not made or used. A run is from the first write to the last read, after some that warm up.
//! Not here: what a program makes of its bytes (grep.rs).
//!
//! `vmsplice` compares unfairly: its writer may not touch a chunk until it has been read, which write(2) does not ask.
//! `memcpy` is one copy by one thread, where a pipe makes two: from a chunk in the nearest cache to places that have long
//! left it, as those of a pipe have, since the reader had them last.
use super::link::{Kind, Link};
use super::pair;
use super::{Backend, Plan};
use crate::child::{Failure, now};
use crate::machine;
use crate::shared::Shared;

/// The sizes of the published results.
pub const CHUNKS: [usize; 10] = [
    2048, 4096, 6144, 8192, 12_288, 16_384, 24_576, 32_768, 65_536, 131_072,
];
pub const OVER: [&str; 2] = ["kernel-64k", "kernel-1m"];

/// Between those that are there on every machine comes what `byway run --pipe` knows.
pub fn backends(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = super::carried_pipes(pipes);
    v.extend(plain());
    v
}

/// The backends that are not our pipes; `grep` and `pipeflex` have them as well.
pub(super) fn plain() -> [Backend; 4] {
    [
        Backend::plain("kernel-64k", Kind::Pipe),
        Backend::plain("kernel-1m", Kind::Pipe1M),
        Backend::plain("vmsplice", Kind::Vmsplice),
        Backend::plain(super::BOUND, Kind::Nothing),
    ]
}

pub fn total(plan: &Plan) -> usize {
    if plan.quick { 32 << 20 } else { 128 << 20 }
}

/// Of so many bytes those that whole chunks fill: a chunk never lies over their end.
pub(super) fn whole(bytes: usize, chunk: usize) -> usize {
    bytes / chunk * chunk
}

/// Bytes that warm up.
const WARM: usize = 8 << 20;
/// Places that a vmsplicing writer sends in turn, so that none is sent again while it lies in the pipe.
pub(super) const SPLICED: usize = 1 << 20;
/// Places that `memcpy` fills in turn: more than the caches of a CPU that are its own.
const COLD: usize = 64 << 20;

/// The worker's part: MB/s.
///
/// # Errors
/// A process could not be started, or died.
pub fn work(kind: Kind, cpus: &[usize], chunk: usize, total: usize) -> Result<Vec<f64>, Failure> {
    if kind == Kind::Nothing {
        return copy(cpus[0], chunk, total);
    }
    let link = Link::new(kind, pair::apart(cpus))?;
    let ns = pair::one_way(
        cpus,
        [WARM as u64, total as u64],
        || {
            let span = if kind == Kind::Vmsplice {
                whole(SPLICED, chunk)
            } else {
                chunk
            };
            let memory = Shared::new(span)?;
            memory.populate()?;
            // SAFETY: our mapping, which nobody else writes.
            let from = unsafe { std::slice::from_raw_parts(memory.base() as *const u8, span) };
            let end = link.writer();
            Ok(move |bytes| {
                (0..bytes as usize / chunk).try_for_each(|i| {
                    let at = i * chunk % from.len();
                    end.put(&from[at..at + chunk])
                })
            })
        },
        || {
            let (end, mut into) = (link.reader(), vec![1; chunk]);
            Ok(move |bytes| pair::take(&end, &mut into, whole(bytes as usize, chunk) as u64))
        },
    )?;
    Ok(vec![pair::rate(whole(total, chunk) as u64, ns)])
}

fn copy(cpu: usize, chunk: usize, total: usize) -> Result<Vec<f64>, Failure> {
    machine::pin(cpu);
    let (from, mut into) = (vec![1u8; chunk], vec![1u8; whole(COLD, chunk)]);
    let mut pass = |bytes: usize| {
        for i in 0..bytes / chunk {
            let at = i * chunk % into.len();
            into[at..at + chunk].copy_from_slice(std::hint::black_box(&from));
        }
        std::hint::black_box(&into);
    };
    pass(COLD);
    let began = now();
    pass(total);
    Ok(vec![pair::rate(whole(total, chunk) as u64, now() - began)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_never_lies_over_the_end() {
        for c in CHUNKS {
            for bytes in [SPLICED, COLD, WARM] {
                let n = whole(bytes, c);
                assert!(n.is_multiple_of(c) && n <= bytes && bytes - n < c, "{c}");
            }
        }
    }

    #[test]
    fn every_published_size_is_measured() {
        let published = crate::published::tables("bw-pipe");
        let rows: Vec<_> = published[0].rows.iter().map(|r| r.0.clone()).collect();
        assert_eq!(rows, CHUNKS.map(|c| c.to_string()));
    }

    #[test]
    fn a_rate_is_in_million_bytes() {
        assert_eq!(pair::rate(2_000_000, 1_000_000_000), 2.0);
    }
}
