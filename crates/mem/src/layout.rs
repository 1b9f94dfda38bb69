//! Everything `repr(C)` in a domain, with its size and place.
//!
//! Invariant: sizes and offsets are the same in every process of a version; `VERSION` changes with any of them.
//! Not here: behaviour.
//!
//! ```text
//! 0        header            one page
//! 4096     channel slots     CHANNELS x 512 B
//!          exec records      EXECS x 64 B
//! SLABS_AT slabs             SLABS x 512 KiB, sparse until used
//! ```
use core::sync::atomic::{AtomicU32, AtomicU64};

pub const MAGIC: u64 = u64::from_le_bytes(*b"BYWAYDOM");
pub const VERSION: u32 = 1;
pub const CHANNELS: usize = 1024;
pub const CHANNEL_BYTES: usize = 512;
pub const EXECS: usize = 512;
pub const EXEC_CHANNELS: usize = 24;
pub const SLABS: usize = 256;
pub const SLAB_BYTES: usize = 512 * 1024;
pub const CHANNELS_AT: usize = 4096;
pub const EXECS_AT: usize = CHANNELS_AT + CHANNELS * CHANNEL_BYTES;
/// The header and the tables: what every participant touches.
pub const TABLES_BYTES: usize = EXECS_AT + EXECS * size_of::<ExecRecord>();
pub const SLABS_AT: usize = TABLES_BYTES.next_multiple_of(1 << 21);
pub const DOMAIN_BYTES: usize = SLABS_AT + SLABS * SLAB_BYTES;

/// Flags of a domain, set by its creator.
pub mod flags {
    /// Nothing is carried; channels are only recorded.
    pub const NO_CARRY: u32 = 1;
    /// Never spin.
    pub const NO_SPIN: u32 = 2;
    /// No process takes part, as if no text could be rewritten.
    pub const NO_REWRITE: u32 = 4;
    /// No slab is given out, as if the folder were full.
    pub const NO_MEMORY: u32 = 8;
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
    /// /proc/sys/fs/pipe-max-size, bytes.
    pub pipe_max: AtomicU32,
    pub creator: AtomicU32,
    /// Moves whenever a reader may have gone: writers then ask the kernel before the next write.
    pub death_epoch: AtomicU32,
    /// Raised when slots or slabs run short; the creator collects.
    pub collect: AtomicU32,
    /// A file whose verdict is wanted: `scan_seq` odd while one process writes the path.
    pub scan_lock: AtomicU32,
    pub scan_wanted: AtomicU32,
    pub scan_done: AtomicU32,
    /// Yield back-off: factor, and per CPU the cycle count before which nobody yields.
    pub backoff: AtomicU32,
    pub noyield_until: [AtomicU64; 64],
    pub slab_used: [AtomicU64; SLABS / 64],
    /// NUL-terminated paths.
    pub cache_dir: [u8; 512],
    pub scan_path: [u8; 1024],
}

/// What an exec leaves behind for the image that follows under the same pid.
#[repr(C)]
pub struct ExecRecord {
    pub pid: AtomicU32,
    pub count: AtomicU32,
    pub channels: [core::sync::atomic::AtomicU16; EXEC_CHANNELS],
    pub _pad: [u8; 8],
}

const _: () = assert!(size_of::<Header>() <= 4096);
const _: () = assert!(size_of::<ExecRecord>() == 64);
