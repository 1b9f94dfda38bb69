//! Restartable sequences: three operations on the data of the CPU that runs us, each with one committing store; and a copy
//! that is not resumed after a signal handler, because what it was allowed to write may be another's then.
//!
//! ```text
//! front of a CPU     bucket                       objects
//! [loaded|prev] ---> [n|state|...|items 0..n] --> [mark|refs] one entry for every unit of the arena
//! ```
//! Invariant: between "start" and the committing store nothing is written but what is without meaning until the
//! commit: an item above n, and the marks "owned by me" of what is still in its place. If the thread is preempted,
//! moved, or takes a signal before the commit, the kernel sends it to the abort label, and it begins again. Only one
//! thread runs on a CPU at a time, so the processes of a domain may share the data of a CPU.
//! unsafe: assembly. Not here: what the fields mean (crate mem, layout.rs). Source: rseq(2), linux/rseq.h.
use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The kernel's struct rseq of this thread.
#[repr(C)]
pub struct Area {
    cpu_id_start: AtomicU32,
    cpu_id: AtomicU32,
    rseq_cs: AtomicU64,
}

/// Bounds that every sequence checks, and who makes it.
#[repr(C)]
pub struct Bounds {
    /// CPUs that have a front.
    pub cpus: u32,
    pub buckets: AtomicU32,
    /// Units of the arena.
    pub units: u32,
    /// Items that a bucket of this class holds.
    pub cap: u32,
    /// The process that marks what it takes.
    pub me: u32,
    /// For `exchange`: the bucket that leaves; `buckets` or more if none does.
    pub leaving: u32,
}

/// Bytes from one CPU's front, bucket or object entry to the next.
pub const FRONT_STRIDE: usize = 64;
pub const BUCKET_STRIDE: usize = 256;
pub const OBJECT_STRIDE: usize = 8;
/// Of a bucket: where its owner and its items stand.
pub const BUCKET_STATE: usize = 4;
pub const BUCKET_ITEMS: usize = 16;

/// This thread's area, if the C library registered it (glibc 2.35 and later, unless switched off).
#[inline]
pub fn area() -> Option<&'static Area> {
    if cfg!(miri) {
        // It has no such symbols.
        return None;
    }
    let (tp, offset, size): (usize, *const isize, *const u32);
    // Weak: a C library before 2.35 has neither. The addresses come by hand: the compiler takes the address of a
    // `static` for not null, and would leave the check out.
    // SAFETY: fs:0 holds the thread pointer (x86-64 psABI); both symbols, if they are there, are constant.
    unsafe {
        asm!(
            ".weak __rseq_offset",
            ".weak __rseq_size",
            "mov {tp}, qword ptr fs:[0]",
            "mov {offset}, qword ptr [rip + __rseq_offset@GOTPCREL]",
            "mov {size}, qword ptr [rip + __rseq_size@GOTPCREL]",
            tp = out(reg) tp,
            offset = out(reg) offset,
            size = out(reg) size,
            options(nostack, readonly, preserves_flags),
        );
        if offset.is_null() || size.is_null() || size.read() == 0 {
            return None;
        }
        let a = &*(tp.wrapping_add_signed(offset.read()) as *const Area);
        // LINUX a negative cpu_id: not registered.
        ((a.cpu_id.load(Relaxed) as i32) >= 0).then_some(a)
    }
}

impl Area {
    /// Sets a mark that is gone once the thread has lost its CPU, or taken a signal, however short it was.
    ///
    /// LINUX rseq(2): on its way back from there the kernel clears what it finds set outside of a sequence. So does who begins one.
    #[inline]
    pub fn mark(&self) {
        self.rseq_cs.store(mark_address(), Relaxed);
    }
    /// Whether the mark still stands.
    #[inline]
    pub fn is_marked(&self) -> bool {
        self.rseq_cs.load(Relaxed) == mark_address()
    }
    /// The CPU that ran this thread a moment ago.
    pub fn cpu(&self) -> u32 {
        self.cpu_id_start.load(Relaxed)
    }
}

#[inline]
fn mark_address() -> u64 {
    &raw const byway_rseq_mark_cs as u64
}

