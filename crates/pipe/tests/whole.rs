//! Writes that are too short to go direct take the short way, wherever the header says that direct ones begin.
//!
//! Not here: single copies themselves (stream.rs).
#![cfg(not(miri))]
mod common;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::policy;
use common::{Pipe, pipe};
use std::sync::atomic::Ordering::Relaxed;

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
