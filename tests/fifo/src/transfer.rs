//! Fear: what io::copy really does. Between descriptors std calls copy_file_range, sendfile or splice, which a ring cannot carry:
//! the FIFO goes back to the kernel in mid-stream, and not a byte may be lost, doubled or late.
use crate::check::{Heat, cases, fails};
use crate::kernel;
use crate::roles::{Other, command};
use crate::stream::{
    MIB, at_eof, bytes, ends, fifo, flood, fresh, get, hot, put, reader, same, sleeper, warm,
    writer,
};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;

cases! {
    each: fifo_to_file part_of_a_fifo_to_file file_to_fifo fifo_to_fifo rest_of_a_buffer_first fifo_to_socket
        socket_to_fifo by_a_buffer_of_ours no_reader_any_more nothing_is_there fs_copy_refuses
        a_child_copies_between_its_standard_ends;
    once: both_sides_copy a_copier_is_killed;
}

const N: usize = MIB + 13;

/// A regular file with `N` bytes of the stream from `pos`.
fn filled(pos: usize) -> File {
    let path = fresh();
    fs::write(&path, bytes(N, pos)).expect("fs::write");
    File::open(path).expect("open")
}

fn holds(f: &mut File, n: usize, pos: usize) {
    use std::io::Seek;
    f.rewind().expect("rewind");
    let mut all = Vec::new();
    f.read_to_end(&mut all).expect("read");
    assert_eq!(all.len(), n);
    same(&all, pos);
}

fn empty_file() -> File {
    let mut o = File::options();
    o.read(true).write(true).create_new(true);
    o.open(fresh()).expect("create")
}

/// splice(2). After EOF the FIFO has a second life on plain calls.
fn fifo_to_file(heat: Heat) {
    let (path, r, w) = hot(heat);
    let mut file = empty_file();
    put(&w, 9000, 0, 3000);
    thread::scope(|s| {
        s.spawn(move || put(w, N - 9000, 9000, 4096));
        assert_eq!(io::copy(&mut &r, &mut file).expect("io::copy"), N as u64);
    });
    holds(&mut file, N, 0);
    at_eof(&r);
    let w = writer(&path);
    flood(&path, &r, &w, 400_000, 3, heat);
    put(&w, 777, 0, 777);
    drop(w);
    get(&r, 777, 0, 50);
    at_eof(&r);
}

/// So many and no more: what follows is there for the next call, of either kind.
fn part_of_a_fifo_to_file(heat: Heat) {
    let (_, r, w) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || put(w, 4 * N, 0, 5000));
        let mut file = empty_file();
        let mut pos = 0;
        for part in [1, 4096, 100_000, N, 77, 65_536] {
            let n = io::copy(&mut (&r).take(part as u64), &mut file).expect("io::copy");
            assert_eq!(n, part as u64);
            holds(&mut file, part, pos);
            file = empty_file();
            get(&r, 5001, pos + part, 1000);
            pos += part + 5001;
        }
        let rest = io::copy(&mut &r, &mut file).expect("io::copy");
        assert_eq!(rest as usize, 4 * N - pos);
        holds(&mut file, 4 * N - pos, pos);
    });
}

/// sendfile(2) or splice(2), into a FIFO whose ring has unread bytes.
fn file_to_fifo(heat: Heat) {
    let (path, r, w) = hot(heat);
    let mut file = filled(9000);
    put(&w, 9000, 0, 3000);
    thread::scope(|s| {
        s.spawn(|| {
            let mut w = &w;
            assert_eq!(io::copy(&mut file, &mut w).expect("io::copy"), N as u64);
            put(w, 9000, 9000 + N, 3000);
        });
        get(&r, N + 18_000, 0, 8192);
    });
    flood(&path, &r, &w, 400_000, 0, heat);
    drop(w);
    at_eof(&r);
}

fn fifo_to_fifo(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (path2, r2, w2) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || put(w, 3 * N, 0, 6000));
        let relay = s.spawn(move || io::copy(&mut &r, &mut &w2).expect("io::copy"));
        get(&r2, 3 * N, 0, 9000);
        at_eof(&r2);
        assert_eq!(relay.join().expect("relay"), 3 * N as u64);
    });
    for path in [path, path2] {
        let (r, w) = ends(&path);
        flood(&path, &r, &w, 300_000, 0, heat);
    }
}

/// A BufReader's own bytes go out before its descriptor's, a BufWriter's before those that are spliced.
fn rest_of_a_buffer_first(heat: Heat) {
    let (_, r, w) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || put(w, N, 0, 4096));
        let mut from = BufReader::with_capacity(3000, r);
        let there = from.fill_buf().expect("fill_buf").len();
        get(&mut from, there / 2, 0, there);
        let mut file = empty_file();
        let mut to = BufWriter::new(&mut file);
        to.write_all(b"head").expect("write");
        let n = io::copy(&mut from, &mut to).expect("io::copy");
        assert_eq!(n as usize, N - there / 2);
        to.flush().expect("flush");
        drop(to);
        let mut all = Vec::new();
        io::Seek::rewind(&mut file).expect("rewind");
        file.read_to_end(&mut all).expect("read");
        assert_eq!(&all[..4], b"head");
        same(&all[4..], there / 2);
        at_eof(from);
    });
}

