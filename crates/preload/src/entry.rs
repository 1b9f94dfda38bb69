//! Where every rewritten site arrives, and the way back.
//!
//! ```text
//! libc site:  jmp stub ------> stub: displaced insns; lea r11,[site]; jmp *cell --> byway_entry
//!   site: syscall <------------------------- not ours: jmp r11  (runs in place)
//!   site+2: ...   <------------------------- answered: jmp r11+2
//! ```
//! A call to glibc's cancellation bridge arrives at `byway_bridge` instead, as an ordinary function call, and whatever
//! is made in its stead goes through the bridge: so a thread sleeps where SIGCANCEL's handler expects it.
//!
//! Invariant: only rax, rcx, r11 and flags change, as by the syscall instruction itself; the red zone is skipped;
//! a call that is not ours costs a few loads and runs at libc's own instruction.
//! unsafe: assembly. Not here: any decision but "surely not ours".
use crate::dispatch::{after, dispatch};
use crate::{fdtable, tls};
use byway_mem::layout::Keeper;
use byway_pipe::channel::{FULL_FROM_T, PIPE_BUF};
use byway_pipe::copy::{Iov, VECTORS};
use byway_pipe::quiet;
use byway_pipe::read::Armed;
use byway_sys::errno::EAGAIN;
use byway_sys::syscall::nr;
use core::sync::atomic::{AtomicBool, AtomicU32};

/// What the decision was.
pub const DONE: u32 = 0;
pub const RUN: u32 = 1;
pub const THEN: u32 = 2;

/// One call: the registers of the site, the call to make in its stead, and what must be remembered over a sleep.
#[repr(C, align(16))]
pub struct Frame {
    pub nr: usize,
    pub args: [usize; 6],
    pub result: isize,
    /// Of a call to the bridge: its first argument, and where it is.
    bridge: [usize; 2],
    xmm: [u128; 16],
    pub sub: [usize; 7],
    pub kind: usize,
    pub fd: usize,
    pub chan: usize,
    pub armed: core::mem::MaybeUninit<Armed>,
    pub want: usize,
    pub done: usize,
    pub pollfd: u64,
    pub vectors: usize,
    pub iov: [Iov; VECTORS],
}

const _: () = assert!(core::mem::offset_of!(Frame, result) == 56);
const _: () = assert!(core::mem::offset_of!(Frame, bridge) == 64);
const _: () = assert!(core::mem::offset_of!(Frame, xmm) == 80);
const _: () = assert!(core::mem::offset_of!(Frame, sub) == 336);

/// Whether this process may have learned something since its last write into a FIFO: it made a call of the kernel's, or
/// read a carried channel. What a stranger did to the FIFO before it let us know must be seen before the next write.
pub static HEARD: AtomicBool = AtomicBool::new(true);

/// Moves with every call that can take memory away.
pub static VM_EPOCH: AtomicU32 = AtomicU32::new(1);

/// 0: never ours; 1: ours if the fd in the first argument is not plain; 2: always asked; 3: takes memory away.
pub static CLASS: [u8; 448] = classes();

const fn classes() -> [u8; 448] {
    use byway_sys::syscall::nr::*;
    let mut c = [0u8; 448];
    let fd = [READ, WRITE, READV, WRITEV, IOCTL, FCNTL];
    let ask = [
        CLOSE,
        POLL,
        MMAP,
        RT_SIGACTION,
        SELECT,
        DUP2,
        SENDFILE,
        SENDMSG,
        CLONE,
        FORK,
        VFORK,
        EXECVE,
        EXIT,
        WAIT4,
        SETUID,
        SETGID,
        SETREUID,
        SETREGID,
        SETRESUID,
        SETRESGID,
        PRCTL,
        CHROOT,
        EXIT_GROUP,
        EPOLL_CTL,
        WAITID,
        PSELECT6,
        PPOLL,
        UNSHARE,
        SPLICE,
        TEE,
        VMSPLICE,
        DUP3,
        PIPE,
        PIPE2,
        PREADV,
        PWRITEV,
        SENDMMSG,
        SETNS,
        SECCOMP,
        EXECVEAT,
        PREADV2,
        PWRITEV2,
        IO_URING_SETUP,
        CLONE3,
        CLOSE_RANGE,
    ];
    let vm = [MPROTECT, MUNMAP, BRK, MREMAP, SHMDT];
    let mut i = 0;
    while i < fd.len() {
        c[fd[i]] = 1;
        i += 1;
    }
    i = 0;
    while i < ask.len() {
        c[ask[i]] = 2;
        i += 1;
    }
    i = 0;
    while i < vm.len() {
        c[vm[i]] = 3;
        i += 1;
    }
    c
}

