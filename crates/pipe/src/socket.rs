//! One direction of a connection of UNIX stream sockets: how its ring opens and how it is handed back.
//!
//! ```text
//! one end  --channel keyed by this end's inode-->  other end        and a second channel the other way
//! ```
//! A socket cannot be opened again, as a pipe can: only a descriptor of the end that writes puts bytes into the lane. A
//! process that has none gets one from a participant that has (`end`).
//!
//! Invariant: the lane's chunk stands at the head: what was there when the ring opened, or what woke a reader since. A
//! hand-back sends the ring's bytes behind it. A ring holds no more than the lane takes at once. A full one lets its
//! writer sleep for milliseconds at most, and is handed back then (rules.rs, `full_to_kernel`).
//! Not here: which sockets have channels (birth.rs), and the calls on them (preload library).
use crate::channel::{Channel, MIXED, UNCOUNTED};
use crate::copy::Iov;
use crate::handback::{self, SPILLING, closed, intend};
use crate::lane::Lane;
use crate::reason::Reason;
use crate::ring::{CLUSTER, Ring, SMALLEST};
use crate::word::Tail;
use crate::{Caller, lock, opening, peer, policy, tcp, wait};
use byway_mem::participants;
use byway_sys::errno::{EAGAIN, ECONNRESET, Ret};
use byway_sys::socket::MSG_NOSIGNAL;
use byway_sys::{file, futex, process, socket};
use core::sync::atomic::Ordering::Relaxed;

/// Turns in which an opener waits for a reader on its way out.
const SOON: u32 = 96;
/// Of the send buffer so much may be taken when a ring opens.
///
/// LINUX unix_writable: a writer that slept wakes when no more than a quarter is.
const FULL: usize = 4;
/// A chunk of TCP has no more bytes when a ring opens: where the writer is killed they must fit into the buffer of a UNIX socket,
/// with the ring's behind them (`refills`).
const TCP_CHUNK: u32 = 96 << 10;
/// In `full`: the other end was killed before it had read all; the next call that can tell of it does.
const RESET: u8 = 4;
/// The largest ring.
const MOST: usize = 2 * CLUSTER;

/// Under the writers' lock: opens the ring, if that can be.
pub(crate) fn opened(me: &Caller, ch: &Channel, fd: usize, want: usize) -> bool {
    let lane = ch.lane(fd);
    if !lane.is_ours() {
        return false;
    }
    if !peer::is_ready(me, ch, fd) {
        return false;
    }
    // LINUX ptrace(2): a hand-back at the other end gets this one by pidfd_getfd(2), if the process is dumpable.
    if !process::is_dumpable() {
        ch.keep_closed();
        return false;
    }
    let buffer = socket::send_buffer(fd);
    let Some(most) = ring_bytes(me, lane_takes(ch, fd, buffer)) else {
        ch.keep_closed();
        return false;
    };
    // A write that long hands a full ring back (write/locked.rs), and one of more than half of the largest waits for its reader
    // each time.
    // LINUX tcp(7): congestion control learns little from a lane that is used now and then, and is slow afterwards.
    let longest = most.min(MOST / 2);
    if ch.is_tcp() && want > longest {
        if policy::is_bulk(&ch.writer, longest) {
            ch.keep_closed();
        }
        policy::open_later(ch, Reason::Long);
        ch.writer.0.forget_native();
        return false;
    }
    let Some(held) = settled(me, ch, fd, buffer) else {
        match ch.is_tcp() {
            true => policy::ask_rarely(&ch.writer),
            false => policy::ask_soon(&ch.writer),
        }
        return false;
    };
    let r = ch.head().position();
    if opening::ring(me, ch, most, r, 1).is_none() {
        opening::no_memory(ch);
        return false;
    }
    let m = ch.chunk().next(r);
    let m = if held == 0 { m.none() } else { m };
    ch.facts.0.lane.store(held, Relaxed);
    if ch.is_tcp() {
        tcp::opens(me, ch, fd);
    }
    ch.opens_behind(m, r, 0);
    ch.writer.0.forget_native();
    true
}

