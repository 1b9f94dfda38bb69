//! Asks the run's service to look at objects that the cache does not know.
//!
//! Invariant: a start waits a second at most, whatever the service does; a request that was not answered in time keeps
//! nobody else waiting. What is not known then is the kernel's for this once: the service goes on, and the next start
//! finds it.
//! Not here: the answers (they lie in the cache), the service (crates/cli/src/service.rs).
use byway_mem::domain::Domain;
use byway_mem::layout::Header;
use byway_sys::{clock, process};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// The longest that a start waits, us: node's 90 MB take half of it beside other work, once. Between two looks.
const LONGEST: u64 = 1_000_000;
const LOOK: u64 = 200;

/// Has all looked at that this process has mapped as code; true if that has been done.
pub fn all(d: Domain) -> bool {
    ask(d, 0)
}

/// The same of the file behind `fd`.
pub fn file(d: Domain, fd: usize) -> bool {
    ask(d, fd as u32 + 1)
}

fn ask(d: Domain, file: u32) -> bool {
    let h = d.header();
    let cycles = u64::from(h.cycles_per_us.load(Relaxed)).clamp(100, 20_000);
    let (begin, me) = (clock::now(), process::gettid());
    let is_late = || clock::now().wrapping_sub(begin) > LONGEST * cycles;
    if process::is_dead(h.creator.load(Relaxed)) {
        return false;
    }
    while !lock(h, me) {
        if is_late() || is_missed(h) {
            return false;
        }
        process::nap(LOOK);
    }
    let mut done = false;
    if !is_missed(h) {
        h.scan_pid.store(process::getpid(), Relaxed);
        h.scan_fd.store(file, Relaxed);
        // ORDER: the request's words before its number.
        let ticket = h.scan_wanted.fetch_add(1, Release).wrapping_add(1);
        // All of them: every run of the domain sleeps there, and one of them serves.
        d.call_service();
        // ORDER: the cache files were written before the answer.
        let answered = || h.scan_done.load(Acquire) == ticket;
        while !answered() && !is_late() {
            process::nap(LOOK);
        }
        done = answered();
        if !done {
            h.scan_missed.store(ticket, Relaxed);
        }
    }
    // ORDER: the next writer of the words comes after us.
    h.scan_lock.store(0, Release);
    done
}

/// Takes the right to ask, also from a thread that has ended with it.
fn lock(h: &Header, me: u32) -> bool {
    let owner = h.scan_lock.load(Relaxed);
    (owner == 0 || process::is_dead(owner))
        // ORDER: what the last one wrote comes before what this one does.
        && h.scan_lock.compare_exchange(owner, me, AcqRel, Relaxed).is_ok()
}

/// Whether a request was not answered in time, and is not answered yet.
fn is_missed(h: &Header) -> bool {
    let missed = h.scan_missed.load(Relaxed);
    missed != 0 && missed == h.scan_wanted.load(Relaxed) && missed != h.scan_done.load(Relaxed)
}
