//! Everything `repr(C)` in a domain, with its size and place.
//!
//! Invariant: sizes and offsets are the same in every process of a version; `VERSION` changes with any of them.
//! Not here: behaviour.
//!
//! ```text
//! 0            header              one page
//! PARTS_AT     participants        PARTICIPANTS x 4 B
//! THREAD_SLOTS_AT   bias owners             THREAD_SLOTS x 64 B
//! TAGS_AT      channels' tags      CHANNELS_MOST x 2 B            to the first of them what each process looks at
//! EXECS_AT     exec records        EXECS x 64 B
//! MIDDLE_AT    hints               where full and empty buckets, free and part-free slabs are
//! FRONTS_AT    fronts              one line per CPU, then LOCKED shared ones
//! COUNTERS_AT  counters            one line per CPU and class
//! DEPARTURES_AT programs that took no part    DEPARTURES x 192 B
//! OPENINGS_AT  opens of FIFOs by participants     OPENINGS x 16 B
//! SLABS_AT     slab table          384 B each
//!              channel slots       CHANNELS x 512 B                    up to here reserved when the domain is made
//!              more of them        up to CHANNELS_MOST                 a page at a time, when first used
//!              buckets             BUCKETS x 256 B                     a page at a time, when first used
//!              objects             8 B for each unit of the arena      a slab's part when it is taken
//!              arena               slabs x 512 KiB                     when first used
//! ```
use byway_sys::rseq::{BUCKET_ITEMS, BUCKET_STATE, BUCKET_STRIDE, FRONT_STRIDE, OBJECT_STRIDE};
use byway_sys::sync;
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u64 = u64::from_le_bytes(*b"BYWAYDOM");
pub const VERSION: u32 = 36;
/// Channel slots that every domain has, and the most that one can have.
pub const CHANNELS: usize = 1024;
pub const CHANNELS_MOST: usize = 8192;
pub const CHANNEL_BYTES: usize = 512;
/// Slots that are made at a time: a page.
pub const CHANNELS_MORE: usize = PAGE / CHANNEL_BYTES;
pub const EXECS: usize = 512;
pub const EXEC_CHANNELS: usize = 24;
pub const PARTICIPANTS: usize = 2048;
/// A power of two.
pub const THREAD_SLOTS: usize = 512;
pub const MEMBERS: usize = 64;
pub const DEPARTURES: usize = 42;
/// Files of which something is known.
pub const KNOWN: usize = 192;
/// Processes share these words by their ids.
pub const FAMILIES: usize = 64;
pub const OPENINGS: usize = 2048;

/// The arena is counted in units of one mbuf.
pub const UNIT: usize = 256;
pub const SLAB_BYTES: usize = 512 * 1024;
pub const SLAB_UNITS: usize = SLAB_BYTES / UNIT;
pub const SLAB_PAGES: usize = SLAB_BYTES / PAGE;
pub const PAGE: usize = 4096;
/// Slabs of an ordinary run's domain, and the most that any has.
pub const SLABS: usize = 256;
pub const MOST_SLABS: usize = 4096;
pub const BUCKETS: usize = 4096;
#[cfg(not(loom))]
pub const BUCKET_MOST: usize = (BUCKET_STRIDE - BUCKET_ITEMS) / 4;
#[cfg(loom)]
pub const BUCKET_MOST: usize = Class::Jumbo.cap();
/// CPUs with a front of their own; fronts under a lock, for threads without rseq.
pub const CPUS: usize = 64;
pub const LOCKED: usize = 16;
pub const CLASSES: usize = 3;

pub const PARTS_AT: usize = PAGE;
pub const THREAD_SLOTS_AT: usize = PARTS_AT + PARTICIPANTS * 4;
pub const TAGS_AT: usize = THREAD_SLOTS_AT + THREAD_SLOTS * size_of::<ThreadSlot>();
pub const EXECS_AT: usize = TAGS_AT + CHANNELS_MOST * 2;
pub const MIDDLE_AT: usize = EXECS_AT + EXECS * size_of::<ExecRecord>();
pub const FRONTS_AT: usize = MIDDLE_AT + 8192;
pub const COUNTERS_AT: usize = FRONTS_AT + 8192;
pub const DEPARTURES_AT: usize = COUNTERS_AT + 16384;
pub const OPENINGS_AT: usize = DEPARTURES_AT + DEPARTURES * size_of::<Departure>();
pub const SLABS_AT: usize = OPENINGS_AT + OPENINGS * size_of::<Opening>();

