//! Named FIFOs: entered into the domain when a participant first uses one, found again by device and inode.
//!
//! Invariant: whoever reads or writes a FIFO does so on its channel, or takes part no more: so a FIFO whose holders are
//! all participants has no call that its channel does not know of. Who the holders are is for the service to find out
//! (byway run); until it has, the FIFO is the kernel's.
//! Not here: open(2), whose rendezvous is the kernel's own.
use crate::{attach, fdtable, io};
use byway_mem::domain::Domain;
use byway_mem::{participants, registry};
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::fifo_opens::{self, Begun};
use byway_pipe::{birth, fifo};
use byway_sys::errno::{Ret, failed};
use byway_sys::file::{self, Ident};
use byway_sys::process;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The channel slot of the named FIFO behind `fd`, made if there is none; `keep` is told before it can be removed again.
pub fn channel(fd: usize, id: Ident, keep: impl FnOnce(usize)) -> Option<usize> {
    // Also while nobody may carry FIFOs: that may change, and then every call must have been counted.
    let d = attach::domain()?;
    USED.store(true, Relaxed);
    let found = registry::alone(&d, process::gettid(), || {
        let i = registry::find(d, id.dev, id.ino).or_else(|| enter(d, fd, id))?;
        if let Some(ch) = Channel::at(d, i) {
            fifo::begin(d, ch, fd);
            ch.writer
                .0
                .runs
                .fetch_or(d.member_bit(attach::run()), Relaxed);
        }
        keep(i);
        Some(i)
    });
    match found.and_then(|i| Some((io::me()?, Channel::at(d, i)?))) {
        Some((me, ch)) => fifo::renew(&me, ch, fd),
        // No slot is free: our calls on it cannot be counted, so nobody may carry it.
        None => participants::leave(&d, process::getpid()),
    }
    found
}

/// The channel slot `i` of the named FIFO behind `fd`, which this process may not have used: of an exec, or a vfork child.
pub fn find(fd: usize, i: usize) -> usize {
    if let Some(me) = io::me_or_vfork_child()
        && let Some(ch) = Channel::at(me.domain, i)
    {
        fifo::meet(&me, ch, fd);
        ch.writer
            .0
            .runs
            .fetch_or(me.domain.member_bit(attach::run()), Relaxed);
    }
    i
}

/// Whether this process has ever used a named FIFO.
#[unsafe(link_section = ".data")]
static USED: AtomicBool = AtomicBool::new(false);

/// Before `fd` is closed: what its FIFO's ring holds must be in the kernel's pipe when the last writer goes, or an outsider
/// who reads there would see the end before the bytes.
pub fn closes(fd: usize) {
    if !USED.load(Relaxed) {
        return;
    }
    let (Some(i), Some(me), Some(d)) = (fdtable::known_writer(fd), io::me(), attach::domain())
    else {
        return;
    };
    if let Some(ch) = Channel::at(d, i)
        && ch.is_fifo()
    {
        fifo::leave(&me, ch, fd);
    }
}

/// The same, before every descriptor from `first` to `last` is closed.
pub fn closes_all(first: usize, last: usize) {
    if USED.load(Relaxed) {
        (first..=last.min(fdtable::FDS - 1)).for_each(closes);
    }
}

/// Says that this process has opened `fd`, if that is a FIFO whose opens are counted.
pub fn opened(fd: Ret, begun: Begun) {
    let (false, Some(d)) = (failed(fd), attach::domain()) else {
        return;
    };
    // A descriptor that only names it has opened nothing, and the service does not count it.
    if let Some(id) = file::identity(fd as usize).filter(|id| id.fifo)
        && file::access_mode(fd as usize).is_some()
        && let Some(i) = registry::find(d, id.dev, id.ino)
        && let Some(ch) = Channel::at(d, i)
        && ch.is_fifo()
    {
        fifo_opens::opened(&d, ch, begun);
    }
}

/// Enters the FIFO behind `fd`, which has just been made and which nobody need have opened: its channel slot.
pub fn born(d: Domain, fd: usize) -> Option<usize> {
    let id = file::identity(fd).filter(|id| id.fifo)?;
    registry::alone(&d, process::gettid(), || {
        let i = registry::find(d, id.dev, id.ino).or_else(|| enter(d, fd, id))?;
        let ch = Channel::at(d, i)?;
        fifo::begin(d, ch, fd);
        ch.is_fifo().then_some(i)
    })
}

fn enter(d: Domain, fd: usize, id: Ident) -> Option<usize> {
    birth::born(d, id, fd, attach::run(), |ch| {
        ch.facts.0.holders.store(Holders::Unknown as u32, Relaxed);
    })
    .map(|(i, _)| i)
}