/// Waits a little where the lane has more than a ring may begin behind: a writer that is faster than its reader keeps it
/// full. The reader has enough meanwhile. False: it takes too little. A writer that may not sleep does not wait, for it has
/// others to serve: what the lane has is looked at again (`settled`).
pub(crate) fn is_drained(me: &Caller, ch: &Channel, fd: usize) -> bool {
    /// In which a reader that waits for a CPU takes something.
    const TURNS: usize = 32;
    /// In which it takes all.
    const MOST_TURNS: usize = 128;
    const TURN_US: u64 = 50;
    // First: what TCP has is dear to ask for.
    if !wait::may_sleep(me, fd) {
        return true;
    }
    let queued = || match ch.is_tcp() {
        true => tcp::in_lane(fd).map(|(held, _)| held as usize),
        false => Some(socket::unread(fd)),
    };
    let most = match ch.is_tcp() {
        true => TCP_CHUNK as usize,
        false => socket::send_buffer(fd) / FULL,
    };
    let Some(first) = queued() else {
        return false;
    };
    let mut now = first;
    for turn in 1..=MOST_TURNS {
        if now <= most {
            return true;
        }
        // As fast as until now, in so many turns.
        let taken = first.saturating_sub(now);
        if turn > TURNS && taken * MOST_TURNS < (first - most) * turn {
            return false;
        }
        process::nap(TURN_US);
        now = queued().unwrap_or(first);
    }
    false
}

/// Bytes that the lane has when no reader is on its way out with them; `None`: too many, or that is not to be known now.
fn settled(me: &Caller, ch: &Channel, fd: usize, buffer: usize) -> Option<u32> {
    // LINUX unix(7): a read ends behind bytes that came with descriptors, and a ring knows of none.
    let mixed = ch.facts.0.lane.load(Relaxed) == MIXED;
    let held = || match socket::unread(fd) {
        queued if queued > buffer / FULL => {
            ch.facts.0.why.store(Reason::Full as u8, Relaxed);
            None
        }
        1.. if mixed => None,
        _ if ch.is_tcp() => tcp::held(ch, fd).filter(|held| *held <= TCP_CHUNK),
        0 => Some(0),
        _ => Some(UNCOUNTED),
    };
    let mut now = held()?;
    // A reader that sleeps is woken by the next bytes, or is on its way out with what is there.
    let mut patience = lock::Patience::new();
    while now > 0 && ch.tail().sleepers() > 0 {
        if patience.turns() > SOON {
            return None;
        }
        patience.wait(me);
        // What TCP has is dear to ask for.
        if !ch.is_tcp() || ch.tail().sleepers() == 0 {
            now = held()?;
        }
    }
    Some(now)
}

/// Bytes that the lane of `fd` takes, behind a chunk, though nobody reads. Its send buffer is shown as `buffer` bytes.
///
/// LINUX unix_stream_sendmsg: what is sent is charged with the memory that it takes, and one call gets all of the send
/// buffer. Of a buffer that is shown as 212,992 bytes it is 219,264.
/// LINUX tcp_bound_to_half_wnd: to a small window go small segments, and what these are charged with is more than twice their
/// bytes: of 131,000 bytes it is 55,872. A large one takes its own bytes besides: of the same, with 65,536, it is 163,706.
fn lane_takes(ch: &Channel, fd: usize, buffer: usize) -> usize {
    const LARGE: usize = 32 << 10;
    if !ch.is_tcp() {
        return buffer / 8 * 5;
    }
    match byway_sys::tcp::window(fd) {
        window @ LARGE.. => buffer / 8 * 5 + window / 8 * 7,
        _ => buffer / 8 * 3,
    }
}

/// Bytes of a ring whose lane takes so many; `None`: too few to be worth it.
fn ring_bytes(me: &Caller, takes: usize) -> Option<usize> {
    let most = policy::ring_bytes(me).min(MOST).min(takes);
    let power = most.checked_ilog2().map_or(0, |n| 1 << n);
    (power >= 2 * SMALLEST).then_some(power)
}

/// A writer that found the ring full sleeps in spans of this length, ns, and after so many it is the kernel's call.
pub const SPAN_NS: i64 = 2_000_000;
pub const SPANS: u64 = 10;

/// After a span of a writer that sleeps for room, the head having been at `was`: whether it is to sleep on.
pub fn sleeps_on(me: &Caller, ch: &Channel, fd: usize, was: u64, spans: u64) -> bool {
    let moved = ch.head().position() != was || ch.tail().closed();
    if !moved && spans < SPANS && !socket::is_peer_gone(fd) {
        return true;
    }
    ends_sleep(ch);
    if !moved {
        handback::hand_back(me, ch, fd, false, Reason::Full);
        // It is told of a reset itself, and nobody else is.
        if !ch.is_tcp() {
            forgets_reset(ch);
        }
    }
    false
}

