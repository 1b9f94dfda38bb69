//! A write or read of one piece at most that meets nothing in its way, straight through.
//!
//! Invariant: what it does, `write` and `read` would do too, in the same order and by the same words. Where anything is
//! not as usual nothing enters or leaves the stream, and they begin; the writers' lock may be this thread's by then,
//! which they expect.
//! Not here: everything else: waiting, the kernel lane, the ring's ends, signal handlers; a short write that wakes a
//! reader (wake.rs).
use crate::channel::{Channel, PIPE_BUF};
use crate::copy::{Iov, TAKEN, move_lines, move_short};
use crate::cursor::{ReadCursor, WriteCursor};
use crate::policy::Lines;
use crate::ring::SLACK;
use crate::word::{Head, Tail};
use crate::write::{is_anothers, publish};
use crate::{Caller, biased_lock, inline_payload, liveness, policy, wake};
use byway_sys::errno::Ret;
use byway_sys::line;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// Bytes of the head that stands before a message with a length of its own.
pub const HEAD: usize = 8;
/// How far ahead of the places in use cache lines are asked for, bytes. Each message's locked instruction waits until
/// its lines have come from the other CPU; asked for in time, they are there.
const AHEAD: usize = 1024;
/// Of a longer message than `WHOLE` no more than `MUCH` is asked for: the processor sees by itself where it goes on. It
/// sees that too late for one of `WHOLE`.
const MUCH: usize = 512;
const WHOLE: usize = 1024;

/// Asks by `hint` for the lines of a message of `n` bytes at `p`, an address of any kind.
#[inline]
fn fetch(p: *const u8, n: usize, hint: impl Fn(*const u8)) {
    let asked = if n <= WHOLE { n } else { MUCH };
    let (mut at, end) = (p, p.wrapping_add(asked));
    while at < end {
        hint(at);
        at = at.wrapping_add(64);
    }
}

/// All of a write of `n` bytes at `from`, a piece at most: what write(2) says. `None`: not done; this thread may have
/// the lock now.
#[inline]
pub fn write(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    (from, n): (usize, usize),
    most: u64,
    cursor: &mut WriteCursor,
) -> Option<Ret> {
    let may = || (me.access)(from, n, false);
    // SAFETY: `may` was asked before; the places are the caller's.
    let fill = |to| unsafe { move_short(to, from as *const u8, n) };
    if !cursor.covers(me, ch, (n, most))
        && let Some(t) = policy::tail_to_wake(me, ch, n)
    {
        return wake::short(me, ch, fd, t, &[Iov { base: from, len: n }], n);
    }
    write_by(me, ch, fd, (n, most), cursor, may, fill).then_some(n as Ret)
}

/// The same of a message with a head, and the bytes behind it.
#[inline]
pub fn write_headed(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    head: [u8; HEAD],
    b: &[u8],
    most: u64,
    cursor: &mut WriteCursor,
) -> Option<Ret> {
    let n = HEAD + b.len();
    let fill = |to: *mut u8| {
        // SAFETY: there is room for both, and the places are the caller's.
        unsafe {
            to.cast::<[u8; HEAD]>().write_unaligned(head);
            move_short(to.add(HEAD), b.as_ptr(), b.len());
        }
    };
    if !cursor.covers(me, ch, (n, most))
        && let Some(t) = policy::tail_to_wake(me, ch, n)
    {
        let v = [&head[..], b].map(|s| Iov {
            base: s.as_ptr() as usize,
            len: s.len(),
        });
        return wake::short(me, ch, fd, t, &v, n);
    }
    write_by(me, ch, fd, (n, most), cursor, || true, fill).then_some(n as Ret)
}

/// A write of `n` bytes that `fill` puts into their places, if it `may`; by the cursor, if that has not ended.
#[inline]
fn write_by(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    (n, most): (usize, u64),
    cursor: &mut WriteCursor,
    may: impl Fn() -> bool,
    fill: impl Fn(*mut u8),
) -> bool {
    let has_cursor = cursor.room() > 0;
    // One that is the kernel's is not worth what is asked below.
    if me.handlers || ch.writer.0.native_ops.load(Relaxed) != 0 {
        return false;
    }
    match n > PIPE_BUF {
        true if n > policy::whole(me) => return false,
        true => {}
        false => policy::expect_tail(me, ch),
    }
    let look = liveness::is_look_due(me, ch);
    if look && (ch.tail().closed() || is_reader_gone(me, ch, fd)) {
        return false;
    }
    if ch.rules().outsiders && is_anothers(me, ch, fd, look) || !may() {
        return false;
    }
    if has_cursor {
        return by_cursor(me, ch, n, cursor, fill);
    }
    if me.has_barriers && biased_lock::biased_tail(me, ch).is_some() {
        let Some((_inside, t)) = biased_lock::enter(me, ch) else {
            return false;
        };
        return append(me, ch, t, t, (n, most), cursor, fill);
    }
    let t = ch.tail();
    t.is_idle() && first(me, ch, t, (n, most), cursor, fill)
}

