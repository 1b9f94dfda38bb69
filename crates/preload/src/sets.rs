//! The epoll sets that this process has made, with the carried pipes in each: epoll_ctl(2).
//!
//! A set stays the kernel's, and so does every registration in it. Here are the pipes of which the kernel
//! alone would not tell all: they are armed while a call waits for the set (set_wait.rs).
//! Invariant: a carried pipe is in a set only if the set is known here, by its numbers and in this process alone, and has
//! the pipe on its list, where no other list has it. Where that ends (dup2, fork, exec, a set in a set, a set that is polled
//! or passed on, one-shots), the pipes of the set are handed back for good, before the call that ends it.
//! unsafe: reads what the arguments point to, once the kernel says that it can be read.
//! Not here: what a list has of a pipe (registrations.rs), waiting (set_wait.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::fdtable::Endpoint;
use crate::registration::Entry;
use crate::registrations::{List, Shares};
use crate::set_lock::{Locked, SETS, lock, lock_for};
use crate::{access, asked, cold, exec, family, fdtable, io, set_lock, tls, unmatched, watched};
use byway_mem::layout::CHANNELS_MOST;
use byway_pipe::Caller;
use byway_pipe::channel::Channel;
use byway_pipe::reason::Reason;
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::syscall::{call6, nr};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

pub const ADD: usize = 1;
pub const DEL: usize = 2;
pub const MOD: usize = 3;

/// Of each descriptor the list that has it, plus one, and `ATTENDS`.
static LISTED: [AtomicU8; fdtable::FDS] = [const { AtomicU8::new(0) }; fdtable::FDS];
/// A read of the descriptor is to look at its registration, armed or not.
const ATTENDS: u8 = 1 << 7;
const _: () = assert!(SETS < ATTENDS as usize);
/// A bit for each channel whose read end is on a list: its reader is armed for one set.
#[unsafe(link_section = ".data")]
static READ: [AtomicU64; CHANNELS_MOST / 64] = [const { AtomicU64::new(0) }; CHANNELS_MOST / 64];

/// Whether `fd` is on a list.
fn is_listed(fd: usize) -> bool {
    // Without a set the table's page is not touched.
    family::has_sets() && LISTED.get(fd).is_some_and(|i| i.load(Relaxed) != 0)
}

/// Registration `e` goes on list `i`. False: it, or another of the same read end, is on one.
fn lists(i: usize, e: &Entry) -> bool {
    if LISTED[e.fd as usize].load(Relaxed) != 0 || !reads_alone(e) {
        return false;
    }
    let attends = if e.once || e.unmatched { ATTENDS } else { 0 };
    LISTED[e.fd as usize].store((i as u8 + 1) | attends, Relaxed);
    true
}

/// From now on a read of `fd`, which is on a list, is to look at its registration, or only where it is armed.
pub fn attends(fd: usize, always: bool) {
    match always {
        true => LISTED[fd].fetch_or(ATTENDS, Relaxed),
        false => LISTED[fd].fetch_and(!ATTENDS, Relaxed),
    };
}

/// The read end of registration `e`, if that asks for bytes, is on its list. False: another list has it.
pub fn reads_alone(e: &Entry) -> bool {
    let (word, bit) = (&READ[e.slot as usize / 64], 1 << (e.slot % 64));
    !e.reads() || e.unmatched || word.fetch_or(bit, Relaxed) & bit == 0
}

/// Registration `e` has left its list.
pub fn unlists(e: &Entry) {
    LISTED[e.fd as usize].store(0, Relaxed);
    if e.reads() && !e.unmatched {
        READ[e.slot as usize / 64].fetch_and(!(1 << (e.slot % 64)), Relaxed);
    }
}

/// The list that has `fd`, under its lock.
fn of_descriptor(me: &Caller, fd: usize) -> Option<(Locked, usize)> {
    let i = (LISTED.get(fd)?.load(Relaxed) & !ATTENDS).checked_sub(1)?;
    let list = lock(me, i.into()).filter(|l| l.numbers.one().is_some())?;
    let k = list.place(fd)?;
    Some((list, k))
}

fn is_ours(list: &Locked) -> bool {
    let number = list.numbers.one();
    number.is_some_and(|fd| fdtable::set(fd).is_some_and(family::is_ours))
}

