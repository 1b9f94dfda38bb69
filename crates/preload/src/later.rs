//! Code that comes after the start: libraries that are opened, and code that is made.
//!
//! Invariant: what a call makes executable is known before the call comes back: it has nothing to rewrite, or its rewritten
//! texts lie in its place. Else the process resigns first. The address of a new mapping is nobody's before that.
//! unsafe: makes the caller's own mmap and munmap, and maps over what the caller has just mapped.
//! Not here: what the cache has (shadow.rs), what is loaded at the start (objects.rs).
use crate::entry::{DONE, Frame, RUN, VM_EPOCH};
use crate::shadow::{self, Shadow, Verdict};
use crate::{attach, class, exec};
use byway_pipe::reason::Reason;
use byway_sys::cached::flag;
use byway_sys::errno::failed;
use byway_sys::mappings;
use byway_sys::syscall::{call3, call6, nr};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

const PROT_WRITE: usize = 2;
const PROT_EXEC: usize = 4;
const MAP_TYPE: usize = 15;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
const MAP_ANONYMOUS: usize = 0x20;
/// LINUX without meaning to the kernel; only loaders say so.
const MAP_DENYWRITE: usize = 0x800;

/// Whether an object is loaded that makes code at run time, of which it is known that it makes no system call.
#[unsafe(link_section = ".data")]
static MAKES_CODE: AtomicBool = AtomicBool::new(false);

/// An object of which this is known is loaded.
pub fn loaded(flags: u64) {
    if flags & flag::MAKES_CODE != 0 {
        MAKES_CODE.store(true, Relaxed);
    }
}

/// mmap(2): new code must be known code; a fixed mapping takes memory away.
// A handler's stack may be small: this one's is not to be part of every call's.
#[inline(never)]
pub fn maps(f: &mut Frame) -> u32 {
    let [at, len, prot, flags, fd, _] = f.args;
    if flags & MAP_FIXED != 0 {
        VM_EPOCH.fetch_add(1, Relaxed);
        if prot & PROT_EXEC == 0 && is_place_of_some(at, len) {
            return takes(f);
        }
    }
    if prot & PROT_EXEC == 0 {
        return RUN;
    }
    if flags & MAP_ANONYMOUS != 0 {
        return made();
    }
    if flags & MAP_TYPE != MAP_PRIVATE {
        // Whoever has the file writes code.
        return resigns();
    }
    match attach::domain().map(|d| shadow::of_file(d, fd)) {
        None => RUN,
        Some(Verdict::Clean { flags }) => {
            loaded(flags);
            if prot & PROT_WRITE != 0 { made() } else { RUN }
        }
        Some(Verdict::Shadow(s)) => opened(f, &s),
        Some(Verdict::Unable | Verdict::Unknown) => {
            exec::give_up_for(fd);
            RUN
        }
    }
}

/// mprotect(2) and pkey_mprotect(2) with PROT_EXEC: what a file's pages hold by now, nobody knows.
#[inline(never)]
pub fn protects(f: &mut Frame) -> u32 {
    let (from, to) = (f.args[0], f.args[0].saturating_add(f.args[1]));
    let mut of_file = false;
    let whole = mappings::within(from, to, &mut |m| of_file |= m.inode != 0 || m.device != 0);
    if whole && !of_file { made() } else { resigns() }
}

/// munmap(2), once an object was mapped later: its stubs go with its text.
#[inline(never)]
pub fn unmaps(f: &mut Frame) -> u32 {
    VM_EPOCH.fetch_add(1, Relaxed);
    if is_place_of_some(f.args[0], f.args[1]) {
        takes(f)
    } else {
        RUN
    }
}

/// Memory without a file becomes code: what the program makes there must be known to make no system call.
fn made() -> u32 {
    if MAKES_CODE.load(Relaxed) {
        RUN
    } else {
        resigns()
    }
}

fn resigns() -> u32 {
    exec::give_up_all(Reason::Code, false);
    RUN
}

/// The caller maps a part of an object whose rewritten texts `s` has.
fn opened(f: &mut Frame, s: &Shadow) -> u32 {
    let [_, len, prot, flags, _, offset] = f.args;
    let Some(len) = len.checked_next_multiple_of(4096) else {
        return RUN;
    };
    let part = s.part(offset, len);
    if flags & MAP_DENYWRITE == 0 || prot & PROT_WRITE != 0 || part.is_cut {
        return resigns();
    }
    let Some(base) = part.base else { return RUN };
    let map = |at, flags| {
        // SAFETY: the caller's own call, or once more over what it has mapped.
        unsafe { call6(nr::MMAP, at, len, prot, flags, f.args[4], offset) }
    };
    let r = map(f.args[0], flags);
    if !failed(r) && !place(s, (r as usize).wrapping_add(base), offset, len) {
        // LINUX mmap(2) MAP_FIXED: where it fails there may be nothing any more.
        map(r as usize, flags | MAP_FIXED);
        resigns();
    }
    f.result = r;
    DONE
}

