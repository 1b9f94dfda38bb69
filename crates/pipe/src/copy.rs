//! Between a caller's buffers and a ring.
//!
//! Invariant: only memory that the caller's `access` check allowed is touched; a cursor never passes the end of its
//! buffers. `rep movsb` is the copy: on processors of this decade it is as good as any, but for short ones, and for
//! lines that two CPUs pass to each other where they stay with both (docs/adr/0016).
//! Not here: positions, publication.
use crate::policy::Lines;
use crate::ring::Ring;
use byway_sys::line;

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
pub struct Buffers<'a> {
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

/// So many bytes of lines that are taken are copied before the next ones come: a locked instruction waits for what was
/// copied before, and what is copied does not wait for it. No more than `move_short` loads.
pub(crate) const TAKEN: usize = 512;

/// As [`move_short`], out of the ring, whose bytes from `from` on are published as far as they are `there`.
///
/// # Safety
/// As [`move_short`]; `from` may be written, and its `there` bytes are mapped.
#[inline]
pub(crate) unsafe fn move_lines(
    to: *mut u8,
    from: *const u8,
    n: usize,
    lines: Lines,
    there: usize,
) {
    // SAFETY: the caller's promise.
    unsafe {
        if lines == Lines::Copied || n <= TAKEN {
            if lines == Lines::Taken {
                line::take(from, n, there);
            }
            return move_short(to, from, n);
        }
        let there = if lines == Lines::Taken { there } else { 0 };
        move_pieces(to, from, n, there);
    }
}

/// The same of more than `TAKEN` bytes.
///
/// # Safety
/// As [`move_lines`].
#[inline(never)]
unsafe fn move_pieces(to: *mut u8, from: *const u8, n: usize, there: usize) {
    let mut i = 0;
    while i < n {
        let k = TAKEN.min(n - i);
        // SAFETY: the caller's promise; inside both runs.
        unsafe {
            line::take(from.add(i), k, there.saturating_sub(i));
            match k {
                TAKEN => move_taken(to.add(i), from.add(i)),
                _ => move_short(to.add(i), from.add(i), k),
            }
        }
        i += k;
    }
}

/// `TAKEN` bytes, a line's worth of loads before its stores: a store may look to the processor as if a load that
/// follows were of it.
///
/// # Safety
/// As [`move_bytes`].
#[inline]
unsafe fn move_taken(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe {
        core::arch::asm!(
            "2:",
            "movups {a}, [{from} + {i}]", "movups {b}, [{from} + {i} + 16]",
            "movups {c}, [{from} + {i} + 32]", "movups {d}, [{from} + {i} + 48]",
            "movups [{to} + {i}], {a}", "movups [{to} + {i} + 16], {b}",
            "movups [{to} + {i} + 32], {c}", "movups [{to} + {i} + 48], {d}",
            "add {i}, 64", "jnz 2b",
            i = inout(reg) -(TAKEN as isize) => _, to = in(reg) to.add(TAKEN), from = in(reg) from.add(TAKEN),
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _, options(nostack));
    }
}

impl<'a> Buffers<'a> {
    pub fn new(v: &'a [Iov]) -> Buffers<'a> {
        let mut c = Buffers { v, skip: 0 };
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
    /// `n` bytes of the ring from position `at` to here, where so many are `there` (published).
    ///
    /// # Safety
    /// As [`Cursor::to_ring`].
    #[inline]
    pub unsafe fn from_ring(&self, ring: Ring, at: u64, n: usize, lines: Lines, there: usize) {
        let ((base, len), (p, wrap)) = (self.run(), ring.run(at));
        // SAFETY: the caller's promise; `n` bytes are inside both runs, or it is done piece by piece.
        unsafe {
            if n <= len.min(wrap) {
                move_lines(base as *mut u8, p, n, lines, there.min(wrap));
            } else {
                self.each_from_ring(ring, at, n, lines, there);
            }
        }
    }
    /// # Safety
    /// As [`Cursor::to_ring`].
    unsafe fn each_from_ring(
        mut self,
        ring: Ring,
        mut at: u64,
        mut n: usize,
        lines: Lines,
        mut there: usize,
    ) {
        while n > 0 {
            let (base, len) = self.run();
            let (p, wrap) = ring.run(at);
            let k = n.min(len).min(wrap);
            if k == 0 {
                return;
            }
            // SAFETY: the caller's promise; `k` stays inside both runs.
            unsafe { move_lines(base as *mut u8, p, k, lines, there.min(wrap)) };
            self.advance(k);
            at += k as u64;
            n -= k;
            there = there.saturating_sub(k);
        }
    }
}