unsafe extern "C" {
    static byway_rseq_mark_cs: Critical;
    /// Takes the last item of the loaded bucket, marks it, and gives it one reference. The item; -1: there is none.
    ///
    /// `fronts` is the address of CPU 0's word of the class, `buckets` and `objects` those of the tables.
    pub fn byway_rseq_pop(
        a: &Area,
        fronts: usize,
        buckets: usize,
        objects: usize,
        b: &Bounds,
    ) -> i64;
    /// Puts `item` into the loaded bucket. 0; -1: no bucket, or it is full.
    pub fn byway_rseq_push(a: &Area, fronts: usize, buckets: usize, item: u32, b: &Bounds) -> i64;
    /// Replaces the front's word if it is still `old`, and marks the bucket that leaves. 0; -1: it was another.
    pub fn byway_rseq_exchange(
        a: &Area,
        fronts: usize,
        buckets: usize,
        old: u64,
        new: u64,
        b: &Bounds,
    ) -> i64;
}

/// What `byway_rseq_copy` says. Anything else: it was interrupted, and may be begun again.
pub const COPIED: i64 = 0;
pub const CHANGED: i64 = 1;

unsafe extern "C" {
    /// Copies `n` bytes if `word` is `expected`, and stops for good when the thread is interrupted: then it is not known how
    /// many were copied.
    pub fn byway_rseq_copy(
        a: &Area,
        to: usize,
        from: usize,
        n: usize,
        word: &AtomicU64,
        expected: u64,
    ) -> i64;
}

/// Where each sequence starts and ends, and where an aborted one goes: for tests that interrupt it everywhere.
#[repr(C)]
pub struct Critical {
    _version: u64,
    pub start: u64,
    pub length: u64,
    pub abort: u64,
}

unsafe extern "C" {
    pub static byway_rseq_pop_cs: Critical;
    pub static byway_rseq_push_cs: Critical;
    pub static byway_rseq_exchange_cs: Critical;
    pub static byway_rseq_copy_cs: Critical;
}

