//! Calls of sockets on a carried one: send and recv in their forms, socketpair, shutdown, options; and the end of one.
//!
//! Invariant: what is carried has no name, no control message to send, and no flag but those that a ring obeys. All else
//! is the kernel's, with every byte in the kernel lane.
//! unsafe: reads and writes what the arguments point to, once the kernel says that it may be.
//! Not here: how bytes are moved (io.rs), readiness (ready.rs, sleep.rs).
use crate::asked::IN;
use crate::entry::{DONE, Frame, RUN};
use crate::fdtable::Endpoint;
use crate::give_up::{passes_descriptors, suspends};
use crate::{access, attach, bits, cold, exec, fdtable, io, pins, udp, unmatched};
use byway_mem::layout::flags::NO_UNIX;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::peek::{self, Peek};
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, birth, datagram, handback, socket};
use byway_sys::errno::{ECONNRESET, Ret, failed};
use byway_sys::file::{POLLERR, POLLHUP};
use byway_sys::socket::{
    AF_UNIX, MSG_CMSG_CLOEXEC, MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, MSG_OOB, MSG_PEEK,
    MSG_WAITALL, Message, POLLRDHUP, SO_ERROR, SOCK_STREAM, SOCK_TYPE, SOL_SOCKET,
};
use byway_sys::syscall::{call6, nr};
use byway_sys::{file, tcp};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Flags that a ring obeys. What it has is there at once, whether more is to come or not.
const SEND: usize = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_MORE;
const RECEIVE: usize = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_CMSG_CLOEXEC | MSG_PEEK | MSG_WAITALL;
/// An int of flags.
const FLAGS: usize = u32::MAX as usize;

/// Whether this process may have a carried socket.
#[unsafe(link_section = ".data")]
static USED: AtomicBool = AtomicBool::new(false);

/// This process has one.
pub fn uses() {
    USED.store(true, Relaxed);
}

pub fn is_used() -> bool {
    USED.load(Relaxed)
}

/// socketpair(2): a connection among participants comes into being.
pub fn pairs(f: &mut Frame) -> u32 {
    let [family, kind, protocol, at, ..] = f.args;
    // SAFETY: the kernel checks the address; this is the caller's own call.
    f.result = unsafe { call6(f.nr, family, kind, protocol, at, 0, 0) };
    if failed(f.result) {
        return DONE;
    }
    // SAFETY: the kernel has just stored two ints there.
    let fds = unsafe { (at as *const [u32; 2]).read_unaligned() }.map(|fd| fd as usize);
    for fd in fds {
        fdtable::forget(fd);
    }
    let Some(d) = attach::domain() else {
        return DONE;
    };
    let is_stream = family as u32 as usize == AF_UNIX && kind & SOCK_TYPE == SOCK_STREAM;
    if is_stream
        && d.header().flags.load(Relaxed) & NO_UNIX == 0
        && let [Some(one), Some(other)] = fds.map(file::identity)
    {
        birth::pair_born(d, one, other, attach::run());
    }
    DONE
}

/// send(2), recv(2) and their forms, if `f` is on a carried socket.
pub fn begin(f: &mut Frame) -> Option<u32> {
    if let Some(does) = cold::call(f) {
        return Some(does);
    }
    let end = fdtable::endpoint(f.args[0]).filter(|e| e.is_socket)?;
    if end.is_inbox() {
        if f.nr == nr::SENDMSG {
            passes_descriptors(f);
        }
        return udp::begin(f);
    }
    let writes = matches!(f.nr, nr::SENDTO | nr::SENDMSG);
    let carried = match f.nr {
        nr::SENDTO | nr::RECVFROM => takes_buffer(f, end, writes),
        _ => takes_message(f, writes),
    };
    let slot = match unmatched::side(f, end, writes) {
        Ok(slot) => slot,
        Err(does) => return Some(does),
    };
    let peeks = !writes && f.flags & MSG_PEEK != 0;
    if let Some(i) = slot.filter(|_| carried && peeks)
        && let Some(does) = peek(f, i)
    {
        return Some(does);
    }
    let Some(i) = slot.filter(|_| carried && !peeks) else {
        let does = suspends(f, &[0], Reason::Splice);
        let ch = end.writes.and_then(|i| Channel::at(attach::domain()?, i));
        if f.nr == nr::SENDMSG {
            passes_descriptors(f);
        }
        let out_of_band = f.nr == nr::SENDTO && f.args[3] & MSG_OOB != 0;
        if let Some(ch) = ch.filter(|_| f.nr == nr::SENDMSG || out_of_band) {
            socket::mixes(ch);
        }
        if out_of_band && ch.is_some_and(Channel::is_tcp) {
            // LINUX tcp(7): such a byte is none that is read, but counts as one.
            exec::give_up_to_write(f.args[0], Reason::Control, false);
        }
        return Some(does);
    };
    let does = io::start(f, i, writes);
    if does == DONE && !failed(f.result) {
        answers(f, 0, 0);
    }
    Some(does)
}