/// `fd`, whose channel is `ch`, is about to be read: it is armed no longer. Where another thread waits for its set, and is to
/// be told of it, the reader is a second one. True: `has_read` comes after the read.
pub fn reads(me: &Caller, ch: &Channel, fd: usize) -> bool {
    if is_listed(fd)
        && (ch.tail().sleepers() > 0 || LISTED[fd].load(Relaxed) & ATTENDS != 0)
        && let Some((mut list, k)) = of_descriptor(me, fd)
        && is_ours(&list)
    {
        let e = list.all()[k];
        // One that is unmatched on the list may have been matched since.
        let armed = e.unmatched || ch.tail().sleepers() > 0;
        if (list.waiters == 0 || e.off) && armed {
            list.wake(me, k);
        }
        return e.once || e.owed;
    }
    false
}

/// `fd`, a socket that does not know its other end, and has the channel in slot `i`, is about to be read: it is armed no longer,
/// if nobody waits for its set.
pub fn reads_unmatched(fd: usize, i: usize) {
    if is_listed(fd)
        && unmatched::is_counted(i)
        && let Some(me) = io::me()
        && let Some((mut list, k)) = of_descriptor(&me, fd)
        && is_ours(&list)
        && list.waiters == 0
    {
        list.wake(&me, k);
    }
}

/// `fd` was read, and others sleep that are to be told of it: the kernel tells them of what comes, and once of what is left.
pub fn has_read(me: &Caller, fd: usize) {
    if let Some((mut list, k)) = of_descriptor(me, fd)
        && list.waiters > 0
    {
        let e = list.all()[k];
        if e.once && !e.off {
            tells_waiter(&mut list, me, k);
        } else if e.owed {
            list.shares = Shares::Yes;
            list.arm(me, k, false);
        }
    }
}

/// As [`has_read`], of a read that has looked at nothing else.
#[inline]
pub fn has_read_fast(me: &Caller, fd: usize) {
    if family::has_sets()
        && let Some(i) = LISTED.get(fd).map(|i| i.load(Relaxed))
        && i & ATTENDS != 0
        && usize::from(i & !ATTENDS)
            .checked_sub(1)
            .is_some_and(set_lock::any_waits)
    {
        has_read(me, fd);
    }
}

/// `fd` reads what is the kernel's for good, and so is what is told of it.
pub fn forgets(me: &Caller, fd: usize) {
    if is_listed(fd)
        && let Some((mut list, k)) = of_descriptor(me, fd)
    {
        list.drops(me, k);
    }
}

/// A write into `fd` was told that there is no room.
pub fn blocks(me: &Caller, fd: usize) {
    if is_listed(fd)
        && let Some((mut list, k)) = of_descriptor(me, fd)
    {
        list.all()[k].blocked = true;
    }
}

/// Nothing is armed from now on: the process ends. Or it execs, which may fail: then not where another thread waits.
pub fn ends(execs: bool) {
    each(|me, list| {
        if !(execs && list.waiters != 0) {
            list.wake_all(me);
        }
    });
}

/// The process resigns, and has handed all back.
pub fn resigns() {
    each(|me, list| {
        list.wake_all(me);
        list.leave();
    });
}

fn each(mut does: impl FnMut(&Caller, &mut List)) {
    if !family::has_sets() {
        return;
    }
    let Some(me) = io::me() else { return };
    for i in 0..SETS {
        if let Some(mut list) = lock(&me, i).filter(|l| l.numbers.one().is_some()) {
            does(&me, &mut list);
        }
    }
}

/// After a change of registration `k` while another thread waits for the set: the kernel is to tell it.
fn tells_waiter(list: &mut Locked, me: &Caller, k: usize) {
    if list.waiters == 0 {
        return;
    }
    let e = list.all()[k];
    if e.once && e.reads() {
        list.arm(me, k, true);
    } else if list.look_at(me, k) != 0 || !list.arm(me, k, false) {
        list.leave_to_kernel(me, k);
        list.arm(me, k, true);
    }
}

/// The caller and the list of set `fd`, if that has carried pipes.
pub fn listed(fd: usize) -> Option<(Caller, usize)> {
    let i = owned(fd)?;
    Some((io::me()?, i))
}

/// The list of set `fd`, if this process has made the set and has it for itself.
pub fn owned(fd: usize) -> Option<usize> {
    let set = fdtable::set(fd)?;
    if family::is_ours(set) {
        return Some(set.list);
    }
    // Another process uses a set of this one, or this one another's.
    let me = io::me()?;
    if family::is_inherited(set) {
        family::tell(&me);
        leave_to_kernel(fd);
    }
    each(|me, list| list.give_up(me));
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
        let fd = f.result as usize;
        fdtable::forget(fd);
        fdtable::set_made(fd, family::made(&me).and_then(|of| with_list(&me, fd, of)));
        watched::set_made(fd);
    }
    DONE
}

