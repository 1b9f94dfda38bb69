//! Fear: a read or a write of std's gives another count, another error or other bytes than on the kernel.
use crate::check::{Heat, cases, fails};
use crate::kernel;
use crate::roles;
use crate::stream::{
    KIB, MIB, at, at_eof, bytes, fifo, fill, flood, get, hot, put, reader, reader_now, same, warm,
    writer,
};
use std::fs::File;
use std::io::{
    BufRead, BufReader, BufWriter, ErrorKind, IoSlice, IoSliceMut, LineWriter, Read, Seek, Write,
};
use std::os::unix::fs::FileExt;
use std::thread;

cases! {
    each: broken_pipe_is_an_error broken_pipe_in_a_long_write would_block atomic_pieces vectored read_exact_and_take
        read_to_end buffered lines buffer_is_free_after_the_write no_position odd_sizes;
    once: buffered_writer_without_a_reader line_writer;
}

/// std ignores SIGPIPE: no reader is an error that the program sees, as often as it asks, until one comes.
fn broken_pipe_is_an_error(heat: Heat) {
    let (path, mut r, w) = hot(heat);
    for round in 0..3 {
        put(&w, 1000, round, 1000);
        get(&r, 500, round, 500);
        drop(r);
        for _ in 0..3 {
            let e = fails((&w).write(b"x"), libc::EPIPE);
            assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        }
        fails((&w).write_all(at(0)), libc::EPIPE);
        fails(
            (&w).write_vectored(&[IoSlice::new(b"x"), IoSlice::new(b"y")]),
            libc::EPIPE,
        );
        // POSIX write: nothing to write finds no error.
        assert_eq!((&w).write(b"").expect("empty"), 0);
        (&w).flush().expect("flush of a File does nothing");
        r = reader(&path);
        get(&r, 500, 500 + round, 500);
        warm(&path, &r, &w, heat);
    }
}

/// The reader goes while the writer sleeps inside one write_all of 8 MiB.
fn broken_pipe_in_a_long_write(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (writes, task) = crate::stream::sleeper(move || {
        let e = (&w).write_all(&bytes(8 * MIB, 0)).expect_err("no reader");
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        fails((&w).write(b"x"), libc::EPIPE);
    });
    get(&r, 3 * MIB + 5, 0, 60_000);
    crate::stream::asleep(task);
    drop(r);
    writes.join().expect("the writer lives");
}

fn would_block(heat: Heat) {
    let (path, r, w) = hot(heat);
    kernel::nonblocking(&r, true);
    for round in 0..4 {
        let e = (&r).read(&mut [0; 100]).expect_err("empty");
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        let e = (&r).read_exact(&mut [0]).expect_err("empty");
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        let n = fill(&w, round);
        assert!(n >= 4096);
        kernel::nonblocking(&w, true);
        let e = (&w).write_all(&at(0)[..4096]).expect_err("full");
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        kernel::nonblocking(&w, false);
        // What is there comes before EAGAIN does.
        let mut all = Vec::new();
        let e = (&r).read_to_end(&mut all).expect_err("it ends in EAGAIN");
        assert_eq!(e.kind(), ErrorKind::WouldBlock);
        assert_eq!(all.len(), n);
        same(&all, round);
    }
    kernel::nonblocking(&r, false);
    flood(&path, &r, &w, 300_000, 0, heat);
    drop(w);
    kernel::nonblocking(&r, true);
    at_eof(&r);
}

/// POSIX write: up to PIPE_BUF bytes are one piece, whoever else writes.
fn atomic_pieces(heat: Heat) {
    let (path, r, w) = hot(heat);
    const WRITERS: u8 = 4;
    const PIECES: u32 = 1500;
    thread::scope(|s| {
        for id in 0..WRITERS {
            let w = writer(&path);
            s.spawn(move || {
                for i in 0..PIECES {
                    let n = 8 + (i as usize * 7 + usize::from(id) * 100) % 504;
                    let mut piece = vec![id; n];
                    piece[1..3].copy_from_slice(&(n as u16).to_le_bytes());
                    piece[3..7].copy_from_slice(&i.to_le_bytes());
                    (&w).write_all(&piece).expect("write");
                }
            });
        }
        drop(w);
        let mut from = BufReader::with_capacity(5000, &r);
        let mut next = [0; WRITERS as usize];
        for _ in 0..u32::from(WRITERS) * PIECES {
            let mut head = [0; 7];
            from.read_exact(&mut head).expect("a piece");
            let id = head[0];
            let n = usize::from(u16::from_le_bytes([head[1], head[2]]));
            let i = u32::from_le_bytes([head[3], head[4], head[5], head[6]]);
            assert_eq!(i, next[usize::from(id)], "pieces of writer {id} in order");
            next[usize::from(id)] += 1;
            let mut rest = vec![0; n - 7];
            from.read_exact(&mut rest).expect("its rest");
            assert!(rest.iter().all(|b| *b == id), "a piece was torn");
        }
        at_eof(from);
    });
}

