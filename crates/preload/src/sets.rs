//! The epoll sets that this process has made, with the carried pipes in each: epoll_ctl(2).
//!
//! A set stays the kernel's, and so does every registration in it. Here are the pipes of which the kernel
//! alone would not tell all: they are armed while a call waits for the set (set_wait.rs).
//! Invariant: a carried pipe is in a set only if the set is known here, by one number and in this process alone, and has
//! the pipe on its list. Where that ends (dup, fork, exec, a set in a set, a set that is polled or passed on, edges,
//! one-shots), the pipes of the set are handed back for good, before the call that ends it.
//! unsafe: each list is under its own lock; reads what the arguments point to, once the kernel says that it can be read.
//! Not here: waiting.
use crate::entry::{DONE, Frame, RUN};
use crate::{access, asked, exec, family, fdtable, io, tls};
use byway_pipe::channel::Channel;
use byway_pipe::lock::Patience;
use byway_pipe::read::Armed;
use byway_pipe::ready::{self, Sight};
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, handback};
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::signal::Held;
use byway_sys::syscall::{call6, nr};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

/// Sets with carried pipes, and carried pipes of one: a wait arms each of them. What is more is handed back.
const SETS: usize = 16;
pub const MOST: usize = 64;

const ADD: usize = 1;
const DEL: usize = 2;
const MOD: usize = 3;
/// EPOLLEXCLUSIVE, EPOLLONESHOT, EPOLLET: not by level, or of several sets.
const NOT_CARRIED: u32 = 1 << 28 | 1 << 30 | 1 << 31;

/// A registration of a carried pipe.
#[derive(Clone, Copy)]
pub struct Entry {
    pub fd: u32,
    pub slot: u32,
    /// Of what is asked, that which the end can have.
    pub events: u32,
    pub data: u64,
    /// Whether a call that waits counts as a reader of it that sleeps.
    pub armed: bool,
}

impl Entry {
    /// The bits of `bits` that are asked for.
    pub fn asks(&self, bits: i16) -> u32 {
        self.events & u32::from(bits as u16)
    }
}

/// A set's list, and who waits for the set.
pub struct List {
    entries: [Entry; MOST],
    n: usize,
    /// The set's descriptor plus one; 0: nobody has this place.
    pub fd: u32,
    /// The thread that waits.
    pub waiter: u32,
    /// Moves with every set that has the place.
    pub life: u32,
    /// Where the next answer begins, so that each has its turn.
    pub first: usize,
}

struct Set {
    owner: AtomicU32,
    list: UnsafeCell<List>,
}
// SAFETY: the list is reached under `owner` alone.
unsafe impl Sync for Set {}

const NONE: Entry = Entry {
    fd: 0,
    slot: 0,
    events: 0,
    data: 0,
    armed: false,
};
static ALL: [Set; SETS] = [const {
    Set {
        owner: AtomicU32::new(0),
        list: UnsafeCell::new(List {
            entries: [NONE; MOST],
            n: 0,
            fd: 0,
            waiter: 0,
            life: 0,
            first: 0,
        }),
    }
}; SETS];

/// A bit for each descriptor that has been on a list since it was opened.
static LISTED: [AtomicU64; fdtable::FDS / 64] = [const { AtomicU64::new(0) }; fdtable::FDS / 64];

/// A list under its lock, with signals held off where a handler could come over it.
pub struct Locked {
    set: &'static Set,
    _signals: Option<Held>,
}

impl Drop for Locked {
    fn drop(&mut self) {
        // ORDER: what was stored in the list comes before the next owner's look.
        self.set.owner.store(0, Release);
    }
}

impl core::ops::Deref for Locked {
    type Target = List;
    fn deref(&self) -> &List {
        // SAFETY: the lock is this value's.
        unsafe { &*self.set.list.get() }
    }
}

impl core::ops::DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut List {
        // SAFETY: as above.
        unsafe { &mut *self.set.list.get() }
    }
}

