//! Fear: Command. Its child is made by posix_spawn (a vfork that shares our memory) or, with a closure before exec, by fork; it
//! has our ends as its standard descriptors; and both happens while other threads use the FIFO.
use crate::check::{Heat, cases};
use crate::roles::{Other, command, output};
use crate::stream::{MIB, at_eof, ends, fifo, flood, get, hot, put, reader, same, warm, writer};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

cases! {
    each: stdout_of_a_child stdin_of_a_child both_for_one_child lines_of_a_child a_child_reads_a_part
        children_in_mid_stream forks_in_mid_stream a_program_that_is_not_there a_closure_that_fails
        output_beside_a_stream a_shell_between;
    once: a_chain_of_children replaced_in_mid_stream;
}

/// The child's stdout is our writing end, and ours is dropped: EOF comes with its end.
fn stdout_of_a_child(heat: Heat) {
    let (path, r, mut w) = hot(heat);
    for round in 0..3 {
        put(&w, 3000, round, 1000);
        let child = Other::start(command("put", &[&MIB, &(3000 + round)]).stdout(w));
        get(&r, 3000 + MIB, round, 8192);
        child.done();
        at_eof(&r);
        w = writer(&path);
        warm(&path, &r, &w, heat);
    }
}

fn stdin_of_a_child(heat: Heat) {
    let (path, mut r, w) = hot(heat);
    for round in 0..3 {
        put(&w, 3000, round, 1000);
        let child = Other::start(command("take", &[&MIB, &round]).stdin(r));
        put(&w, MIB - 3000, 3000 + round, 8192);
        child.done();
        let e = (&w).write(b"x").expect_err("no reader");
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        r = reader(&path);
        warm(&path, &r, &w, heat);
    }
}

fn both_for_one_child(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (_, r2, w2) = hot(heat);
    let child = Other::start(command("copy", &[&MIB]).stdin(r).stdout(w2));
    thread::scope(|s| {
        s.spawn(move || put(w, MIB, 0, 5000));
        get(&r2, MIB, 0, 8192);
        at_eof(&r2);
    });
    child.done();
}

/// std's own buffers on both: stdin().lines() and println!.
fn lines_of_a_child(heat: Heat) {
    let (_, r, w) = hot(heat);
    let (_, r2, w2) = hot(heat);
    let child = Other::start(command("lines", &[]).stdin(r).stdout(w2));
    const LINES: usize = 5000;
    thread::scope(|s| {
        s.spawn(move || {
            for i in 0..LINES {
                writeln!(&w, "{}", "-".repeat(i % 200)).expect("writeln");
            }
        });
        let mut text = String::new();
        (&r2).read_to_string(&mut text).expect("read");
        let wanted: String = (0..LINES).map(|i| format!("{i} {}\n", i % 200)).collect();
        assert!(text == wanted);
    });
    child.done();
}

/// It reads so many, unbuffered, and ends; we read on from there.
fn a_child_reads_a_part(heat: Heat) {
    let (_, r, w) = hot(heat);
    let mut pos = 0;
    thread::scope(|s| {
        s.spawn(move || put(w, 10 * 51_000, 0, 4096));
        for _ in 0..10 {
            let end = r.try_clone().expect("dup");
            Other::start(command("take", &[&50_000, &pos]).stdin(end)).done();
            get(&r, 1000, pos + 50_000, 1000);
            pos += 51_000;
        }
    });
    at_eof(&r);
}

/// Starts children as `start` does until the stream is over.
fn while_streaming(heat: Heat, start: impl Fn() + Sync) {
    let (path, r, w) = hot(heat);
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(move || put(w, 8 * MIB, 0, 5000));
        s.spawn(|| {
            for _ in 0..5 {
                start();
            }
            while !over.load(Relaxed) {
                start();
            }
        });
        get(&r, 8 * MIB, 0, 7000);
        over.store(true, Relaxed);
    });
    // A child that was just being made may have held the writing end for a moment.
    at_eof(&r);
    let w = writer(&path);
    flood(&path, &r, &w, 300_000, 0, heat);
}

fn children_in_mid_stream(heat: Heat) {
    while_streaming(heat, || {
        Other::start(command("nothing", &[]).stdin(Stdio::null())).done();
    });
}

fn forks_in_mid_stream(heat: Heat) {
    while_streaming(heat, || {
        let mut c = command("nothing", &[]);
        // SAFETY: the closure does nothing at all in the new process.
        unsafe { c.pre_exec(|| Ok(())) };
        Other::start(&mut c).done();
    });
}

