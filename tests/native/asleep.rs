//! A reader that sleeps in read(2): what wakes it, what a signal handler does to it, what it costs.
//!
//! It sleeps there when the ring has brought nothing since its last sleep: so each test lets it sleep before.
use crate::pass_through::WAKES;
use crate::peer;
use crate::rest::resident;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// Threads that are about to read count themselves here, and say who they are.
struct Sleeper {
    tid: AtomicI32,
    rounds: AtomicUsize,
}

impl Sleeper {
    const fn new() -> Sleeper {
        Sleeper {
            tid: AtomicI32::new(0),
            rounds: AtomicUsize::new(0),
        }
    }
    /// By the reader, before each read.
    fn goes(&self) {
        // SAFETY: no arguments.
        self.tid.store(unsafe { libc::gettid() }, Relaxed);
        self.rounds.fetch_add(1, Relaxed);
    }
    /// Until it has begun its `n`th read, and sleeps: what it sleeps in.
    fn asleep(&self, n: usize) -> i64 {
        let until = Instant::now() + peer::LONG;
        loop {
            assert!(Instant::now() < until, "it does not sleep");
            thread::sleep(Duration::from_millis(1));
            if self.rounds.load(Relaxed) < n {
                continue;
            }
            let tid = self.tid.load(Relaxed);
            let call = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
            let nr = call.ok().and_then(|c| c.split(' ').next()?.parse().ok());
            if let Some(nr @ (libc::SYS_read | libc::SYS_ppoll)) = nr {
                return nr;
            }
        }
    }
}

fn kernel() -> (File, File) {
    let mut fds = [0i32; 2];
    // SAFETY: room for two ints; new descriptors that nobody else has.
    unsafe {
        assert_eq!(libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC), 0);
        let [r, w] = fds.map(|fd| File::from(OwnedFd::from_raw_fd(fd)));
        (r, w)
    }
}

/// A reader that sleeps so often, the last time in read(2), and is woken by `wake`; all that it read then.
fn woken<R: Read + Send, W: Write + Send>(
    mut r: R,
    mut w: W,
    before: usize,
    wake: impl FnOnce(W) + Send,
) -> Vec<u8> {
    let s = Sleeper::new();
    thread::scope(|t| {
        let reader = t.spawn(|| {
            let mut b = vec![0; 1 << 20];
            for _ in 0..before {
                s.goes();
                assert_eq!(r.read(&mut b).unwrap(), 1);
            }
            s.goes();
            let n = r.read(&mut b).unwrap();
            b.truncate(n);
            b
        });
        for n in 1..=before {
            s.asleep(n);
            w.write_all(b".").unwrap();
        }
        assert_eq!(s.asleep(before + 1), libc::SYS_read);
        wake(w);
        reader.join().unwrap()
    })
}

/// Enough that it sleeps in read(2); and that its ring is left.
const BEFORE: [usize; 2] = [2, WAKES];

/// On the kernel's pipe first; what both read must be the same.
fn both(n: usize, wake: fn(&mut dyn Write)) {
    let (r, w) = kernel();
    let first = woken(r, w, 2, |mut w| wake(&mut w));
    for before in BEFORE {
        let (r, w) = byway::pipe().unwrap();
        let ours = woken(r, w, before, |mut w| wake(&mut w));
        assert_eq!((first.len(), ours.len()), (n, n));
        assert_eq!(first, ours);
    }
}

#[test]
fn it_is_woken_by_a_byte_and_by_the_end() {
    both(1, |w| w.write_all(b"x").unwrap());
    both(4096, |w| w.write_all(&[7; 4096]).unwrap());
    both(0, |_| ());
}

#[test]
fn it_gets_the_whole_of_a_long_write() {
    let (r, w) = byway::pipe().unwrap();
    let got = woken(r, w, 2, |mut w| w.write_all(&[5; 200_000]).unwrap());
    // A pipe of the kernel's would have brought the first 64 KiB at most.
    assert!(
        got.len() > 4096 && got.iter().all(|&b| b == 5),
        "{}",
        got.len()
    );
}

#[test]
fn it_is_woken_by_one_who_was_given_the_kernels_pipe() {
    for before in BEFORE {
        let (r, w) = byway::pipe().unwrap();
        let got = woken(r, w, before, |w| {
            File::from(w.into_fd().unwrap())
                .write_all(b"plain")
                .unwrap()
        });
        assert_eq!(got, b"plain");
    }
}

