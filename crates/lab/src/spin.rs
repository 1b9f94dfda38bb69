//! Waiting awake for something that another CPU will do in a moment.
//!
//! Invariant: after a bounded number of turns the CPU is offered to others, for whom we wait may have none.
//! Not here: sleeping locks. The sections that are waited for take some ten nanoseconds.
use byway_sys::{clock, process};

/// Pauses between two offers of the CPU: some ten microseconds, longer than any section that runs undisturbed.
const TURNS: u32 = 2048;
/// Pauses between two looks of those who back off, at first and at most.
const FIRST: u32 = 4;
const MOST: u32 = 1024;

/// Pauses until `done`, looking all the time: for what one other thread will do.
#[inline]
pub fn until(mut done: impl FnMut() -> bool) {
    let mut turn = 0u32;
    while !done() {
        turn += 1;
        if turn.is_multiple_of(TURNS) {
            process::yield_now();
        } else {
            clock::pause();
        }
    }
}

/// Pauses until `took`, looking more and more seldom: for a lock that others want too, and whose line each look takes
/// from the CPU that works on it (T. Anderson, "The Performance of Spin Lock Alternatives", 1990).
#[inline]
pub fn with_backoff(mut took: impl FnMut() -> bool) {
    if !took() {
        again_with_backoff(took);
    }
}

#[cold]
fn again_with_backoff(mut took: impl FnMut() -> bool) {
    let (mut wait, mut turn) = (FIRST, 0);
    while !took() {
        for _ in 0..wait {
            clock::pause();
        }
        turn += wait;
        wait = (2 * wait).min(MOST);
        if turn >= TURNS {
            turn = 0;
            process::yield_now();
        }
    }
}
