//! `byway bench`: one part by itself and others that do the same in turn, in one table and, if wanted, one record.
//!
//! ```text
//! flags.rs     what a benchmark may be told; net.rs: those of the network
//! session.rs   runs any workload of the lab: cases, time, progress, tables, the record
//! seeds.rs     all workloads, in the order of their sources
//! baseline.rs  records kept by name
//! against.rs   two records, and the exit status that follows
//! ```
//! Invariant: words that cannot be used, or a machine that cannot do it, end with status 2, a sentence and a remedy.
//! Not here: what is run and how it is counted (crate lab).
mod against;
mod baseline;
pub mod flags;
pub mod net;
mod seeds;
mod session;

use byway_lab::mbuf::Mbuf;
use byway_lab::native::Native;
use byway_lab::net::ftp::Ftp;
use byway_lab::net::netperf::workload::Netperf;
use byway_lab::net::netpipe::workload::Netpipe;
use byway_lab::pairs::pipeflex::Options;
use byway_lab::pairs::start::Byway;
use byway_lab::pairs::{self, Bench, Pairs};
use byway_lab::workload::Workload;
use byway_lab::workload::pipeline::Pipelines;
use clap::Subcommand;
use flags::{Flex, Lines, Wanted};
use session::Done;
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
    /// NetPIPE: blocks of 1 B to 8 MiB through sockets and pipes
    Netpipe(net::Pipe),
    /// netperf: streams and requests over TCP, UDP and UNIX sockets
    Netperf(net::Perf),
    /// A file of 520 MB from a real FTP server and to it
    Ftp(net::File),
    /// Real pipelines of the shell, plain and carried
    Pipeline(Lines),
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
        What::Netpipe(n) => one(&n.wanted, |_| Ok(Box::new(n.workload(&itself()?)?))),
        What::Netperf(n) => one(&n.wanted, |_| Ok(Box::new(n.workload(&itself()?)?))),
        What::Ftp(f) => one(&f.wanted, |_| Ok(Box::new(f.workload(&itself()?)?))),
        What::Pipeline(l) => one(&l.wanted, |w| lines(w, l.size())),
        What::Native(w) => one(w, native),
        What::Seeds(s) => status(seeds::run(s)),
        What::Compare(f) => status(against::files(f)),
    }
}

type Made = Result<Box<dyn Workload>, String>;

/// This program, which is what a workload starts.
fn itself() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|e| format!("it cannot find itself: {e}"))
}

fn mbuf(w: &Wanted) -> Made {
    Ok(Box::new(Mbuf::new(w.places()?, w.quick)))
}

fn between(w: &Wanted, bench: Bench, flex: Option<Options>) -> Made {
    let byway = Byway::new(&itself()?);
    let mut plan = pairs::Plan::new(w.places()?, w.quick);
    plan.flex = flex.unwrap_or(plan.flex);
    plan.pipes = byway.pipes();
    Ok(Box::new(Pairs::new(bench, plan, byway)))
}

fn native(w: &Wanted) -> Made {
    Ok(Box::new(Native::new(w.places()?, w.quick)))
}

fn lines(w: &Wanted, size: u64) -> Made {
    let byway = itself()?;
    Ok(Box::new(Pipelines::new(&byway, w.places()?, size, w.quick)))
}

fn netpipe(w: &Wanted) -> Made {
    let options = byway_lab::net::netpipe::Options::usual(w.quick);
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Netpipe::new(place, options, w.quick, &[])?))
}

fn netperf(w: &Wanted) -> Made {
    let options = byway_lab::net::netperf::Options::usual(w.quick);
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Netperf::new(place, options, w.quick, &[])?))
}

fn ftp(w: &Wanted) -> Made {
    let place = net::here(w, &itself()?)?;
    Ok(Box::new(Ftp::new(
        place,
        net::megabytes(w.quick),
        w.quick,
        &[],
    )?))
}

/// Makes a workload and runs it.
fn one(w: &Wanted, make: impl FnOnce(&Wanted) -> Made) -> i32 {
    status(make(w).and_then(|mut workload| session::run(workload.as_mut(), w)))
}

/// The exit status, with the sentence that belongs to it.
fn status(done: Result<Done, String>) -> i32 {
    match done {
        Ok(Done::Well) => 0,
        Ok(Done::Wrong) => 1,
        // As a shell has it of who ends by SIGINT.
        Ok(Done::Interrupted) => 130,
        Err(e) => {
            eprintln!("byway: bench: {e}");
            2
        }
    }
}

/// `byway demo`: the pipelines, so many counted runs of each.
pub fn demo(size: u64, runs: u16, json: Option<PathBuf>, cases: Vec<String>) -> i32 {
    let wanted = Wanted {
        runs: Some(runs),
        json,
        cases,
        ..Wanted::default()
    };
    one(&wanted, |w| lines(w, size))
}
