//! fd -> plain, or a channel; filled on first use by asking the kernel.
//!
//! Invariant: an entry says what the fd is now: it is cleared before every close or dup2 that this process makes, and
//! set only from an fstat(2) of the fd itself. The table is private memory, so a fork's child has its own.
//! Not here: channels' state. Lookup takes no lock.
use crate::{attach, family, fifo, sets};
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_sys::file;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub const FDS: usize = 65536;
const UNKNOWN: u32 = 0;
const PLAIN: u32 = 1;
// Else four times the channel's slot, plus two, plus the access mode. The entry code counts on that: the slot plus one,
// which is the channel's number (crate pipe, biased_lock.rs), is such an entry plus two, over four.

/// An epoll set that this process has made, or one that it has come from by fork: then the generation, whether it is
/// mixed, and its list plus one, or 0.
const SET: u32 = 1 << 31;
const MIXED: u32 = 1 << 15;

/// What the table knows of an epoll set.
#[derive(Clone, Copy)]
pub struct Set {
    pub list: Option<usize>,
    /// Whether it has had a registration that is in no list.
    pub mixed: bool,
    /// Of `family.rs`.
    pub generation: u32,
}
const _: () = assert!(family::MOST == 1 << 15);

/// On one page with the first entries: after a fork the first store into a page copies it.
#[repr(C)]
struct Table {
    /// Moves with every close, so that a lookup that overlaps one is not kept.
    closes: AtomicU32,
    entries: [AtomicU32; FDS],
}
static ALL: Table = Table {
    closes: AtomicU32::new(0),
    entries: [const { AtomicU32::new(UNKNOWN) }; FDS],
};
const CLOSES: &AtomicU32 = &ALL.closes;
const TABLE: &[AtomicU32; FDS] = &ALL.entries;

/// Address of the table, for the entry code.
#[repr(transparent)]
pub struct Base(*const [AtomicU32; FDS]);
// SAFETY: a constant address of atomics.
unsafe impl Sync for Base {}
pub static BASE: Base = Base(TABLE);

/// The channel slot behind `fd`, if it is a carried pipe.
pub fn channel(fd: usize) -> Option<usize> {
    let fd = fd as u32 as usize;
    match entry(fd) {
        PLAIN => None,
        UNKNOWN => ask(fd),
        SET.. => {
            // By a call that is none of those that sets are known to have.
            sets::leaves(fd);
            None
        }
        e => Some((e as usize - 2) / 4),
    }
}

/// What the table says of `fd`.
pub fn entry(fd: usize) -> u32 {
    TABLE
        .get(fd as u32 as usize)
        .map_or(UNKNOWN, |e| e.load(Relaxed))
}

fn is_channel(entry: u32) -> bool {
    entry > PLAIN && entry < SET
}

/// What is known of the epoll set behind `fd`.
pub fn set(fd: usize) -> Option<Set> {
    let e = entry(fd);
    (e >= SET).then(|| Set {
        list: ((e & (MIXED - 1)) as usize).checked_sub(1),
        mixed: e & MIXED != 0,
        generation: e >> 16 & (family::MOST - 1),
    })
}

/// `fd` is an epoll set that this process has made; `None`: that is not to be known.
pub fn set_made(fd: usize, set: Option<Set>) {
    let code = |s: Set| {
        let mixed = if s.mixed { MIXED } else { 0 };
        SET | s.generation << 16 | mixed | s.list.map_or(0, |i| i as u32 + 1)
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

/// Whether `fd` is known to be no carried pipe.
pub fn is_plain(fd: usize) -> bool {
    entry(fd) == PLAIN
}

/// The channel slot behind `fd`, if that is known already.
pub fn known(fd: usize) -> Option<usize> {
    let e = entry(fd);
    is_channel(e).then(|| (e as usize - 2) / 4)
}

/// Whether the carried `fd` is open for writing (or reading).
pub fn fits(fd: usize, writes: bool) -> bool {
    let e = entry(fd);
    let mode = if is_channel(e) {
        (e - 2) % 4
    } else {
        file::fcntl(fd, file::F_GETFL, 0) as u32 & 3
    };
    mode == 2 || (mode == 1) == writes
}

/// The channel slot behind `fd`, if that is known already and `fd` is open for writing.
pub fn known_writer(fd: usize) -> Option<usize> {
    let e = TABLE.get(fd as u32 as usize)?.load(Relaxed);
    (is_channel(e) && (e - 2) % 4 > 0).then(|| (e as usize - 2) / 4)
}

/// As [`channel`], from the kernel alone: for a vfork child, whose descriptors are not the table's.
pub fn ask_kernel(fd: usize) -> Option<usize> {
    let id = file::identity(fd).filter(|id| id.fifo)?;
    let d = attach::domain()?;
    let i = registry::find(d, id.dev, id.ino)?;
    match Channel::at(d, i)?.is_fifo() {
        true => Some(fifo::find(fd, i)),
        false => Some(i),
    }
}

fn ask(fd: usize) -> Option<usize> {
    let before = CLOSES.load(Relaxed);
    let id = file::identity(fd)?;
    let keep = |found: Option<usize>| {
        if fd < FDS && CLOSES.load(Relaxed) == before {
            let mode = file::fcntl(fd, file::F_GETFL, 0) as u32 & 3;
            TABLE[fd].store(found.map_or(PLAIN, |i| i as u32 * 4 + mode + 2), Relaxed);
        }
    };
    let known = if id.fifo {
        attach::domain().and_then(|d| registry::find(d, id.dev, id.ino))
    } else {
        None
    };
    let named = id.fifo
        && known
            .and_then(|i| Channel::at(attach::domain()?, i))
            .map_or_else(|| !file::is_nameless(fd), Channel::is_fifo);
    let found = if named {
        fifo::channel(fd, id, |i| keep(Some(i)))
    } else {
        keep(known);
        known
    };
    if let Some(i) = found {
        name(fd, i);
    }
    found
}

/// Writes this program's name to its side of the channel, for `--explain`.
fn name(fd: usize, i: usize) {
    let Some(ch) = attach::domain().and_then(|d| Channel::at(d, i)) else {
        return;
    };
    ch.used_by(byway_sys::process::name(), fits(fd, true));
}

/// From now on `fd`, whose channel has gone to the kernel for good, is plain: its calls cost what those of any other
/// descriptor do.
pub fn leave(fd: usize, i: usize) {
    let before = CLOSES.load(Relaxed);
    let for_good = |ch: &Channel| ch.is_kernels() && !ch.is_fifo();
    let left = attach::domain()
        .and_then(|d| Channel::at(d, i))
        .is_some_and(for_good);
    let Some(e) = TABLE.get(fd as u32 as usize) else {
        return;
    };
    let now = e.load(Relaxed);
    // Not one that another thread has closed and opened again meanwhile.
    if left && now > PLAIN && (now as usize - 2) / 4 == i && CLOSES.load(Relaxed) == before {
        let _ = e.compare_exchange(now, PLAIN, Relaxed, Relaxed);
    }
}

/// Forgets `fd`; true unless it was known to be plain.
pub fn forget(fd: usize) -> bool {
    CLOSES.fetch_add(1, Relaxed);
    TABLE
        .get(fd as u32 as usize)
        .is_none_or(|e| e.swap(UNKNOWN, Relaxed) != PLAIN)
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
