//! fd -> plain, or the channels of its object; filled on first use by asking the kernel.
//!
//! Invariant: an entry says what the fd is now: it is cleared before every close or dup2 that this process makes, and
//! set only from an fstat(2) of the fd itself that no close overlaps. The table is private memory, so a fork's child has
//! its own.
//! Not here: channels' state. Lookup takes no lock.
use crate::{attach, cold, family, fifo, message, sets};
use byway_mem::domain::Domain;
use byway_mem::layout::CHANNELS_MOST;
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_pipe::{peer, socket};
use byway_sys::file::{self, Ident};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

pub const FDS: usize = 65536;
const UNKNOWN: u32 = 0;
const PLAIN: u32 = 1;
// Else four times the channel's slot, plus two, plus the access mode. The entry code counts on that: the slot plus one,
// which is the channel's number (crate pipe, biased_lock.rs), is such an entry plus two, over four.

/// Nothing is known yet, and somebody asks: then how many closes there were.
const ASKING: u32 = 1 << 29;

/// A connected socket: then the slot that it reads from, or `NO_SLOT`, and the one that it writes to.
const SOCKET: u32 = 1 << 30;
const SLOTS: u32 = 15;
/// It is not known yet: the end is unmatched (crate pipe, peer.rs).
const NO_SLOT: u32 = (1 << SLOTS) - 1;
const _: () = assert!(CHANNELS_MOST < 1 << SLOTS);

/// An end of a connection with a name that has no channel yet: then what cold.rs knows of it.
pub const COLD: u32 = SOCKET | NO_SLOT;
pub const COLD_FROM: u32 = SLOTS;

/// An epoll set that this process has made, or one that it has come from by fork: then the generation, whether it is
/// mixed, and its list.
const SET: u32 = 1 << 31;
const MIXED: u32 = 1 << 15;

/// What the table knows of an epoll set.
#[derive(Clone, Copy)]
pub struct Set {
    /// Its place in `set_lock.rs`.
    pub list: usize,
    /// Whether it has had a registration that is in no list.
    pub mixed: bool,
    /// Of `family.rs`.
    pub generation: u32,
}
const _: () = assert!(family::MOST == 1 << 15);

/// On one page with the first entries: after a fork the first store into a page copies it.
#[repr(C)]
pub struct Table {
    /// Moves with every close, so that a lookup that overlaps one is not kept.
    closes: AtomicU32,
    entries: [AtomicU32; FDS],
}
pub static ALL: Table = Table {
    closes: AtomicU32::new(0),
    entries: [const { AtomicU32::new(UNKNOWN) }; FDS],
};
const CLOSES: &AtomicU32 = &ALL.closes;
const TABLE: &[AtomicU32; FDS] = &ALL.entries;

/// For the entry code.
pub const ENTRIES_AT: usize = core::mem::offset_of!(Table, entries);

/// What a carried descriptor reads from and writes to: channel slots, of a pipe at most one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    pub reads: Option<usize>,
    pub writes: Option<usize>,
    pub is_socket: bool,
}

impl Endpoint {
    fn of(e: u32) -> Option<Endpoint> {
        if e & SET != 0 || e <= PLAIN || is_cold(e) {
            return None;
        }
        if e & SOCKET != 0 {
            let slot = |e: u32| Some((e & NO_SLOT) as usize).filter(|i| *i != NO_SLOT as usize);
            return Some(Endpoint::of_slots(slot(e >> SLOTS), slot(e)));
        }
        let (slot, mode) = ((e as usize - 2) / 4, (e - 2) % 4);
        Some(Endpoint {
            reads: (mode != 1).then_some(slot),
            writes: (mode == 1 || mode == 2).then_some(slot),
            is_socket: false,
        })
    }
    /// That of a socket.
    fn of_slots(reads: Option<usize>, writes: Option<usize>) -> Endpoint {
        Endpoint {
            reads,
            writes,
            is_socket: true,
        }
    }
    fn code(self) -> u32 {
        let Endpoint { reads, writes, .. } = self;
        let slot = reads.or(writes).unwrap_or_default() as u32;
        match (self.is_socket, reads.is_some(), writes) {
            (true, _, _) => {
                let [reads, writes] = [reads, writes].map(|i| i.map_or(NO_SLOT, |i| i as u32));
                SOCKET | reads << SLOTS | writes
            }
            (false, true, None) => slot * 4 + 2,
            (false, false, _) => slot * 4 + 3,
            (false, true, Some(_)) => slot * 4 + 4,
        }
    }
    /// Whether it is that of a UDP socket with an inbox.
    pub fn is_inbox(self) -> bool {
        self.is_socket && self.reads.is_some() && self.reads == self.writes
    }
    /// Of a socket that does not know its other end: the slot that it writes to.
    pub fn unmatched(self) -> Option<usize> {
        self.writes
            .filter(|_| self.is_socket && self.reads.is_none())
    }
    /// The one that it writes to, or reads from.
    pub fn side(self, writes: bool) -> Option<usize> {
        if writes { self.writes } else { self.reads }
    }
    /// Each of them.
    pub fn slots(self) -> impl Iterator<Item = usize> {
        let second = self
            .writes
            .filter(|_| (self.is_socket || self.reads.is_none()) && self.writes != self.reads);
        self.reads.into_iter().chain(second)
    }
}

