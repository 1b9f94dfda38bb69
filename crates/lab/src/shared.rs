//! Anonymous memory that a process shares with those it forks.
//!
//! Invariant: it has no name, so nothing is left when the last process has ended, however it ends.
//! Not here: what lies in it.
use std::io;
use std::sync::atomic::AtomicU64;

/// A mapping, zeroed, there for the life of the process, which is one run (child.rs), unless `unmap` ends it.
#[derive(Clone, Copy)]
pub struct Shared {
    base: usize,
    bytes: usize,
}

impl Shared {
    /// `bytes` of it, which the machine has to give when they are first touched.
    ///
    /// # Errors
    /// No room in the address space.
    pub fn new(bytes: usize) -> io::Result<Shared> {
        let bytes = bytes.next_multiple_of(4096);
        let how = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let rw = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let p = unsafe { libc::mmap(std::ptr::null_mut(), bytes, rw, how, -1, 0) };
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Shared {
            base: p as usize,
            bytes,
        })
    }

    pub fn base(&self) -> usize {
        self.base
    }
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The value at byte `at`.
    ///
    /// # Safety
    /// `T` consists of atomics, for which zeroes are a value.
    pub unsafe fn get<T>(&self, at: usize) -> &'static T {
        assert!(at + size_of::<T>() <= self.bytes && at.is_multiple_of(align_of::<T>()));
        // SAFETY: inside the mapping, which stays, and aligned; `T` as the caller says.
        unsafe { &*((self.base + at) as *const T) }
    }

    /// The words from byte `at` on.
    pub fn words(&self, at: usize, n: usize) -> &'static [AtomicU64] {
        assert!(at + n * 8 <= self.bytes && at.is_multiple_of(8));
        // SAFETY: inside the mapping, which stays, and aligned; atomics, for which zeroes are a value.
        unsafe { std::slice::from_raw_parts((self.base + at) as *const AtomicU64, n) }
    }

    /// Ends it; only for memory to which no reference is left.
    pub fn unmap(self) {
        // SAFETY: our mapping, which nobody uses any more.
        unsafe { libc::munmap(self.base as *mut _, self.bytes) };
    }

    /// Asks the machine for all of it now.
    ///
    /// LINUX madvise(2) MADV_POPULATE_WRITE (5.14): an error where a touch would be SIGBUS.
    ///
    /// # Errors
    /// There is no memory.
    pub fn populate(&self) -> io::Result<()> {
        // SAFETY: our mapping; its contents do not change.
        let r =
            unsafe { libc::madvise(self.base as *mut _, self.bytes, libc::MADV_POPULATE_WRITE) };
        if r == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// Sleeps until somebody wakes who sleeps on `word`, if it is `value`; perhaps not so long. Values are small.
pub fn sleep_while(word: &AtomicU64, value: u64) {
    let none = std::ptr::null::<libc::timespec>();
    // SAFETY: futex(2) on the lower half of a word of shared memory (x86-64: the first).
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT,
            value as u32,
            none,
        )
    };
}

/// Wakes all who sleep on `word`.
pub fn wake(word: &AtomicU64) {
    // SAFETY: as above; no memory is changed.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
