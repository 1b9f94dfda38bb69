//! What pipes cost that nobody uses, and that their places come back.
use crate::peer;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

/// Bytes of the domain that are there, in the shared-memory folder.
pub fn resident() -> u64 {
    let dir = std::env::var("BYWAY_SHM").unwrap();
    let dirs = std::fs::read_dir(dir).unwrap().flatten();
    dirs.map(|d| std::fs::metadata(d.path().join("memory")).unwrap().blocks() * 512)
        .sum()
}

#[test]
fn idle_pipes_take_less_than_a_page() {
    peer::apart("idle");
}
pub fn idle() {
    const N: u64 = 400;
    let first = byway::pipe().unwrap();
    let before = resident();
    let mut all: Vec<_> = (0..N).map(|_| byway::pipe().unwrap()).collect();
    let idle = resident() - before;
    assert!(idle < N * 4096, "{idle} bytes for {N} pipes");
    // Used, read to the end, and at rest again.
    thread::scope(|s| {
        for part in all.chunks_mut(20) {
            s.spawn(move || {
                for (r, w) in part {
                    w.write_all(&[1; 3000]).unwrap();
                    assert!(w.is_carried());
                    let mut b = [0; 5000];
                    assert_eq!(r.read(&mut b).unwrap(), 3000);
                    let e = r
                        .read_timeout(&mut b, Duration::from_millis(30))
                        .unwrap_err();
                    assert_eq!(e.kind(), ErrorKind::TimedOut);
                }
            });
        }
    });
    // Rings of 400 pipes would be 25 MiB; what stays is what the allocator keeps at hand, for all of them.
    let rest = resident() - before;
    assert!(rest < 10 << 20, "{rest} bytes for {N} pipes that were used");
    drop((first, all));
}

/// Anonymous memory of this process, bytes: its heap and stacks.
fn anonymous() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}

/// As many descriptors as this process may have.
fn raise_limit() {
    let mut l = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: getrlimit(2), setrlimit(2) of a structure of ours.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut l), 0);
        l.rlim_cur = l.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &l), 0);
    }
}

#[test]
fn a_thousand_fifos_are_carried_and_take_less_than_a_page_each() {
    peer::apart("thousand");
}
pub fn thousand() {
    const N: u64 = 1000;
    raise_limit();
    let first = byway::pipe().unwrap();
    let before = resident() + anonymous();
    let mut all: Vec<_> = (0..N)
        .map(|k| {
            let f = byway::Fifo::new(&format!("idle-{k}")).unwrap();
            let r = f.try_reader().unwrap();
            let w = f.writer().unwrap();
            (f, r, w)
        })
        .collect();
    let each = (resident() + anonymous() - before) / N;
    assert!(each < 4096, "{each} bytes for each FIFO");
    // Those in the slots made beyond the first ones too; a few at a time, or their rings would take 64 MiB.
    for part in all.chunks_mut(50) {
        for (k, (_, r, w)) in part.iter_mut().enumerate() {
            w.write_all(&[k as u8; 3000]).unwrap();
            assert!(w.is_carried());
            let mut b = [0; 5000];
            assert_eq!(r.read(&mut b).unwrap(), 3000);
            assert_eq!(b[..3000], [k as u8; 3000]);
        }
    }
    for (f, ..) in &all {
        f.remove().unwrap();
    }
    drop((first, all));
}

#[test]
fn slots_come_back() {
    peer::apart("slots");
}
pub fn slots() {
    // More pipes, one after the other, than there are slots.
    for k in 0..3000 {
        let (mut r, mut w) = byway::pipe().unwrap();
        assert!(w.is_carried(), "pipe {k}");
        w.write_all(b"x").unwrap();
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 1);
    }
    // And many at once.
    let mut all: Vec<_> = (0..400).map(|_| byway::pipe().unwrap()).collect();
    for (r, w) in &mut all {
        w.write_all(b"yz").unwrap();
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 2);
    }
}

#[test]
fn what_is_not_seen_stays() {
    peer::apart("unseen");
}
/// The only holder of a pipe is a process whose first thread has ended, or one that only root may look into: /proc does
/// not show what they have open, or not at once.
pub fn unseen() {
    let both = [true, false].map(holder);
    for _ in 0..3000 {
        let (mut r, mut w) = byway::pipe().unwrap();
        w.write_all(b"x").unwrap();
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 1);
    }
    for (child, mut go) in both {
        go.write_all(b"!").unwrap();
        let mut status = 0;
        // SAFETY: waits for our child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
    }
}
/// A child that alone has a pipe with bytes in it, and what lets it read them.
fn holder(first_thread_ends: bool) -> (i32, std::io::PipeWriter) {
    // A reader whose bytes are gone waits for them.
    const ALARM: u32 = 30;
    let (mut r, mut w) = byway::pipe().unwrap();
    let (mut told, go) = std::io::pipe().unwrap();
    w.write_all(&[7; 3000]).unwrap();
    assert!(w.is_carried());
    let mut take = move || {
        let mut b = [0; 5000];
        assert_eq!(told.read(&mut b).unwrap(), 1);
        let whole = r.read(&mut b).unwrap() == 3000 && b[..3000] == [7; 3000];
        // SAFETY: leaves the child.
        unsafe { libc::_exit(i32::from(!whole)) }
    };
    // SAFETY: the child goes on with one thread; prctl(2), alarm(2) and exit(2) have no pointers.
    let child = unsafe {
        match libc::fork() {
            0 if first_thread_ends => {
                libc::alarm(ALARM);
                thread::spawn(take);
                libc::syscall(libc::SYS_exit, 0);
                unreachable!()
            }
            0 => {
                libc::alarm(ALARM);
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                take()
            }
            pid => pid,
        }
    };
    (child, go)
}
