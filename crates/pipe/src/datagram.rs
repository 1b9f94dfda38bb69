//! The inbox of a UDP socket: a ring of records, each one datagram and the name of its sender. Many write, and whoever has the
//! socket reads.
//!
//! ```text
//! record     length | process and inode of the sender | its family, port, address | the bytes | up to 8      (`HEADER`)
//! inbox      no ring --> open (`open`, by the first sender) --> the kernel's for good (`leaves`)
//! ```
//! A ring has no wake-up of its own: a sender that finds a reader asleep sends by the kernel, which wakes it. So what is in the
//! ring was put there while nobody slept, and a reader goes to sleep only where it is empty.
//!
//! Invariant: a record is published while no reader counts as asleep, by the compare-and-swap that would fail if one did. What a
//! sender put into the kernel's queue before comes first: it sets the chunk at its next record, and a reader that comes to the
//! chunk empties the queue. A sender uses the queue only while the ring has nothing of its own.
//! Not here: who receives what is sent to a name (crate sys, udp.rs), how an inbox is left (datagram/leaving.rs), the calls (preload
//! library, udp.rs).
use crate::channel::Channel;
use crate::copy::{Buffers, Iov};
use crate::lock::Patience;
use crate::policy::{Lines, Score};
use crate::ready::Sight;
use crate::reason::Reason;
use crate::ring::{Ring, SLACK};
use crate::word::{Chunk, Head, Tail};
use crate::{Caller, clusters, lock, read};
use byway_sys::tcp::Name;
use byway_sys::{clock, file, process, udp};
use core::sync::atomic::Ordering::Relaxed;

mod leaving;
pub use leaving::{ends, leaves};

/// Bytes of an inbox's ring: as much as a receive buffer of the usual size holds, and a power of two.
const RING: usize = 256 << 10;
/// So many sends in a row that each found a reader asleep make the inbox the kernel's for good.
const IN_VAIN: u32 = 256;
/// So many calls in a row of a socket, each of them the kernel's, make its inbox that too: four of them are a question and its
/// answer at one end, and its answer may come by the ring once in a while.
const BY_KERNEL: u32 = 1 << 10;
/// The same of one that has exchanged nothing with another inbox: others may come.
const ALONE: u32 = 1 << 16;

/// The sender of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sender {
    pub pid: u32,
    /// Of its socket.
    pub inode: u64,
    pub family: u16,
    pub name: Name,
}

/// What stands before a record's bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    len: u32,
    pid: u32,
    inode: u64,
    family: u16,
    port: u16,
    address: [u32; 4],
    _rest: u32,
}
pub const HEADER: usize = size_of::<Header>();
const _: () = assert!(HEADER == 40);

impl Header {
    fn of(len: usize, s: &Sender) -> Header {
        Header {
            len: len as u32,
            pid: s.pid,
            inode: s.inode,
            family: s.family,
            port: s.name.port,
            address: s.name.words(),
            _rest: 0,
        }
    }
    fn sender(&self) -> Sender {
        Sender {
            pid: self.pid,
            inode: self.inode,
            family: self.family,
            name: Name::from(self.address, self.port),
        }
    }
    fn as_buffer(&mut self) -> Iov {
        Iov {
            base: &raw mut *self as usize,
            len: HEADER,
        }
    }
}

/// Bytes of the ring that a datagram of `n` bytes takes.
fn takes(n: usize) -> u64 {
    (HEADER + n).next_multiple_of(8) as u64
}

/// What became of a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    /// It is in the ring.
    Ring,
    /// A reader sleeps, or may: the kernel's call wakes it. The ring is empty.
    Asleep,
    /// There is no room; the head was at this position.
    Full(u64),
    /// There is no ring.
    Closed,
    /// The inbox is the kernel's for good, or another's by now; or the bytes cannot be read.
    Kernels,
}

impl Channel {
    /// Whether it is the inbox of a UDP socket.
    #[inline]
    pub fn is_inbox(&self) -> bool {
        self.facts.0.holders.load(Relaxed) == crate::channel::Holders::Udp as u32
    }
}

