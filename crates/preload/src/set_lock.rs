//! The lists of the epoll sets of this process, each under its lock, and the threads that wait for each.
//!
//! ```text
//! waits_quietly: counted --> the list is quiet --> the kernel's call, without the lock
//! lock:          not quiet any more --> those that are counted are seen
//! ```
//! Invariant: a list is quiet while nobody has its lock and nothing in it is to be looked at before a wait. A thread that found
//! it so is seen by each owner of the lock after that, as one that waits: what it waits for stays armed.
//! unsafe: each list is under its own lock.
//! Not here: what is in a list (registrations.rs), and what becomes of it (sets.rs).
use crate::registrations::{List, Quiet};
use byway_pipe::Caller;
use byway_pipe::lock::Patience;
use byway_sys::signal::Held;
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Sets with carried pipes; those of more are handed back.
pub const SETS: usize = 64;

/// On a line of its own: threads that wait for other sets write to theirs.
#[repr(align(64))]
struct Set {
    owner: AtomicU32,
    /// A `Quiet`.
    quiet: AtomicU8,
    /// `List::data`, as the last owner has left it.
    data: AtomicU64,
    /// Threads that sleep in calls for the set; above them a number that moves with every set that has this place.
    waiters: AtomicU64,
    list: UnsafeCell<List>,
}
// SAFETY: the list is reached under `owner` alone.
unsafe impl Sync for Set {}

impl Set {
    fn quiet(&self, order: Ordering) -> Quiet {
        Quiet::of(self.quiet.load(order))
    }
}

static ALL: [Set; SETS] = [const {
    Set {
        owner: AtomicU32::new(0),
        quiet: AtomicU8::new(Quiet::No as u8),
        data: AtomicU64::new(0),
        waiters: AtomicU64::new(0),
        list: UnsafeCell::new(List::EMPTY),
    }
}; SETS];

/// A list under its lock, with signals held off where a handler could come over it.
pub struct Locked {
    set: &'static Set,
    _signals: Option<Held>,
}

impl Drop for Locked {
    fn drop(&mut self) {
        let nobodys = self.numbers.one().is_none();
        if nobodys {
            // A thread that still sleeps here waits for a set that has gone.
            let life = self.set.waiters.load(Relaxed) >> 32;
            self.set.waiters.store((life + 1) << 32, Relaxed);
        }
        let quiet = match nobodys {
            true => Quiet::No,
            false => self.quiet(),
        };
        if self.set.data.load(Relaxed) != self.data {
            self.set.data.store(self.data, Relaxed);
        }
        // ORDER: `data` comes before, for `ends`.
        self.set.quiet.store(quiet as u8, Release);
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
        patience.wait(me);
    }
    // ORDER: against `waits_quietly`: it sees that the list is not quiet, or is counted in what is loaded here.
    set.quiet.store(Quiet::No as u8, SeqCst);
    // ORDER: as above.
    let waiters = set.waiters.load(SeqCst) as u32;
    let mut list = Locked {
        set,
        _signals: signals,
    };
    list.waiters = waiters;
    Some(list)
}

/// The list at place `i`, if it is set `fd`'s.
pub fn lock_for(me: &Caller, i: usize, fd: usize) -> Option<Locked> {
    lock(me, i).filter(|l| l.numbers.has(fd))
}

/// Whether the kernel alone told all of the set at place `i` a moment ago.
pub fn is_quiet(i: usize) -> bool {
    ALL.get(i)
        .is_some_and(|set| set.quiet(Relaxed) == Quiet::All)
}

/// Whether any thread waits for the set at place `i`.
pub fn any_waits(i: usize) -> bool {
    ALL.get(i)
        .is_some_and(|set| set.waiters.load(Relaxed) as u32 != 0)
}

/// A thread begins to wait for the set at place `i`, which this process has: without its lock, where nothing is
/// to be looked at. `None`: it is not so. Otherwise what `ends` must be given.
pub fn waits_quietly(i: usize) -> Option<u32> {
    let set = ALL.get(i)?;
    if set.quiet(Relaxed) == Quiet::No {
        return None;
    }
    // ORDER: against `lock`.
    let life = (set.waiters.fetch_add(1, SeqCst) >> 32) as u32;
    // ORDER: as above.
    if set.quiet(SeqCst) != Quiet::No {
        return Some(life);
    }
    has_waited(i, life);
    None
}

/// One more thread waits for the set: what `ends` must be given.
pub fn waits(list: &mut Locked) -> u32 {
    list.waiters += 1;
    (list.set.waiters.fetch_add(1, Relaxed) >> 32) as u32
}

/// A call for the set at place `i` has come back: the list, if it is still that set's, and is `needed`, or was not quiet a moment
/// ago. `concerns`: whether what the kernel told may be of one whose bit of `List::data` is set.
pub fn ends(
    me: &Caller,
    i: usize,
    life: u32,
    needed: bool,
    concerns: impl FnOnce(u64) -> bool,
) -> Option<Locked> {
    let set = &ALL[i];
    // ORDER: `data` comes after. What was added since the kernel told is not what it told of.
    let is_quiet = match set.quiet(Acquire) {
        Quiet::No => false,
        Quiet::Before => !concerns(set.data.load(Relaxed)),
        Quiet::All => true,
    };
    let mut list = match is_quiet && !needed {
        true => None,
        false => lock(me, i),
    };
    let counted = has_waited(i, life);
    if let Some(list) = &mut list {
        list.waiters -= u32::from(counted);
    }
    list.filter(|_| counted)
}

/// A thread waits no longer. False: the set has gone, and the threads that waited for it are not counted.
fn has_waited(i: usize, life: u32) -> bool {
    let less = |w: u64| (w >> 32 == life.into() && w as u32 != 0).then(|| w - 1);
    ALL[i].waiters.fetch_update(Relaxed, Relaxed, less).is_ok()
}

/// A forked child begins, with one thread.
pub fn enter_child() {
    for set in &ALL {
        set.owner.store(0, Relaxed);
        set.quiet.store(Quiet::No as u8, Relaxed);
        set.waiters.store(0, Relaxed);
        // SAFETY: nobody else is there.
        unsafe { &mut *set.list.get() }.enter_child();
    }
}
