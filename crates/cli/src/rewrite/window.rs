//! A window at a site: instructions in whose place a five-byte jump fits.
//!
//! Invariant: all instructions of a window follow one another, can run elsewhere, and nothing leads between them.
//! Not here: whether the site is one (scan.rs); how a window is written (image.rs).
use iced_x86::{FlowControl, Instruction};
use std::collections::BTreeSet;

/// One site to rewrite.
pub struct Site {
    /// Start of the function that proves it.
    pub function: u64,
    /// Where the jump goes, and the syscall instruction itself.
    pub start: u64,
    pub syscall: u64,
    /// Instructions before the syscall in the window, and after it.
    pub insns: Vec<Instruction>,
    pub after: usize,
    /// The syscall itself lies in the window: it is executed in the stub.
    pub moved: bool,
    pub end: u64,
    /// The numbers that it is made with, if all are known.
    pub numbers: Option<Vec<u64>>,
}

impl Site {
    /// The end of the bytes that are replaced, which begin at `start`.
    pub fn replaced(&self) -> u64 {
        if self.moved { self.end } else { self.syscall }
    }
}

/// A window for the syscall at index `k`: before it if possible, else with what follows.
pub fn window(
    insns: &[Instruction],
    k: usize,
    targets: &BTreeSet<u64>,
    taken: u64,
) -> Option<Site> {
    let sys = &insns[k];
    let plain = |i: &Instruction| i.flow_control() == FlowControl::Next && !i.is_invalid();
    // One after the other, without a byte between them.
    let joined = |from: usize, to: usize| {
        insns[from..=to]
            .windows(2)
            .all(|w| w[0].next_ip() == w[1].ip())
    };
    let site = |first: &Instruction, list: Vec<Instruction>, after, moved, end| Site {
        function: 0,
        start: first.ip(),
        syscall: sys.ip(),
        insns: list,
        after,
        moved,
        end,
        numbers: None,
    };
    // Everything from `first` to the syscall can be moved, and nothing leads between.
    let clear = |back: usize| {
        let from = k - back;
        joined(from, k)
            && insns[from..k].iter().all(plain)
            && targets
                .range(insns[from].ip() + 1..sys.next_ip())
                .next()
                .is_none()
            && insns[from].ip() >= taken
    };
    for back in 0..=6.min(k) {
        if !clear(back) {
            break;
        }
        let first = &insns[k - back];
        if sys.ip() - first.ip() >= 5 {
            let list = insns[k - back..k].to_vec();
            return Some(site(first, list, 0, false, sys.next_ip()));
        }
    }
    for back in 0..=4.min(k) {
        if !clear(back) {
            break;
        }
        let first = &insns[k - back];
        let mut list = insns[k - back..k].to_vec();
        let mut end = sys.next_ip();
        if end - first.ip() >= 5 {
            return Some(site(first, list, 0, true, end));
        }
        for (n, i) in insns[k + 1..].iter().take(4).enumerate() {
            let relocatable = plain(i) || i.flow_control() == FlowControl::ConditionalBranch;
            let led = targets.range(end..i.next_ip()).next().is_some();
            if i.ip() != end || led || !relocatable {
                break;
            }
            list.push(*i);
            end = i.next_ip();
            if end - first.ip() >= 5 {
                return Some(site(first, list, n + 1, true, end));
            }
        }
    }
    None
}