/// The list at place `i`, for thread `me`.
pub fn lock(me: &Caller, i: usize) -> Option<Locked> {
    let set = ALL.get(i)?;
    let signals = me.hold_signals();
    let mut patience = Patience::new();
    // ORDER: what the owner before has stored is seen.
    while set
        .owner
        .compare_exchange(0, me.tid, Acquire, Relaxed)
        .is_err()
    {
        patience.wait(me.cpus);
    }
    Some(Locked {
        set,
        _signals: signals,
    })
}

impl List {
    pub fn entries(&mut self) -> &mut [Entry] {
        &mut self.entries[..self.n]
    }

    fn place(&self, fd: usize) -> Option<usize> {
        self.entries[..self.n]
            .iter()
            .position(|e| e.fd == fd as u32)
    }

    fn remove(&mut self, me: &Caller, k: usize) {
        self.disarm(me, k);
        self.n -= 1;
        self.entries[k] = self.entries[self.n];
    }

    /// Arms entry `k`, if it asks for something to read. False: there is something.
    pub fn arm(&mut self, me: &Caller, k: usize) -> bool {
        let e = self.entries[k];
        // A pipe that is in the set by two numbers is armed once.
        let has = |o: &Entry| o.armed && o.slot == e.slot;
        if e.asks(asked::IN) == 0 || self.entries[..self.n].iter().any(has) {
            return true;
        }
        let Some(ch) = Channel::at(me.domain, e.slot as usize) else {
            return true;
        };
        let sight = ready::arm(me, ch, e.fd as usize, &mut { Armed::NOT });
        self.entries[k].armed = sight == Sight::Armed;
        sight != Sight::Bytes
    }

    /// Hands the pipe of entry `k` back until its traffic pays again: so the kernel tells of it.
    pub fn leave_to_kernel(&mut self, me: &Caller, k: usize) {
        let e = self.entries[k];
        if let Some(ch) = Channel::at(me.domain, e.slot as usize) {
            handback::hand_back(me, ch, e.fd as usize, false, Reason::Readiness);
        }
    }

    fn disarm(&mut self, me: &Caller, k: usize) {
        let e = &mut self.entries[k];
        if core::mem::take(&mut e.armed)
            && let Some(ch) = Channel::at(me.domain, e.slot as usize)
        {
            ready::disarm(me, ch);
        }
    }

    pub fn disarm_all(&mut self, me: &Caller) {
        (0..self.n).for_each(|k| self.disarm(me, k));
    }

    /// The pipes of the set are the kernel's from now on, and the set with them.
    pub fn give_up(&mut self, me: &Caller) {
        while self.n > 0 {
            let e = self.entries[self.n - 1];
            self.remove(me, self.n - 1);
            // Of what a child inherits it may have closed some.
            if fdtable::channel(e.fd as usize) == Some(e.slot as usize) {
                exec::give_up(e.fd as usize, Reason::Readiness, false);
            }
        }
        fdtable::set_plain(self.fd as usize - 1);
        self.leave();
    }

    fn leave(&mut self) {
        (self.n, self.fd, self.waiter) = (0, 0, 0);
        self.life = self.life.wrapping_add(1);
    }

    /// The changes of epoll_ctl(2), once the kernel has made them.
    fn put(&mut self, me: &Caller, k: Option<usize>, e: Entry) {
        let k = match k {
            Some(k) => {
                self.disarm(me, k);
                k
            }
            None => {
                LISTED[e.fd as usize / 64].fetch_or(1 << (e.fd % 64), Relaxed);
                self.n += 1;
                self.n - 1
            }
        };
        self.entries[k] = e;
        if self.waiter != 0 && (hidden(me, &e) != 0 || !self.arm(me, k)) {
            // Another thread sleeps, and the kernel is to tell it.
            self.leave_to_kernel(me, k);
            self.arm(me, k);
        }
    }
}