/// From one buffer to more than the kernel takes in one call (std then gives it the first 1,024).
fn vectored(heat: Heat) {
    let (path, r, w) = hot(heat);
    for count in [1, 2, 3, 15, 16, 17, 40, 1023, 1024, 1100] {
        let (size, mut pos) = (60_000 / count, 0);
        let mut pieces = Vec::new();
        for i in 0..count {
            // Empty ones among them.
            let n = if i % 5 == 3 { 0 } else { size };
            pieces.push(&at(pos)[..n]);
            pos += n;
        }
        let slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let n = (&w).write_vectored(&slices).expect("writev");
        let first: usize = pieces.iter().take(1024).map(|p| p.len()).sum();
        assert_eq!(n, first, "{count} buffers");
        let mut room = vec![vec![0; size]; count];
        let mut into: Vec<_> = room.iter_mut().map(|b| IoSliceMut::new(b)).collect();
        let n = (&r).read_vectored(&mut into).expect("readv");
        assert_eq!(n, first, "{count} buffers");
        same(&room.concat()[..n], 0);
        flood(&path, &r, &w, 150_000, count, heat);
    }
}

fn read_exact_and_take(heat: Heat) {
    let (_, r, w) = hot(heat);
    put(&w, 60_000, 0, 4096);
    let mut b = vec![0; 20_000];
    (&r).read_exact(&mut b).expect("read_exact");
    same(&b, 0);
    let mut b = Vec::new();
    (&r).take(20_000).read_to_end(&mut b).expect("take");
    assert_eq!(b.len(), 20_000);
    same(&b, 20_000);
    let few = BufReader::new((&r).take(300)).bytes();
    let few: Vec<u8> = few.map(|b| b.expect("byte")).collect();
    same(&few, 40_000);
    drop(w);
    let mut b = vec![0; 20_000];
    let e = (&r).read_exact(&mut b).expect_err("not so many");
    assert_eq!(e.kind(), ErrorKind::UnexpectedEof);
    same(&b[..19_700], 40_300);
    at_eof(&r);
}

/// std reads into the spare room of a Vec that grows as it goes, with a small probe in between.
fn read_to_end(heat: Heat) {
    for n in [0, 31, 32, 33, 8192, 100_000, 3 * MIB + 17] {
        let (path, r, w) = hot(heat);
        let child = roles::write(&path, n, n, 9000);
        // The child must have come before we let go, or there is an end too early.
        let held = thread::scope(|s| {
            let waits = s.spawn(|| child.done());
            let mut all = vec![9; 3];
            let done = (&r)
                .take(n as u64)
                .read_to_end(&mut all)
                .expect("read_to_end");
            assert_eq!((done, all.len()), (n, n + 3));
            same(&all[3..], n);
            waits.join().expect("writer");
            w
        });
        put(&held, 5000, 0, 500);
        drop(held);
        let mut rest = Vec::with_capacity(5000);
        assert_eq!((&r).read_to_end(&mut rest).expect("to EOF"), 5000);
        same(&rest, 0);
    }
}

fn buffered(heat: Heat) {
    for (out, inward) in [
        (1, 1),
        (100, 8192),
        (8192, 100),
        (65_536, 65_536),
        (300_000, 4097),
    ] {
        let (_, r, w) = hot(heat);
        let n = if out.min(inward) < 100 { 20_000 } else { MIB };
        thread::scope(|s| {
            s.spawn(move || {
                let mut w = BufWriter::with_capacity(out, w);
                put(&mut w, n, 0, 333);
                w.flush().expect("flush");
                put(&mut w, 55, n, 10);
                // Dropped with bytes in its buffer.
            });
            let mut r = BufReader::with_capacity(inward, r);
            get(&mut r, n / 2, 0, 777);
            let there = r.fill_buf().expect("fill_buf").len();
            assert!(there > 0 && there <= inward);
            get(&mut r, n - n / 2 + 55, n / 2, 50_000);
            at_eof(r);
        });
    }
}

