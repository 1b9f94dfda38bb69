//! Calls that only ask about carried pipes, answered as the kernel would: poll and select where something is ready or
//! nobody waits, FIONREAD, F_GETPIPE_SZ and F_SETPIPE_SZ.
//!
//! Invariant: hang-up, error and a bad descriptor are the kernel's own word, for the ends of a carried pipe are the
//! kernel's at any time; whether it can be read or written is told by its channel, looked at after the kernel.
//! unsafe: reads and writes what the arguments point to, once the kernel says that it may be.
//! Not here: a call that waits while nothing is ready (sleep.rs), or that is not answered (give_up.rs).
use crate::asked::{IN, OUT};
use crate::entry::Frame;
use crate::{access, attach, cold, fdtable, io, message, tls, udp};
use byway_pipe::channel::Channel;
use byway_pipe::ready::{self, Closed};
use byway_pipe::{Caller, datagram, liveness, size, socket};
use byway_sys::clock;
use byway_sys::errno::{EBADF, EINTR, Ret, failed};
use byway_sys::file::{self, POLLERR, POLLHUP, POLLNVAL};
use byway_sys::syscall::{call3, call6, nr};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::compiler_fence;

/// The answer to `f`, if it can be told without the pipes that it names being handed back.
pub fn answer(f: &Frame) -> Option<Ret> {
    let [a0, a1, a2, a3, ..] = f.args;
    match f.nr {
        nr::POLL | nr::PPOLL => polls(a0, a1 as u32 as usize, waits_of(f)?),
        nr::SELECT | nr::PSELECT6 => selects(a0 as i32, [a1, a2, a3], waits_of(f)?),
        nr::IOCTL if a1 as u32 as usize == file::FIONREAD => {
            let (me, ch, _) = channel(a0)?;
            let n = match ch.is_inbox() {
                // LINUX udp(7): the bytes of the next datagram.
                true => {
                    datagram::next_len(&me, ch, a0).unwrap_or_else(|| file::fionread(a0)) as i32
                }
                false => ready::count(&me, ch, a0)?.min(i32::MAX as u64) as i32,
            };
            access::allowed(a2, 4, true).then(|| {
                // SAFETY: asked for.
                unsafe { (a2 as *mut i32).write_unaligned(n) };
                0
            })
        }
        nr::FCNTL if matches!(a1 as u32 as usize, file::F_GETPIPE_SZ | file::F_SETPIPE_SZ) => {
            let (me, ch, _) = channel(a0)?;
            match a1 as u32 as usize {
                // LINUX fcntl(2): of what is no pipe.
                _ if ch.is_socket() || ch.is_inbox() => Some(EBADF),
                file::F_GETPIPE_SZ => Some(size::get(&me, ch, a0)),
                _ => size::set(&me, ch, a0, a2),
            }
        }
        _ => None,
    }
}

/// What poll(2) says of a list of one, from whose carried pipe bytes can be read at once, if the kernel has said a moment
/// ago that the pipe has a writer.
pub fn at_hand(f: &Frame) -> Option<Ret> {
    let [list, 1, ..] = f.args else { return None };
    if f.nr != nr::POLL || !access::allowed(list, 8, true) {
        return None;
    }
    // SAFETY: asked for; struct pollfd is fd, events, revents.
    let (fd, events, _) = unsafe { (list as *const (i32, i16, i16)).read_unaligned() };
    if events & (IN | OUT) != events & IN || events & IN == 0 {
        return None;
    }
    let ch = fdtable::known(fd as usize)?;
    let me = io::me()?;
    let ch = Channel::at(me.domain, ch)?;
    if !has_writer(&me, fd as usize) || !ready::has_bytes(ch) {
        return None;
    }
    // SAFETY: as above.
    unsafe { (list as *mut (i32, i16, i16)).write_unaligned((fd, events, events & IN)) };
    Some(1)
}

/// Remembers that the kernel has said of `fd`, a carried pipe's read end or the set of one, that the pipe has a writer.
pub fn remember(fd: usize, epoch: u32, at: u64) {
    let polled = &tls::get().polled;
    // A handler that polls meanwhile finds nothing, or leaves nothing.
    polled.fd.set(0);
    // ORDER: for a handler of this thread: nothing is known while it changes.
    compiler_fence(SeqCst);
    polled.entry.set(fdtable::entry(fd));
    polled.epoch.set(epoch);
    polled.at.set(at);
    // ORDER: for the same: all of it before `fd`.
    compiler_fence(SeqCst);
    polled.fd.set(fd as u32 + 1);
}

