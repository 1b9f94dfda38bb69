//! Fear: large volumes in pieces that fit nothing: every byte, in order, whoever is the slower, through std's adapters.
use crate::check::{Heat, cases};
use crate::roles;
use crate::stream::{KIB, MIB, at, at_eof, bytes, fifo, flood, get, put, reader, same, writer};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IoSlice, IoSliceMut, Read, Write};
use std::path::Path;
use std::thread;

cases! {
    each: ;
    once: small_to_large large_to_small odd_pieces sizes_of_pages vectors one_write_of_32_mib read_to_end_of_32_mib
        a_chain_of_relays there_and_back from_two_processes_and_a_thread both_ends_in_one_file;
}

/// The sizes of one side's calls.
struct Pieces(u32, usize);

impl Pieces {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        1 + (self.0 >> 8) as usize % self.1
    }
}

fn writes(w: &File, total: usize, mut p: Pieces) {
    let mut pos = 0;
    while pos < total {
        let n = p.next().min(total - pos);
        put(w, n, pos, n);
        pos += n;
    }
}

fn reads(r: &File, total: usize, mut p: Pieces) {
    let mut b = vec![0; p.1];
    let mut pos = 0;
    while pos < total {
        let most = p.next();
        let n = { r }.read(&mut b[..most]).expect("read");
        assert!(n > 0, "EOF at {pos}");
        same(&b[..n], pos);
        pos += n;
    }
}

fn run(total: usize, out: Pieces, inward: Pieces) {
    let path = fifo();
    thread::scope(|s| {
        s.spawn(|| writes(&writer(&path), total, out));
        let r = reader(&path);
        reads(&r, total, inward);
        at_eof(&r);
    });
}

fn small_to_large() {
    run(8 * MIB, Pieces(1, 300), Pieces(2, 500_000));
}

fn large_to_small() {
    run(8 * MIB, Pieces(3, 900_000), Pieces(4, 300));
}

fn odd_pieces() {
    run(64 * MIB, Pieces(5, 70_000), Pieces(6, 70_000));
}

/// Round about 4,096 and 65,536, where pages, slots and rings end.
fn sizes_of_pages() {
    const SIZES: [usize; 12] = [
        4095, 4096, 4097, 1, 65_535, 65_536, 65_537, 8191, 8193, 2, 32_767, 32_769,
    ];
    let path = fifo();
    let total = 150 * SIZES.iter().sum::<usize>();
    let child = roles::read(&path, total, 0, 65_537);
    let w = writer(&path);
    let mut pos = 0;
    for n in SIZES.iter().cycle().take(150 * SIZES.len()) {
        put(&w, *n, pos, *n);
        pos += n;
    }
    drop(w);
    child.done();
}

fn vectors() {
    const TOTAL: usize = 32 * MIB;
    let path = fifo();
    thread::scope(|s| {
        s.spawn(|| {
            let w = writer(&path);
            let mut p = Pieces(7, 60_000);
            let mut pos = 0;
            while pos < TOTAL {
                let n = p.next().min(TOTAL - pos);
                let (a, b) = at(pos)[..n].split_at(n / 3);
                let slices = [IoSlice::new(a), IoSlice::new(&[]), IoSlice::new(b)];
                pos += (&w).write_vectored(&slices).expect("writev");
            }
        });
        let r = reader(&path);
        let (mut one, mut two) = (vec![0; 777], vec![0; 50_000]);
        let mut pos = 0;
        while pos < TOTAL {
            let mut into = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
            let n = (&r).read_vectored(&mut into).expect("readv");
            assert!(n > 0);
            same(&one[..n.min(777)], pos);
            same(&two[..n.saturating_sub(777)], pos + 777);
            pos += n;
        }
        at_eof(&r);
    });
}

/// The kernel says how many of them went in; write_all goes on.
fn one_write_of_32_mib() {
    let path = fifo();
    thread::scope(|s| {
        s.spawn(|| {
            let all = bytes(32 * MIB, 9);
            let w = writer(&path);
            (&w).write_all(&all).expect("write_all");
            assert_eq!((&w).write(&all).expect("write"), 32 * MIB);
        });
        let r = reader(&path);
        get(&r, 32 * MIB, 9, 100_000);
        get(&r, 32 * MIB, 9, 100_000);
        at_eof(&r);
    });
}

