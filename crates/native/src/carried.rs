//! An end's channel in shared memory, and who calls.
//!
//! Invariant: a channel stands for the kernel's pipe with its device and inode, and stays its own as long as anybody has
//! that pipe open (collect.rs); an end keeps its descriptor open, so its channel stays.
//! Not here: what an end does with it.
use crate::{collect, home, kernel, thread};
use byway_mem::{holdings, registry};
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::lock::Patience;
use byway_pipe::{Caller, biased_lock};
use byway_pipe::{birth, clusters};
use byway_sys::file::{self, Ident};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

/// A carried pipe, as the ends of this process have it.
#[derive(Clone, Copy)]
pub struct Carried {
    pub channel: &'static Channel,
    me: Caller,
}

/// What an attempt may do that can not go on at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OrElse {
    /// Nothing.
    Return,
    /// Look again for a little while.
    Spin,
    /// That, and sleep in the kernel's read(2) or write(2), until there is something to return. Where others always do
    /// so the ring brings nothing, and is left.
    Sleep,
}

impl OrElse {
    /// Turns of patience with another reader that holds what is there, and does not go on. Who may wait asks again, and
    /// looks at its time, or for a handler, in between.
    pub fn turns(self) -> u32 {
        match self {
            OrElse::Return => Patience::LONG,
            _ => Patience::SOON,
        }
    }
}

/// What a new channel has counted before, bytes: enough for its first write to open the ring.
const WORTH: u64 = 1 << 20;

impl Carried {
    /// The channel of the pipe behind `fd`, which nobody else has yet.
    pub fn new_pipe(fd: &OwnedFd) -> Option<Carried> {
        collect::if_asked(home::home().ok()?.domain);
        let id = file::identity(kernel::number(fd))?;
        Carried::enter(kernel::number(fd), id, Holders::Nameless)
    }

    /// The channel of a pipe that somebody else made, if it is carried.
    pub fn find(fd: &OwnedFd) -> Option<Carried> {
        let id = file::identity(kernel::number(fd))?;
        let d = home::home().ok()?.domain;
        let slot = registry::find(d, id.dev, id.ino)?;
        Carried::at(slot)
    }

    /// Whether `fd` is a pipe of this library's that may be carried: its descriptor does not tell all.
    pub fn is_native(fd: usize) -> bool {
        let found = || {
            let id = file::identity(fd).filter(|i| i.fifo)?;
            let d = home::joined()?.domain;
            Channel::at(d, registry::find(d, id.dev, id.ino)?)
        };
        found().is_some_and(|ch| !ch.is_kernels())
    }

    /// The channel of the FIFO behind `fd`, which only this library opens.
    pub fn fifo(fd: &OwnedFd) -> Option<Carried> {
        let fd = kernel::number(fd);
        let id = file::identity(fd)?;
        let h = home::home().ok()?;
        collect::if_asked(h.domain);
        let c = registry::alone(&h.domain, thread::ids().tid, || {
            match registry::find(h.domain, id.dev, id.ino) {
                Some(slot) => Carried::at(slot),
                None => Carried::enter(fd, id, Holders::Known),
            }
        })?;
        byway_pipe::fifo::renew(&c.me(true), c.channel, fd);
        // Only this library opens it: that it has begun a new life changes nothing.
        c.channel
            .facts
            .0
            .holders
            .store(Holders::Known as u32, Relaxed);
        Some(c)
    }

    fn enter(fd: usize, id: Ident, holders: Holders) -> Option<Carried> {
        let d = home::home().ok().filter(|h| h.is_current())?.domain;
        let (slot, _) = birth::born(d, id, fd, std::process::id(), |ch| {
            ch.facts.0.holders.store(holders as u32, Relaxed);
            is_worth(ch);
        })?;
        Carried::at(slot)
    }

    fn at(slot: usize) -> Option<Carried> {
        let h = home::home().ok()?;
        let me = Caller {
            spin: true,
            has_barriers: h.has_barriers,
            pull: || true,
            // An outsider has no way to these pipes.
            heard: || false,
            ..Caller::of(h.domain, 0, h.cpus)
        };
        let channel = Channel::at(h.domain, slot)?;
        Some(Carried { channel, me })
    }

    /// What comes next is worth a ring, whatever was before.
    pub fn is_worth(&self) {
        is_worth(self.channel);
    }

    /// The calling thread; `spin`: whether it may wait a little without sleeping.
    #[inline]
    pub fn me(&self, spin: bool) -> Caller {
        Caller {
            tid: thread::ids().tid,
            spin,
            ..self.me
        }
    }

    /// The same in place, for calls that take no longer than a copy of it would.
    #[inline]
    pub fn mine(&mut self, or: OrElse) -> (&Carried, &Caller) {
        self.me.tid = thread::ids().tid;
        self.me.spin = or != OrElse::Return;
        self.me.resign = or == OrElse::Sleep;
        (self, &self.me)
    }

    /// The position behind what this process has just written, or what others have since.
    pub fn written(&self) -> u64 {
        let r = self.channel.writer.0.seen_r();
        let kept = biased_lock::biased_tail(&self.me(false), self.channel);
        kept.unwrap_or_else(|| self.channel.tail()).wide(r)
    }

    /// A reader has gone: writers ask the kernel before the next write whether it was the last.
    fn gone(&self) {
        self.me.domain.header().death_epoch.fetch_add(1, Relaxed);
    }

    /// The channel is about to rest: what memory it does not need goes back.
    pub fn rest(&self) {
        if clusters::has_any(self.channel) {
            let me = self.me(false);
            clusters::trim(&me, &thread::user(me.domain), self.channel);
        }
    }

    /// The channel, as a holder of what is in flight in it.
    pub fn holder(&self) -> u32 {
        holdings::channel(
            self.me
                .domain
                .slot_of(std::ptr::from_ref(self.channel) as usize),
        )
    }

    /// Nobody can read any more what is in flight.
    pub fn ended(&self) {
        let (d, me) = (self.me.domain, self.holder());
        if holdings::count(&d).1 > 0 {
            holdings::sweep(&thread::user(d), |h| h == me);
        }
    }
}

/// Of a reader, the field after its descriptor: tells of its end once that is closed.
pub struct Farewell(pub Option<Carried>);

impl Drop for Farewell {
    fn drop(&mut self) {
        if let Some(c) = self.0 {
            c.gone();
        }
    }
}

fn is_worth(ch: &Channel) {
    let w = &ch.writer.0;
    w.worth.store(0, Relaxed);
    w.set_native(0, WORTH);
}
