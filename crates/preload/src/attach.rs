//! Start: join the domain named in the environment, map the rewritten texts, and only then take part.
//!
//! Invariant: a process takes part only if the text of every loaded object is known to the cache: clean, or rewritten
//! and mapped. Anything else leaves the process, and thereby every pipe it holds, to the kernel.
//! unsafe: reads the loader's arguments. Not here: which file an object is (objects.rs), what the cache has
//! (shadow.rs), how a text is rewritten.
//!
//! The constructor runs before every other one (-z initfirst), on the only thread, and calls no libc function between
//! the first and the last mapping but `dl_iterate_phdr` before them.
use crate::objects::{self, Objects};
use crate::shadow::{self, Verdict};
use crate::{class, environment, exec, io, later, programs, request};
use byway_mem::domain::Domain;
use byway_mem::layout::flags;
use byway_mem::{departures, known, participants};
use byway_pipe::fifo_opens;
use byway_pipe::reason::Reason;
use byway_sys::cached::{self, flag};
use byway_sys::{file, process};
use core::arch::global_asm;
use core::cell::UnsafeCell;
use core::mem::replace;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

global_asm!(
    ".section .init_array.00001,\"aw\",@init_array",
    ".quad {start}",
    ".text",
    start = sym start,
);

/// Written by the constructor, before any other thread runs, and when the process resigns.
struct Joined(UnsafeCell<Option<Domain>>);
// SAFETY: written by `start` and by `stop`, while there is one thread.
unsafe impl Sync for Joined {}

#[unsafe(link_section = ".data")]
static DOMAIN: Joined = Joined(UnsafeCell::new(None));
#[unsafe(link_section = ".data")]
static RUN_ID: AtomicU32 = AtomicU32::new(0);
/// Whether this process takes part.
#[unsafe(link_section = ".data")]
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

/// Says that this process takes no part, for `--explain`; `path` is what is behind the reason.
fn departs(why: Reason, path: &[u8]) {
    if let Some(d) = domain() {
        departures::note(&d, run(), why as u32, process::name(), path);
    }
}

/// Says that the program at `path`, which is about to start, will not load this library.
pub fn starts_bare(path: &[u8], why: Reason) {
    let Some(d) = domain() else { return };
    let base = path.rsplit(|&c| c == b'/').next().unwrap_or(path);
    // LINUX comm: the first 15 bytes.
    let word = |from: usize, most: usize| {
        let byte = |i: usize| base.get(from + i).copied().unwrap_or(0);
        u64::from_le_bytes(core::array::from_fn(|i| if i < most { byte(i) } else { 0 }))
    };
    departures::note(&d, run(), why as u32, [word(0, 8), word(8, 7)], path);
}

/// From now on every call runs as it stands, and the domain is mapped no further than somebody may still look into it. Two
/// threads may come here at once, each with a call of its own before which the process resigns: one of them does it.
pub fn stop(why: Reason, path: &[u8]) {
    if !ACTIVE.swap(false, Relaxed) {
        return;
    }
    departs(why, path);
    class::forget();
    let Some(d) = domain() else { return };
    fifo_opens::settle(&d);
    participants::leave(&d, process::getpid());
    if io::THREADS.load(Relaxed) || io::HANDLERS.load(Relaxed) {
        // Another thread, or the call that a handler has interrupted, may be on its way out of it.
        return d.unmap_unused(process::gettid());
    }
    // SAFETY: one thread, and no handler that could have interrupted a call of it. Nobody finds the domain from here on.
    unsafe {
        *DOMAIN.0.get() = None;
        d.unmap();
    }
}

