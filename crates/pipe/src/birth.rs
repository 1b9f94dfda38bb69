//! How a channel comes into being: a slot is claimed, filled, and then can be found.
//!
//! Invariant: nobody finds a slot before it is filled.
//! Not here: which processes use the channel (fifo.rs, the preload library), its slots (crate mem, registry.rs).
use crate::channel::{Channel, Holders};
use byway_mem::domain::Domain;
use byway_mem::registry;
use byway_sys::file::{self, F_GETPIPE_SZ, Ident};
use core::sync::atomic::Ordering::Relaxed;

/// What a new pipe of the kernel's holds, where it does not say.
const KERNEL: usize = 65536;

/// The two channels of a connection of stream sockets, `one` and `other`, whose send buffers are the kernel's. False: it
/// stays the kernel's.
pub fn pair_born(d: Domain, one: Ident, other: Ident, run: u32) -> bool {
    let born = |from: Ident, to: Ident| {
        let i = registry::claim(d, from.dev, from.ino)?;
        let ch = Channel::at(d, i)?;
        ch.reset(0);
        ch.facts.0.run.store(run, Relaxed);
        ch.facts.0.holders.store(Holders::Socket as u32, Relaxed);
        ch.writer.0.born.store(to.ino, Relaxed);
        registry::publish(d, i, from.ino);
        Some(i)
    };
    let Some(i) = born(one, other) else {
        return false;
    };
    let both = born(other, one).is_some();
    if !both {
        registry::release(d, i);
    }
    both
}

/// The channel of the pipe `id` behind `fd`, for `run`: closed, empty, and what `fill` makes of it. Its slot too; None
/// if none is free.
pub fn born(
    d: Domain,
    id: Ident,
    fd: usize,
    run: u32,
    fill: impl FnOnce(&Channel),
) -> Option<(usize, &'static Channel)> {
    let i = registry::claim(d, id.dev, id.ino)?;
    let ch = Channel::at(d, i)?;
    let size = file::fcntl(fd, F_GETPIPE_SZ, 0);
    ch.reset(if size > 0 { size as usize } else { KERNEL });
    ch.facts.0.run.store(run, Relaxed);
    fill(ch);
    registry::publish(d, i, id.ino);
    Some((i, ch))
}