/// A reader that saw the tail `t`, in which a writer sleeps for room: wakes it, if enough of the ring is free.
pub(crate) fn let_write(ch: &Channel, t: Tail, r: u64, ring: Ring) {
    if t.wide(r) - r <= ring.bytes() / 2 && ends_sleep(ch) {
        futex::wake_on(ch.head_address());
    }
}

/// No writer counts as asleep for room any more. False: none did.
pub fn ends_sleep(ch: &Channel) -> bool {
    let mut t = ch.tail();
    while !t.closed() && t.kernel_writers() > 0 {
        match ch.cas_tail(t, t.kernel_writer_gone()) {
            Ok(()) => return true,
            Err(now) => t = now,
        }
    }
    false
}

/// A descriptor of one's own of the end that writes, or reads, where `fd` is one of either.
fn end(me: &Caller, ch: &Channel, fd: usize, writes: bool) -> Option<usize> {
    if ch.is_written_by(fd) == writes {
        let own = file::fcntl(fd, file::F_DUPFD_CLOEXEC, 0);
        return usize::try_from(own).ok();
    }
    let dev = ch.facts.0.key.dev.load(Relaxed);
    let ino = match writes {
        true => ch.facts.0.key.inode(),
        false => ch.reading_end(),
    };
    let own = core::iter::once(process::getpid());
    own.chain(participants::all(&me.domain))
        .find_map(|pid| socket::fetch(pid, dev, ino))
}

/// Under the writers' lock and with the readers held at `r`: the ring's bytes into the lane, behind its chunk, and the
/// channel is closed. False: nothing of that, for `fd` is not the socket's any more.
pub(crate) fn spill(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    let pos = ch.tail().wide(r);
    let n = (pos - r) as usize;
    let ring = ch.ring(&me.domain).filter(|x| pos - r <= x.bytes());
    if let (1.., Some(ring)) = (n, ring) {
        loop {
            if !ch.is_behind(fd) {
                return false;
            }
            if let Some(out) = end(me, ch, fd, true) {
                handback::wait_for_taker(me, ch);
                counts(me, ch, fd);
                intend(ch, SPILLING, n);
                // TCP takes them for an end that is gone too, and says later that it is.
                let lost = ch.is_tcp() && socket::is_peer_gone(out);
                if !ch.lane(out).send(ring, r, n) || lost {
                    ch.facts.0.full.store(RESET, Relaxed);
                }
                file::close(out);
                break;
            }
            // LINUX tcp(7): the end of the stream waits for room, as all bytes do, and nobody reads meanwhile.
            let is_orphan = || ch.is_tcp() && byway_sys::tcp::is_peer_gone(fd);
            if socket::is_peer_gone(fd) || is_orphan() {
                let is_cut = ch.is_tcp() && tcp::is_cut(ch, fd);
                if is_cut || refills(ch, ch.lane(fd), ring, r, n) {
                    break;
                }
            }
            // Too many descriptors, or a participant that has none of its own yet: it will.
            process::nap(1000);
        }
    }
    if ch.is_tcp() {
        tcp::closes(me, ch, |writes| end(me, ch, fd, writes));
    }
    if ends_sleep(ch) {
        futex::wake_on(ch.head_address());
    }
    closed(me, ch, pos);
    true
}

/// Before the ring's bytes come behind it: how many the lane has must be known, should this thread be killed meanwhile.
fn counts(me: &Caller, ch: &Channel, fd: usize) {
    let lane = &ch.facts.0.lane;
    if !ch.chunk().valid() {
        lane.store(0, Relaxed);
    } else if lane.load(Relaxed) == UNCOUNTED
        && let Some(reader) = end(me, ch, fd, false)
    {
        let held = file::fionread(reader).min(MIXED as usize - 1);
        lane.store(held as u32, Relaxed);
        file::close(reader);
    }
}

