//! Streams of more than a TiB: the head and the chunk's position are kept modulo 2^40, and everything goes on when one
//! of them begins anew.
//!
//! Not here: the tail, which is kept modulo 2^32 and begins anew in every stream of some GiB (stream.rs).
mod common;
use byway_pipe::reason::Reason;
use byway_pipe::word::{Chunk, Head};
use byway_pipe::{clusters, handback};
use byway_sys::file;
use common::{Pipe, me, pipe};
use std::sync::atomic::Ordering::Relaxed;

const END: u64 = 1 << 40;

/// A pipe of which all but `left` bytes of a TiB have gone, whose ends never sleep.
struct Stream {
    p: Pipe,
    sent: u64,
    seen: u64,
}

fn pattern(i: u64) -> u8 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

impl Stream {
    fn new(left: u64) -> Stream {
        let p = pipe();
        for fd in [p.r, p.w] {
            file::fcntl(fd, libc::F_SETFL as usize, libc::O_NONBLOCK as usize);
        }
        let t = p.ch.tail();
        assert!(
            t.closed()
                && p.ch
                    .cas_tail(t, t.with_position((END - left) as u32))
                    .is_ok()
        );
        assert!(p.ch.cas_head(p.ch.head(), Head::free(END - left)));
        Stream {
            p,
            sent: 0,
            seen: 0,
        }
    }
    /// Whether any of `n` bytes found room.
    fn put(&mut self, n: u64) -> bool {
        let b: Vec<u8> = (0..n).map(|i| pattern(self.sent + i)).collect();
        let k = self.p.put(&b);
        self.sent += k.max(0) as u64;
        k > 0
    }
    /// Whether any of up to `n` bytes was there.
    fn get(&mut self, n: usize) -> bool {
        let mut b = vec![0; n];
        let k = self.p.get(&mut b).max(0) as usize;
        for &c in &b[..k] {
            assert_eq!(c, pattern(self.seen), "byte {}", self.seen);
            self.seen += 1;
        }
        k > 0
    }
    /// Opens the ring with `n` bytes, which are read.
    fn open(&mut self, n: u64) {
        for _ in 0..20 {
            assert!(self.put(n / 20));
        }
        while self.get(1000) {}
        assert!(!self.p.ch.tail().closed() && self.seen == self.sent);
    }
    fn trim(&self) {
        let m = me(self.p.d);
        clusters::trim(&m, &clusters::user(&m), self.p.ch);
    }
    fn is_past(&self) -> bool {
        self.p.ch.head().position() < END / 2
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        file::close(self.p.r);
        file::close(self.p.w);
    }
}

/// Who stands still there does so for ever.
fn within_a_minute() {
    // SAFETY: no more than a signal, which ends this process.
    unsafe { libc::alarm(60) };
}

#[test]
fn places() {
    for (p, r) in [(5, 5), (5000, 5), (END - 1, END - 4000)] {
        assert_eq!(Chunk(0).next(p).position(r), p);
    }
    // Beyond the end; and passed, by the head that is beyond it or not.
    assert_eq!(Chunk(0).next(END + 7).position(END - 3), END + 7);
    assert_eq!(Chunk(0).next(END - 3).position(7), 7);
    assert_eq!(Chunk(0).next(100).position(107), 107);
    assert_eq!(Chunk(0).next(END).position(0), 0);
}

/// The ring is full before the end, and the kernel lane has what comes next, of behind it.
#[test]
fn a_full_ring() {
    within_a_minute();
    for (left, size) in [
        (100_000, 1000),
        (60_000, 4096),
        (300_000, 100_000),
        (70_000, 300),
        (4096 * 40, 4096),
    ] {
        for one in [100, 4096, 65536, 1 << 20] {
            let mut s = Stream::new(left);
            s.p.d.header().ring_bytes.store(256 << 10, Relaxed);
            s.open(50_000);
            while s.put(size) {}
            while s.get(one) {
                s.put(size);
                if s.sent > 700_000 {
                    break;
                }
            }
            while s.get(one) {}
            assert!(s.seen == s.sent && s.is_past(), "{} of {}", s.seen, s.sent);
        }
    }
}

/// What is in flight lies on both sides of the end when the channel is given to the kernel, and what it does not need
/// goes back.
#[test]
fn given_back() {
    within_a_minute();
    for left in (60_000..400_000).step_by(33_333) {
        for full in [false, true] {
            let mut s = Stream::new(left);
            s.open(50_000);
            while s.put(3001) && (full || s.sent < left + 20_000) {}
            s.get(10_000);
            s.trim();
            assert!(handback::hand_back(
                &me(s.p.d),
                s.p.ch,
                s.p.r,
                false,
                Reason::Control
            ));
            assert!(s.p.ch.tail().closed());
            while s.get(7777) {}
            assert_eq!(s.seen, s.sent);
            s.open(50_000);
        }
    }
}

/// Sizes that meet the end at all kinds of places, with what is seldom done in between.
#[test]
fn all_kinds() {
    within_a_minute();
    let mut x = 0x1234_5678_9abc_def1u64;
    let mut random = |n: u64| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x % n
    };
    for _ in 0..300 {
        let mut s = Stream::new(60_000 + random(600_000));
        s.open(50_000);
        while !s.is_past() || random(20) > 0 {
            let n = [1, 40, 100, 4096, 5000, 100_000][random(6) as usize];
            match random(10) {
                0..5 => (0..1 + random(10)).for_each(|_| {
                    s.put(1 + random(n));
                }),
                5..9 => {
                    s.get(1 + random(n) as usize);
                }
                _ => match random(3) {
                    0 => {
                        handback::hand_back(&me(s.p.d), s.p.ch, s.p.w, false, Reason::Control);
                    }
                    1 => while s.get(4096) {},
                    _ => s.trim(),
                },
            }
        }
        while s.get(65536) {}
        assert_eq!(s.seen, s.sent);
    }
}