// 0x53053053 before the abort label is the signature that glibc registered (sys/rseq.h). What follows the label is a
// function of its own: only the kernel leads there, and the rewriter finds the sequence whole.
global_asm!(
    ".macro BYWAY_CS name",
    ".pushsection .data.rel.ro.byway_rseq, \"aw\"",
    ".balign 32",
    ".hidden \\name\\()_cs",
    ".globl \\name\\()_cs",
    "\\name\\()_cs:",
    ".long 0, 0",
    ".quad \\name\\()_start, \\name\\()_commit - \\name\\()_start, \\name\\()_abort",
    ".popsection",
    ".endm",
    ".macro BYWAY_ABORT name, insn:vararg",
    ".byte 0x0f, 0xb9, 0x3d",
    ".long 0x53053053",
    ".type \\name\\()_abort, @function",
    "\\name\\()_abort:",
    ".cfi_startproc",
    "\\insn",
    ".cfi_endproc",
    ".size \\name\\()_abort, . - \\name\\()_abort",
    ".endm",
    ".text",
    ".hidden byway_rseq_pop, byway_rseq_push, byway_rseq_exchange, byway_rseq_copy",
    ".globl byway_rseq_pop, byway_rseq_push, byway_rseq_exchange, byway_rseq_copy",
    // rdi area, rsi fronts, rdx buckets, rcx objects, r8 bounds
    "BYWAY_CS byway_rseq_pop",
    ".type byway_rseq_pop, @function",
    "byway_rseq_pop:",
    ".cfi_startproc",
    "lea rax, [rip + byway_rseq_pop_cs]",
    "mov [rdi + 8], rax",
    "byway_rseq_pop_start:",
    "mov eax, [rdi + 4]",
    "cmp eax, [r8]",
    "jae 2f",
    "shl rax, 6",
    "mov eax, [rsi + rax]",
    "dec eax",
    "cmp eax, [r8 + 4]",
    "jae 2f",
    "shl rax, 8",
    "add rax, rdx",
    "mov r11d, [rax]",
    "dec r11d",
    "cmp r11d, [r8 + 12]",
    "jae 2f",
    "mov r10d, [rax + 16 + r11*4]",
    "cmp r10d, [r8 + 8]",
    "jae 2f",
    "mov r9d, [r8 + 16]",
    "bts r9, 32",
    "mov [rcx + r10*8], r9",
    "mov [rax], r11d",
    "byway_rseq_pop_commit:",
    "mov eax, r10d",
    "ret",
    "2: mov rax, -1",
    "ret",
    ".cfi_endproc",
    ".size byway_rseq_pop, . - byway_rseq_pop",
    "BYWAY_ABORT byway_rseq_pop, jmp byway_rseq_pop",
    // rdi area, rsi fronts, rdx buckets, ecx item, r8 bounds
    "BYWAY_CS byway_rseq_push",
    ".type byway_rseq_push, @function",
    "byway_rseq_push:",
    ".cfi_startproc",
    "lea rax, [rip + byway_rseq_push_cs]",
    "mov [rdi + 8], rax",
    "byway_rseq_push_start:",
    "mov eax, [rdi + 4]",
    "cmp eax, [r8]",
    "jae 2f",
    "shl rax, 6",
    "mov eax, [rsi + rax]",
    "dec eax",
    "cmp eax, [r8 + 4]",
    "jae 2f",
    "shl rax, 8",
    "add rax, rdx",
    "mov r11d, [rax]",
    "cmp r11d, [r8 + 12]",
    "jae 2f",
    "mov [rax + 16 + r11*4], ecx",
    "inc r11d",
    "mov [rax], r11d",
    "byway_rseq_push_commit:",
    "xor eax, eax",
    "ret",
    "2: mov rax, -1",
    "ret",
    ".cfi_endproc",
    ".size byway_rseq_push, . - byway_rseq_push",
    "BYWAY_ABORT byway_rseq_push, jmp byway_rseq_push",
    // rdi area, rsi fronts, rdx buckets, rcx old, r8 new, r9 bounds
    "BYWAY_CS byway_rseq_exchange",
    ".type byway_rseq_exchange, @function",
    "byway_rseq_exchange:",
    ".cfi_startproc",
    "lea rax, [rip + byway_rseq_exchange_cs]",
    "mov [rdi + 8], rax",
    "byway_rseq_exchange_start:",
    "mov eax, [rdi + 4]",
    "cmp eax, [r9]",
    "jae 2f",
    "shl rax, 6",
    "lea r11, [rsi + rax]",
    "cmp [r11], rcx",
    "jne 2f",
    "mov eax, [r9 + 20]",
    "cmp eax, [r9 + 4]",
    "jae 3f",
    "shl rax, 8",
    "mov r10d, [r9 + 16]",
    "mov [rdx + rax + 4], r10d",
    "3: mov [r11], r8",
    "byway_rseq_exchange_commit:",
    "xor eax, eax",
    "ret",
    "2: mov rax, -1",
    "ret",
    ".cfi_endproc",
    ".size byway_rseq_exchange, . - byway_rseq_exchange",
    "BYWAY_ABORT byway_rseq_exchange, jmp byway_rseq_exchange",
    // rdi area, rsi to, rdx from, rcx n, r8 word, r9 expected
    "BYWAY_CS byway_rseq_copy",
    ".type byway_rseq_copy, @function",
    "byway_rseq_copy:",
    ".cfi_startproc",
    "lea rax, [rip + byway_rseq_copy_cs]",
    "mov r10, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    // The last before the start: what is set outside of a sequence is gone after an interruption.
    "mov [r10 + 8], rax",
    "byway_rseq_copy_start:",
    "cmp [r8], r9",
    "jne 2f",
    "rep movsb",
    "byway_rseq_copy_commit:",
    "xor eax, eax",
    "ret",
    "2: mov eax, 1",
    "ret",
    ".cfi_endproc",
    ".size byway_rseq_copy, . - byway_rseq_copy",
    "BYWAY_ABORT byway_rseq_copy, mov eax, 2; ret",
    // Nobody runs it: its bounds are a mark.
    "BYWAY_CS byway_rseq_mark",
    ".type byway_rseq_mark, @function",
    "byway_rseq_mark:",
    "byway_rseq_mark_start:",
    "nop",
    "byway_rseq_mark_commit:",
    "ret",
    ".size byway_rseq_mark, . - byway_rseq_mark",
    "BYWAY_ABORT byway_rseq_mark, jmp byway_rseq_mark",
    ".purgem BYWAY_CS",
    ".purgem BYWAY_ABORT",
);
