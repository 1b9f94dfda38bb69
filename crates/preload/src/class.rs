//! Which system calls the entry code looks at.
//!
//! Invariant: a call that is not named here runs at libc's own instruction, as it is; once the process takes no part
//! any more only those that concern the next image are.
//! Not here: what becomes of one that is (dispatch.rs).
use byway_pipe::calls::{self, CALLS};
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Of each call its class (crate pipe, calls.rs).
pub static CLASS: [AtomicU8; CALLS] = {
    let mut c = [const { AtomicU8::new(0) }; CALLS];
    let mut i = 0;
    while i < CALLS {
        c[i] = AtomicU8::new(calls::class(i));
        i += 1;
    }
    c
};

/// From now on munmap is asked about: the stubs of an object that was mapped later go with its text.
pub fn looks_at_munmap() {
    use byway_sys::syscall::nr::MUNMAP;
    const ALWAYS: u8 = 2;
    // A process that has resigned meanwhile answers such a call with the kernel's.
    CLASS[MUNMAP].store(ALWAYS, Relaxed);
}

/// From now on none is looked at but what concerns the next image: also not one that the entry code would make by
/// itself, with what it does after it.
pub fn forget() {
    use byway_sys::syscall::nr::{EXECVE, EXECVEAT, SIGALTSTACK};
    for (nr, c) in CLASS.iter().enumerate() {
        if !matches!(nr, EXECVE | EXECVEAT | SIGALTSTACK) {
            c.store(0, Relaxed);
        }
    }
}

/// From now on none is looked at.
pub fn forget_all() {
    CLASS.iter().for_each(|c| c.store(0, Relaxed));
}
