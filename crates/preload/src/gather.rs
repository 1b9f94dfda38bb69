//! A write of more buffers than a frame has, or of a file: it goes on as writes of one buffer, which hold what those have.
//!
//! ```text
//! begins --> ring closed: the kernel's own call
//!        --> ring open: a piece is borrowed, the list copied --> next bytes gathered --> written as one buffer --> more? ...
//! ```
//! Invariant: up to PIPE_BUF bytes are one piece, and so atomic. What an earlier piece has written is what the call says, if
//! a later one fails.
//! unsafe: reads the caller's list and buffers, which were looked at; the bytes of a borrowed piece.
//! Not here: a read, and more than 2 GiB: they are the kernel's until they return. Where a file's bytes begin (sendfile.rs).
use crate::entry::{DONE, Frame, THEN};
use crate::give_up::suspends;
use crate::{access, io, scratch, sendfile};
use byway_pipe::Caller;
use byway_pipe::channel::Channel;
use byway_pipe::copy::Iov;
use byway_pipe::reason::Reason;
use byway_sys::errno::Ret;
use byway_sys::syscall::nr;

/// A write of more buffers than a frame has becomes some of a single buffer each, which is borrowed. `Some`: the call is the
/// kernel's.
pub fn begins(f: &mut Frame, me: &Caller, ch: &Channel) -> Option<u32> {
    let [list, n] = f.list;
    // SAFETY: `io::vectors` has asked for it.
    let part = |k: usize| unsafe { access::buffer(list, k) };
    let want = (0..n).fold(0usize, |sum, k| sum.saturating_add(part(k).len));
    if !(1..=access::MOST).contains(&want) {
        return Some(suspends(f, &[0], Reason::Vector));
    }
    if let Some(does) = io::is_closed(f, me, ch, want) {
        return Some(does);
    }
    let Some(piece) = scratch::borrow(me.tid) else {
        return Some(suspends(f, &[0], Reason::Vector));
    };
    (f.piece, f.next, f.before) = (piece, [0; 2], 0);
    // As the kernel does: what becomes of the caller's list meanwhile is no matter.
    let (to, from) = (scratch::list(piece) as *mut u8, list as *const u8);
    // SAFETY: the list was asked for; the piece is this call's, and has room for so many.
    unsafe { to.copy_from_nonoverlapping(from, n * size_of::<Iov>()) };
    if next_piece(f) {
        return None;
    }
    ends(f);
    Some(suspends(f, &[0], Reason::Vector))
}

/// The next bytes of the list, or the file, become the call's buffer. False: there are none, or they cannot be read.
pub fn next_piece(f: &mut Frame) -> bool {
    let base = scratch::address(f.piece);
    let len = match f.nr {
        nr::SENDFILE => sendfile::next_bytes(f, base),
        _ => next_bytes(f, base),
    };
    f.iov[0] = Iov { base, len };
    (f.vectors, f.want, f.done) = (1, len, 0);
    len > 0
}

/// Gathers at `base` what comes next of the list: how many bytes.
fn next_bytes(f: &mut Frame, base: usize) -> usize {
    let mut len = 0;
    while f.next[0] < f.list[1] && len < scratch::SIZE {
        let [k, skip] = f.next;
        // SAFETY: `begins` has copied so many.
        let v = unsafe { access::buffer(scratch::list(f.piece), k) };
        let n = (v.len - skip).min(scratch::SIZE - len);
        if n > 0 && !access::allowed(v.base + skip, n, false) {
            // Of what is atomic nothing is written.
            len = if f.before == 0 { 0 } else { len };
            break;
        }
        let (to, from) = ((base + len) as *mut u8, (v.base + skip) as *const u8);
        // SAFETY: asked for; the piece is this call's, and long enough.
        unsafe { to.copy_from_nonoverlapping(from, n) };
        len += n;
        f.next = if skip + n == v.len {
            [k + 1, 0]
        } else {
            [k, skip + n]
        };
    }
    len
}

/// After a step of a call that `does` what it does: one that has a piece goes on with the next, or ends.
#[inline]
pub fn goes_on(f: &mut Frame, does: u32) -> u32 {
    match f.piece {
        0 => does,
        _ => goes_on_writing(f, does),
    }
}

#[inline(never)]
fn goes_on_writing(f: &mut Frame, mut does: u32) -> u32 {
    while does == DONE {
        let whole = f.result == f.iov[0].len as Ret;
        f.before += f.result.max(0) as usize;
        if f.before > 0 {
            f.result = f.before as Ret;
        }
        if !whole || !next_piece(f) {
            break;
        }
        let Some(me) = io::caller(f) else { break };
        let Some(ch) = Channel::at(me.domain, f.chan) else {
            break;
        };
        does = io::go_write(f, &me, ch);
    }
    if does != THEN {
        if f.nr == nr::SENDFILE {
            sendfile::moves(f);
        }
        ends(f);
    }
    does
}

/// What the call has borrowed, if anything, is given back.
pub fn ends(f: &mut Frame) {
    if f.piece != 0 {
        scratch::give_back(core::mem::take(&mut f.piece));
    }
}

/// Whether the pieces before the one of now have written something.
pub fn has_begun(f: &Frame) -> bool {
    f.piece != 0 && f.before > 0
}
