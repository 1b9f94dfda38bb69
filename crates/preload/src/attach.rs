//! Start: join the domain named in the environment, map the rewritten texts, and only then take part.
//!
//! Invariant: a process takes part only if the text of every loaded object is known to the cache: clean, or rewritten
//! and mapped. Anything else leaves the process, and thereby every pipe it holds, to the kernel.
//! unsafe: maps over libc's text while nothing but this code runs. Not here: how a text is rewritten.
//!
//! The constructor runs before every other one (-z initfirst), on the only thread, and calls no libc function between
//! the first and the last mapping but `dl_iterate_phdr` before them.
use crate::entry::{byway_bridge, byway_entry};
use crate::{class, exec};
use byway_mem::domain::Domain;
use byway_mem::layout::flags;
use byway_mem::participants;
use byway_sys::errno::failed;
use byway_sys::path::Path;
use byway_sys::process;
use byway_sys::syscall::{call3, call6, nr};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

global_asm!(
    ".weak dl_iterate_phdr",
    ".section .init_array.00001,\"aw\",@init_array",
    ".quad {start}",
    ".text",
    start = sym start,
);

#[repr(C)]
struct PhdrInfo {
    addr: usize,
    name: *const u8,
    phdr: *const [u64; 7],
    phnum: u16,
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        f: extern "C" fn(*const PhdrInfo, usize, *mut Objects) -> i32,
        data: *mut Objects,
    ) -> i32;
}

/// Written once, by the constructor, before any other thread runs.
struct Joined(UnsafeCell<Option<Domain>>);
// SAFETY: only read after `start`, which alone writes it.
unsafe impl Sync for Joined {}

static DOMAIN: Joined = Joined(UnsafeCell::new(None));
static RUN_ID: AtomicU32 = AtomicU32::new(0);
/// Whether this process takes part.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether this process takes part.
pub fn active() -> bool {
    ACTIVE.load(Relaxed)
}

/// The domain, once joined.
pub fn domain() -> Option<Domain> {
    // SAFETY: see `Joined`.
    unsafe { *DOMAIN.0.get() }
}

/// The run that this process belongs to.
pub fn run() -> u32 {
    RUN_ID.load(Relaxed)
}

/// From now on every call runs as it stands.
pub fn stop() {
    ACTIVE.store(false, Relaxed);
    class::forget();
    if let Some(d) = domain() {
        participants::leave(&d, process::getpid());
    }
}

const OBJECTS: usize = 96;

#[repr(C)]
struct Objects {
    n: usize,
    over: bool,
    base: [usize; OBJECTS],
    name: [usize; OBJECTS],
}

/// glibc passes argc, argv and envp to constructors.
extern "C" fn start(_argc: i32, _argv: *const *const u8, envp: *const *const u8) {
    if envp.is_null() {
        return;
    }
    let Some(path) = variable(envp, b"BYWAY=") else {
        return;
    };
    let (name, run) = split(path);
    let Ok(d) = Domain::join(&name) else { return };
    RUN_ID.store(run, Relaxed);
    // SAFETY: a constructor: there is one thread, and it is here.
    unsafe { *DOMAIN.0.get() = Some(d) };
    if d.header().flags.load(Relaxed) & flags::NO_REWRITE == 0 && map_all(d) {
        crate::dispatch::look_for_handlers();
        crate::io::KEEPS.store(byway_sys::barrier::register(), Relaxed);
        ACTIVE.store(true, Relaxed);
        exec::enter_image();
        crate::io::look();
    }
}

/// FILE:RUN as `byway run` passes it: the NUL-terminated file name, and the number.
fn split(value: &[u8]) -> ([u8; 512], u32) {
    let mut name = [0; 512];
    let end = value.iter().rposition(|&c| c == b':').unwrap_or(0);
    if end < name.len() {
        name[..end].copy_from_slice(&value[..end]);
    }
    let digits = value[end..].iter().filter(|c| c.is_ascii_digit());
    let run = digits.fold(0u32, |n, c| {
        n.wrapping_mul(10).wrapping_add((c - b'0') as u32)
    });
    (name, run)
}