fn lines(heat: Heat) {
    let (_, r, w) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || {
            let mut w = BufWriter::new(w);
            for i in 0..20_000 {
                writeln!(w, "{i} {}", "-".repeat(i % 90)).expect("writeln");
            }
            write!(w, "the last has no end").expect("write");
        });
        let mut count = 0;
        let mut r = BufReader::new(r);
        let mut line = String::new();
        while r.read_line(&mut line).expect("read_line") > 0 && line.ends_with('\n') {
            assert_eq!(line, format!("{count} {}\n", "-".repeat(count % 90)));
            count += 1;
            line.clear();
        }
        assert_eq!((count, line.as_str()), (20_000, "the last has no end"));
    });
}

/// Whatever carries the bytes, they are the writer's no more when write_all has returned.
fn buffer_is_free_after_the_write(heat: Heat) {
    for size in [3000, 64 * KIB, 400_000, 3 * MIB] {
        let (_, r, w) = hot(heat);
        const ROUNDS: usize = 8;
        thread::scope(|s| {
            s.spawn(move || {
                let mut kept = vec![0; size];
                for i in 0..ROUNDS {
                    let mut gone = bytes(size, 2 * i * size);
                    (&w).write_all(&gone).expect("write");
                    gone.fill(0xEE);
                    drop(gone);
                    kept.copy_from_slice(&bytes(size, (2 * i + 1) * size));
                    (&w).write_all(&kept).expect("write");
                    kept.fill(0xDD);
                }
            });
            get(&r, 2 * ROUNDS * size, 0, 50_000);
            at_eof(&r);
        });
    }
}

fn no_position(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 1000, 0, 1000);
    for mut f in [&r, &w] {
        let e = fails(f.rewind(), libc::ESPIPE);
        assert_eq!(e.kind(), ErrorKind::NotSeekable);
        fails(f.stream_position(), libc::ESPIPE);
        fails(f.sync_all(), libc::EINVAL);
        fails(f.sync_data(), libc::EINVAL);
        fails(f.set_len(0), libc::EINVAL);
    }
    fails(r.read_at(&mut [0; 10], 0), libc::ESPIPE);
    fails(w.write_at(b"x", 0), libc::ESPIPE);
    // LINUX the wrong direction.
    fails((&w).read(&mut [0]), libc::EBADF);
    fails((&r).write(b"x"), libc::EBADF);
    get(&r, 1000, 0, 1000);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// One call of each size round about pages and rings, each its full count when room and bytes are there.
fn odd_sizes(heat: Heat) {
    let (_, r, w) = hot(heat);
    let mut b = vec![0; 65_536];
    for n in [
        1, 7, 8, 9, 63, 65, 511, 4095, 4096, 4097, 8191, 12_289, 32_769, 61_440,
    ] {
        for i in 0..9 {
            assert_eq!((&w).write(&at(i * n)[..n]).expect("write"), n);
            assert_eq!((&r).read(&mut b).expect("read"), n);
            same(&b[..n], i * n);
        }
    }
    assert_eq!((&r).read(&mut []).expect("empty"), 0);
}

fn buffered_writer_without_a_reader() {
    let path = fifo();
    let r = reader_now(&path);
    let mut w = BufWriter::with_capacity(1000, writer(&path));
    put(&mut w, 500, 0, 100);
    drop(r);
    fails(w.flush(), libc::EPIPE);
    let (inner, left) = w.into_parts();
    assert_eq!(left.expect("no panic").len(), 500);
    // What it could not write it still has: a new reader gets it.
    let r = reader(&path);
    put(&inner, 500, 0, 500);
    drop(inner);
    get(&r, 500, 0, 500);
    at_eof(&r);
}

fn line_writer() {
    let path = fifo();
    let r = reader_now(&path);
    let mut w = LineWriter::new(writer(&path));
    let there = |r: &File| kernel::bytes_waiting(r);
    w.write_all(b"half").expect("write");
    assert_eq!(there(&r), 0);
    w.write_all(b" a line\nand").expect("write");
    assert_eq!(there(&r), 12);
    drop(w);
    assert_eq!(there(&r), 15);
    let mut text = String::new();
    (&r).read_to_string(&mut text).expect("read");
    assert_eq!(text, "half a line\nand");
}
