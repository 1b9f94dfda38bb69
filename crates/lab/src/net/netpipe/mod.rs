//! `netpipe`: NetPIPE's curve, block by block, through sockets, pipes, pipes that Byway carries, and what allocators give.
//!
//! ```text
//! block   a block goes and comes back, half of that is its time (NPtcp)
//! stream  blocks go one way, the receiver tells how long they took (NPtcp -s)
//! ```
//! Invariant: each backend of a round measures the same sizes, in new processes; a curve is the median of the rounds'.
//! Not here: the two sides (sides.rs), the allocators' way (chain.rs), what a curve says (curve.rs), how it is shown (text.rs).
//!
//! Source: NetPIPE 3.7.2 (netpipe(1) of Debian's netpipe-tcp; Snell, Mikler, Gustafson 1996).
mod chain;
pub mod curve;
pub mod sides;
pub mod sizes;
pub mod text;
pub mod workload;

use super::duplex::{Duplex, Links};
use super::socket::{self, Buffers};
use super::{Backend, Way};
use crate::child::Failure;
use crate::mbuf::{heaps::Malloc, ours::MbAlloc, present::Present};
use crate::pairs::link::Kind;
use crate::pairs::pair;
use serde::{Deserialize, Serialize};
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

pub const CASES: [&str; 2] = ["block", "stream"];

/// In one machine: each way of the kernel's, and the same under `byway run`.
pub const HERE: [Backend; 10] = [
    Backend::plain("tcp", Way::Tcp),
    Backend::carried("byway-tcp", Way::Tcp),
    Backend::plain("unix", Way::Unix),
    Backend::carried("byway-unix", Way::Unix),
    Backend::plain("pipe", Way::Pipe),
    Backend::carried("byway-pipe", Way::Pipe),
    Backend::plain("byway-core", Way::Core),
    Backend::plain("mb_alloc", Way::MbAlloc),
    Backend::plain("present", Way::Present),
    Backend::plain("malloc", Way::Malloc),
];
/// Between two hosts.
pub const HOSTS: [Backend; 2] = [
    Backend::plain("tcp", Way::Tcp),
    Backend::carried("byway-tcp", Way::Tcp),
];

/// What NPtcp may be told as well.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// `-s`.
    pub stream: bool,
    /// `-l`, `-u`: bytes.
    pub lower: usize,
    pub upper: usize,
    /// `-p`.
    pub perturbation: usize,
    /// `-n`; 0: as many as fill `time`.
    pub repeats: u64,
    pub time: Duration,
    /// `-i`: check what arrives; the times are then of no use.
    pub check: bool,
    /// `-b`, of TCP and UNIX sockets.
    pub buffers: Buffers,
}

impl Options {
    pub fn usual(quick: bool) -> Options {
        Options {
            stream: false,
            lower: 1,
            upper: 8 << 20,
            perturbation: if quick { 0 } else { 3 },
            repeats: 0,
            time: Duration::from_millis(if quick { 2 } else { 5 }),
            check: false,
            buffers: Buffers::default(),
        }
    }

    pub fn sizes(&self) -> Vec<usize> {
        sizes::sizes(self.lower, self.upper, self.perturbation)
    }

    /// Whether they can be met.
    ///
    /// # Errors
    /// A sentence: which cannot, and what can.
    pub fn possible(&self) -> Result<(), String> {
        if self.lower == 0 || self.lower > self.upper {
            return Err(format!(
                "-l {} -u {}: there is no block between them; give -l at least 1 and -u not less",
                self.lower, self.upper
            ));
        }
        // Three more bytes of the largest block, or what -p says, are a block too.
        if self.upper + self.perturbation > sides::MOST_BYTES {
            return Err(format!(
                "-u {}: a block has {} MiB at most, with what -p adds; give -u {} or less",
                self.upper,
                sides::MOST_BYTES >> 20,
                sides::MOST_BYTES - self.perturbation.min(sides::MOST_BYTES)
            ));
        }
        Ok(())
    }
}

/// The worker's part: ns of a block of each size.
///
/// # Errors
/// What went wrong in it.
pub fn work(way: Way, cpus: &[usize], o: &Options) -> Result<Vec<f64>, Failure> {
    let n = pair::apart(cpus);
    // Open for the life of the process, which is one run.
    let sockets = |pair: [socket2::Socket; 2]| Ends::Sockets(pair.map(IntoRawFd::into_raw_fd));
    let ends = match way {
        Way::MbAlloc => return chain::work::<MbAlloc>(cpus, o),
        Way::Present => return chain::work::<Present>(cpus, o),
        Way::Malloc => return chain::work::<Malloc>(cpus, o),
        Way::Pipe => Ends::Links(Links::new(Kind::Pipe, n)?),
        Way::Core => Ends::Links(Links::new(Kind::Core, n)?),
        Way::Unix => sockets(socket::unix_pair(o.buffers)?),
        Way::Tcp => sockets(socket::tcp_pair(o.buffers)?),
    };
    between(&ends, cpus, o)
}

/// The same of two processes.
fn between(ends: &Ends, cpus: &[usize], o: &Options) -> Result<Vec<f64>, Failure> {
    let sizes = o.sizes();
    let times = pair::board(sizes.len() + 1)?;
    pair::pair(
        cpus,
        |gate| {
            let d = ends.side(0);
            gate.pass();
            let v = sides::transmit(&d, &sizes, o)?;
            times[0].store(v.len() as u64, Relaxed);
            for (word, ns) in times[1..].iter().zip(&v) {
                word.store(ns.to_bits(), Relaxed);
            }
            Ok(())
        },
        |gate| {
            let d = ends.side(1);
            gate.pass();
            sides::receive(&d)
        },
    )?;
    let n = times[0].load(Relaxed) as usize;
    let ns = |w: &std::sync::atomic::AtomicU64| f64::from_bits(w.load(Relaxed));
    Ok(times[1..=n].iter().map(ns).collect())
}

/// What two processes that are forked from this one have between them.
#[derive(Clone, Copy)]
enum Ends {
    Links(Links),
    Sockets([i32; 2]),
}

impl Ends {
    fn side(&self, i: usize) -> Duplex {
        match self {
            Ends::Links(l) => l.side(i),
            Ends::Sockets(s) => Duplex::socket(s[i]),
        }
    }
}

/// The same against a host that serves.
///
/// # Errors
/// What went wrong in it.
pub fn against(peer: &socket2::Socket, o: &Options) -> Result<Vec<f64>, Failure> {
    peer.set_tcp_nodelay(true)?;
    sides::transmit(&Duplex::socket(peer.as_raw_fd()), &o.sizes(), o)
}

/// Serves that.
///
/// # Errors
/// What went wrong in it.
pub fn serve(peer: &socket2::Socket) -> Result<(), Failure> {
    peer.set_tcp_nodelay(true)?;
    sides::receive(&Duplex::socket(peer.as_raw_fd()))
}
