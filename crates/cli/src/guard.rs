//! What keeps `byway run` alive when a participant cuts the domain's file off: this process then goes on with an empty domain.
//!
//! Invariant: only a fault inside the domain's mapping is answered; any other SIGBUS has its default action.
//! Not here: what the participants do then, who have no command's status to pass on.
use crate::child;
use byway_mem::domain::Domain;
use byway_sys::errno::failed;
use byway_sys::syscall::{call6, nr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Guards the mapping of `d`, which stays for the life of the process.
pub fn over(d: &Domain) {
    START.store(std::ptr::from_ref(d.header()) as usize, Relaxed);
    BYTES.store(d.geometry().bytes, Relaxed);
    child::on(libc::SIGBUS, child::handler(fault));
}

/// LINUX mmap(2): an access behind the end of a mapping's file is SIGBUS.
extern "C" fn fault(sig: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let (start, bytes) = (START.load(Relaxed), BYTES.load(Relaxed));
    // LINUX sigaction(2): only the kernel's own signals, whose si_code is positive, have an address.
    // SAFETY: the kernel's, for the time of the handler.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    if code > 0 && at.wrapping_sub(start) < bytes {
        let fresh =
            (libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE)
                as usize;
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        // SAFETY: the domain's own mapping is replaced, whose contents anybody may change at any time; all of its words are valid as
        // zeroes. mmap(2) is a system call without locks of libc's.
        if !failed(unsafe { call6(nr::MMAP, start, bytes, access, fresh, usize::MAX, 0) }) {
            return;
        }
    }
    child::on(sig, libc::SIG_DFL);
    if code <= 0 {
        // A fault comes again by itself; what was sent does not.
        // SAFETY: no pointers.
        unsafe { libc::raise(sig) };
    }
}
