//! Sockets that are put into a set of epoll's before they have a channel: what each registration asks for.
//!
//! ```text
//! epoll_ctl(2) --> remembered, and the kernel tells all --> connect(2), if that was to come --> the end is cold (cold.rs)
//!   --> it gets a channel, and its registration goes on the set's list (sets.rs)
//! ```
//! Invariant: what is remembered is what the kernel's set has; an end of which that is not sure stays the kernel's. No end in a
//! set gets a channel while a call sleeps that may wait for it: so a process with a second thread remembers nothing.
//! Not here: registrations of ends that have a channel (registration.rs), calls at cold ends (cold.rs).
use crate::bits::Bits;
use crate::entry::{DONE, Frame, RUN};
use crate::sets::{ADD, DEL, MOD};
use crate::{access, cold, exec, fdtable, io, sets, tls};
use byway_pipe::reason::Reason;
use byway_sys::errno::failed;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// In `Frame::kind`.
pub const CHANGED: usize = 31;

/// What is remembered of a descriptor.
struct Place {
    /// The set plus one, or `UNSURE`.
    set: AtomicU32,
    events: AtomicU32,
    data: AtomicU64,
}

/// It is in several sets, or others may wait for its set: it stays the kernel's.
const UNSURE: u32 = u32::MAX;

static PLACES: [Place; fdtable::FDS] = [const {
    Place {
        set: AtomicU32::new(0),
        events: AtomicU32::new(0),
        data: AtomicU64::new(0),
    }
}; fdtable::FDS];

/// Those of which something is remembered.
const WATCHED: Bits = Bits::Watched;

fn set_of(fd: usize) -> u32 {
    match WATCHED.has(fd) {
        true => PLACES[fd].set.load(Relaxed),
        false => 0,
    }
}

/// epoll_ctl(2) of a descriptor that has no channel: one that is cold, or not carried.
pub fn changes(f: &mut Frame) -> u32 {
    let [set, op, fd, at, ..] = f.args;
    let (set, op, fd) = (set as u32, op as u32 as usize, fd as u32 as usize);
    let now = set_of(fd);
    if now == UNSURE {
        return RUN;
    }
    if op == DEL {
        if now == set + 1 {
            WATCHED.take(fd);
        }
        return RUN;
    }
    let fits = match op {
        ADD => now == 0,
        MOD => now == set + 1,
        _ => false,
    };
    // Of another set nobody counts the threads that wait.
    let is_known = fdtable::set(set as usize).is_some();
    if !fits
        || !is_known
        || fd >= fdtable::FDS
        || io::THREADS.load(Relaxed)
        || !access::allowed(at, 12, false)
    {
        is_unsure(fd);
        return RUN;
    }
    let place = &PLACES[fd];
    // SAFETY: asked for; struct epoll_event is events and data, without a gap.
    unsafe {
        let events = (at as *const u32).read_unaligned();
        let data = ((at + 4) as *const u64).read_unaligned();
        place.events.store(events, Relaxed);
        place.data.store(data, Relaxed);
    }
    place.set.store(set + 1, Relaxed);
    WATCHED.add(fd);
    io::own(f, CHANGED)
}

/// After that call.
pub fn changed(f: &Frame) -> u32 {
    if failed(f.result) {
        is_unsure(f.args[2] as u32 as usize);
    }
    DONE
}

/// `fd` may be in a set, and nobody knows how; or it is the kernel's for good.
pub fn is_unsure(fd: usize) {
    if let Some(place) = PLACES.get(fd) {
        place.set.store(UNSURE, Relaxed);
        WATCHED.add(fd);
        cold::stays_kernels(fd);
    }
}

/// Whether the cold end `fd` must wait for its channel: it is in a set, and this is a handler over a call that waits.
pub fn must_wait(fd: usize) -> bool {
    tls::get().waits_in.get() != 0 && WATCHED.has(fd)
}

/// Whether `fd`, which is connected now, may become a cold end.
pub fn may_begin(fd: usize) -> bool {
    set_of(fd) != UNSURE
}

/// `fd` is closed, or another file's.
pub fn forget(fd: usize) {
    WATCHED.take(fd);
}

/// The end `fd`, which was cold, has its channel now.
pub fn joins(fd: usize) {
    let set = set_of(fd);
    if set == 0 {
        return;
    }
    WATCHED.take(fd);
    let place = &PLACES[fd];
    let (events, data) = (place.events.load(Relaxed), place.data.load(Relaxed));
    if set == UNSURE || !sets::joins(set as usize - 1, fd, events, data) {
        exec::give_up(fd, Reason::Readiness, false);
    }
}

/// Others may have these sockets, or wait for their sets, from now on.
pub fn is_shared() {
    WATCHED.each(|fd| {
        cold::is_shared(fd);
        if WATCHED.has(fd) {
            is_unsure(fd);
        }
    });
}

/// The set `fd` has gone, and its registrations with it.
pub fn set_closed(fd: usize) {
    WATCHED.each(|k| {
        if set_of(k) == fd as u32 + 1 {
            WATCHED.take(k);
        }
    });
}

/// A set has the number `fd` that was another's, which may live on by another number.
pub fn set_made(fd: usize) {
    WATCHED.each(|k| {
        if set_of(k) == fd as u32 + 1 {
            is_unsure(k);
        }
    });
}
