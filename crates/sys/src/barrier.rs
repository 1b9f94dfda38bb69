//! A memory barrier on every CPU that runs one of us, so that they need none of their own.
//!
//! ```text
//! A, often:    says "inside" (a plain store);   looks at the word
//! B, seldom:   changes the word;   barrier;   looks whether A is inside
//! ```
//! Invariant: after `everywhere` said true, either A's look comes later than B's change, or B sees what A said.
//! Not here: who says what (crate pipe, biased_lock.rs). Source: membarrier(2).
use crate::errno::failed;
use crate::process;
use crate::syscall::{call3, nr};

const GLOBAL_EXPEDITED: usize = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: usize = 1 << 2;

fn membarrier(command: usize) -> bool {
    // SAFETY: no pointers.
    unsafe { !failed(call3(nr::MEMBARRIER, command, 0, 0)) }
}

/// Lets the barriers of others reach this process, and the children that it forks. False: they cannot. In a process of several
/// threads it takes some milliseconds, once.
pub fn register() -> bool {
    // An inherited filter of system calls may end who makes one that it does not know.
    !process::is_filtered() && membarrier(REGISTER_GLOBAL_EXPEDITED)
}

/// The barrier: on every CPU that runs a process that has registered.
pub fn everywhere() {
    if process::is_filtered() || !membarrier(GLOBAL_EXPEDITED) {
        // No store waits that long for its way out of a CPU.
        process::nap(1000);
    }
}
