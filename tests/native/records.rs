//! Records of all sizes, among threads and programs.
use crate::peer::{self, LONG, number, record};
use std::collections::HashSet;
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

#[test]
fn between_threads() {
    const N: usize = 3000;
    let (mut r, mut s) = byway::records().unwrap();
    let t = thread::spawn(move || {
        for k in 0..N {
            s.send(&record(k)).unwrap();
        }
    });
    let mut b = vec![0; 800_000];
    for k in 0..N {
        let n = r.receive(&mut b).unwrap().unwrap();
        assert_eq!(&b[..n], &record(k)[..], "record {k}");
    }
    assert_eq!(r.receive(&mut b).unwrap(), None);
    t.join().unwrap();
}

#[test]
fn small_ones_fast_and_slow() {
    // Sizes that turn over the ring's clusters in every way; now and then the receiver has to sleep.
    let (mut r, mut s) = byway::records().unwrap();
    let t = thread::spawn(move || {
        for k in 0..400_000usize {
            let n = k * 7 % 130;
            s.send(&vec![k as u8; n]).unwrap();
            if k % 50_000 == 0 {
                thread::sleep(Duration::from_millis(2));
            }
        }
    });
    let mut b = [0; 200];
    for k in 0..400_000usize {
        let n = r.receive(&mut b).unwrap().unwrap();
        assert_eq!(n, k * 7 % 130);
        assert!(b[..n].iter().all(|&x| x == k as u8));
    }
    t.join().unwrap();
}

#[test]
fn between_programs() {
    const N: usize = 1500;
    let (mut r, s) = byway::records().unwrap();
    let c = peer::start("send", &format!("{} {N}", number(&s)), Some(number(&s)));
    drop(s);
    for k in 0..N {
        assert_eq!(
            &r.message().unwrap().unwrap()[..],
            &record(k)[..],
            "record {k}"
        );
    }
    assert!(r.message().unwrap().is_none());
    assert!(peer::ended(c));
    let (r, mut s) = byway::records().unwrap();
    let c = peer::start("receive", &format!("{} {N}", number(&r)), Some(number(&r)));
    drop(r);
    for k in 0..N {
        s.send(&record(k)).unwrap();
    }
    drop(s);
    assert!(peer::ended(c));
}

#[test]
fn by_name() {
    let f = byway::Fifo::new(&format!("records-{}", std::process::id())).unwrap();
    let g = f.clone();
    let t = thread::spawn(move || {
        let mut s = byway::Sender::new(g.writer().unwrap());
        for k in 0..2000 {
            s.send(&record(k)).unwrap();
        }
    });
    let mut r = byway::Receiver::new(f.reader().unwrap());
    for k in 0..2000 {
        assert_eq!(
            &r.message().unwrap().unwrap()[..],
            &record(k)[..],
            "record {k}"
        );
    }
    assert!(r.message().unwrap().is_none());
    t.join().unwrap();
    f.remove().unwrap();
}

#[test]
fn each_to_one_of_many_receivers() {
    const SENDERS: usize = 3;
    const EACH: usize = 4000;
    let (r, s) = byway::records().unwrap();
    let got = Mutex::new(HashSet::new());
    thread::scope(|scope| {
        for id in 0..SENDERS {
            let mut s = s.try_clone().unwrap();
            scope.spawn(move || {
                for k in 0..EACH {
                    let mut b = (id * EACH + k).to_le_bytes().to_vec();
                    b.resize(8 + k * 31 % 3000, id as u8);
                    s.send(&b).unwrap();
                }
            });
        }
        drop(s);
        for _ in 0..3 {
            let (mut r, got) = (r.try_clone().unwrap(), &got);
            scope.spawn(move || {
                let mut b = [0; 4000];
                while let Some(n) = r.receive(&mut b).unwrap() {
                    let id = usize::from_le_bytes(b[..8].try_into().unwrap());
                    assert_eq!(n, 8.max(8 + id % EACH * 31 % 3000));
                    assert!(b[8..n].iter().all(|&x| x as usize == id / EACH));
                    assert!(got.lock().unwrap().insert(id), "twice: {id}");
                }
            });
        }
        drop(r);
    });
    assert_eq!(got.into_inner().unwrap().len(), SENDERS * EACH);
}

