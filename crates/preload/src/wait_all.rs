//! recv(2) with MSG_WAITALL on a carried socket: takes what there is in steps, and sleeps between them.
//!
//! ```text
//! take --> all: done        --> less: recvmsg(2) without the flag, or poll(2), sleeps for more --> take ...
//! ```
//! A sleeper with that flag in the kernel would sleep on while the rest lies in the ring. So no step has it.
//!
//! Invariant: what ends the kernel's own call ends this one: the end of the stream, an error, its time, bytes that came with a
//! control message; and, once there is a part, a signal with any handler. So where there is one, or a time, such a call sleeps
//! in poll(2), which is never begun again.
//! unsafe: reads and writes the struct msghdr, which was looked at (message.rs).
//! Not here: calls that do not wait, and a look that waits for all, which is the kernel's (message.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::{io, message};
use byway_pipe::channel::Channel;
use byway_pipe::copy::Buffers;
use byway_pipe::read::{self, Armed};
use byway_pipe::{Caller, Step, policy, socket, wait};
use byway_sys::errno::{EAGAIN, ECONNRESET, Ret, failed};
use byway_sys::socket::{
    MSG_CTRUNC, MSG_DONTWAIT, MSG_WAITALL, Message, POLLRDHUP, receive, receive_time,
};
use byway_sys::syscall::nr;
use byway_sys::{clock, file};
use core::sync::atomic::Ordering::Relaxed;

/// In `Frame::kind`: a sleep that receives, and one that is told.
pub const RECEIVES: usize = 8;
pub const POLLS: usize = 9;
/// LINUX ppoll(2): bytes of a set of signals.
const SIGNALS: usize = 8;

/// Of such a call, over its sleeps.
pub struct State {
    /// What a step receives into: the call's own, with the buffers as far as they are not filled.
    message: Message,
    /// Bytes of its control buffer.
    control_len: usize,
    /// When it slept first, in cycles, or 0; and whether it may wait for more than that.
    since: u64,
    waits: bool,
    /// Whether the sleep is counted in the tail.
    counted: bool,
    /// Until when a poll waits, as the kernel wants it.
    time: [u64; 2],
}

/// Begins such a call, whose buffers are those of `f`.
pub fn begin(f: &mut Frame, me: &Caller, ch: &Channel) -> u32 {
    let mut message = Message::of(0, 0);
    if f.nr == nr::RECVMSG {
        // SAFETY: the call was looked at.
        message = unsafe { (f.args[1] as *const Message).read_unaligned() };
    }
    f.all = State {
        control_len: message.control_len,
        message,
        since: 0,
        waits: true,
        counted: false,
        time: [0; 2],
    };
    // Nothing came with bytes of the ring.
    (f.all.message.control_len, f.all.message.flags) = (0, 0);
    take(f, me, ch)
}

/// Takes what there is, then ends the call or sleeps for more.
fn take(f: &mut Frame, me: &Caller, ch: &Channel) -> u32 {
    loop {
        let mut armed = Armed::NOT;
        let at = Buffers::new(&f.iov[..f.vectors]);
        match read::read(me, ch, f.fd, at, f.want - f.done, 0, &mut armed) {
            Step::Done(n @ 1..) => {
                got(f, n as usize);
                if f.done == f.want {
                    return ended(f, f.done as Ret);
                }
            }
            Step::Done(said) => return ends(f, me, ch, said),
            Step::NativeCounted => return sleeps(f, me, ch, Some(armed)),
            // The kernel's for good, and nothing was taken.
            _ if f.done == 0 => return RUN,
            _ => return sleeps(f, me, ch, None),
        }
    }
}

/// `n` bytes more have come.
fn got(f: &mut Frame, n: usize) {
    f.done += n;
    let mut left = n;
    for v in &mut f.iov[..f.vectors] {
        let k = v.len.min(left);
        (v.base, v.len, left) = (v.base + k, v.len - k, left - k);
    }
}

/// Nothing is there. `armed`: a writer knows that this sleeps.
fn sleeps(f: &mut Frame, me: &Caller, ch: &Channel, armed: Option<Armed>) -> u32 {
    f.all.counted = armed.is_some();
    f.armed.write(armed.unwrap_or(Armed::NOT));
    if f.all.since == 0 {
        f.all.since = clock::now();
        // LINUX: what the description says when the call begins.
        f.all.waits = !file::is_nonblocking(f.fd);
    }
    let time = match f.done {
        0 => None,
        _ if !f.all.waits => Some(0),
        _ => receive_time(f.fd).map(|most| most.saturating_sub(slept(f, me))),
    };
    if time == Some(0) {
        // LINUX unix_stream_read_generic: a call that does not wait meets the error behind what there is, too.
        let ret = receives_now(f, ch);
        awake(f, me, ch, ret);
        return match ret {
            EAGAIN => ended(f, f.done as Ret),
            _ => came(f, me, ch, ret),
        };
    }
    if is_cut(f, ch) {
        awake(f, me, ch, 0);
        return ended(f, f.done as Ret);
    }
    if f.done == 0 || time.is_none() && !io::HANDLERS.load(Relaxed) {
        let message = next(f);
        f.sub = [nr::RECVMSG, f.fd, message, f.flags & !MSG_WAITALL, 0, 0, 0];
        f.kind = RECEIVES;
        return io::sleeps(f);
    }
    let (at, time) = match time {
        Some(us) => (&raw const f.all.time as usize, us),
        None => (0, 0),
    };
    f.all.time = [time / 1_000_000, time % 1_000_000 * 1000];
    f.pollfd = f.fd as u32 as u64 | ((file::POLLIN | POLLRDHUP) as u64) << 32;
    let fds = &raw const f.pollfd as usize;
    f.sub = [nr::PPOLL, fds, 1, at, 0, SIGNALS, 0];
    f.kind = POLLS;
    io::sleeps(f)
}

