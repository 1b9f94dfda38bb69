//! Rings that go round in more memory than they may hold: it comes little by little, goes when it brings nothing, and
//! never from under a byte that is in flight.
//!
//! Not here: what it is worth (docs/adr/0016); laps without rseq, where none is longer than its ring.
#![cfg(not(miri))]
mod common;
use byway_pipe::policy::{self, Lines};
use byway_pipe::reason::Reason;
use byway_pipe::{clusters, handback};
use byway_sys::{clock, file, rseq};
use common::{Pipe, me, pipe};
use std::io::ErrorKind;
use std::sync::atomic::Ordering::Relaxed;

const CLUSTER: u64 = 65536;
const MIB: u64 = 1 << 20;
/// Of a ring of 512 KiB: its own clusters, one that a write has begun, and one behind it; and of its lap.
const OWN: usize = 10;
const LAP: usize = 32;

/// A stream through a pipe whose ends never wait, and how far it is.
struct Stream {
    p: Pipe,
    sent: u64,
    seen: u64,
}

fn pattern(i: u64) -> u8 {
    (i ^ (i >> 8).wrapping_mul(7) ^ (i >> 16).wrapping_mul(13)) as u8
}

impl Stream {
    fn new() -> Stream {
        // Its reader is on a CPU that there is not, as far as is known; it never says where it is.
        let p = Pipe {
            cpus: 2,
            rseq: false,
            ..pipe()
        };
        p.ch.m.0.reader_cpu.set(4000);
        for fd in [p.r, p.w] {
            file::fcntl(fd, libc::F_SETFL as usize, libc::O_NONBLOCK as usize);
        }
        Stream {
            p,
            sent: 0,
            seen: 0,
        }
    }
    /// Writes `n` bytes, or as many as go.
    fn put(&mut self, n: u64) {
        let b: Vec<u8> = (0..n).map(|i| pattern(self.sent + i)).collect();
        // An opening without rseq would have no longer lap.
        self.p.rseq = self.p.ch.tail().closed();
        let k = self.p.put(&b);
        self.p.rseq = false;
        // The kernel's own call says it by errno.
        let full = k == -1 && std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock;
        assert!(k > 0 || full || k == -(libc::EAGAIN as isize), "{k}");
        self.sent += k.max(0) as u64;
    }
    /// Reads `n`, or as many as there are.
    fn get(&mut self, n: u64) {
        let mut b = vec![0; n as usize];
        let k = self.p.get(&mut b);
        assert!(
            k > 0 || self.seen == self.sent,
            "{k}: {} of {}",
            self.seen,
            self.sent
        );
        for &c in &b[..k.max(0) as usize] {
            assert_eq!(c, pattern(self.seen), "byte {} of {}", self.seen, self.sent);
            self.seen += 1;
        }
    }
    /// So many MiB, a few messages at a time; those of which their writer would look how long they take are too short
    /// for that.
    fn flow(&mut self, mib: u64) {
        let end = self.sent + mib * MIB;
        while self.sent < end {
            let w = self.p.ch.tail().wide(self.p.ch.head().position());
            let midst = (w % CLUSTER).abs_diff(CLUSTER / 2) < 16_000;
            let n = if midst { 1000 } else { 4096 };
            (0..3).for_each(|_| self.put(n));
            (0..3).for_each(|_| self.get(n));
        }
    }
    fn clusters(&self) -> usize {
        self.p.ch.ring(&self.p.d).unwrap().clusters()
    }
    /// The next writes see their lines come late, or in time.
    fn find(&self, late: bool) {
        // Ten minutes for a page, or a moment for 1 TiB.
        let (n, ago) = if late { (4096, 1 << 40) } else { (1 << 40, 0) };
        let began = clock::now().wrapping_sub(ago);
        policy::ended(&self.p.me(), self.p.ch, (self.sent, n), began);
    }
    /// How a reader on another CPU copies for a long read, and for a short one.
    fn lines(&self) -> [Lines; 2] {
        policy::reads_here(&self.p.me(), self.p.ch);
        [4096, 64].map(|n| policy::lines(self.p.ch, n))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        file::close(self.p.r);
        file::close(self.p.w);
    }
}

#[test]
fn a_lap_grows_while_it_serves_and_goes_when_it_does_not() {
    if rseq::area().is_none() {
        return;
    }
    let mut s = Stream::new();
    s.flow(4);
    assert!(s.clusters() <= OWN, "{} at once", s.clusters());
    assert_eq!(s.lines(), [Lines::Taken; 2]);
    s.flow(16);
    assert_eq!(s.clusters(), LAP);
    s.find(false);
    assert_eq!(s.lines(), [Lines::Loaded, Lines::Taken]);
    // What the places still have from readers that took does not count.
    (0..20).for_each(|_| s.find(true));
    assert_eq!(s.lines(), [Lines::Loaded, Lines::Taken]);
    s.flow(4);
    (0..3).for_each(|_| s.find(true));
    s.find(false);
    assert_eq!(
        s.lines(),
        [Lines::Loaded, Lines::Taken],
        "one in time makes good for one that is late"
    );
    (0..4).for_each(|_| s.find(true));
    assert_eq!(s.lines(), [Lines::Taken; 2]);
    s.flow(1);
    assert!(s.clusters() <= OWN, "{} are left", s.clusters());
    // It is tried again, later.
    s.flow(8);
    assert!(s.clusters() <= OWN, "{} soon again", s.clusters());
    s.flow(32);
    assert_eq!(s.clusters(), LAP);
}