/// Nobody can send any more: a socket with the same bytes takes the place of the one that `lane` reads.
fn refills(ch: &Channel, lane: Lane, ring: Ring, r: u64, n: usize) -> bool {
    socket::replace(lane.number(), |far| {
        // A handler's stack may be small.
        let mut part = [0u8; 512];
        let (base, len) = (part.as_mut_ptr() as usize, part.len());
        loop {
            // SAFETY: a buffer of ours.
            match unsafe { lane.receive_now(&[Iov { base, len }]) } {
                k @ 1.. => {
                    let len = k as usize;
                    // SAFETY: as above.
                    unsafe { ch.lane(far).write(&[Iov { base, len }], MSG_NOSIGNAL) };
                }
                EAGAIN if ch.is_tcp() => {
                    file::poll1(lane.number(), file::POLLIN, 10);
                }
                _ => break,
            }
        }
        if ch.is_tcp() && tcp::is_cut(ch, lane.number()) {
            return;
        }
        ch.lane(far).send(ring, r, n);
    })
}

/// After an owner of the lock that died while it handed back: whether its bytes are in the lane tells the end that
/// reads. Both locks are the caller's.
pub(crate) fn repair(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    let reader = end(me, ch, fd, false);
    let sent = match ch.is_tcp() {
        true => {
            let writer = end(me, ch, fd, true);
            let sent = tcp::has_sent(ch, writer, reader);
            writer.into_iter().for_each(file::close);
            sent
        }
        false => reader.map_or(0, file::fionread) > ch.facts.0.lane.load(Relaxed) as usize,
    };
    reader.into_iter().for_each(file::close);
    intend(ch, 0, 0);
    if sent {
        closed(me, ch, ch.tail().wide(r));
        return true;
    }
    spill(me, ch, fd, r)
}

/// Before a message with more than bytes goes into the lane of a closed channel.
pub fn mixes(ch: &Channel) {
    ch.facts.0.lane.store(MIXED, Relaxed);
}

/// Of a channel that `fd` writes to: whether its reader is gone and had not read all, and nobody was told so.
///
/// LINUX unix_release: a close with bytes unread is a reset for the other end. One whose reader closes it is handed back
/// before; this is of one that was killed.
pub fn is_reset(ch: &Channel, fd: usize) -> bool {
    is_reset_kept(ch) || has_unread(ch) && socket::is_peer_gone(fd)
}

/// The same, and now somebody is told. Told once: a write that comes later is the kernel's, which refuses it.
pub fn takes_reset(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let reset = is_reset(ch, fd);
    if reset || !ch.tail().closed() && socket::is_peer_gone(fd) {
        handback::hand_back(me, ch, fd, false, Reason::ReaderGone);
        ch.keep_closed();
        forgets_reset(ch);
    }
    if reset {
        // The kernel's word for bytes of the lane is the same.
        socket::take_error(fd);
    }
    reset
}

/// Of a closed channel: what a write of which `done` bytes are written says, where its reader was killed and had not read all.
///
/// LINUX tcp_reset, sk_stream_error: the first that has written nothing is told, without a signal. unix_stream_sendmsg: none is.
pub(crate) fn tells_writer(ch: &Channel, fd: usize, done: usize) -> Option<Ret> {
    if !ch.is_tcp() || !is_reset_kept(ch) {
        return None;
    }
    if done > 0 {
        return Some(done as Ret);
    }
    forgets_reset(ch);
    socket::take_error(fd);
    Some(ECONNRESET)
}

/// Of a channel that is read: the kernel has said that the other end is gone and had not read all, where the tail is `t`.
/// True: the ring, from `r` on, has bytes that come first, and it is told behind them.
pub(crate) fn keeps_reset(ch: &Channel, t: Tail, r: u64) -> bool {
    let has = !t.closed() && t.wide(r) != r;
    if has {
        ch.facts.0.full.store(RESET, Relaxed);
    }
    has
}

/// Of a channel that is read, and that has ended with an error: the call that met it has bytes, and the next one tells.
pub fn keeps_cut(ch: &Channel) {
    ch.facts.0.full.store(RESET, Relaxed);
}

/// Whether that is to be told of `ch`, which is read.
pub fn is_reset_kept(ch: &Channel) -> bool {
    ch.facts.0.full.load(Relaxed) == RESET
}

/// It was told.
pub fn forgets_reset(ch: &Channel) {
    ch.facts.0.full.fetch_and(!RESET, Relaxed);
}

/// Whether the ring has bytes that nobody has read: then a close of an end hands it back before.
///
/// LINUX unix_release: a close with bytes unread is a reset for the other end.
pub fn has_unread(ch: &Channel) -> bool {
    let t = ch.tail();
    !t.closed() && t.wide(ch.head().position()) != ch.head().position()
}