/// Whether the kernel has said so (`remember`) a moment ago, and nobody has ended since.
pub fn has_writer(me: &Caller, fd: usize) -> bool {
    let was = &tls::get().polled;
    was.fd.get() == fd as u32 + 1
        && was.entry.get() == fdtable::entry(fd)
        && !liveness::may_have_ended(me, was.epoch.get(), was.at.get())
}

/// The caller, and the channel behind `fd` and its slot, if it is carried. A cold end stays cold.
pub fn channel(fd: usize) -> Option<(Caller, &'static Channel, usize)> {
    let me = io::me()?;
    let (ch, slot) = channel_by(&me, fd)?;
    Some((me, ch, slot))
}

/// The same, where the caller is known.
pub fn channel_by(me: &Caller, fd: usize) -> Option<(&'static Channel, usize)> {
    if cold::stays(fd) {
        return None;
    }
    let i = fdtable::channel(fd)?;
    Some((Channel::at(me.domain, i)?, i))
}

/// Whether call `f`, a poll or select, waits where nothing is ready; `None`: the kernel would refuse it.
pub fn waits(f: &Frame) -> Option<bool> {
    Some(matches!(waits_of(f)?, Waits::Yes))
}

fn waits_of(f: &Frame) -> Option<Waits> {
    let [_, _, a2, a3, a4, a5] = f.args;
    match f.nr {
        nr::POLL if a2 as i32 == 0 => Some(Waits::No { mask: 0 }),
        nr::POLL => Some(Waits::Yes),
        nr::PPOLL => Waits::by(a2, a3, a4),
        nr::SELECT => Waits::by(a4, 0, 0),
        _ => {
            let (mask, size) = mask(a5)?;
            Waits::by(a4, mask, size)
        }
    }
}

/// Whether a call waits where nothing is ready.
#[derive(Clone, Copy)]
enum Waits {
    Yes,
    /// With the mask of signals at this address, if it is not 0.
    No {
        mask: usize,
    },
}

impl Waits {
    /// With the struct timespec or timeval at `time`, and the mask of `size` bytes at `mask`; `None` where the kernel
    /// would refuse them.
    fn by(time: usize, mask: usize, size: usize) -> Option<Waits> {
        const NS: i64 = 1_000_000_000;
        if mask != 0 && (size != 8 || !access::allowed(mask, 8, false)) {
            return None;
        }
        if time == 0 {
            return Some(Waits::Yes);
        }
        if !access::allowed(time, 16, false) {
            return None;
        }
        // SAFETY: asked for.
        match unsafe { (time as *const [i64; 2]).read_unaligned() } {
            [0, 0] => Some(Waits::No { mask }),
            [s, rest] if s >= 0 && (0..NS).contains(&rest) => Some(Waits::Yes),
            _ => None,
        }
    }

    /// The answer where nothing is ready.
    ///
    /// LINUX ppoll(2): then a signal that the mask lets through is taken in; with something ready none is.
    fn nothing(self) -> Option<Ret> {
        let none = [0u64; 2];
        match self {
            Waits::Yes => None,
            Waits::No { mask: 0 } => Some(0),
            Waits::No { mask } => {
                let now = none.as_ptr() as usize;
                // SAFETY: no descriptor; a struct timespec, and a mask that can be read.
                Some(unsafe { call6(nr::PPOLL, 0, 0, now, mask, 8, 0) })
            }
        }
    }
}

/// Whether call `f` may wait awake where the process has handlers, which end it. Not with a mask of its own: what ends it then is
/// known to the kernel alone. The first of several threads (`io::may_hold_signals`) does where its time ends the call.
pub fn may_spin(f: &Frame, me: &Caller) -> bool {
    let [_, _, _, a3, a4, a5] = f.args;
    let (is_masked, has_time) = match f.nr {
        nr::POLL => (false, f.args[2] as i32 >= 0),
        nr::PPOLL => (a3 != 0, f.args[2] != 0),
        nr::SELECT => (false, a4 != 0),
        nr::PSELECT6 => (mask(a5).is_none_or(|(at, _)| at != 0), a4 != 0),
        nr::EPOLL_PWAIT2 => (a4 != 0, a3 != 0),
        nr::EPOLL_PWAIT => (a4 != 0, a3 as i32 >= 0),
        _ => (false, a3 as i32 >= 0),
    };
    !me.handlers || !is_masked && (has_time || io::may_hold_signals(me.tid))
}