/// The value of `name` (with its `=`) in the environment, NUL included.
fn variable(envp: *const *const u8, name: &[u8]) -> Option<&'static [u8]> {
    for k in 0.. {
        // SAFETY: envp ends with a null pointer; each entry is a C string.
        let e = unsafe { *envp.add(k) };
        if e.is_null() {
            return None;
        }
        let s = text(e);
        if s.starts_with(name) {
            return Some(&s[name.len()..]);
        }
    }
    None
}

/// A C string with its NUL.
fn text(p: *const u8) -> &'static [u8] {
    let mut n = 0;
    // SAFETY: the caller's string ends with NUL.
    unsafe {
        while *p.add(n) != 0 {
            n += 1;
        }
        core::slice::from_raw_parts(p, n + 1)
    }
}

extern "C" fn note(info: *const PhdrInfo, _size: usize, out: *mut Objects) -> i32 {
    // SAFETY: both pointers are valid for the call (dl_iterate_phdr(3)).
    let (info, out) = unsafe { (&*info, &mut *out) };
    if out.n == OBJECTS {
        out.over = true;
        return 1;
    }
    out.base[out.n] = info.addr;
    out.name[out.n] = info.name as usize;
    out.n += 1;
    0
}

/// Maps what must be mapped; false if some object is not known.
fn map_all(d: Domain) -> bool {
    let mut o = Objects {
        n: 0,
        over: false,
        base: [0; OBJECTS],
        name: [0; OBJECTS],
    };
    let f: unsafe extern "C" fn(_, _) -> i32 = dl_iterate_phdr;
    if f as usize == 0 {
        return false;
    }
    // SAFETY: `note` fits; `o` lives over the call.
    unsafe { dl_iterate_phdr(note, &mut o) };
    if o.over {
        return false;
    }
    let mut shadow = [0usize; OBJECTS];
    for k in 0..o.n {
        let name = text(o.name[k] as *const u8);
        if name.starts_with(b"linux-vdso") || ends_with(name, b"libbyway_preload.so\0") {
            continue;
        }
        let path = if name.len() == 1 {
            b"/proc/self/exe\0"
        } else {
            name
        };
        match verdict(d, path) {
            Verdict::Clean => {}
            Verdict::Shadow(fd) => shadow[k] = fd + 1,
            Verdict::Unknown => return false,
        }
    }
    // First what is beside the texts, then, when nothing can fail any more for want of room, the texts.
    for k in 0..o.n {
        if shadow[k] != 0 && !map_stubs(shadow[k] - 1, o.base[k]) {
            return false;
        }
    }
    let mut ok = true;
    for k in 0..o.n {
        if shadow[k] != 0 {
            ok &= map_text(shadow[k] - 1, o.base[k]);
            // SAFETY: our own fd.
            unsafe { call3(nr::CLOSE, shadow[k] - 1, 0, 0) };
        }
    }
    ok
}

fn ends_with(s: &[u8], tail: &[u8]) -> bool {
    s.len() >= tail.len() && &s[s.len() - tail.len()..] == tail
}

enum Verdict {
    Clean,
    /// The open cache file.
    Shadow(usize),
    Unknown,
}

/// What the cache says of the file at `path`; asks the run's creator once if it says nothing.
fn verdict(d: Domain, path: &[u8]) -> Verdict {
    let mut st = [0u64; 18];
    // SAFETY: `path` is NUL terminated; `st` has the size of struct stat.
    if failed(unsafe { call3(4, path.as_ptr() as usize, st.as_mut_ptr() as usize, 0) }) {
        return Verdict::Unknown;
    }
    match cached(d, &st) {
        Verdict::Unknown if wanted(d, path) => cached(d, &st),
        v => v,
    }
}

