//! A process that uses a channel while a hostile peer writes anything anywhere into its slot, and into the tables of the
//! memory under it.
//!
//! Invariant: whatever stands there, the process touches nothing outside of the domain and its own buffers, and does not
//! panic. It may get wrong bytes, none, or wait: so a process that stands still is ended and another begins.
//! Not here: the allocator alone (crate mem, tests/hostile.rs).
mod common;

use byway_mem::domain::Domain;
use byway_mem::layout::{Geometry, MAGIC};
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::{ReadCursor, WriteCursor};
use byway_pipe::read::Armed;
use byway_pipe::transfer::transfer;
use byway_pipe::write::Progress;
use byway_pipe::{Caller, Step, clusters, fast_path, handback, read, write};
use byway_sys::file;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SLABS: usize = 8;
const GUARD: usize = 1 << 30;

/// A domain with a guard on each side: a step beyond is SIGSEGV.
fn domain() -> Domain {
    let g = Geometry::of(SLABS);
    // SAFETY: a reservation, and a shared mapping inside it; both stay.
    unsafe {
        let (none, anonymous) = (libc::PROT_NONE, libc::MAP_ANONYMOUS | libc::MAP_NORESERVE);
        let whole = libc::mmap(
            std::ptr::null_mut(),
            g.bytes + 2 * GUARD,
            none,
            libc::MAP_PRIVATE | anonymous,
            -1,
            0,
        );
        assert_ne!(whole, libc::MAP_FAILED);
        let p = libc::mmap(
            whole.cast::<u8>().add(GUARD).cast(),
            g.bytes,
            3,
            libc::MAP_SHARED | libc::MAP_FIXED | anonymous,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        let d = Domain::over(p.cast(), SLABS);
        d.lay_out();
        d.header().cycles_per_us.store(2000, Relaxed);
        d.header().cpus.store(2, Relaxed);
        d.header().magic.store(MAGIC, Relaxed);
        d
    }
}

fn random(x: &mut u64) -> u64 {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x
}

/// Puts and gets for ever; counts what it did.
fn user(d: Domain, ch: &'static Channel, fds: [i32; 2], done: &AtomicU64) -> ! {
    let me = Caller {
        cpus: 2,
        // Who gives nonsense back to a pipe that takes no more of it would wait for a reader: there is none beside it.
        abandoned: |_, _| true,
        ..common::me(d)
    };
    let (r, w) = (fds[0] as usize, fds[1] as usize);
    let mut b = vec![7u8; 100_000];
    let mut x = 1;
    let (mut wrote, mut read) = (WriteCursor::NONE, ReadCursor::NONE);
    let other = common::pipe_in(d);
    for fd in [other.r, other.w] {
        // SAFETY: no pointers.
        unsafe { libc::fcntl(fd as i32, libc::F_SETFL, libc::O_NONBLOCK) };
    }
    loop {
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: 1 + random(&mut x) as usize % b.len(),
        }];
        let short = (v[0].base, 1 + v[0].len % 256);
        let piece = (v[0].base, v[0].len);
        match random(&mut x) % 22 {
            20 => {
                let _ = transfer(&me, (ch, r), (other.ch, other.w), v[0].len, v[0]);
                other.get(&mut b);
            }
            21 => {
                other.put(&b[..short.1]);
                let _ = transfer(&me, (other.ch, other.r), (ch, w), v[0].len, v[0]);
            }
            16..18 => {
                let _ = fast_path::read(&me, ch, short, &mut read);
            }
            18 if fast_path::write(&me, ch, w, piece, u64::MAX, &mut wrote).is_some() => {}
            19 if fast_path::write(&me, ch, w, short, u64::MAX, &mut wrote).is_some() => {}
            0 => {
                handback::hand_back(&me, ch, r, false, byway_pipe::reason::Reason::Control);
            }
            1 => {
                let _ = clusters::trim(&me, &clusters::user(&me), ch);
            }
            2..9 | 18.. => {
                let mut p = Progress {
                    at: Buffers::new(&v),
                    want: v[0].len,
                    done: 0,
                };
                if write::write(&me, ch, w, &mut p) == Step::NativeCounted {
                    // SAFETY: our own fd and buffer.
                    let n = unsafe { file::write(w, v[0].base as *const u8, v[0].len) };
                    write::finish(ch, n);
                }
            }
            _ => {
                let mut armed = Armed::NOT;
                if read::read(&me, ch, r, Buffers::new(&v), v[0].len, 0, &mut armed)
                    == Step::NativeCounted
                {
                    // SAFETY: our own fd and buffer.
                    let n = unsafe { libc::read(fds[0], v[0].base as *mut _, v[0].len) };
                    read::finish(&me, ch, armed, n);
                }
            }
        }
        done.fetch_add(1, Relaxed);
    }
}

/// What a hostile peer writes: nonsense, small numbers, or another's value.
fn nonsense(x: &mut u64) -> u64 {
    match random(x) % 5 {
        0 => random(x),
        1 => random(x) % 64,
        2 => (random(x) % 64) << 32,
        3 => 1 << (random(x) % 64),
        _ => !(1 << (random(x) % 64)),
    }
}

