//! timerfd(2): a timer that wakes nobody.
//!
//! Invariant: its descriptor is closed by exec(2), and has a number that open(2) gives only to who has hundreds: so a program that closes
//! whatever it finds, and then opens files of its own, does not get that number again.
//! Not here: what it is good for (crate pipe, timer.rs).
use crate::errno::{Ret, failed};
use crate::file::{self, F_DUPFD_CLOEXEC};
use crate::syscall::{call3, call6, nr};

const CLOCK_MONOTONIC: usize = 1;
const CLOEXEC: usize = 0o2_000_000;
const NONBLOCK: usize = 0o4_000;
/// The first number that its descriptor may have.
const FROM: usize = 512;

/// A timer that is not set.
///
/// # Errors
/// A negative errno: EMFILE, or EINVAL where the process may have no descriptor of such a number.
pub fn new() -> Ret {
    // SAFETY: no pointers.
    let low = unsafe { call3(nr::TIMERFD_CREATE, CLOCK_MONOTONIC, CLOEXEC | NONBLOCK, 0) };
    if failed(low) {
        return low;
    }
    let fd = file::fcntl(low as usize, F_DUPFD_CLOEXEC, FROM);
    file::close(low as usize);
    fd
}

/// Sets it: it is due in so many microseconds, once.
///
/// # Errors
/// A negative errno: `fd` is no timer's.
pub fn set(fd: usize, us: u64) -> Ret {
    // struct itimerspec: the interval, then the first time; seconds and nanoseconds.
    let when: [u64; 4] = [0, 0, us / 1_000_000, us % 1_000_000 * 1000];
    // SAFETY: `when` is a struct itimerspec.
    unsafe { call6(nr::TIMERFD_SETTIME, fd, 0, when.as_ptr() as usize, 0, 0, 0) }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_due_and_goes_with_exec() {
        let fd = new();
        assert!(fd >= FROM as Ret, "{fd}");
        let fd = fd as usize;
        assert_eq!(file::fcntl(fd, file::F_GETFD, 0), 1);
        assert_eq!(file::poll1(fd, file::POLLIN, 20).0, 0);
        assert_eq!(set(fd, 2000), 0);
        assert_eq!(file::poll1(fd, file::POLLIN, 5000).0, 1);
        // Set anew it is not due yet.
        assert_eq!(set(fd, 60_000_000), 0);
        assert_eq!(file::poll1(fd, file::POLLIN, 20).0, 0);
        file::close(fd);
        assert!(failed(set(fd, 1)));
    }
}
