//! Signals held off for a moment.
//!
//! Invariant: those that a thread's own instructions bring (SIGSEGV and the like) are never held off: blocked, they would
//! end the process without its handler. What came meanwhile runs when the moment ends.
//! Not here: how handlers are installed.
use crate::errno::{EAGAIN, failed};
use crate::process::{getpid, gettid};
use crate::syscall::{call3, call6, nr};

/// SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV, SIGSYS.
const OWN: u64 = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 10 | 1 << 30;
const SIG_SETMASK: usize = 2;
/// Bytes of the kernel's set of signals.
const SET: usize = size_of::<u64>();

/// Handlers that end a call with EINTR, were it asleep in the kernel.
///
/// LINUX signal(7): those without SA_RESTART end read(2), write(2) and their like; all of them end poll(2), select(2) and
/// epoll_wait(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enders {
    None,
    WithoutRestart,
    All,
}

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

    /// Whether a signal has come meanwhile whose handler is one of `enders`. It is this thread's then: its handler runs when
    /// this is dropped.
    pub fn is_ended_by(&self, enders: Enders) -> bool {
        let came = pending() & !self.old;
        let signals = (1..=64).filter(|n| came & 1 << (n - 1) != 0);
        signals.filter(|n| is_ender(*n, enders)).any(claim)
    }
}

/// Whether signal `n` has a handler, and that is one of `enders`.
fn is_ender(n: usize, enders: Enders) -> bool {
    const SA_RESTART: usize = 0x1000_0000;
    // struct kernel_sigaction: handler, flags, restorer, mask.
    let mut now = [0usize; 4];
    let at = now.as_mut_ptr() as usize;
    // SAFETY: room for one.
    let said = unsafe { call6(nr::RT_SIGACTION, n, 0, at, SET, 0, 0) };
    let [handler, flags, ..] = now;
    let restarts = flags & SA_RESTART != 0;
    !failed(said) && handler > 1 && (enders == Enders::All || !restarts)
}

/// Signal `n`, which waits for this thread or for its process, is this thread's. False: another thread has taken it.
///
/// LINUX rt_tgsigqueueinfo(2): a thread may send any signal to itself, with what it came with.
fn claim(n: usize) -> bool {
    // siginfo_t is 128 bytes.
    let (only, mut info, time) = (1u64 << (n - 1), [0u64; 16], [0u64; 2]);
    let (info, time) = (info.as_mut_ptr() as usize, time.as_ptr() as usize);
    let only = &raw const only as usize;
    // SAFETY: a set, a siginfo_t and a struct timespec of ours.
    let taken = unsafe { call6(nr::RT_SIGTIMEDWAIT, only, info, time, SET, 0, 0) };
    if failed(taken) {
        // By a filter, say: then it waits where it is.
        return taken != EAGAIN;
    }
    let (pid, tid) = (getpid() as usize, gettid() as usize);
    // SAFETY: the siginfo_t that the kernel has filled in.
    if failed(unsafe { call6(nr::RT_TGSIGQUEUEINFO, pid, tid, n, info, 0, 0) }) {
        // LINUX getrlimit(2): RLIMIT_SIGPENDING is reached; what comes by tgkill(2) comes all the same.
        // SAFETY: three numbers.
        unsafe { call3(nr::TGKILL, pid, tid, n) };
    }
    true
}

/// rt_sigpending(2).
fn pending() -> u64 {
    let mut now = 0u64;
    // SAFETY: one set of ours.
    unsafe { call6(nr::RT_SIGPENDING, &raw mut now as usize, SET, 0, 0, 0, 0) };
    now
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
            SET,
            0,
            0,
        );
    }
    old
}
