//! Calls on sockets that sleep in steps: where another thread closes their descriptor meanwhile, they go on by another
//! number.
//!
//! ```text
//! call: pin --> sleeps --> by which number?  ... --> unpin, and close the number that was made for it
//! close(2), dup2(2) of a pinned number: a second number first
//! ```
//! The kernel's own call holds the open file, whatever becomes of its number; a call of several of the kernel's does not.
//!
//! Invariant: a place is one call's from `pin` to `unpin`, or until its thread ends or closes the number itself: then it was
//! cancelled in the call. A number that was made here is closed by the call it is for. A process with handlers, which may
//! leave a call by a jump, has no pins.
//! Not here: which calls sleep in steps (io.rs).
use byway_sys::errno::failed;
use byway_sys::{file, process};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, AtomicUsize};

const PLACES: usize = 64;

/// A pinned number plus one, or 0, and the thread that calls; and the number that is in its stead, plus one.
struct Place {
    fd: AtomicU32,
    tid: AtomicU32,
    instead: AtomicU32,
}

#[unsafe(link_section = ".data")]
static ALL: [Place; PLACES] = [const {
    Place {
        fd: AtomicU32::new(0),
        tid: AtomicU32::new(0),
        instead: AtomicU32::new(0),
    }
}; PLACES];
/// How many are taken.
#[unsafe(link_section = ".data")]
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Pins `fd` for thread `tid`; the place plus one, or 0 if there is none.
pub fn pin(fd: usize, tid: u32) -> usize {
    let taken = ALL.iter().position(|p| {
        // ORDER: what the last call did with the place, before this one's.
        let was = p.fd.compare_exchange(0, fd as u32 + 1, AcqRel, Relaxed);
        was.is_ok()
    });
    let Some(k) = taken else {
        return 0;
    };
    ALL[k].tid.store(tid, Relaxed);
    TAKEN.fetch_add(1, Relaxed);
    k + 1
}

/// The number by which the call with the place `pin` goes on, if it is another one by now.
pub fn moved(pin: usize) -> Option<usize> {
    let place = ALL.get(pin.wrapping_sub(1))?;
    // ORDER: pairs with `closes`.
    let instead = place.instead.load(Acquire);
    instead.checked_sub(1).map(|fd| fd as usize)
}

/// The call with the place `pin` is over.
pub fn unpin(pin: usize) {
    let Some(place) = ALL.get(pin.wrapping_sub(1)) else {
        return;
    };
    if place.fd.swap(0, Relaxed) == 0 {
        // A child that a handler has made over the call.
        return;
    }
    // ORDER: pairs with `closes`.
    let instead = place.instead.swap(0, AcqRel);
    if instead != 0 {
        file::close(instead as usize - 1);
    }
    TAKEN.fetch_sub(1, Relaxed);
}

/// A forked child begins: the calls are its parent's.
pub fn enter_child() {
    for place in &ALL {
        place.fd.store(0, Relaxed);
        place.instead.store(0, Relaxed);
    }
    TAKEN.store(0, Relaxed);
}

/// The calling thread ends.
pub fn ends() {
    if TAKEN.load(Relaxed) != 0 {
        let tid = process::gettid();
        let own = |p: &Place| p.fd.load(Relaxed) != 0 && p.tid.load(Relaxed) == tid;
        let left = (0..PLACES).filter(|k| own(&ALL[*k]));
        left.for_each(|k| unpin(k + 1));
    }
}

/// Before `fd` is closed, or becomes another file's.
pub fn closes(fd: usize) {
    if TAKEN.load(Relaxed) == 0 {
        return;
    }
    // What this thread has pinned it has left.
    ends();
    for place in ALL.iter().filter(|p| p.fd.load(Relaxed) == fd as u32 + 1) {
        let made = file::fcntl(fd, file::F_DUPFD_CLOEXEC, 0);
        if failed(made) {
            continue;
        }
        // ORDER: the number is there before it is found.
        let was = place
            .instead
            .compare_exchange(0, made as u32 + 1, AcqRel, Relaxed);
        if was.is_err() {
            file::close(made as usize);
        }
    }
}

/// The same of each from `first` to `last`.
pub fn closes_all(first: usize, last: usize) {
    if TAKEN.load(Relaxed) == 0 {
        return;
    }
    for place in &ALL {
        if let Some(fd) = place.fd.load(Relaxed).checked_sub(1)
            && (first..=last).contains(&(fd as usize))
        {
            closes(fd as usize);
        }
    }
}