fn fifo_to_socket(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (mut near, far) = UnixStream::pair().expect("socketpair");
    thread::scope(|s| {
        s.spawn(move || put(w, N, 0, 4096));
        s.spawn(move || assert_eq!(io::copy(&mut &r, &mut near).expect("io::copy"), N as u64));
        get(&far, N, 0, 8192);
        at_eof(&far);
    });
}

fn socket_to_fifo(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (mut near, far) = UnixStream::pair().expect("socketpair");
    thread::scope(|s| {
        s.spawn(move || put(far, N, 0, 4096));
        s.spawn(move || assert_eq!(io::copy(&mut near, &mut &w).expect("io::copy"), N as u64));
        get(&r, N, 0, 8192);
    });
}

/// No descriptor on one side: plain calls, by std's 8 KiB or by the Vec's own room.
fn by_a_buffer_of_ours(heat: Heat) {
    let (path, r, w) = hot(heat);
    for round in 0..3 {
        let mut all = Vec::new();
        thread::scope(|s| {
            s.spawn(|| {
                let mut from: &[u8] = &bytes(N, round);
                assert_eq!(io::copy(&mut from, &mut &w).expect("io::copy"), N as u64);
                let mut zeros = io::repeat(0).take(3000);
                io::copy(&mut zeros, &mut &w).expect("io::copy");
            });
            let n = io::copy(&mut (&r).take(N as u64), &mut all).expect("io::copy");
            assert_eq!(n as usize, N);
            let n = io::copy(&mut (&r).take(3000), &mut io::sink()).expect("io::copy");
            assert_eq!(n, 3000);
        });
        same(&all, round);
    }
    flood(&path, &r, &w, 300_000, 0, heat);
}

fn no_reader_any_more(heat: Heat) {
    let (path, r, w) = hot(heat);
    drop(r);
    let mut file = filled(0);
    let e = fails(io::copy(&mut file, &mut &w), libc::EPIPE);
    assert_eq!(e.kind(), ErrorKind::BrokenPipe);
    // In the midst of a copy too.
    let r = reader(&path);
    warm(&path, &r, &w, heat);
    let (copies, task) = sleeper(move || {
        let mut file = filled(0);
        fails(io::copy(&mut file, &mut &w), libc::EPIPE);
    });
    get(&r, 300_000, 0, 8192);
    crate::stream::asleep(task);
    drop(r);
    copies.join().expect("the copier lives");
}

/// A non-blocking end: WouldBlock, and what was copied before it is not copied again.
fn nothing_is_there(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 9000, 0, 3000);
    kernel::nonblocking(&r, true);
    let mut file = empty_file();
    let e = fails(io::copy(&mut &r, &mut file), libc::EAGAIN);
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    put(&w, 1000, 9000, 1000);
    drop(w);
    assert_eq!(io::copy(&mut &r, &mut file).expect("io::copy"), 1000);
    holds(&mut file, 10_000, 0);
    kernel::nonblocking(&r, false);
    let w = writer(&path);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// std::fs::copy opens the FIFO, finds that it is no file, and takes nothing.
fn fs_copy_refuses(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 5000, 0, 5000);
    let to = fresh();
    let e = fs::copy(&path, &to).expect_err("not a regular file");
    assert_eq!(e.kind(), ErrorKind::InvalidInput);
    assert!(!to.exists());
    get(&r, 5000, 0, 5000);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// A child whose stdin and stdout are our FIFOs: both in one splice.
fn a_child_copies_between_its_standard_ends(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (_, r2, w2) = hot(heat);
    put(&w, 9000, 0, 3000);
    let child = Other::start(
        command("copy", &[&(2 * N)])
            .stdin(Stdio::from(r))
            .stdout(Stdio::from(w2)),
    );
    thread::scope(|s| {
        s.spawn(move || put(w, 2 * N - 9000, 9000, 4096));
        get(&r2, 2 * N, 0, 8192);
    });
    child.done();
    at_eof(&r2);
}

/// File, FIFO, FIFO, file: copied on each way.
fn both_sides_copy() {
    let (one, two) = (fifo(), fifo());
    let mut end = empty_file();
    thread::scope(|s| {
        s.spawn(|| io::copy(&mut filled(5), &mut &writer(&one)).expect("first"));
        s.spawn(|| io::copy(&mut &reader(&one), &mut &writer(&two)).expect("second"));
        let n = io::copy(&mut &reader(&two), &mut end).expect("third");
        assert_eq!(n, N as u64);
    });
    holds(&mut end, N, 5);
}

/// It took bytes along that it had not passed on; no other byte is lost, and the next reader goes on.
fn a_copier_is_killed() {
    let (path, r, w) = hot(Heat::Thread);
    let sink = fifo();
    let (r2, w2) = ends(&sink);
    let child = Other::start(
        command("copy", &[&0])
            .stdin(Stdio::from(r))
            .stdout(Stdio::from(w2)),
    );
    put(&w, 20_000, 0, 4000);
    get(&r2, 20_000, 0, 8192);
    child.killed();
    at_eof(&r2);
    fails((&w).write(b"x"), libc::EPIPE);
    let r = reader(&path);
    flood(&path, &r, &w, 300_000, 0, Heat::Process);
    drop(w);
    at_eof(&r);
}
