//! A FIFO's kernel lane from which an outsider reads too: a read that must not wait does not, and takes what is there.
//!
//! Not here: what a channel does then (killed.rs, tests/run.sh).
mod common;
use byway_pipe::copy::Iov;
use byway_sys::errno::EAGAIN;
use std::ffi::CString;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, mpsc};
use std::time::Duration;

/// A new FIFO by three descriptions: a reader that waits, one that does not, a writer.
fn fifo() -> [i32; 3] {
    let name = std::env::temp_dir().join(format!("byway-lane-{}", byway_sys::process::gettid()));
    let path = CString::new(name.to_str().unwrap()).unwrap();
    // SAFETY: a name that lives over the calls.
    unsafe {
        assert_eq!(libc::mkfifo(path.as_ptr(), 0o600), 0);
        let ends = [
            libc::O_RDONLY | libc::O_NONBLOCK,
            libc::O_RDONLY | libc::O_NONBLOCK,
            libc::O_WRONLY,
        ]
        .map(|how| libc::open(path.as_ptr(), how));
        libc::unlink(path.as_ptr());
        assert!(ends.iter().all(|fd| *fd >= 0));
        assert_eq!(libc::fcntl(ends[0], libc::F_SETFL, 0), 0);
        ends
    }
}

#[test]
fn takes_what_is_there_and_waits_for_nothing() {
    const ROUNDS: u64 = 3_000;
    let p = common::pipe();
    let [reader, thief, writer] = fifo();
    let (d, ch) = (p.d, p.ch);
    let (here, there) = (Arc::new(Barrier::new(2)), Arc::new(AtomicU64::new(0)));
    let (says, told) = mpsc::channel();
    let (round, taken) = (here.clone(), there.clone());
    std::thread::spawn(move || {
        let me = common::me(d);
        let mut buffer = [0u8; 64];
        let v = [Iov {
            base: buffer.as_mut_ptr() as usize,
            len: buffer.len(),
        }];
        for _ in 0..ROUNDS {
            round.wait();
            // SAFETY: a buffer of this thread.
            let got = unsafe { ch.lane(reader as usize).read_now(&me, &v) };
            assert!(matches!(got, EAGAIN | 1), "{got}");
            taken.fetch_add(u64::from(got == 1), SeqCst);
            says.send(()).unwrap();
        }
    });
    for n in 1..=ROUNDS {
        let mut byte = [7u8];
        // SAFETY: a byte of ours.
        unsafe { assert_eq!(libc::write(writer, byte.as_ptr().cast(), 1), 1) };
        here.wait();
        for _ in 0..n % 64 * 8 {
            std::hint::spin_loop();
        }
        // SAFETY: as above.
        let got = unsafe { libc::read(thief, byte.as_mut_ptr().cast(), 1) };
        there.fetch_add(u64::from(got == 1), SeqCst);
        let came = told.recv_timeout(Duration::from_secs(20));
        assert!(
            came.is_ok(),
            "it waits for a byte that another has taken, in round {n}"
        );
        assert_eq!(there.load(SeqCst), n);
    }
}

#[test]
fn takes_no_more_than_it_has_room_for() {
    let p = common::pipe();
    let [reader, _, writer] = fifo();
    let me = common::me(p.d);
    let sent: Vec<u8> = (0..40_000u32).map(|i| (i % 251) as u8).collect();
    // SAFETY: a buffer of ours.
    unsafe {
        assert_eq!(
            libc::write(writer, sent.as_ptr().cast(), sent.len()),
            40_000
        )
    };
    let mut came = Vec::new();
    let (mut one, mut other) = ([0u8; 999], [0u8; 1]);
    while came.len() < sent.len() {
        let v = [(one.as_mut_ptr(), 999), (other.as_mut_ptr(), 1)].map(|(p, len)| Iov {
            base: p as usize,
            len,
        });
        // SAFETY: buffers of ours.
        let got = unsafe { p.ch.lane(reader as usize).read_now(&me, &v) };
        assert_eq!(got, 1_000);
        came.extend_from_slice(&one);
        came.extend_from_slice(&other);
    }
    assert!(came == sent);
}