/// The mask that the last argument of pselect6 at `p` names, and its size.
fn mask(p: usize) -> Option<(usize, usize)> {
    if p == 0 {
        return Some((0, 0));
    }
    // SAFETY: asked for.
    access::allowed(p, 16, false).then(|| unsafe { (p as *const (usize, usize)).read_unaligned() })
}

/// Makes a call that does not wait. A handler that came over it was there before it.
fn at_once(call: impl Fn() -> Ret) -> Ret {
    loop {
        let r = call();
        if r != EINTR {
            return r;
        }
    }
}

/// The bits of `IN` and `OUT` among `events` that poll(2) has of carried `fd`; `None`: it cannot be told now.
fn bits(me: &Caller, ch: &Channel, fd: usize, events: i16) -> Option<i16> {
    let mut bits = 0;
    if events & IN != 0 && fdtable::fits(fd, false) && ready::is_readable(me, ch, fd)? {
        bits |= events & IN;
    }
    if events & OUT != 0 && fdtable::fits(fd, true) && ready::is_writable(me, ch, fd) {
        bits |= events & OUT;
    }
    Some(bits)
}

/// Bytes of a struct pollfd.
const POLLFD: usize = 8;

/// The `n` structs pollfd at `list`.
fn polls(list: usize, n: usize, waits: Waits) -> Option<Ret> {
    if n > fdtable::FDS || !access::allowed(list, n * POLLFD, true) {
        return None;
    }
    // SAFETY: asked for; struct pollfd is fd, events, revents.
    let entry = |k: usize| unsafe { (list as *mut (i32, i16, i16)).add(k) };
    let read = |k: usize| {
        // SAFETY: asked for.
        let (fd, events, shown) = unsafe { entry(k).read_unaligned() };
        let asks = fd >= 0 && events & (IN | OUT) != 0;
        (fd as usize, events, shown, asks)
    };
    let concerns = |&k: &usize| {
        let (fd, _, _, asks) = read(k);
        asks && !is_kernels(fd)
    };
    // Of the first such pipe, which is mostly the only one, the kernel's word may be enough.
    let first = (0..n).find(concerns)?;
    let me = io::me()?;
    let known = fdtable::known(read(first).0).and_then(|i| Channel::at(me.domain, i));
    let closed = known.and_then(|ch| Some((ch, Closed::now(&me, ch)?)));
    let (epoch, at) = (me.domain.header().death_epoch.load(Relaxed), clock::now());
    // SAFETY: the list may be written.
    let ready = at_once(|| unsafe { call3(nr::POLL, list, n, 0) });
    if failed(ready) {
        return None;
    }
    let (fd, _, shown, _) = read(first);
    if n == 1 && fdtable::fits(fd, false) && shown & (POLLHUP | POLLERR | POLLNVAL) == 0 {
        remember(fd, epoch, at);
    }
    let mut ready = 0;
    for k in 0..n {
        let (fd, events, shown, asks) = read(k);
        let mut now = shown;
        let asked = asks && shown & POLLNVAL == 0;
        if let Some((ch, _)) = asked.then(|| channel_by(&me, fd)).flatten()
            && !(k == first && closed.is_some_and(|(c, was)| is(c, ch) && was.holds(&me, ch)))
        {
            // LINUX unix_poll: a socket at its end can be read; so what the kernel says of one is true at any time.
            let ours = if ch.is_socket() { 0 } else { IN | OUT };
            now = shown & !ours | bits(&me, ch, fd, events)?;
        }
        now |= message::reset_bits(&me, fd, shown);
        if now != shown {
            // SAFETY: the list may be written.
            unsafe { entry(k).write_unaligned((fd as i32, events, now)) };
        }
        ready += Ret::from(now != 0);
    }
    match ready {
        0 => waits.nothing(),
        n => Some(n),
    }
}

/// After poll(2) by the kernel: the resets that it knows nothing of are told as well.
pub fn tells_resets(f: &Frame) {
    // LINUX poll(2): the number is an unsigned int.
    let (list, n) = (f.args[0], f.args[1] as u32 as usize);
    let is_poll = matches!(f.nr, nr::POLL | nr::PPOLL);
    if !is_poll || f.result <= 0 || !message::is_used() || !access::allowed(list, n * POLLFD, true)
    {
        return;
    }
    let Some(me) = io::me() else { return };
    for k in 0..n {
        let entry = (list + k * POLLFD) as *mut (i32, i16, i16);
        // SAFETY: asked for; struct pollfd is fd, events, revents.
        let (fd, events, shown) = unsafe { entry.read_unaligned() };
        if shown == 0 {
            continue;
        }
        let now = shown | message::reset_bits(&me, fd as usize, shown);
        if now != shown {
            // SAFETY: the list may be written.
            unsafe { entry.write_unaligned((fd, events, now)) };
        }
    }
}

