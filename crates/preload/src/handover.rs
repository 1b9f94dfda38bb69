//! On one CPU: a quiet write that woke a reader hands the CPU over to it.
//!
//! Invariant: it does what `policy::hand_over` does (crate pipe, policy/handover.rs), and changes rcx and r11 only, for the entry code has
//! its caller's registers in the others. A process that takes no part any more, perhaps since this write began, may make system calls
//! of its own choice only, and may not look at the clock.
//! unsafe: assembly. Not here: which writes those are (entry.rs).
use crate::attach::ACTIVE;
use byway_mem::layout::Keeper;
use byway_pipe::policy::{LATE, LONGEST, REST};
use byway_sys::syscall::nr;
use core::mem::offset_of;

core::arch::global_asm!(
    ".text",
    ".hidden byway_hand_over",
    ".globl byway_hand_over",
    ".type byway_hand_over, @function",
    // (rax: what a quiet write said, r12: the thread's place, ecx: cycles between two) -> all but rcx and r11 as they were. What
    // policy/handover.rs does, which a compiler would do with more registers.
    "byway_hand_over:",
    ".cfi_startproc",
    "test rax, rax",
    "jle 9f",
    "cmp byte ptr [rip + {active}], 0",
    "je 9f",
    "push rax",
    ".cfi_adjust_cfa_offset 8",
    "push rdx",
    ".cfi_adjust_cfa_offset 8",
    "push rbx",
    ".cfi_adjust_cfa_offset 8",
    ".cfi_rel_offset rbx, 0",
    "mov ebx, ecx",
    "rdtsc",
    "shl rdx, 32",
    "or rdx, rax",
    // How long not yet.
    "mov rax, [r12 + {yields_from}]",
    "sub rax, rdx",
    "jbe 6f",
    "mov rcx, rbx",
    "shl rcx, {longest}",
    "cmp rax, rcx",
    "jbe 8f",
    "6: mov eax, {sched_yield}",
    "syscall",
    "mov rcx, rdx",
    "rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "mov rdx, rax",
    "sub rdx, rcx",
    "imul rcx, rbx, {late}",
    "cmp rdx, rcx",
    "cmovbe rdx, rbx",
    "jbe 7f",
    "mov rcx, rbx",
    "shl rcx, {longest} - {rest}",
    "cmp rdx, rcx",
    "cmova rdx, rcx",
    "shl rdx, {rest}",
    "7: add rax, rdx",
    "mov [r12 + {yields_from}], rax",
    "8: pop rbx",
    ".cfi_adjust_cfa_offset -8",
    ".cfi_restore rbx",
    "pop rdx",
    ".cfi_adjust_cfa_offset -8",
    "pop rax",
    ".cfi_adjust_cfa_offset -8",
    "9: ret",
    ".cfi_endproc",
    ".size byway_hand_over, . - byway_hand_over",
    yields_from = const offset_of!(Keeper, yields_from),
    sched_yield = const nr::SCHED_YIELD,
    late = const LATE,
    rest = const REST,
    longest = const LONGEST,
    active = sym ACTIVE,
);