/// What is true of entry `e` and asked for, and what the kernel does not tell of its descriptor. A writer without room
/// finds its kernel lane full afterwards, so that the kernel does not tell of room either.
pub fn hidden(me: &Caller, e: &Entry) -> u32 {
    let Some(ch) = Channel::at(me.domain, e.slot as usize).filter(|ch| !ch.is_kernels()) else {
        return 0;
    };
    let fd = e.fd as usize;
    let mut bits = 0;
    if e.asks(asked::IN) != 0 && ready::is_hidden(ch, fd) {
        bits |= e.asks(asked::IN);
    }
    if e.asks(asked::OUT) != 0
        && (ready::is_writable(me, ch, fd) || !ready::arm_writer(me, ch, fd))
        && !file::is_writable(fd)
    {
        bits |= e.asks(asked::OUT);
    }
    bits
}

/// The caller and the list of set `fd`, if that has carried pipes.
pub fn listed(fd: usize) -> Option<(Caller, usize)> {
    let i = owned(fd)??;
    Some((io::me()?, i))
}

/// The list of set `fd`, if this process has made the set and has it for itself.
fn owned(fd: usize) -> Option<Option<usize>> {
    let set = fdtable::set(fd)?;
    if family::is_ours(set) {
        return Some(set.list);
    }
    // Another process uses a set of this one, or this one another's.
    let me = io::me()?;
    if family::is_inherited(set) {
        family::tell(&me);
    }
    for i in 0..SETS {
        if let Some(mut list) = lock(&me, i).filter(|l| l.fd != 0) {
            list.give_up(&me);
        }
    }
    family::ends(&me);
    fdtable::set_plain(fd);
    None
}

/// epoll_create(2).
pub fn creates(f: &mut Frame) -> u32 {
    // SAFETY: the caller's own call; it has no pointer.
    f.result = unsafe { call6(f.nr, f.args[0], 0, 0, 0, 0, 0) };
    if !failed(f.result)
        && let Some(me) = io::me()
    {
        fdtable::forget(f.result as usize);
        fdtable::set_made(f.result as usize, family::made(&me));
    }
    DONE
}

/// epoll_ctl(2).
pub fn changes(f: &mut Frame) -> u32 {
    let [set, op, fd, at, ..] = f.args;
    leaves(fd);
    let op = op as u32 as usize;
    tls::get().polled.fd.set(0);
    let Some(slot) = fdtable::channel(fd) else {
        fdtable::set_mixed(set);
        return RUN;
    };
    let listed = listed(set);
    if op == DEL {
        if let Some((me, i)) = listed
            && let Some(mut list) = lock(&me, i)
            && let Some(k) = list.place(fd)
        {
            list.remove(&me, k);
        }
        return RUN;
    }
    match carries(f, listed, slot, op, at) {
        Some(r) => {
            f.result = r;
            DONE
        }
        None => {
            fdtable::set_mixed(set);
            exec::give_up(fd, Reason::Readiness, false);
            RUN
        }
    }
}

/// ADD and MOD of a carried pipe; `None`: it is not carried in this set.
fn carries(
    f: &Frame,
    listed: Option<(Caller, usize)>,
    slot: usize,
    op: usize,
    at: usize,
) -> Option<isize> {
    let [set, _, fd, ..] = f.args;
    let [reads, writes] = [false, true].map(|writes| fdtable::fits(fd, writes));
    if !matches!(op, ADD | MOD) || (reads && writes) || !access::allowed(at, 12, false) {
        return None;
    }
    // SAFETY: asked for; struct epoll_event is events and data, without a gap.
    let (events, data) = unsafe {
        (
            (at as *const u32).read_unaligned(),
            ((at + 4) as *const u64).read_unaligned(),
        )
    };
    let (me, i) = listed.or_else(|| makes_list(set))?;
    let mut list = lock(&me, i)?;
    let k = list.place(fd);
    let fits = events & NOT_CARRIED == 0 && (k.is_some() || list.n < MOST);
    if !fits || k.is_none() && op == MOD || list.fd != set as u32 + 1 {
        if let Some(k) = k {
            list.remove(&me, k);
        }
        return None;
    }
    // SAFETY: the caller's own call; the kernel checks the address.
    let r = unsafe { call6(nr::EPOLL_CTL, set, op, fd, at, 0, 0) };
    if !failed(r) {
        let entry = Entry {
            fd: fd as u32,
            slot: slot as u32,
            // LINUX pipe_poll: a write end is never readable, and a read end never writable, whatever is asked.
            events: events & u32::from(if reads { asked::IN } else { asked::OUT } as u16),
            data,
            armed: false,
        };
        list.put(&me, k, entry);
    }
    Some(r)
}

