//! The inbox of a UDP socket, called directly: what a sender and a reader find, in which order, and what nonsense does.
//!
//! Not here: sockets (tests/conformance/udp_calls.c).
mod common;

use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::datagram::{self, Found, HEADER, Sender, Sent};
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, birth};
use byway_sys::file::Ident;
use byway_sys::tcp::Name;
use byway_sys::udp::MOST;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering::Relaxed;

/// Of the inbox; where the kernel's queue is not asked.
const NO_FD: usize = usize::MAX;

struct Inbox {
    me: Caller,
    ch: &'static Channel,
}

fn inbox() -> Inbox {
    let d = common::domain();
    let id = Ident {
        dev: 9,
        ino: 77,
        fifo: false,
        is_socket: true,
    };
    let i = birth::inbox_born(d, id, 1).expect("a slot");
    Inbox {
        me: common::me(d),
        ch: Channel::at(d, i).expect("it"),
    }
}

fn sender() -> Sender {
    Sender {
        pid: 5,
        inode: 6,
        family: 2,
        name: Name::from([0x0100_007f, 0, 0, 0], 0x1234),
    }
}

impl Inbox {
    fn open() -> Inbox {
        let i = inbox();
        assert_eq!(i.send(b"early", false), Sent::Closed);
        assert!(datagram::open(&i.me, i.ch));
        i
    }
    fn send(&self, what: &[u8], follows: bool) -> Sent {
        let v = [Iov {
            base: what.as_ptr() as usize,
            len: what.len(),
        }];
        let at = Buffers::new(&v);
        datagram::send(&self.me, self.ch, at, what.len(), &sender(), follows)
    }
    fn take(&self, room: usize, peeks: bool) -> (Found, Vec<u8>) {
        let mut b = vec![0u8; room];
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: room,
        }];
        let found = datagram::take(&self.me, self.ch, Buffers::new(&v), room, peeks);
        (found, b)
    }
    fn gets(&self, what: &[u8]) {
        let (found, b) = self.take(1 << 17, false);
        let Found::Record(k, len, from) = found else {
            panic!("no record");
        };
        assert_eq!((k, len, from), (what.len(), what.len(), sender()));
        assert!(b[..k] == *what);
    }
}

#[test]
fn records_keep_their_bounds_and_their_order() {
    let i = Inbox::open();
    // Several times round the ring, over the bounds of its clusters.
    for round in 0..200usize {
        let all: Vec<Vec<u8>> = [0, 1, 8, 4000, 30_000, 65_000]
            .map(|n| (0..n).map(|k| (k * 7 + round) as u8).collect())
            .into();
        for one in &all {
            assert_eq!(i.send(one, false), Sent::Ring);
        }
        assert_eq!(datagram::next_len(&i.me, i.ch, NO_FD), Some(0));
        for one in &all {
            i.gets(one);
        }
        assert!(matches!(i.take(10, false).0, Found::Nothing(_)));
    }
}

#[test]
fn a_short_buffer_has_the_beginning_and_a_look_takes_nothing() {
    let i = Inbox::open();
    assert_eq!(i.send(b"0123456789", false), Sent::Ring);
    for peeks in [true, true, false] {
        let (found, b) = i.take(4, peeks);
        assert!(matches!(found, Found::Record(4, 10, _)) && b == b"0123");
    }
    assert!(matches!(i.take(4, false).0, Found::Nothing(_)));
}

#[test]
fn a_full_one_takes_no_more() {
    let i = Inbox::open();
    let big = vec![7u8; MOST];
    let mut n = 0;
    while i.send(&big, false) == Sent::Ring {
        n += 1;
    }
    assert_eq!(n, 3);
    assert!(matches!(i.send(&big, false), Sent::Full(0)));
    i.gets(&big);
    assert_eq!(i.send(&big, false), Sent::Ring);
}

#[test]
fn the_queue_comes_before_the_record_of_one_who_used_it() {
    let i = Inbox::open();
    assert_eq!(i.send(b"a", false), Sent::Ring);
    assert_eq!(i.send(b"b", true), Sent::Ring);
    i.gets(b"a");
    let (Found::Queue(m), _) = i.take(10, false) else {
        panic!("not the queue");
    };
    let queue = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let its = queue.as_raw_fd() as usize;
    assert_eq!(datagram::next_len(&i.me, i.ch, its), Some(1));
    let name = queue.local_addr().expect("its name");
    assert_eq!(queue.send_to(b"", name).expect("a datagram"), 0);
    assert_eq!(datagram::next_len(&i.me, i.ch, its), None);
    // Another one has used it since: one look was too early.
    assert_eq!(i.send(b"c", true), Sent::Ring);
    datagram::emptied(i.ch, m);
    let (Found::Queue(m), _) = i.take(10, false) else {
        panic!("not the queue");
    };
    datagram::emptied(i.ch, m);
    i.gets(b"b");
    i.gets(b"c");
}

#[test]
fn nothing_is_put_there_while_a_reader_sleeps() {
    let i = Inbox::open();
    let (Found::Nothing(t), _) = i.take(10, false) else {
        panic!("something");
    };
    assert_eq!(datagram::arm(i.ch, t), Some(true));
    assert_eq!(i.send(b"a", false), Sent::Asleep);
    datagram::disarm(i.ch);
    assert_eq!(i.send(b"b", false), Sent::Ring);
    // What it saw is not so any more.
    assert_eq!(datagram::arm(i.ch, t), None);
    i.gets(b"b");
}

#[test]
fn sends_that_each_wake_a_reader_are_in_vain() {
    let i = Inbox::open();
    for k in 0..300 {
        assert_eq!(datagram::is_in_vain(i.ch), k >= 256);
        let (Found::Nothing(t), _) = i.take(10, false) else {
            panic!("something");
        };
        datagram::arm(i.ch, t);
        for _ in 0..3 {
            assert_eq!(i.send(b"a", false), Sent::Asleep);
        }
        datagram::disarm(i.ch);
    }
    assert_eq!(i.send(b"b", false), Sent::Ring);
    assert!(!datagram::is_in_vain(i.ch));
}

#[test]
fn one_that_is_left_takes_and_gives_nothing() {
    let i = Inbox::open();
    assert_eq!(i.send(b"a", false), Sent::Ring);
    datagram::leaves(&i.me, i.ch, None, Reason::Control);
    assert_eq!(i.send(b"b", false), Sent::Kernels);
    assert!(!datagram::open(&i.me, i.ch));
    assert!(matches!(i.take(10, false).0, Found::Kernels));
    assert!(i.ch.is_kernels());
}

#[test]
fn a_record_that_makes_no_sense_ends_the_inbox() {
    for len in [MOST as u32 + 1, 100, u32::MAX] {
        let i = Inbox::open();
        assert_eq!(i.send(b"a", false), Sent::Ring);
        let ring = i.ch.ring(&i.me.domain).expect("a ring");
        let (p, run) = ring.run(0);
        assert!(run > HEADER);
        // SAFETY: inside the run.
        unsafe { p.cast::<u32>().write(len) };
        assert!(matches!(i.take(10, false).0, Found::Kernels));
        assert_eq!(i.ch.facts.0.why.load(Relaxed), Reason::Damaged as u8);
    }
}
