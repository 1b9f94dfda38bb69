//! May this memory be read or written? The kernel is asked once per range; the answer holds until memory is taken away. A thread
//! remembers two ranges of each kind, and the process single pages: a server has a buffer for each of its clients.
//!
//! Invariant: a copy touches only ranges that madvise(2) populated since the last munmap, mprotect, mremap, brk or
//! MAP_FIXED of this process. A fault would otherwise be a SIGSEGV where the kernel says EFAULT.
//! Not here: a file mapping that another process truncates in between (docs/compatibility.md).
use crate::entry::VM_EPOCH;
use crate::tls;
use byway_mem::domain::probe;
use byway_pipe::copy::Iov;
use byway_sys::syscall::nr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PAGE: usize = 4096;
/// Buffers of so many pages are remembered by their pages.
const FEW: usize = 2;
/// Pages that may be read, or written: each in one place, as `known` has it.
static PAGES: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// What stands for page number `page` at `epoch`, and its place.
fn known(page: usize, write: bool, epoch: u32) -> (&'static AtomicU64, u64) {
    let page = page as u64;
    let place = (page ^ (page >> 9) ^ u64::from(write)) as usize % PAGES.len();
    // LINUX x86-64 addresses of a program have 47 bits, so a page's number has 35.
    let epoch = (u64::from(epoch) & 0xfff_ffff) << 1;
    (&PAGES[place], (page << 29) | epoch | u64::from(write))
}

/// LINUX read(2): the most bytes of one call.
pub const MOST: usize = 0x7fff_f000;

/// Whether call `nr` refuses the buffers at once, whatever there is to read.
///
/// LINUX vfs_read, import_iovec: EFAULT where one ends behind the last address; EINVAL where it is longer than ssize_t has. Of a
/// single buffer only as much is looked at as one call moves, but for read(2) and write(2).
pub fn is_refused(parts: &[Iov], nr: usize) -> bool {
    const LAST: usize = 0x7fff_ffff_f000;
    let is_whole = parts.len() > 1 || matches!(nr, nr::READ | nr::WRITE);
    let may_be_long = matches!(nr, nr::SENDTO | nr::RECVFROM);
    parts.iter().any(|v| {
        let n = if is_whole { v.len } else { v.len.min(MOST) };
        v.base.saturating_add(n) > LAST || !may_be_long && v.len > isize::MAX as usize
    })
}

/// Whether `n` bytes at `p` may be read, or written if `write`.
pub fn allowed(p: usize, n: usize, write: bool) -> bool {
    let t = tls::get();
    let epoch = VM_EPOCH.load(Relaxed);
    if t.epoch.get() != epoch {
        t.readable.set([0; 4]);
        t.writable.set([0; 4]);
        t.epoch.set(epoch);
    }
    let Some(end) = p.checked_add(n) else {
        return false;
    };
    let cell = if write { &t.writable } else { &t.readable };
    let k = cell.get();
    if (p >= k[0] && end <= k[1]) || (p >= k[2] && end <= k[3]) {
        return true;
    }
    let pages = || p / PAGE..end.div_ceil(PAGE);
    let few = pages().len() <= FEW;
    let is_known = |page| {
        let (place, what) = known(page, write, epoch);
        place.load(Relaxed) == what
    };
    if few && pages().all(is_known) {
        return true;
    }
    if !probe(p, n, write) {
        return false;
    }
    for page in pages().filter(|_| few) {
        let (place, what) = known(page, write, epoch);
        place.store(what, Relaxed);
    }
    let (lo, hi) = (p & !4095, end.next_multiple_of(4096));
    if lo <= k[1] && hi >= k[0] && k[1] != 0 {
        // Touches the first range: together they are one.
        cell.set([k[0].min(lo), k[1].max(hi), k[2], k[3]]);
    } else {
        cell.set([lo, hi, k[0], k[1]]);
    }
    true
}

/// The `k`th struct iovec of the list at `list`.
///
/// # Safety
/// It can be read.
pub unsafe fn buffer(list: usize, k: usize) -> Iov {
    // SAFETY: the caller's. A program's list may lie anywhere.
    unsafe { (list as *const Iov).add(k).read_unaligned() }
}