/// A list for set `fd`, which has none yet.
fn makes_list(fd: usize) -> Option<(Caller, usize)> {
    if owned(fd)?.is_some() {
        return None;
    }
    let me = io::me()?;
    for i in 0..SETS {
        let mut list = lock(&me, i)?;
        if list.fd == 0 {
            let set = fdtable::set(fd)?;
            list.fd = fd as u32 + 1;
            let set = fdtable::Set {
                list: Some(i),
                ..set
            };
            fdtable::set_made(fd, Some(set));
            return Some((me, i));
        }
    }
    None
}

/// Set `fd`, if it is one, is about to be reached in another way than by its number and these calls.
pub fn leaves(fd: usize) {
    if fdtable::set(fd).is_none() {
        return;
    }
    match (owned(fd), io::me()) {
        (Some(Some(i)), Some(me)) => {
            if let Some(mut list) = lock(&me, i).filter(|l| l.fd == fd as u32 + 1) {
                list.give_up(&me);
            }
        }
        _ => fdtable::set_plain(fd),
    }
}

/// `fd` is about to be closed. A set's list goes. A pipe that is in a set, and was not taken out of it, is told of on if
/// somebody else has it.
///
/// LINUX epoll(7), Q6: the registration ends with the last descriptor of the open file.
pub fn closes(fd: usize) {
    if let Some(set) = fdtable::set(fd) {
        if let (Some(i), Some(me)) = (set.list, io::me())
            && let Some(mut list) = lock(&me, i).filter(|l| l.fd == fd as u32 + 1)
        {
            list.disarm_all(&me);
            list.leave();
        }
        return;
    }
    let fd = fd as u32 as usize;
    let bit = 1 << (fd % 64);
    let listed = LISTED.get(fd / 64).filter(|w| w.load(Relaxed) & bit != 0);
    let (Some(word), Some(me)) = (listed, io::me()) else {
        return;
    };
    word.fetch_and(!bit, Relaxed);
    let mut has = false;
    for i in 0..SETS {
        // What a child closes its parent has on: there it stays on the list.
        let ours =
            |l: &Locked| l.fd != 0 && fdtable::set(l.fd as usize - 1).is_some_and(family::is_ours);
        let Some(mut list) = lock(&me, i).filter(ours) else {
            continue;
        };
        if let Some(k) = list.place(fd) {
            list.remove(&me, k);
            has = true;
        }
    }
    if has {
        exec::give_up(fd, Reason::Readiness, false);
    }
}

/// As [`closes`], of the numbers from `first` to `last`.
pub fn closes_all(first: usize, last: usize) {
    if family::has_sets() {
        (first..=last.min(fdtable::FDS - 1))
            .filter(|fd| fdtable::entry(*fd) > 1)
            .for_each(closes);
    }
}

/// A forked child begins, with one thread: the sets are its parent's.
pub fn enter_child() {
    if !family::has_sets() {
        return;
    }
    family::enter_child();
    for set in &ALL {
        set.owner.store(0, Relaxed);
        // SAFETY: nobody else is there.
        let list = unsafe { &mut *set.list.get() };
        list.waiter = 0;
        list.entries.iter_mut().for_each(|e| e.armed = false);
    }
}

/// Before an exec that set `fd` survives: the new image knows it by its number alone.
pub fn leave_image(fd: usize, set: fdtable::Set) {
    let Some(me) = io::me() else { return };
    if let Some(mut list) = set
        .list
        .and_then(|i| lock(&me, i))
        .filter(|l| l.fd == fd as u32 + 1)
    {
        // A vfork child's descriptors are not the table's, and the list is its parent's.
        for e in list.entries() {
            if fdtable::ask_kernel(e.fd as usize) == Some(e.slot as usize) {
                exec::give_up(e.fd as usize, Reason::Readiness, true);
            }
        }
    }
    family::tell(&me);
}
