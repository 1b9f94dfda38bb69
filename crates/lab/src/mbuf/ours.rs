//! `mb_alloc`: our allocator (crate byway-mem) over a domain of its own, in anonymous memory.
//!
//! Invariant: the domain is what `byway run` makes but for its name and its size: the same layout, watermarks, decay.
//! Not here: a service beside it. What goes back to the machine, ordinary callers give back in passing.
use super::allocator::{Allocator, Local, Room};
use super::shared::Shared;
use byway_mem::cache::{self, User};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, Geometry, MAGIC, MOST_SLABS, SLAB_BYTES};
use byway_mem::stats;
use byway_sys::{clock, process};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Slabs that no case is without.
const FEWEST: usize = 64;

#[derive(Clone, Copy)]
pub struct MbAlloc {
    domain: Domain,
    memory: Shared,
}

/// Cycles of the counter in a microsecond, measured once.
fn cycles_per_us() -> u32 {
    static CYCLES: OnceLock<u32> = OnceLock::new();
    *CYCLES.get_or_init(|| {
        let (t, c) = (Instant::now(), clock::now());
        while t.elapsed() < Duration::from_millis(10) {
            clock::pause();
        }
        ((clock::now() - c) / t.elapsed().as_micros() as u64) as u32
    })
}

impl Allocator for MbAlloc {
    type Local = User;

    fn make(room: Room) -> io::Result<MbAlloc> {
        // Twice the room: below half of a domain nothing is given back for want of memory alone.
        let slabs = (2 * room.bytes() / SLAB_BYTES).clamp(FEWEST, MOST_SLABS);
        let memory = Shared::new(Geometry::of(slabs).bytes)?;
        // SAFETY: page aligned, shared, and there for the life of the process.
        let domain = unsafe { Domain::over(memory.base() as *mut u8, slabs) };
        domain.lay_out();
        let h = domain.header();
        h.cpus.store(process::allowed_cpus(), Relaxed);
        h.cycles_per_us.store(cycles_per_us(), Relaxed);
        h.magic.store(MAGIC, Relaxed);
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
    let m = MbAlloc::make(Room {
        mbufs: 0,
        jumbos: 0,
    })?;
    Ok(Facts {
        watermark: (m.domain.header().low_kib.load(Relaxed) as usize) << 10,
        rseq: m.join().has_rseq(),
    })
}