/// The look that is due. `write` would take the lock for it, and a bias owner's cursor would end.
#[cold]
#[inline(never)]
fn is_reader_gone(me: &Caller, ch: &Channel, fd: usize) -> bool {
    liveness::looks(me, ch);
    let gone = ch.lane(fd).is_reader_gone();
    if gone {
        liveness::looks_in_vain(ch);
    }
    gone
}

/// The same by a bias owner, whose cursor covers it.
#[inline]
fn by_cursor(
    me: &Caller,
    ch: &Channel,
    n: usize,
    cursor: &mut WriteCursor,
    fill: impl Fn(*mut u8),
) -> bool {
    let Some(_inside) = biased_lock::enter_again(ch, cursor) else {
        return false;
    };
    let began = policy::begins(me, cursor.pos, n);
    fetch(cursor.to.wrapping_add(AHEAD), n, line::to_write);
    // The room was free when it was covered by a cursor, and is ours by the lock.
    fill(cursor.to);
    let is_inline = n <= inline_payload::MOST;
    if is_inline {
        ch.inline_payload().put(cursor.pos, n, fill);
    }
    let t = cursor.t;
    if !publish(ch, t, t, n, is_inline) {
        return false;
    }
    policy::on_flow(me, ch, n);
    if let Some(began) = began {
        policy::ended(me, ch, (cursor.pos, n), began);
    }
    cursor.go_on(n);
    true
}

/// The same by a thread that does not hold the bias.
#[inline(never)]
fn first(
    me: &Caller,
    ch: &Channel,
    t: Tail,
    (n, most): (usize, u64),
    cursor: &mut WriteCursor,
    fill: impl Fn(*mut u8),
) -> bool {
    let mine = t.with_lock(me.tid);
    // E2: the chunk after the lock, which is needed to set it.
    if ch.cas_tail(t, mine).is_err() || ch.chunk().valid() {
        return false;
    }
    let mut then = t;
    if policy::may_bias(me, &ch.writer) {
        if biased_lock::claim_slot(me) {
            then = t.biased_to(me.tid);
        } else {
            policy::cannot_bias(&ch.writer);
        }
    }
    append(me, ch, mine, then, (n, most), cursor, fill)
}

/// Under the lock, the tail being `t`: copies and publishes, and leaves the tail as `then` but for the tail.
#[inline]
fn append(
    me: &Caller,
    ch: &Channel,
    t: Tail,
    then: Tail,
    (n, most): (usize, u64),
    cursor: &mut WriteCursor,
    fill: impl Fn(*mut u8),
) -> bool {
    let Some(ring) = ch.ring(&me.domain) else {
        return false;
    };
    let room = ring.cap(n).min(most);
    // The head of any time says too little room at most.
    let mut r = ch.writer.0.seen_r();
    let pos = t.wide(r);
    let mut used = pos - r;
    if used + n as u64 > room && n >= policy::ROOM {
        // Next to so long a copy the way of the head's line is short.
        r = ch.head().position();
        ch.writer.0.seen.store(r, Relaxed);
        used = t.wide(r) - r;
    }
    if used + n as u64 > room || policy::may_offer(me, ch, n) || policy::is_to_shorten(ch) {
        return false;
    }
    let (to, wrap) = ring.run(pos);
    let end = n + SLACK as usize;
    if wrap < end && (wrap < n || !ring.has(pos.wrapping_add(end as u64 - 1))) {
        return false;
    }
    let began = policy::begins(me, pos, n);
    fetch(to.wrapping_add(AHEAD), n, line::to_write);
    // The room is free below the head's release (E3), and ours by the lock.
    fill(to);
    let is_inline = n <= inline_payload::MOST;
    if is_inline {
        ch.inline_payload().put(pos, n, fill);
    }
    if !publish(ch, t, then, n, is_inline) {
        return false;
    }
    policy::on_flow(me, ch, n);
    if let Some(began) = began {
        policy::ended(me, ch, (pos, n), began);
    }
    let left = ring.room().saturating_sub(used + n as u64);
    let next = (to.wrapping_add(n), wrap - n);
    *cursor = WriteCursor::after(
        me,
        ch,
        ring,
        then.with_position(t.position()).plus(n),
        next,
        pos + n as u64,
        left,
    );
    true
}

