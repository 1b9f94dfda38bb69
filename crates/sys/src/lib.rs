//! The kernel and the processor, thinly: raw system calls, errno, the cycle counter.
//!
//! Invariant: nothing here calls libc. The preload library runs inside libc's own wrappers, so a libc
//! call from here would enter the dispatcher again.
//! Not here: policy. No function decides anything about a channel.
#![no_std]

pub mod barrier;
pub mod cached;
pub mod clock;
pub mod diag;
pub mod errno;
pub mod file;
pub mod futex;
pub mod group;
#[cfg(miri)]
mod interpreter;
pub mod line;
pub mod mappings;
pub mod orphan;
pub mod path;
pub mod process;
pub mod rseq;
pub mod signal;
pub mod socket;
pub mod sync;
pub mod syscall;
pub mod table;
pub mod tcp;
pub mod udp;
pub mod uring;