#[test]
fn it_finds_a_descriptor_that_somebody_has_made_non_blocking() {
    let (mut r, mut w) = byway::pipe().unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&r);
    // SAFETY: fcntl(2) on a descriptor of ours.
    let set = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
    assert_eq!(set, 0);
    let t = thread::spawn(move || {
        // Two that come while it is kept from the CPU come in one read.
        let (mut b, mut n) = ([0; 3], 0);
        while n < 3 {
            n += r.read(&mut b).unwrap();
        }
        n
    });
    for _ in 0..3 {
        thread::sleep(Duration::from_millis(5));
        w.write_all(b"z").unwrap();
    }
    assert_eq!(t.join().unwrap(), 3);
}

#[test]
fn a_handler_ends_its_sleep_unless_it_restarts_it() {
    peer::apart("signals");
}
pub fn signals() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn count(_: i32) {
        RAN.fetch_add(1, Relaxed);
    }
    fn interrupted<R: Read + Send, W: Write>(
        mut r: R,
        mut w: W,
        before: usize,
        flags: i32,
    ) -> bool {
        // SAFETY: a handler that only counts.
        unsafe {
            let mut a: libc::sigaction = std::mem::zeroed();
            (a.sa_sigaction, a.sa_flags) = (count as *const () as usize, flags);
            assert_eq!(libc::sigaction(libc::SIGUSR1, &a, std::ptr::null_mut()), 0);
        }
        let (s, ran) = (Sleeper::new(), RAN.load(Relaxed));
        thread::scope(|t| {
            let reader = t.spawn(|| {
                let mut b = [0; 8];
                for _ in 0..before {
                    s.goes();
                    assert_eq!(r.read(&mut b).unwrap(), 1);
                }
                s.goes();
                let e = r.read(&mut b).err().map(|e| e.kind());
                // What came meanwhile is not lost.
                assert!(e.is_none() || r.read(&mut b).unwrap() == 1);
                assert!(matches!(e, None | Some(ErrorKind::Interrupted)), "{e:?}");
                e.is_some()
            });
            for n in 1..=before {
                s.asleep(n);
                w.write_all(b".").unwrap();
            }
            assert_eq!(s.asleep(before + 1), libc::SYS_read);
            // SAFETY: a thread of this process, which is there until it is joined.
            unsafe {
                libc::syscall(
                    libc::SYS_tgkill,
                    libc::getpid(),
                    s.tid.load(Relaxed),
                    libc::SIGUSR1,
                )
            };
            while RAN.load(Relaxed) == ran {
                thread::sleep(Duration::from_millis(1));
            }
            w.write_all(b"!").unwrap();
            reader.join().unwrap()
        })
    }
    for (flags, expected) in [(0, true), (libc::SA_RESTART, false)] {
        let (r, w) = kernel();
        assert_eq!(interrupted(r, w, 2, flags), expected);
        for before in BEFORE {
            let (r, w) = byway::pipe().unwrap();
            assert_eq!(interrupted(r, w, before, flags), expected);
        }
    }
}

#[test]
fn sleepers_hold_no_memory() {
    peer::apart("sleepers");
}
pub fn sleepers() {
    const N: u64 = 300;
    let first = byway::pipe().unwrap();
    let before = resident();
    let mut all: Vec<_> = (0..N)
        .map(|_| {
            let (mut r, w) = byway::pipe().unwrap();
            let t = thread::spawn(move || {
                let mut b = [0; 5000];
                let mut n = 0;
                while let Ok(k @ 1..) = r.read(&mut b) {
                    n += k;
                }
                n
            });
            (t, w)
        })
        .collect();
    // A few at a time: what the allocator keeps at hand is for all of them.
    for part in all.chunks_mut(30) {
        // Through the ring, then as wake-ups, then nothing.
        for n in [3000, 3000, 10, 10] {
            for (_, w) in part.iter_mut() {
                w.write_all(&vec![1; n]).unwrap();
            }
            let pause = if n == 10 { 40 } else { 1 };
            thread::sleep(Duration::from_millis(pause));
        }
    }
    // Rings of all of them would be 18 MiB.
    let rest = resident() - before;
    assert!(rest < 9 << 20, "{rest} bytes for {N} pipes");
    for (t, w) in all {
        drop(w);
        assert_eq!(t.join().unwrap(), 6020);
    }
    drop(first);
}
