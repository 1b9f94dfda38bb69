//! How often this process, and what it starts from then on, was moved to another CPU.
//!
//! Invariant: the counter is one of software and costs nothing where nobody is moved; where the machine does not let us
//! count (perf_event_paranoid above 1, without the right to), there is no figure rather than a wrong one.
//! Not here: who was moved.
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub struct Migrations(Option<OwnedFd>);

/// LINUX perf_event_open(2): perf_event_attr as of its first version, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    more: u64,
}

/// PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, and the bit that has children counted too.
const SOFTWARE: u32 = 1;
const CPU_MIGRATIONS: u64 = 4;
const INHERIT: u64 = 2;
/// PERF_FLAG_FD_CLOEXEC.
const CLOEXEC: libc::c_ulong = 8;

impl Migrations {
    /// Counts from now on. Children count when they have ended.
    pub fn count() -> Migrations {
        let what = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: CPU_MIGRATIONS,
            flags: INHERIT,
            ..Attributes::default()
        };
        // SAFETY: a struct of ours of the size that it says; this process, on any CPU, in no group.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const what,
                0,
                -1,
                -1,
                CLOEXEC,
            )
        };
        // SAFETY: a descriptor that we have just been given.
        Migrations((fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as i32) }))
    }

    /// How many so far, if it may be known.
    pub fn so_far(&self) -> Option<f64> {
        let mut n = 0u64;
        let fd = self.0.as_ref()?.as_raw_fd();
        // SAFETY: eight bytes into a word of ours.
        let r = unsafe { libc::read(fd, (&raw mut n).cast(), 8) };
        (r == 8).then_some(n as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{child, machine};
    use std::time::Duration;

    #[test]
    fn who_is_moved_is_counted() {
        let cpus = machine::allowed();
        let m = Migrations::count();
        let Some(before) = m.so_far() else {
            eprintln!("not tested: this machine does not let us count");
            return;
        };
        let moved = child::isolated(Duration::from_secs(20), || {
            for _ in 0..20 {
                machine::pin(cpus[0]);
                machine::pin(cpus[cpus.len() - 1]);
            }
            Ok(vec![])
        });
        assert!(moved.is_ok());
        let after = m.so_far().unwrap();
        if cpus.len() > 1 {
            assert!(after >= before + 38.0, "{before} {after}");
        }
    }
}