/// Where the parts lie whose place depends on the number of slabs.
#[derive(Clone, Copy)]
pub struct Geometry {
    pub slabs: usize,
    pub channels_at: usize,
    pub buckets_at: usize,
    pub objects_at: usize,
    pub arena_at: usize,
    pub bytes: usize,
}

impl Geometry {
    /// That of a domain with `slabs` slabs.
    pub const fn of(slabs: usize) -> Geometry {
        let channels_at = (SLABS_AT + slabs * size_of::<Slab>()).next_multiple_of(PAGE);
        let buckets_at = channels_at + CHANNELS_MOST * CHANNEL_BYTES;
        let objects_at = buckets_at + BUCKETS * BUCKET_STRIDE;
        let arena_at = (objects_at + slabs * SLAB_UNITS * OBJECT_STRIDE).next_multiple_of(1 << 21);
        Geometry {
            slabs,
            channels_at,
            buckets_at,
            objects_at,
            arena_at,
            bytes: arena_at + slabs * SLAB_BYTES,
        }
    }

    /// That of a domain of `bytes` bytes, if there is one.
    pub fn from_bytes(bytes: usize) -> Option<Geometry> {
        (bytes / SLAB_BYTES / 2..=(bytes / SLAB_BYTES).min(MOST_SLABS))
            .map(Geometry::of)
            .find(|g| g.bytes == bytes)
    }

    /// The part that its maker reserves: what everybody touches.
    pub const fn reserved(&self) -> usize {
        self.channels_at + CHANNELS * CHANNEL_BYTES
    }
}

/// The size classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Class {
    /// 256 B: small data, headers.
    Mbuf = 0,
    /// 2 KiB.
    Cluster = 1,
    /// 64 KiB: what rings are made of.
    Jumbo = 2,
}

impl Class {
    pub const ALL: [Class; CLASSES] = [Class::Mbuf, Class::Cluster, Class::Jumbo];

    pub const fn bytes(self) -> usize {
        [256, 2048, 65536][self as usize]
    }
    pub const fn units(self) -> usize {
        self.bytes() / UNIT
    }
    /// Objects of a bucket: enough to make the exchange rare, few enough that what lies in the caches stays small.
    pub const fn cap(self) -> usize {
        [60, 60, 4][self as usize]
    }
    /// Objects of a slab.
    pub const fn of_slab(self) -> usize {
        SLAB_BYTES / self.bytes()
    }
    pub fn from_index(i: u32) -> Option<Class> {
        Self::ALL.get(i as usize).copied()
    }
    pub const fn name(self) -> &'static str {
        ["mbuf", "cluster", "jumbo"][self as usize]
    }
}

/// Flags of a domain, set by its creator.
pub mod flags {
    /// Nothing is carried; channels are only recorded.
    pub const NO_CARRY: u32 = 1;
    /// Never spin.
    pub const NO_SPIN: u32 = 2;
    /// No process takes part, as if no text could be rewritten.
    pub const NO_REWRITE: u32 = 4;
    /// No memory is given out, as if the folder were full.
    pub const NO_MEMORY: u32 = 8;
    /// No restartable sequences: fronts under locks.
    pub const NO_RSEQ: u32 = 16;
    /// Named FIFOs stay the kernel's.
    pub const NO_FIFO: u32 = 32;
    /// Other runs of the user may join.
    pub const SHARED: u32 = 64;
    /// UNIX sockets stay the kernel's.
    pub const NO_UNIX: u32 = 128;
    /// TCP connections do.
    pub const NO_TCP: u32 = 256;
    /// UDP sockets are the kernel's.
    pub const NO_UDP: u32 = 512;
}

/// How much of one CPU's time participants have had (crate pipe, wait/late.rs).
#[repr(C)]
pub struct Share {
    /// CPU time of theirs, us.
    pub used: AtomicU64,
    /// At the beginning of the present span: that, and the cycle.
    pub used_before: AtomicU64,
    pub since: AtomicU64,
    /// Spans in a row in which others had a part.
    pub others: AtomicU64,
}

