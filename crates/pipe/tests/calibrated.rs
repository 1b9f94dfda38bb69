//! A wait spins as long as the domain's header says, within the bounds of the policy's own; writes that are too short to go direct take the
//! short way, wherever the header says that direct ones begin.
//!
//! Not here: what is measured (crate cli, calibration.rs).
#![cfg(not(miri))]
mod common;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::policy;
use byway_sys::clock;
use common::{Pipe, pipe};
use std::sync::atomic::Ordering::Relaxed;

/// Cycles of a microsecond, as the header has it: what a wait takes is counted in those, not in time. As many as it may have, so that what a
/// wait takes besides is a small part of one.
const US: u64 = 20_000;

/// The shortest of many waits in vain for a writer on another CPU, in such microseconds.
fn shortest(spin_us: u32) -> u64 {
    let p = Pipe { cpus: 2, ..pipe() };
    let head = p.d.header();
    head.cpus.store(2, Relaxed);
    head.cycles_per_us.store(US as u32, Relaxed);
    head.spin_us.store(spin_us, Relaxed);
    let waits = (0..100).map(|_| {
        // A CPU that there is not; and spinning has helped before.
        p.ch.m.0.writer_cpu.set(4000);
        p.ch.reader.0.history.store(256, Relaxed);
        let began = clock::now();
        assert!(!policy::reader_waits(&p.me(), p.ch, || false));
        clock::now() - began
    });
    waits.min().unwrap_or(0) / US
}

#[test]
fn a_wait_spins_as_long_as_the_header_says() {
    // Each spins so long at least; what a machine that does something else adds is not in the shortest of many.
    for us in [2, 7, 15] {
        let took = shortest(us);
        assert!((u64::from(us)..20).contains(&took), "{us}: {took}");
    }
    // None was measured, or a peer wrote nonsense there: as without.
    for us in [0, 20, 21, 1000, u32::MAX] {
        let took = shortest(us);
        assert!((20..1000).contains(&took), "{us}: {took}");
    }
}

#[test]
fn what_never_goes_direct_is_published_whole() {
    const ONE_CPU: usize = 256 << 10;
    let p = Pipe { cpus: 1, ..pipe() };
    for (from, whole) in [
        (0, ONE_CPU),
        (1, PIPE_BUF),
        (64 << 10, PIPE_BUF),
        (ONE_CPU, PIPE_BUF),
        (ONE_CPU + 1, ONE_CPU),
        (1 << 20, ONE_CPU),
        (u32::MAX as usize, ONE_CPU),
    ] {
        p.d.header().direct_from.store(from as u32, Relaxed);
        assert_eq!(policy::whole(&p.me()), whole, "from {from}");
    }
}
