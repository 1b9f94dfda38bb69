//! FIFOs and what flows through them: bytes that tell their position, ends, heat.
//!
//! Invariant: the byte at position i of every stream is `SEA[i % PERIOD]`; whoever reads says from where, and each byte is compared.
//! Not here: processes of their own (roles.rs).
use crate::check::Heat;
use crate::{kernel, roles};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

pub const KIB: usize = 1 << 10;
pub const MIB: usize = 1 << 20;
/// A prime, so that no size of page or ring puts equal bytes at equal places.
const PERIOD: usize = 99_991;
/// Traffic after which Byway has opened a ring.
const HEAT: usize = 256 * KIB;

static SEA: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut x = 88_172_645_463_325_252_u64;
    let mut sea: Vec<u8> = (0..PERIOD)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 24) as u8
        })
        .collect();
    sea.extend_from_within(..);
    while sea.len() < PERIOD + MIB {
        let more = (PERIOD + MIB - sea.len()).min(PERIOD);
        sea.extend_from_within(..more);
    }
    sea
});

/// A MiB of the stream from `pos`.
pub fn at(pos: usize) -> &'static [u8] {
    &SEA[pos % PERIOD..][..MIB]
}

/// `n` bytes of the stream from `pos`, of any length.
pub fn bytes(n: usize, pos: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(n);
    while all.len() < n {
        let piece = (n - all.len()).min(MIB);
        all.extend_from_slice(&at(pos + all.len())[..piece]);
    }
    all
}

#[track_caller]
pub fn same(got: &[u8], pos: usize) {
    for (i, piece) in got.chunks(MIB).enumerate() {
        let from = pos + i * MIB;
        if let Some(k) = piece.iter().zip(at(from)).position(|(a, b)| a != b) {
            let end = piece.len().min(k + 16);
            let whose = SEA[..PERIOD + 16]
                .windows(end - k)
                .position(|w| *w == piece[k..end]);
            let what = match whose {
                Some(p) if end - k > 3 => format!("that of position {p} + n * {PERIOD} is there"),
                _ => format!("{:?} is there", &piece[k..end]),
            };
            let of = piece.len();
            panic!(
                "byte {} of the stream is not the one written, the {k}th of {of}: {what}",
                from + k
            );
        }
    }
}

/// Writes `n` bytes from `pos`, `piece` at a time.
#[track_caller]
pub fn put(mut w: impl Write, n: usize, pos: usize, piece: usize) {
    let mut done = 0;
    while done < n {
        let k = piece.min(n - done).min(MIB);
        w.write_all(&at(pos + done)[..k]).expect("write");
        done += k;
    }
}

/// Reads `n` bytes, at most `piece` at a time, as they come.
#[track_caller]
pub fn get(mut r: impl Read, n: usize, pos: usize, piece: usize) {
    let mut b = vec![0; piece];
    let mut done = 0;
    while done < n {
        let most = piece.min(n - done);
        let k = r.read(&mut b[..most]).expect("read");
        assert!(k > 0, "EOF at {} of {}", pos + done, pos + n);
        same(&b[..k], pos + done);
        done += k;
    }
}

/// EOF, and EOF again.
#[track_caller]
pub fn at_eof(mut r: impl Read) {
    for _ in 0..2 {
        assert_eq!(r.read(&mut [0; 8]).expect("read"), 0, "no EOF");
    }
}

/// A path in the case's folder where nothing is.
pub fn fresh() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Relaxed);
    PathBuf::from(format!("f{}.{n}", std::process::id()))
}

pub fn fifo() -> PathBuf {
    let path = fresh();
    kernel::mkfifo(&path, 0o600).expect("mkfifo");
    path
}

#[track_caller]
pub fn reader(path: &Path) -> File {
    File::open(path).expect("open for reading")
}

/// Does not wait for a writer.
#[track_caller]
pub fn reader_now(path: &Path) -> File {
    let mut o = OpenOptions::new();
    o.read(true).custom_flags(libc::O_NONBLOCK);
    let f = o.open(path).expect("open for reading, O_NONBLOCK");
    kernel::nonblocking(&f, false);
    f
}

#[track_caller]
pub fn writer(path: &Path) -> File {
    let mut o = OpenOptions::new();
    o.write(true).open(path).expect("open for writing")
}

/// Both ends, blocking.
#[track_caller]
pub fn ends(path: &Path) -> (File, File) {
    let r = reader_now(path);
    let w = writer(path);
    (r, w)
}

/// A new FIFO with both its ends, heated.
pub fn hot(heat: Heat) -> (PathBuf, File, File) {
    let path = fifo();
    let (r, w) = ends(&path);
    warm(&path, &r, &w, heat);
    (path, r, w)
}

pub fn warm(path: &Path, r: &File, w: &File, heat: Heat) {
    if heat != Heat::Cold {
        flood(path, r, w, HEAT, 0, heat);
    }
}

/// `n` bytes, from a thread, or from a process that opens the FIFO itself.
#[track_caller]
pub fn flood(path: &Path, r: &File, w: &File, n: usize, pos: usize, heat: Heat) {
    if heat == Heat::Thread {
        thread::scope(|s| {
            s.spawn(|| put(w, n, pos, 4096));
            get(r, n, pos, 8192);
        });
    } else {
        let child = roles::write(path, n, pos, 4096);
        get(r, n, pos, 8192);
        child.done();
    }
}

/// Writes 4 KiB pieces from `pos` until the FIFO is full: how many bytes went in. The end is blocking again afterwards.
#[track_caller]
pub fn fill(w: &File, pos: usize) -> usize {
    kernel::nonblocking(w, true);
    let mut n = 0;
    let e = loop {
        match { w }.write(&at(pos + n)[..4096]) {
            Ok(k) => n += k,
            Err(e) => break e,
        }
        assert!(n < 64 * MIB, "it never fills");
    };
    assert_eq!(e.kind(), std::io::ErrorKind::WouldBlock);
    kernel::nonblocking(w, false);
    n
}

/// Waits a little for a task of this machine to sleep in the kernel: it is blocked, most likely. Nothing depends on it but what
/// the case is about.
pub fn asleep(task: u32) {
    let mut seen = 0;
    for _ in 0..200 {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{task}/stat")) else {
            return;
        };
        let state = stat.rsplit(')').next().and_then(|s| s.chars().nth(1));
        seen = if state == Some('S') { seen + 1 } else { 0 };
        if seen == 4 {
            return;
        }
        thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// A thread that is asked to do what most likely blocks, and its number for `asleep`.
pub fn sleeper<T: Send + 'static>(
    does: impl FnOnce() -> T + Send + 'static,
) -> (thread::JoinHandle<T>, u32) {
    let (tell, told) = std::sync::mpsc::channel();
    let handle = thread::spawn(move || {
        tell.send(kernel::thread_id()).expect("tell");
        does()
    });
    let task = told.recv().expect("the thread's number");
    (handle, task)
}