/// Puts the `n` bytes at `at` into the inbox, as a datagram of `from`, where no handler may run. `follows`: this sender has something in the kernel's queue.
pub fn send(
    me: &Caller,
    ch: &Channel,
    at: Buffers,
    n: usize,
    from: &Sender,
    follows: bool,
) -> Sent {
    let need = takes(n);
    let mut patience = Patience::new();
    loop {
        let t = ch.tail();
        if ch.forever() {
            // What this sender has in the ring comes first.
            while !ch.tail().closed() && !patience.is_over() {
                patience.wait(me);
            }
            return Sent::Kernels;
        }
        if t.closed() {
            return Sent::Closed;
        }
        if t.sleepers() > 0 {
            return asleep(ch, t);
        }
        // Signals are held off by the caller: no handler sends, or gives the inbox up, meanwhile.
        if lock::enter(me, ch, 0, Tail::closed).is_none() {
            return Sent::Closed;
        }
        let (t, r) = (ch.tail(), ch.head().position());
        let used = t.wide(r) - r;
        let ring = ch.ring(&me.domain).filter(|ring| used <= ring.bytes());
        let sent = match ring {
            _ if ch.forever() => Sent::Kernels,
            // Not a state that any of us writes.
            None => Sent::Kernels,
            _ if t.sleepers() > 0 => asleep(ch, t),
            Some(ring) if used + need > ring.bytes() - SLACK => Sent::Full(r),
            Some(_) if !at.check(n, |p, len| (me.access)(p, len, false)) => Sent::Kernels,
            Some(ring) if !is_backed(me, ch, ring, t.wide(r), need) => Sent::Full(r),
            Some(ring) => {
                let w = t.wide(r);
                let mut header = Header::of(n, from);
                let own = [header.as_buffer()];
                // SAFETY: the header is ours, the bytes were checked; the ring's places are the owner's of the lock.
                unsafe {
                    Buffers::new(&own).to_ring(ring, w, HEADER);
                    if n > 0 {
                        at.to_ring(ring, w + HEADER as u64, n);
                    }
                }
                if follows {
                    comes_first(ch, r, w);
                }
                match ch.move_tail(t, t.plus(need as usize).with_lock(0)) {
                    Ok(()) => {
                        if ch.writer.0.lone_wakes.load(Relaxed) != 0 {
                            ch.writer.0.lone_wakes.store(0, Relaxed);
                        }
                        ch.writer.0.count(n);
                        return Sent::Ring;
                    }
                    // A reader went to sleep.
                    Err(_) => {
                        lock::unlock(me, ch);
                        continue;
                    }
                }
            }
        };
        lock::unlock(me, ch);
        return sent;
    }
}

/// Under the lock: whether the places for `need` bytes at `w` have memory.
fn is_backed(me: &Caller, ch: &Channel, ring: Ring, w: u64, need: u64) -> bool {
    clusters::back(me, ch, ring, w, need as usize) >= need as usize
}

/// Under the lock: what is in the kernel's queue by now comes before the record at `w`, where the head is `r`.
fn comes_first(ch: &Channel, r: u64, w: u64) {
    let m = ch.chunk();
    // A reader that empties the queue for the place before it looks once more, for this one is another.
    let at = if m.valid() { m.position(r).min(w) } else { w };
    ch.set_chunk(m.next(at));
}

fn asleep(ch: &Channel, t: Tail) -> Sent {
    // Of those that come while it wakes up only the first counts.
    if t.woken() || ch.cas_tail(t, t.with(Tail::WOKEN)).is_err() {
        return Sent::Asleep;
    }
    let in_vain = ch.writer.0.lone_wakes.load(Relaxed).saturating_add(1);
    ch.writer.0.lone_wakes.store(in_vain, Relaxed);
    Sent::Asleep
}

/// Whether the last sends all found a reader asleep: the ring brings nothing.
pub fn is_in_vain(ch: &Channel) -> bool {
    ch.writer.0.lone_wakes.load(Relaxed) >= IN_VAIN
}

/// Gives the inbox a ring. False: there is no memory, or it is the kernel's.
pub fn open(me: &Caller, ch: &Channel) -> bool {
    if ch.forever() {
        return false;
    }
    let Some(_taken) = lock::take(me, ch, 0, |t| !t.closed()) else {
        return true;
    };
    let r = ch.head().position();
    let has_ring = !ch.forever() && clusters::shape(me, ch, RING) && {
        let ring = ch.ring(&me.domain);
        ring.is_some_and(|ring| is_backed(me, ch, ring, r, SLACK))
    };
    match has_ring {
        true => ch.opens(r, 0),
        false => {
            clusters::give(&clusters::user(me), ch);
        }
    }
    lock::unlock(me, ch);
    has_ring
}

