//! UDP sockets: which have an inbox (crate pipe, datagram.rs), and the calls on one.
//!
//! ```text
//! socket(2) --> cold (cold.rs) --> the 65th call that moves bytes --> it has an inbox, and sends to those of others
//!   --> a call or an option of which an inbox knows nothing --> the kernel's for good
//! ```
//! Invariant: an inbox is that of a socket which came into being here, has no option that a ring does not obey, and was nobody
//! else's before. A sender asks the kernel who receives what it sends to a name, and asks again every few milliseconds.
//! unsafe: reads and writes what the arguments point to, once the kernel says that it may be.
//! Not here: the ring, where a datagram goes among the kernel's (datagram.rs).
use crate::bits::Bits;
use crate::brief::Origin;
use crate::destinations::Place;
use crate::entry::{DONE, Frame, RUN};
use crate::fdtable::Endpoint;
use crate::{access, attach, cold, destinations, exec, fdtable, io, sets, unmatched};
use byway_mem::layout::flags::{NO_CARRY, NO_UDP};
use byway_pipe::Caller;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::datagram::{self, Found, Sent, Waits};
use byway_pipe::policy::per_us;
use byway_pipe::reason::Reason;
use byway_pipe::wait::{self, Came};
use byway_sys::errno::{EAGAIN, EFAULT, EINTR, Ret, failed};
use byway_sys::signal::Enders;
use byway_sys::socket::{
    AF_INET, AF_INET6, MSG_CMSG_CLOEXEC, MSG_CMSG_COMPAT, MSG_DONTWAIT, MSG_ERRQUEUE, MSG_MORE,
    MSG_NOSIGNAL, MSG_PEEK, MSG_TRUNC, Message, SOCK_TYPE, SOL_SOCKET,
};
use byway_sys::syscall::{call6, nr};
use byway_sys::tcp::{NAME, Name};
use byway_sys::udp::{PROTOCOL, SOCK_DGRAM};
use byway_sys::{clock, file, process, socket};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// In `Frame::kind`.
pub const CREATED: usize = 34;
pub const READS: usize = 35;
/// Flags of a send that an inbox obeys.
const SEND: usize = MSG_DONTWAIT | MSG_NOSIGNAL;
/// Of a read, those that it does not. LINUX udp_recvmsg, ____sys_recvmsg: the others say nothing of a datagram.
const NOT_READ: usize = MSG_ERRQUEUE | MSG_CMSG_COMPAT;
/// A reader looks at the kernel's queue at one of so many reads, also where the ring has something.
const TURN: u32 = 16;
/// UDP sockets that came into being here, and have no option of which a ring knows nothing.
const BORN: Bits = Bits::Udp;

/// socket(2).
pub fn creates(f: &mut Frame) -> u32 {
    unmatched::makes(f, CREATED)
}

/// After that call. A socket of UDP may get an inbox.
pub fn created(f: &Frame) -> u32 {
    if failed(f.result) || !io::is_made_here(f) {
        return DONE;
    }
    let fd = f.result as usize;
    let [family, kind, protocol, ..] = f.args.map(|a| a as u32 as usize);
    let is_udp = matches!(family, AF_INET | AF_INET6)
        && kind & SOCK_TYPE == SOCK_DGRAM
        && matches!(protocol, 0 | PROTOCOL);
    let none = NO_UDP | NO_CARRY;
    let may = || attach::domain().is_some_and(|d| d.header().flags.load(Relaxed) & none == 0);
    fdtable::is_new(fd, f.want as u32);
    if is_udp && may() {
        unmatched::begins_apart(fd);
        BORN.add(fd);
        cold::begins(fd, Origin::Connect);
    }
    DONE
}

/// Calls under way that wait for a cold socket among others: none of them gets an inbox meanwhile, for they would not be told.
#[unsafe(link_section = ".data")]
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Whether `fd` is a cold one: the kernel tells all of it.
pub fn is_cold(fd: usize) -> bool {
    BORN.has(fd) && fdtable::is_cold(fdtable::entry(fd))
}

