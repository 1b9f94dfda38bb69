//! sendfile(2) from a regular file to a carried socket: a page or a few are read, and written into the ring.
//!
//! ```text
//! begin --> ring closed: the kernel's own call, counted as a write is
//!       --> ring open: pread, write --> no room: the ring is handed back, and the kernel's call sends the rest
//! ```
//! Invariant: nothing here sleeps with borrowed memory. Before the kernel goes on, and at the end, the offset, or the
//! file's own, stands behind what was sent.
//! unsafe: reads and writes the offset, which was looked at.
//! Not here: a call for more than 32 KiB, another kind of file: they are the kernel's.
use crate::entry::{DONE, Frame, RUN, THEN};
use crate::{access, cold, fdtable, give_up, io, scratch};
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::reason::Reason;
use byway_pipe::write::{self, Progress};
use byway_pipe::{Caller, Step};
use byway_sys::errno::{Ret, failed};
use byway_sys::file;
use byway_sys::syscall::nr;

/// In `Frame::kind`: the rest is the kernel's, counted in the tail, or not.
pub const COUNTED: usize = 10;
pub const UNCOUNTED: usize = 11;
/// A call for more bytes is the kernel's: one copy less is worth more there than a ring that stays open.
const MOST: usize = 32 * 1024;
const _: () = assert!(MOST <= scratch::SIZE);

/// Begins such a call.
pub fn begin(f: &mut Frame) -> u32 {
    if let Some(does) = cold::call(f) {
        return does;
    }
    copies(f).unwrap_or_else(|| give_up::suspends(f, &[0, 1], Reason::Splice))
}

/// `None`: it is the kernel's, for the moment of the call.
fn copies(f: &mut Frame) -> Option<u32> {
    let [out, from, _, count, ..] = f.args;
    let end = fdtable::endpoint(out).filter(|e| e.is_socket && !e.is_inbox())?;
    let (me, slot) = (io::me()?, end.writes?);
    let ch = Channel::at(me.domain, slot)?;
    if !file::is_regular(from) {
        return None;
    }
    if ch.is_kernels() {
        // For good: nothing is to be handed back.
        return Some(RUN);
    }
    if !(1..=MOST).contains(&count) {
        return None;
    }
    let at = position(f)?;
    let me = Caller {
        // A full ring is handed back at once, and a buffer of ours is lent to nobody.
        spin: false,
        restarts: || false,
        lend: false,
        access: |_, _, _| true,
        ..me
    };
    (f.fd, f.chan, f.done) = (out, slot, 0);
    (f.pin, f.flags, f.vectors) = (0, 0, 0);
    if let Some(does) = io::is_closed(f, &me, ch, count) {
        return Some(does);
    }
    let _signals = me.hold_signals();
    let piece = scratch::borrow(me.tid)?;
    let base = scratch::address(piece);
    // SAFETY: the piece is this call's, and as long.
    let n = unsafe { file::read_at(from, base, count, at) };
    if n <= 0 {
        scratch::give_back(piece);
        f.result = n;
        return (n == 0).then_some(DONE);
    }
    let len = n as usize;
    let v = [Iov { base, len }];
    let mut p = Progress {
        at: Buffers::new(&v),
        want: len,
        done: 0,
    };
    let step = write::write(&me, ch, out, &mut p);
    f.done = p.done;
    scratch::give_back(piece);
    if let Step::Done(said) = step {
        moves(f, at, said.max(0) as usize);
        f.result = said;
        return Some(DONE);
    }
    moves(f, at, f.done);
    let rest = count - f.done;
    f.sub = [nr::SENDFILE, out, from, f.args[2], rest, 0, 0];
    f.kind = match step {
        Step::NativeCounted => COUNTED,
        _ => UNCOUNTED,
    };
    Some(THEN)
}

/// Where it begins to read; `None`: the kernel says what is wrong.
fn position(f: &Frame) -> Option<usize> {
    let [_, from, at, ..] = f.args;
    let now = match at {
        0 => file::seek(from, 0, file::SEEK_CUR),
        at if !access::allowed(at, 8, true) => return None,
        // SAFETY: asked for.
        at => unsafe { (at as *const isize).read_unaligned() },
    };
    usize::try_from(now).ok()
}

/// `n` bytes from `was` on are sent.
fn moves(f: &Frame, was: usize, n: usize) {
    let [_, from, at, ..] = f.args;
    match at {
        _ if n == 0 => {}
        0 => {
            file::seek(from, was + n, file::SEEK_SET);
        }
        // SAFETY: asked for.
        at => unsafe { (at as *mut usize).write_unaligned(was + n) },
    }
}

/// After the kernel's call for the rest.
pub fn goes_on(f: &mut Frame, ch: &Channel) -> u32 {
    match f.kind {
        COUNTED => io::finish_write(f, ch, f.result),
        _ => ch.writer.0.count_kernel(f.result),
    }
    if f.done > 0 {
        let more = if failed(f.result) { 0 } else { f.result };
        f.result = f.done as Ret + more;
    }
    DONE
}
