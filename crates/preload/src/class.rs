//! Which system calls the entry code looks at.
//!
//! Invariant: a call that is not named here runs at libc's own instruction, as it is; once the process takes no part any more
//! only those that concern the next image are.
//! Not here: what becomes of one that is (dispatch.rs).
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// 0: never ours; 1: ours if the fd in the first argument is not plain; 2: always asked; 3: takes memory away.
pub static CLASS: [AtomicU8; 448] = {
    let named = classes();
    let mut c = [const { AtomicU8::new(0) }; 448];
    let mut i = 0;
    while i < c.len() {
        c[i] = AtomicU8::new(named[i]);
        i += 1;
    }
    c
};

/// From now on none is looked at but what concerns the next image: also not one that the entry code would make by itself, with what
/// it does after it.
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
        SETRLIMIT,
        PRLIMIT64,
        MLOCKALL,
        SIGALTSTACK,
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
