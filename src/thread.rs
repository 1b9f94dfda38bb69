//! The calling thread's id, without a system call for each operation.
//!
//! Invariant: after fork(2) a child never takes its parent's id for its own: the generation lies on a page that the
//! kernel wipes in the child (LINUX madvise(2), MADV_WIPEONFORK), however the child was made.
//! Not here: what the id stands for (crate pipe, lock.rs).
use byway_sys::process;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

thread_local! {
    /// Id and the generation in which it was asked for.
    static ID: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
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

/// The kernel's id of the calling thread.
#[inline]
pub fn id() -> u32 {
    let now = generation();
    let (id, asked) = ID.get();
    if asked == now && now != 0 {
        return id;
    }
    let id = process::gettid();
    ID.set((id, now));
    id
}
