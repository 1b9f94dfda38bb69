//! One byte to and fro between two processes over two pipes (lat_pipe of lmbench, perf bench sched pipe).
//!
//! Invariant: plain read(2) and write(2) of the C library, so that the preload library can carry them.
//! Not here: what starts it, with or without the preload library.
use crate::machine;
use std::time::Instant;

/// Seconds for one round trip, from `trips` of them after a tenth as many unmeasured; the processes are bound to two
/// CPUs where `apart` says so and there are two.
///
/// # Errors
/// No pipe or process could be made, or an end saw EOF.
pub fn run(trips: u64, apart: bool) -> std::io::Result<f64> {
    let cpus = machine::allowed();
    let apart = apart && cpus.len() > 1;
    let (mut to, mut fro) = ([0; 2], [0; 2]);
    // SAFETY: the arrays have room for two descriptors; the child only reads, writes and exits.
    unsafe {
        if libc::pipe(to.as_mut_ptr()) != 0 || libc::pipe(fro.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        let pid = libc::fork();
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if pid == 0 {
            if apart {
                machine::pin(cpus[1]);
            }
            libc::close(to[1]);
            libc::close(fro[0]);
            let mut b = 0u8;
            while libc::read(to[0], (&raw mut b).cast(), 1) == 1 {
                if libc::write(fro[1], (&raw const b).cast(), 1) != 1 {
                    libc::_exit(1);
                }
            }
            libc::_exit(0);
        }
        if apart {
            machine::pin(cpus[0]);
        }
        libc::close(to[0]);
        libc::close(fro[1]);
        let mut t = Instant::now();
        for i in 0..trips + trips / 10 {
            if i == trips / 10 {
                t = Instant::now();
            }
            let (b, mut c) = (i as u8, 0u8);
            if libc::write(to[1], (&raw const b).cast(), 1) != 1
                || libc::read(fro[0], (&raw mut c).cast(), 1) != 1
                || b != c
            {
                return Err(std::io::Error::other(
                    "a byte came back wrong, or not at all",
                ));
            }
        }
        let s = t.elapsed().as_secs_f64() / trips as f64;
        libc::close(to[1]);
        libc::waitpid(pid, std::ptr::null_mut(), 0);
        Ok(s)
    }
}
