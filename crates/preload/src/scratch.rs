//! Memory that a call borrows: what it gathers, or reads from a file, lies there until it is in the ring.
//!
//! Invariant: a piece is one call's until that, or its thread, has ended, sleeps included. A forked child keeps those of the
//! thread that forked: a call over which a handler forks comes back in both. A handler that leaves a call by a jump leaves
//! its piece taken; then there is one less, and such calls are the kernel's once there is none.
//! unsafe: hands the bytes of a piece to the one call that has it.
//! Not here: what lies there (io.rs, sendfile.rs).
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of a piece; and of the list of buffers behind them: UIO_MAXIOV of them.
pub const SIZE: usize = 64 * 1024;
const LIST: usize = 1024 * 16;

struct Piece {
    /// The thread whose call has it; 0: it is free.
    owner: AtomicU32,
    bytes: UnsafeCell<[u8; SIZE + LIST]>,
}
// SAFETY: the bytes are those of the one call that has the piece.
unsafe impl Sync for Piece {}

static PIECES: [Piece; 8] = [const {
    Piece {
        owner: AtomicU32::new(0),
        bytes: UnsafeCell::new([0; SIZE + LIST]),
    }
}; 8];

/// A piece for a call of thread `tid`: its number, from 1 on. `None`: other calls have all of them.
pub fn borrow(tid: u32) -> Option<usize> {
    // ORDER: what the call before has done with it comes before.
    let free = |p: &Piece| p.owner.compare_exchange(0, tid, Acquire, Relaxed).is_ok();
    Some(PIECES.iter().position(free)? + 1)
}

/// Where the bytes of piece `number` are.
pub fn address(number: usize) -> usize {
    PIECES[number - 1].bytes.get() as usize
}

/// Where its list is.
pub fn list(number: usize) -> usize {
    address(number) + SIZE
}

/// The call that has piece `number` has ended; 0: it has none.
pub fn give_back(number: usize) {
    if let Some(p) = PIECES.get(number.wrapping_sub(1)) {
        // ORDER: what was done with it comes before the next call.
        p.owner.store(0, Release);
    }
}

/// A forked child begins: the calls are its parent's, but for those of `thread`, which forked.
pub fn enter_child(thread: u32) {
    free(|owner| owner != thread);
}

/// The thread `tid` ends.
pub fn ends(tid: u32) {
    free(|owner| owner == tid);
}

fn free(of: impl Fn(u32) -> bool) {
    let theirs = PIECES.iter().filter(|p| of(p.owner.load(Relaxed)));
    // ORDER: as in `give_back`.
    theirs.for_each(|p| p.owner.store(0, Release));
}
