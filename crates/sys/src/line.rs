//! Cache lines, asked for before they are needed.
//!
//! Invariant: a hint: no access, no fault, whatever the address.
//! Not here: which lines, and when that pays.
use core::arch::asm;
use core::arch::x86_64::__cpuid;

/// Bytes of a line.
const LINE: usize = 64;

/// Whether a line that this CPU and others have to read becomes this one's alone only by a write, and not by a prefetch for
/// one. Processors of AMD and Hygon up to Zen 4 are so (seen: family 25, model 17), Zen 5 is not (family 26, model 2; ADR 15).
pub fn stays_shared() -> bool {
    const ZEN_5: u32 = 26;
    if cfg!(miri) {
        return false;
    }
    // Safe in later versions of Rust.
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has the instruction, and leaves 0 and 1.
    let (id, version) = unsafe { (__cpuid(0), __cpuid(1).eax) };
    let vendor = [id.ebx, id.edx, id.ecx].map(u32::to_le_bytes);
    // AMD64 APM 3, Fn0000_0001_EAX: the extended family counts where the base family is 15, as it is for all of these.
    let family = (version >> 8 & 15) + (version >> 20 & 255);
    family < ZEN_5
        && [*b"AuthenticAMD", *b"HygonGenuine"]
            .iter()
            .any(|v| v.as_chunks::<4>().0 == vendor)
}

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

/// Takes lines from the CPU that has written them, as a write would, and changes nothing: those that begin among the `n` bytes at `p`
/// and end among the first `there`.
///
/// # Safety
/// The memory may be read and written. Others may read and write it meanwhile: a locked instruction loses nothing of theirs.
#[inline]
pub unsafe fn take(p: *const u8, n: usize, there: usize) {
    if cfg!(miri) {
        return;
    }
    let at = |i: usize| p.wrapping_add(i);
    let (mut i, end) = (p.align_offset(LINE), n.min(there.saturating_sub(LINE - 1)));
    while i < end {
        // SAFETY: the caller's promise; aligned to a line, of which all bytes are there.
        unsafe { asm!("lock or dword ptr [{}], 0", in(reg) at(i), options(nostack)) };
        i += LINE;
    }
}