/// A look at what slot `i` has next; `None`: it waits, or the ring alone cannot tell.
fn peek(f: &mut Frame, i: usize) -> Option<u32> {
    let me = io::me()?;
    let ch = Channel::at(me.domain, i)?;
    loop {
        let at = Buffers::new(&f.iov[..f.vectors]);
        let lengths = f.iov[..f.vectors].iter().map(|v| v.len);
        let want = lengths.fold(0, usize::saturating_add);
        match peek::peek(&me, ch, at, want) {
            Peek::Bytes(n) => {
                f.result = n as isize;
                answers(f, 0, 0);
                return Some(DONE);
            }
            Peek::Nothing if f.flags & MSG_DONTWAIT != 0 || file::is_nonblocking(f.args[0]) => {}
            _ => return None,
        }
        let mut now = f.args;
        now[if f.nr == nr::RECVMSG { 2 } else { 3 }] |= MSG_DONTWAIT;
        let [fd, at, b, c, d, e] = now;
        // SAFETY: the caller's own call; the kernel checks the addresses.
        f.result = unsafe { call6(f.nr, fd, at, b, c, d, e) };
        // The end of the stream comes behind what the ring has by now.
        if f.result > 0 || peek::is_empty(ch) {
            f.result = or_reset(fd, f.result);
            return Some(DONE);
        }
    }
}

/// Whether a ring obeys `flags` of a call that `writes`, or reads. A look that waits for all is the kernel's.
pub fn obeys_flags(flags: usize, writes: bool) -> bool {
    const ALL_STAYS: usize = MSG_PEEK | MSG_WAITALL;
    let (flags, may) = (flags & FLAGS, if writes { SEND } else { RECEIVE });
    flags & !may == 0 && flags & ALL_STAYS != ALL_STAYS
}

/// The buffer of sendto or recvfrom. False: it is not carried.
fn takes_buffer(f: &mut Frame, end: Endpoint, writes: bool) -> bool {
    let [_, base, len, flags, name, size] = f.args;
    let flags = flags & FLAGS;
    f.iov[0] = Iov {
        base,
        len: len.min(access::MOST),
    };
    f.vectors = 1;
    f.flags = flags;
    // LINUX recv(2) of no bytes waits for one.
    obeys_flags(flags, writes) && len > 0 && (name == 0 || names_nobody(end, name, size, writes))
}

/// Whether the name of sendto or recvfrom is one that a TCP connection does not look at, or leaves as it is.
///
/// LINUX tcp_sendmsg, tcp_recvmsg: the name is not looked at, once it is copied; a read says that it has none.
fn names_nobody(end: Endpoint, name: usize, size: usize, writes: bool) -> bool {
    const MOST: usize = 128;
    if !end
        .slots()
        .any(|i| channel(Some(i)).is_some_and(Channel::is_tcp))
    {
        return false;
    }
    if writes {
        let size = size as u32 as usize;
        return size <= MOST && (size == 0 || access::allowed(name, size, false));
    }
    // SAFETY: asked for.
    access::allowed(size, 4, true) && unsafe { (size as *const i32).read_unaligned() } >= 0
}

/// The buffers of sendmsg or recvmsg. False: it is not carried.
fn takes_message(f: &mut Frame, writes: bool) -> bool {
    let (at, flags) = (f.args[1], f.args[2] & FLAGS);
    if !obeys_flags(flags, writes) || !access::allowed(at, size_of::<Message>(), !writes) {
        return false;
    }
    // SAFETY: asked for.
    let m = unsafe { (at as *const Message).read_unaligned() };
    f.flags = flags;
    m.name == 0
        && !(writes && m.control_len != 0)
        && io::vectors(f, m.parts, m.n, writes)
        && (f.vectors == 0 || f.iov[..f.vectors].iter().any(|v| v.len > 0))
}

