//! Fear: one process, many threads: ends that are shared, locked, sent over channels, and dropped by somebody else.
use crate::check::{Heat, cases};
use crate::stream::{
    MIB, asleep, at, at_eof, bytes, fifo, flood, get, hot, put, reader, reader_now, sleeper, warm,
    writer,
};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

cases! {
    each: the_writer_goes_round the_reader_goes_round writers_behind_a_lock readers_share_one_end buffers_go_after_the_write
        a_pair_per_thread sent_while_full dropped_by_another_thread new_threads_all_the_time;
    once: opened_by_one_used_by_another a_pipeline_of_threads;
}

const HANDS: usize = 4;

/// One File, handed from thread to thread; the stream is one.
fn the_writer_goes_round(heat: Heat) {
    let (_, r, w) = hot(heat);
    round(w, 400, 3000, |w, n, pos, piece| put(w, n, pos, piece));
    get_here(r, 400 * 3000);
}

fn the_reader_goes_round(heat: Heat) {
    let (_, r, w) = hot(heat);
    thread::scope(|s| {
        s.spawn(move || put(&w, 400 * 3000, 0, 4096));
        round(r, 400, 3000, |r, n, pos, piece| get(r, n, pos, piece))
            .join()
            .expect("round");
    });
}

fn get_here(r: File, n: usize) {
    get(&r, n, 0, 8192);
    at_eof(&r);
}

/// `turns` pieces of `n` bytes by HANDS threads, by turns; the last drops the end.
fn round(
    end: File,
    turns: usize,
    n: usize,
    act: fn(&File, usize, usize, usize),
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let (sends, takes): (Vec<_>, Vec<_>) =
            (0..HANDS).map(|_| mpsc::channel::<(File, usize)>()).unzip();
        sends[0].send((end, 0)).expect("send");
        thread::scope(|s| {
            for (i, take) in takes.into_iter().enumerate() {
                let next = sends[(i + 1) % HANDS].clone();
                s.spawn(move || {
                    // Ends when the one before has gone.
                    for (end, turn) in take {
                        if turn == turns {
                            // Round once more, so that every thread leaves.
                            let _ = next.send((end, turn));
                            return;
                        }
                        act(&end, n, turn * n, 1000);
                        next.send((end, turn + 1)).expect("send");
                    }
                });
            }
            drop(sends);
        });
    })
}

/// Records of a thread's own length, whole because of the lock, not because of their size.
fn writers_behind_a_lock(heat: Heat) {
    let (_, r, w) = hot(heat);
    let w = Mutex::new(w);
    const RECORDS: usize = 60;
    thread::scope(|s| {
        let writers: Vec<_> = (0..HANDS)
            .map(|id| {
                let w = &w;
                s.spawn(move || {
                    for i in 0..RECORDS {
                        let n = 1 + (i * 977 + id * 7919) % 40_000;
                        let end = w.lock().expect("lock");
                        { &*end }
                            .write_all(&(n as u64).to_le_bytes())
                            .expect("head");
                        { &*end }.write_all(&bytes(n, id * 1000 + i)).expect("body");
                        { &*end }.write_all(&[id as u8, i as u8]).expect("tail");
                    }
                })
            })
            .collect();
        let mut from = BufReader::new(&r);
        let mut seen = [0; HANDS];
        for _ in 0..HANDS * RECORDS {
            let mut head = [0; 8];
            from.read_exact(&mut head).expect("head");
            let mut body = vec![0; u64::from_le_bytes(head) as usize];
            from.read_exact(&mut body).expect("body");
            let mut tail = [0; 2];
            from.read_exact(&mut tail).expect("tail");
            let (id, i) = (usize::from(tail[0]), usize::from(tail[1]));
            assert_eq!(seen[id], i);
            seen[id] += 1;
            crate::stream::same(&body, id * 1000 + i);
        }
        for writer in writers {
            writer.join().expect("writer");
        }
    });
    drop(w);
    at_eof(&r);
}

/// Several sleep in read on one end: each byte comes to one of them, and the end to all.
fn readers_share_one_end(heat: Heat) {
    let (_, r, w) = hot(heat);
    let r = Arc::new(r);
    let total = Arc::new(AtomicUsize::new(0));
    let readers: Vec<_> = (0..HANDS)
        .map(|_| {
            let (r, total) = (Arc::clone(&r), Arc::clone(&total));
            let (handle, task) = sleeper(move || {
                let mut b = [0; 3000];
                loop {
                    match { &*r }.read(&mut b).expect("read") {
                        0 => return,
                        n => total.fetch_add(b[..n].iter().map(|b| usize::from(*b)).sum(), Relaxed),
                    };
                }
            });
            asleep(task);
            handle
        })
        .collect();
    put(&w, MIB, 0, 2500);
    drop(w);
    for reader in readers {
        reader.join().expect("reader");
    }
    let sum: usize = at(0).iter().map(|b| usize::from(*b)).sum();
    assert_eq!(total.load(Relaxed), sum);
}

