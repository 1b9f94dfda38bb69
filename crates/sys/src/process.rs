//! Threads and processes: who am I, is that one alive, sleep a little.
//!
//! Invariant: "dead" is said only when the kernel says so; on doubt a thread is alive.
//! Not here: anything about what the dead one held.
use crate::errno::{ESRCH, failed};
use crate::file;
use crate::path::Path;
use crate::syscall::{call3, call6, nr};

/// The kernel's thread id.
pub fn gettid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call3(nr::GETTID, 0, 0, 0) as u32 }
}

/// The process id.
pub fn getpid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call3(nr::GETPID, 0, 0, 0) as u32 }
}

/// The effective user id.
pub fn geteuid() -> u32 {
    // SAFETY: no arguments.
    unsafe { call3(nr::GETEUID, 0, 0, 0) as u32 }
}

/// The real, effective and saved user id.
pub fn user_ids() -> [u32; 3] {
    ids(nr::GETRESUID)
}

/// The real, effective and saved group id.
pub fn group_ids() -> [u32; 3] {
    ids(nr::GETRESGID)
}

fn ids(call: usize) -> [u32; 3] {
    let mut ids = [0u32; 3];
    let [real, effective, saved] = ids.each_mut().map(|id| id as *mut u32 as usize);
    // SAFETY: three ids that live over the call.
    unsafe { call3(call, real, effective, saved) };
    ids
}

/// Whether thread `tid` has ended: no such task, or a zombie that its parent has not reaped.
///
/// LINUX kill(2) with signal 0 finds zombies alive, so the state letter of /proc/TID/stat is asked as well.
pub fn is_dead(tid: u32) -> bool {
    // SAFETY: no pointers; signal 0 only checks.
    let r = unsafe { call3(nr::KILL, tid as usize, 0, 0) };
    if r == -3 {
        return true;
    }
    let path = Path::of(b"/proc/").number(tid as usize).text(b"/stat");
    let mut buf = [0u8; 128];
    // SAFETY: `path` is NUL terminated; `buf` is ours for the read.
    let got = unsafe {
        let fd = call6(
            nr::OPENAT,
            -100isize as usize,
            path.address(),
            0o2000000,
            0,
            0,
            0,
        );
        if failed(fd) {
            return false;
        }
        let got = call3(nr::READ, fd as usize, buf.as_mut_ptr() as usize, buf.len());
        call3(nr::CLOSE, fd as usize, 0, 0);
        got
    };
    if got <= 0 {
        return false;
    }
    // The name may hold anything, so the state is the letter after the last ')'.
    let text = &buf[..(got as usize).min(buf.len())];
    match text.iter().rposition(|&c| c == b')') {
        Some(i) if i + 2 < text.len() => text[i + 2] == b'Z' || text[i + 2] == b'X',
        _ => false,
    }
}

/// Whether process `pid` has ended, with all its threads.
///
/// LINUX a process whose first thread has ended goes on, and looks like a zombie in /proc; a pidfd of it is readable
/// only when the last thread has ended.
pub fn is_gone(pid: u32) -> bool {
    /// LINUX PID_MAX_LIMIT.
    const PIDS: u32 = 1 << 22;
    if pid >= PIDS {
        return true;
    }
    if !is_dead(pid) {
        return false;
    }
    // SAFETY: no pointers.
    let fd = unsafe { call3(nr::PIDFD_OPEN, pid as usize, 0, 0) };
    if failed(fd) {
        // On doubt it is alive.
        return fd == ESRCH;
    }
    let (_, events) = file::poll1(fd as usize, file::POLLIN, 0);
    file::close(fd as usize);
    events & file::POLLIN != 0
}

/// The number of this process's pid name space; 0 where /proc does not say.
pub fn pid_space() -> u64 {
    let mut st = [0u64; 18];
    let path = c"/proc/self/ns/pid".as_ptr() as usize;
    // SAFETY: STAT of a NUL-terminated path; `st` has the size of struct stat.
    let r = unsafe { call3(nr::STAT, path, st.as_mut_ptr() as usize, 0) };
    if failed(r) { 0 } else { st[1] }
}

