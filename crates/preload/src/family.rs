//! Which process an epoll set belongs to: it was made by this one and is used by no other, or has come over a fork.
//!
//! Invariant: a set that another process has begun to use, or may use from an exec on, is not this process's alone from
//! the next look on; and a set that was inherited never is. Until its owner looks, the other one hands back what both have.
//! Not here: what is in the sets (sets.rs).
use crate::attach;
use crate::fdtable::Set;
use byway_mem::layout::FAMILIES;
use byway_pipe::Caller;
use byway_sys::process;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Sets are told apart by generations: each fork begins one, and each loss of the sets.
static GENERATION: AtomicU32 = AtomicU32::new(1);
/// The first of this process.
static FIRST: AtomicU32 = AtomicU32::new(1);
/// This process, if it has made a set; and what its word of the domain was then. In .data, for the reason that attach.rs
/// gives.
#[unsafe(link_section = ".data")]
static SELF: AtomicU32 = AtomicU32::new(0);
#[unsafe(link_section = ".data")]
static BASE: AtomicU32 = AtomicU32::new(0);
/// Those from which it has come by fork alone, if they had made sets.
#[unsafe(link_section = ".data")]
static ANCESTORS: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];

/// Generations that an entry of the table of descriptors has room for.
pub const MOST: u32 = 1 << 15;

/// The word by which process `pid` learns that a set of its is another's too. Others may have the same.
fn word(me: &Caller, pid: u32) -> &'static AtomicU32 {
    &me.domain.header().shared_sets[pid as usize % FAMILIES]
}

/// The generation of a set that this process has just made.
pub fn made(me: &Caller) -> Option<u32> {
    if SELF.load(Relaxed) == 0 {
        let pid = process::getpid();
        BASE.store(word(me, pid).load(Relaxed), Relaxed);
        SELF.store(pid, Relaxed);
    }
    let generation = GENERATION.load(Relaxed);
    (generation < MOST).then_some(generation)
}

/// Whether this process or one that it has come from has made a set.
pub fn has_sets() -> bool {
    SELF.load(Relaxed) != 0 || ANCESTORS[0].load(Relaxed) != 0
}

/// Whether a set is this process's alone.
pub fn is_ours(set: Set) -> bool {
    let same = |d: byway_mem::domain::Domain| {
        let me = SELF.load(Relaxed);
        let word = &d.header().shared_sets[me as usize % FAMILIES];
        word.load(Relaxed) == BASE.load(Relaxed)
    };
    set.generation == GENERATION.load(Relaxed) && attach::domain().is_some_and(same)
}

/// Whether a set has come by fork.
pub fn is_inherited(set: Set) -> bool {
    set.generation < FIRST.load(Relaxed)
}

/// The sets that there are now are nobody's alone.
pub fn ends(me: &Caller) {
    GENERATION.fetch_add(1, Relaxed);
    BASE.store(word(me, SELF.load(Relaxed)).load(Relaxed), Relaxed);
}

/// Tells those who have made the sets that this process has.
pub fn tell(me: &Caller) {
    let moves = |pid| {
        word(me, pid).fetch_add(1, Relaxed);
    };
    if ANCESTORS[ANCESTORS.len() - 1].load(Relaxed) != 0 {
        // There may have been more.
        (0..FAMILIES as u32).for_each(moves);
        return;
    }
    let all = ANCESTORS.iter().chain([&SELF]);
    all.map(|a| a.load(Relaxed))
        .filter(|pid| *pid != 0)
        .for_each(moves);
}

/// A forked child begins.
pub fn enter_child() {
    let parent = SELF.swap(0, Relaxed);
    let free = ANCESTORS.iter().find(|a| a.load(Relaxed) == 0);
    if let (true, Some(free)) = (parent != 0, free) {
        free.store(parent, Relaxed);
    }
    let first = GENERATION.fetch_add(1, Relaxed) + 1;
    FIRST.store(first, Relaxed);
}
