//! The few calls of the kernel that the allocator makes, as cargo miri can play them.
//!
//! Invariant: memory that is given back reads as zeroes; whoever is asked about is alive; what is not played does not exist.
//! Not here: anything in a program that runs (the module is compiled for the interpreter only).
use crate::errno::Ret;
use crate::syscall::nr;

unsafe extern "C" {
    safe fn getpid() -> i32;
    safe fn gettid() -> i32;
    safe fn sched_yield() -> i32;
    fn mmap(at: *mut u8, n: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn munmap(at: *mut u8, n: usize) -> i32;
}

const MADV_REMOVE: usize = 9;
const PRIVATE_ANONYMOUS: i32 = 0x22;

/// One system call.
///
/// # Safety
/// As `syscall::call6`.
pub unsafe fn call6(n: usize, a: usize, b: usize, c: usize, _: usize, _: usize, _: usize) -> Ret {
    match n {
        nr::GETPID => getpid() as Ret,
        nr::GETTID => gettid() as Ret,
        nr::SCHED_YIELD | nr::NANOSLEEP => sched_yield() as Ret,
        nr::MMAP => {
            // SAFETY: a new mapping of nobody's memory.
            let p = unsafe { mmap(core::ptr::null_mut(), b, 3, PRIVATE_ANONYMOUS, -1, 0) };
            p.expose_provenance() as Ret
        }
        // SAFETY: the caller's promise.
        nr::MUNMAP => unsafe { munmap(core::ptr::with_exposed_provenance_mut(a), b) as Ret },
        nr::MADVISE => {
            if c == MADV_REMOVE {
                let p = core::ptr::with_exposed_provenance_mut::<u8>(a);
                // SAFETY: the caller's promise: the range is its own, and nobody uses it.
                unsafe { p.write_bytes(0, b) };
            }
            0
        }
        nr::KILL | nr::FUTEX => 0,
        // ENOSYS.
        _ => -38,
    }
}
