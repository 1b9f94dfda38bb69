//! Memory that a call borrows: what it gathers, or reads from a file, lies there until it is in the ring.
//!
//! Invariant: a piece is one call's until that, or its thread, has ended, sleeps included. A forked child keeps those of the
//! thread that forked: a call over which a handler forks comes back in both. A handler that leaves a call by a jump leaves
//! its piece taken; then there is one less, and such calls are the kernel's once there is none.
//! unsafe: hands the bytes of a piece to the one call that has it.
//! Not here: what lies there (io.rs, sendfile.rs).
use crate::io::UIO_MAXIOV;
use byway_pipe::copy::Iov;
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of a piece; behind them is a list of buffers.
pub const SIZE: usize = 64 * 1024;
const LIST: usize = UIO_MAXIOV * size_of::<Iov>();
const PIECES: usize = 8;

struct Bytes(UnsafeCell<[u8; SIZE + LIST]>);
// SAFETY: the bytes are those of the one call that has the piece.
unsafe impl Sync for Bytes {}

static BYTES: [Bytes; PIECES] = [const { Bytes(UnsafeCell::new([0; SIZE + LIST])) }; PIECES];
/// The thread whose call has the piece; 0: it is free. Apart from the bytes: each end of a process looks here.
#[unsafe(link_section = ".data")]
static OWNERS: [AtomicU32; PIECES] = [const { AtomicU32::new(0) }; PIECES];

/// A piece for a call of thread `tid`: its number, from 1 on. `None`: other calls have all of them.
pub fn borrow(tid: u32) -> Option<usize> {
    // ORDER: what the call before has done with it comes before.
    let free = |owner: &AtomicU32| owner.compare_exchange(0, tid, Acquire, Relaxed).is_ok();
    Some(OWNERS.iter().position(free)? + 1)
}

/// Where the bytes of piece `number` are.
pub fn address(number: usize) -> usize {
    BYTES[number - 1].0.get() as usize
}

/// Where its list is.
pub fn list(number: usize) -> usize {
    address(number) + SIZE
}

/// The call that has piece `number` has ended.
pub fn give_back(number: usize) {
    // ORDER: what was done with it comes before the next call.
    OWNERS[number - 1].store(0, Release);
}

/// A forked child begins: the calls are its parent's, but for those of `thread`, which forked.
pub fn enter_child(thread: u32) {
    frees(|owner| owner != thread);
}

/// The thread `tid` ends.
pub fn ends(tid: u32) {
    frees(|owner| owner == tid);
}

fn frees(is_theirs: impl Fn(u32) -> bool) {
    for owner in &OWNERS {
        let now = owner.load(Relaxed);
        if now != 0 && is_theirs(now) {
            // ORDER: as in `give_back`.
            owner.store(0, Release);
        }
    }
}