/// A call begins that waits for cold ones.
pub fn begins_wait() {
    WAITING.fetch_add(1, Relaxed);
}

/// It has ended.
pub fn ends_wait() {
    WAITING.fetch_sub(1, Relaxed);
}

/// A forked child begins, with one thread.
pub fn enter_child() {
    WAITING.store(0, Relaxed);
}

/// Whether `fd` must wait for its inbox.
pub fn must_wait(fd: usize) -> bool {
    BORN.has(fd) && WAITING.load(Relaxed) != 0
}

/// Whether anyone may send to `fd`: it has a port, and is not connected.
pub fn serves(fd: usize) -> bool {
    Name::own(fd).is_some_and(|(_, name)| name.port != 0) && Name::peer(fd).is_none()
}

/// Whether `fd` is such a socket.
pub fn is_born(fd: usize) -> bool {
    BORN.has(fd)
}

/// `fd` is about to be closed.
pub fn closes(fd: usize) {
    BORN.take(fd);
    destinations::closes(fd);
}

/// Whether `fd` is such a socket, also by another number than that which it came into being with. Other sockets stay as cold as
/// they are.
fn is_ours(fd: usize) -> bool {
    let end = || match fdtable::is_unknown(fd) {
        true => fdtable::endpoint(fd),
        false => fdtable::known_endpoint(fd),
    };
    BORN.has(fd) || BORN.any() && end().is_some_and(Endpoint::is_inbox)
}

/// connect(2) of `fd`, before it: from then on it gets what one name sends. A cold one is as it was.
pub fn connects(fd: usize) {
    if !is_cold(fd) && is_ours(fd) {
        leaves(fd, Reason::Control);
    }
}

/// A call of which an inbox knows nothing: `fd`, if it is such a socket, is the kernel's for good.
pub fn leaves(fd: usize, why: Reason) {
    match is_cold(fd) {
        true => {
            cold::stays_kernels(fd);
        }
        false if is_ours(fd) => exec::give_up(fd, why, false),
        false => return,
    }
    BORN.take(fd);
}

/// setsockopt(2) of `fd`; false: it is no such socket.
pub fn sets_option(fd: usize, level: usize, option: usize) -> bool {
    /// SO_REUSEADDR, SO_BROADCAST, SO_SNDBUF, SO_RCVBUF, SO_PRIORITY, SO_RCVTIMEO, SO_SNDTIMEO, SO_SNDBUFFORCE,
    /// SO_RCVBUFFORCE, SO_RCVTIMEO_NEW, SO_SNDTIMEO_NEW: a ring takes as much as a buffer of the usual size, and a call that
    /// waits waits in the kernel.
    const ALIKE: [usize; 11] = [2, 6, 7, 8, 12, 20, 21, 32, 33, 66, 67];
    /// IP_TOS, IP_TTL; IPV6_UNICAST_HOPS, IPV6_V6ONLY, IPV6_TCLASS: how a packet goes, or whom it reaches, which the kernel is
    /// asked.
    const ALIKE_IP: [usize; 2] = [1, 2];
    const ALIKE_IPV6: [usize; 3] = [16, 26, 67];
    if !is_ours(fd) {
        return false;
    }
    let alike: &[usize] = match level {
        SOL_SOCKET => &ALIKE,
        0 => &ALIKE_IP,
        41 => &ALIKE_IPV6,
        _ => &[],
    };
    if !alike.contains(&option) {
        leaves(fd, Reason::Control);
    }
    true
}

/// The inbox behind `fd`, and its slot.
fn inbox(fd: usize) -> Option<(usize, &'static Channel)> {
    let i = fdtable::known_endpoint(fd)?.reads?;
    let ch = Channel::at(attach::domain()?, i)?;
    ch.is_inbox().then_some((i, ch))
}

