//! Cycle counter and CPU number in one instruction; a bounded pause.
//!
//! Invariant: no system call on these paths. Linux keeps the CPU number in TSC_AUX (arch/x86/kernel/cpu/common.c).
//! Not here: conversion to seconds; the domain header carries the measured cycles per microsecond.
use core::arch::x86_64::{__rdtscp, _mm_pause, _rdtsc};

/// Cycles now, and the CPU that this thread runs on.
#[inline]
pub fn now_cpu() -> (u64, u32) {
    if cfg!(miri) {
        return (0, 0);
    }
    let mut aux = 0;
    // SAFETY: rdtscp only writes `aux`; every x86-64 processor with an invariant TSC has it (doctor checks).
    let t = unsafe { __rdtscp(&mut aux) };
    (t, aux & 0xfff)
}

/// Cycles now.
#[inline]
pub fn now() -> u64 {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: rdtsc has no preconditions in user mode unless PR_SET_TSC forbids it.
    unsafe { _rdtsc() }
}

/// Tells the processor that this is a spin.
#[inline]
pub fn pause() {
    _mm_pause()
}