/// How long it has been asleep, us.
fn slept(f: &Frame, me: &Caller) -> u64 {
    clock::now().wrapping_sub(f.all.since) / policy::per_us(me)
}

/// The address of the message that the next step receives into.
fn next(f: &mut Frame) -> usize {
    let m = &mut f.all.message;
    (m.parts, m.n) = (f.iov.as_ptr() as usize, f.vectors);
    m.control_len = f.all.control_len;
    &raw const *m as usize
}

/// Ends the sleep, after a call that said `ret`.
fn awake(f: &mut Frame, me: &Caller, ch: &Channel, ret: Ret) {
    if failed(ret) {
        (f.all.message.control_len, f.all.message.flags) = (0, 0);
    }
    if f.all.counted {
        io::finish_read(f, me, ch, ret);
    }
}

/// After a sleep.
pub fn goes_on(f: &mut Frame, me: &Caller, ch: &Channel) -> u32 {
    let (kind, woken) = (f.kind, f.result);
    // Its time is over; a handler has run; or the number is another file's by now.
    if kind == POLLS && (woken <= 0 || !ch.lane(f.fd).is_ours()) {
        awake(f, me, ch, EAGAIN);
        return ended(f, f.done as Ret);
    }
    let ret = match kind {
        RECEIVES => woken,
        _ => receives_now(f, ch),
    };
    awake(f, me, ch, ret);
    match ret {
        // Another reader has had them.
        EAGAIN if kind == POLLS => take(f, me, ch),
        _ => came(f, me, ch, ret),
    }
}

/// Whether there is a part, and behind it nothing but an error.
///
/// LINUX tcp_recvmsg: that stays for whichever call is the next. A receive of nothing else would take it.
fn is_cut(f: &Frame, ch: &Channel) -> bool {
    let has_error = || file::poll1(f.fd, 0, 0).1 & file::POLLERR != 0;
    ch.is_tcp() && f.done > 0 && has_error() && file::fionread(f.fd) == 0
}

/// What the kernel has at this moment, into what is left of the buffers.
fn receives_now(f: &mut Frame, ch: &Channel) -> Ret {
    if is_cut(f, ch) {
        return 0;
    }
    let (message, flags) = (next(f), f.flags & !MSG_WAITALL | MSG_DONTWAIT);
    // SAFETY: the caller's own buffers, which the kernel checks.
    unsafe { receive(f.fd, message, flags) }
}

/// A receive of the kernel's said `ret`.
fn came(f: &mut Frame, me: &Caller, ch: &Channel, ret: Ret) -> u32 {
    match ret {
        1.. => {
            got(f, ret as usize);
            let m = &f.all.message;
            // LINUX unix_stream_read_generic: bytes with descriptors are the last of a call.
            if f.done == f.want || m.control_len != 0 || m.flags & MSG_CTRUNC != 0 {
                return ended(f, f.done as Ret);
            }
            let was = ch.tail().position();
            wait::let_publish(me, ch, ret as usize, was);
            take(f, me, ch)
        }
        _ => ends(f, me, ch, ret),
    }
}

/// The stream's end, or an error, `said`, behind what there is.
fn ends(f: &mut Frame, me: &Caller, ch: &Channel, said: Ret) -> u32 {
    if f.done == 0 {
        return ended(f, message::or_reset(f.fd, said));
    }
    match said {
        // It came after the last look (`is_cut`): the next read tells.
        ECONNRESET if ch.is_tcp() => socket::keeps_cut(ch),
        // LINUX unix_stream_read_generic: nobody is told.
        0 | ECONNRESET if !ch.is_tcp() => {
            message::is_reset(me, f.fd, true);
        }
        _ => {}
    }
    ended(f, f.done as Ret)
}

/// The call says `said`.
fn ended(f: &mut Frame, said: Ret) -> u32 {
    f.result = said;
    if !failed(said) {
        let m = &f.all.message;
        message::answers(f, m.control_len, m.flags as u32);
    }
    DONE
}
