//! The environment of a new image that must not load this library.
//!
//! Invariant: the caller's own array and strings stay as they are: a vfork child has its parent's memory. Without a
//! reason the caller's environment goes on as it is.
//! unsafe: reads files' headers, and the caller's environment once the kernel says that it can be read.
//! Not here: what becomes of pipes over an exec (exec.rs). Source: elf(5), ld.so(8), execve(2).
use crate::access;
use crate::attach::{self, text};
use crate::programs;
use crate::shadow::Status;
use byway_mem::known;
use byway_pipe::reason::Reason;
use byway_sys::cached::{self, flag};
use byway_sys::errno::failed;
use byway_sys::syscall::{call3, call6, nr};
use byway_sys::{file, process};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::Relaxed};

/// This library's name, as the loader has it from LD_PRELOAD.
#[unsafe(link_section = ".data")]
pub static OWN: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());
/// The effective user at the start.
#[unsafe(link_section = ".data")]
pub static USER: AtomicU32 = AtomicU32::new(0);
/// Whether this process, or a vfork child of it, has changed ids, root or name spaces.
#[unsafe(link_section = ".data")]
pub static MOVED: AtomicBool = AtomicBool::new(false);

const AT_FDCWD: usize = -100isize as usize;
const O_CLOEXEC: usize = 0o2000000;
const O_NONBLOCK: usize = 0o4000;
const VARIABLE: &[u8] = b"LD_PRELOAD=";
/// Longest value that is taken apart.
const VALUE: usize = 4096;

/// A copy of an environment, until it is given back.
#[derive(Clone, Copy)]
pub struct Copy {
    at: usize,
    bytes: usize,
}

impl Copy {
    pub const NONE: Copy = Copy { at: 0, bytes: 0 };

    /// As execve(2) wants it.
    pub fn address(self) -> usize {
        self.at
    }

    /// Takes it out of memory.
    pub fn give_back(self) {
        if self.bytes != 0 {
            // SAFETY: a mapping of `without`, which nobody uses any more.
            unsafe { call3(nr::MUNMAP, self.at, self.bytes, 0) };
        }
    }
}

/// The environment at `envp` without this library, if the program at `path` (below `dir`) must not load it, or need not: a
/// self-contained program without a pipe of ours, or one that a setting leaves alone. `takes_pipes`: it may have one.
#[inline(never)]
pub fn bare(dir: usize, path: usize, envp: usize, takes_pipes: bool) -> Option<Copy> {
    let own = OWN.load(Relaxed);
    if own.is_null() {
        return None;
    }
    // LINUX capabilities(7): what a changed user may still open the new image may not. Another user joins no domain anyway.
    let cannot = || process::geteuid() != USER.load(Relaxed) || !can_open(own as usize);
    let is_gone = file::absent(own as usize);
    let known = known_of(dir, path);
    let must_not = || MOVED.load(Relaxed) && cannot() || known == 0 && wants_to_be_first(dir, path);
    let is_left = || programs::leaves(dir, path, envp);
    if is_gone || is_left() || !takes_pipes && known & flag::SELF_CONTAINED != 0 || must_not() {
        without(envp, text(own))
    } else {
        None
    }
}

/// What is known of the program at `path` below `dir`; 0 if nothing is.
fn known_of(dir: usize, path: usize) -> u64 {
    let mut st: Status = [0; 18];
    // SAFETY: the kernel checks the path; `st` has the size of struct stat.
    let r = unsafe { call6(nr::NEWFSTATAT, dir, path, st.as_mut_ptr() as usize, 0, 0, 0) };
    match attach::domain() {
        Some(d) if !failed(r) => known::of(&d, cached::identity(&st, &[])),
        _ => 0,
    }
}

fn can_open(path: usize) -> bool {
    let fd = open(AT_FDCWD, path);
    fd.inspect(|&fd| file::close(fd)).is_some()
}

fn open(dir: usize, path: usize) -> Option<usize> {
    let how = O_CLOEXEC | O_NONBLOCK;
    // SAFETY: OPENAT checks the path.
    let fd = unsafe { call6(nr::OPENAT, dir, path, how, 0, 0, 0) };
    (!failed(fd)).then_some(fd as usize)
}

