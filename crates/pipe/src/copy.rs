//! Between a caller's buffers and a ring.
//!
//! Invariant: only memory that the caller's `access` check allowed is touched; a cursor never passes the end of its
//! buffers. `rep movsb` is the copy: on processors of this decade it is as good as any, but for short ones.
//! Not here: positions, publication.
use crate::ring::Ring;

/// struct iovec.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Iov {
    pub base: usize,
    pub len: usize,
}

/// Most vectors carried; a longer list goes to the kernel.
pub const VECTORS: usize = 16;

/// A place in a list of buffers.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    v: &'a [Iov],
    skip: usize,
}

/// # Safety
/// Both runs are mapped and do not overlap.
#[inline]
unsafe fn move_bytes(to: *mut u8, from: *const u8, n: usize) {
    // SAFETY: the caller's promise; the ABI keeps the direction flag clear.
    unsafe {
        core::arch::asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _,
                         options(nostack, preserves_flags));
    }
}

/// As `move_bytes`, for what is mostly short: below some hundred bytes the start of `rep movsb` is what takes time.
///
/// # Safety
/// As [`move_bytes`].
#[inline]
pub(crate) unsafe fn move_short(to: *mut u8, from: *const u8, n: usize) {
    use core::arch::asm;
    // SAFETY: the caller's promise; what is moved twice, where the last piece overlaps the one before, is moved alike.
    unsafe {
        match n {
            16..=512 => asm!(
                "2:", "movups {x}, [{from} + {i}]", "movups [{to} + {i}], {x}",
                "add {i}, 16", "cmp {i}, {last}", "jb 2b",
                "movups {x}, [{from} + {last}]", "movups [{to} + {last}], {x}",
                i = inout(reg) 0usize => _, last = in(reg) n - 16, to = in(reg) to, from = in(reg) from,
                x = out(xmm_reg) _, options(nostack)),
            8..=15 => asm!(
                "mov {a}, [{from}]", "mov {b}, [{from} + {last}]", "mov [{to}], {a}", "mov [{to} + {last}], {b}",
                last = in(reg) n - 8, to = in(reg) to, from = in(reg) from,
                a = out(reg) _, b = out(reg) _, options(nostack, preserves_flags)),
            1 => to.write_volatile(from.read_volatile()),
            _ => move_bytes(to, from, n),
        }
    }
}

impl<'a> Cursor<'a> {
    pub fn new(v: &'a [Iov]) -> Cursor<'a> {
        let mut c = Cursor { v, skip: 0 };
        c.settle();
        c
    }
    fn settle(&mut self) {
        while let Some(f) = self.v.first() {
            if self.skip < f.len {
                break;
            }
            self.v = &self.v[1..];
            self.skip = 0;
        }
    }
    /// The contiguous run here: address and length (0 at the end).
    pub fn run(&self) -> (usize, usize) {
        self.v
            .first()
            .map_or((0, 0), |f| (f.base + self.skip, f.len - self.skip))
    }
    pub fn advance(&mut self, mut n: usize) {
        while n > 0 {
            let (_, len) = self.run();
            if len == 0 {
                return;
            }
            let k = n.min(len);
            self.skip += k;
            n -= k;
            self.settle();
        }
    }
    /// The next `n` bytes as vectors for a kernel call; returns how many vectors.
    pub fn take_vectors(mut self, n: usize, out: &mut [Iov; VECTORS]) -> usize {
        let (mut left, mut c) = (n, 0);
        while left > 0 && c < VECTORS {
            let (base, len) = self.run();
            if len == 0 {
                break;
            }
            let k = len.min(left);
            out[c] = Iov { base, len: k };
            c += 1;
            left -= k;
            self.advance(k);
        }
        c
    }
    /// Asks `access` about the next `n` bytes.
    #[inline]
    pub fn check(&self, n: usize, access: impl Fn(usize, usize) -> bool) -> bool {
        let (base, len) = self.run();
        if n <= len {
            return n == 0 || access(base, n);
        }
        self.check_each(n, access)
    }
    fn check_each(mut self, n: usize, access: impl Fn(usize, usize) -> bool) -> bool {
        let mut left = n;
        while left > 0 {
            let (base, len) = self.run();
            if len == 0 {
                return true;
            }
            let k = len.min(left);
            if !access(base, k) {
                return false;
            }
            left -= k;
            self.advance(k);
        }
        true
    }

    /// `n` bytes from here into the ring at position `at`.
    ///
    /// # Safety
    /// `check` allowed them; the ring's places are the caller's.
    #[inline]
    pub unsafe fn to_ring(&self, ring: Ring, at: u64, n: usize) {
        let ((base, len), (p, wrap)) = (self.run(), ring.run(at));
        // SAFETY: the caller's promise; `n` bytes are inside both runs, or it is done piece by piece.
        unsafe {
            if n <= len.min(wrap) {
                move_short(p, base as *const u8, n);
            } else {
                self.each_to_ring(ring, at, n);
            }
        }
    }
    /// # Safety
    /// As [`Cursor::to_ring`].
    unsafe fn each_to_ring(mut self, ring: Ring, mut at: u64, mut n: usize) {
        while n > 0 {
            let (base, len) = self.run();
            let (p, wrap) = ring.run(at);
            let k = n.min(len).min(wrap);
            if k == 0 {
                return;
            }
            // SAFETY: the caller's promise; `k` stays inside both runs.
            unsafe { move_bytes(p, base as *const u8, k) };
            self.advance(k);
            at += k as u64;
            n -= k;
        }
    }
    /// `n` bytes of the ring from position `at` to here.
    ///
    /// # Safety
    /// As [`Cursor::to_ring`].
    #[inline]
    pub unsafe fn from_ring(&self, ring: Ring, at: u64, n: usize) {
        let ((base, len), (p, wrap)) = (self.run(), ring.run(at));
        // SAFETY: the caller's promise; `n` bytes are inside both runs, or it is done piece by piece.
        unsafe {
            if n <= len.min(wrap) {
                move_short(base as *mut u8, p, n);
            } else {
                self.each_from_ring(ring, at, n);
            }
        }
    }
    /// # Safety
    /// As [`Cursor::to_ring`].
    unsafe fn each_from_ring(mut self, ring: Ring, mut at: u64, mut n: usize) {
        while n > 0 {
            let (base, len) = self.run();
            let (p, wrap) = ring.run(at);
            let k = n.min(len).min(wrap);
            if k == 0 {
                return;
            }
            // SAFETY: the caller's promise; `k` stays inside both runs.
            unsafe { move_bytes(base as *mut u8, p, k) };
            self.advance(k);
            at += k as u64;
            n -= k;
        }
    }
}
