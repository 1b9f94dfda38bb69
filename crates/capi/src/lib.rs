//! The native library for C: the functions of include/byway.h.
//!
//! Invariant: each function is what the header says of it; a pointer that a caller got from here is a `Box` until the caller
//! gives it back; no panic crosses the border (panics abort).
//! unsafe: every function trusts its caller with pointers, as the header demands; they are looked at in one place
//! (`arguments.rs`).
//! Not here: what the functions do (crate byway).
mod arguments;
mod bytes;
mod duplex;
mod error;
mod events;
mod fifo;
mod grants;
mod records;