/// glibc passes argc, argv and envp to constructors.
extern "C" fn start(_argc: i32, argv: *const *const u8, envp: *const *const u8) {
    if envp.is_null() {
        return;
    }
    let Some(path) = variable(envp, b"BYWAY=") else {
        return;
    };
    let (name, run) = split(path);
    objects::CALLED.store(auxiliary(envp, AT_EXECFN) as *mut u8, Relaxed);
    if process::address_space_is_limited() {
        return;
    }
    // Else its process ids would mean others to those who share its channels.
    let Ok(d) = Domain::join_if(&name, Domain::has_our_pids) else {
        return;
    };
    RUN_ID.store(run, Relaxed);
    environment::USER.store(process::geteuid(), Relaxed);
    // SAFETY: a constructor: there is one thread, and it is here.
    unsafe { *DOMAIN.0.get() = Some(d) };
    if programs::leaves_this(argv, envp) {
        return departs(Reason::LeftAlone, &[]);
    }
    let mut all = Objects::new();
    if d.header().flags.load(Relaxed) & flags::NO_REWRITE != 0 {
        return;
    }
    if let Err((why, path)) = map_all(d, &mut all) {
        let mut program = [0; 256];
        let path = match path.strip_suffix(b"\0") {
            None | Some(b"/proc/self/exe") => {
                let n = file::program(&mut program);
                &program[..n]
            }
            Some(path) => path,
        };
        departs(why, path);
    } else {
        // POSIX exec: no handler outlives it. Only what ran before this constructor can have set one.
        if all.late {
            crate::dispatch::look_for_handlers();
        }
        io::KEEPS.store(byway_sys::barrier::register(), Relaxed);
        ACTIVE.store(true, Relaxed);
        exec::enter_image(Some(objects::CALLED.load(Relaxed) as usize));
        io::look();
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
pub fn variable(envp: *const *const u8, name: &[u8]) -> Option<&'static [u8]> {
    for k in 0.. {
        // SAFETY: envp ends with a null pointer; each entry is a C string.
        let e = unsafe { *envp.add(k) };
        if e.is_null() {
            return None;
        }
        // SAFETY: no byte behind the NUL is read: it is none of the name's.
        if (name.iter().enumerate()).all(|(i, c)| unsafe { *e.add(i) } == *c) {
            return Some(&text(e)[name.len()..]);
        }
    }
    None
}

/// LINUX getauxval(3): the path that execve(2) was called with.
const AT_EXECFN: usize = 31;

/// The value of type `kind` in the auxiliary vector; 0 without one.
fn auxiliary(envp: *const *const u8, kind: usize) -> usize {
    let mut at = envp.cast::<usize>();
    // SAFETY: LINUX the vector begins behind the environment's null pointer: pairs of type and value, the last of type 0.
    unsafe {
        while *at != 0 {
            at = at.add(1);
        }
        let mut pair = at.add(1);
        while *pair != 0 && *pair != kind {
            pair = pair.add(2);
        }
        if *pair == kind { *pair.add(1) } else { 0 }
    }
}

/// A C string with its NUL.
pub fn text(p: *const u8) -> &'static [u8] {
    let mut n = 0;
    // SAFETY: the caller's string ends with NUL.
    unsafe {
        while *p.add(n) != 0 {
            n += 1;
        }
        core::slice::from_raw_parts(p, n + 1)
    }
}

/// Maps what must be mapped; why not, and which file is behind that, if some object is not known.
fn map_all(d: Domain, all: &mut Objects) -> Result<(), (Reason, &'static [u8])> {
    if !objects::loaded(all) {
        return Err((Reason::Stray, &[]));
    }
    let mut asked = false;
    for o in all.list().iter_mut().filter(|o| o.has_text()) {
        let Some(st) = o.status() else {
            return Err((Reason::Unknown, o.path()));
        };
        let identity = cached::identity(&st, o.build_id());
        let flags = known::of(&d, identity);
        if flags & flag::CLEAN != 0 {
            later::loaded(flags);
            continue;
        }
        let cached = || shadow::cached(d, &st, Some(o.build_id()));
        let verdict = match cached() {
            // Once, for all of them.
            Verdict::Unknown if !replace(&mut asked, true) && request::all(d) => cached(),
            v => v,
        };
        match verdict {
            Verdict::Clean { flags } => {
                later::loaded(flags);
                known::learn(&d, identity, flags | flag::CLEAN);
                if o.is_program() {
                    // An exec does not know the build-id.
                    known::learn(&d, cached::identity(&st, &[]), flags);
                }
            }
            Verdict::Shadow(s) => {
                later::loaded(s.flags());
                o.shadow = Some(s);
            }
            Verdict::Unable => return Err((Reason::Unable, o.path())),
            Verdict::Unknown => return Err((Reason::Unknown, o.path())),
        }
    }
    // First what is beside the texts, then, when nothing can fail any more for want of room, the texts.
    let list = &*all.list();
    let shadows = || {
        list.iter()
            .filter_map(|o| Some((o.base, o.shadow.as_ref()?)))
    };
    let mapped = shadows().all(|(base, s)| s.map_stubs(base))
        && shadows().fold(true, |ok, (base, s)| s.map_texts(base) && ok);
    match mapped {
        true => Ok(()),
        false => Err((Reason::Place, &[])),
    }
}
