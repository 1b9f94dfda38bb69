//! Fear: an open waits, or does not, where the kernel would not; or bytes of one life of a FIFO appear in the next.
use crate::check::{Heat, cases, fails};
use crate::kernel;
use crate::roles;
use crate::stream::{
    KIB, MIB, asleep, at, at_eof, bytes, fifo, flood, get, hot, put, reader, reader_now, same,
    sleeper, warm, writer,
};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;

cases! {
    each: nonblocking_writer_enxio read_write_never_waits writers_come_and_go left_bytes_go_with_the_last_end
        left_bytes_stay_with_one_end create_and_truncate_do_nothing by_the_number_of_a_descriptor
        only_a_writer_lets_a_reader_through;
    once: threads_meet processes_meet readers_wait_for_one_writer write_and_read_of_std lives_by_std
        ends_change_hands_in_mid_stream;
}

/// File::open sleeps until the other side comes: in either order.
fn threads_meet() {
    let path = fifo();
    for round in 0..6 {
        let name = path.clone();
        let (waits, task) = if round % 2 == 0 {
            sleeper(move || reader(&name))
        } else {
            sleeper(move || writer(&name))
        };
        asleep(task);
        assert!(!waits.is_finished(), "open must wait");
        let (r, w) = if round % 2 == 0 {
            let w = writer(&path);
            (waits.join().expect("reader"), w)
        } else {
            (reader(&path), waits.join().expect("writer"))
        };
        flood(&path, &r, &w, 300_000, round, Heat::Thread);
        drop(w);
        at_eof(&r);
    }
}

fn processes_meet() {
    let path = fifo();
    for round in 0..4 {
        let out = roles::write(&path, MIB, round, 5000);
        if round % 2 == 0 {
            asleep(out.0.id());
        }
        let r = reader(&path);
        get(&r, MIB, round, 8192);
        out.done();
        at_eof(&r);
        drop(r);
        let inward = roles::read(&path, MIB, round, 5000);
        if round % 2 == 0 {
            asleep(inward.0.id());
        }
        put(writer(&path), MIB, round, 8192);
        inward.done();
    }
}

/// One writer lets all of them through; each byte goes to one.
fn readers_wait_for_one_writer() {
    let path = fifo();
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let name = path.clone();
            let (handle, task) = sleeper(move || {
                let mut all = Vec::new();
                reader(&name).read_to_end(&mut all).expect("read");
                all.len()
            });
            asleep(task);
            handle
        })
        .collect();
    let w = writer(&path);
    put(&w, 400_000, 0, 4096);
    drop(w);
    let sum: usize = waiting.into_iter().map(|h| h.join().expect("reader")).sum();
    assert_eq!(sum, 400_000);
}

