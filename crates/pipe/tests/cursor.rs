//! Cursors: ends that go on where they stopped, while others write, read, give memory and the channel back in between.
//!
//! Not here: threads and processes, which all have cursors (stream.rs, biased_lock.rs); nonsense in the slot
//! (hostile.rs).
mod common;
use byway_pipe::cursor::{ReadCursor, WriteCursor};
use byway_pipe::reason::Reason;
use byway_pipe::{clusters, handback};
use byway_sys::{clock, file};
use common::{Pipe, pipe, pipe_in};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// As many writes by one thread as make it the bias owner.
const MANY: usize = 3000;

fn random(x: &mut u64) -> usize {
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    *x as usize >> 8
}

/// A pipe to which the calling thread has long written alone, and which is empty.
fn biased() -> Pipe {
    let p = pipe();
    long_written(&p);
    p
}

fn long_written(p: &Pipe) {
    let mut b = [0; 16];
    for _ in 0..MANY {
        assert_eq!(p.put(&b), 16);
        assert_eq!(p.get(&mut b), 16);
    }
}

/// A cursor of the bias owner, which is the calling thread. Now and then a write goes another way, and brings none.
fn cursor(p: &Pipe) -> WriteCursor {
    let mut cursor = WriteCursor::NONE;
    for _ in 0..1000 {
        assert_eq!(p.put_by(&[0; 64], &mut cursor), 64);
        assert_eq!(p.get(&mut [0; 64]), 64);
        if cursor.room() > 1000 {
            return cursor;
        }
    }
    panic!("none after a thousand writes");
}

#[test]
fn a_keeper_has_one() {
    let p = biased();
    let gone_by = |p: &Pipe| {
        let mut cursor = cursor(p);
        let room = cursor.room();
        assert_eq!(p.put_by(&[1; 64], &mut cursor), 64);
        assert_eq!(p.get(&mut [0; 64]), 64);
        cursor.room() == room - 64
    };
    assert!((0..100).any(|_| gone_by(&p)));
    let mut cursor = cursor(&p);
    for n in 1..=2 {
        assert_eq!(p.put_by(&[n; 64], &mut cursor), 64);
    }
    let (mut b, mut read) = ([0; 32], ReadCursor::NONE);
    for want in [1, 1, 2, 2] {
        assert_eq!(p.get_by(&mut b, &mut read), 32);
        assert_eq!(b, [want; 32]);
    }
}

#[test]
fn a_look_for_the_reader_leaves_it_and_finds_that_there_is_none() {
    let p = biased();
    let mut cursor = cursor(&p);
    let due = || {
        p.ch.writer.0.since.store(0, Relaxed);
        p.ch.writer.0.looked.store(0, Relaxed);
    };
    for n in 1..=10 {
        let room = cursor.room();
        due();
        assert_eq!(p.put_by(&[n; 64], &mut cursor), 64);
        assert_eq!(cursor.room(), room - 64);
        assert_ne!(p.ch.writer.0.looked.load(Relaxed), 0);
        let mut b = [0; 64];
        assert_eq!(p.get(&mut b), 64);
        assert_eq!(b, [n; 64]);
    }
    file::close(p.r);
    due();
    assert_eq!(p.put_by(&[7; 64], &mut cursor), -1);
    assert_eq!(
        std::io::Error::last_os_error().kind(),
        std::io::ErrorKind::BrokenPipe
    );
    assert!(p.ch.tail().closed());
}

#[test]
fn of_one_channel_is_none_of_another() {
    let p = biased();
    let q = pipe_in(p.d);
    long_written(&q);
    let mut cursor = WriteCursor::NONE;
    for n in 0..200u8 {
        let (first, second) = if n % 3 == 0 { (&p, &q) } else { (&q, &p) };
        assert_eq!(first.put_by(&[n; 40], &mut cursor), 40);
        assert_eq!(second.put_by(&[!n; 50], &mut cursor), 50);
        let mut b = [0; 100];
        assert_eq!((first.get(&mut b), &b[..40]), (40, &[n; 40][..]));
        assert_eq!((second.get(&mut b), &b[..50]), (50, &[!n; 50][..]));
    }
}

