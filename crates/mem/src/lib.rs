//! The shared-memory domain: its header, the channel table, and mb_alloc, the allocator of the bytes in flight.
//!
//! Invariant: everything in a domain is found by index or offset and checked against the layout before use; a
//! peer may write anything there, and the worst that follows is wrong bytes between processes of one user.
//! Not here: descriptors, pipes. This crate does not know what a channel means.
#![no_std]
#[cfg(all(test, loom))]
extern crate std;

pub mod audit;
pub mod bucket;
pub mod cache;
pub mod crash;
pub mod departures;
pub mod domain;
pub mod group;
pub mod hints;
pub mod holdings;
pub mod known;
pub mod layout;
#[cfg(all(test, loom))]
mod models;
pub mod participants;
pub mod reclaim;
pub mod registry;
pub mod scratch;
pub mod slab;
pub mod span;
pub mod stats;
pub mod sweep;
mod weak;
