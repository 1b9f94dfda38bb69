//! Sockets with names: connect(2) and accept(2) make ends that do not know the other end yet (crate pipe, peer.rs), and the calls at
//! such an end that read or wait run in the kernel, counted.
//!
//! Before that an end is cold, and has no channel (cold.rs).
//!
//! Invariant: an end has a channel only if it came into being here, and has no option which a ring does not obey. Each call of
//! this process that may sleep at an unmatched end is counted, or ends it.
//! Not here: which two ends belong together, calls at a matched one (message.rs), sets of epoll's (sets.rs).
use crate::bits::Bits;
use crate::brief::{self, Origin};
use crate::entry::{DONE, Frame, RUN};
use crate::fdtable::Endpoint;
use crate::{access, attach, cold, exec, fdtable, io, message, sets, udp, watched};
use byway_mem::layout::flags::{NO_TCP, NO_UNIX};
use byway_pipe::channel::Channel;
use byway_pipe::peer;
use byway_pipe::reason::Reason;
use byway_sys::errno::{EINPROGRESS, failed};
use byway_sys::{socket, tcp};
use core::sync::atomic::Ordering::Relaxed;

const AF_UNSPEC: usize = 0;

/// In `Frame::kind`.
pub const CONNECTED: usize = 27;
pub const ACCEPTED: usize = 28;
pub const READS: usize = 29;

/// Ends that this process alone has, and by one number: a close frees what is known of them.
const ALONE: Bits = Bits::Alone;
/// Sockets with an option of which a ring knows nothing: they stay the kernel's.
const OPTIONS: Bits = Bits::Options;
/// Listening stream sockets without such an option, of UNIX and of IP.
const LISTENS: Bits = Bits::Listens;
const LISTENS_TCP: Bits = Bits::ListensTcp;

/// `fd`, which is no carried socket, gets such an option.
pub fn has_option(fd: usize) {
    OPTIONS.add(fd);
    LISTENS.take(fd);
    LISTENS_TCP.take(fd);
}

/// This process alone has `fd`, and by this number.
pub fn is_alone(fd: usize) {
    ALONE.add(fd);
}

/// This process gets children, which have its descriptors.
pub fn forks() {
    cold::forks();
    watched::is_shared();
    ALONE.clear();
}

/// `fd` gets one more number, or another holder.
pub fn is_shared(fd: usize) {
    cold::is_shared(fd);
    ALONE.take(fd);
}

/// connect(2) to a UNIX address, or one of IP.
pub fn connects(f: &mut Frame) -> u32 {
    let [fd, at, len, ..] = f.args;
    if len < 2 || !access::allowed(at, 2, false) {
        return RUN;
    }
    // SAFETY: asked for; each address begins with its family.
    let family = usize::from(unsafe { (at as *const u16).read_unaligned() });
    udp::connects(fd);
    if family == AF_UNSPEC && fdtable::is_socket(fd) {
        // LINUX connect(2): the connection is dissolved.
        exec::give_up_to_write(fd, Reason::Control, false);
    }
    if is_forbidden(family) {
        return RUN;
    }
    f.chan = family;
    makes(f, CONNECTED)
}

/// The caller's own call, which makes a socket, or connects one: `fdtable::is_new` is to know what was closed before it.
pub fn makes(f: &mut Frame, kind: usize) -> u32 {
    f.want = fdtable::closes() as usize;
    io::own(f, kind)
}

/// After that call. One that does not wait has most likely found the other end of the same host.
pub fn connected(f: &Frame) -> u32 {
    let fd = f.args[0];
    let connects = f.result == 0 || f.result == EINPROGRESS && f.chan != socket::AF_UNIX;
    let known = fdtable::is_cold(fdtable::entry(fd)) || fdtable::is_socket(fd);
    if connects && !known && io::is_made_here(f) && !OPTIONS.has(fd) && watched::may_begin(fd) {
        if !brief::counts(Origin::Connect) {
            fdtable::is_new(fd, f.want as u32);
        } else if f.chan == socket::AF_UNIX || tcp::is_local(fd) && socket::is_stream(fd) {
            begins(fd, Origin::Connect);
        }
    }
    DONE
}

