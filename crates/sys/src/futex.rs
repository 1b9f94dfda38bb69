//! Sleeps on a word of shared memory, and their wake-up.
//!
//! Invariant: a sleep ends by a change of the word, a wake-up, its time or a handler. Where it [`restarts`], it ends by a
//! handler as write(2) does: with EINTR, or, where that has SA_RESTART, not at all. Elsewhere each handler ends it.
//! Not here: what the words mean; who makes the call of a [`Sleep`] (the entry code, in place of the program's own).
use crate::errno::EINVAL;
use crate::process::is_filtered;
use crate::syscall::{call3, call6, nr};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

const CLOCK_MONOTONIC: usize = 1;

/// Wakes who sleeps on `word`.
pub fn wake_on(word: &AtomicU64) {
    const FUTEX_WAKE: usize = 1;
    // SAFETY: the word outlives the call.
    unsafe {
        call3(
            nr::FUTEX,
            word.as_ptr() as usize,
            FUTEX_WAKE,
            i32::MAX as usize,
        )
    };
}

/// What one call points to.
#[repr(C)]
pub struct Sleep {
    // struct futex_waitv.
    was: u64,
    word: u64,
    size: u32,
    reserved: u32,
    /// struct timespec: when it ends; of futex(2), after which time.
    until: [i64; 2],
}

impl Sleep {
    pub const NONE: Sleep = Sleep {
        was: 0,
        word: 0,
        size: 0,
        reserved: 0,
        until: [0; 2],
    };

    /// The call that sleeps for `ns`, below a second, while the low half of `word` is `was`. It points into `self`.
    pub fn call(&mut self, word: &AtomicU64, was: u32, ns: i64) -> [usize; 7] {
        const FUTEX_WAIT: usize = 0;
        const FUTEX2_SIZE_U32: u32 = 2;
        const SECOND: i64 = 1_000_000_000;
        let until = self.until.as_ptr() as usize;
        if !restarts() {
            self.until = [0, ns];
            let word = word.as_ptr() as usize;
            return [nr::FUTEX, word, FUTEX_WAIT, was as usize, until, 0, 0];
        }
        let mut now = [0i64; 2];
        // SAFETY: room for one struct timespec.
        unsafe {
            call3(
                nr::CLOCK_GETTIME,
                CLOCK_MONOTONIC,
                now.as_mut_ptr() as usize,
                0,
            )
        };
        let end = now[1] + ns;
        *self = Sleep {
            was: was.into(),
            word: word.as_ptr() as u64,
            size: FUTEX2_SIZE_U32,
            reserved: 0,
            until: [now[0] + end / SECOND, end % SECOND],
        };
        let waiter = &raw const *self as usize;
        [nr::FUTEX_WAITV, waiter, 1, 0, until, CLOCK_MONOTONIC, 0]
    }
}

/// Whether a sleep of this process ends by a handler as write(2) does.
///
/// LINUX futex_waitv(2): since 5.16. The older futex(2) with a time never restarts. A filter of system calls, even an
/// inherited one, may end a process for a call that it does not know.
pub fn restarts() -> bool {
    const YES: u8 = 1;
    const NO: u8 = 2;
    static MAY: AtomicU8 = AtomicU8::new(0);
    if MAY.load(Relaxed) == 0 {
        // SAFETY: of no words it is refused.
        let asked = || unsafe { call6(nr::FUTEX_WAITV, 0, 0, 0, 0, CLOCK_MONOTONIC, 0) };
        let may = !is_filtered() && asked() == EINVAL;
        MAY.store(if may { YES } else { NO }, Relaxed);
    }
    MAY.load(Relaxed) == YES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::errno::{EAGAIN, EINTR, ETIMEDOUT, Ret};
    use core::sync::atomic::AtomicBool;
    extern crate std;

    static RAN: AtomicBool = AtomicBool::new(false);

    extern "C" fn handler(_: i32) {
        RAN.store(true, Relaxed);
    }

    fn sleep(word: &AtomicU64, was: u32, ns: i64) -> Ret {
        let mut s = Sleep::NONE;
        let [n, a, b, c, d, e, f] = s.call(word, was, ns);
        // SAFETY: the call points to `s`.
        unsafe { call6(n, a, b, c, d, e, f) }
    }

    #[test]
    fn a_sleep_ends_as_a_write_does() {
        if !restarts() {
            return;
        }
        let word = AtomicU64::new(7 | 9 << 32);
        assert_eq!(sleep(&word, 8, 1000), EAGAIN);
        assert_eq!(sleep(&word, 7, 1_000_000), ETIMEDOUT);
        for (flags, end) in [(0, EINTR), (libc::SA_RESTART, ETIMEDOUT)] {
            RAN.store(false, Relaxed);
            // SAFETY: struct sigaction is valid zeroed, the handler only stores; this thread is signalled while it sleeps.
            let thread = unsafe {
                let mut act: libc::sigaction = std::mem::zeroed();
                act.sa_sigaction = handler as *const () as usize;
                act.sa_flags = flags;
                libc::sigaction(libc::SIGUSR2, &raw const act, std::ptr::null_mut());
                libc::pthread_self()
            };
            let word = &word;
            std::thread::scope(|s| {
                s.spawn(move || {
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    // SAFETY: the thread sleeps in this scope.
                    unsafe { libc::pthread_kill(thread, libc::SIGUSR2) };
                });
                assert_eq!(sleep(word, 7, 300_000_000), end);
            });
            assert!(RAN.load(Relaxed));
        }
    }

    #[test]
    fn a_wake_up_ends_it() {
        if !restarts() {
            return;
        }
        let word = AtomicU64::new(1);
        let begun = std::time::Instant::now();
        std::thread::scope(|s| {
            s.spawn(|| while sleep(&word, 1, 900_000_000) == ETIMEDOUT {});
            std::thread::sleep(std::time::Duration::from_millis(50));
            word.store(2, Relaxed);
            wake_on(&word);
        });
        assert!(begun.elapsed().as_millis() < 800);
    }
}
