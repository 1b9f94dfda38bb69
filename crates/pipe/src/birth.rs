//! How a channel comes into being: a slot is claimed, filled, and then can be found.
//!
//! Invariant: nobody finds a slot before it is filled.
//! Not here: which processes use the channel (fifo.rs, the preload library), its slots (crate mem, registry.rs).
use crate::channel::{Channel, Holders};
use crate::peer;
use byway_mem::domain::Domain;
use byway_mem::layout::CHANNELS_MOST;
use byway_mem::registry;
use byway_sys::file::{self, F_GETPIPE_SZ, Ident};
use core::sync::atomic::Ordering::Relaxed;

/// What a new pipe of the kernel's holds, where it does not say.
pub(crate) const KERNEL: usize = 65536;

/// The two channels of a connection of stream sockets, `one` and `other`, whose send buffers are the kernel's. False: it
/// stays the kernel's.
pub fn pair_born(d: Domain, one: Ident, other: Ident, run: u32) -> bool {
    let born = |from, to: Ident| direction_born(d, Holders::Unix, from, (to.ino, 0), run, None);
    let Some(i) = born(one, other) else {
        return false;
    };
    let both = born(other, one).is_some();
    if !both {
        registry::release(d, i);
    }
    both
}

/// The channel that `end` of a connection of stream sockets writes to, where the other is not known yet. Its slot; `None`:
/// it stays the kernel's.
pub fn end_born(d: Domain, kind: Holders, end: Ident, run: u32) -> Option<usize> {
    // There may be many that are never worth a ring: pipes have what is left.
    let most = Some(CHANNELS_MOST / 2);
    direction_born(d, kind, end, (0, peer::WORTH), run, most)
}

/// The inbox of the UDP socket `id`. Its slot; `None`: it stays the kernel's.
pub fn inbox_born(d: Domain, id: Ident, run: u32) -> Option<usize> {
    let most = Some(CHANNELS_MOST / 2);
    direction_born(d, Holders::Udp, id, (0, 0), run, most)
}

/// The channel that end `from` writes to, among the first `most` slots if that is said: of a socket of that `kind`, whose other
/// end is `to`, and a ring worth so many writes.
fn direction_born(
    d: Domain,
    kind: Holders,
    from: Ident,
    (to, worth): (u64, u32),
    run: u32,
    most: Option<usize>,
) -> Option<usize> {
    if let Some(old) = registry::find(d, from.dev, from.ino) {
        registry::release(d, old);
    }
    let i = match most {
        Some(most) => registry::claim_below(d, from.dev, from.ino, most),
        None => registry::claim(d, from.dev, from.ino),
    }?;
    let ch = Channel::at(d, i)?;
    ch.reset(0);
    ch.facts.0.run.store(run, Relaxed);
    ch.facts.0.holders.store(kind as u32, Relaxed);
    ch.writer.0.born.store(to, Relaxed);
    ch.writer.0.worth.store(worth, Relaxed);
    // A write is the kernel's until the count is enough, the first one too (fast_path.rs).
    ch.writer.0.set_native(1, 0);
    peer::begins(ch);
    registry::publish(d, i, from.ino);
    Some(i)
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
    ch.reset(KERNEL);
    if size > 0 {
        ch.is_of_size(size as usize);
    }
    ch.facts.0.run.store(run, Relaxed);
    fill(ch);
    registry::publish(d, i, id.ino);
    Some((i, ch))
}