/// Where the byte at the head is, and how many from there on were published, in one piece, when a reader last looked at
/// the tail; `None` if they are fewer than `n`, or the readers' side is held, or the kernel lane is next.
///
/// The tail, which writers are changing on another CPU, need not be looked at: the tail only grows, and a closed
/// channel has the head where the tail was; so what lies between the head and a tail of any time is there as long as
/// the head stands, which the CAS on the head proves.
#[inline]
fn ahead(
    me: &Caller,
    ch: &Channel,
    h: Head,
    n: usize,
    cursor: &ReadCursor,
) -> Option<(*const u8, usize)> {
    if ch.chunk().valid() {
        return None;
    }
    cursor.bytes(h, n).or_else(|| {
        let there = ch.reader.0.seen.load(Relaxed).wrapping_sub(h.position());
        if h.held() || there < n as u64 {
            return None;
        }
        let ring = ch.ring(&me.domain)?;
        let (from, run) = ring.run(h.position());
        // A peer may have written anything there.
        (there <= ring.bytes() && run >= n).then_some((from.cast_const(), run.min(there as usize)))
    })
}

/// All of a read, where so much was published when a reader last looked. False: not done.
#[inline]
pub fn read(
    me: &Caller,
    ch: &Channel,
    (to, want): (usize, usize),
    cursor: &mut ReadCursor,
) -> bool {
    let h = ch.head();
    let Some((from, run)) = ahead(me, ch, h, want, cursor) else {
        return false;
    };
    if want > policy::piece(me) || !(me.access)(to, want, true) {
        return false;
    }
    if run > 2 * want + AHEAD {
        fetch(from.wrapping_add(AHEAD), want, line::to_read);
    }
    // SAFETY: asked above; [r, r + want) is published and not yet released; the ring's, mapped to be written, `run`
    // bytes of it.
    unsafe { move_lines(to as *mut u8, from, want, policy::lines(ch, want), run) };
    passed(ch, h, (from, run), want, cursor)
}

/// The head goes on by `n` bytes, of the `run` at `from`. False: another reader took them.
#[inline]
fn passed(
    ch: &Channel,
    h: Head,
    (from, run): (*const u8, usize),
    n: usize,
    cursor: &mut ReadCursor,
) -> bool {
    let r = h.position() + n as u64;
    if !ch.cas_head(h, Head::free(r)) {
        return false;
    }
    ch.reader.0.count(n);
    *cursor = ReadCursor::after(r, from.wrapping_add(n), run - n);
    true
}

/// The next message with a head into `b`, where all of it was published when a reader last looked at the tail. `parse`
/// tells of a head what it is, and how many bytes follow it. `None`: nothing was taken.
#[inline]
pub fn take<T>(
    me: &Caller,
    ch: &Channel,
    b: &mut [u8],
    cursor: &mut ReadCursor,
    parse: impl FnOnce([u8; HEAD]) -> Option<(T, usize)>,
) -> Option<T> {
    let h = ch.head();
    // EDGE L1 <- L0: after the head (the native library, framing.rs).
    if ch.readers.0.record.load(Acquire) != 0 {
        return None;
    }
    let (from, run) = ahead(me, ch, h, HEAD, cursor)?;
    // SAFETY: `run` bytes of the ring begin there; read once, by value.
    let (head, len) = parse(unsafe { from.cast::<[u8; HEAD]>().read_volatile() })?;
    if len > b.len() || HEAD + len > run {
        return None;
    }
    let whole = HEAD + len;
    if run > 2 * whole + AHEAD {
        fetch(from.wrapping_add(AHEAD), whole, line::to_read);
    }
    // SAFETY: the buffer is the caller's; [r, r + whole) is published and not yet released (the CAS proves it); the
    // ring's, mapped to be written, `run` bytes of it.
    unsafe {
        let (to, body) = (b.as_mut_ptr(), from.add(HEAD));
        match policy::lines(ch, whole) {
            Lines::Taken if whole <= TAKEN => {
                line::take(from, whole, run);
                move_short(to, body, len);
            }
            // The head's line has come to be read.
            lines => move_lines(to, body, len, lines, run - HEAD),
        }
    }
    passed(ch, h, (from, run), whole, cursor).then_some(head)
}
