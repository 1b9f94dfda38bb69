//! The one door to the atomics of what is modelled: the machine's own, or loom's under `--cfg loom`.
//!
//! Not here: any use of them.
#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