/// What `fd` reads from and writes to, if it is carried.
pub fn endpoint(fd: usize) -> Option<Endpoint> {
    let fd = fd as u32 as usize;
    match entry(fd) {
        UNKNOWN => ask(fd),
        SET.. => {
            // By a call that is none of those that sets are known to have.
            sets::leaves(fd);
            None
        }
        e if is_cold(e) => {
            cold::warms(fd);
            known_endpoint(fd)
        }
        e => now(fd, e),
    }
}

/// Whether entry `e` is that of a cold end.
pub fn is_cold(e: u32) -> bool {
    e & (SET | COLD) == COLD
}

/// The entry of `fd` becomes what `to` says of it: what it was; `None`: it is not changed.
pub fn change(fd: usize, to: impl FnMut(u32) -> Option<u32>) -> Option<u32> {
    let entry = TABLE.get(fd as u32 as usize)?;
    // ORDER: of calls on a cold end, and of the end's channel, each finds the other (cold.rs).
    entry.fetch_update(SeqCst, SeqCst, to).ok()
}

/// The entry of an unmatched end that writes to the channel in slot `i`; `None`: of a descriptor that is not carried.
pub fn unmatched_entry(i: Option<usize>) -> u32 {
    i.map_or(PLAIN, |i| Endpoint::of_slots(None, Some(i)).code())
}

/// The entry of a UDP socket that has its inbox in slot `i`, as what it reads and as what it is known by when it sends.
pub fn inbox_entry(i: usize) -> u32 {
    Endpoint::of_slots(Some(i), Some(i)).code()
}

/// The same, as far as it is known already.
pub fn known_endpoint(fd: usize) -> Option<Endpoint> {
    now(fd as u32 as usize, entry(fd))
}

/// What the entry `e` of `fd` says. An end that was unmatched may be matched by now.
fn now(fd: usize, e: u32) -> Option<Endpoint> {
    let end = Endpoint::of(e)?;
    let Some(i) = end.unmatched() else {
        return Some(end);
    };
    let d = attach::domain()?;
    let ch = Channel::at(d, i)?;
    let both = Endpoint::of_slots(peer::reads(d, ch), Some(i));
    if both != end
        && TABLE[fd]
            .compare_exchange(e, both.code(), Relaxed, Relaxed)
            .is_ok()
    {
        name(both);
    }
    Some(both)
}

/// Of a socket that is known not to know its other end: the slot that it writes to.
pub fn unmatched(fd: usize) -> Option<usize> {
    known_endpoint(fd)?.unmatched()
}

/// The channel slot behind `fd`, if it is a carried pipe; of a matched socket the one that it reads from.
pub fn channel(fd: usize) -> Option<usize> {
    let end = endpoint(fd)?;
    end.reads.or(end.writes.filter(|_| !end.is_socket))
}

/// Whether `fd` is known to be a carried socket.
pub fn is_socket(fd: usize) -> bool {
    known_endpoint(fd).is_some_and(|e| e.is_socket)
}

/// What the table says of `fd`.
pub fn entry(fd: usize) -> u32 {
    TABLE
        .get(fd as u32 as usize)
        .map(|e| e.load(Relaxed))
        .filter(|e| !is_asking(*e))
        .unwrap_or(UNKNOWN)
}

fn is_asking(e: u32) -> bool {
    e & (SET | SOCKET | ASKING) == ASKING
}

/// The kernel is asked what a descriptor is, of which nothing is known. Who closes it takes the lookup away, so what the
/// kernel has said of a file before is not kept of the next one.
#[derive(Clone, Copy)]
pub struct Lookup {
    fd: usize,
    asking: u32,
}

impl Lookup {
    /// Before the kernel is asked; `None`: something is known. A lookup that is under way, or was left, ends.
    pub fn begin(fd: usize) -> Option<Lookup> {
        let asking = ASKING | CLOSES.load(Relaxed) & (ASKING - 1);
        let e = TABLE.get(fd)?;
        let begins = |e| (e == UNKNOWN || is_asking(e)).then_some(asking);
        e.fetch_update(Relaxed, Relaxed, begins).ok()?;
        Some(Lookup { fd, asking })
    }

