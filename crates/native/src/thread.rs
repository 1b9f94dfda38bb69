//! The calling thread's ids, without a system call for each operation.
//!
//! Invariant: after fork(2) a child never takes its parent's id for its own: the generation lies on a page that the
//! kernel wipes in the child (LINUX madvise(2), MADV_WIPEONFORK), however the child was made.
//! Not here: what the id stands for (crate pipe, lock.rs).
use crate::home;
use byway_mem::cache::User;
use byway_mem::domain::Domain;
use byway_mem::participants;
use byway_pipe::pass_through;
use byway_sys::process;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Ids of the thread and its process, the generation in which they were asked for, and where it stands: all that a call
/// needs after a long sleep is on one line.
type Asked = (Ids, u32, Option<&'static AtomicU32>);

thread_local! {
    static IDS: Cell<Asked> = const { Cell::new((Ids { tid: 0, pid: 0 }, 0, None)) };
}

static GENERATIONS: AtomicU32 = AtomicU32::new(0);

/// The generation of this process: another than that of the process that forked it; never 0.
fn generation(page: &AtomicU32) -> u32 {
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

/// Where the generation stands, if there is such a page.
fn page() -> Option<&'static AtomicU32> {
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    *PAGE.get_or_init(new_page)
}

fn new_page() -> Option<&'static AtomicU32> {
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
    let (ids, asked, page) = IDS.get();
    match page {
        // A child finds 0 there.
        Some(now) if now.load(Relaxed) == asked => ids,
        _ => ask(),
    }
}

#[cold]
fn ask() -> Ids {
    let ids = Ids {
        tid: process::gettid(),
        pid: process::getpid(),
    };
    let page = page();
    IDS.set((ids, page.map_or(0, generation), page));
    // Before the thread's first call that the tail does not count.
    if let Some(h) = home::joined() {
        begin(h.domain, ids);
    }
    ids
}

/// The calling thread's first call in the domain.
pub fn begin(d: Domain, ids: Ids) {
    participants::join(&d, ids.pid);
    pass_through::begin(d, ids.tid);
}

/// The calling thread as a user of the domain's memory.
pub fn user(d: Domain) -> User {
    let Ids { tid, pid } = ids();
    User::new(d, pid, tid)
}