#[test]
fn ends_with_the_thread_that_kept() {
    let p = biased();
    let mut cursor = cursor(&p);
    assert_eq!(p.put_by(&[1; 64], &mut cursor), 64);
    // Another thread with the very cursor: the lock is not its own.
    std::thread::scope(|s| {
        s.spawn(|| assert_eq!(p.put_by(&[2; 64], &mut cursor), 64));
    });
    assert_eq!(p.put_by(&[3; 64], &mut cursor), 64);
    let mut b = [0; 64];
    for want in 1..=3 {
        assert_eq!((p.get(&mut b), b), (64, [want; 64]));
    }
}

#[test]
fn writes_nowhere_once_its_memory_is_anothers() {
    let p = biased();
    let me = p.me();
    let (mut cursor, mut b) = (cursor(&p), vec![0; 60_000]);
    handback::hand_back(&me, p.ch, p.r, false, Reason::Control);
    clusters::trim(&me, &clusters::user(&me), p.ch);
    assert!(!clusters::has_any(p.ch));
    // The next to ask for memory gets what went last.
    let q = pipe_in(p.d);
    long_written(&q);
    assert_eq!(q.put(&vec![7; b.len()]), b.len() as isize);
    // Else it asks the kernel for its reader first, and then for everything.
    p.ch.writer.0.looked.store(clock::now(), Relaxed);
    assert_eq!(p.put_by(&[2; 64], &mut cursor), 64);
    assert_eq!(q.get(&mut b), b.len() as isize);
    assert!(b.iter().all(|&x| x == 7));
    assert_eq!((p.get(&mut b), &b[..64]), (64, &[2; 64][..]));
}

/// Three writing and three reading ends of one thread, in any order, among whatever else happens to a channel.
#[test]
fn in_any_order() {
    for seed in 1..=40 {
        let p = biased();
        let me = p.me();
        let mut x = seed * 0x9E37_79B9;
        let mut wrote = [WriteCursor::NONE; 3];
        let mut read = [ReadCursor::NONE; 3];
        let mut there = VecDeque::new();
        let (mut next, mut by_cursor) = (0u32, 0);
        for _ in 0..4000 {
            // Few changes, or no cursor lives long.
            match random(&mut x) % 200 {
                0 => {
                    handback::hand_back(&me, p.ch, p.r, false, Reason::Control);
                }
                1..4 => drop(clusters::trim(&me, &clusters::user(&me), p.ch)),
                4..8 if there.len() < 20_000 => {
                    let b = bytes(&mut next, &mut there, 5000 + random(&mut x) % 9000);
                    assert_eq!(p.put(&b), b.len() as isize);
                }
                8..110 if there.len() < 40_000 => {
                    let n = 1 + random(&mut x) % if x & 1 == 0 { 60 } else { 900 };
                    let b = bytes(&mut next, &mut there, n);
                    let cursor = &mut wrote[random(&mut x) % 3];
                    let room = cursor.room();
                    assert_eq!(p.put_by(&b, cursor), n as isize);
                    by_cursor += usize::from(room > 0 && cursor.room() + n == room);
                }
                _ if !there.is_empty() => {
                    let mut b = vec![0; 1 + random(&mut x) % 700];
                    let n = p.get_by(&mut b, &mut read[random(&mut x) % 3]) as usize;
                    assert!(n > 0 && n <= there.len(), "seed {seed}: {n}");
                    let want: Vec<u8> = there.drain(..n).collect();
                    assert_eq!(b[..n], want, "seed {seed}");
                }
                _ => {}
            }
        }
        assert!(
            by_cursor > 50,
            "seed {seed}: {by_cursor} writes went by a cursor"
        );
    }
}

/// The next `n` bytes of the stream.
fn bytes(next: &mut u32, there: &mut VecDeque<u8>, n: usize) -> Vec<u8> {
    let b: Vec<u8> = (0..n as u32)
        .map(|i| (next.wrapping_add(i).wrapping_mul(0x9E37_79B1) >> 24) as u8)
        .collect();
    *next = next.wrapping_add(n as u32);
    there.extend(&b);
    b
}
