//! Buffers that travel without a copy.
use crate::peer::{self, LONG, number, record};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

#[test]
fn of_every_size() {
    let (mut r, mut s) = byway::records().unwrap();
    for n in [
        0,
        1,
        256,
        257,
        2048,
        65_536,
        65_537,
        524_288,
        1 << 20,
        3_000_000,
    ] {
        let mut w = byway::reserve(n).unwrap();
        assert_eq!(w.len(), n);
        for (i, x) in w.iter_mut().enumerate() {
            *x = peer::byte(i);
        }
        let from = w.as_ptr();
        s.send_grant(w.share().unwrap()).unwrap();
        let g = r.message().unwrap().unwrap().into_grant().unwrap();
        // The very same memory.
        assert_eq!(g.as_ptr(), from);
        assert!(g.iter().enumerate().all(|(i, &x)| x == peer::byte(i)) && g.len() == n);
    }
}

#[test]
fn one_buffer_for_several() {
    let pipes: Vec<_> = (0..5).map(|_| byway::records().unwrap()).collect();
    let mut w = byway::reserve(100_000).unwrap();
    w.fill(6);
    let g = w.share().unwrap();
    let (mut receivers, mut senders): (Vec<_>, Vec<_>) = pipes.into_iter().unzip();
    for (k, s) in senders.iter_mut().enumerate() {
        s.send_grant(g.slice(k * 1000..)).unwrap();
    }
    let at = g.as_ptr();
    drop(g);
    let mut got = Vec::new();
    for (k, r) in receivers.iter_mut().enumerate() {
        let m = r.message().unwrap().unwrap();
        assert_eq!(m.as_ptr(), at.wrapping_add(k * 1000));
        assert_eq!(m.len(), 100_000 - k * 1000);
        got.push(m);
    }
    // Nobody gets that memory while one of them has it.
    let last = got.pop().unwrap();
    drop(got);
    let others: Vec<_> = (0..20)
        .map(|_| {
            let mut w = byway::reserve(100_000).unwrap();
            w.fill(9);
            w
        })
        .collect();
    assert!(last.iter().all(|&x| x == 6));
    drop(others);
}

#[test]
fn many_are_in_flight_at_once() {
    let (mut r, mut s) = byway::records().unwrap();
    for round in 0..3u8 {
        for k in 0..100u8 {
            let mut w = byway::reserve(5000).unwrap();
            w.fill(k ^ round);
            s.send_grant(w.share().unwrap()).unwrap();
        }
        for k in 0..100u8 {
            let m = r.message().unwrap().unwrap();
            assert!(m.len() == 5000 && m.iter().all(|&x| x == k ^ round));
        }
    }
}