/// Call `f`, which moves bytes, if it is on a socket with an inbox.
pub fn begin(f: &mut Frame) -> Option<u32> {
    let (i, ch) = inbox(f.args[0])?;
    let Some(me) = io::me() else { return Some(RUN) };
    f.fd = f.args[0];
    f.chan = i;
    if ch.is_kernels() {
        BORN.take(f.fd);
        is_kernels(f, &me, ch);
        return Some(RUN);
    }
    let writes = matches!(f.nr, nr::WRITE | nr::WRITEV | nr::SENDTO | nr::SENDMSG);
    let carried = buffers(f, writes);
    // LINUX sock_read_iter, vfs_readv, vfs_writev: of no bytes these take no datagram, and send none.
    let none = f.want == 0 && matches!(f.nr, nr::READ | nr::READV | nr::WRITEV);
    if carried && (none || access::is_refused(&f.iov[..f.vectors], f.nr)) {
        return Some(RUN);
    }
    Some(match writes {
        true => sends(f, &me, ch, carried),
        false => receives(f, &me, ch, carried),
    })
}

/// The inbox that `f` reads, or is known by, is the kernel's for good: the kernel tells all of it.
fn is_kernels(f: &Frame, me: &Caller, ch: &Channel) {
    destinations::leaves(me, ch);
    fdtable::leave(f.fd, f.chan);
    sets::forgets(me, f.fd);
}

/// The buffers of `f`, its flags, and how many bytes they are. False: it is not carried.
fn buffers(f: &mut Frame, writes: bool) -> bool {
    let [_, at, len, ..] = f.args;
    let flags = |given: usize| given & u32::MAX as usize;
    (f.flags, f.vectors) = (0, 0);
    let known = match f.nr {
        nr::READ | nr::WRITE | nr::SENDTO | nr::RECVFROM => {
            f.iov[0] = Iov { base: at, len };
            f.vectors = 1;
            if matches!(f.nr, nr::SENDTO | nr::RECVFROM) {
                f.flags = flags(f.args[3]);
            }
            len > 0 || f.nr != nr::WRITE
        }
        nr::READV | nr::WRITEV => len == 0 || io::vectors(f, at, len, false),
        _ => {
            f.flags = flags(len);
            access::allowed(at, size_of::<Message>(), !writes) && {
                // SAFETY: asked for.
                let m = unsafe { (at as *const Message).read_unaligned() };
                !(writes && m.control_len != 0) && io::vectors(f, m.parts, m.n, false)
            }
        }
    };
    let obeys = match writes {
        true => f.flags & !SEND == 0,
        false => f.flags & NOT_READ == 0,
    };
    if !known || !obeys {
        return false;
    }
    f.want = 0;
    for v in &f.iov[..f.vectors] {
        f.want = f.want.saturating_add(v.len);
    }
    true
}

/// The name that a send of a socket of `family` goes to: its own, or `None` of a connected socket. `Err`: the kernel judges it.
fn target(f: &Frame, family: usize) -> Result<Option<(usize, Name)>, ()> {
    /// LINUX move_addr_to_kernel: size of struct sockaddr_storage.
    const MOST: usize = 128;
    let (at, len) = match f.nr {
        nr::SENDTO => (f.args[4], f.args[5] as u32 as usize),
        nr::SENDMSG if !access::allowed(f.args[1], size_of::<Message>(), false) => return Err(()),
        nr::SENDMSG => {
            // SAFETY: asked for.
            let m = unsafe { (f.args[1] as *const Message).read_unaligned() };
            (m.name, m.name_len as u32 as usize)
        }
        _ => (0, 0),
    };
    if at == 0 {
        return Ok(None);
    }
    let size = if family == AF_INET { 16 } else { NAME * 4 };
    if !(size..=MOST).contains(&len) || !access::allowed(at, len, false) {
        return Err(());
    }
    let mut words = [0u32; NAME];
    for (k, word) in words.iter_mut().enumerate().take(size / 4) {
        // SAFETY: asked for.
        *word = unsafe { (at as *const u32).add(k).read_unaligned() };
    }
    // LINUX ipv6(7): the last word says by which interface, which an inbox does not know of.
    let is_plain = words[0] as u16 as usize == family && words[NAME - 1] == 0;
    Name::read(&words).filter(|_| is_plain).map(Some).ok_or(())
}