fn read_to_end_of_32_mib() {
    let path = fifo();
    let child = roles::write(&path, 32 * MIB, 4, 64 * KIB);
    let mut all = Vec::new();
    reader(&path).read_to_end(&mut all).expect("read_to_end");
    child.done();
    assert_eq!(all.len(), 32 * MIB);
    same(&all, 4);
}

/// Threads with buffers of different sizes; io::copy here sees no descriptor on one side and moves the bytes itself.
fn a_chain_of_relays() {
    const TOTAL: usize = 16 * MIB;
    let paths = [fifo(), fifo(), fifo(), fifo()];
    thread::scope(|s| {
        s.spawn(|| writes(&writer(&paths[0]), TOTAL, Pieces(8, 40_000)));
        for (i, pair) in paths.windows(2).enumerate() {
            s.spawn(move || relay(&pair[0], &pair[1], 3001 * (i + 1)));
        }
        let r = reader(&paths[3]);
        reads(&r, TOTAL, Pieces(9, 50_000));
        at_eof(&r);
    });
}

/// A writer that is no descriptor to io::copy.
struct Plain<W>(W);

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.0.write(b)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn relay(from: &Path, to: &Path, room: usize) {
    let mut r = BufReader::with_capacity(room, reader(from));
    let mut w = Plain(BufWriter::with_capacity(room / 2, writer(to)));
    io::copy(&mut r, &mut w).expect("io::copy");
    w.flush().expect("flush");
}

/// An echo: as much under way as one call has.
fn there_and_back() {
    let (there, back) = (fifo(), fifo());
    thread::scope(|s| {
        s.spawn(|| relay_at_once(&there, &back));
        let (w, r) = (writer(&there), reader(&back));
        let mut p = Pieces(10, 30_000);
        let mut pos = 0;
        for _ in 0..2000 {
            let n = p.next();
            put(&w, n, pos, n);
            get(&r, n, pos, p.next());
            pos += n;
        }
        drop(w);
        at_eof(&r);
    });
}

fn relay_at_once(from: &Path, to: &Path) {
    let (r, w) = (reader(from), writer(to));
    let mut b = vec![0; 30_000];
    loop {
        match (&r).read(&mut b).expect("read") {
            0 => return,
            n => (&w).write_all(&b[..n]).expect("write"),
        }
    }
}

/// Three writers by turns, each with the whole FIFO to itself; the reader sees one stream.
fn from_two_processes_and_a_thread() {
    let path = fifo();
    let held = roles::hold(&path_opened(&path), "both", 0);
    let r = reader(&path);
    for round in 0..4 {
        let pos = round * 3 * MIB;
        let child = roles::write(&path, MIB, pos, 10_000);
        get(&r, MIB, pos, 9000);
        child.done();
        thread::scope(|s| {
            s.spawn(|| put(writer(&path), MIB, pos + MIB, 10_000));
            get(&r, MIB, pos + MIB, 9000);
        });
        let child = roles::write(&path, MIB, pos + 2 * MIB, 70_000);
        get(&r, MIB, pos + 2 * MIB, 9000);
        child.done();
    }
    held.killed();
    at_eof(&r);
}

/// By its whole name, as another process with another folder would have it.
fn path_opened(path: &Path) -> std::path::PathBuf {
    std::fs::canonicalize(path).expect("realpath")
}

fn both_ends_in_one_file() {
    let path = fifo();
    let own = File::options()
        .read(true)
        .write(true)
        .open(&path)
        .expect("O_RDWR");
    thread::scope(|s| {
        s.spawn(|| writes(&own, 16 * MIB, Pieces(11, 70_000)));
        reads(&own, 16 * MIB, Pieces(12, 70_000));
    });
    flood(&path, &own, &own, 300_000, 0, Heat::Process);
}