#[test]
fn a_slow_receiver_makes_the_sender_wait() {
    let (mut r, mut s) = byway::records().unwrap();
    for size in [100, 60_000, 1 << 20] {
        let mut n = 0;
        let e = loop {
            let w = byway::reserve(size).unwrap();
            match s.try_send_grant(w.share().unwrap()) {
                Ok(()) => n += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(e.error.kind(), ErrorKind::WouldBlock, "{n} of {size}");
        assert!((8..=200).contains(&n), "{n} of {size}");
        let mut p = libc::pollfd {
            fd: number(&s),
            events: libc::POLLOUT,
            revents: 0,
        };
        // SAFETY: one struct pollfd.
        assert_eq!(unsafe { libc::poll(&mut p, 1, 0) }, 0);
        for _ in 0..n {
            assert_eq!(r.try_message().unwrap().unwrap().len(), size);
        }
        // SAFETY: as above.
        assert_eq!(unsafe { libc::poll(&mut p, 1, 0) }, 1);
        s.try_send_grant(e.grant).unwrap();
        assert_eq!(r.try_message().unwrap().unwrap().len(), size);
    }
    // The faster one waits for the slower one, in another program, thousands of times.
    let (r, mut s) = byway::records().unwrap();
    let c = peer::start("receive", &format!("{} 6000", number(&r)), Some(number(&r)));
    drop(r);
    for k in 0..6000 {
        s.send(&record(k)).unwrap();
    }
    drop(s);
    assert!(peer::ended(c));
}

#[test]
fn short_records_do_not_hold_up_grants() {
    let (mut r, mut s) = byway::records().unwrap();
    // The receiver is armed: the first record rings it, and the kernel's pipe is taken.
    assert!(r.try_message().is_err());
    for n in [3, 0, 4088, 200_000, 100, 1 << 20] {
        s.send_timeout(&vec![n as u8; n], LONG).unwrap();
    }
    for n in [3, 0, 4088, 200_000, 100, 1 << 20] {
        let m = r.message_timeout(LONG).unwrap().unwrap();
        assert!(m.len() == n && m.iter().all(|&x| x == n as u8));
    }
}

#[test]
fn what_cannot_be_had_is_said() {
    peer::apart("memory");
}
pub fn memory() {
    let e = byway::reserve(1 << 40).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    // More than there is, at once: then all of it again.
    let mut all = Vec::new();
    let e = loop {
        match byway::reserve(4 << 20) {
            Ok(w) => all.push(w),
            Err(e) => break e,
        }
        assert!(all.len() < 100);
    };
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    let n = all.len();
    drop(all);
    let again: Vec<_> = (0..n.saturating_sub(4))
        .map(|_| byway::reserve(4 << 20).unwrap())
        .collect();
    drop(again);
}

#[test]
fn what_cannot_be_shared_stays_the_callers() {
    peer::apart("full");
}
pub fn full() {
    // As many as the table has entries, for real.
    let mut held = Vec::new();
    let e = loop {
        let mut w = byway::reserve(10).unwrap();
        w.fill(7);
        match w.share() {
            Ok(g) => held.push(g),
            Err(e) => break e,
        }
    };
    assert_eq!(held.len(), 8192);
    assert_eq!(e.error.kind(), ErrorKind::OutOfMemory);
    assert!(e.to_string().contains("drop some"), "{e}");
    // It may be filled on, and tried again.
    let mut w = e.grant;
    assert_eq!(&w[..], [7; 10]);
    w[0] = 8;
    w = w.share().unwrap_err().grant;
    let (mut r, mut s) = byway::records().unwrap();
    let e = s.try_send(&[1; 5000]).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::OutOfMemory);
    held.pop();
    s.send_grant(w.share().unwrap()).unwrap();
    assert_eq!(
        &r.message().unwrap().unwrap()[..],
        [8, 7, 7, 7, 7, 7, 7, 7, 7, 7]
    );
}

#[test]
fn unread_ones_come_home() {
    peer::apart("unread");
}
pub fn unread() {
    // More than the memory there is, sent into pipes that nobody reads to the end.
    for _ in 0..100 {
        let (r, mut s) = byway::records().unwrap();
        for _ in 0..4 {
            let w = byway::reserve(1 << 20).unwrap();
            s.send_grant(w.share().unwrap()).unwrap();
        }
        drop(r);
        drop(s);
    }
}

#[test]
fn of_the_dead_come_home() {
    peer::apart("dead");
}
pub fn dead() {
    // Again and again the peer is killed with buffers in its hands and in flight: more than the memory there is.
    for k in 0..30u64 {
        let (mut r, s) = byway::records().unwrap();
        let mut c = peer::start("send-forever", &number(&s).to_string(), Some(number(&s)));
        drop(s);
        let until = Instant::now() + Duration::from_micros(3000 + k * 331);
        let mut n = 0;
        while Instant::now() < until || n == 0 {
            let m = r.message_timeout(LONG).unwrap().unwrap();
            assert_eq!(&m[..], &record(n)[..], "record {n}");
            n += 1;
        }
        c.kill().unwrap();
        c.wait().unwrap();
        loop {
            match r.message_timeout(LONG) {
                Ok(Some(m)) => assert_eq!(&m[..], &record(n)[..], "record {n}"),
                Ok(None) => break,
                // It died with the entry passed on and the record not yet written, or the other way round.
                Err(e) => panic!("record {n}: {e}"),
            }
            n += 1;
        }
        let (r, mut s) = byway::records().unwrap();
        let mut c = peer::start("receive-forever", &number(&r).to_string(), Some(number(&r)));
        drop(r);
        let until = Instant::now() + Duration::from_micros(3000 + k * 331);
        let mut n = 0;
        let e = loop {
            if Instant::now() > until {
                c.kill().unwrap();
            }
            match s.send_timeout(&record(n), LONG) {
                Ok(()) => n += 1,
                Err(e) => break e,
            }
        };
        assert_eq!(e.kind(), ErrorKind::BrokenPipe);
        c.wait().unwrap();
    }
}