    fn keep(self, found: Option<Endpoint>) {
        let code = found.map_or(PLAIN, Endpoint::code);
        let _ = TABLE[self.fd].compare_exchange(self.asking, code, Relaxed, Relaxed);
    }

    /// It is no pipe and no socket.
    pub fn is_plain(self) {
        self.keep(None);
    }
}

/// What is known of the epoll set behind `fd`.
pub fn set(fd: usize) -> Option<Set> {
    let e = entry(fd);
    (e >= SET).then_some(Set {
        list: (e & (MIXED - 1)) as usize,
        mixed: e & MIXED != 0,
        generation: e >> 16 & (family::MOST - 1),
    })
}

/// `fd` is an epoll set that this process has made; `None`: that is not to be known.
pub fn set_made(fd: usize, set: Option<Set>) {
    let code = |s: Set| {
        let mixed = if s.mixed { MIXED } else { 0 };
        SET | s.generation << 16 | mixed | s.list as u32
    };
    if let Some(e) = TABLE.get(fd) {
        e.store(set.map_or(PLAIN, code), Relaxed);
    }
}

/// The set behind `fd` has a registration that is in no list.
pub fn set_mixed(fd: usize) {
    if let (Some(_), Some(e)) = (set(fd), TABLE.get(fd as u32 as usize)) {
        let _ = e.fetch_update(Relaxed, Relaxed, |e| {
            (e >= SET && e & MIXED == 0).then_some(e | MIXED)
        });
    }
}

/// From now on nothing is known of the set behind `fd`.
pub fn set_plain(fd: usize) {
    if let (Some(_), Some(e)) = (set(fd), TABLE.get(fd as u32 as usize)) {
        let _ = e.fetch_update(Relaxed, Relaxed, |e| (e >= SET).then_some(PLAIN));
    }
}

/// Whether the table has channels, or a cold end, for `fd`.
pub fn is_carried(fd: usize) -> bool {
    (PLAIN + 1..SET).contains(&entry(fd))
}

/// Whether nothing is known of `fd` yet.
pub fn is_unknown(fd: usize) -> bool {
    entry(fd) == UNKNOWN
}

/// Whether `fd` is known to be no carried pipe.
pub fn is_plain(fd: usize) -> bool {
    entry(fd) == PLAIN
}

/// As [`channel`], as far as that is known already.
pub fn known(fd: usize) -> Option<usize> {
    let end = known_endpoint(fd)?;
    end.reads.or(end.writes.filter(|_| !end.is_socket))
}

/// Whether the channel of carried `fd` tells what it may read, or has room to write. A socket's room is the kernel's to
/// tell: its ring is never full.
pub fn fits(fd: usize, writes: bool) -> bool {
    match known_endpoint(fd) {
        Some(e) => e.side(writes).is_some() && !(e.is_socket && writes),
        None => file::access_mode(fd).is_some_and(|mode| mode == 2 || (mode == 1) == writes),
    }
}

/// The channel slot of the pipe behind `fd`, if that is known already and `fd` is open for writing.
pub fn known_writer(fd: usize) -> Option<usize> {
    known_endpoint(fd)
        .filter(|e| !e.is_socket)
        .and_then(|e| e.writes)
}

/// As [`endpoint`], from the kernel alone: for a vfork child, whose descriptors are not the table's.
pub fn ask_kernel(fd: usize) -> Option<Endpoint> {
    let id = file::identity(fd)?;
    let d = attach::domain()?;
    if id.is_socket {
        return connected(&d, id);
    }
    let mode = file::access_mode(fd).filter(|_| id.fifo)?;
    let i = registry::find(d, id.dev, id.ino)?;
    let i = match Channel::at(d, i)?.is_fifo() {
        true => fifo::find(fd, i),
        false => i,
    };
    Some(pipe(mode, i))
}

/// The endpoint of a pipe with the channel slot `i`, open in that mode.
fn pipe(mode: usize, i: usize) -> Endpoint {
    Endpoint {
        reads: (mode != 1).then_some(i),
        writes: (mode == 1 || mode == 2).then_some(i),
        is_socket: false,
    }
}

/// The endpoint of a socket that has channels.
fn connected(d: &Domain, id: Ident) -> Option<Endpoint> {
    let writes = registry::find(*d, id.dev, id.ino)?;
    let ch = Channel::at(*d, writes).filter(|ch| ch.is_socket())?;
    if ch.is_inbox() {
        return Some(Endpoint::of_slots(Some(writes), Some(writes)));
    }
    Some(Endpoint::of_slots(peer::reads(*d, ch), Some(writes)))
}