unsafe extern "C" {
    /// The entry that the rewritten texts' cells point to.
    pub fn byway_entry();
    /// The same for calls to a cancellation bridge.
    pub fn byway_bridge();
}

/// Assembly, and the names in it.
macro_rules! text {
    ($($line:literal,)*) => {
        core::arch::global_asm!(
            $($line,)*
            class = sym CLASS,
            vm = sym VM_EPOCH,
            table = sym fdtable::BASE,
            heard = sym HEARD,
            fds = const fdtable::FDS,
            write = const nr::WRITE,
            quiet = const tls::QUIET_AT,
            pipe_buf = const PIPE_BUF,
            made = const core::mem::offset_of!(Keeper, writes),
            writes = const quiet::WRITES,
            inside = const core::mem::offset_of!(Keeper, quiet),
            again = const EAGAIN,
            full = const FULL_FROM_T,
            size = const size_of::<Frame>(),
            then = const THEN,
            dispatch = sym dispatch,
            after = sym after,
        );
    };
}

text! {
    ".text",
    ".hidden byway_entry",
    ".globl byway_entry",
    ".type byway_entry, @function",
    "byway_entry:",
    ".cfi_startproc",
    // Not yet a frame: the caller is the site itself.
    ".cfi_def_cfa rsp, 0",
    ".cfi_register rip, r11",
    "cmp rax, 448",
    "jae 9f",
    "lea rcx, [rip + {class}]",
    "movzx ecx, byte ptr [rcx + rax]",
    "test ecx, ecx",
    "jz 9f",
    "cmp ecx, 2",
    "je 5f",
    "ja 8f",
    "mov rcx, qword ptr [rip + byway_tls@GOTTPOFF]",
    "cmp dword ptr fs:[rcx], 0",
    "jne 5f",
    "cmp edi, {fds}",
    "jae 5f",
    "mov ecx, edi",
    "shl rcx, 2",
    "add rcx, qword ptr [rip + {table}]",
    "cmp dword ptr [rcx], 1",
    "jne 3f",
    // A call of the kernel's may have told us something (HEARD).
    "9: cmp byte ptr [rip + {heard}], 0",
    "jne 4f",
    "mov byte ptr [rip + {heard}], 1",
    "4: jmp r11",
    "8: lock inc dword ptr [rip + {vm}]",
    "jmp r11",
    // A pipe that is the kernel's, and quiet (crate pipe, quiet.rs): said, looked, called, and said again.
    "3: cmp rax, {write}",
    "ja 5f",
    "lea rsp, [rsp - 128]",
    ".cfi_def_cfa_offset 128",
    "push r11",
    ".cfi_def_cfa_offset 136",
    ".cfi_offset rip, -136",
    "mov rcx, qword ptr [rip + byway_tls@GOTTPOFF]",
    "mov r11d, eax",
    "shl r11d, 5",
    "lea rcx, [rcx + r11 + {quiet}]",
    "lea r11d, [rdi + 1]",
    "cmp r11d, fs:[rcx]",
    "jne 34f",
    "mov r11d, edi",
    "shl r11, 2",
    "add r11, qword ptr [rip + {table}]",
    "mov r11d, [r11]",
    "cmp r11d, fs:[rcx + 4]",
    "jne 34f",
    "mov r11, fs:[rcx + 24]",
    "test eax, eax",
    "jz 32f",
    "cmp rdx, {pipe_buf}",
    "ja 34f",
    "cmp dword ptr [r11 + {made}], {writes}",
    "jae 34f",
    "inc dword ptr [r11 + {made}]",
    "32: cmp dword ptr [r11 + {inside}], 0",
    "jne 34f",
    "push rbx",
    ".cfi_def_cfa_offset 144",
    ".cfi_offset rbx, -144",
    "push r12",
    ".cfi_def_cfa_offset 152",
    ".cfi_offset r12, -152",
    "push rax",
    ".cfi_def_cfa_offset 160",
    "mov r12, r11",
    "mov rbx, fs:[rcx + 16]",
    "mov ecx, fs:[rcx + 8]",
    // EDGE E9: said before the look; between CPUs the opener's barrier sees to it.
    "mov [r12 + {inside}], ecx",
    "cmp qword ptr [rbx], 0",
    "jns 33f",
    "syscall",
    "mov dword ptr [r12 + {inside}], 0",
    "mov byte ptr [rip + {heard}], 1",
    "cmp rax, {again}",
    "jne 36f",
    "cmp dword ptr [rsp], 0",
    "je 36f",
    "mov byte ptr [rbx + {full}], 1",
    "36: pop rcx",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 152",
    "pop r12",
    ".cfi_restore r12",
    ".cfi_def_cfa_offset 144",
    "pop rbx",
    ".cfi_restore rbx",
    ".cfi_def_cfa_offset 136",
    "pop r11",
    ".cfi_register rip, r11",
    ".cfi_def_cfa_offset 128",
    "lea rsp, [rsp + 128]",
    ".cfi_def_cfa_offset 0",
    "lea r11, [r11 + 2]",
    "jmp r11",
    ".cfi_restore_state",
    "33: mov dword ptr [r12 + {inside}], 0",
    "pop rax",
    ".cfi_def_cfa_offset 152",
    "pop r12",
    ".cfi_restore r12",
    ".cfi_def_cfa_offset 144",
    "pop rbx",
    ".cfi_restore rbx",
    ".cfi_def_cfa_offset 136",
    "34: pop r11",
    ".cfi_register rip, r11",
    ".cfi_def_cfa_offset 128",
    "lea rsp, [rsp + 128]",
    ".cfi_def_cfa_offset 0",
    // Slow: a frame below the red zone. The site is its return address, for unwinders.
    "5: lea rsp, [rsp - 128]",
    ".cfi_def_cfa_offset 128",
    "push r11",
    ".cfi_def_cfa_offset 136",
    ".cfi_offset rip, -136",
    "push rbp",
    ".cfi_def_cfa_offset 144",
    ".cfi_offset rbp, -144",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "and rsp, -16",
    "sub rsp, {size}",
    "mov [rsp], rax", "mov [rsp+8], rdi", "mov [rsp+16], rsi", "mov [rsp+24], rdx",
    "mov [rsp+32], r10", "mov [rsp+40], r8", "mov [rsp+48], r9",
    "movaps [rsp+80], xmm0", "movaps [rsp+96], xmm1", "movaps [rsp+112], xmm2", "movaps [rsp+128], xmm3",
    "movaps [rsp+144], xmm4", "movaps [rsp+160], xmm5", "movaps [rsp+176], xmm6", "movaps [rsp+192], xmm7",
    "movaps [rsp+208], xmm8", "movaps [rsp+224], xmm9", "movaps [rsp+240], xmm10", "movaps [rsp+256], xmm11",
    "movaps [rsp+272], xmm12", "movaps [rsp+288], xmm13", "movaps [rsp+304], xmm14", "movaps [rsp+320], xmm15",
    "mov rdi, rsp",
    "call {dispatch}",
    "6: cmp eax, {then}",
    "jne 7f",
    // The call made in the site's stead; it may sleep, be interrupted, restarted, cancelled.
    "mov rax, [rsp+336]", "mov rdi, [rsp+344]", "mov rsi, [rsp+352]", "mov rdx, [rsp+360]",
    "mov r10, [rsp+368]", "mov r8, [rsp+376]", "mov r9, [rsp+384]",
    "syscall",
    "mov [rsp+56], rax",
    "mov rdi, rsp",
    "call {after}",
    "jmp 6b",
    "7: mov r11, [rbp+8]",
    "lea rcx, [r11+2]",
    "test eax, eax",
    "mov rax, [rsp]",
    "cmovz r11, rcx",
    "cmovz rax, [rsp+56]",
    "movaps xmm0, [rsp+80]", "movaps xmm1, [rsp+96]", "movaps xmm2, [rsp+112]", "movaps xmm3, [rsp+128]",
    "movaps xmm4, [rsp+144]", "movaps xmm5, [rsp+160]", "movaps xmm6, [rsp+176]", "movaps xmm7, [rsp+192]",
    "movaps xmm8, [rsp+208]", "movaps xmm9, [rsp+224]", "movaps xmm10, [rsp+240]", "movaps xmm11, [rsp+256]",
    "movaps xmm12, [rsp+272]", "movaps xmm13, [rsp+288]", "movaps xmm14, [rsp+304]", "movaps xmm15, [rsp+320]",
    "mov rdi, [rsp+8]", "mov rsi, [rsp+16]", "mov rdx, [rsp+24]",
    "mov r10, [rsp+32]", "mov r8, [rsp+40]", "mov r9, [rsp+48]",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 136",
    ".cfi_restore rbp",
    "lea rsp, [rsp + 136]",
    ".cfi_def_cfa_offset 0",
    ".cfi_register rip, r11",
    "jmp r11",
    ".cfi_endproc",
    ".size byway_entry, . - byway_entry",
}

