//! A hand-back into a kernel's pipe that does not take all of the ring's bytes: a process of its own, the spiller, writes
//! the rest there as a writer would that sleeps on a full pipe.
//!
//! ```text
//! maker:    what fits into the pipe;  makes the spiller;  head, then tail: the spiller's, CLOSED   --returns-->
//! spiller:  waits for the tail to be its own;  writes the rest, asleep where the pipe is full;  unlocks;  ends
//! readers:                                         in the kernel's pipe, as on any channel that is closed
//! ```
//! Invariant: from the CAS on the tail that closes the channel until the last byte is in the kernel's pipe a spiller has
//! the writers' lock, so no participant writes there before. It holds a write end, and no other descriptor: readers find
//! the end of the stream behind its bytes, and it finds that the last reader has gone. One that is killed loses what it
//! had not written, as a writer does that is killed in its write(2).
//! Not here: when to hand back (handback.rs), the process itself (crate sys, orphan.rs).
use crate::channel::{Channel, TOLD};
use crate::handback::closed;
use crate::lane::Lane;
use crate::word::{Head, Tail};
use crate::{Caller, Step, lock};
use byway_sys::errno::{EAGAIN, Ret, failed};
use byway_sys::{file, orphan, process, table};
use core::sync::atomic::Ordering::Relaxed;

/// Whether the tail `t` names a spiller that lives.
pub fn is_at_work(t: Tail) -> bool {
    t.spiller() != 0 && !process::is_dead(t.spiller())
}

/// Has a spiller write [at, pos) of the ring into the pipe behind `lane`, a description for both directions. True: both
/// locks, which the caller held, are the spiller's, and the channel is closed. False: there can be no such process.
pub(crate) fn make(me: &Caller, ch: &Channel, lane: &Lane, at: u64, pos: u64) -> bool {
    let (tmp, mut made) = (lane.number(), 0);
    table::with_own(|| {
        file::close_others(tmp);
        let out = file::reopen_to_write(tmp);
        file::close(tmp);
        if failed(out) {
            return;
        }
        made = match orphan::make() {
            Some(0) => run(*me, ch, out as usize, at, pos),
            tid => tid.unwrap_or(0),
        };
    });
    if made == 0 {
        return false;
    }
    // The head first: whoever finds the tail's owner dead waits for the head's, and this one ends if the tail never
    // becomes its own.
    let h = ch.head();
    ch.cas_head(h, Head::owned(h.position(), made, Head::SPILLS));
    ch.closes_for(made);
    true
}

/// The spiller.
fn run(maker: Caller, ch: &Channel, out: usize, at: u64, pos: u64) -> ! {
    let me = Caller {
        tid: process::gettid(),
        rseq: false,
        handlers: false,
        ..maker
    };
    let d = &raw const *me.domain.header() as usize;
    orphan::forget_memory((d, d + me.domain.geometry().bytes));
    let n = (pos - at) as usize;
    if is_owner(&me, maker.tid, ch)
        && let Some(ring) = ch.ring(&me.domain)
    {
        // Each write sleeps until it is done; it fails once the last reader has gone.
        ch.lane(out).pour(ring, at, n, |_| false);
        closed(&me, ch, pos);
    }
    orphan::end()
}

/// Waits for the locks. False: their maker was killed before it gave them away.
fn is_owner(me: &Caller, maker: u32, ch: &Channel) -> bool {
    let mut p = lock::Patience::new();
    loop {
        let gone = p.wait(me) && process::is_dead(maker);
        match ch.tail().lock_owner() {
            owner if owner == me.tid => return true,
            owner if owner != maker || gone => return false,
            _ => {}
        }
    }
}

/// What a write that has `done` bytes does where a spiller is at work: the kernel's pipe is full, or will be at once.
/// `None`: look again, after a while.
pub(crate) fn full(ch: &Channel, fd: usize, done: usize, p: &lock::Patience) -> Option<Step> {
    let (_, now) = file::poll1(fd, file::POLLOUT, 0);
    if now & file::POLLERR != 0 {
        // LINUX pipe_write: no reader: SIGPIPE and EPIPE, from the kernel itself.
        return Some(Step::Native);
    }
    if now != 0 && !p.is_over() {
        // The spiller is about to fill the room, or to end. Whoever was told EAGAIN before that, and waits for an edge of
        // epoll(7), might wait in vain.
        return None;
    }
    Some(if file::is_nonblocking(fd) {
        ch.facts.0.full.store(TOLD, Relaxed);
        Step::Done(if done > 0 { done as Ret } else { EAGAIN })
    } else if done == 0 {
        Step::WaitRestartable
    } else {
        Step::WaitPartial
    })
}

/// Before a call that writes into the pipe past us, or has another do so: waits until no spiller is at work, if `fd` is a
/// write end. The write(2) of those bytes would have waited for the same, had they gone to the kernel's pipe.
///
/// Not in a process that has a read end too: nobody else may read.
pub fn wait(me: &Caller, ch: &Channel, fd: usize) {
    let is_over = || ch.tail().spiller() == 0 || !file::is_writable(fd) || !ch.is_behind(fd);
    let mut reads = false;
    if !is_over() {
        file::each_fd(|fd| reads |= file::is_readable(fd) && ch.is_behind(fd));
    }
    while !reads && !is_over() {
        process::nap(1000);
        lock::settle(me, ch, fd);
    }
}
