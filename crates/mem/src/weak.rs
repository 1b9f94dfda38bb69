//! Where a model may weaken an ordering, to show that it would see the difference (models.rs).
//!
//! Invariant: outside the models nothing of this is in the program: every ordering is the one that stands in the text.
//! Not here: the models.
use byway_sys::sync::Ordering;

/// The orderings that the models weaken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Edge {
    Claim = 1,
    Deposit,
    OnlyRef,
    LastRef,
    Lock,
    Unlock,
    Find,
    Publish,
    Slot,
    Unslot,
    /// Not an ordering: hints are looked at before they are set.
    SetWord,
    SetTop,
}

/// The ordering `o` of edge `e`.
#[inline(always)]
pub fn order(e: Edge, o: Ordering) -> Ordering {
    if weak(e) { Ordering::Relaxed } else { o }
}

#[cfg(not(all(test, loom)))]
#[inline(always)]
pub const fn weak(_: Edge) -> bool {
    false
}

#[cfg(all(test, loom))]
pub static WEAK: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(0);

#[cfg(all(test, loom))]
pub fn weak(e: Edge) -> bool {
    WEAK.load(Ordering::Relaxed) == e as u32
}