/// What recvmsg, or recvfrom with a name, says beside its result: how long the control message is, and `flags`.
///
/// LINUX ____sys_recvmsg: it tells of MSG_CMSG_CLOEXEC too.
pub fn answers(f: &Frame, control_len: usize, flags: u32) {
    // SAFETY: `takes_message` and `names_nobody` asked whether it may be written.
    unsafe {
        if f.nr == nr::RECVMSG {
            let m = f.args[1] as *mut Message;
            (&raw mut (*m).control_len).write_unaligned(control_len);
            let flags = flags | (f.flags & MSG_CMSG_CLOEXEC) as u32;
            (&raw mut (*m).flags).cast::<u32>().write_unaligned(flags);
        } else if f.nr == nr::RECVFROM && f.args[4] != 0 {
            (f.args[5] as *mut i32).write_unaligned(0);
        }
    }
}

/// shutdown(2): the directions that end are the kernel's for good.
pub fn shuts(f: &Frame) -> u32 {
    let (reads, writes) = match f.args[1] as u32 {
        0 => (true, false),
        1 => (false, true),
        2 => (true, true),
        // LINUX shutdown(2): EINVAL, which the kernel says itself.
        _ => return RUN,
    };
    if cold::shuts(f.args[0], reads) {
        return RUN;
    }
    if let Some(end) = fdtable::endpoint(f.args[0]).filter(|e| e.is_socket) {
        // It has ended: that is no reason to tell.
        for slot in [end.reads.filter(|_| reads), end.writes.filter(|_| writes)] {
            exec::hands_back(f.args[0], slot, Reason::Cold);
        }
        if reads {
            exec::leaves_unmatched(f.args[0], end, Reason::Cold, false);
        }
    }
    RUN
}

/// setsockopt(2): what changes how bytes are sent or received.
pub fn sets_option(f: &mut Frame) -> u32 {
    /// SO_REUSEADDR, SO_KEEPALIVE, SO_PRIORITY, SO_LINGER, SO_REUSEPORT, SO_RCVTIMEO, SO_SNDTIMEO, SO_RCVTIMEO_NEW,
    /// SO_SNDTIMEO_NEW: a call that waits waits in the kernel.
    const ALIKE: [u32; 9] = [2, 9, 12, 13, 15, 20, 21, 66, 67];
    /// SO_SNDBUF, SO_RCVBUF, SO_SNDBUFFORCE, SO_RCVBUFFORCE: rings are measured by them.
    const SIZES: [u32; 4] = [7, 8, 32, 33];
    let [fd, level, option, ..] = f.args;
    /// IP_TOS, IP_TTL, IP_RECVERR, IP_BIND_ADDRESS_NO_PORT; IPV6_UNICAST_HOPS, IPV6_V6ONLY, IPV6_TCLASS: how a packet goes, or
    /// whom a listener hears.
    const ALIKE_IP: [u32; 4] = [1, 2, 11, 24];
    const ALIKE_IPV6: [u32; 3] = [16, 26, 67];
    /// TCP_MAXSEG, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT, TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_QUICKACK,
    /// TCP_CONGESTION, TCP_USER_TIMEOUT, TCP_FASTOPEN: how segments go, or when a connection has ended.
    const ALIKE_TCP: [u32; 11] = [2, 4, 5, 6, 7, 8, 9, 12, 13, 18, 23];
    let alike: &[u32] = match level as u32 as usize {
        SOL_SOCKET => &ALIKE,
        0 => &ALIKE_IP,
        41 => &ALIKE_IPV6,
        tcp::PROTOCOL if option as u32 as usize == tcp::TCP_NODELAY => return sets_delays(f),
        tcp::PROTOCOL if option as u32 as usize == tcp::TCP_CORK => return sets_cork(f),
        tcp::PROTOCOL => &ALIKE_TCP,
        _ => &[],
    };
    if udp::sets_option(fd, level as u32 as usize, option as u32 as usize) {
        return RUN;
    }
    if alike.contains(&(option as u32)) {
        return RUN;
    }
    let is_socket = fdtable::endpoint(fd).is_some_and(|e| e.is_socket);
    let is_size = level as u32 as usize == SOL_SOCKET && SIZES.contains(&(option as u32));
    match (is_socket, is_size) {
        (true, true) => return suspends(f, &[0], Reason::Control),
        (false, true) => return RUN,
        (false, false) => {
            unmatched::has_option(fd);
            return RUN;
        }
        (true, false) => {}
    }
    exec::give_up_to_write(fd, Reason::Control, false);
    RUN
}

