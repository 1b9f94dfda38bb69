//! Slots of pipes that nobody has open any more: found by asking the kernel who has what, when slots run short.
//!
//! Invariant: a slot is freed only if no process of this user had its pipe open at a moment after the slot was seen.
//! Who cannot be asked has none, being another user's: the domain is this one's. While a process of this user that has
//! used the domain does not show what it has open, none is freed.
//! Not here: the rings' memory at rest (carried.rs).
use crate::thread;
use byway_folder::descriptors;
use byway_mem::domain::Domain;
use byway_mem::{holdings, participants, registry, sweep};
use byway_pipe::channel::Channel;
use byway_pipe::clusters;
use std::sync::atomic::Ordering::Relaxed;

/// Frees every slot whose pipe is gone, and brings home what dead processes held.
pub fn collect(d: Domain) {
    let u = thread::user(d);
    registry::alone(&d, u.who.tid, || {
        let before: Vec<(usize, (u64, u64))> = registry::slots(d)
            .filter_map(|i| registry::object(d, i).map(|key| (i, key)))
            .collect();
        let open = descriptors::pipes();
        if participants::all(&d).any(descriptors::are_hidden) {
            return;
        }
        for (i, key) in before {
            if !open.contains(&key)
                && registry::object(d, i) == Some(key)
                && let Some(ch) = Channel::at(d, i)
            {
                clusters::give(&u, ch);
                clusters::release(d, ch);
                holdings::sweep(&u, |h| h == holdings::channel(i as u32));
                registry::release(d, i);
            }
        }
    });
    holdings::sweep(&u, holdings::is_dead);
    sweep::sweep(&u, |f| reach(d, f));
}

/// The same, if somebody found the slots to run short since it was done last.
pub fn if_asked(d: Domain) {
    if d.header().collect.swap(0, Relaxed) != 0 {
        collect(d);
    }
}

/// Every unit of memory that a channel has, or somebody with an entry in the table of holdings.
pub fn reach(d: Domain, f: &mut dyn FnMut(u32)) {
    holdings::reach(&d, f);
    for i in registry::slots(d) {
        if let Some(ch) = Channel::at(d, i) {
            clusters::reach(d, ch, f);
        }
    }
}