/// A send of a socket that has an inbox itself.
fn sends(f: &mut Frame, me: &Caller, own: &Channel, carried: bool) -> u32 {
    let Ok(to) = target(f, own.facts.0.size.load(Relaxed) as usize) else {
        // To whomever it goes: what is in rings comes first.
        destinations::leaves(me, own);
        datagram::sends_by_kernel(own);
        return RUN;
    };
    let Some(mut place) = destinations::of(me, f.fd, to, datagram::has_sent(own)) else {
        datagram::sends_by_kernel(own);
        return RUN;
    };
    let Some(ch) = place.inbox(me) else {
        datagram::sends_by_kernel(own);
        drop(place);
        return by_kernel(f, own);
    };
    let sent = match carried && f.want <= place.most() {
        true => puts(f, me, &mut place, own, ch),
        false => Sent::Kernels,
    };
    match sent {
        Sent::Ring => {
            place.went_by_ring(own);
            datagram::sends_by_ring(own);
            f.result = f.want as Ret;
            DONE
        }
        // LINUX udp(7): what a full receive buffer has no room for is lost, and the sender is not told.
        Sent::Full(_) => {
            f.result = f.want as Ret;
            DONE
        }
        Sent::Asleep if datagram::is_in_vain(ch) => {
            datagram::leaves(me, ch, Some(place.receiver()), Reason::Cold);
            place.goes_by_kernel(own);
            RUN
        }
        Sent::Kernels => {
            if !datagram::awaits_empty(me, ch) {
                // A reader looks at the queue now and then, also where the ring has something: this would overtake that.
                datagram::leaves(me, ch, Some(place.receiver()), Reason::Full);
            }
            place.goes_by_kernel(own);
            if f.flags & MSG_MORE != 0 {
                // LINUX udp(7): what is sent next is of the same datagram.
                let name = Name::own(f.fd).map(|(_, name)| name);
                datagram::leaves(me, own, name, Reason::Control);
            }
            RUN
        }
        _ => {
            ch.m.0.writer_cpu.set(clock::now_cpu().1);
            ch.writer.0.count_kernel(f.want as Ret);
            place.goes_by_kernel(own);
            drop(place);
            by_kernel(f, own)
        }
    }
}

/// Call `f` of the socket with the inbox `own` is the kernel's, as all may be by now.
fn by_kernel(f: &Frame, own: &Channel) -> u32 {
    if datagram::goes_by_kernel(own) {
        leaves(f.fd, Reason::Cold);
    }
    RUN
}

/// Puts the datagram of `f` into the inbox, which it opens and waits for, if that is to be.
fn puts(f: &Frame, me: &Caller, place: &mut Place, own: &Channel, ch: &Channel) -> Sent {
    let at = Buffers::new(&f.iov[..f.vectors]);
    let mut waited = false;
    loop {
        match datagram::send(me, ch, at, f.want, place.sender(), place.follows(own)) {
            Sent::Closed if datagram::open(me, ch) => {}
            Sent::Full(was) if !waited && !place.is_dropping(was) => {
                waited = !waits_for_room(f, me, ch, was);
                if waited {
                    place.drops(was);
                }
            }
            other => return other,
        }
    }
}

/// Waits until the inbox's head is not at `was` any more; false: that took too long, or the call does not wait.
///
/// LINUX udp(7): a datagram that finds no room is lost. Its sender is as fast as the copy, and a receiver that runs keeps up.
fn waits_for_room(f: &Frame, me: &Caller, ch: &Channel, was: u64) -> bool {
    const LONGEST_US: u64 = 10_000;
    let begun = clock::now();
    let moved = || ch.head().position() != was;
    // LINUX udp(7): a send does not wait, so no handler ends it.
    let enders = Enders::None;
    if wait::writer(&Caller { enders, ..*me }, ch, f.want, moved) == Came::Yes {
        return true;
    }
    if f.flags & MSG_DONTWAIT != 0 || file::is_nonblocking(f.fd) {
        return moved();
    }
    while !moved() {
        if clock::now().wrapping_sub(begun) > LONGEST_US * per_us(me) {
            return false;
        }
        process::nap(20);
    }
    true
}

