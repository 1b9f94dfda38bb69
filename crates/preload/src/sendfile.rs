//! sendfile(2) from a regular file to a carried socket: a write whose bytes the file has.
//!
//! ```text
//! begin --> ring closed: the kernel's own call, counted as a write is
//!       --> ring open: a write of many buffers (gather.rs), whose next ones are read from the file --> the offset is set
//! ```
//! Invariant: at the end the offset, or the file's own, stands behind what was sent. If the number is another file's meanwhile, the
//! call ends with what it has sent: the kernel's would hold the file.
//! unsafe: reads and writes the offset, which was looked at; reads into a borrowed piece.
//! Not here: another kind of file: it is the kernel's.
use crate::entry::{DONE, Frame, RUN};
use crate::{access, cold, fdtable, gather, give_up, io, scratch};
use byway_pipe::channel::Channel;
use byway_pipe::reason::Reason;
use byway_sys::errno::EFAULT;
use byway_sys::file;
use core::sync::atomic::Ordering::Relaxed;

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
    f.flags = 0;
    let (me, slot) = (io::caller(f)?, end.writes?);
    let ch = Channel::at(me.domain, slot)?;
    f.file = file::regular(from)?;
    if ch.is_kernels() {
        // For good: nothing is to be handed back.
        return Some(RUN);
    }
    if count == 0 {
        return None;
    }
    let at = position(f)?;
    (f.fd, f.chan, f.pin) = (out, slot, 0);
    // It fills a ring by pieces, so it is never too long for one.
    if let Some(does) = io::is_closed(f, &me, ch, count.min(scratch::SIZE)) {
        return Some(does);
    }
    f.piece = scratch::borrow(me.tid)?;
    (f.list, f.next, f.before) = ([from, at], [at, count.min(access::MOST)], 0);
    if !gather::next_piece(f) {
        gather::ends(f);
        // The file ends here. Else the kernel says what is wrong.
        f.result = 0;
        return (f.next[1] == 0 && is_the_file(f)).then_some(DONE);
    }
    let does = io::go_write(f, &me, ch);
    Some(gather::goes_on(f, does))
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

/// Reads what comes next of the file to `base`, which has room for a piece: how many bytes. At the end nothing is left.
pub fn next_bytes(f: &mut Frame, base: usize) -> usize {
    let ([from, _], [at, left]) = (f.list, f.next);
    // SAFETY: the piece is this call's, and long enough.
    let n = unsafe { file::read_at(from, base, left.min(scratch::SIZE), at) };
    // Looked at after the read, so what was read is the file's.
    let n = if is_the_file(f) { n } else { 0 };
    f.next = match n {
        1.. => [at + n as usize, left - n as usize],
        0 => [at, 0],
        _ => f.next,
    };
    n.max(0) as usize
}

/// Whether the number is the file's still: another thread may have closed it.
fn is_the_file(f: &Frame) -> bool {
    !io::THREADS.load(Relaxed) || file::identity(f.list[0]) == Some(f.file)
}

/// The call has ended: the offset, or the file's own, is moved by what was sent.
///
/// LINUX sendfile(2): an offset that cannot be written is told, though the bytes are sent.
pub fn moves(f: &mut Frame) {
    let ([from, begun], sent) = (f.list, f.before);
    match f.args[2] {
        _ if sent == 0 => {}
        0 if is_the_file(f) => {
            file::seek(from, begun + sent, file::SEEK_SET);
        }
        0 => {}
        // The call may have slept since `position` asked.
        at if !access::allowed(at, 8, true) => f.result = EFAULT,
        // SAFETY: asked for.
        at => unsafe { (at as *mut usize).write_unaligned(begun + sent) },
    }
}
