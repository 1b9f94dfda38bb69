//! The descriptors that poll(2), select(2) and their like name, and what they ask of each.
//!
//! Invariant: nothing is read that the kernel could not read.
//! unsafe: reads what the arguments point to, once the kernel says that it can be read.
//! Not here: what is answered (ready.rs), how a wait sleeps (sleep.rs).
use crate::access;
use crate::entry::Frame;
use byway_sys::file::{POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use byway_sys::syscall::nr;

/// What the bytes of a pipe decide.
pub const IN: i16 = POLLIN | POLLRDNORM;
pub const OUT: i16 = POLLOUT | POLLWRNORM;
/// More descriptors than a list can name without a limit that is raised.
const MOST: usize = 65536;

/// Calls `visit` with each descriptor of which call `f` asks `IN` or `OUT`, and with what it asks, as long as that says true.
/// False: the arguments cannot be read.
pub fn each(f: &Frame, visit: impl FnMut(usize, i16) -> bool) -> bool {
    let [a0, a1, a2, a3, ..] = f.args;
    match f.nr {
        nr::POLL | nr::PPOLL => polls(a0, (a1 as u32 as usize).min(MOST), visit),
        _ => selects(a0.min(MOST), [a1, a2, a3], visit),
    }
}

/// The `n` structs pollfd at `list`.
fn polls(list: usize, n: usize, mut visit: impl FnMut(usize, i16) -> bool) -> bool {
    if !access::allowed(list, n * 8, false) {
        return false;
    }
    for k in 0..n {
        // SAFETY: the array was checked; struct pollfd is fd, events, revents.
        let (fd, events) = unsafe {
            let entry = list + k * 8;
            let fd = (entry as *const i32).read_unaligned();
            (fd, ((entry + 4) as *const i16).read_unaligned())
        };
        // Without those it asks for hang-up and error alone, which tell of ends and not of bytes: they are the kernel's
        // at any time. So every Rust program begins, on its standard descriptors.
        if fd >= 0 && events & (IN | OUT) != 0 && !visit(fd as usize, events & (IN | OUT)) {
            break;
        }
    }
    true
}

/// The descriptors below `n` in three sets of bits.
fn selects(n: usize, sets: [usize; 3], mut visit: impl FnMut(usize, i16) -> bool) -> bool {
    let readable = |&set: &usize| set == 0 || access::allowed(set, n.div_ceil(64) * 8, false);
    if !sets.iter().all(readable) {
        return false;
    }
    let word = |set: usize, k: usize| match set {
        0 => 0,
        // SAFETY: the set was checked for `n` bits.
        at => unsafe { (at as *const u64).add(k).read_unaligned() },
    };
    for k in 0..n.div_ceil(64) {
        let [r, w, x] = sets.map(|set| word(set, k));
        let mut left = r | w | x;
        while left != 0 {
            let (bit, fd) = (
                left & left.wrapping_neg(),
                k * 64 + left.trailing_zeros() as usize,
            );
            left ^= bit;
            // LINUX select: of an exceptional condition a pipe knows none.
            let events = if r & bit != 0 { IN } else { 0 } | if w & bit != 0 { OUT } else { 0 };
            if fd < n && !visit(fd, events) {
                return true;
            }
        }
    }
    true
}
