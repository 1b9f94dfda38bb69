//! Raw x86-64 system calls by number.
//!
//! Invariant: errno, the stack below the red zone and libc's state are untouched.
//! Not here: retries, cancellation points.
//! Source: syscall(2), System V AMD64 ABI A.2.1.
use crate::errno::Ret;
#[cfg(miri)]
pub use crate::interpreter::call6;
#[cfg(not(miri))]
use core::arch::asm;

pub mod nr {
    //! System call numbers of x86-64 (asm/unistd_64.h).
    pub const READ: usize = 0;
    pub const WRITE: usize = 1;
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const STAT: usize = 4;
    pub const FSTAT: usize = 5;
    pub const POLL: usize = 7;
    pub const LSEEK: usize = 8;
    pub const MMAP: usize = 9;
    pub const CLOCK_GETTIME: usize = 228;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const BRK: usize = 12;
    pub const PREAD: usize = 17;
    pub const RT_SIGACTION: usize = 13;
    pub const RT_SIGPROCMASK: usize = 14;
    pub const RT_SIGPENDING: usize = 127;
    pub const RT_SIGTIMEDWAIT: usize = 128;
    pub const RT_TGSIGQUEUEINFO: usize = 297;
    pub const TGKILL: usize = 234;
    pub const IOCTL: usize = 16;
    pub const READV: usize = 19;
    pub const WRITEV: usize = 20;
    pub const PIPE: usize = 22;
    pub const SELECT: usize = 23;
    pub const ACCESS: usize = 21;
    pub const SCHED_YIELD: usize = 24;
    pub const SHMAT: usize = 30;
    pub const MREMAP: usize = 25;
    pub const MADVISE: usize = 28;
    pub const DUP: usize = 32;
    pub const DUP2: usize = 33;
    pub const NANOSLEEP: usize = 35;
    pub const GETPID: usize = 39;
    pub const SENDFILE: usize = 40;
    pub const SOCKET: usize = 41;
    pub const CONNECT: usize = 42;
    pub const ACCEPT: usize = 43;
    pub const SENDTO: usize = 44;
    pub const RECVFROM: usize = 45;
    pub const SENDMSG: usize = 46;
    pub const RECVMSG: usize = 47;
    pub const SHUTDOWN: usize = 48;
    pub const BIND: usize = 49;
    pub const GETSOCKNAME: usize = 51;
    pub const GETPEERNAME: usize = 52;
    pub const SOCKETPAIR: usize = 53;
    pub const ACCEPT4: usize = 288;
    pub const SETSOCKOPT: usize = 54;
    pub const GETSOCKOPT: usize = 55;
    pub const CLONE: usize = 56;
    pub const FCHMOD: usize = 91;
    pub const FORK: usize = 57;
    pub const VFORK: usize = 58;
    pub const EXECVE: usize = 59;
    pub const EXIT: usize = 60;
    pub const WAIT4: usize = 61;
    pub const KILL: usize = 62;
    pub const SHMDT: usize = 67;
    pub const FCNTL: usize = 72;
    pub const CHDIR: usize = 80;
    pub const FTRUNCATE: usize = 77;
    pub const SETUID: usize = 105;
    pub const SETGID: usize = 106;
    pub const GETEUID: usize = 107;
    pub const SETSID: usize = 112;
    pub const SETREUID: usize = 113;
    pub const SETREGID: usize = 114;
    pub const SETRESUID: usize = 117;
    pub const GETRESUID: usize = 118;
    pub const SETRESGID: usize = 119;
    pub const GETRESGID: usize = 120;
    pub const CAPSET: usize = 126;
    pub const SIGALTSTACK: usize = 131;
    pub const MLOCKALL: usize = 151;
    pub const PRCTL: usize = 157;
    pub const SETFSUID: usize = 122;
    pub const SETFSGID: usize = 123;
    pub const PIVOT_ROOT: usize = 155;
    pub const ARCH_PRCTL: usize = 158;
    pub const SETRLIMIT: usize = 160;
    pub const IO_SUBMIT: usize = 209;
    pub const PKEY_MPROTECT: usize = 329;
    pub const LANDLOCK_RESTRICT_SELF: usize = 446;
    pub const CHROOT: usize = 161;
    pub const GETTID: usize = 186;
    pub const MEMBARRIER: usize = 324;
    pub const PIDFD_OPEN: usize = 434;
    pub const FSTATFS: usize = 138;
    pub const FUTEX: usize = 202;
    pub const FUTEX_WAITV: usize = 449;
    pub const SCHED_GETSCHEDULER: usize = 145;
    pub const SCHED_GETAFFINITY: usize = 204;
    pub const GETDENTS64: usize = 217;
    pub const EXIT_GROUP: usize = 231;
    pub const EPOLL_CREATE: usize = 213;
    pub const EPOLL_WAIT: usize = 232;
    pub const EPOLL_CTL: usize = 233;
    pub const EPOLL_PWAIT: usize = 281;
    pub const EPOLL_CREATE1: usize = 291;
    pub const EPOLL_PWAIT2: usize = 441;
    pub const WAITID: usize = 247;
    pub const OPENAT: usize = 257;
    pub const MKNOD: usize = 133;
    pub const MKNODAT: usize = 259;
    pub const PSELECT6: usize = 270;
    pub const PPOLL: usize = 271;
    pub const UNSHARE: usize = 272;
    pub const SPLICE: usize = 275;
    pub const TEE: usize = 276;
    pub const VMSPLICE: usize = 278;
    pub const DUP3: usize = 292;
    pub const PIPE2: usize = 293;
    pub const PREADV: usize = 295;
    pub const PWRITEV: usize = 296;
    pub const PRLIMIT64: usize = 302;
    pub const RECVMMSG: usize = 299;
    pub const SENDMMSG: usize = 307;
    pub const SETNS: usize = 308;
    pub const PROCESS_VM_READV: usize = 310;
    pub const SECCOMP: usize = 317;
    pub const EXECVEAT: usize = 322;
    pub const PREADV2: usize = 327;
    pub const PWRITEV2: usize = 328;
    pub const IO_URING_SETUP: usize = 425;
    pub const IO_URING_ENTER: usize = 426;
    pub const IO_URING_REGISTER: usize = 427;
    pub const CLONE3: usize = 435;
    pub const NEWFSTATAT: usize = 262;
    pub const STATX: usize = 332;
    pub const CLOSE_RANGE: usize = 436;
    pub const PIDFD_GETFD: usize = 438;
}

/// One system call with six arguments (unused ones are zero).
///
/// # Safety
/// The caller owns every pointer among the arguments, as that call's manual page demands.
#[cfg(not(miri))]
#[inline]
pub unsafe fn call6(n: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> Ret {
    let r: isize;
    // SAFETY: the caller's promise above; rcx and r11 are declared clobbered, as the ABI says.
    unsafe {
        // A nop of five bytes that nothing jumps behind: room for a jump, so that a program of which this is a part can be carried.
        asm!(".byte 0x0f, 0x1f, 0x44, 0, 0", "syscall", inlateout("rax") n as isize => r, in("rdi") a, in("rsi") b, in("rdx") c,
             in("r10") d, in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _,
             options(nostack));
    }
    r
}

/// One system call with up to three arguments.
///
/// # Safety
/// As [`call6`].
#[inline]
pub unsafe fn call3(n: usize, a: usize, b: usize, c: usize) -> Ret {
    // SAFETY: the caller's promise.
    unsafe { call6(n, a, b, c, 0, 0, 0) }
}
