//! The calling thread's ids, without a system call for each operation.
//!
//! Invariant: after fork(2) a child never takes its parent's id for its own: the generation lies on a page that the
//! kernel wipes in the child (LINUX madvise(2), MADV_WIPEONFORK), however the child was made.
//! Not here: what the id stands for (crate pipe, lock.rs).
use byway_mem::cache::User;
use byway_mem::domain::Domain;
use byway_sys::process;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

thread_local! {
    /// Ids of the thread and its process, and the generation in which they were asked for.
    static IDS: Cell<(Ids, u32)> = const { Cell::new((Ids { tid: 0, pid: 0 }, 0)) };
}

static GENERATIONS: AtomicU32 = AtomicU32::new(0);

/// The generation of this process: another than that of the process that forked it. 0: there is no such page.
fn generation() -> u32 {
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(page) = PAGE.get_or_init(page) else {
        return 0;
    };
    match page.load(Relaxed) {
        0 => {
            // Several threads may do this at once after a fork; any number that the parent did not have will do.
            let new = GENERATIONS.fetch_add(1, Relaxed).wrapping_add(1).max(1);
            page.store(new, Relaxed);
            new
        }
        n => n,
    }
}

fn page() -> Option<&'static AtomicU32> {
    const BYTES: usize = 4096;
    // SAFETY: a new private mapping that stays; zeroed by the kernel, aligned to a page.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if p == libc::MAP_FAILED || libc::madvise(p, BYTES, libc::MADV_WIPEONFORK) != 0 {
            return None;
        }
        Some(&*p.cast())
    }
}

/// The kernel's ids of the calling thread.
#[derive(Clone, Copy)]
pub struct Ids {
    pub tid: u32,
    pub pid: u32,
}

#[inline]
pub fn ids() -> Ids {
    let now = generation();
    let (ids, asked) = IDS.get();
    if asked == now && now != 0 {
        return ids;
    }
    let ids = Ids {
        tid: process::gettid(),
        pid: process::getpid(),
    };
    IDS.set((ids, now));
    ids
}

/// The calling thread as a user of the domain's memory.
pub fn user(d: Domain) -> User {
    let Ids { tid, pid } = ids();
    User::new(d, pid, tid)
}
