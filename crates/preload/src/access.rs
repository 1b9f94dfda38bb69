//! May this memory be read or written? The kernel is asked once per range; the answer holds until memory is taken away.
//!
//! Invariant: a copy touches only ranges that madvise(2) populated since the last munmap, mprotect, mremap, brk or
//! MAP_FIXED of this process. A fault would otherwise be a SIGSEGV where the kernel says EFAULT.
//! Not here: a file mapping that another process truncates in between (docs/compatibility.md).
use crate::entry::VM_EPOCH;
use crate::tls;
use byway_mem::domain::probe;
use core::sync::atomic::Ordering::Relaxed;

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
    if !probe(p, n, write) {
        return false;
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