/// Reads at `offset`; how many bytes.
fn read(fd: usize, buf: &mut [u8], offset: usize) -> usize {
    const PREAD64: usize = 17;
    // SAFETY: into our buffer.
    let n = unsafe {
        call6(
            PREAD64,
            fd,
            buf.as_mut_ptr() as usize,
            buf.len(),
            offset,
            0,
            0,
        )
    };
    n.max(0) as usize
}

/// Bytes that are read of a file's begin (header and thirteen segments), and of its dynamic table at a time: a
/// handler's stack may be small.
pub const HEAD: usize = 64 + 13 * SEGMENT;
const PIECE: usize = 256;
/// Size of an entry of the table of segments.
const SEGMENT: usize = 56;

/// Whether the program at `path` brings a runtime that ends it unless it is the first of all libraries:
/// AddressSanitizer's. Such a program has it as its first one.
fn wants_to_be_first(dir: usize, path: usize) -> bool {
    let is_asan = each_of(dir, path, |fd, head, _| {
        if !is_elf(head) {
            return None;
        }
        if !has_interpreter(head) {
            let mut path = [0; 256];
            let n = file::link(fd, &mut path);
            attach::starts_bare(&path[..n], Reason::Bare);
        }
        let is = |n: [u8; 32]| n.starts_with(b"libasan.so") || n.starts_with(b"libclang_rt.asan");
        Some(first_needed(fd, head).is_some_and(is))
    });
    is_asan.unwrap_or(false)
}

/// Asks `found` of the file at `path` below `dir`, and of the interpreters of scripts, until it says something: of each
/// file the descriptor, how it begins, and its path as it is called.
pub fn each_of<T>(
    dir: usize,
    path: usize,
    mut found: impl FnMut(usize, &[u8; HEAD], usize) -> Option<T>,
) -> Option<T> {
    const SCRIPTS: usize = 4;
    let mut head = [0u8; HEAD];
    // LINUX execve(2): a script's first line counts up to there.
    let mut called = [0u8; 256];
    let mut next = (dir, path);
    for _ in 0..=SCRIPTS {
        let fd = open(next.0, next.1)?;
        let n = read(fd, &mut head, 0);
        let said = found(fd, &head, next.1);
        file::close(fd);
        if said.is_some() || !head.starts_with(b"#!") {
            return said;
        }
        // LINUX execve(2): the interpreter's path ends at a blank.
        let skip = head[2..n]
            .iter()
            .take_while(|c| c.is_ascii_whitespace())
            .count();
        let begin = 2 + skip;
        let len = head[begin..n].iter().position(u8::is_ascii_whitespace)?;
        called[len.min(255)..].fill(0);
        called
            .get_mut(..len)?
            .copy_from_slice(&head[begin..begin + len]);
        next = (AT_FDCWD, called.as_ptr() as usize);
    }
    None
}

/// Whether the ELF file that begins with `head` names a loader, as far as the head tells.
fn has_interpreter(head: &[u8; HEAD]) -> bool {
    const INTERP: u64 = 3;
    let half = |at: usize| word(head, at).map_or(0, |w| (w & 0xffff) as usize);
    let (at, many) = (word(head, 32).unwrap_or(0) as usize, half(56));
    let kind = |k: usize| word(head, at.checked_add(k * SEGMENT)?).map(|w| w & 0xffff_ffff);
    (0..many).any(|k| kind(k).is_none_or(|kind| kind == INTERP))
}

fn is_elf(head: &[u8]) -> bool {
    head.starts_with(b"\x7fELF\x02")
}

