//! `lat-pipe`: one byte from one process to another, and back (lat_pipe of lmbench).
//!
//! ```text
//! spin    round trip: one byte there, one back, without a pause; each waits for the other all the time
//! sleep   one way: the reader has been asleep for a while when the byte is written, and the kernel has to wake it
//! ```
//! Invariant: `sleep` is from before the write to after the read, by the clock that both processes share. There the core and the kernel
//! are measured in turn by one pair of processes: two pairs differ by more than those two do. A byte stays as it is until it
//! has been read, which vmsplice asks for.
//! Not here: whole programs (pingpong.rs for the demo uses the same loop).
use super::link::{Kind, Link};
use super::pair;
use super::ready::work::Set;
use super::turns::turns;
use super::{Backend, Plan};
use crate::child::{Failure, now};
use crate::stats;
use byway_sys::process;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub const CASES: [&str; 2] = ["spin", "sleep"];
/// Who has what a user has: elsewhere that is called `auto`.
pub const AUTO: &str = "byway-preload";
pub const OVER: [&str; 2] = ["kernel", "kernel-1m"];

/// Those that are there on every machine, and of our pipe's variants those of `pipes`.
pub fn backends(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = vec![
        Backend::carried(AUTO, Kind::Pipe, &[]),
        Backend::plain("byway-core", Kind::Core),
    ];
    // How much a pipe holds is nothing to a byte.
    v.extend(super::variants(pipes).filter(|b| b.name != super::PAGE));
    v.extend([
        Backend::plain("kernel", Kind::Pipe),
        Backend::plain("kernel-1m", Kind::Pipe1M),
        Backend::plain("vmsplice", Kind::Vmsplice),
    ]);
    v
}

/// Round trips of a run; bytes to sleepers, and the pause before each, us.
pub fn trips(plan: &Plan) -> u64 {
    if plan.quick { 2000 } else { 10_000 }
}
pub fn wakes(plan: &Plan) -> usize {
    if plan.quick { 100 } else { 500 }
}
pub const PAUSE_US: u64 = 200;

/// What reads from `link`; where `told`, after a wait in epoll_wait(2).
fn reader(link: &Link, told: bool) -> Result<impl FnMut(&mut [u8]) -> io::Result<usize>, Failure> {
    let (end, [r, _]) = (link.reader(), link.descriptors());
    let mut set = told.then(|| Set::of([r].into_iter())).transpose()?;
    Ok(move |b: &mut [u8]| {
        if let Some(set) = &mut set {
            let _told = set.wait()?;
        }
        end.get(b)
    })
}

/// The worker's part of `spin`: us of a round trip, from `trips` of them after a tenth as many unmeasured. `told`: each
/// side waits in epoll_wait(2) before it reads.
///
/// # Errors
/// A process could not be started, or died.
pub fn spin(kind: Kind, cpus: &[usize], trips: u64, told: bool) -> Result<Vec<f64>, Failure> {
    let n = pair::apart(cpus);
    let (to, fro) = (Link::new(kind, n)?, Link::new(kind, n)?);
    let time = &pair::board(1)?[0];
    let warm = trips / 10;
    pair::pair(
        cpus,
        |gate| {
            let (out, mut get) = (to.writer(), reader(&fro, told)?);
            gate.pass();
            let mut began = now();
            for i in 0..warm + trips {
                if i == warm {
                    began = now();
                }
                let (a, mut b) = ([i as u8], [0]);
                out.put(&a)?;
                get(&mut b)?;
                if a != b {
                    return Err(Failure::Said("a byte came back wrong".into()));
                }
            }
            time.store(now() - began, Relaxed);
            Ok(())
        },
        |gate| {
            let (mut get, back) = (reader(&to, told)?, fro.writer());
            // Not set to nothing in between: it is only known to be read when the next byte has come. Of the last one that
            // is never known here, so its memory is never given back: this process's stack would be used anew.
            let b = Box::leak(Box::new([0]));
            gate.pass();
            for _ in 0..warm + trips {
                get(b)?;
                back.put(b)?;
            }
            Ok(())
        },
    )?;
    Ok(vec![time.load(Relaxed) as f64 / 1e3 / trips as f64])
}

/// Seconds of a round trip through pipes, whoever carries them.
///
/// # Errors
/// As `spin`.
pub fn between(cpus: &[usize], trips: u64) -> Result<f64, Failure> {
    Ok(spin(Kind::Pipe, cpus, trips, false)?[0] / 1e6)
}

/// In `sleep`, those that one worker measures: it has the pipe of the first, and beside it the kernel's.
pub const TOGETHER: [&str; 2] = ["byway-core", "kernel"];

/// The worker's part of `sleep`: for each kind of pipe the median us from write to read of `wakes` bytes, `pause` us apart.
/// `told`: the reader waits in epoll_wait(2) before it reads.
///
/// # Errors
/// As `spin`.
pub fn sleep(
    kinds: &[Kind],
    cpus: &[usize],
    wakes: usize,
    pause: u64,
    told: bool,
) -> Result<Vec<f64>, Failure> {
    let n = pair::apart(cpus);
    let links: Vec<_> = (kinds.iter().map(|&k| Link::new(k, n))).collect::<Result<_, _>>()?;
    let order = turns(links.len(), wakes);
    let board: &[AtomicU64] = pair::board(1 + order.len())?;
    let (arrived, times) = (&board[0], &board[1..]);
    pair::pair(
        cpus,
        |gate| {
            let out: Vec<_> = links.iter().map(Link::writer).collect();
            gate.pass();
            for (i, (pipe, _)) in order.iter().enumerate() {
                let (out, byte) = (&out[*pipe], [i as u8]);
                process::nap(pause);
                let began = now();
                out.put(&byte)?;
                // ORDER: the time that the reader left comes with its count.
                while arrived.load(Acquire) <= i as u64 {
                    process::nap(pause / 4);
                }
                times[i].store(times[i].load(Relaxed) - began, Relaxed);
            }
            Ok(())
        },
        |gate| {
            let all = links.iter().map(|link| reader(link, told));
            let mut from = all.collect::<Result<Vec<_>, _>>()?;
            gate.pass();
            for (i, (pipe, _)) in order.iter().enumerate() {
                from[*pipe](&mut [0])?;
                times[i].store(now(), Relaxed);
                // ORDER: as above.
                arrived.store(i as u64 + 1, Release);
            }
            Ok(())
        },
    )?;
    let of = |pipe: usize| {
        let own = order.iter().zip(times).filter(|(o, _)| **o == (pipe, true));
        let us: Vec<_> = own.map(|(_, t)| t.load(Relaxed) as f64 / 1e3).collect();
        stats::median(&us)
    };
    Ok((0..links.len()).map(of).collect())
}