/// dev, ino, mtime seconds and nanoseconds, size: the key of a cache file, in hex.
fn cached(d: Domain, st: &[u64; 18]) -> Verdict {
    let mut path = [0u8; 640];
    let mut n = 0;
    for &c in d.header().cache_dir.iter().take_while(|&&c| c != 0) {
        path[n] = c;
        n += 1;
    }
    for (k, (v, digits)) in [
        (st[0], 16),
        (st[1], 16),
        (st[11], 16),
        (st[12], 8),
        (st[6], 16),
    ]
    .into_iter()
    .enumerate()
    {
        path[n] = if k == 0 { b'/' } else { b'-' };
        n += 1;
        for i in (0..digits).rev() {
            path[n] = b"0123456789abcdef"[(v >> (4 * i) & 15) as usize];
            n += 1;
        }
    }
    path[n..n + 3].copy_from_slice(b".v2");
    // SAFETY: NUL terminated; buffers are ours.
    unsafe {
        let fd = call6(
            nr::OPENAT,
            -100isize as usize,
            path.as_ptr() as usize,
            0o2400000,
            0,
            0,
            0,
        );
        if failed(fd) {
            return Verdict::Unknown;
        }
        let fd = fd as usize;
        let h = head(fd);
        let mut own = [0u64; 18];
        let ok = !failed(call3(nr::FSTAT, fd, own.as_mut_ptr() as usize, 0));
        let uid = (own[3] >> 32) as isize;
        let ours = ok && (uid == call3(nr::GETEUID, 0, 0, 0) || uid == 0) && own[3] & 0o022 == 0;
        match h {
            Some(h) if ours && h.kind == 1 => return Verdict::Shadow(fd),
            Some(h) if ours && h.kind == 0 => {
                call3(nr::CLOSE, fd, 0, 0);
                return Verdict::Clean;
            }
            _ => {}
        }
        call3(nr::CLOSE, fd, 0, 0);
    }
    Verdict::Unknown
}

/// Has the run's creator look at a file; true when it has answered.
fn wanted(d: Domain, path: &[u8]) -> bool {
    let h = d.header();
    if path.len() >= h.scan_path.len()
        || path[0] != b'/'
        || process::is_dead(h.creator.load(Relaxed))
    {
        return false;
    }
    let me = process::gettid();
    for _ in 0..2000 {
        let owner = h.scan_lock.load(Relaxed);
        // ORDER: the path is written between taking the lock and raising `scan_wanted`.
        if owner == 0
            && h.scan_lock
                .compare_exchange(0, me, core::sync::atomic::Ordering::AcqRel, Relaxed)
                .is_ok()
        {
            let real = resolve(path);
            let p = h.scan_path.as_ptr() as *mut u8;
            for (k, &c) in real.0[..real.1].iter().enumerate() {
                // SAFETY: inside the field; the lock makes us the only writer.
                unsafe { p.add(k).write_volatile(c) };
            }
            // ORDER: the path before the request.
            let ticket = h
                .scan_wanted
                .fetch_add(1, core::sync::atomic::Ordering::Release)
                + 1;
            // SAFETY: FUTEX_WAKE of a word in the domain.
            unsafe { call3(nr::FUTEX, h.scan_wanted.as_ptr() as usize, 1, 1) };
            let mut done = false;
            for _ in 0..4000 {
                // ORDER: the cache file was written before the answer.
                if h.scan_done.load(core::sync::atomic::Ordering::Acquire) == ticket {
                    done = true;
                    break;
                }
                process::nap(200);
            }
            // ORDER: the next writer of the path comes after us.
            h.scan_lock.store(0, core::sync::atomic::Ordering::Release);
            return done;
        }
        if owner != 0 && process::is_dead(owner) {
            let _ = h.scan_lock.compare_exchange(owner, 0, Relaxed, Relaxed);
        }
        process::nap(200);
    }
    false
}

