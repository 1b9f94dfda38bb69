//! A process made by hand that goes on where its maker stood, and that nobody has to wait for.
//!
//! ```text
//! maker --clone(VM, VFORK)--> a go-between on the maker's stack --clone--> the new process: a copy, as of fork(2)
//!   waits, and reaps it  <--ends--         |                               its parent is init: no child of the maker
//! ```
//! Invariant: the maker's program sees no child, no signal and no status of either. The new process leaves its maker's
//! session, and its signals stay blocked: only SIGKILL ends it early.
//! Not here: what it does, and which descriptors it has (`table.rs`). unsafe: processes made by hand, for this library
//! may not call the C library's.
use crate::errno::failed;
use crate::signal::{self, Held};
use crate::syscall::{call3, call6, nr};
use core::arch::asm;

/// Makes the process: its id, or 0 in the process itself. `None`: the system has no room for one, or forbids it.
///
/// The process has one thread, with the caller's thread-local storage and locks as they were: it may use neither them
/// nor restartable sequences, and ends by [`end`].
#[inline(never)]
pub fn make() -> Option<u32> {
    /// LINUX clone(2): no exit signal, so wait(2) does not find the go-between without __WALL.
    const VM_VFORK: usize = 0x100 | 0x4000;
    const PARENT_SETTID: usize = 0x10_0000;
    const WALL: usize = 0x4000_0000;
    let held = Held::new();
    let mut made = 0u32;
    let r: isize;
    // SAFETY: the go-between has the caller's stack, writes nothing there but `made`, and ends inside this block; the
    // caller waits for that in the kernel (CLONE_VFORK). The new process has a copy of all memory and goes on behind it.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "mov eax, {clone}",
            "mov edi, {settid}",
            "syscall",
            "test rax, rax",
            "jz 2f",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "2:",
            clone = const nr::CLONE,
            settid = const PARENT_SETTID,
            exit = const nr::EXIT,
            inlateout("rax") nr::CLONE as isize => r,
            inlateout("rdi") VM_VFORK => _,
            in("rsi") 0,
            in("rdx") &raw mut made,
            in("r10") 0,
            in("r8") 0,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if r == 0 {
        core::mem::forget(held);
        detach();
        return Some(0);
    }
    if !failed(r) {
        // SAFETY: no status is asked for.
        unsafe { call6(nr::WAIT4, r as usize, 0, WALL, 0, 0, 0) };
    }
    (made != 0).then_some(made)
}

/// In the new process: nothing of its maker's terminal, folder, handlers and name.
fn detach() {
    const PR_SET_NAME: usize = 15;
    // A fault would call a handler of the program; blocked, it ends the process.
    signal::block_all();
    // SAFETY: the texts are NUL terminated, the first no longer than the 16 bytes of a name.
    unsafe {
        call3(nr::SETSID, 0, 0, 0);
        call3(nr::CHDIR, c"/".as_ptr() as usize, 0, 0);
        call3(
            nr::PRCTL,
            PR_SET_NAME,
            c"byway-spiller".as_ptr() as usize,
            0,
        );
    }
}

/// Gives back the memory that the new process has of its program, but for what is within `keep`, ranges of addresses,
/// and near the code, the stack and the thread's storage: else it would lie about as long as this process does.
///
/// LINUX madvise(2) MADV_DONTNEED: goes on over holes; another process's copy stays as it is.
pub fn forget_memory(keep: (usize, usize)) {
    const DONTNEED: usize = 4;
    const END: usize = 0x7fff_ffff_f000;
    const MIB: usize = 1 << 20;
    let (stack, storage): (usize, usize);
    // SAFETY: two registers; fs:0 holds the thread pointer (x86-64 psABI).
    unsafe {
        asm!("mov {}, rsp", "mov {}, fs:[0]", out(reg) stack, out(reg) storage,
             options(nostack, readonly, preserves_flags));
    }
    let near = |p: usize, n: usize| (p.saturating_sub(n) & !4095, (p + n) & !4095);
    // A program's image, its constants among it, is not larger.
    let code = near(forget_memory as *const () as usize, 512 * MIB);
    let mut kept = [near(stack, MIB), near(storage, MIB), code, keep];
    kept.sort_unstable();
    let mut at = 4096;
    for (from, to) in kept.into_iter().chain([(END, END)]) {
        if from > at {
            // SAFETY: nothing of it is used any more.
            unsafe { call3(nr::MADVISE, at, from - at, DONTNEED) };
        }
        at = at.max(to);
    }
}

/// Ends the new process.
pub fn end() -> ! {
    loop {
        // SAFETY: no pointers.
        unsafe { call3(nr::EXIT_GROUP, 0, 0, 0) };
    }
}