fn ask(fd: usize) -> Option<Endpoint> {
    let asked = Lookup::begin(fd);
    let id = file::identity(fd)?;
    let d = attach::domain()?;
    let keep = |found| {
        if let Some(asked) = asked {
            asked.keep(found);
        }
    };
    let mode = id.fifo.then(|| file::access_mode(fd)).flatten();
    let known = mode.and_then(|_| registry::find(d, id.dev, id.ino));
    let named = mode.filter(|_| {
        known
            .and_then(|i| Channel::at(d, i))
            .map_or_else(|| !file::is_nameless(fd), Channel::is_fifo)
    });
    let found = if let Some(mode) = named {
        fifo::channel(fd, id, |i| keep(Some(pipe(mode, i)))).map(|i| pipe(mode, i))
    } else {
        let found = match id.is_socket {
            true => connected(&d, id),
            false => known.zip(mode).map(|(i, mode)| pipe(mode, i)),
        };
        keep(found);
        found
    };
    if let Some(end) = found {
        name(end);
        if end.is_socket {
            message::uses();
        }
    }
    found
}

/// Writes this program's name to its side of the channels, for `--explain`.
fn name(end: Endpoint) {
    for i in end.slots() {
        if let Some(ch) = attach::domain().and_then(|d| Channel::at(d, i)) {
            let writes = end.writes == Some(i) && !ch.is_inbox();
            ch.used_by(byway_sys::process::name(), writes);
        }
    }
}

/// From now on `fd`, whose channels have gone to the kernel for good, is plain: its calls cost what those of any other
/// descriptor do. False: that is so of one of two channels only.
pub fn leave(fd: usize, i: usize) -> bool {
    let before = CLOSES.load(Relaxed);
    let Some(e) = TABLE.get(fd as u32 as usize) else {
        return false;
    };
    let now = entry(fd);
    let left = Endpoint::of(now).is_some_and(|end| {
        let for_good = |i: usize| {
            let ch = attach::domain().and_then(|d| Channel::at(d, i));
            ch.is_some_and(|ch| match end.unmatched() {
                Some(_) => peer::is_kernels(ch),
                // A reset is not told by the kernel.
                None => ch.is_kernels() && !ch.is_fifo() && !socket::is_reset_kept(ch),
            })
        };
        end.slots().any(|s| s == i) && end.slots().all(for_good)
    });
    // Not one that another thread has closed and opened again meanwhile.
    let same = || CLOSES.load(Relaxed) == before;
    left && same() && e.compare_exchange(now, PLAIN, Relaxed, Relaxed).is_ok()
}

/// How many descriptors this process has closed.
pub fn closes() -> u32 {
    CLOSES.load(Relaxed)
}

/// Forgets `fd`; true unless it was known to be plain, or cold.
pub fn forget(fd: usize) -> bool {
    CLOSES.fetch_add(1, Relaxed);
    let was = TABLE
        .get(fd as u32 as usize)
        .map_or(UNKNOWN, |e| e.swap(UNKNOWN, Relaxed));
    was != PLAIN && !is_cold(was)
}

/// The descriptors from `first` to `last` have been closed: what a lookup has found since they were forgotten is of the old
/// files. What is known of a new one is found again; sets and cold ends are not, and no lookup finds those.
pub fn closed(first: usize, last: usize) {
    CLOSES.fetch_add(1, Relaxed);
    let found = |e| (e != UNKNOWN && e < SET && !is_cold(e)).then_some(UNKNOWN);
    for e in TABLE.iter().take(last.saturating_add(1)).skip(first) {
        let _ = e.fetch_update(Relaxed, Relaxed, found);
    }
}

/// `fd` is a socket with no channel, and new, or was before a call that began after `before` closes. Where another thread has
/// closed something since, it may be another file's by now: then nothing is known of it.
pub fn is_new(fd: usize, before: u32) {
    let same = CLOSES.load(Relaxed) == before;
    forget(fd);
    if let Some(e) = TABLE.get(fd).filter(|_| same) {
        e.store(PLAIN, Relaxed);
    }
}

/// Forgets every fd from `first` to `last`; true if one was a carried pipe.
pub fn forget_range(first: usize, last: usize) -> bool {
    let mut any = false;
    for fd in first..=last.min(FDS - 1) {
        if TABLE[fd].load(Relaxed) != UNKNOWN {
            any |= forget(fd);
        }
    }
    any
}