/// Whether there is a limit on what this process may map (RLIMIT_AS). On doubt there is.
pub fn address_space_is_limited() -> bool {
    const RLIMIT_AS: usize = 9;
    const INFINITY: u64 = u64::MAX;
    let mut limit = [0u64; 2];
    let to = limit.as_mut_ptr() as usize;
    // SAFETY: `limit` has the layout of struct rlimit64.
    unsafe { call6(nr::PRLIMIT64, 0, RLIMIT_AS, 0, to, 0, 0) };
    limit[0] != INFINITY
}

/// Sleeps for about `us` microseconds; a signal ends it early.
pub fn nap(us: u64) {
    let ts: [u64; 2] = [us / 1_000_000, us % 1_000_000 * 1000];
    // SAFETY: `ts` is a struct timespec.
    unsafe { call3(nr::NANOSLEEP, ts.as_ptr() as usize, 0, 0) };
}

/// CPU time that this process has had, us.
pub fn cpu_us() -> u64 {
    const CLOCK_PROCESS_CPUTIME_ID: usize = 2;
    let mut ts = [0u64; 2];
    // SAFETY: `ts` is a struct timespec.
    unsafe {
        let to = ts.as_mut_ptr() as usize;
        call3(nr::CLOCK_GETTIME, CLOCK_PROCESS_CPUTIME_ID, to, 0)
    };
    ts[0] * 1_000_000 + ts[1] / 1000
}

/// sched_yield(2).
pub fn yield_now() {
    // SAFETY: no arguments.
    unsafe { call3(nr::SCHED_YIELD, 0, 0, 0) };
}

/// How many CPUs this thread may run on; 1 when the kernel does not say.
pub fn allowed_cpus() -> u32 {
    // LINUX sched_getaffinity(2): EINVAL for a mask that is smaller than the kernel's, which has 8192 bits at most.
    let mut mask = [0u64; 128];
    let len = size_of_val(&mask);
    // SAFETY: `mask` is ours, and as long.
    let r = unsafe { call3(nr::SCHED_GETAFFINITY, 0, len, mask.as_mut_ptr() as usize) };
    if failed(r) {
        1
    } else {
        mask.iter().map(|m| m.count_ones()).sum::<u32>().max(1)
    }
}

/// Whether the kernel shares the CPU out among this thread and others of its kind: not a real-time class, nor one that it does not know.
pub fn is_time_shared() -> bool {
    const RESET_ON_FORK: isize = 0x4000_0000;
    const SHARED: [isize; 3] = [0, 3, 5]; // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE
    // SAFETY: no pointers.
    let class = unsafe { call3(nr::SCHED_GETSCHEDULER, 0, 0, 0) };
    SHARED.contains(&(class & !RESET_ON_FORK))
}

/// This thread's name, NUL padded (prctl PR_GET_NAME).
pub fn name() -> [u64; 2] {
    let mut n = [0u64; 2];
    const PR_GET_NAME: usize = 16;
    // SAFETY: the kernel writes at most 16 bytes there.
    unsafe { call3(nr::PRCTL, PR_GET_NAME, n.as_mut_ptr() as usize, 0) };
    n
}

/// Whether others of the same user may look into this process.
pub fn is_dumpable() -> bool {
    const PR_GET_DUMPABLE: usize = 3;
    // SAFETY: no pointers.
    unsafe { call3(nr::PRCTL, PR_GET_DUMPABLE, 0, 0) == 1 }
}

/// Whether a seccomp filter looks at our system calls. On doubt it does.
pub fn is_filtered() -> bool {
    const PR_GET_SECCOMP: usize = 21;
    // SAFETY: no pointers.
    unsafe { call3(nr::PRCTL, PR_GET_SECCOMP, 0, 0) != 0 }
}
