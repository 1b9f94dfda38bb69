//! A moment with a descriptor table of one's own: for who must open something while its process has no descriptor left.
//!
//! Invariant: the caller waits until the function has ended, and the process sees no other trace of it than a thread for
//! that long. Its table is a copy: what it closes there stays open for everybody else.
//! Not here: what is opened. unsafe: a thread made by hand, for this library may not call the C library's.
use crate::errno::failed;
use crate::signal::Held;
use crate::syscall::{call3, call6, nr};
use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Acquire};

const STACK: usize = 256 * 1024;

/// Runs `f` with its own copy of the descriptor table. False: no thread could be made.
///
/// `f` runs on another thread that has the caller's thread-local storage: it may use neither that nor restartable sequences.
pub fn with_own<F: FnMut()>(mut f: F) -> bool {
    // A handler would run with another thread's storage; a new thread has its maker's mask.
    let _held = Held::new();
    const PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: a new mapping.
    let stack = unsafe { call6(nr::MMAP, 0, STACK, 3, PRIVATE_ANONYMOUS, usize::MAX, 0) };
    if failed(stack) {
        return false;
    }
    // CLONE_VM, FS, SIGHAND, THREAD, SYSVSEM and CHILD_CLEARTID; not CLONE_FILES.
    const FLAGS: usize = 0x100 | 0x200 | 0x800 | 0x1_0000 | 0x4_0000 | 0x20_0000;
    let running = AtomicU32::new(1);
    let top = (stack as usize + STACK - 16) as *mut usize;
    let r: isize;
    // SAFETY: the new thread has a stack of its own, on which it finds its function and the argument; both outlive it,
    // because the caller waits for `running`. It ends in exit(2) and never leaves this block.
    unsafe {
        top.write(&raw mut f as usize);
        top.add(1).write(run::<F> as *const () as usize);
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, [rsp]",
            "call [rsp + 8]",
            "mov eax, 60",
            "xor edi, edi",
            "syscall",
            "ud2",
            "2:",
            inlateout("rax") nr::CLONE as isize => r,
            in("rdi") FLAGS,
            in("rsi") top,
            in("rdx") 0,
            in("r10") running.as_ptr(),
            in("r8") 0,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if !failed(r) {
        // LINUX CLONE_CHILD_CLEARTID: zero, and a wake of the futex, when the thread has ended.
        const WAIT: usize = 0;
        // ORDER: what it did comes before.
        while running.load(Acquire) == 1 {
            // SAFETY: a word of ours.
            unsafe { call6(nr::FUTEX, running.as_ptr() as usize, WAIT, 1, 0, 0, 0) };
        }
    }
    // SAFETY: nobody uses it any more: the word is cleared by the kernel, after the thread's last instruction.
    unsafe { call3(nr::MUNMAP, stack as usize, STACK, 0) };
    !failed(r)
}

unsafe extern "C" fn run<F: FnMut()>(f: *mut F) {
    // SAFETY: `with_own` waits for us, and does not touch it meanwhile.
    unsafe { (*f)() }
}