#[test]
fn too_small_a_buffer_loses_nothing() {
    let (mut r, mut s) = byway::records().unwrap();
    for n in [100, 3000, 50_000] {
        for _ in 0..3 {
            s.send(&vec![8; n]).unwrap();
            let e = r.receive(&mut [0; 20]).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EMSGSIZE));
            let mut b = vec![0; n];
            assert_eq!(r.receive(&mut b).unwrap(), Some(n));
            assert!(b.iter().all(|&x| x == 8));
        }
    }
}

#[test]
fn attempts_and_time() {
    let (mut r, mut s) = byway::records().unwrap();
    let mut b = [0; 100];
    let e = r.try_receive(&mut b).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    let e = r
        .receive_timeout(&mut b, Duration::from_millis(5))
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    s.send(b"x").unwrap();
    let mut p = libc::pollfd {
        fd: r.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    assert_eq!(unsafe { libc::poll(&mut p, 1, 0) }, 1);
    assert_eq!(r.receive_timeout(&mut b, LONG).unwrap(), Some(1));
    let mut n = 0;
    let e = loop {
        match s.try_send(&[1; 90]) {
            Ok(()) => n += 1,
            Err(e) => break e,
        }
    };
    assert_eq!(e.kind(), ErrorKind::WouldBlock);
    let e = s
        .send_timeout(&[1; 90], Duration::from_millis(5))
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::TimedOut);
    for _ in 0..n {
        assert_eq!(r.try_receive(&mut b).unwrap(), Some(90));
    }
    s.try_send(&[1; 90]).unwrap();
    peer::close(r);
    assert_eq!(s.send(&[1; 90]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn bytes_that_are_no_records() {
    use std::io::Write;
    let (r, mut w) = byway::pipe().unwrap();
    w.write_all(&[0; 5000]).unwrap();
    let e = byway::Receiver::new(r).message().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::InvalidData);
    // A forged grant: of nobody's, of somebody's.
    for entry in [0u32, 1, 9000, u32::MAX] {
        let (r, mut w) = byway::pipe().unwrap();
        let head = 0x62_7977u64 << 40 | 2 << 32 | 16;
        let mut b = head.to_le_bytes().to_vec();
        for v in [entry, 0, 0, 100] {
            b.extend(v.to_le_bytes());
        }
        w.write_all(&b).unwrap();
        let e = byway::Receiver::new(r).message().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::InvalidData);
    }
}

/// A record that was kept is in front of the reader that a receiver is made to, and of the next receiver's.
#[test]
fn a_kept_record_goes_with_the_reader() {
    let (mut r, mut s) = byway::records().unwrap();
    for sent in [b"short".to_vec(), vec![7; 4000], vec![8; 100_000]] {
        for armed in [false, true] {
            if armed {
                r.try_message().unwrap_err();
            }
            s.send(&sent).unwrap();
            s.send(b"next").unwrap();
            let e = r.receive(&mut [0; 2]).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EMSGSIZE));
            r = byway::Receiver::new(r.into_inner());
            // Again, and again.
            let e = r.try_receive(&mut [0; 2]).unwrap_err();
            assert_eq!(e.raw_os_error(), Some(libc::EMSGSIZE));
            let reader = r.into_inner();
            r = byway::Receiver::new(reader);
            assert_eq!(&r.message().unwrap().unwrap()[..], &sent[..]);
            assert_eq!(&r.message().unwrap().unwrap()[..], b"next");
        }
    }
    // As a descriptor it would be without.
    r.try_message().unwrap_err();
    s.send(b"kept").unwrap();
    r.receive(&mut [0; 2]).unwrap_err();
    let e = r.into_inner().into_fd().unwrap_err();
    assert_eq!(e.kind(), std::io::ErrorKind::InvalidInput);
}
