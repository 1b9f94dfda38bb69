//! A timer that is due soon, so that a CPU on which somebody sleeps for a moment does not sleep deeply.
//!
//! ```text
//! sleeper:  pend();  read(2), poll(2) ...                 on this CPU a timer is due within PERIOD; it wakes nobody
//! CPU:      idle: as the next timer comes soon, a light state, which it leaves sooner than a deep one
//! ```
//! Most of a wake-up is the way of an idle CPU back (docs/adr/0019). How deep it sleeps is decided by when its next
//! timer is due: LINUX Documentation/admin-guide/pm/cpuidle.rst, "the time till the closest timer event"; of a virtual
//! machine, by the host in the same way.
//!
//! Invariant: of each CPU at most one timer of this process's is set, once in half a PERIOD at most. Where sleeps end
//! only after it was due, which is of no use, it rests, twice as long each time. It changes nothing that a call says or
//! does.
//! Its descriptor (timerfd(2)) is closed by exec(2), and has a number that open(2) gives only where hundreds are open: so a
//! program that closes whatever it finds, and then opens files of its own, does not get that number again.
//! Public, and not documented: the lab's benchmark that calls the core directly sleeps as the library does.
//! Not here: who sleeps.
use byway_sys::{clock, file, process};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering::Relaxed};

/// From when it is set until it is due, us. Sleeps that are shorter than half of it gain.
const PERIOD: u64 = 1000;
/// Times in a row that it may be of no use before it rests.
const FREE: u32 = 2;
/// The first number that its descriptor may have.
const FROM: i32 = 512;
/// Its longest rest is `PERIOD << MOST`.
const MOST: u32 = 8;
/// No wait is as long, cycles: a counter that says so was set back, or this is the first look at it.
const FAR: u64 = 1 << 32;

/// One CPU's.
#[repr(C, align(64))]
struct Slot {
    /// Before that nothing is to be done, cycles.
    until: AtomicU64,
    /// When the timer is due, cycles; 0: it rests.
    due: AtomicU64,
    /// Sleeps that began since it was set, without the one it was set for.
    sleeps: AtomicU32,
    /// How often in a row it was of no use.
    vain: AtomicU32,
    /// Its descriptor, `NONE` or `NEVER`.
    fd: AtomicI32,
}

const NONE: i32 = 0;
const NEVER: i32 = -1;

/// Each process has its own. RELAXED, all: two threads that come at once set one timer twice, or count a sleep once.
static SLOTS: [Slot; 64] = [const { Slot::new() }; 64];

/// Cycles in a microsecond; 0: not begun.
static RATE: AtomicU32 = AtomicU32::new(0);

/// From now on the sleepers of this process have a timer, of a clock with so many cycles in a microsecond.
pub fn begin(cycles_per_us: u32) {
    // What a shared page says of the rate is within reason, or is made so.
    RATE.store(cycles_per_us.clamp(100, 10_000), Relaxed);
}

/// The caller is about to sleep in the kernel.
#[inline]
pub fn pend() {
    let (now, cpu) = clock::now_cpu();
    let slot = &SLOTS[cpu as usize % SLOTS.len()];
    if slot.waits(now) {
        slot.sleeps
            .store(slot.sleeps.load(Relaxed).wrapping_add(1), Relaxed);
        return;
    }
    look(slot, now);
}

#[cold]
fn look(slot: &Slot, now: u64) {
    let rate = u64::from(RATE.load(Relaxed));
    if rate == 0 || !slot.is_worth(now, PERIOD * rate) {
        return;
    }
    if slot.fd.load(Relaxed) == NONE {
        open(slot);
    }
    let fd = slot.fd.load(Relaxed);
    // A filter of system calls may end who makes one that it does not know; one that has come since, too. Else the
    // program has closed it.
    if fd > NONE && (process::is_filtered() || !set(fd, PERIOD)) {
        slot.fd.store(NEVER, Relaxed);
    }
}

fn open(slot: &Slot) {
    if process::is_filtered() {
        return slot.fd.store(NEVER, Relaxed);
    }
    let new = new();
    // RELAXED: a number, no more.
    if slot
        .fd
        .compare_exchange(NONE, new, Relaxed, Relaxed)
        .is_err()
        && new > NONE
    {
        file::close(new as usize);
    }
}

/// A timer that is not set. `NEVER`: no descriptor is free, or the process may have none of such a number.
fn new() -> i32 {
    let flags = libc::TFD_CLOEXEC | libc::TFD_NONBLOCK;
    // SAFETY: no pointers.
    let low = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) };
    if low < 0 {
        return NEVER;
    }
    // SAFETY: no pointers.
    let fd = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, FROM) };
    file::close(low as usize);
    fd.max(NEVER)
}

/// Sets it: it is due in `us` microseconds, less than a second, once. False: `fd` is no timer's.
fn set(fd: i32, us: u64) -> bool {
    let zero = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let new = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec {
            tv_nsec: us as i64 * 1000,
            ..zero
        },
    };
    // SAFETY: one struct itimerspec of ours.
    unsafe { libc::timerfd_settime(fd, 0, &new, core::ptr::null_mut()) == 0 }
}