/// accept(2).
pub fn accepts(f: &mut Frame) -> u32 {
    let all = [socket::AF_UNIX, socket::AF_INET];
    if all.into_iter().all(is_forbidden) {
        return RUN;
    }
    makes(f, ACCEPTED)
}

/// After that call. The new socket has its listener's options.
pub fn accepted(f: &Frame) -> u32 {
    let listener = f.args[0];
    if failed(f.result) || !io::is_made_here(f) {
        return DONE;
    }
    let fd = f.result as usize;
    if !LISTENS.has(listener) && !LISTENS_TCP.has(listener) {
        match socket::family(listener).filter(|family| fits(listener, *family)) {
            Some(socket::AF_UNIX) => LISTENS.add(listener),
            Some(_) => LISTENS_TCP.add(listener),
            None => return DONE,
        }
    }
    watched::forget(fd);
    if brief::counts(Origin::Accept) && (LISTENS.has(listener) || tcp::is_local(fd)) {
        begins(fd, Origin::Accept);
    } else {
        fdtable::is_new(fd, f.want as u32);
    }
    DONE
}

/// Whether what `listener`, a socket of that family, accepts may be an end.
fn fits(listener: usize, family: usize) -> bool {
    !OPTIONS.has(listener)
        && !is_forbidden(family)
        && socket::is_stream(listener)
        && (family != socket::AF_UNIX || !socket::passes_credentials(listener))
}

/// Whether sockets of that family stay the kernel's.
fn is_forbidden(family: usize) -> bool {
    let flag = match family {
        socket::AF_UNIX => NO_UNIX,
        socket::AF_INET | socket::AF_INET6 => NO_TCP,
        _ => return true,
    };
    attach::domain().is_none_or(|d| d.header().flags.load(Relaxed) & flag != 0)
}

/// An end comes into being.
fn begins(fd: usize, origin: Origin) {
    fdtable::forget(fd);
    begins_apart(fd);
    cold::begins(fd, origin);
}

/// `fd` is a new socket: what was known of one by that number is not so any more.
pub fn begins_apart(fd: usize) {
    for bits in [ALONE, OPTIONS, LISTENS, LISTENS_TCP] {
        bits.take(fd);
    }
}

/// `fd` is about to be closed. Whether that is known to be the last of an end.
pub fn closes(fd: usize) -> bool {
    for bits in [OPTIONS, LISTENS, LISTENS_TCP] {
        bits.take(fd);
    }
    watched::forget(fd);
    cold::closes(fd);
    let last = ALONE.take(fd);
    if last && let (Some(d), Some(i)) = (attach::domain(), fdtable::unmatched(fd)) {
        peer::closes(d, i);
    }
    last
}

/// The slot that call `f` of `end` moves bytes of, if it has one. `Err`: it reads from an unmatched end, and runs, counted.
pub fn side(f: &mut Frame, end: Endpoint, writes: bool) -> Result<Option<usize>, u32> {
    let slot = end.side(writes);
    let (None, Some(i)) = (slot, end.unmatched()) else {
        return Ok(slot);
    };
    sets::reads_unmatched(f.args[0], i);
    if !enters(i) {
        // It is matched by now.
        return Ok(fdtable::endpoint(f.args[0]).and_then(|end| end.side(writes)));
    }
    f.chan = i;
    Err(io::own(f, READS))
}

/// After that call.
pub fn has_read(f: &mut Frame) -> u32 {
    if io::is_made_here(f) {
        leaves(f.chan);
    }
    // It may have been matched since, and what it wrote lie unread in a ring.
    f.result = message::or_reset(f.args[0], f.result);
    DONE
}

/// A call that may sleep begins at such an end. False: it is matched by now.
pub fn enters(i: usize) -> bool {
    attach::domain().is_some_and(|d| channel(i).is_some_and(|ch| peer::enters(d, ch)))
}

/// Whether such a call is under way, or a set has the end armed.
pub fn is_counted(i: usize) -> bool {
    channel(i).is_some_and(peer::is_counted)
}

/// It has ended.
pub fn leaves(i: usize) {
    if let Some(ch) = channel(i) {
        peer::leaves(ch);
    }
}

fn channel(i: usize) -> Option<&'static Channel> {
    Channel::at(attach::domain()?, i)
}