/// What a reader finds.
pub enum Found {
    /// A datagram: how many bytes of it were copied, how long it is, and who has sent it.
    Record(usize, usize, Sender),
    /// One that cannot be written to where it should be.
    ///
    /// LINUX udp_recvmsg: it is gone.
    Fault,
    /// What is in the kernel's queue comes first, until that is empty ([`emptied`]).
    Queue(Chunk),
    /// Nothing is in the ring.
    Nothing(Tail),
    /// It is the kernel's for good.
    Kernels,
}

/// Takes the next record into `at`, which has room for `want` bytes, or looks at it if `peeks`.
pub fn take(me: &Caller, ch: &Channel, at: Buffers, want: usize, peeks: bool) -> Found {
    let mut patience = Patience::new();
    loop {
        // E5: before the tail.
        let forever = ch.forever();
        let h = ch.head();
        let t = ch.tail();
        if t.closed() {
            return match forever && t.lock_owner() == 0 {
                true => Found::Kernels,
                false => Found::Nothing(t),
            };
        }
        if h.held() {
            // What is there is being sent on.
            if patience.wait(me) && process::is_dead(h.owner()) {
                leaves(me, ch, None, Reason::Damaged);
            }
            continue;
        }
        let m = ch.chunk();
        let (r, w) = (h.position(), t.wide(h.position()));
        if r == w {
            return Found::Nothing(t);
        }
        if m.valid() && m.position(r) == r {
            return Found::Queue(m);
        }
        let Some((ring, header)) = next(me, ch, r, w) else {
            if ch.head() == h && ch.tail() == t {
                // Not a state that any of us writes.
                leaves(me, ch, None, Reason::Damaged);
            }
            continue;
        };
        let len = header.len as usize;
        let k = len.min(want);
        let is_good = at.check(k, |p, n| (me.access)(p, n, true));
        // SAFETY: checked; what is copied counts only if nobody has taken it since.
        unsafe {
            if k > 0 && is_good {
                at.from_ring(ring, r + HEADER as u64, k, Lines::Copied, k);
            }
        }
        let moved = peeks && ch.head() == h || ch.cas_head(h, Head::free(r + takes(len)));
        if moved && !is_good {
            return Found::Fault;
        }
        if moved {
            if !peeks {
                ch.reader.0.count(len);
                goes_by_ring(ch);
                by_ring(ch, true);
            }
            return Found::Record(k, len, header.sender());
        }
    }
}

/// The header of the record at `r`, where the ring's end is `w`; `None`: there is none that makes sense.
fn next<'a>(me: &'a Caller, ch: &'a Channel, r: u64, w: u64) -> Option<(Ring<'a>, Header)> {
    let ring = ch.ring(&me.domain).filter(|ring| w - r <= ring.bytes())?;
    let mut header = Header::of(0, &Sender::default());
    let own = [header.as_buffer()];
    // SAFETY: a buffer of ours, of plain integers.
    unsafe {
        Buffers::new(&own).from_ring(ring, r, HEADER, Lines::Copied, HEADER);
    }
    let fits = header.len as usize <= udp::MOST && takes(header.len as usize) <= w - r;
    fits.then_some((ring, header))
}

/// Bytes of the next record of the inbox of `fd`; `None`: what the kernel's queue has comes before, or nothing is there.
pub fn next_len(me: &Caller, ch: &Channel, fd: usize) -> Option<usize> {
    let h = ch.head();
    let t = ch.tail();
    let (r, w, m) = (h.position(), t.wide(h.position()), ch.chunk());
    let is_queued = || file::poll1(fd, file::POLLIN, 0).1 & file::POLLIN != 0;
    // What came before may have been read by now.
    if t.closed() || r == w || m.valid() && m.position(r) == r && is_queued() {
        return None;
    }
    next(me, ch, r, w).map(|(_, header)| header.len as usize)
}

/// The socket of this inbox has sent into another's ring: whoever sends by it first asks who receives.
pub fn has_sent(ch: &Channel) -> bool {
    ch.writer.0.worth.load(Relaxed) != 0
}

/// It does now.
pub fn sends_by_ring(ch: &Channel) {
    goes_by_ring(ch);
    if !has_sent(ch) {
        ch.writer.0.worth.store(1, Relaxed);
    }
}

