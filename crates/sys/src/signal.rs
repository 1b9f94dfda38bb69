//! Signals held off for a moment.
//!
//! Invariant: those that a thread's own instructions bring (SIGSEGV and the like) are never held off: blocked, they would
//! end the process without its handler. What came meanwhile runs when the moment ends.
//! Not here: handlers.
use crate::syscall::{call6, nr};

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const OWN: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30;
const SIG_SETMASK: usize = 2;

/// The calling thread's signals are blocked until this is dropped.
#[must_use]
pub struct Held {
    old: u64,
}

impl Held {
    /// Blocks them.
    pub fn new() -> Held {
        Held { old: set(!OWN) }
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        set(self.old);
    }
}

/// Blocks all signals of the calling thread, those of its own instructions too, for good.
pub fn block_all() {
    set(u64::MAX);
}

/// rt_sigprocmask(2); the mask before.
fn set(mask: u64) -> u64 {
    let mut old = 0u64;
    // SAFETY: two masks of ours, as long as the kernel's.
    unsafe {
        call6(
            nr::RT_SIGPROCMASK,
            SIG_SETMASK,
            &raw const mask as usize,
            &raw mut old as usize,
            size_of::<u64>(),
            0,
            0,
        );
    }
    old
}