/// epoll_ctl(2).
pub fn changes(f: &mut Frame) -> u32 {
    let [set, op, fd, at, ..] = f.args;
    leaves(fd);
    let op = op as u32 as usize;
    tls::get().polled.fd.set(0);
    // One that is cold gets its channel by its traffic, or here where nobody could remember it.
    let is_cold = fdtable::is_cold(fdtable::entry(fd));
    let stays_cold = cold::stays(fd);
    if is_cold && !stays_cold {
        cold::joins(fd);
    }
    let end = (!stays_cold).then(|| fdtable::endpoint(fd)).flatten();
    let Some(end) = end else {
        mixes(set);
        return watched::changes(f);
    };
    let listed = listed(set);
    if op == DEL {
        if let Some((me, i)) = listed
            && let Some(mut list) = lock(&me, i)
            && let Some(k) = list.place(fd)
        {
            let e = list.take(&me, k);
            list.gone(&e);
        }
        return RUN;
    }
    match carries(f, listed, end, op, at) {
        Some(r) => {
            f.result = r;
            DONE
        }
        None => {
            mixes(set);
            exec::give_up(fd, Reason::Readiness, false);
            RUN
        }
    }
}

/// ADD and MOD of a carried pipe; `None`: it is not carried in this set.
fn carries(
    f: &Frame,
    listed: Option<(Caller, usize)>,
    end: Endpoint,
    op: usize,
    at: usize,
) -> Option<isize> {
    let [set, _, fd, ..] = f.args;
    let [reads, writes] = [false, true].map(|writes| fdtable::fits(fd, writes));
    let reads = reads || end.unmatched().is_some();
    if !matches!(op, ADD | MOD) || !access::allowed(at, 12, false) {
        return None;
    }
    // SAFETY: asked for; struct epoll_event is events and data, without a gap.
    let (events, data) = unsafe {
        (
            (at as *const u32).read_unaligned(),
            ((at + 4) as *const u64).read_unaligned(),
        )
    };
    let (me, i) = listed?;
    let mut list = lock(&me, i).filter(|l| l.numbers.has(set))?;
    // LINUX pipe_poll: a write end is never readable, and a read end never writable, whatever is asked. A FIFO that is open
    // for both is told of as that end which is asked about, if it is one.
    let [asks_in, asks_out] =
        [asked::IN, asked::OUT].map(|can| events & u32::from(can as u16) != 0);
    let is_both = reads && writes && asks_in && asks_out;
    let reads = reads && (asks_in || !writes);
    let can = if reads { asked::IN } else { asked::OUT };
    let mut e = Entry::of(fd, end, events, can, data);
    let was = list.place(fd).map(|k| {
        let armed = list.all()[k].is_armed_still();
        (list.take(&me, k), armed)
    });
    list.judge(&me, &mut e, was);
    let was = was.map(|(e, _)| e);
    let fits = fd < fdtable::FDS && list.has_memory();
    if is_both || !is_known(&me, &e) || !fits || was.is_none() && op == MOD || !lists(i, &e) {
        return None;
    }
    let mut k = list.add(e);
    if list.waiters != 0 && !reads {
        // The kernel lane of a full pipe is full before the kernel looks.
        list.look_at(&me, k);
    }
    // SAFETY: the caller's own call; the kernel checks the address.
    let r = unsafe { call6(nr::EPOLL_CTL, set, op, fd, at, 0, 0) };
    if failed(r) {
        list.take(&me, k);
        let Some(was) = was.filter(|e| lists(i, e)) else {
            return Some(r);
        };
        k = list.add(was);
    }
    tells_waiter(&mut list, &me, k);
    Some(r)
}

/// Whether what `e` asks for is told by a list.
fn is_known(me: &Caller, e: &Entry) -> bool {
    // Whether the kernel can be made to tell of it, once: what a ring of theirs has cannot be put into the lane.
    let may = |ch: &Channel| !ch.is_inbox() && !e.unmatched;
    !e.once || Channel::at(me.domain, e.slot as usize).is_some_and(may)
}