/// The first page.
#[repr(C)]
pub struct Header {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    pub flags: AtomicU32,
    pub bytes: AtomicU64,
    /// CPUs of the machine, and cycles per microsecond of its counter.
    pub cpus: AtomicU32,
    pub cycles_per_us: AtomicU32,
    /// 1: a line that several CPUs have is one's alone only by a write (crate sys, line.rs).
    pub shared_lines: AtomicU32,
    /// Bytes of every ring, a power of two; 0: as the policy has it.
    pub ring_bytes: AtomicU32,
    /// Bytes that a pipe takes, the kernel lane's among them, if that is less than its ring has room for; 0: it is not.
    pub holds: AtomicU32,
    /// Writes from so many bytes on may go without the ring, from buffer to buffer; 0: none.
    pub direct_from: AtomicU32,
    /// Bytes by which channels may make the kernel's pipes larger when they give their bytes back, all together (0: no
    /// limit), and by which they may have to.
    pub may_promise: AtomicU64,
    pub promised: AtomicU64,
    /// The run that serves the domain, and all of its runs.
    pub creator: AtomicU32,
    pub members: [AtomicU32; MEMBERS],
    /// A bit for each place among `members` whose run tells of its channels at its end: their slots stay until then.
    pub explains: AtomicU64,
    /// The pid name space in which all process ids here are meant.
    pub pid_space: AtomicU64,
    /// Moves whenever a reader may have gone: writers then ask the kernel before the next write.
    pub death_epoch: AtomicU32,
    /// Moves when an epoll set of such a process may be used by another one too.
    pub shared_sets: [AtomicU32; FAMILIES],
    /// Raised when slots or slabs run short; the creator collects.
    pub collect: AtomicU32,
    /// Raised when a FIFO's holders are to be looked at; the thread that enters or removes FIFOs.
    pub prove: AtomicU32,
    /// Who asked last: process id, and below it its descriptor of the FIFO.
    pub asker: AtomicU64,
    /// Cycle count of the next look whether the service lives.
    pub service_look: AtomicU64,
    pub fifo_lock: AtomicU32,
    /// FIFOs whose opens the service counts, and how often it has read all that the kernel told of them (crate pipe, fifo_opens.rs).
    pub counted: AtomicU32,
    pub drains: AtomicU32,
    /// Raised when it is to read once more.
    pub drain: AtomicU32,
    /// CPU time that the service has spent on FIFOs, us.
    pub fifo_us: AtomicU64,
    /// A FIFO that is being made: the thread that has the right to ask, its process, and that process's descriptors of
    /// the folder and, less one, of the FIFO (0: not there yet), and the FIFO's channel slot. Requests and answers are counted.
    pub birth_lock: AtomicU32,
    pub birth_pid: AtomicU32,
    pub birth_folder: AtomicU32,
    pub birth_fd: AtomicU32,
    pub birth_slot: AtomicU32,
    pub birth_wanted: AtomicU32,
    pub birth_done: AtomicU32,
    /// Objects whose verdicts are wanted: of process `scan_pid` the file behind descriptor `scan_fd` less one, or with
    /// 0 all that it has mapped as code. The thread that asks has the lock; requests and answers are counted.
    /// `scan_missed` is a request that was not answered in time.
    pub scan_lock: AtomicU32,
    pub scan_pid: AtomicU32,
    pub scan_fd: AtomicU32,
    pub scan_wanted: AtomicU32,
    pub scan_done: AtomicU32,
    pub scan_missed: AtomicU32,
    /// Yield back-off: factor, and per CPU the cycle count before which nobody yields.
    pub backoff: AtomicU32,
    pub noyield_until: [AtomicU64; 64],
    /// What participants that may run on one CPU only have had of it; the CPU's number, modulo the length, is the index.
    pub shares: [Share; 8],
    /// Free memory that may stay, KiB: above `high` for longer than `decay_ms`, it goes back down to `low`.
    pub low_kib: AtomicU32,
    pub high_kib: AtomicU32,
    pub decay_ms: AtomicU32,
    /// Buckets that have ever been used: those below are there.
    pub buckets: AtomicU32,
    /// Channel slots made beyond the first `CHANNELS`; which of those was claimed last.
    pub more_channels: AtomicU32,
    pub more_claimed: AtomicU32,
    /// 1 once a channel slot was claimed, and from then on.
    pub had_channels: AtomicU32,
    /// Cycle counts: the next look at what is free, and since when it is too much (0: it is not).
    pub next_look: AtomicU64,
    pub over_since: AtomicU64,
    /// The thread that gives back, or sweeps.
    pub reclaimer: AtomicU32,
    /// Slabs in use now, and the most there were.
    pub slabs_used: AtomicU32,
    pub slabs_most: AtomicU32,
    /// The most slabs that a class had.
    pub class_most: [AtomicU32; CLASSES],
    /// The table of holdings: a jumbo's unit plus one (holdings.rs).
    pub holdings: AtomicU32,
    /// What is known of files (known.rs).
    pub known: [AtomicU64; KNOWN],
    /// A NUL-terminated path.
    pub cache_dir: [u8; 512],
    /// Slabs of spans that were given back to lie idle, and that were taken from those (span.rs).
    pub spans_returned: Alone,
    pub spans_taken: Alone,
}