/// TCP_NODELAY of a carried socket: what the program wants is the kernel's once the ring is closed.
fn sets_delays(f: &mut Frame) -> u32 {
    let end = fdtable::known_endpoint(f.args[0]);
    let Some((ch, on)) = end.and_then(|end| switches(f, end)) else {
        return RUN;
    };
    if byway_pipe::tcp::sets_delays(ch, !on) {
        return RUN;
    }
    f.result = 0;
    DONE
}

/// TCP_CORK: the same. A cold end's is the kernel's, and is looked at when a ring opens.
fn sets_cork(f: &mut Frame) -> u32 {
    let fd = f.args[0];
    let end = match fdtable::is_cold(fdtable::entry(fd)) {
        true => None,
        false => fdtable::endpoint(fd),
    };
    let Some(((ch, on), me)) = end.and_then(|end| switches(f, end)).zip(io::me()) else {
        return RUN;
    };
    f.result = byway_pipe::tcp::sets_cork(&me, ch, fd, on);
    DONE
}

/// Of a setsockopt(2) that turns something of TCP's on, or off, at `end`: the channel that it writes to, and whether on.
fn switches(f: &Frame, end: Endpoint) -> Option<(&'static Channel, bool)> {
    let [_, _, _, value, len, _] = f.args;
    let ch = channel(end.writes).filter(|ch| ch.is_tcp() && len as i32 >= 4)?;
    // SAFETY: asked for.
    let on = || unsafe { (value as *const i32).read_unaligned() } != 0;
    access::allowed(value, 4, false).then(|| (ch, on()))
}

fn channel(slot: Option<usize>) -> Option<&'static Channel> {
    Channel::at(attach::domain()?, slot?)
}

/// Whether the other end of `fd` was killed before it had read all, and nobody was told so; with `told` this tells.
pub fn is_reset(me: &Caller, fd: usize, told: bool) -> bool {
    let is_stream = |e: &Endpoint| e.is_socket && !e.is_inbox();
    let Some(end) = fdtable::known_endpoint(fd).filter(is_stream) else {
        return false;
    };
    let channel = |slot: Option<usize>| slot.and_then(|i| Channel::at(me.domain, i));
    let kept = channel(end.reads).filter(|ch| socket::is_reset_kept(ch));
    if told && let Some(ch) = kept {
        socket::forgets_reset(ch);
    }
    let lost = channel(end.writes).is_some_and(|ch| match told {
        true => socket::takes_reset(me, ch, fd),
        false => socket::is_reset(ch, fd),
    });
    kept.is_some() || lost
}

/// What a receive from `fd` says of which the kernel has `said` this: of a reset the kernel may know nothing.
pub fn or_reset(fd: usize, said: Ret) -> Ret {
    let is_reset = || io::me().is_some_and(|me| is_reset(&me, fd, true));
    match said {
        // It may have told of it already, for bytes of the lane.
        0 | ECONNRESET if is_reset() => ECONNRESET,
        _ => said,
    }
}

/// A read of a connection that was reset: the call that met this had bytes, and so the kernel does not tell it any more. None
/// waits there.
pub fn tells_reset(f: &mut Frame) -> u32 {
    let [a, b, c, d, e, g] = f.args;
    // SAFETY: the caller's own call.
    let said = unsafe { call6(f.nr, a, b, c, d, e, g) };
    f.result = or_reset(f.fd, said);
    DONE
}

/// What poll(2) tells besides `shown` of `fd`, if that is so.
///
/// LINUX unix_poll, tcp_poll: a reset is an error, and the end of both directions. Of a TCP connection the kernel tells the end of
/// one, for it knows nothing of the ring.
pub fn reset_bits(me: &Caller, fd: usize, shown: i16) -> i16 {
    let writes = fdtable::known_endpoint(fd).and_then(|end| channel(end.writes));
    let ends = match writes.is_some_and(Channel::is_tcp) {
        true => POLLHUP | POLLRDHUP | IN,
        false => POLLHUP,
    };
    match shown & ends != 0 && is_reset(me, fd, false) {
        true => POLLHUP | POLLERR,
        false => 0,
    }
}