/// The path as another process can open it: /proc/self/exe by its target.
fn resolve(path: &[u8]) -> ([u8; 1024], usize) {
    let mut out = [0u8; 1024];
    if path == b"/proc/self/exe\0" {
        // SAFETY: READLINK of a NUL-terminated path into our buffer.
        let n = unsafe { call3(89, path.as_ptr() as usize, out.as_mut_ptr() as usize, 1023) };
        if n > 0 {
            return (out, n as usize + 1);
        }
    }
    let n = path.len().min(1024);
    out[..n].copy_from_slice(&path[..n]);
    (out, n)
}

struct Head {
    kind: u32,
    text_vaddr: usize,
    text_len: usize,
    text_off: usize,
    stub_len: usize,
    stub_off: usize,
    stub_disp: usize,
    cell_off: usize,
}

fn head(fd: usize) -> Option<Head> {
    let mut h = [0u64; 16];
    // SAFETY: pread(2) into our buffer.
    let n = unsafe { call6(17, fd, h.as_mut_ptr() as usize, 128, 0, 0, 0) };
    if n != 128 || h[0] != u64::from_le_bytes(*b"BYWAYSH1") {
        return None;
    }
    let u = |k: usize| h[k] as usize;
    Some(Head {
        kind: h[1] as u32,
        text_vaddr: u(2),
        text_len: u(3),
        text_off: u(4),
        stub_len: u(5),
        stub_off: u(6),
        stub_disp: u(7),
        cell_off: u(8),
    })
}

const READ_EXEC: usize = 5;
const PRIVATE: usize = 2;
const FIXED: usize = 0x10;
const FIXED_NOREPLACE: usize = 0x10_0000;

fn map_stubs(fd: usize, base: usize) -> bool {
    let Some(h) = head(fd) else { return false };
    let at = (base + h.text_vaddr).wrapping_sub(h.stub_disp);
    let cell = at + h.cell_off;
    // SAFETY: new mappings at places that the kernel says are free; the cell's page is ours.
    unsafe {
        let m = call6(
            nr::MMAP,
            at,
            h.stub_len,
            READ_EXEC,
            PRIVATE | FIXED_NOREPLACE,
            fd,
            h.stub_off,
        );
        if m != at as isize {
            return false;
        }
        let c = call6(
            nr::MMAP,
            cell,
            4096,
            3,
            PRIVATE | FIXED_NOREPLACE | 0x20,
            usize::MAX,
            0,
        );
        if c != cell as isize {
            return false;
        }
        let cells = cell as *mut usize;
        cells.write(byway_entry as *const () as usize);
        cells.add(1).write(byway_bridge as *const () as usize);
    }
    true
}

fn map_text(fd: usize, base: usize) -> bool {
    let Some(h) = head(fd) else { return false };
    let at = base + h.text_vaddr;
    // SAFETY: replaces the text by the same text but for the rewritten sites, whose stubs are there already.
    let m = unsafe {
        call6(
            nr::MMAP,
            at,
            h.text_len,
            READ_EXEC,
            PRIVATE | FIXED,
            fd,
            h.text_off,
        )
    };
    m == at as isize
}

/// Whether the file behind `fd`, about to be mapped as code, has nothing that would need rewriting.
pub fn known_code(fd: usize) -> bool {
    let Some(d) = domain() else { return true };
    let mut st = [0u64; 18];
    // SAFETY: `st` has the size of struct stat.
    if failed(unsafe { call3(nr::FSTAT, fd, st.as_mut_ptr() as usize, 0) }) {
        return false;
    }
    let mut v = cached(d, &st);
    if matches!(v, Verdict::Unknown) {
        let link = Path::fd(fd);
        let mut path = [0u8; 1024];
        // SAFETY: READLINK of a NUL-terminated path into our buffer.
        let len = unsafe { call3(89, link.address(), path.as_mut_ptr() as usize, 1022) };
        if len > 0 && wanted(d, &path[..len as usize + 1]) {
            v = cached(d, &st);
        }
    }
    match v {
        Verdict::Clean => true,
        Verdict::Shadow(fd) => {
            crate::attach::close(fd);
            false
        }
        Verdict::Unknown => false,
    }
}

fn close(fd: usize) {
    byway_sys::file::close(fd);
}
