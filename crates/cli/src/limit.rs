//! The limit of a file's size (RLIMIT_FSIZE), where this program writes files of its own.
//!
//! Invariant: the command gets SIGXFSZ as this program was given it.
//! Not here: what follows from a write that fails.

/// Calls `f`, in which a write beyond the limit is an error and not the end of this process.
///
/// LINUX setrlimit(2), RLIMIT_FSIZE: SIGXFSZ, or EFBIG where that is ignored.
pub fn as_error<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: no handler; put back at once.
    let old = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let made = f();
    // SAFETY: as above.
    unsafe { libc::signal(libc::SIGXFSZ, old) };
    made
}

/// The same for all that the calling thread writes from here on, and for the threads that it starts.
///
/// LINUX setrlimit(2): the signal is the writing thread's own, which holds it off.
pub fn as_error_in_this_thread() {
    // SAFETY: a set of ours.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGXFSZ);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}