/// A read of a socket with an inbox.
fn receives(f: &mut Frame, me: &Caller, ch: &'static Channel, carried: bool) -> u32 {
    if !carried || !answerable(f) {
        // The kernel's own call sees its queue alone.
        exec::give_up(f.fd, Reason::Control, false);
        return RUN;
    }
    let told = sets::reads(me, ch, f.fd);
    let does = takes(f, me, ch);
    if told && does == DONE {
        sets::has_read(me, f.fd);
    }
    does
}

/// The read itself.
fn takes(f: &mut Frame, me: &Caller, ch: &'static Channel) -> u32 {
    static TURNS: AtomicU32 = AtomicU32::new(0);
    let turn = TURNS.load(Relaxed).wrapping_add(1);
    TURNS.store(turn, Relaxed);
    if turn.is_multiple_of(TURN) && looks_at_queue(f, ch) {
        return DONE;
    }
    let peeks = f.flags & MSG_PEEK != 0;
    let mut waited = false;
    loop {
        let at = Buffers::new(&f.iov[..f.vectors]);
        match datagram::take(me, ch, at, f.want, peeks) {
            Found::Record(k, len, from) => {
                answers(f, ch, k, len, &from);
                return DONE;
            }
            Found::Fault => {
                f.result = EFAULT;
                return DONE;
            }
            Found::Queue(m) => {
                if looks_at_queue(f, ch) {
                    return DONE;
                }
                datagram::emptied(ch, m);
            }
            Found::Nothing(t) => {
                let how = match waited || t.closed() {
                    true => Waits::Asleep,
                    false => datagram::waits(ch),
                };
                let may_not = || f.flags & MSG_DONTWAIT != 0 || file::is_nonblocking(f.fd);
                // Whether one that sleeps may do so its own call knows.
                if how != Waits::Asleep && may_not() {
                    looks_at_queue(f, ch);
                    return DONE;
                }
                waited = true;
                if how == Waits::QueueFirst && looks_at_queue(f, ch) {
                    return DONE;
                }
                if how != Waits::Asleep {
                    let moved = || ch.tail().position() != t.position() || ch.tail().closed();
                    match wait::reader(me, ch, moved) {
                        Came::Yes => continue,
                        Came::Signal => {
                            f.result = EINTR;
                            return DONE;
                        }
                        Came::No => {}
                    }
                }
                if let Some(counted) = datagram::arm(ch, t) {
                    if !counted {
                        return RUN;
                    }
                    return io::own(f, READS);
                }
            }
            Found::Kernels => {
                is_kernels(f, me, ch);
                return RUN;
            }
        }
    }
}

/// After a read that slept.
pub fn has_read(f: &mut Frame) -> u32 {
    let ch = attach::domain().and_then(|d| Channel::at(d, f.chan));
    if io::is_made_here(f)
        && let Some(ch) = ch
    {
        datagram::disarm(ch);
        was_queued(f, ch);
        ch.reader.0.count_kernel(f.result);
    }
    DONE
}

/// The caller's own call, which does not wait. False: the kernel's queue is empty.
fn looks_at_queue(f: &mut Frame, ch: &Channel) -> bool {
    let [fd, at, len, flags, name, size] = f.args;
    // SAFETY: the caller's own call, in a form that does not wait; the kernel checks the addresses.
    f.result = unsafe {
        match f.nr {
            nr::RECVMSG => call6(nr::RECVMSG, fd, at, len | MSG_DONTWAIT, 0, 0, 0),
            nr::RECVFROM => call6(nr::RECVFROM, fd, at, len, flags | MSG_DONTWAIT, name, size),
            _ => {
                let mut m = Message::of(f.iov.as_ptr() as usize, f.vectors);
                let m = &raw mut m as usize;
                call6(nr::RECVMSG, fd, m, MSG_DONTWAIT, 0, 0, 0)
            }
        }
    };
    was_queued(f, ch);
    f.result != EAGAIN
}

