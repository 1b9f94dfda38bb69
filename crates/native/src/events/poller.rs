//! epoll(7), and the two kinds of descriptors that only an event queue needs: a wake-up (eventfd(2)) and timers
//! (timerfd(2)).
//!
//! Invariant: thin; each function is one system call, and its error the kernel's; before a sleep a timer may be set
//! (timer.rs).
//! Not here: what an event means.
use crate::timer;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// What epoll reports: which bits, and of which entry.
pub type Report = libc::epoll_event;
pub const NONE: Report = Report { events: 0, u64: 0 };

/// A descriptor that the kernel has just made, or its error.
fn owned(fd: i32) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(r: i32) -> io::Result<usize> {
    usize::try_from(r).map_err(|_| io::Error::last_os_error())
}

pub struct Poller(OwnedFd);

impl AsRawFd for Poller {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl Poller {
    pub fn new() -> io::Result<Poller> {
        // SAFETY: no pointers.
        owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) }).map(Poller)
    }

    pub fn fd(&self) -> &OwnedFd {
        &self.0
    }

    /// Watches `fd` for `events`, reported with `key`.
    pub fn add(&self, fd: RawFd, events: u32, key: u64) -> io::Result<()> {
        let mut e = Report { events, u64: key };
        // SAFETY: one struct epoll_event of ours.
        done(unsafe { libc::epoll_ctl(self.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut e) })?;
        Ok(())
    }

    /// No longer; a descriptor that is gone is none.
    pub fn delete(&self, fd: RawFd) {
        let mut e = NONE;
        // SAFETY: as above.
        unsafe { libc::epoll_ctl(self.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, &mut e) };
    }

    /// Waits until `until`, for ever (`None`); how many reports there are.
    pub fn wait(&self, reports: &mut [Report], until: Option<Instant>) -> io::Result<usize> {
        let ms = until.map_or(-1, |t| {
            let left = t.saturating_duration_since(Instant::now());
            // Never too early.
            left.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as i32
        });
        let n = reports.len().min(i32::MAX as usize) as i32;
        timer::pend();
        // SAFETY: room for `n` reports.
        done(unsafe { libc::epoll_wait(self.as_raw_fd(), reports.as_mut_ptr(), n, ms) })
    }
}

/// A descriptor that becomes readable when it is woken; watched for edges, so nobody has to read it.
pub struct WakeUp(OwnedFd);

impl WakeUp {
    pub fn new() -> io::Result<WakeUp> {
        // SAFETY: no pointers.
        owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) }).map(WakeUp)
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    pub fn send(&self) {
        let one = 1u64;
        // SAFETY: eight bytes of ours. It counts to 2^64.
        unsafe { libc::write(self.fd(), (&raw const one).cast(), 8) };
    }
}

/// A descriptor that becomes readable when a time has passed.
pub struct Clock(OwnedFd);

impl Clock {
    pub fn new() -> io::Result<Clock> {
        let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
        // SAFETY: no pointers.
        owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) }).map(Clock)
    }

    pub fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Begins anew: expires after `every`, and then each time it has passed again, or once.
    pub fn set(&self, every: Duration, once: bool) -> io::Result<()> {
        let spec = |d: Duration| libc::timespec {
            tv_sec: d.as_secs().min(i64::MAX as u64) as i64,
            tv_nsec: i64::from(d.subsec_nanos()),
        };
        // No time at all is the least there is; zero would stop the timer.
        let first = every.max(Duration::from_nanos(1));
        let new = libc::itimerspec {
            it_interval: spec(if once { Duration::ZERO } else { first }),
            it_value: spec(first),
        };
        // SAFETY: one struct itimerspec of ours.
        done(unsafe { libc::timerfd_settime(self.fd(), 0, &new, std::ptr::null_mut()) })?;
        Ok(())
    }

    /// How often it has expired since this was last asked.
    pub fn expired(&self) -> u64 {
        let mut n = 0u64;
        // SAFETY: eight bytes of ours.
        let r = unsafe { libc::read(self.fd(), (&raw mut n).cast(), 8) };
        if r == 8 { n } else { 0 }
    }
}