/// A word on a line of its own: one CPU counts in it while another counts in the next.
#[repr(C, align(64))]
pub struct Alone(pub AtomicU32);

/// Where to look first; a hint may be wrong, the thing itself says so.
#[repr(C)]
pub struct Hints {
    pub top: sync::AtomicU64,
    pub words: [sync::AtomicU64; 64],
}

/// The hints of the middle and back rooms.
#[repr(C)]
pub struct Middle {
    pub full: [Hints; CLASSES],
    pub empty: Hints,
    /// Slabs of a class with a free object; slabs of no class.
    pub part: [Hints; CLASSES],
    pub free: Hints,
}

/// The front of a CPU: per class the loaded bucket (low half) and the one before it (high half), numbers plus one.
#[repr(C, align(64))]
pub struct Front {
    pub words: [AtomicU64; CLASSES],
    /// Of a shared front: the thread that uses it.
    pub lock: AtomicU32,
}

/// A bucket: objects of one class that move together.
#[repr(C)]
pub struct Bucket {
    pub n: sync::AtomicU32,
    /// `VIRGIN`, `DEPOT`, or the process that has it.
    pub state: sync::AtomicU32,
    pub class: AtomicU32,
    /// The front that put it into the depot.
    pub cpu: AtomicU32,
    pub items: [sync::AtomicU32; BUCKET_MOST],
}

/// Never used; in the depot; every other state is the id of a process.
pub const VIRGIN: u32 = 0;
pub const DEPOT: u32 = 1;

/// What stands beside a unit where an object begins.
#[repr(C)]
pub struct Object {
    /// Who took it last: a process, a channel (`CHANNEL` + slot) or `NOBODY`. Without meaning while it is free.
    pub mark: sync::AtomicU32,
    pub refs: sync::AtomicU32,
}

pub const NOBODY: u32 = u32::MAX >> 1;
pub const CHANNEL: u32 = 1 << 31;
/// Marks of what several may have (holdings.rs), and of a span that nobody has.
pub const SHARED: u32 = u32::MAX;
pub const IDLE: u32 = NOBODY - 1;

/// Classes of a span's slabs: the first, and the others.
pub const SPAN: u32 = CLASSES as u32 + 1;
pub const SPAN_REST: u32 = CLASSES as u32 + 2;

/// A lock: 0, or the thread that has it (slab.rs).
#[repr(transparent)]
pub struct Lock(pub sync::AtomicU32);

/// A slab's entry in the table.
#[repr(C)]
pub struct Slab {
    pub lock: Lock,
    /// 0: free; class + 1; or part of a span.
    pub class: AtomicU32,
    /// Objects whose bit is set.
    pub free: AtomicU32,
    /// Of a span's first slab: how many it has; of its others: the number of the first, plus one.
    pub span: AtomicU32,
    /// A bit for each page that is there.
    pub present: [AtomicU64; SLAB_PAGES / 64],
    /// A bit for each object at home.
    pub home: [AtomicU64; SLAB_UNITS / 64],
    _pad2: [u64; 12],
}

