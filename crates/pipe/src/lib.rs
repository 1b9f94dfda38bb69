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
pub mod caller;
pub mod calls;
pub mod channel;
pub mod clusters;
pub mod copy;
pub mod cursor;
pub mod datagram;
pub mod fast_path;
pub mod fifo;
pub mod fifo_opens;
pub mod handback;
pub mod inline_payload;
pub mod lane;
pub mod liveness;
pub mod lock;
pub mod mode;
pub mod opening;
pub mod outsider;
pub mod pass_through;
pub mod peek;
pub mod peer;
pub mod policy;
pub mod read;
pub mod ready;
pub mod reason;
pub mod restartable_copy;
pub mod ring;
pub mod rules;
pub mod single_copy;
pub mod size;
pub mod socket;
pub mod spiller;
pub mod tcp;
pub mod transfer;
pub mod wait;
mod wake;
pub mod word;
pub mod write;

pub use caller::Caller;

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
    /// Sleep until the head of the ring is no longer at this position (socket.rs).
    WaitForRoom(u64),
}
