//! `byway bench`: one part by itself and others that do the same in turn, in one table and, if wanted, one record.
//!
//! ```text
//! outcome.rs   how a benchmark went, and its exit status
//! baseline.rs  records that are saved by name
//! flags.rs     what a benchmark may be told; net.rs: those of the network
//! make.rs      each workload, from what it was told
//! against.rs   two records, and the exit status that follows
//! session.rs   runs any workload of the lab: cases, time, progress, tables, the record
//! seeds.rs     all workloads but services and originals, in the order of their sources
//! ```
//! Invariant: words that cannot be used, or a machine that cannot do it, end with status 2, a sentence and a remedy.
//! Each of these files uses only files above it in the list.
//! Not here: what is run and how it is counted (crate lab).
mod against;
mod baseline;
pub mod flags;
mod make;
pub mod net;
mod outcome;
mod seeds;
mod session;

use byway_lab::pairs::Bench;
use clap::Subcommand;
use flags::{Flex, Lines, Wanted};
use make::{Made, between, itself, lines, mbuf, native, originals, services, starts};
use outcome::status;
use std::path::PathBuf;

/// Measure one part by itself, against others that do the same
#[derive(Subcommand)]
pub enum What {
    /// The allocator, beside that of 2001, a fixed pool and two heaps
    Mbuf(Wanted),
    /// Messages through a FIFO, as a FreeBSD project had them in 2009
    Fifo(Wanted),
    /// Bytes one way through one pipe, by chunk size
    BwPipe(Wanted),
    /// Readers and writers that compute between their calls
    Pipeflex(Flex),
    /// One byte there and back, and to a reader that sleeps
    LatPipe(Wanted),
    /// `cat` of 50 MB into `grep` for what is not there
    Grep(Wanted),
    /// Pipes whose reader polls first: poll, epoll, node, asyncio
    Ready(Wanted),
    /// NetPIPE: blocks of 1 B to 8 MiB through sockets and pipes
    Netpipe(net::Pipe),
    /// netperf: streams and requests over TCP, UDP and UNIX sockets
    Netperf(net::Perf),
    /// A file of 520 MB from a real FTP server and to it
    Ftp(net::File),
    /// Real pipelines of the shell, plain and carried
    Pipeline(Lines),
    /// What the start of processes costs: loops, configure, make, xargs
    Start(Wanted),
    /// Redis, memcached, PostgreSQL and nginx over UNIX sockets
    Services(Wanted),
    /// The original tools: NPtcp, iperf3, sockperf, wrk, netperf
    Originals(Wanted),
    /// The native library's records and wake-ups, beside others'
    Native(Wanted),
    /// All of them, each beside its published table
    Seeds(seeds::Seeds),
    /// Two records: what has changed, and whether that is more than chance
    Compare(against::Files),
}

/// Runs it; the result is the exit status.
pub fn bench(what: &What) -> i32 {
    match what {
        What::Mbuf(w) => one(w, mbuf),
        What::Fifo(w) => one(w, |w| between(w, Bench::Fifo, None)),
        What::BwPipe(w) => one(w, |w| between(w, Bench::BwPipe, None)),
        What::Pipeflex(f) => one(&f.wanted, |w| {
            between(w, Bench::Pipeflex, Some(f.options()?))
        }),
        What::LatPipe(w) => one(w, |w| between(w, Bench::LatPipe, None)),
        What::Grep(w) => one(w, |w| between(w, Bench::Grep, None)),
        What::Ready(w) => one(w, |w| between(w, Bench::Ready, None)),
        What::Netpipe(n) => one(&n.wanted, |_| Ok(Box::new(n.workload(&itself()?)?))),
        What::Netperf(n) => one(&n.wanted, |_| Ok(Box::new(n.workload(&itself()?)?))),
        What::Ftp(f) => one(&f.wanted, |_| Ok(Box::new(f.workload(&itself()?)?))),
        What::Pipeline(l) => one(&l.wanted, |w| lines(w, l.size())),
        What::Start(w) => one(w, starts),
        What::Services(w) => one(w, services),
        What::Originals(w) => one(w, originals),
        What::Native(w) => one(w, native),
        What::Seeds(s) => status(seeds::run(s)),
        What::Compare(f) => status(against::files(f)),
    }
}

/// Makes a workload and runs it.
fn one(w: &Wanted, make: impl FnOnce(&Wanted) -> Made) -> i32 {
    status(make(w).and_then(|mut workload| session::run(workload.as_mut(), w)))
}

/// `byway demo`: the pipelines, so many counted runs of each.
pub fn demo(size: u64, runs: u16, json: Option<PathBuf>, quiet: bool, cases: Vec<String>) -> i32 {
    let wanted = Wanted {
        runs: Some(runs),
        json,
        quiet,
        cases,
        ..Wanted::default()
    };
    one(&wanted, |w| lines(w, size))
}
