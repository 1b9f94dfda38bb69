//! The pipe core: POSIX pipe semantics over a ring in shared memory and the kernel's own pipe.
//!
//! One byte's way: `write` copies it into the ring and publishes it with one CAS on the tail; `read` copies it out and
//! releases its place with one CAS on the head. Whoever must sleep does it in the kernel, in the caller's own call.
//! `handback` closes the ring and leaves every byte in the kernel's pipe, in order. docs/pipe.md has the protocol.
//!
//! Invariant: I1..I10 of docs/pipe.md. The edges between threads:
//! E1 data -> CAS the tail (release) -> load the tail (acquire) -> data; E2 the chunk before the tail and before the
//! kernel lane's bytes, loaded the tail before the chunk;
//! E3 copy out -> CAS the head (release) -> load the head (acquire) -> reuse of the place; E4 arm and publish on one
//! word;
//! E6 slot and bytes -> offer (release) -> look (acquire) -> copy -> commit -> end;
//! E7 "inside" -> look at the tail by a bias owner; CAS on the tail -> barrier -> look at "inside" by whoever takes its
//! lock (biased_lock.rs);
//! E8 no stamp -> bytes inline -> stamp -> CAS the tail; load the tail -> stamp -> bytes -> stamp (inline_payload.rs);
//! E9 "passing" -> look at the tail by a caller; CAS on the tail -> barrier -> look at "passing" by an opener
//! (pass_through.rs);
//! E5 `forever` (or `pending`) set -> look at the tail; lock taken -> look at `forever`: an opener or the other sees
//! it.
//! Not here: libc, descriptors tables, which processes take part.
#![no_std]

pub mod biased_lock;
pub mod birth;
pub mod calls;
pub mod channel;
pub mod clusters;
pub mod copy;
pub mod cursor;
pub mod fast_path;
pub mod fifo;
pub mod handback;
pub mod inline_payload;
pub mod lane;
pub mod liveness;
pub mod lock;
pub mod outsider;
pub mod pass_through;
pub mod peek;
pub mod policy;
pub mod read;
pub mod ready;
pub mod record;
pub mod restartable_copy;
pub mod ring;
pub mod rules;
pub mod single_copy;
pub mod timer;
pub mod wait;
mod wake;
pub mod word;
pub mod write;

use byway_sys::signal::Held;

/// What the caller of `read` or `write` must do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The call is answered with this result.
    Done(isize),
    /// Make the caller's own call on the real fd; nothing is to be told afterwards.
    Native,
    /// Make the caller's own call, then call `read::finish` or `write::finish`.
    NativeCounted,
    /// Sleep until the pipe has room, in a call that is restarted as write(2) is: vmsplice of a bad address.
    WaitRestartable,
    /// Sleep in poll(POLLOUT); a handler ends it.
    WaitPartial,
}

/// Who calls: what the core may know of the thread and its process.
#[derive(Clone, Copy)]
pub struct Caller {
    pub tid: u32,
    /// Whether the thread's restartable sequences are its own: not in a vfork child.
    pub rseq: bool,
    pub domain: byway_mem::domain::Domain,
    /// CPUs that the thread may run on.
    pub cpus: u32,
    /// False where a handler without SA_RESTART could run unnoticed during a spin.
    pub spin: bool,
    /// Whether nobody can change the buffers of its writes before they end: one thread, no handler that may jump out of
    /// them.
    pub lend: bool,
    /// Whether a handler may interrupt the thread: then signals are held off where one could do harm.
    pub handlers: bool,
    /// Whether the thread may keep a lock between its writes: barriers reach its process.
    pub has_barriers: bool,
    /// Whether a ring that brings nothing is left to the kernel: not where records and grants need it.
    pub resign: bool,
    /// Whether the process may read another's memory by system call.
    pub pull: fn() -> bool,
    /// Whether nobody but this process has the FIFO with this device and inode. A holder says no.
    pub abandoned: fn(u64, u64) -> bool,
    /// Whether the process may have learned something from others since this was last asked.
    pub heard: fn() -> bool,
    /// Whether `len` bytes at an address may be read (or written, if the flag is set).
    pub access: fn(usize, usize, bool) -> bool,
}

impl Caller {
    /// Signals wait until the result is dropped.
    #[inline]
    pub fn hold_signals(&self) -> Option<Held> {
        self.handlers.then(Held::new)
    }
}
