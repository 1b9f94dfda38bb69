//! The preload library: maps libc's rewritten text, then answers its read and write calls on carried pipes.
//!
//! Order at start: `attach::start` (the only constructor) joins the domain, maps the rewritten texts, and only then
//! takes part. From then on every interesting system call enters at `entry`, is decided in `dispatch`, and either runs
//! where it stands or is answered here.
//! Small words lie together in `.data`: in `.bss` they would be between tables, on pages of their own, which each process
//! would touch (ADR 46).
//! Invariant: no libc call, no allocation, no output, no errno, no panic that returns; on doubt the kernel.
//! Not here: pipe semantics (crate pipe), the rewriting itself (the builder in the command-line program).
#![no_std]

mod access;
mod asked;
mod attach;
mod bits;
mod brief;
mod class;
mod cold;
mod destinations;
mod dispatch;
mod entry;
mod environment;
mod exec;
mod family;
mod fdtable;
mod fifo;
mod gather;
mod give_up;
mod handover;
mod identity;
mod io;
mod later;
mod message;
mod messages;
mod new_fifo;
mod objects;
mod pins;
mod programs;
mod ready;
mod registration;
mod registrations;
mod request;
mod scratch;
mod sendfile;
mod set_lock;
mod set_wait;
mod sets;
mod shadow;
mod sleep;
mod splice;
mod tls;
mod udp;
mod unmatched;
mod uring;
mod wait_all;
mod watched;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    // A broken invariant of ours: stop before a wrong byte is written. SIGABRT's status says so.
    // SAFETY: kill(getpid(), SIGABRT), then exit_group; no pointers.
    unsafe {
        let pid = byway_sys::process::getpid() as usize;
        byway_sys::syscall::call3(byway_sys::syscall::nr::KILL, pid, 6, 0);
        byway_sys::syscall::call3(byway_sys::syscall::nr::EXIT_GROUP, 134, 0, 0);
    }
    loop {}
}

// The compiler may call these; they stay hidden so that the program keeps libc's own.
core::arch::global_asm!(
    ".globl memcpy",
    ".hidden memcpy",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".globl memmove",
    ".hidden memmove",
    "memmove:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "mov r8, rdi",
    "sub r8, rsi",
    "cmp r8, rdx",
    "jb 2f",
    "rep movsb",
    "ret",
    "2:",
    "std",
    "lea rdi, [rdi+rdx-1]",
    "lea rsi, [rsi+rdx-1]",
    "rep movsb",
    "cld",
    "ret",
    ".globl memset",
    ".hidden memset",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "ret",
    ".globl memcmp",
    ".hidden memcmp",
    "memcmp:",
    "xor eax, eax",
    "xor ecx, ecx",
    "3:",
    "cmp rcx, rdx",
    "je 4f",
    "movzx eax, byte ptr [rdi+rcx]",
    "movzx r8d, byte ptr [rsi+rcx]",
    "inc rcx",
    "sub eax, r8d",
    "je 3b",
    "4:",
    "ret",
    ".globl strlen",
    ".hidden strlen",
    "strlen:",
    "xor eax, eax",
    "5:",
    "cmp byte ptr [rdi+rax], 0",
    "je 6f",
    "inc rax",
    "jmp 5b",
    "6:",
    "ret",
    ".globl bcmp",
    ".hidden bcmp",
    "bcmp:",
    "jmp memcmp",
);
