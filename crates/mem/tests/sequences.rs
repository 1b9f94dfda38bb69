//! The restartable sequences interrupted at every instruction: a breakpoint in the sequence, and in its handler what
//! another thread of this CPU, or a signal handler, might do at that very moment.
//!
//! Invariant: each case counts its interruptions, and checks that the kernel took the thread to the abort label if and
//! only if it stood between start and commit. A breakpoint stands in the child's own copy of the text.
//! Not here: interruptions anywhere (timers.rs), death (death.rs), what the sequences mean (byway-sys, rseq.rs).
mod common;
use byway_mem::audit::audit;
use byway_mem::cache::{User, alloc, drain, free};
use byway_mem::layout::Class;
use byway_mem::stats;
use byway_sys::process;
use common::sequence::*;
use common::*;
use iced_x86::{Decoder, DecoderOptions};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicUsize};

/// Where the instructions begin, from the entry to the one after the commit.
fn boundaries(s: &Sequence) -> Vec<usize> {
    // SAFETY: text of this program.
    let text = unsafe { std::slice::from_raw_parts(s.entry as *const u8, s.commit + 16 - s.entry) };
    let mut v = Vec::new();
    for i in Decoder::with_ip(64, text, s.entry as u64, DecoderOptions::NONE).iter() {
        assert!(!i.is_invalid());
        if i.ip() as usize > s.commit {
            break;
        }
        v.push(i.ip() as usize);
    }
    assert!(
        v.contains(&s.start) && v.contains(&s.commit),
        "{} does not decode",
        s.name
    );
    v
}

#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(usize)]
enum Act {
    Nothing,
    /// Three interruptions at the same place.
    Again,
    Alloc,
    Free,
    AllocAndDrain,
    Yield,
    Migrate,
}
use Act::*;
const ACTS: [Act; 7] = [Nothing, Again, Alloc, Free, AllocAndDrain, Yield, Migrate];

// What the handler works with; one breakpoint at a time.
static AT: AtomicUsize = AtomicUsize::new(0);
static BYTE: AtomicU8 = AtomicU8::new(0);
static HITS: AtomicUsize = AtomicUsize::new(0);
static RIP: AtomicUsize = AtomicUsize::new(0);
static ACT: AtomicUsize = AtomicUsize::new(0);
static USER: AtomicPtr<User> = AtomicPtr::new(std::ptr::null_mut());
static GIVE: AtomicU32 = AtomicU32::new(0);
static GOT: AtomicU32 = AtomicU32::new(u32::MAX);
static OTHER_CPU: AtomicUsize = AtomicUsize::new(0);

fn poke(at: usize, byte: u8) -> u8 {
    // SAFETY: the page is this process's own copy, and writable (`open_text`).
    unsafe {
        let old = (at as *const u8).read_volatile();
        (at as *mut u8).write_volatile(byte);
        old
    }
}

fn open_text(from: usize, to: usize) {
    let first = from & !4095;
    // SAFETY: a private mapping: only this process's copy changes.
    let r = unsafe { libc::mprotect(first as *mut _, to - first, 7) };
    assert_eq!(r, 0, "text cannot be made writable here");
}

extern "C" fn trapped(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let at = AT.load(Relaxed);
    let hits = HITS.fetch_add(1, Relaxed) + 1;
    let act = ACTS[ACT.load(Relaxed)];
    if act != Again || hits == 3 {
        poke(at, BYTE.load(Relaxed));
    }
    let ip = rip(context);
    RIP.store(*ip as usize, Relaxed);
    if *ip as usize == at + 1 {
        // Not in a critical section: the instruction itself is next.
        *ip = at as i64;
    }
    // SAFETY: set before the breakpoint; this thread's.
    let u = unsafe { &*USER.load(Relaxed) };
    match act {
        Nothing | Again => {}
        Alloc => GOT.store(alloc(u, Class::Mbuf).unwrap(), Relaxed),
        Free => free(u, GIVE.load(Relaxed), Class::Mbuf),
        AllocAndDrain => {
            GOT.store(alloc(u, Class::Mbuf).unwrap(), Relaxed);
            drain(u);
        }
        Yield => process::yield_now(),
        Migrate => pin(OTHER_CPU.load(Relaxed)),
    }
}

