//! One byte to and fro between two processes over two pipes (lat_pipe of lmbench, perf bench sched pipe).
//!
//! Invariant: plain read(2) and write(2) of the C library, so that the preload library can carry them.
//! Not here: what starts it, with or without the preload library; the loop (pairs/lat_pipe.rs).
use crate::child::Failure;
use crate::machine;
use crate::pairs::lat_pipe;

/// Seconds for one round trip, from `trips` of them after a tenth as many unmeasured; the processes are bound to two
/// CPUs where there are two.
///
/// # Errors
/// No pipe or process could be made, or an end saw EOF.
pub fn run(trips: u64) -> Result<f64, Failure> {
    lat_pipe::between(&machine::allowed(), trips)
}
