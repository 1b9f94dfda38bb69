//! One small block of thread-local state, reached without libc.
//!
//! Invariant: zero is the right start for a new thread. A vfork child shares its parent's block while the parent
//! sleeps, which is how it is told from the parent: the thread id in the block is not its own.
//! Not here: anything that outlives a thread.
use crate::environment::Copy;
use byway_pipe::cursor::WriteCursor;
use core::arch::{asm, global_asm};
use core::cell::{Cell, UnsafeCell};

global_asm!(
    ".section .tbss.byway,\"awT\",@nobits",
    ".balign 64",
    ".hidden byway_tls",
    ".globl byway_tls",
    ".type byway_tls, @object",
    ".size byway_tls, 256",
    "byway_tls:",
    ".zero 256",
    ".text",
);

/// Set before a fork or vfork: the next call asks who it is.
pub const FORKED: u32 = 1;
pub const VFORKED: u32 = 2;

/// A thread's block.
#[repr(C)]
pub struct Tls {
    pub mode: Cell<u32>,
    pub tid: Cell<u32>,
    /// Memory-map epoch of the ranges below.
    pub epoch: Cell<u32>,
    /// Whether the thread's place among the thread slots is its own.
    pub begun: Cell<bool>,
    /// Of reads, and of writes: the channel that such a call last found passing through.
    pub passing: [Passing; 2],
    /// Ranges known to be readable, and writable: start and end.
    pub readable: Cell<[usize; 4]>,
    pub writable: Cell<[usize; 4]>,
    /// Of the thread's last poll of one carried pipe.
    pub polled: Polled,
    /// What a vfork child of this thread has used for its new image.
    pub copy: Cell<Copy>,
    /// The list of the set that the thread waits for, plus one; 0: it does not.
    pub waits_in: Cell<u32>,
    /// Of the thread's last write that went straight through. A read has none: its pipe may be another one by the next.
    wrote: UnsafeCell<WriteCursor>,
}

impl Tls {
    /// For one write, in a process without handlers: what came of it is there for the next.
    #[expect(clippy::mut_from_ref, reason = "the block is the thread's alone")]
    pub fn wrote(&self) -> &mut WriteCursor {
        // SAFETY: the block is the thread's alone; one call of fast_path.rs has this at a time, which no handler
        // interrupts, and which does not come back here.
        unsafe { &mut *self.wrote.get() }
    }
}

const _: () = assert!(size_of::<Tls>() <= 256);

/// What the entry code must know to make a call that the tail does not count (crate pipe, pass_through.rs).
#[repr(C)]
pub struct Passing {
    /// The descriptor plus one; 0: nothing is known.
    pub fd: Cell<u32>,
    /// What the table of descriptors said of it.
    pub entry: Cell<u32>,
    /// The channel's number among bias owners, where the tail is, and the thread's place.
    pub number: Cell<u32>,
    /// Of writes: cycles between two yields to whom they wake; 0: none is made (wait/handover.rs).
    pub apart: Cell<u32>,
    pub t: Cell<usize>,
    pub slot: Cell<usize>,
}

/// When the kernel last said of a descriptor that its pipe has a writer.
#[repr(C)]
pub struct Polled {
    /// The descriptor plus one; 0: nothing is known.
    pub fd: Cell<u32>,
    /// What the table of descriptors said of it.
    pub entry: Cell<u32>,
    /// The domain's epoch of ends, and the cycle, before the kernel was asked.
    pub epoch: Cell<u32>,
    pub at: Cell<u64>,
}

/// Where the entry code finds what it knows of a list for poll(2): the epoch, and the first writable range.
pub const EPOCH_AT: usize = core::mem::offset_of!(Tls, epoch);
pub const WRITABLE_AT: usize = core::mem::offset_of!(Tls, writable);

/// Where the entry code finds them.
pub const PASSING_AT: usize = core::mem::offset_of!(Tls, passing);
const _: () = assert!(size_of::<Passing>() == 32);

/// This thread's block.
pub fn get() -> &'static Tls {
    let p: *const Tls;
    // SAFETY: initial-exec thread-local storage; fs:0 holds the thread pointer (x86-64 psABI).
    unsafe {
        asm!("mov {0}, qword ptr [rip + byway_tls@GOTTPOFF]", "add {0}, qword ptr fs:[0]", out(reg) p,
             options(nostack));
        &*p
    }
}