/// The exec fails in the child: an error here, and nothing has happened to the FIFO.
fn a_program_that_is_not_there(heat: Heat) {
    let (path, r, w) = hot(heat);
    for round in 0..3 {
        put(&w, 9000, round, 3000);
        for name in ["./not-there", "not-there-in-the-whole-path"] {
            let mut c = Command::new(name);
            c.stdin(r.try_clone().expect("dup"))
                .stdout(w.try_clone().expect("dup"));
            let e = c.spawn().expect_err("no such program");
            assert_eq!(e.kind(), ErrorKind::NotFound);
        }
        get(&r, 9000, round, 8192);
        flood(&path, &r, &w, 300_000, round, heat);
    }
    drop(w);
    at_eof(&r);
}

/// The forked child tells its parent by a pipe of std's own why it does not exec.
fn a_closure_that_fails(heat: Heat) {
    let (path, r, w) = hot(heat);
    let theirs = w.try_clone().expect("dup");
    put(&w, 1000, 0, 1000);
    let mut c = command("nothing", &[]);
    // SAFETY: write(2) and the making of an error without allocation are allowed between fork and exec.
    unsafe {
        c.pre_exec(move || {
            (&theirs).write_all(b"from the child")?;
            Err(io::Error::from_raw_os_error(libc::EUCLEAN))
        })
    };
    let e = c.spawn().expect_err("the closure's error");
    assert_eq!(e.raw_os_error(), Some(libc::EUCLEAN));
    drop(c);
    get(&r, 1000, 0, 1000);
    let mut text = [0; 14];
    (&r).read_exact(&mut text).expect("the child's words");
    assert_eq!(&text, b"from the child");
    flood(&path, &r, &w, 300_000, 0, heat);
    drop(w);
    at_eof(&r);
}

/// Command::output polls two pipes of its own meanwhile.
fn output_beside_a_stream(heat: Heat) {
    let (_, r, w) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || put(w, 4 * MIB, 0, 5000));
        let out = s.spawn(|| output(command("put", &[&300_000, &7]).stderr(Stdio::piped())));
        get(&r, 4 * MIB, 0, 7000);
        at_eof(&r);
        let out = out.join().expect("output");
        assert_eq!(out.len(), 300_000);
        same(&out, 7);
    });
}

/// A program that is not ours, with SIGPIPE as it was meant to be: std restores it in the child.
fn a_shell_between(heat: Heat) {
    let (path, r, w) = hot(heat);
    let (_, r2, w2) = hot(heat);
    let mut c = Command::new("sh");
    c.args(["-c", "head -c 100000 | cat"]).stdin(r).stdout(w2);
    let child = Other::start(&mut c);
    // A Command keeps what it was given for the next child.
    drop(c);
    thread::scope(|s| {
        s.spawn(|| assert_eq!(write_until_error(&w).kind(), ErrorKind::BrokenPipe));
        get(&r2, 100_000, 0, 8192);
        at_eof(&r2);
    });
    child.done();
    drop(w);
    let (r, w) = ends(&path);
    warm(&path, &r, &w, heat);
    // The other way round: the reader goes, and SIGPIPE, not an error, ends the writer.
    let mut c = Command::new("sh");
    c.args(["-c", "exec cat /dev/zero"]).stdout(w);
    let mut child = Other::start(&mut c);
    drop(c);
    (&r).read_exact(&mut [0; 100_000]).expect("read");
    drop(r);
    let status = child.0.wait().expect("wait");
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(libc::SIGPIPE));
}

fn write_until_error(w: &File) -> io::Error {
    let mut pos = 0;
    loop {
        match { w }.write(&crate::stream::at(pos)[..5000]) {
            Ok(n) => pos += n,
            Err(e) => return e,
        }
    }
}

/// Child after child, joined by FIFOs that the parent opened and dropped.
fn a_chain_of_children() {
    let (first, first_in) = ends(&fifo());
    let mut from = first;
    let mut children = Vec::new();
    for _ in 0..3 {
        let (r, w) = ends(&fifo());
        children.push(Other::start(
            command("copy", &[&(4 * MIB)]).stdin(from).stdout(w),
        ));
        from = r;
    }
    thread::scope(|s| {
        s.spawn(move || put(first_in, 4 * MIB, 0, 5000));
        get(&from, 4 * MIB, 0, 7000);
        at_eof(&from);
    });
    for child in children {
        child.done();
    }
}

/// exec without fork: a shell reads a part of a stream that is under way, then becomes this program, which reads the rest.
fn replaced_in_mid_stream() {
    let path = fifo();
    let exe = std::env::current_exe().expect("this program's path");
    let mut c = Command::new("sh");
    // dd by whole blocks takes exactly so many bytes.
    c.arg("-c").arg(format!(
        "exec <{}; dd bs=1000 count=300 iflag=fullblock of=/dev/null 2>/dev/null; exec {} --role get {} 300000",
        path.display(),
        exe.display(),
        4 * MIB - 300_000
    ));
    let child = Other::start(&mut c);
    let w = writer(&path);
    put(&w, 4 * MIB, 0, 4096);
    drop(w);
    child.done();
}