/// Objects with rewritten texts that are mapped later, at one time; one more, and the process resigns.
const PLACES: usize = 256;

/// Where one of them lies.
struct Place {
    state: AtomicU32,
    /// From its first rewritten text to the end of its last.
    text: AtomicUsize,
    end: AtomicUsize,
    stubs: AtomicUsize,
    stubs_len: AtomicUsize,
    /// The cache's file.
    file: AtomicUsize,
}

const FREE: u32 = 0;
/// Somebody writes or removes it. A child that is forked meanwhile has one place less.
const TAKEN: u32 = 1;
const THERE: u32 = 2;
/// Its text is being taken away.
const GOES: u32 = 3;

static PLACED: [Place; PLACES] = [const {
    Place {
        state: AtomicU32::new(FREE),
        text: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        stubs: AtomicUsize::new(0),
        stubs_len: AtomicUsize::new(0),
        file: AtomicUsize::new(0),
    }
}; PLACES];
/// So many from the first on were ever used.
#[unsafe(link_section = ".data")]
static USED: AtomicUsize = AtomicUsize::new(0);

fn in_state(state: u32) -> impl Iterator<Item = &'static Place> {
    let used = USED.load(Relaxed);
    // ORDER: a place's words were written before its state said so.
    PLACED[..used]
        .iter()
        .filter(move |p| p.state.load(Acquire) == state)
}

/// Maps the stubs, unless they are there for another text of the object, and the texts in the mapping of [offset, +len).
fn place(s: &Shadow, base: usize, offset: usize, len: usize) -> bool {
    let (stubs, stubs_len) = s.stubs(base);
    let known = |p: &Place| p.stubs.load(Relaxed) == stubs && p.file.load(Relaxed) == s.file();
    if !in_state(THERE).any(known) {
        // RELAXED: the words that follow are for whoever finds the state THERE.
        let claims = |p: &&Place| {
            p.state
                .compare_exchange(FREE, TAKEN, Relaxed, Relaxed)
                .is_ok()
        };
        let Some((k, p)) = PLACED.iter().enumerate().find(|(_, p)| claims(p)) else {
            return false;
        };
        if !s.map_stubs(base) {
            p.state.store(FREE, Relaxed);
            return false;
        }
        let (text, end) = s.range(base);
        p.text.store(text, Relaxed);
        p.end.store(end, Relaxed);
        p.stubs.store(stubs, Relaxed);
        p.stubs_len.store(stubs_len, Relaxed);
        p.file.store(s.file(), Relaxed);
        // ORDER: its words before its state.
        p.state.store(THERE, Release);
        USED.fetch_max(k + 1, Relaxed);
        class::looks_at_munmap();
    }
    VM_EPOCH.fetch_add(1, Relaxed);
    s.map_part(base, offset, len)
}

/// Whether [at, at + len) has all of a later object's text.
fn is_place_of_some(at: usize, len: usize) -> bool {
    in_state(THERE).any(|p| is_within(p, at, len))
}

fn is_within(p: &Place, at: usize, len: usize) -> bool {
    let end = at.saturating_add(len);
    at <= p.text.load(Relaxed) && p.end.load(Relaxed) <= end
}

/// Makes the caller's munmap, or fixed mmap, over later objects' texts, and takes their stubs away. Nobody takes them for
/// its own meanwhile.
fn takes(f: &mut Frame) -> u32 {
    let [a, b, c, d, e, g] = f.args;
    let turn = |p: &Place, from, to| {
        // RELAXED: whoever turns it reads its words, which are older.
        is_within(p, a, b) && p.state.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    };
    in_state(THERE).for_each(|p| {
        turn(p, THERE, GOES);
    });
    // SAFETY: the caller's own call.
    f.result = unsafe { call6(f.nr, a, b, c, d, e, g) };
    if failed(f.result) {
        in_state(GOES).for_each(|p| {
            turn(p, GOES, THERE);
        });
        return DONE;
    }
    for p in in_state(GOES).filter(|p| turn(p, GOES, TAKEN)) {
        let (at, len) = (p.stubs.load(Relaxed), p.stubs_len.load(Relaxed));
        // SAFETY: the stubs are ours, and the text that jumps there is gone.
        unsafe { call3(nr::MUNMAP, at, len, 0) };
        // ORDER: its memory is free before its place is.
        p.state.store(FREE, Release);
    }
    DONE
}
