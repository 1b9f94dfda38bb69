//! Ctrl-C while something is measured: the first asks the measurement to end, a second ends the program, unless it has to
//! clear first.
//!
//! ```text
//! SIGINT --handler--> asked, and a byte in a pipe that who waits for a child polls (program.rs) --> runner.rs stops
//! ```
//! Invariant: only in the process that called `watch`; who is forked from it dies of the signal, as what it starts does.
//! Not here: files that a signal removes (scratch.rs, which has the handler while it has any).
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI32};

static ASKED: AtomicBool = AtomicBool::new(false);
/// The process that watches; 0: none does.
static WATCHER: AtomicI32 = AtomicI32::new(0);
/// Whether other signals that end a program ask, too.
static ALL: AtomicBool = AtomicBool::new(false);
/// The pipe: what is polled, and what the handler writes to.
static ENDS: [AtomicI32; 2] = [AtomicI32::new(-1), AtomicI32::new(-1)];

/// From now on the first SIGINT only asks.
///
/// # Errors
/// No more descriptors.
pub fn watch() -> io::Result<()> {
    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() };
    // ORDER: pairs with the store below.
    if WATCHER.load(Acquire) == me {
        return Ok(());
    }
    let mut ends = [0; 2];
    // SAFETY: two descriptors into an array of ours.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
        return Err(io::Error::last_os_error());
    }
    ENDS.iter()
        .zip(ends)
        .for_each(|(e, fd)| e.store(fd, Relaxed));
    // ORDER: a handler that finds the watcher finds its pipe.
    WATCHER.store(me, Release);
    crate::scratch::handle_signals();
    Ok(())
}

/// The same of SIGTERM and SIGHUP: of a program that has to clear before it ends.
///
/// # Errors
/// As `watch`.
pub fn watch_all() -> io::Result<()> {
    ALL.store(true, Relaxed);
    watch()
}

/// Whether the measurement is to end.
pub fn asked() -> bool {
    // ORDER: pairs with the handler; nothing else comes with it.
    ASKED.load(Acquire)
}

/// Readable once it is; -1 if nobody watches.
pub fn descriptor() -> i32 {
    ENDS[0].load(Relaxed)
}

/// The handler's part: whether this signal only asks. Async-signal-safe.
pub(crate) fn only_asks(signal: libc::c_int) -> bool {
    // SAFETY: no arguments.
    let me = unsafe { libc::getpid() };
    let asks = signal == libc::SIGINT || (signal != libc::SIGPIPE && ALL.load(Relaxed));
    // ORDER: pairs with `watch`.
    if !asks || WATCHER.load(Acquire) != me {
        return false;
    }
    // ORDER: of two signals at once only one is the first. Who has to clear does, however many come.
    if ASKED.swap(true, AcqRel) {
        return ALL.load(Relaxed);
    }
    // SAFETY: one byte of ours to our own pipe, which is empty; errno is as it was for whom the signal came between.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(ENDS[1].load(Relaxed), [0u8].as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
    true
}
