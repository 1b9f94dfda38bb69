//! A domain in anonymous shared memory, and processes that use it.
#![allow(dead_code)]
pub mod sequence;
use byway_mem::cache::User;
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, Geometry, LOCKED, MAGIC, flags};
use byway_sys::process;
use std::sync::atomic::Ordering::Relaxed;

/// A new domain with `slabs` slabs, for this process and those it forks.
pub fn domain(slabs: usize) -> Domain {
    let g = Geometry::of(slabs);
    // SAFETY: a new shared mapping, kept for the life of the process.
    let d = unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            g.bytes,
            3,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        Domain::over(p.cast(), slabs)
    };
    d.lay_out();
    let h = d.header();
    h.cpus.store(process::allowed_cpus(), Relaxed);
    h.cycles_per_us.store(2000, Relaxed);
    h.magic.store(MAGIC, Relaxed);
    d
}

/// The same, without restartable sequences.
pub fn locked_domain(slabs: usize) -> Domain {
    let d = domain(slabs);
    d.header().flags.store(flags::NO_RSEQ, Relaxed);
    d
}

/// The calling thread.
pub fn user(d: Domain) -> User {
    User::new(d, process::getpid(), process::gettid())
}

/// Runs `f` in a child; its exit status, or 256 plus the signal that killed it.
pub fn child(f: impl FnOnce() -> i32) -> i32 {
    wait(start(f))
}

/// Starts a child.
pub fn start(f: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `f` and exits at once.
    unsafe {
        let pid = libc::fork();
        assert!(pid >= 0);
        if pid == 0 {
            // A test that fails leaves nobody behind.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
            libc::_exit(r.unwrap_or(99));
        }
        pid
    }
}

pub fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: our own child and int.
    unsafe { assert_eq!(libc::waitpid(pid, &mut status, 0), pid) };
    if libc::WIFSIGNALED(status) {
        256 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}

/// Ends child `pid`, which may have ended already, and reaps it.
pub fn kill(pid: i32) -> i32 {
    // SAFETY: our own child, not yet reaped.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    wait(pid)
}

/// The CPUs that this process may run on.
pub fn cpus() -> Vec<usize> {
    // SAFETY: `set` is ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        (0..libc::CPU_SETSIZE as usize)
            .filter(|&i| libc::CPU_ISSET(i, &set))
            .collect()
    }
}

/// The calling thread runs on `cpu` from now on. Only a system call: signal handlers call it.
pub fn pin(cpu: usize) {
    // SAFETY: `set` is ours.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// Memory of its own that this process shares with those it forks, zeroed, for the life of the process.
pub fn shared<T>() -> &'static T {
    // SAFETY: a new mapping, page aligned, large enough; the tests use it for atomics, which zeroes are.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            size_of::<T>(),
            3,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        &*(p as *const T)
    }
}

/// Numbers from a seed (xorshift64*).
pub struct Rng(pub u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
}

/// Brings everything home that lies in fronts which this thread can reach: its CPU's, and the locked ones.
pub fn drain_all(d: Domain) {
    byway_mem::cache::drain(&user(d));
    for i in 0..LOCKED {
        // A number of no thread, that chooses front `i`; nobody else is there.
        let tid = (1 << 29) + i;
        byway_mem::cache::drain(&User::without_rseq(d, process::getpid(), tid as u32));
    }
    byway_mem::reclaim::give(&user(d), usize::MAX);
}

/// How many objects of `class` can be had; they are given back.
pub fn capacity(d: Domain, class: Class) -> usize {
    let u = user(d);
    let v: Vec<u32> = std::iter::from_fn(|| byway_mem::cache::alloc(&u, class)).collect();
    for &x in &v {
        byway_mem::cache::free(&u, x, class);
    }
    drain_all(d);
    v.len()
}