impl Slot {
    const fn new() -> Slot {
        Slot {
            until: AtomicU64::new(0),
            due: AtomicU64::new(0),
            sleeps: AtomicU32::new(0),
            vain: AtomicU32::new(0),
            fd: AtomicI32::new(NONE),
        }
    }

    /// Whether nothing is to be done now.
    #[inline]
    fn waits(&self, now: u64) -> bool {
        self.until.load(Relaxed).wrapping_sub(now) < FAR
    }

    /// Before a sleep at `now`, when nothing is known of the next `period` any more: whether the timer is to be set.
    fn is_worth(&self, now: u64, period: u64) -> bool {
        let slept = self.sleeps.swap(0, Relaxed) > 0;
        let due = self.due.load(Relaxed);
        let mut vain = self.vain.load(Relaxed);
        if due != 0 {
            // Who sleeps again before it is due was woken before it was due.
            vain = if slept || now < due {
                0
            } else {
                vain.saturating_add(1)
            };
            self.vain.store(vain, Relaxed);
        }
        let rests = due != 0 && vain > FREE;
        let wait = if rests {
            period << (vain - FREE).min(MOST)
        } else {
            period / 2
        };
        self.due
            .store(if rests { 0 } else { now + period }, Relaxed);
        self.until.store(now + wait, Relaxed);
        !rests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: u64 = 1_000_000;

    /// Of sleeps that begin `gap` apart, which find the timer due later, of the last half of `n`; and how often it is
    /// set in all.
    fn run(gap: u64, n: u64) -> (u64, u64) {
        let (slot, mut sets, mut covered, mut due) = (Slot::new(), 0, 0, 0);
        for i in 0..n {
            let now = (1 << 40) + i * gap;
            if slot.waits(now) {
                slot.sleeps.fetch_add(1, Relaxed);
            } else if slot.is_worth(now, P) {
                (sets, due) = (sets + 1, now + P);
            }
            covered += u64::from(2 * i >= n && due > now + gap);
        }
        (covered, sets)
    }

    #[test]
    fn it_is_due_and_goes_with_exec() {
        let fd = super::new();
        assert!(fd >= FROM, "{fd}");
        let there = |ms| file::poll1(fd as usize, file::POLLIN, ms).0;
        assert_eq!(file::fcntl(fd as usize, file::F_GETFD, 0), 1);
        assert_eq!(there(20), 0);
        assert!(set(fd, 2000));
        assert_eq!(there(5000), 1);
        // Set anew it is not due yet.
        assert!(set(fd, 999_999));
        assert_eq!(there(0), 0);
        file::close(fd as usize);
        assert!(!set(fd, 1));
    }

    #[test]
    fn short_sleeps_have_it_all_the_time() {
        for gap in [P / 100, P / 10, P / 3, P / 2 - 1] {
            let (covered, sets) = run(gap, 2000);
            assert_eq!(covered, 1000, "{gap}");
            assert!(sets <= 2000 * gap / (P / 2) + 1, "{gap}: {sets}");
        }
    }

    #[test]
    fn long_sleeps_leave_it_at_rest() {
        for gap in [P + 1, 2 * P, 50 * P] {
            let (covered, sets) = run(gap, 10_000);
            assert_eq!(covered, 0);
            let longest = (P << MOST) / gap;
            assert!(sets <= 12 + 10_000 / (longest + 1), "{gap}: {sets}");
        }
    }

    #[test]
    fn a_pause_now_and_then_takes_nothing_away() {
        let slot = Slot::new();
        let (mut now, mut sets) = (1 << 40, 0);
        for _ in 0..100 {
            for _ in 0..20 {
                if slot.waits(now) {
                    slot.sleeps.fetch_add(1, Relaxed);
                } else {
                    assert!(slot.is_worth(now, P));
                    sets += 1;
                }
                now += P / 4;
            }
            now += 50 * P;
        }
        assert!(sets >= 100 * 6, "{sets}");
    }

    #[test]
    fn one_that_rested_is_back_with_the_next_short_sleeps() {
        let slot = Slot::new();
        let mut now = 1 << 40;
        for _ in 0..2000 {
            if !slot.waits(now) {
                slot.is_worth(now, P);
            }
            now += 3 * P;
        }
        let mut sets = 0;
        for _ in 0..3000 {
            if slot.waits(now) {
                slot.sleeps.fetch_add(1, Relaxed);
            } else {
                sets += u32::from(slot.is_worth(now, P));
            }
            now += P / 4;
        }
        // 3000 sleeps are 750 periods; the rest was of 256 at most.
        assert!(sets > 900, "{sets}");
    }

    #[test]
    fn a_counter_that_was_set_back_is_believed() {
        let slot = Slot::new();
        assert!(slot.is_worth(1 << 60, P));
        assert!(!slot.waits(1 << 30));
        assert!(slot.is_worth(1 << 30, P));
        assert!(slot.waits((1 << 30) + 1));
    }
}