/// getsockopt(2): SO_ERROR tells of a reset that the kernel knows nothing of.
pub fn asks_option(f: &mut Frame) -> u32 {
    let [fd, level, option, value, len, _] = f.args;
    let asked = (level as u32 as usize, option as u32 as usize);
    match asked {
        (tcp::PROTOCOL, tcp::TCP_NODELAY) => return asks_set(f, byway_pipe::tcp::is_hurried, 0),
        (tcp::PROTOCOL, tcp::TCP_CORK) => return asks_set(f, byway_pipe::tcp::is_uncorked, 1),
        _ => {}
    }
    let is_error = asked == (SOL_SOCKET, SO_ERROR);
    let (true, Some(me)) = (is_error && fdtable::is_socket(fd), io::me()) else {
        return RUN;
    };
    if !is_reset(&me, fd, false) || !access::allowed(value, 4, true) {
        return RUN;
    }
    // SAFETY: the caller's own call.
    f.result = unsafe { call6(f.nr, fd, level, option, value, len, 0) };
    if f.result == 0 && is_reset(&me, fd, true) {
        // SAFETY: asked for.
        unsafe { (value as *mut i32).write_unaligned(-ECONNRESET as i32) };
    }
    DONE
}

/// An option as the program has set it: `says`, where the kernel `has_another`.
fn asks_set(f: &mut Frame, has_another: fn(&Channel) -> bool, says: i32) -> u32 {
    let [fd, level, option, value, len, _] = f.args;
    let ch = fdtable::known_endpoint(fd).and_then(|end| channel(end.writes));
    if !ch.is_some_and(has_another) || !access::allowed(value, 4, true) {
        return RUN;
    }
    // SAFETY: the caller's own call.
    f.result = unsafe { call6(f.nr, fd, level, option, value, len, 0) };
    if f.result == 0 {
        // SAFETY: the kernel has just stored there how many bytes it has written, and has written them.
        unsafe {
            let n = (len as *const u32).read_unaligned().min(4);
            let from = says.to_ne_bytes();
            (value as *mut u8).copy_from_nonoverlapping(from.as_ptr(), n as usize);
        }
    }
    DONE
}

/// Hands back every socket of this process for good.
pub fn gives_up_all(vfork: bool) {
    if is_used() {
        file::each_fd(|fd| {
            let end = fdtable::ask_kernel(fd);
            if end.is_some_and(|e| e.is_socket) {
                exec::give_up_to_write(fd, Reason::Credentials, vfork);
            }
        });
    }
}

/// Before descriptor `fd` is closed: what its rings hold is the kernel's to deliver, or to answer for.
pub fn closes(fd: usize) {
    pins::closes(fd);
    let ends = bits::any(fd) && {
        let ends = unmatched::closes(fd);
        udp::closes(fd);
        ends
    };
    if is_used()
        && let Some(end) = fdtable::known_endpoint(fd).filter(|e| e.is_socket)
        && let Some(me) = io::me()
    {
        match ends {
            // What the rings have as memory is free at once.
            true => end.slots().for_each(|i| ends_with(&me, fd, i)),
            false => empties(&me, fd, end),
        }
    }
}

/// The same of each from `first` to `last`.
pub fn closes_all(first: usize, last: usize) {
    pins::closes_all(first, last);
    bits::each(|fd| {
        if (first..=last).contains(&fd) {
            closes(fd);
        }
    });
    if is_used() {
        (first..=last.min(fdtable::FDS - 1))
            .filter(|fd| fdtable::is_carried(*fd))
            .for_each(closes);
    }
}

/// The end behind `fd`, which nobody else has, goes.
fn ends_with(me: &Caller, fd: usize, i: usize) {
    if let Some(ch) = Channel::at(me.domain, i).filter(|ch| ch.is_inbox()) {
        return datagram::ends(me, ch);
    }
    if let Some(ch) = Channel::at(me.domain, i).filter(|ch| !ch.tail().closed()) {
        handback::hand_back(me, ch, fd, true, Reason::Cold);
    }
}

/// Hands back the rings of the socket behind `fd` that hold bytes.
pub fn empties(me: &Caller, fd: usize, end: Endpoint) {
    if end.is_inbox() {
        // Others may have it; what nobody has goes with it.
        if let Some(ch) = end.reads.and_then(|i| Channel::at(me.domain, i)) {
            datagram::may_be_gone(ch);
        }
        return;
    }
    for i in end.slots() {
        if let Some(ch) = Channel::at(me.domain, i).filter(|ch| socket::has_unread(ch)) {
            handback::hand_back(me, ch, fd, false, Reason::Cold);
        }
    }
}