/// A descriptor of the inbox's socket was closed, and it may have been the last: whoever sends to it asks whether there is one.
pub fn may_be_gone(ch: &Channel) {
    ch.facts.0.left.fetch_add(1, Relaxed);
}

/// How often that was so.
pub fn closes(ch: &Channel) -> u32 {
    ch.facts.0.left.load(Relaxed)
}

/// The socket of this inbox sends by the kernel's queue, by whichever descriptor and in whichever process.
pub fn sends_by_kernel(ch: &Channel) {
    ch.writer.0.native_ops.fetch_add(1, Relaxed);
}

/// How often it has.
pub fn kernel_sends(ch: &Channel) -> u64 {
    ch.writer.0.native_ops.load(Relaxed)
}

/// A call on the socket of this inbox was the kernel's. Whether that is so of all by now: it is to be left.
pub fn goes_by_kernel(ch: &Channel) -> bool {
    let calls = &ch.writer.0.since;
    let n = calls.load(Relaxed).saturating_add(1);
    calls.store(n, Relaxed);
    let most = match ch.tail().closed() && !has_sent(ch) {
        true => ALONE,
        false => BY_KERNEL,
    };
    n >= most
}

/// One was a ring's.
fn goes_by_ring(ch: &Channel) {
    let calls = &ch.writer.0.since;
    if calls.load(Relaxed) != 0 {
        calls.store(0, Relaxed);
    }
}

/// Waits until the ring is empty, before a send that only the kernel can make. False: that takes long.
pub fn awaits_empty(me: &Caller, ch: &Channel) -> bool {
    let mut patience = Patience::new();
    let is_empty = || {
        let h = ch.head();
        let t = ch.tail();
        t.closed() || t.wide(h.position()) == h.position()
    };
    while !is_empty() && !patience.is_over() {
        patience.wait(me);
    }
    is_empty()
}

/// The last datagram came by the ring, or by the kernel's queue.
pub fn by_ring(ch: &Channel, yes: bool) {
    let last = &ch.facts.0.lane;
    if last.load(Relaxed) != u32::from(yes) {
        last.store(u32::from(yes), Relaxed);
    }
}

/// How a reader that found nothing waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// Awake: the next one is to be expected in the ring.
    Awake,
    /// The same, once the kernel's queue is seen empty.
    QueueFirst,
    /// By the kernel's call.
    Asleep,
}

pub fn waits(ch: &Channel) -> Waits {
    let history = &ch.reader.0.history;
    if ch.facts.0.lane.load(Relaxed) != 0 {
        return Waits::Awake;
    }
    if !Score::load(history).pays() {
        if !Score::is_tried_again(clock::now()) {
            return Waits::Asleep;
        }
        // The wait itself goes by this score.
        Score::PAYS.store(history);
    }
    Waits::QueueFirst
}

/// Whether a call that waits for the inbox of `fd` alone may wait awake first.
pub fn may_wait_awake(ch: &Channel, fd: usize) -> bool {
    match waits(ch) {
        Waits::Awake => true,
        Waits::QueueFirst => file::poll1(fd, file::POLLIN, 0).1 == 0,
        Waits::Asleep => false,
    }
}

/// The kernel's queue was found empty, at the place `m`.
pub fn emptied(ch: &Channel, m: Chunk) {
    ch.clear_chunk(m);
}

/// A reader counts as asleep from now on, if the tail is `t` still, where it found nothing. Whether it is to be disarmed;
/// `None`: the tail is another.
pub fn arm(ch: &Channel, t: Tail) -> Option<bool> {
    if t.sleepers() == Tail::MOST {
        // Nobody puts anything into the ring any more.
        ch.keep_closed();
        return Some(false);
    }
    ch.cas_tail(t, t.sleeper_added()).ok().map(|()| true)
}

/// Arms a reader that waits for several; as `ready::arm` says.
pub(crate) fn arm_to_wait(ch: &Channel) -> Sight {
    loop {
        let forever = ch.forever();
        let (h, t) = (ch.head(), ch.tail());
        if t.closed() && forever || t.sleepers() == Tail::MOST {
            ch.keep_closed();
            return Sight::Kernels;
        }
        if !t.closed() && t.wide(h.position()) != h.position() {
            return Sight::Bytes;
        }
        if arm(ch, t).is_some() {
            return Sight::Armed;
        }
    }
}

/// It does no longer.
pub fn disarm(ch: &Channel) {
    read::awake(ch, read::Armed::NOT);
}