/// The socket `fd` was put into `set` before it had its channel: now the registration goes on the set's list. No thread waits for
/// the set. False: it cannot.
pub fn joins(set: usize, fd: usize, events: u32, data: u64) -> bool {
    let (Some((me, i)), Some(end)) = (listed(set), fdtable::known_endpoint(fd)) else {
        return false;
    };
    let Some(mut list) = lock_for(&me, i, set) else {
        return false;
    };
    let mut e = Entry::of(fd, end, events, asked::IN, data);
    list.judge(&me, &mut e, None);
    if !is_known(&me, &e) || !list.has_memory() || !lists(i, &e) {
        list.mixed = true;
        return false;
    }
    list.add(e);
    true
}

/// Set `fd`, if it is one, has a registration that is in no list.
pub fn mixes(fd: usize) {
    if fdtable::set(fd).is_none_or(|set| set.mixed) {
        return;
    }
    fdtable::set_mixed(fd);
    if let Some((me, i)) = listed(fd)
        && let Some(mut list) = lock_for(&me, i, fd)
    {
        list.mixed = true;
    }
}

/// Whether set `fd` may have one more number: then `duplicated` comes after the call. tokio waits by one number, and
/// registers by the other.
pub fn duplicates(fd: usize) -> bool {
    owned(fd).is_some()
}

/// Set `fd` is `now` as well, unless the call failed.
pub fn duplicated(fd: usize, now: isize) {
    let (false, Some(set), Some((me, i))) = (failed(now), fdtable::set(fd), listed(fd)) else {
        return;
    };
    if let Some(mut list) = lock_for(&me, i, fd) {
        fdtable::forget(now as usize);
        fdtable::set_made(now as usize, Some(set));
        watched::set_made(now as usize);
        if !list.numbers.add(now as usize) {
            list.give_up(&me);
            fdtable::set_plain(now as usize);
        }
    }
}

/// The new set `fd`, with its list: from its first moment, for a thread that waits is counted there before another one
/// adds a pipe. `None`: there is no place.
fn with_list(me: &Caller, fd: usize, generation: u32) -> Option<fdtable::Set> {
    let takes = |i: &usize| {
        lock(me, *i).is_some_and(|mut l| l.numbers.one().is_none() && l.numbers.add(fd))
    };
    Some(fdtable::Set {
        list: (0..SETS).find(takes)?,
        mixed: false,
        generation,
    })
}

/// Set `fd`, if it is one, is about to be reached in another way than by its number and these calls.
pub fn leaves(fd: usize) {
    if fdtable::set(fd).is_none() {
        return;
    }
    match (owned(fd), io::me()) {
        (Some(i), Some(me)) => {
            if let Some(mut list) = lock_for(&me, i, fd) {
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
        if let Some(me) = io::me()
            && let Some(mut list) = lock_for(&me, set.list, fd)
        {
            list.numbers.drop(fd);
            if list.numbers.one().is_some() {
                return;
            }
            list.wake_all(&me);
            list.leave();
        }
        watched::set_closed(fd);
        return;
    }
    let fd = fd as u32 as usize;
    if !is_listed(fd) {
        return;
    }
    let Some(me) = io::me() else { return };
    if let Some((mut list, k)) = of_descriptor(&me, fd) {
        let e = list.take(&me, k);
        list.gone(&e);
        // What a child closes its parent has on.
        let ours = is_ours(&list);
        drop(list);
        if ours {
            exec::give_up(fd, Reason::Readiness, false);
        }
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
    set_lock::enter_child();
}

/// Before an exec that set `fd` survives: the new image knows it by its number alone.
pub fn leave_image(fd: usize, set: fdtable::Set) {
    let Some(me) = io::me() else { return };
    if let Some(mut list) = lock_for(&me, set.list, fd) {
        // A vfork child's descriptors are not the table's, and the list is its parent's.
        for e in list.all() {
            let end = fdtable::ask_kernel(e.fd as usize);
            if end.is_some_and(|end| end.slots().any(|i| i == e.slot as usize)) {
                exec::give_up(e.fd as usize, Reason::Readiness, true);
            }
        }
    }
    family::tell(&me);
}

/// Those from which set `fd` has come may not look again: what they have put in since, and this process has too, is handed
/// back here.
fn leave_to_kernel(fd: usize) {
    file::each_of_set(fd, |fd, inode| {
        if file::identity(fd).is_some_and(|file| file.ino == inode) {
            cold::joins(fd);
            exec::give_up(fd, Reason::Readiness, false);
        }
    });
}