/// Makes the slot look like an open channel again, somewhere in its ring, or nearly so.
fn plausible(ch: &Channel, slot: usize, x: &mut u64) {
    let f = &ch.facts.0;
    f.forever.store(0, Relaxed);
    f.pending.store(0, Relaxed);
    f.full.store(0, Relaxed);
    f.holders.store(random(x) as u32 % 8, Relaxed);
    f.intent
        .store(((random(x) % 8) << 60) | (random(x) % 9000), Relaxed);
    f.ring.store(1 << (12 + random(x) % 9), Relaxed);
    let r = random(x) % (1 << 20);
    // Lines 1 to 3 of the slot: the tail, the head, the chunk (word.rs).
    let word = |line: usize, v: u64| {
        // SAFETY: inside the slot, aligned.
        unsafe { &*((slot + 64 * line) as *const AtomicU64) }.store(v, Relaxed);
    };
    word(1, (r + random(x) % 600_000) & 0xffff_ffff);
    word(2, r);
    word(
        3,
        if random(x).is_multiple_of(2) {
            0
        } else {
            1 << 63 | (r + random(x) % 9000)
        },
    );
    for e in &ch.table.0 {
        if random(x).is_multiple_of(2) {
            e.store(1 + 256 * (random(x) as u32 % 80), Relaxed);
        }
    }
}

/// One process and one hostile peer, which writes anywhere, or into `only` one word of the slot; how many calls the
/// process made.
fn round(seed: u64, only: Option<usize>) -> u64 {
    let d = domain();
    // What a run may have been told: writes without the ring, pipes that take less than their rings.
    d.header().direct_from.store(seed as u32 & 4096, Relaxed);
    d.header().holds.store(seed as u32 & 65536, Relaxed);
    let mut fds = [0i32; 2];
    // SAFETY: pipe2(2) fills two ints.
    let made = unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_NONBLOCK) };
    assert_eq!(made, 0);
    let id = file::identity(fds[0] as usize).unwrap();
    let i = registry::claim(d, id.dev, id.ino).unwrap();
    let ch = Channel::at(d, i).unwrap();
    ch.reset(65536);
    registry::publish(d, i, id.ino);
    let g = d.geometry();
    let base = std::ptr::from_ref(d.header()) as usize;
    // SAFETY: a shared page of its own, zeroed.
    let done = unsafe {
        let (how, page) = (libc::MAP_SHARED | libc::MAP_ANONYMOUS, 4096);
        &*libc::mmap(std::ptr::null_mut(), page, 3, how, -1, 0).cast::<AtomicU64>()
    };
    // SAFETY: the child only runs `user`.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // The harness keeps what a test prints, and this process never comes back to it.
        std::panic::set_hook(Box::new(|said| {
            let said = format!("{said}\n");
            // SAFETY: bytes of our own.
            unsafe { libc::write(2, said.as_ptr().cast(), said.len()) };
        }));
        let _ = std::panic::catch_unwind(|| user(d, ch, fds, done));
        // SAFETY: only after a panic.
        unsafe { libc::_exit(99) };
    }
    let slot = std::ptr::from_ref(ch) as usize;
    let (mut x, t) = (seed, Instant::now());
    let (mut seen, mut since) = (0, Instant::now());
    let mut status = 0;
    while t.elapsed() < Duration::from_millis(150) {
        plausible(ch, slot, &mut x);
        for _ in 0..random(&mut x) % 20 {
            // The slot behind its key, and the tables on both sides of the slots.
            let at = if let Some(word) = only {
                slot + word
            } else if !random(&mut x).is_multiple_of(4) {
                slot + 16 + ((random(&mut x) as usize % 496) & !7)
            } else {
                let slabs = byway_mem::layout::SLABS_AT..g.channels_at;
                let others = g.buckets_at..g.arena_at;
                match (random(&mut x) as usize % (slabs.len() + others.len())) & !7 {
                    k if k < slabs.len() => base + slabs.start + k,
                    k => base + others.start + (k - slabs.len()),
                }
            };
            // SAFETY: inside the mapping, aligned.
            unsafe { &*(at as *const AtomicU64) }.store(nonsense(&mut x), Relaxed);
        }
        std::thread::sleep(Duration::from_micros(random(&mut x) % 100));
        let now = done.load(Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        } else if since.elapsed() > Duration::from_millis(60) {
            break;
        }
    }
    // SAFETY: our own child.
    unsafe {
        libc::kill(pid, libc::SIGKILL);
        libc::waitpid(pid, &mut status, 0);
        libc::close(fds[0]);
        libc::close(fds[1]);
        libc::munmap((base - GUARD) as *mut _, g.bytes + 2 * GUARD);
    }
    assert!(
        libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL,
        "seed {seed}: the process ended by itself, status {status:#x}"
    );
    seen
}

#[test]
fn nonsense_in_the_channel_is_never_a_fault() {
    let all: u64 = (1..=40u64)
        .map(|n| round(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(n), None))
        .sum();
    println!("{all} calls");
    assert!(all > 10_000, "hardly anything ran: {all} calls");
}

/// Each word has its turn, so that what its few dangerous values do is met each time, and not once in a hundred.
#[test]
fn nonsense_in_one_word_is_never_a_fault() {
    let all: u64 = (16..512)
        .step_by(8)
        .map(|word| {
            round(
                0x9E37_79B9_7F4A_7C15u64.wrapping_mul(word as u64),
                Some(word),
            )
        })
        .sum();
    println!("{all} calls");
    assert!(all > 10_000, "hardly anything ran: {all} calls");
}
