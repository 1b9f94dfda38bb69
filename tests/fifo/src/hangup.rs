//! Fear: somebody ends in the midst of it: by panic, by exit, by a kill, by drop. Who stays sees every byte that was written, then
//! EOF or BrokenPipe, and the FIFO can be used again.
use crate::check::{Heat, cases, fails};
use crate::roles::{self, Other, command};
use crate::stream::{
    MIB, asleep, at, at_eof, bytes, ends, fifo, flood, get, hot, put, reader, same, sleeper, warm,
    writer,
};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Read, Write};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::thread;

cases! {
    each: a_panic_drops_the_reader a_panic_drops_the_writer a_panic_poisons_the_lock flushed_as_the_thread_ends
        a_killed_writer_leaves_its_bytes a_killed_reader_breaks_the_pipe a_writer_killed_in_its_write
        dropped_while_a_clone_reads;
    once: flushed_as_main_returns left_by_exit generations_of_kills a_panic_in_a_reader_asleep_elsewhere;
}

/// Unwinds as a panic does, without its message.
fn on_purpose() {
    std::panic::resume_unwind(Box::new("on purpose"));
}

/// The writer sleeps in a full FIFO; unwinding in the reader's thread closes the end and wakes it.
fn a_panic_drops_the_reader(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (writes, task) = sleeper(move || {
        let e = (&w).write_all(&bytes(8 * MIB, 0)).expect_err("no reader");
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        w
    });
    let panics = thread::spawn(move || {
        get(&r, MIB, 0, 8192);
        asleep(task);
        on_purpose();
    });
    assert!(panics.join().is_err());
    let w = writes.join().expect("the writer lives");
    fails((&w).write(b"x"), libc::EPIPE);
    // What was in it goes with the last end.
    drop(w);
    let (r, w) = ends(&path);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// A BufWriter writes what it has while the thread unwinds.
fn a_panic_drops_the_writer(heat: Heat) {
    let (path, r, w) = hot(heat);
    let panics = thread::spawn(move || {
        let mut w = BufWriter::with_capacity(5000, w);
        put(&mut w, 123_456, 0, 999);
        on_purpose();
    });
    get(&r, 123_456, 0, 8192);
    at_eof(&r);
    assert!(panics.join().is_err());
    let w = writer(&path);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// The end is behind a lock whose holder panicked between two writes.
fn a_panic_poisons_the_lock(heat: Heat) {
    let (path, r, w) = hot(heat);
    let shared = Arc::new(Mutex::new(w));
    let theirs = Arc::clone(&shared);
    let panics = thread::spawn(move || {
        let w = theirs.lock().expect("lock");
        put(&*w, 7000, 0, 700);
        on_purpose();
    });
    assert!(panics.join().is_err());
    let w = shared
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    put(&*w, 7000, 7000, 700);
    get(&r, 14_000, 0, 900);
    flood(&path, &r, &w, 300_000, 0, heat);
}

thread_local! {
    /// Dropped after the thread's main function, when its other thread-locals may be gone.
    static KEPT: RefCell<Option<BufWriter<File>>> = const { RefCell::new(None) };
}

fn flushed_as_the_thread_ends(heat: Heat) {
    let (_, r, w) = hot(heat);
    let clone = w.try_clone().expect("dup");
    for (round, w) in [clone, w].into_iter().enumerate() {
        let ends = thread::spawn(move || {
            KEPT.with_borrow_mut(|kept| {
                let w = kept.insert(BufWriter::with_capacity(60_000, w));
                put(w, 50_000, round * 50_000, 500);
            });
        });
        get(&r, 50_000, round * 50_000, 3000);
        ends.join().expect("the thread");
    }
    at_eof(&r);
}

/// stdout is a FIFO and has bytes in its buffer when main returns.
fn flushed_as_main_returns() {
    for n in [1, 1000, 70_000] {
        let path = fifo();
        let (r, w) = ends(&path);
        let child = Other::start(command("print", &[&n]).stdout(Stdio::from(w)));
        let mut text = String::new();
        (&r).read_to_string(&mut text).expect("read");
        assert_eq!(text, "x".repeat(n));
        child.done();
    }
}

/// process::exit runs no destructor, but std's own of stdout.
fn left_by_exit() {
    let path = fifo();
    let (r, w) = ends(&path);
    let child = Other::start(command("leave", &[&500]).stdout(Stdio::from(w)));
    let mut text = String::new();
    (&r).read_to_string(&mut text).expect("read");
    assert_eq!(text, "x".repeat(500));
    child.done();
}

fn a_killed_writer_leaves_its_bytes(heat: Heat) {
    let (path, r, mut w) = hot(heat);
    for _ in 0..3 {
        let holder = roles::hold(&path, "write", 30_000);
        drop(w);
        holder.killed();
        get(&r, 30_000, 0, 8192);
        at_eof(&r);
        w = writer(&path);
        warm(&path, &r, &w, heat);
    }
}

fn a_killed_reader_breaks_the_pipe(heat: Heat) {
    let (path, mut r, w) = hot(heat);
    for _ in 0..3 {
        let holder = roles::hold(&path, "read", 0);
        drop(r);
        put(&w, 20_000, 0, 5000);
        holder.killed();
        let e = fails((&w).write_all(&at(0)[..100_000]), libc::EPIPE);
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        r = reader(&path);
        get(&r, 20_000, 0, 8192);
        warm(&path, &r, &w, heat);
    }
}

/// What it had put in stays, and is a beginning of what it wrote.
fn a_writer_killed_in_its_write(heat: Heat) {
    let (path, r, w) = hot(heat);
    let child = Other::start(&mut command("pour", &[&path.display()]));
    get(&r, 3 * MIB + 5, 0, 60_000);
    drop(w);
    asleep(child.0.id());
    child.killed();
    let mut rest = Vec::new();
    (&r).read_to_end(&mut rest).expect("read_to_end");
    assert!(rest.len() < 2 * MIB);
    same(&rest, 3 * MIB + 5);
    let w = writer(&path);
    flood(&path, &r, &w, 300_000, 0, heat);
}

/// One File of the reading end is dropped while another, in another thread, sleeps in read.
fn dropped_while_a_clone_reads(heat: Heat) {
    let (_, r, w) = hot(heat);
    let clone = r.try_clone().expect("dup");
    let (reads, task) = sleeper(move || {
        get(&clone, 50_000, 0, 3000);
        at_eof(&clone);
    });
    asleep(task);
    drop(r);
    put(&w, 50_000, 0, 5000);
    drop(w);
    reads.join().expect("reader");
}

/// Kill after kill on one FIFO, either side: each next life begins clean.
fn generations_of_kills() {
    let path = fifo();
    for life in 0..12 {
        let (r, w) = ends(&path);
        flood(&path, &r, &w, 300_000, life, Heat::Thread);
        let holder = roles::hold(&path, if life % 2 == 0 { "both" } else { "write" }, 20_000);
        drop((r, w));
        holder.killed();
    }
    let (r, w) = ends(&path);
    assert_eq!(crate::kernel::bytes_waiting(&r), 0);
    put(&w, 10, 0, 10);
    drop(w);
    get(&r, 10, 0, 10);
    at_eof(&r);
}

/// A panic in one thread concerns no other that sleeps on the same end.
fn a_panic_in_a_reader_asleep_elsewhere() {
    let (_, r, w) = hot(Heat::Thread);
    let shared = Arc::new(r);
    let theirs = Arc::clone(&shared);
    let (reads, task) = sleeper(move || {
        let mut b = [0; 10];
        { &*theirs }.read(&mut b).expect("read")
    });
    asleep(task);
    let other = Arc::clone(&shared);
    let panics = thread::spawn(move || {
        let _held = other;
        on_purpose();
    });
    assert!(panics.join().is_err());
    put(&w, 10, 0, 10);
    assert_eq!(reads.join().expect("reader"), 10);
    drop(w);
    at_eof(&*shared);
}
