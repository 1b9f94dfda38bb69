//! This process as a caller of the crates mem and pipe: a user of a domain's memory and of its channels.
//!
//! Invariant: such a caller does not spin, offers no buffer and owns no biased lock.
//! Not here: what is done as such a caller (domain.rs, service.rs, fifo.rs, stat.rs).
use crate::holders;
use byway_mem::cache::User;
use byway_mem::domain::Domain;
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_pipe::{Caller, clusters};
use byway_sys::process;

/// The calling thread as a user of the domain's memory.
pub fn user(d: Domain) -> User {
    User::new(d, process::getpid(), process::gettid())
}

/// The same, as a user of channels.
pub fn me(u: &User) -> Caller {
    Caller {
        abandoned: holders::abandoned,
        access: |_, _, _| false,
        ..Caller::of(u.domain, u.who.tid, process::allowed_cpus())
    }
}

/// Every cluster that a channel of `d` has.
pub fn reach(d: Domain, f: &mut dyn FnMut(u32)) {
    for i in registry::slots(d) {
        if let Some(ch) = Channel::at(d, i) {
            clusters::reach(d, ch, f);
        }
    }
}