fn open_nonblocking(path: &Path) -> std::io::Result<File> {
    let mut o = OpenOptions::new();
    o.write(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// POSIX open: O_WRONLY with O_NONBLOCK and no reader.
fn nonblocking_writer_enxio(heat: Heat) {
    let (path, r, w) = hot(heat);
    drop((r, w));
    for round in 0..3 {
        fails(open_nonblocking(&path), libc::ENXIO);
        let r = reader_now(&path);
        assert_eq!((&r).read(&mut [0; 4]).expect("no writer: EOF"), 0);
        let w = open_nonblocking(&path).expect("a reader is there");
        kernel::nonblocking(&w, false);
        warm(&path, &r, &w, heat);
        put(&w, 3000, round, 3000);
        get(&r, 3000, round, 3000);
    }
    fails(open_nonblocking(&path), libc::ENXIO);
}

fn both(path: &Path) -> File {
    let mut o = OpenOptions::new();
    o.read(true).write(true).open(path).expect("O_RDWR")
}

/// Both ends in one File: it keeps the FIFO alive, and meets itself.
fn read_write_never_waits(heat: Heat) {
    let path = fifo();
    let own = both(&path);
    warm(&path, &own, &own, heat);
    put(&own, 30_000, 0, 3000);
    get(&own, 10_000, 0, 8192);
    put(writer(&path), 5000, 30_000, 5000);
    get(reader(&path), 20_000, 10_000, 700);
    get(&own, 5000, 30_000, 8192);
    // No EOF for as long as it is there.
    let r = reader_now(&path);
    kernel::nonblocking(&r, true);
    let e = (&r).read(&mut [0]).expect_err("nothing there");
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    drop(own);
    at_eof(&r);
}

/// The reader reads on after EOF, without opening again.
fn writers_come_and_go(heat: Heat) {
    let (path, r, w) = hot(heat);
    drop(w);
    at_eof(&r);
    for round in 0..4 {
        let w = writer(&path);
        warm(&path, &r, &w, heat);
        put(&w, 10_000, round, 1000);
        if round % 2 == 0 {
            drop(w);
            get(&r, 10_000, round, 3000);
        } else {
            get(&r, 10_000, round, 3000);
            drop(w);
        }
        at_eof(&r);
    }
}

fn left_bytes_go_with_the_last_end(heat: Heat) {
    let (path, mut r, mut w) = hot(heat);
    for life in 0..6 {
        put(&w, if life % 2 == 0 { 1 } else { 50_000 }, 5 + life, 4096);
        if life % 3 == 0 {
            drop(r);
            drop(w);
        } else {
            drop(w);
            drop(r);
        }
        r = reader_now(&path);
        assert_eq!((&r).read(&mut [0]).expect("EOF"), 0, "an old byte");
        w = writer(&path);
        assert_eq!(kernel::bytes_waiting(&r), 0);
        put(&w, 10, life, 10);
        get(&r, 10, life, 10);
        warm(&path, &r, &w, heat);
    }
}

/// A writer keeps what is left for the next reader; a reader keeps it for itself.
fn left_bytes_stay_with_one_end(heat: Heat) {
    let (path, mut r, mut w) = hot(heat);
    for round in 0..4 {
        put(&w, 20_000, round, 5000);
        get(&r, 100, round, 100);
        drop(r);
        let e = (&w).write(b"x").expect_err("no reader");
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        r = reader(&path);
        get(&r, 10_000, 100 + round, 8192);
        drop(w);
        w = writer(&path);
        put(&w, 1000, 20_000 + round, 1000);
        get(&r, 10_900, 10_100 + round, 8192);
        warm(&path, &r, &w, heat);
    }
    drop(w);
    at_eof(&r);
}

/// Whatever std's openings ask for besides.
fn create_and_truncate_do_nothing(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 100, 0, 100);
    let more = [
        File::create(&path).expect("O_CREAT | O_TRUNC"),
        File::options().append(true).open(&path).expect("O_APPEND"),
        File::options()
            .append(true)
            .create(true)
            .open(&path)
            .expect("O_APPEND | O_CREAT"),
        File::options()
            .write(true)
            .truncate(true)
            .open(&path)
            .expect("O_TRUNC"),
        File::options()
            .write(true)
            .custom_flags(libc::O_SYNC)
            .open(&path)
            .expect("O_SYNC"),
    ];
    for (i, f) in more.iter().enumerate() {
        assert!(kernel::closes_on_exec(f));
        put(f, 100, 100 + i * 100, 100);
    }
    get(&r, 600, 0, 8192);
    for (i, f) in more.iter().enumerate() {
        flood(&path, &r, f, 100_000, i, heat);
    }
    drop((w, more));
    at_eof(&r);
}

fn by_the_number_of_a_descriptor(heat: Heat) {
    let (path, r, w) = hot(heat);
    put(&w, 100, 0, 100);
    let name = |f: &File| format!("/proc/self/fd/{}", f.as_raw_fd());
    let (w2, r2) = (writer(name(&r).as_ref()), reader(name(&w).as_ref()));
    put(&w2, 200, 100, 200);
    get(&r2, 150, 0, 150);
    get(&r, 150, 150, 150);
    flood(&path, &r2, &w2, 300_000, 0, heat);
    drop((w, w2));
    at_eof(&r);
    at_eof(&r2);
}

/// Whatever another holder asks of the FIFO: an open that waits for a writer is ended by a writer.
fn only_a_writer_lets_a_reader_through(heat: Heat) {
    let (path, r, w) = hot(heat);
    drop(w);
    let name = path.clone();
    let (waits, task) = sleeper(move || {
        let mut b = [0; 10];
        reader(&name).read(&mut b).expect("read")
    });
    asleep(task);
    assert_eq!(kernel::poll(&r, libc::POLLIN, 0) & libc::POLLIN, 0);
    asleep(task);
    let w = writer(&path);
    put(&w, 10, 0, 10);
    assert_eq!(
        waits.join().expect("reader"),
        10,
        "an EOF before the writer"
    );
}

/// fs::write and fs::read, which ask a FIFO for its size and position first.
fn write_and_read_of_std() {
    let path = fifo();
    for n in [0, 1, 4095, 4096, 65_537, MIB + 13, 9 * MIB + 1] {
        thread::scope(|s| {
            s.spawn(|| fs::write(&path, bytes(n, n)).expect("fs::write"));
            let all = fs::read(&path).expect("fs::read");
            assert_eq!(all.len(), n);
            same(&all, n);
        });
    }
    thread::scope(|s| {
        s.spawn(|| fs::write(&path, "süß ".repeat(100_000)).expect("fs::write"));
        let text = fs::read_to_string(&path).expect("fs::read_to_string");
        assert!(text == "süß ".repeat(100_000));
    });
    thread::scope(|s| {
        s.spawn(|| fs::write(&path, [b'a', 0xFF]).expect("fs::write"));
        let e = fs::read_to_string(&path).expect_err("no UTF-8");
        assert_eq!(e.kind(), ErrorKind::InvalidData);
    });
}

/// Many lives of one FIFO, each of one call on either side.
fn lives_by_std() {
    let path = fifo();
    for life in 0..100 {
        thread::scope(|s| {
            s.spawn(|| fs::write(&path, &at(life)[..100 * KIB]).expect("fs::write"));
            let all = fs::read(&path).expect("fs::read");
            assert_eq!(all.len(), 100 * KIB);
            same(&all, life);
        });
    }
}

/// Either side is opened again while the bytes flow, and the old end dropped.
fn ends_change_hands_in_mid_stream() {
    let path = fifo();
    thread::scope(|s| {
        let writes = s.spawn(|| {
            let mut w = writer(&path);
            for i in 0..8 {
                put(&w, MIB, i * MIB, 4096);
                w = writer(&path);
            }
        });
        let mut r = reader(&path);
        for i in 0..8 {
            get(&r, MIB - 77, i * (MIB - 77), 8192);
            r = reader_now(&path);
        }
        get(&r, 8 * 77, 8 * (MIB - 77), 8192);
        writes.join().expect("writer");
        at_eof(&r);
    });
}