/// Events since the domain was made; one line per front and class.
#[repr(C, align(64))]
pub struct Counters {
    pub refills: AtomicU64,
    pub drains: AtomicU64,
    /// Buckets that another front had put into the depot.
    pub remote: AtomicU64,
    pub failures: AtomicU64,
    pub given_back: AtomicU64,
}

/// What a thread says of itself by plain stores, and others see after a barrier. Channels by their slot plus one; 0: none.
#[repr(C, align(64))]
pub struct ThreadSlot {
    pub tid: AtomicU32,
    /// The channel whose writers' lock it keeps, and into which it writes at this moment (crate pipe, biased_lock.rs).
    pub inside: AtomicU32,
    /// The channel on which it is in a call of the kernel's that the tail does not count (pass_through.rs), and how
    /// many such writes it has made since one was counted.
    pub passing: AtomicU32,
    pub writes: AtomicU32,
    /// Cycle from which on it may yield to whom it wakes (wait/handover.rs).
    pub yields_from: AtomicU64,
    /// The channel into which it wrote last by a biased lock, if it has not waited for something to read since
    /// (policy/cache_lines.rs).
    pub wrote: AtomicU32,
    /// Its yields since one came back late, and how often such a one came soon after another.
    pub calm: AtomicU32,
    pub late: AtomicU32,
    /// Cycles from one of them to the next, and when that was asked.
    pub apart: AtomicU32,
    pub asked: AtomicU64,
}

/// What an exec leaves behind for the image that follows under the same pid.
#[repr(C)]
pub struct ExecRecord {
    pub pid: AtomicU32,
    pub count: AtomicU32,
    pub channels: [core::sync::atomic::AtomicU16; EXEC_CHANNELS],
    /// A number of the path that the exec named.
    pub image: AtomicU64,
}

/// Programs of one name that took no part, or resigned, for one reason (departures.rs).
#[repr(C)]
pub struct Departure {
    /// 0: free; 1: being filled; 2: there.
    pub state: AtomicU32,
    pub run: AtomicU32,
    /// A number that this crate does not know the meaning of.
    pub why: AtomicU32,
    pub count: AtomicU32,
    pub name: [AtomicU64; 2],
    /// What is behind the reason: the end of a path, NUL padded.
    pub path: [AtomicU64; DEPARTURE_PATH / 8],
}

/// What one process has said of its opens of one FIFO (crate pipe, fifo_opens.rs).
#[repr(C)]
pub struct Opening {
    /// The FIFO's channel slot and the process; 0: free; 1: being filled.
    pub key: AtomicU64,
    pub value: AtomicU64,
}

/// Bytes of a path that a departure keeps.
pub const DEPARTURE_PATH: usize = 160;

#[cfg(not(loom))]
const _: () = {
    assert!(size_of::<Header>() <= PAGE);
    assert!(size_of::<ExecRecord>() == 64);
    assert!(size_of::<Departure>() == 192 && MEMBERS <= 64);
    assert!(size_of::<Opening>() == 16 && OPENINGS_AT.is_multiple_of(16));
    assert!(size_of::<Middle>() <= 8192);
    assert!(size_of::<Front>() == FRONT_STRIDE);
    assert!((CPUS + LOCKED) * FRONT_STRIDE <= 8192);
    assert!(size_of::<Bucket>() == BUCKET_STRIDE);
    assert!(core::mem::offset_of!(Bucket, state) == BUCKET_STATE);
    assert!(core::mem::offset_of!(Bucket, items) == BUCKET_ITEMS);
    assert!(size_of::<Object>() == OBJECT_STRIDE);
    assert!(size_of::<Slab>() == 384);
    assert!((CPUS + LOCKED) * CLASSES * size_of::<Counters>() <= 16384);
    assert!(THREAD_SLOTS_AT.is_multiple_of(64) && THREAD_SLOTS.is_power_of_two());
    assert!(SLABS_AT.is_multiple_of(64));
    assert!(MOST_SLABS <= 4096 && BUCKETS <= 4096);
};
