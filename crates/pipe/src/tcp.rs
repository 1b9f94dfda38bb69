//! One direction of a TCP connection on this host: what its lane cannot tell, and how it is told all the same.
//!
//! ```text
//! written --> send queue --> under way --> receive queue --> read          a read that finds nothing has seen the last part alone
//! ```
//! A lane of TCP is not empty because a read finds it so. So the bytes of its chunk are counted, by the writer when it puts
//! them in and by the reader when it takes them out. Where a count may be too high, what the kernel has counted decides.
//!
//! Invariant: the count of a chunk is never less than what is left of it. So no byte of the ring comes before one of the
//! lane. Bytes that are under way when a reader wants them make the channel the kernel's, which waits for them itself.
//! Not here: what is alike of all stream sockets (socket.rs), which two ends belong together (peer.rs).
use crate::channel::Channel;
use crate::reason::Reason;
use crate::{Caller, handback, lock};
use byway_mem::registry;
use byway_sys::diag::{self, Diag, Far};
use byway_sys::errno::Ret;
use byway_sys::tcp::{self, Names};
use byway_sys::{file, socket};
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// In `shrunk`: the other direction's ring is open; the kernel sends small writes at once though the program did not ask for
/// that; the program did ask; the program has TCP_CORK on, and the kernel has it off.
const ANSWERED_BY_RING: u8 = 1;
const HURRIED: u8 = 2;
const HURRIES: u8 = 4;
const UNCORKED: u8 = 8;

/// Whether connection `fd` may have channels: both ends are on this host, and nobody translates their names.
pub fn may_carry(fd: usize) -> bool {
    Names::of(fd).is_some_and(|names| {
        names.is_local() && !names.is_own_peer() && tcp::is_untracked(fd, names.family)
    })
}

/// The other end of connection `fd`, in the name space of both.
fn far(fd: usize, diag: &Diag) -> Option<Far> {
    let names = Names::of(fd).filter(|names| !names.is_own_peer())?;
    let is_here = diag.space() == socket::space(fd);
    diag.tcp_peer(&names).filter(|far| is_here && far.is_whole)
}

/// The inode number of the other end of connection `fd`, which some process has.
pub(crate) fn peer(fd: usize) -> Option<u64> {
    let found = far(fd, &Diag::open()?)?.inode;
    (found != 0 && !diag::is_shaped()).then_some(u64::from(found))
}

/// Under the writers' lock, before the ring opens: how many bytes the lane has, or more; remembers what was ever written.
/// `None`: the kernel does not say.
pub(crate) fn held(ch: &Channel, fd: usize) -> Option<u32> {
    let (held, written) = in_lane(fd)?;
    ch.facts.0.size.store(written, Relaxed);
    Some(held)
}

/// How many bytes the lane has, or more, and how many were ever written, modulo 2^32.
pub(crate) fn in_lane(fd: usize) -> Option<(u32, u32)> {
    let diag = Diag::open()?;
    // Bytes that come between the two count as not read.
    let received = far(fd, &diag)?.received;
    let unread = far(fd, &diag)?.unread;
    let written = tcp::written(fd)?;
    let read = received.saturating_sub(u64::from(unread));
    let held = u32::try_from(written.checked_sub(read)?).ok()?;
    Some((held, written as u32))
}

/// The ring opens; `fd` is of the end that writes. What waits in its send queue goes.
///
/// LINUX tcp(7), Nagle's algorithm: a small write waits until those before it are acknowledged. Answers acknowledge; in a ring
/// they do not, and then it takes 40 ms. TCP_CORK: a segment that is not full waits for 200 ms; what wakes a reader is one.
pub(crate) fn opens(me: &Caller, ch: &Channel, fd: usize) {
    if tcp::is_corked(fd) {
        // Remembered first: between the two the program is told what it has set.
        state(ch).fetch_or(UNCORKED, Relaxed);
        tcp::set_cork(fd, false);
    }
    if tcp::delays(fd) {
        state(ch).fetch_or(HURRIED, Relaxed);
    }
    tcp::set_delays(fd, false);
    if let Some(back) = other(me, ch) {
        state(back).fetch_or(ANSWERED_BY_RING, Relaxed);
    }
}

/// The ring closes; `end` asks for a descriptor of the end that writes, or of the one that reads, which writes the answers.
pub(crate) fn closes(me: &Caller, ch: &Channel, end: impl Fn(bool) -> Option<usize>) {
    calms(ch, || end(true));
    if let Some(back) = other(me, ch) {
        state(back).fetch_and(!ANSWERED_BY_RING, Relaxed);
        // Nobody may look at it any more: it may be the kernel's for good.
        if back.tail().closed() {
            calms(back, || end(false));
        }
    }
}

/// Small writes wait again, where the program wants it and no answer comes by a ring; and it is corked as the program has it.
fn calms(ch: &Channel, out: impl FnOnce() -> Option<usize>) {
    let now = state(ch).load(Relaxed);
    let (slows, corks) = (
        now & (HURRIED | ANSWERED_BY_RING) == HURRIED,
        now & UNCORKED != 0,
    );
    if (slows || corks)
        && let Some(out) = out()
    {
        // First in the kernel: between the two the program is told what it has set.
        if slows {
            tcp::set_delays(out, true);
            state(ch).fetch_and(!HURRIED, Relaxed);
        }
        if corks {
            tcp::set_cork(out, true);
            state(ch).fetch_and(!UNCORKED, Relaxed);
        }
        file::close(out);
    }
}