/// One interruption of `s` at `at`, with `act` in the handler.
fn case(s: &Sequence, at: usize, act: Act, cpus: &[usize]) {
    let what = format!(
        "{} + {:#x}, {act:?}",
        s.name,
        at as isize - s.start as isize
    );
    pin(cpus[0]);
    let d = domain(4);
    let u = user(d);
    assert!(u.has_rseq());
    // Some in the loaded bucket; two that are held.
    let v: Vec<u32> = (0..6).map(|_| alloc(&u, Class::Mbuf).unwrap()).collect();
    v[2..].iter().for_each(|&x| free(&u, x, Class::Mbuf));
    let mut held = v[..2].to_vec();
    USER.store(&raw const u as *mut User, Relaxed);
    HITS.store(0, Relaxed);
    GOT.store(u32::MAX, Relaxed);
    GIVE.store(held[0], Relaxed);
    ACT.store(act as usize, Relaxed);
    AT.store(at, Relaxed);
    BYTE.store(poke(at, 0xCC), Relaxed);
    match s.name {
        "pop" => held.push(alloc(&u, Class::Mbuf).unwrap()),
        "push" => free(&u, held.pop().unwrap(), Class::Mbuf),
        _ => drain(&u),
    }
    let hits = HITS.load(Relaxed);
    assert_eq!(
        hits,
        if act == Again { 3 } else { 1 },
        "{what}: interruptions"
    );
    let inside = (s.start..s.commit).contains(&at);
    let went = if inside { s.abort } else { at + 1 };
    assert_eq!(
        RIP.load(Relaxed),
        went,
        "{what}: where the kernel took the thread"
    );
    if act == Free {
        held.remove(0);
    }
    if GOT.load(Relaxed) != u32::MAX {
        held.push(GOT.load(Relaxed));
    }
    if s.name == "exchange" && act != Migrate {
        assert_eq!(
            stats::cached(&d, cpus[0], Class::Mbuf),
            0,
            "{what}: drained"
        );
    }
    held.sort();
    assert!(held.windows(2).all(|w| w[0] != w[1]), "{what}: {held:?}");
    let a = audit(&d, |_| {}).unwrap();
    assert!(
        a.is_clean() && a.held == held.len(),
        "{what}: {a:?}, {held:?}"
    );
    for x in held {
        assert_eq!(d.object(x).unwrap().refs.load(Relaxed), 1, "{what}");
        free(&u, x, Class::Mbuf);
    }
    let a = audit(&d, |_| {}).unwrap();
    assert!(a.is_clean() && a.held == 0, "{what}: {a:?}");
    let g = d.geometry();
    // SAFETY: nobody uses the case's domain any more.
    unsafe { libc::munmap(d.header() as *const _ as *mut _, g.bytes) };
}

#[test]
fn interrupted_at_every_instruction() {
    if !there_are_sequences() {
        return;
    }
    let cpus = cpus();
    for s in sequences() {
        let at = boundaries(&s);
        // The two instructions before the start, and the one after the commit, are not in it.
        let inside = at.iter().filter(|&&b| b >= s.start && b < s.commit).count();
        assert_eq!(at.len(), inside + 3, "{}", s.name);
        assert!(inside >= 12, "{}: {inside} instructions", s.name);
        let acts: Vec<Act> = ACTS
            .into_iter()
            .filter(|&a| a != Migrate || cpus.len() > 1)
            .collect();
        let done: &AtomicUsize = shared();
        let end = child(|| {
            open_text(s.entry, s.abort);
            on(libc::SIGTRAP, trapped);
            OTHER_CPU.store(cpus[cpus.len() - 1], Relaxed);
            for &b in &at {
                for &act in &acts {
                    case(&s, b, act, &cpus);
                    done.fetch_add(1, Relaxed);
                }
            }
            0
        });
        assert_eq!(end, 0, "{}", s.name);
        assert_eq!(done.load(Relaxed), at.len() * acts.len());
        println!("{}: {} places x {} acts", s.name, at.len(), acts.len());
    }
}