/// The buffer goes to another thread, which writes it again with other bytes.
fn buffers_go_after_the_write(heat: Heat) {
    let (_, r, w) = hot(heat);
    const SIZE: usize = 300_000;
    const ROUNDS: usize = 20;
    let (give, take) = mpsc::channel::<Vec<u8>>();
    let (back, free) = mpsc::channel::<Vec<u8>>();
    thread::scope(|s| {
        s.spawn(move || {
            for mut buffer in take {
                buffer.fill(0xEE);
                if back.send(buffer).is_err() {
                    return;
                }
            }
        });
        s.spawn(move || {
            let mut buffer = vec![0; SIZE];
            for i in 0..ROUNDS {
                buffer.copy_from_slice(&bytes(SIZE, i * SIZE));
                (&w).write_all(&buffer).expect("write");
                give.send(buffer).expect("give");
                buffer = free.recv().expect("free");
            }
        });
        get(&r, ROUNDS * SIZE, 0, 70_000);
        at_eof(&r);
    });
}

fn a_pair_per_thread(heat: Heat) {
    thread::scope(|s| {
        for id in 0..6 {
            s.spawn(move || {
                let (path, r, w) = hot(heat);
                for i in 0..3 {
                    flood(&path, &r, &w, 300_000, id * 1000 + i, Heat::Thread);
                }
                put(&w, 5000, id, 5000);
                drop(w);
                get(&r, 5000, id, 700);
                at_eof(&r);
            });
        }
    });
}

/// A full FIFO's ends travel to a thread that empties it, while their sender sleeps in a write on a clone.
fn sent_while_full(heat: Heat) {
    let (_, r, w) = hot(heat);
    let clone = w.try_clone().expect("dup");
    let (writes, task) = sleeper(move || put(&clone, 2 * MIB, 0, MIB));
    asleep(task);
    let (give, take) = mpsc::channel::<(File, File)>();
    let reads = thread::spawn(move || {
        let (r, w) = take.recv().expect("ends");
        drop(w);
        get(&r, 2 * MIB, 0, 30_000);
        at_eof(&r);
    });
    give.send((r, w)).expect("send");
    writes.join().expect("writer");
    reads.join().expect("reader");
}

/// Either end is dropped by a thread that never used it.
fn dropped_by_another_thread(heat: Heat) {
    let (path, mut r, mut w) = hot(heat);
    for i in 0..5 {
        put(&w, 4000, i, 1000);
        thread::spawn(move || drop(w)).join().expect("drop");
        get(&r, 4000, i, 900);
        at_eof(&r);
        w = writer(&path);
        warm(&path, &r, &w, heat);
        thread::spawn(move || drop(r)).join().expect("drop");
        let e = (&w).write(b"x").expect_err("no reader");
        assert_eq!(e.kind(), std::io::ErrorKind::BrokenPipe);
        r = reader(&path);
    }
}

/// Thread after thread, each for one call.
fn new_threads_all_the_time(heat: Heat) {
    let (_, r, w) = hot(heat);
    for i in 0..200 {
        thread::scope(|s| {
            s.spawn(|| put(&w, 5000, i * 5000, 5000));
            s.spawn(|| get(&r, 5000, i * 5000, 5000));
        });
    }
    drop(w);
    at_eof(&r);
}

/// All threads open at once, and use what the neighbour opened.
fn opened_by_one_used_by_another() {
    let path = fifo();
    let keep = reader_now(&path);
    let barrier = Barrier::new(HANDS);
    let opened = Mutex::new(Vec::new());
    thread::scope(|s| {
        for _ in 0..HANDS {
            s.spawn(|| {
                barrier.wait();
                let w = writer(&path);
                opened.lock().expect("lock").push(w);
                barrier.wait();
                let w = opened.lock().expect("lock").pop().expect("one for each");
                for _ in 0..100 {
                    (&w).write_all(&[7; 1000]).expect("write");
                }
            });
        }
        let mut all = vec![0; HANDS * 100_000];
        let from = reader(&path);
        (&from).read_exact(&mut all).expect("read");
        assert!(all.iter().all(|b| *b == 7));
    });
    drop(opened);
    at_eof(&keep);
}

/// Made of the usual parts: a channel of Vecs behind a reader, before a writer.
fn a_pipeline_of_threads() {
    let (one, two) = (fifo(), fifo());
    const TOTAL: usize = 8 * MIB;
    thread::scope(|s| {
        let (give, take) = mpsc::sync_channel::<Vec<u8>>(4);
        s.spawn(|| put(writer(&one), TOTAL, 0, 7000));
        s.spawn(|| {
            let r = reader(&one);
            loop {
                let mut b = vec![0; 9000];
                let n = (&r).read(&mut b).expect("read");
                b.truncate(n);
                if n == 0 || give.send(b).is_err() {
                    break;
                }
            }
            drop(give);
        });
        s.spawn(|| {
            let w = writer(&two);
            for b in take {
                (&w).write_all(&b).expect("write");
            }
        });
        let r = reader(&two);
        get(&r, TOTAL, 0, 11_000);
        at_eof(&r);
    });
}