/// Before a write to `fd` that is the kernel's: it is to wait for those before it only where the program wants it, and its
/// answers do not come by a ring.
pub fn hurries(ch: &Channel, fd: usize) {
    let now = state(ch).load(Relaxed);
    let answered = now & ANSWERED_BY_RING != 0;
    if answered && now & (HURRIED | HURRIES) == 0 {
        let delays = tcp::delays(fd);
        state(ch).fetch_or(if delays { HURRIED } else { HURRIES }, Relaxed);
        tcp::set_delays(fd, false);
    } else if !answered && now & HURRIED != 0 && ch.tail().closed() {
        tcp::set_delays(fd, true);
        state(ch).fetch_and(!HURRIED, Relaxed);
    }
}

/// The ring of `ch` was left for good, for it only woke. So is the other direction's, unless it has carried much.
///
/// LINUX tcp(7): an answer acknowledges what it answers. Beside a ring of answers each message has an acknowledgement of its
/// own, and a server with many clients loses more by those than the ring saves.
pub(crate) fn leaves(me: &Caller, ch: &Channel, fd: usize) {
    const MUCH: u64 = 1 << 20;
    if let Some(back) = other(me, ch).filter(|back| back.writer.0.counted() < MUCH) {
        handback::hand_back(me, back, fd, true, Reason::Cold);
        back.facts.0.passed.store(1, Relaxed);
    }
}

fn state(ch: &Channel) -> &AtomicU8 {
    &ch.facts.0.shrunk
}

/// The channel of the other direction.
fn other(me: &Caller, ch: &Channel) -> Option<&'static Channel> {
    let dev = ch.facts.0.key.dev.load(Relaxed);
    registry::find(me.domain, dev, ch.reading_end()).and_then(|i| Channel::at(me.domain, i))
}

/// Whether the program has TCP_NODELAY off, and the kernel has it on.
pub fn is_hurried(ch: &Channel) -> bool {
    ch.is_tcp() && state(ch).load(Relaxed) & HURRIED != 0
}

/// The program turns TCP_NODELAY on, or off. True: in the kernel too.
pub fn sets_delays(ch: &Channel, delays: bool) -> bool {
    state(ch).fetch_and(!HURRIES, Relaxed);
    let stays = !ch.tail().closed() || state(ch).load(Relaxed) & ANSWERED_BY_RING != 0;
    match delays && stays {
        true => state(ch).fetch_or(HURRIED, Relaxed),
        false => state(ch).fetch_and(!HURRIED, Relaxed),
    };
    !(delays && stays)
}

/// Whether the program has TCP_CORK on, and the kernel has it off.
pub fn is_uncorked(ch: &Channel) -> bool {
    ch.is_tcp() && state(ch).load(Relaxed) & UNCORKED != 0
}

/// The program turns TCP_CORK of `fd`, which writes to `ch`, on, or off: what setsockopt(2) says. While the ring is open the
/// kernel has it off.
///
/// Under the writers' lock: else a ring that closes meanwhile could cork what the program has just uncorked, for good.
pub fn sets_cork(me: &Caller, ch: &Channel, fd: usize, on: bool) -> Ret {
    let Some(_taken) = lock::take(me, ch, fd, |_| false) else {
        return tcp::set_cork(fd, on);
    };
    let remembers = on && !ch.tail().closed();
    let said = match ch.tail().closed() {
        true => tcp::set_cork(fd, on),
        false => 0,
    };
    match remembers {
        true => state(ch).fetch_or(UNCORKED, Relaxed),
        false => state(ch).fetch_and(!UNCORKED, Relaxed),
    };
    lock::unlock(me, ch);
    said
}

/// Of a lane in which a reader found nothing at the place of its chunk: whether bytes of that are under way.
pub(crate) fn are_under_way(ch: &Channel, fd: usize) -> bool {
    // Where the kernel does not say, it is to move them.
    tcp::taken(fd).is_none_or(|read| is_before(read, ch))
}

/// Of a lane that `fd` reads: whether bytes of its chunk never come. So what the ring has behind them must not come either.
///
/// LINUX tcp_close: an end that was killed with bytes unread resets the connection, and what waits in its send queue is lost.
pub(crate) fn is_cut(ch: &Channel, fd: usize) -> bool {
    tcp::came_at_most(fd).is_some_and(|came| is_before(came, ch))
}

/// Makes the channel the kernel's until they have come.
pub(crate) fn awaits(me: &Caller, ch: &Channel, fd: usize) {
    handback::hand_back(me, ch, fd, false, Reason::Cold);
}

/// `n` bytes are about to be put into the lane, or, less than 0, were not after all.
pub(crate) fn counts(ch: &Channel, n: i32) {
    let written = &ch.facts.0.size;
    written.store(written.load(Relaxed).wrapping_add_signed(n), Relaxed);
}

/// Whether a stream that has come to `n` is before what was ever put into the lane, of which 32 bits are known.
fn is_before(n: u64, ch: &Channel) -> bool {
    (ch.facts.0.size.load(Relaxed).wrapping_sub(n as u32) as i32) > 0
}

/// After a thread that died while it handed back, of which `out` is a descriptor of the end that writes, and `fd` one of the
/// end that reads: whether it had sent the ring's bytes.
pub(crate) fn has_sent(ch: &Channel, out: Option<usize>, fd: Option<usize>) -> bool {
    // The end of the stream counts as one.
    let received = |fd| Some((tcp::taken(fd)? + file::fionread(fd) as u64).saturating_sub(1));
    let ever = out.and_then(tcp::written).or_else(|| fd.and_then(received));
    ever.is_none_or(|n| n as u32 != ch.facts.0.size.load(Relaxed))
}
