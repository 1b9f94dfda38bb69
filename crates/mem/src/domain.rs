//! Join a domain, or lay one out; the only place where offsets become pointers.
//!
//! Invariant: after `join` the mapping stays for the life of the process and no fd stays open, so a program that
//! closes every descriptor it does not know cannot take the domain away.
//! unsafe: mapping memory and reaching into it.
use crate::layout::*;
use byway_sys::errno::{Ret, failed};
use byway_sys::syscall::{call3, call6, nr};
use core::sync::atomic::Ordering::Relaxed;

/// A joined domain: its base address in this process.
#[derive(Clone, Copy)]
pub struct Domain {
    base: usize,
}

const PROT_RW: usize = 3;
const MAP_SHARED: usize = 1;

impl Domain {
    /// Maps the domain file at the NUL-terminated `path`, owned by this user and of this version.
    ///
    /// # Errors
    /// The kernel's error, or EINVAL for a file that is not a domain of this version.
    pub fn join(path: &[u8]) -> Result<Domain, Ret> {
        debug_assert!(path.last() == Some(&0));
        const AT_FDCWD: usize = -100isize as usize;
        const O_NOFOLLOW: usize = 0o400000;
        // SAFETY: `path` is NUL terminated; the buffers live over the calls; the mapping is new.
        unsafe {
            let fd = call6(
                nr::OPENAT,
                AT_FDCWD,
                path.as_ptr() as usize,
                2 | 0o2000000 | O_NOFOLLOW,
                0,
                0,
                0,
            );
            if failed(fd) {
                return Err(fd);
            }
            let mut st = [0u64; 18];
            let r = call3(nr::FSTAT, fd as usize, st.as_mut_ptr() as usize, 0);
            let uid = (st[3] >> 32) as u32;
            let euid = call3(nr::GETEUID, 0, 0, 0) as u32;
            let mode = st[3] as u32;
            let m = if failed(r) || uid != euid || mode & 0o077 != 0 || st[6] != DOMAIN_BYTES as u64
            {
                byway_sys::errno::EINVAL
            } else {
                call6(
                    nr::MMAP,
                    0,
                    DOMAIN_BYTES,
                    PROT_RW,
                    MAP_SHARED,
                    fd as usize,
                    0,
                )
            };
            call3(nr::CLOSE, fd as usize, 0, 0);
            if failed(m) {
                return Err(m);
            }
            let d = Domain { base: m as usize };
            let h = d.header();
            if h.magic.load(Relaxed) != MAGIC || h.version.load(Relaxed) != VERSION {
                call3(nr::MUNMAP, m as usize, DOMAIN_BYTES, 0);
                return Err(byway_sys::errno::EINVAL);
            }
            Ok(d)
        }
    }

    /// A domain over a mapping of `DOMAIN_BYTES` that the caller made and keeps.
    ///
    /// # Safety
    /// `base` is page aligned and mapped shared, readable and writable, for the life of the value.
    pub unsafe fn over(base: *mut u8) -> Domain {
        Domain {
            base: base as usize,
        }
    }

    pub fn header(&self) -> &'static Header {
        // SAFETY: the mapping covers the header and stays; all fields are atomics or only read by copy.
        unsafe { &*(self.base as *const Header) }
    }

    /// Address of channel slot `i`; `i` is checked.
    pub fn channel(&self, i: usize) -> Option<*mut u8> {
        (i < CHANNELS).then(|| (self.base + CHANNELS_AT + i * CHANNEL_BYTES) as *mut u8)
    }

    pub fn exec_record(&self, i: usize) -> &'static ExecRecord {
        let at = self.base + EXECS_AT + (i % EXECS) * size_of::<ExecRecord>();
        // SAFETY: inside the mapping; only atomics.
        unsafe { &*(at as *const ExecRecord) }
    }

    /// Address of slab `i`; `i` is checked.
    pub fn slab(&self, i: usize) -> Option<*mut u8> {
        (i < SLABS).then(|| (self.base + SLABS_AT + i * SLAB_BYTES) as *mut u8)
    }
}