/// Whether the kernel tells all of `fd`.
pub fn is_kernels(fd: usize) -> bool {
    fdtable::is_plain(fd) || cold::stays(fd) || udp::is_cold(fd) || is_left(fd)
}

/// Whether `fd` is a socket that reads from no ring any more, and whose end nobody but the kernel has to tell of.
fn is_left(fd: usize) -> bool {
    let Some(end) = fdtable::known_endpoint(fd).filter(|e| e.is_socket && !e.is_inbox()) else {
        return false;
    };
    let channel = |slot: Option<usize>| Channel::at(attach::domain()?, slot?);
    let is_over = |ch: &Channel| ch.is_kernels() && !socket::is_reset_kept(ch);
    channel(end.reads).is_some_and(is_over)
        && channel(end.writes).is_some_and(|ch| ch.tail().closed())
}

fn is(one: &Channel, other: &Channel) -> bool {
    core::ptr::eq(one, other)
}

/// Descriptors that select(2) can name without more memory than a program usually gives it.
const FDS: usize = 1024;
type Set = [u64; FDS / 64];

/// The descriptors below `n` in three sets of bits.
fn selects(n: i32, sets: [usize; 3], waits: Waits) -> Option<Ret> {
    let n = usize::try_from(n).ok().filter(|n| *n <= FDS)?;
    let words = n.div_ceil(64);
    let mut asked: [Set; 3] = [[0; FDS / 64]; 3];
    for (to, from) in asked.iter_mut().zip(sets) {
        if from != 0 && !access::allowed(from, words * 8, true) {
            return None;
        }
        for (k, word) in to[..words].iter_mut().enumerate().filter(|_| from != 0) {
            // SAFETY: asked for.
            *word = unsafe { (from as *const u64).add(k).read_unaligned() };
        }
    }
    let mut ours: [Set; 2] = [[0; FDS / 64]; 2];
    let me = io::me()?;
    let mut ready = 0;
    let mut any = false;
    for fd in 0..n {
        let (k, bit) = (fd / 64, 1 << (fd % 64));
        let wants = [asked[0][k] & bit != 0, asked[1][k] & bit != 0];
        if wants == [false; 2] || is_kernels(fd) {
            continue;
        }
        let Some((ch, _)) = channel_by(&me, fd) else {
            // Of one that does not know its other end yet the kernel tells all.
            any |= fdtable::unmatched(fd).is_some();
            continue;
        };
        any = true;
        let events = if wants[0] { IN } else { 0 } | if wants[1] { OUT } else { 0 };
        // As in `polls`.
        let others = if ch.is_socket() { events } else { 0 };
        let shown = file::poll1(fd, others, 0).1 | bits(&me, ch, fd, events)?;
        // LINUX select: an end or an error is something to read, an error something to write.
        for (set, those) in [IN | POLLHUP | POLLERR, OUT | POLLERR]
            .into_iter()
            .enumerate()
        {
            asked[set][k] &= !bit;
            if wants[set] && shown & those != 0 {
                ours[set][k] |= bit;
                ready += 1;
            }
        }
    }
    if !any {
        return None;
    }
    let [r, w, x] = asked.each_ref().map(|set| set.as_ptr() as usize);
    let none = [0u64; 2];
    let now = none.as_ptr() as usize;
    // SAFETY: three sets of `FDS` bits, and a struct timeval.
    let others = at_once(|| unsafe { call6(nr::SELECT, n, r, w, x, now, 0) });
    if failed(others) {
        return None;
    }
    ready += others;
    if ready == 0 {
        let nothing = waits.nothing()?;
        if failed(nothing) {
            return Some(nothing);
        }
    }
    for (set, to) in sets.into_iter().enumerate().filter(|(_, to)| *to != 0) {
        for k in 0..words {
            let found = asked[set][k] | ours.get(set).map_or(0, |set| set[k]);
            // SAFETY: asked for.
            unsafe { (to as *mut u64).add(k).write_unaligned(found) };
        }
    }
    Some(ready)
}
