//! The shared-memory domain: its header, the channel table and the slabs that hold bytes in flight.
//!
//! Invariant: everything in a domain is found by index or offset and checked against the layout before use; a
//! peer may write anything there, and the worst that follows is wrong bytes between processes of one user.
//! Not here: descriptors, pipes. This crate does not know what a channel means.
#![no_std]

pub mod domain;
pub mod layout;
pub mod registry;
pub mod zone;