#[test]
fn a_ring_of_another_size_has_no_longer_lap() {
    for (bytes, cpus, shared) in [(128 << 10, 2, 1), (512 << 10, 1, 1), (512 << 10, 2, 0)] {
        let mut s = Stream::new();
        s.p.cpus = cpus;
        s.p.d.header().ring_bytes.store(bytes, Relaxed);
        s.p.d.header().shared_lines.store(shared, Relaxed);
        s.flow(20);
        let ring = s.p.ch.ring(&s.p.d).unwrap();
        assert_eq!(ring.bytes(), ring.lap());
        assert_eq!(s.clusters() as u64, ring.bytes() / CLUSTER);
    }
}

/// Whatever comes in between, each byte in flight keeps its place, and has memory.
#[test]
fn no_byte_in_flight_loses_its_place() {
    for seed in 1..5u64 {
        let mut s = Stream::new();
        s.flow(1);
        let mut x = seed;
        let mut next = |n: u64| {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) % n
        };
        let mut carried = 0;
        for round in 0..6000u64 {
            // Full for a while, then empty for a while.
            let full = round / 64 % 2 == 0;
            s.put(1 + next(if full { 60_000 } else { 9000 }));
            s.get(1 + next(if full { 9000 } else { 60_000 }));
            let (p, ch) = (&s.p, s.p.ch);
            match next(400) {
                0 => drop(clusters::trim(&p.me(), &clusters::user(&p.me()), ch)),
                // To be shortened (policy/cache_lines.rs, Left).
                1..=3 => ch.m.0.left.store(1 << 27, Relaxed),
                4 => drop(handback::hand_back(
                    &p.me(),
                    ch,
                    p.r,
                    false,
                    Reason::Control,
                )),
                _ => {}
            }
            if ch.tail().closed() {
                continue;
            }
            carried += 1;
            let (r, ring) = (ch.head().position(), ch.ring(&p.d).unwrap());
            let w = ch.tail().wide(r);
            for at in (r / CLUSTER..w.div_ceil(CLUSTER)).map(|i| r.max(i * CLUSTER)) {
                assert!(at == w || ring.has(at), "{at} of {r} to {w} has no memory");
            }
        }
        assert!(carried > 3000, "the kernel's most of the time: {carried}");
        while s.seen < s.sent {
            s.get(60_000);
        }
    }
}

/// A long write is not lent as long as the lap may serve it.
#[test]
fn nothing_is_lent_before_a_lap_was_in_vain() {
    if rseq::area().is_none() {
        return;
    }
    let mut s = Stream::new();
    s.flow(1);
    let me = s.p.me();
    let lends = || policy::may_offer(&me, s.p.ch, 128 << 10);
    assert!(!lends(), "not asked for");
    s.p.d.header().direct_from.store(64 << 10, Relaxed);
    assert!(!lends(), "before it was tried");
    // It serves; it was in vain, once (policy/cache_lines.rs, Left).
    s.p.ch.m.0.left.store(1 << 31, Relaxed);
    assert!(!lends(), "while it serves");
    s.p.ch.m.0.left.store(1 << 24, Relaxed);
    assert!(lends());
}

/// Where both ends run on one CPU a longer lap does harm.
#[test]
fn one_cpu_has_no_longer_lap() {
    if rseq::area().is_none() {
        return;
    }
    let mut s = Stream::new();
    s.flow(20);
    assert_eq!(s.clusters(), LAP);
    let at = &s.p.ch.m.0;
    at.reader_cpu.set(at.writer_cpu.get());
    s.find(false);
    assert!(policy::is_to_shorten(s.p.ch));
    at.reader_cpu.set(4000);
    s.flow(1);
    assert!(s.clusters() <= OWN, "{} are left", s.clusters());
}

/// Where all messages are short, a longer lap would bring nothing.
#[test]
fn short_messages_have_no_longer_lap() {
    let mut s = Stream::new();
    while s.sent < 20 * MIB {
        s.put(1000);
        s.get(1000);
    }
    assert!(s.clusters() <= OWN, "{}", s.clusters());
}

/// Every cluster goes back with the channel.
#[test]
fn a_whole_lap_goes_back() {
    if rseq::area().is_none() {
        return;
    }
    let mut s = Stream::new();
    s.flow(20);
    s.put(50_000);
    let used = |s: &Stream| {
        let mut n = 0;
        clusters::reach(s.p.d, s.p.ch, &mut |_| n += 1);
        n
    };
    // And the one with the table.
    assert_eq!(used(&s), LAP + 1);
    handback::hand_back(&me(s.p.d), s.p.ch, s.p.r, false, Reason::Control);
    assert!(s.p.ch.tail().closed());
    assert_eq!(used(&s), 0);
    s.get(50_000);
    assert_eq!(s.seen, s.sent);
}
