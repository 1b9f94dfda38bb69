//! A domain of its own in anonymous memory: what `byway run` makes, but for its name.
//!
//! Invariant: the same layout, watermarks and decay; it goes with the last process that has it.
//! Not here: a service of the domain. What goes back to the machine, ordinary callers give back in passing.
use crate::shared::Shared;
use byway_mem::domain::Domain;
use byway_mem::layout::{Geometry, MAGIC};
use byway_sys::{clock, process};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Cycles of the counter in a microsecond, measured once. Not a lock: who is forked meanwhile would find it held.
fn cycles_per_us() -> u32 {
    static CYCLES: AtomicU32 = AtomicU32::new(0);
    if CYCLES.load(Relaxed) == 0 {
        let (t, c) = (Instant::now(), clock::now());
        while t.elapsed() < Duration::from_millis(10) {
            clock::pause();
        }
        let cycles = (clock::now() - c) / t.elapsed().as_micros() as u64;
        CYCLES.store(cycles as u32, Relaxed);
    }
    CYCLES.load(Relaxed)
}

/// One of so many slabs, and the memory that it lies in.
///
/// # Errors
/// No room in the address space.
pub fn anonymous(slabs: usize) -> io::Result<(Domain, Shared)> {
    let memory = Shared::new(Geometry::of(slabs).bytes)?;
    // SAFETY: page aligned, shared, and there for the life of the process.
    let domain = unsafe { Domain::over(memory.base() as *mut u8, slabs) };
    domain.lay_out();
    let h = domain.header();
    h.cpus.store(process::allowed_cpus(), Relaxed);
    h.cycles_per_us.store(cycles_per_us(), Relaxed);
    h.magic.store(MAGIC, Relaxed);
    Ok((domain, memory))
}