text! {
    ".text",
    ".hidden byway_bridge",
    ".globl byway_bridge",
    ".type byway_bridge, @function",
    // (rdi: the thread's cancel state, rsi: number, rdx, rcx, r8, r9, [rsp+8], [rsp+16]: arguments; r11: the bridge;
    // eax: the bit of that state which says that cancellation is pending, on which the bridge acts before all else)
    "byway_bridge:",
    ".cfi_startproc",
    "test dword ptr [rdi], eax",
    "jnz 9f",
    "cmp rsi, 448",
    "jae 9f",
    "lea rax, [rip + {class}]",
    "movzx eax, byte ptr [rax + rsi]",
    "test eax, eax",
    "jz 9f",
    "cmp eax, 2",
    "je 5f",
    "ja 8f",
    "mov rax, qword ptr [rip + byway_tls@GOTTPOFF]",
    "cmp dword ptr fs:[rax], 0",
    "jne 5f",
    "cmp edx, {fds}",
    "jae 5f",
    "mov eax, edx",
    "shl rax, 2",
    "add rax, qword ptr [rip + {table}]",
    "cmp dword ptr [rax], 1",
    "jne 3f",
    // A call of the kernel's may have told us something (HEARD).
    "9: cmp byte ptr [rip + {heard}], 0",
    "jne 4f",
    "mov byte ptr [rip + {heard}], 1",
    "4: jmp r11",
    "8: lock inc dword ptr [rip + {vm}]",
    "jmp r11",
    // As in `byway_entry`.
    "3: cmp rsi, {write}",
    "ja 5f",
    "mov rax, qword ptr [rip + byway_tls@GOTTPOFF]",
    "mov r10d, esi",
    "shl r10d, 5",
    "lea rax, [rax + r10 + {quiet}]",
    "lea r10d, [rdx + 1]",
    "cmp r10d, fs:[rax]",
    "jne 5f",
    "mov r10d, edx",
    "shl r10, 2",
    "add r10, qword ptr [rip + {table}]",
    "mov r10d, [r10]",
    "cmp r10d, fs:[rax + 4]",
    "jne 5f",
    "mov r10, fs:[rax + 24]",
    "test esi, esi",
    "jz 32f",
    "cmp r8, {pipe_buf}",
    "ja 5f",
    "cmp dword ptr [r10 + {made}], {writes}",
    "jae 5f",
    "inc dword ptr [r10 + {made}]",
    "32: cmp dword ptr [r10 + {inside}], 0",
    "jne 5f",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "push r12",
    ".cfi_def_cfa_offset 24",
    ".cfi_offset r12, -24",
    "push rsi",
    ".cfi_def_cfa_offset 32",
    // Its two arguments on the stack, which are its own to write to.
    "sub rsp, 16",
    ".cfi_def_cfa_offset 48",
    "mov r12, r10",
    "mov rbx, fs:[rax + 16]",
    "mov eax, fs:[rax + 8]",
    // EDGE E9: as above.
    "mov [r12 + {inside}], eax",
    "cmp qword ptr [rbx], 0",
    "jns 33f",
    "call r11",
    "mov dword ptr [r12 + {inside}], 0",
    "mov byte ptr [rip + {heard}], 1",
    "cmp rax, {again}",
    "jne 36f",
    "cmp dword ptr [rsp + 16], 0",
    "je 36f",
    "mov byte ptr [rbx + {full}], 1",
    "36: add rsp, 24",
    ".cfi_remember_state",
    ".cfi_def_cfa_offset 24",
    "pop r12",
    ".cfi_restore r12",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_restore rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_restore_state",
    "33: mov dword ptr [r12 + {inside}], 0",
    "add rsp, 16",
    ".cfi_def_cfa_offset 32",
    "pop rsi",
    ".cfi_def_cfa_offset 24",
    "pop r12",
    ".cfi_restore r12",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_restore rbx",
    ".cfi_def_cfa_offset 8",
    "5: push rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbp, -16",
    "mov rbp, rsp",
    ".cfi_def_cfa_register rbp",
    "and rsp, -16",
    "sub rsp, {size}",
    "mov [rsp], rsi", "mov [rsp+8], rdx", "mov [rsp+16], rcx", "mov [rsp+24], r8", "mov [rsp+32], r9",
    "mov rax, [rbp+16]", "mov [rsp+40], rax", "mov rax, [rbp+24]", "mov [rsp+48], rax",
    "mov [rsp+64], rdi", "mov [rsp+72], r11",
    "mov rdi, rsp",
    "call {dispatch}",
    "6: cmp eax, {then}",
    "jne 7f",
    "mov rdi, [rsp+64]", "mov rsi, [rsp+336]", "mov rdx, [rsp+344]", "mov rcx, [rsp+352]",
    "mov r8, [rsp+360]", "mov r9, [rsp+368]", "mov r10, [rsp+376]", "mov rax, [rsp+384]", "mov r11, [rsp+72]",
    "push rax", "push r10",
    "call r11",
    "add rsp, 16",
    "mov [rsp+56], rax",
    "mov rdi, rsp",
    "call {after}",
    "jmp 6b",
    "7: test eax, eax",
    "mov rax, [rsp+56]",
    "mov rdi, [rsp+64]", "mov rsi, [rsp]", "mov rdx, [rsp+8]", "mov rcx, [rsp+16]", "mov r8, [rsp+24]",
    "mov r9, [rsp+32]", "mov r11, [rsp+72]",
    "mov rsp, rbp",
    "pop rbp",
    ".cfi_def_cfa rsp, 8",
    ".cfi_restore rbp",
    "jnz 9b",
    "ret",
    ".cfi_endproc",
    ".size byway_bridge, . - byway_bridge",
}
