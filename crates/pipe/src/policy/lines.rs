//! How cache lines come from CPU to CPU: which are asked for before they are written, and which a reader takes whole.
//!
//! Invariant: hints. Whatever is said here, the same bytes go the same way; nothing is written but where a reader runs.
//! Not here: the instructions (crate sys, line.rs), how far ahead a stream asks for its lines (quick.rs).
use crate::Me;
use crate::channel::Channel;
use byway_sys::rseq;
use core::sync::atomic::Ordering::Relaxed;

/// Whether a line that others have too comes to who asks for it, so that a write need not wait (ADR 15).
#[inline]
pub(super) fn come_when_asked(me: &Me) -> bool {
    me.domain.header().shared_lines.load(Relaxed) == 0
}

/// T is about to be changed: its line, which the other side polls, takes longest to come.
#[inline]
pub fn expect_t(me: &Me, ch: &Channel) {
    if come_when_asked(me) {
        ch.expect_t();
    }
}

/// Whether a reader takes each line of the ring, as a write would, before it copies from it. A line that it had only to read the writer has
/// as well, and that one waits for each when the ring comes round. On one CPU there is nothing to take.
#[inline]
pub fn takes_lines(me: &Me, ch: &Channel) -> bool {
    let at = &ch.m.0;
    me.cpus > 1 && !come_when_asked(me) && at.writer_cpu.get() != at.reader_cpu.get()
}

/// The caller reads; where it runs is of use to `takes_lines`. A reader that never waits would tell nobody.
#[inline]
pub fn reads_here(me: &Me, ch: &Channel) {
    if me.cpus > 1
        && me.rseq
        && !come_when_asked(me)
        && let Some(a) = rseq::area()
    {
        ch.m.0.reader_cpu.set(a.cpu());
    }
}