/// The beginning of the name that an ELF file's first DT_NEEDED has. `head`: how the file begins.
fn first_needed(fd: usize, head: &[u8; HEAD]) -> Option<[u8; 32]> {
    const LOAD: u64 = 1;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    const STRTAB: u64 = 5;
    /// A program has some thirty.
    const ENTRIES: u64 = 256;
    let at = word(head, 32)? as usize;
    let many = (word(head, 56)? & 0xffff) as usize;
    let segment = |k: usize| {
        let h = head.get(at.checked_add(k * SEGMENT)?..)?.get(..SEGMENT)?;
        Some((
            word(h, 0)? & 0xffff_ffff,
            word(h, 8)?,
            word(h, 16)?,
            word(h, 32)?,
        ))
    };
    let segments = || (0..many).map_while(segment);
    let (_, table, _, size) = segments().find(|s| s.0 == DYNAMIC)?;
    let (mut needed, mut strings) = (None, None);
    let mut piece = [0u8; PIECE];
    let mut offset = 0;
    while offset < size.min(16 * ENTRIES) && (needed.is_none() || strings.is_none()) {
        let got = read(fd, &mut piece, (table + offset) as usize);
        for e in piece[..got].chunks_exact(16) {
            match word(e, 0)? {
                NEEDED if needed.is_none() => needed = word(e, 8),
                STRTAB => strings = word(e, 8),
                _ => {}
            }
        }
        // A program that needs nothing first needs nothing.
        needed?;
        offset += PIECE as u64;
    }
    let strings = strings?;
    let holds = |s: &(u64, u64, u64, u64)| s.0 == LOAD && strings >= s.2 && strings - s.2 < s.3;
    let (_, offset, vaddr, _) = segments().find(holds)?;
    let at = (strings - vaddr)
        .checked_add(offset)?
        .checked_add(needed?)?;
    let mut name = [0u8; 32];
    read(fd, &mut name, at as usize);
    Some(name)
}

fn word(b: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?))
}

/// Where the strings of an environment are, as far as it can be read.
pub fn entries(envp: usize) -> impl Iterator<Item = usize> {
    (0..)
        .map_while(move |k| entry(envp, k))
        .take_while(|&p| p != 0)
}

/// Entry `k` of the environment at `envp`.
fn entry(envp: usize, k: usize) -> Option<usize> {
    let at = envp.checked_add(k * 8)?;
    // SAFETY: asked for.
    access::allowed(at, 8, false).then(|| unsafe { (at as *const usize).read_unaligned() })
}

/// A copy of the environment without `own` in LD_PRELOAD; None if it is not there, or cannot be read.
fn without(envp: usize, own: &[u8]) -> Option<Copy> {
    let mut many = 0;
    let mut preload = None;
    loop {
        let p = entry(envp, many)?;
        if p == 0 {
            break;
        }
        if preload.is_none() && access::allowed(p, VARIABLE.len(), false) {
            // SAFETY: asked for.
            let begin = unsafe { core::slice::from_raw_parts(p as *const u8, VARIABLE.len()) };
            preload = (begin == VARIABLE).then_some(many);
        }
        many += 1;
    }
    let preload = preload?;
    let bytes = ((many + 1) * 8 + VARIABLE.len() + VALUE).next_multiple_of(4096);
    // SAFETY: a new mapping.
    let at = unsafe { call6(nr::MMAP, 0, bytes, 3, 0x22, usize::MAX, 0) };
    if failed(at) {
        return None;
    }
    let copy = Copy {
        at: at as usize,
        bytes,
    };
    // SAFETY: room for the pointers, their end and the string; nobody else has the mapping.
    let (list, value) = unsafe {
        let list = core::slice::from_raw_parts_mut(copy.at as *mut usize, many + 1);
        let value = (copy.at + (many + 1) * 8) as *mut u8;
        (
            list,
            core::slice::from_raw_parts_mut(value, VARIABLE.len() + VALUE),
        )
    };
    for (k, to) in list[..many].iter_mut().enumerate() {
        *to = entry(envp, k).unwrap_or(0);
    }
    value[..VARIABLE.len()].copy_from_slice(VARIABLE);
    let mut n = VARIABLE.len();
    let old = &text(list[preload] as *const u8)[VARIABLE.len()..];
    let own = &own[..own.len() - 1];
    // LINUX ld.so(8): separated by spaces or colons.
    for item in old[..old.len() - 1].split(|c| matches!(c, b':' | b' ')) {
        if item.is_empty() || item == own || n + item.len() + 2 > value.len() {
            continue;
        }
        if n > VARIABLE.len() {
            value[n] = b':';
            n += 1;
        }
        value[n..n + item.len()].copy_from_slice(item);
        n += item.len();
    }
    if n > VARIABLE.len() {
        list[preload] = value.as_ptr() as usize;
    } else {
        list[preload..].rotate_left(1);
        list[many - 1] = 0;
    }
    Some(copy)
}
