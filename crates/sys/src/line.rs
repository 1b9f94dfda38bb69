//! Cache lines, asked for before they are needed.
//!
//! Invariant: a hint: no access, no fault, whatever the address.
//! Not here: which lines, and when that pays.
use core::arch::asm;

/// The line at `p` will be written: it is to come from the CPU that has it, which is to forget it.
#[inline]
pub fn to_write(p: *const u8) {
    if cfg!(not(miri)) {
        // SAFETY: prefetchw neither accesses memory nor faults.
        unsafe { asm!("prefetchw [{}]", in(reg) p, options(nostack, preserves_flags, readonly)) };
    }
}

/// The line at `p` will be read.
#[inline]
pub fn to_read(p: *const u8) {
    if cfg!(not(miri)) {
        // SAFETY: as above.
        unsafe { asm!("prefetcht0 [{}]", in(reg) p, options(nostack, preserves_flags, readonly)) };
    }
}
