//! `mb_alloc`: our allocator (crate byway-mem) over a domain of its own, in anonymous memory.
//!
//! Invariant: the domain is what `byway run` makes but for its name and its size: the same layout, watermarks, decay.
//! Not here: a service of the domain. What goes back to the machine, ordinary callers give back in passing.
use super::allocator::{Allocator, Local, Room};
use super::domain;
use super::shared::Shared;
use byway_mem::cache::{self, User};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, MOST_SLABS, SLAB_BYTES};
use byway_mem::stats;
use byway_sys::process;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Slabs that no case is without.
const FEWEST: usize = 64;

#[derive(Clone, Copy)]
pub struct MbAlloc {
    domain: Domain,
    memory: Shared,
}

impl Allocator for MbAlloc {
    type Local = User;

    fn make(room: Room) -> io::Result<MbAlloc> {
        // Twice the room: below half of a domain nothing is given back for want of memory alone.
        let slabs = (2 * room.bytes() / SLAB_BYTES).clamp(FEWEST, MOST_SLABS);
        let (domain, memory) = domain::anonymous(slabs)?;
        Ok(MbAlloc { domain, memory })
    }
    fn join(&self) -> User {
        User::new(self.domain, process::getpid(), process::gettid())
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        Some((self.memory.base(), self.memory.bytes()))
    }
    fn told(&self) -> Option<usize> {
        Some(
            Class::ALL
                .iter()
                .map(|&c| stats::class(&self.domain, c).present)
                .sum(),
        )
    }
}

impl Local for User {
    #[inline]
    fn alloc(&mut self, class: Class) -> Option<usize> {
        cache::alloc(self, class).map(|x| x as usize)
    }
    #[inline]
    fn free(&mut self, x: usize, class: Class) {
        cache::free(self, x as u32, class);
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        // Small enough for every object: only the place matters here.
        self.domain
            .address(x as u32, Class::Mbuf)
            .map_or(std::ptr::null_mut(), <*mut u8>::cast)
    }
}

/// What the record tells of the allocator.
pub struct Facts {
    /// Free memory that it keeps, bytes: what is above it for a while goes back (layout.rs, `low_kib`).
    pub watermark: usize,
    /// Whether the calling thread allocates by restartable sequences, as it should.
    pub rseq: bool,
}

pub fn facts() -> io::Result<Facts> {
    let m = MbAlloc::make(Room::default())?;
    Ok(Facts {
        watermark: (m.domain.header().low_kib.load(Relaxed) as usize) << 10,
        rseq: m.join().has_rseq(),
    })
}