/// What the kernel said of its queue is in `f`.
fn was_queued(f: &Frame, ch: &Channel) {
    if !failed(f.result) {
        datagram::by_ring(ch, false);
        by_kernel(f, ch);
    }
}

/// Whether the name and the message that `f` wants can be written.
fn answerable(f: &Frame) -> bool {
    match f.nr {
        nr::RECVFROM if f.args[4] != 0 => {
            let (name, size) = (f.args[4], f.args[5]);
            access::allowed(size, 4, true) && {
                // SAFETY: asked for.
                let room = unsafe { (size as *const i32).read_unaligned() };
                room >= 0 && can_hold(name, room as usize)
            }
        }
        nr::RECVMSG => {
            // SAFETY: `buffers` has asked for it.
            let m = unsafe { (f.args[1] as *const Message).read_unaligned() };
            let room = m.name_len as u32 as i32;
            m.name == 0 || room >= 0 && can_hold(m.name, room as usize)
        }
        _ => true,
    }
}

fn can_hold(name: usize, room: usize) -> bool {
    room == 0 || access::allowed(name, room.min(NAME * 4), true)
}

/// What the call says: `k` bytes of a datagram of `len` bytes from `from`.
fn answers(f: &mut Frame, ch: &Channel, k: usize, len: usize, from: &datagram::Sender) {
    f.result = match f.flags & MSG_TRUNC {
        0 => k as Ret,
        _ => len as Ret,
    };
    // That of the reader's socket, which its inbox remembers.
    let own = ch.facts.0.size.load(Relaxed) as usize;
    let (name, size) = from.name.write(usize::from(from.family), own);
    let writes_name = |at: usize, room: usize| {
        for (i, byte) in name
            .iter()
            .flat_map(|w| w.to_ne_bytes())
            .take(size.min(room))
            .enumerate()
        {
            // SAFETY: `answerable` has asked for it.
            unsafe { ((at + i) as *mut u8).write(byte) };
        }
    };
    match f.nr {
        nr::RECVFROM if f.args[4] != 0 => {
            // SAFETY: as above.
            let room = unsafe { (f.args[5] as *const i32).read_unaligned() };
            writes_name(f.args[4], room as usize);
            // SAFETY: as above.
            unsafe { (f.args[5] as *mut i32).write_unaligned(size as i32) };
        }
        nr::RECVMSG => {
            let m = f.args[1] as *mut Message;
            // SAFETY: as above; the message may be written.
            unsafe {
                let given = m.read_unaligned();
                if given.name != 0 {
                    writes_name(given.name, given.name_len as u32 as usize);
                    (&raw mut (*m).name_len)
                        .cast::<u32>()
                        .write_unaligned(size as u32);
                }
                (&raw mut (*m).control_len).write_unaligned(0);
                let cut = if k < len { MSG_TRUNC } else { 0 };
                // LINUX ____sys_recvmsg: it tells of MSG_CMSG_CLOEXEC too.
                let flags = (f.flags & MSG_CMSG_CLOEXEC | cut) as u32;
                (&raw mut (*m).flags).cast::<u32>().write_unaligned(flags);
            }
        }
        _ => {}
    }
}

/// The cold socket `fd`, which has moved enough, gets an inbox: its slot. `None`: it stays the kernel's.
pub fn inbox_born(fd: usize) -> Option<usize> {
    let id = file::identity(fd)?;
    let d = attach::domain()?;
    let family = socket::family(fd)?;
    let i = byway_pipe::birth::inbox_born(d, id, attach::run())?;
    let ch = Channel::at(d, i)?;
    ch.facts.0.size.store(family as u32, Relaxed);
    ch.used_by(process::name(), false);
    Some(i)
}
