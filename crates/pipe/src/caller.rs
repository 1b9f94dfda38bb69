//! The caller of the core: what the core may know of a thread and its process.
//!
//! Invariant: a `Caller` is made for one call, and belongs to the thread that makes it.
//! Not here: how a process finds these things out (crate preload, io.rs; crate native).
use byway_mem::domain::Domain;
use byway_sys::signal::{Enders, Held};

/// A thread that calls, and its process.
#[derive(Clone, Copy)]
pub struct Caller {
    pub tid: u32,
    /// Whether the thread's restartable sequences are its own: not in a vfork child.
    pub rseq: bool,
    pub domain: Domain,
    /// CPUs that the thread may run on.
    pub cpus: u32,
    /// Whether it may wait awake.
    pub spin: bool,
    /// Handlers that end the call with EINTR. Signals are held off while it waits awake, if there may be any.
    pub enders: Enders,
    /// Whether nobody can change the buffers of its writes before they end: one thread, no handler that may jump out of
    /// them.
    pub lend: bool,
    /// Whether a handler may interrupt the thread: then signals are held off where one could do harm.
    pub handlers: bool,
    /// Whether the thread may keep a lock between its writes: barriers reach its process.
    pub has_barriers: bool,
    /// Flags of a call on a socket, as send(2) has them.
    pub message: usize,
    /// Whether a ring that brings nothing is left to the kernel: not where records and grants need it.
    pub resign: bool,
    /// Whether the process may read another's memory by system call.
    pub pull: fn() -> bool,
    /// Whether its sleep on a word ends by a handler as write(2) does.
    pub restarts: fn() -> bool,
    /// Whether nobody but this process has the FIFO with this device and inode. A holder says no.
    pub abandoned: fn(u64, u64) -> bool,
    /// Whether the process may have learned something from others since this was last asked.
    pub heard: fn() -> bool,
    /// Whether `len` bytes at an address may be read (or written, if the flag is set).
    pub access: fn(usize, usize, bool) -> bool,
}

impl Caller {
    /// Thread `tid`, which may run on `cpus` CPUs, as a caller that waits, offers, keeps and reads nothing by itself. What
    /// more it may do is added to this.
    pub fn of(domain: Domain, tid: u32, cpus: u32) -> Caller {
        Caller {
            tid,
            rseq: true,
            domain,
            cpus,
            spin: false,
            enders: Enders::None,
            lend: false,
            handlers: false,
            has_barriers: false,
            message: 0,
            resign: false,
            pull: || false,
            restarts: || false,
            abandoned: |_, _| false,
            heard: || true,
            access: |_, _, _| true,
        }
    }

    /// Signals wait until the result is dropped.
    #[inline]
    pub fn hold_signals(&self) -> Option<Held> {
        self.handlers.then(Held::new)
    }
}
