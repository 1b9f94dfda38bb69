//! A channel whose ring brought nothing: when it passes through, who may be in a call that the tail does not count, and
//! that nobody opens it under them.
//!
//! Not here: the interleavings (models/pass_through.pml), what programs see (tests/conformance/pass_through.c).
mod common;
use byway_pipe::channel::Channel;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::pass_through::{self, Inside, Shortcut, WRITES};
use byway_pipe::{Caller, policy};
use common::{Pipe, pipe};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// More writes than make a ring worth while that was left once.
const MANY: usize = 4000;

/// A pipe that passes through: each write has found the reader asleep.
fn hushed() -> Pipe {
    let p = pipe();
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut b = [0];
            while p.get(&mut b) == 1 && b[0] == 0 {}
        });
        // HOT_OPS and IN_VAIN of policy.rs, and to spare.
        for _ in 0..200 {
            while !p.ch.tail().passes_through()
                && (p.ch.tail().sleepers() == 0 || p.ch.tail().woken())
            {
                std::thread::sleep(Duration::from_micros(20));
            }
            assert_eq!(p.put(&[0]), 1);
        }
        assert_eq!(p.put(&[1]), 1);
        assert!(p.ch.tail().passes_through());
    });
    assert!(p.ch.tail().closed());
    p
}

/// Asked by an end that remembers nothing.
fn read(me: &Caller, ch: &'static Channel) -> Option<Inside> {
    let mut shortcut = Shortcut::NONE;
    pass_through::read(me, ch, &mut shortcut)
}
fn write(me: &Caller, ch: &'static Channel, n: usize) -> Option<Inside> {
    let mut shortcut = Shortcut::NONE;
    pass_through::write(me, ch, n, &mut shortcut)
}

/// Small writes, each read at once by the kernel, until the ring is open. How many; `None`: it did not open.
fn until_open(p: &Pipe) -> Option<usize> {
    for n in 0..MANY {
        assert_eq!(p.put(&[7]), 1);
        if !p.ch.tail().closed() {
            return Some(n);
        }
        assert_eq!(p.get(&mut [0]), 1);
    }
    None
}

#[test]
fn a_stream_opens_it_again() {
    let p = hushed();
    let n = until_open(&p).expect("open");
    // Those in `hushed` count too.
    assert!(n > 500, "after {n} writes");
    assert!(!p.ch.tail().passes_through());
    let mut b = [0];
    assert_eq!((p.get(&mut b), b), (1, [7]));
}

#[test]
fn not_under_one_who_is_inside() {
    let p = hushed();
    std::thread::scope(|s| {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let p = &p;
        s.spawn(move || {
            let inside = read(&p.me(), p.ch).expect("passing");
            tell.send(()).unwrap();
            let _ = gone.recv();
            drop(inside);
        });
        told.recv().unwrap();
        assert_eq!(until_open(p), None);
        // Counted from here on, whatever is still inside.
        assert!(!p.ch.tail().passes_through());
        drop(go);
    });
    assert!(until_open(&p).is_some());
}

#[test]
fn the_dead_are_not_inside() {
    let p = hushed();
    std::thread::scope(|s| {
        s.spawn(|| std::mem::forget(read(&p.me(), p.ch).expect("passing")));
    });
    assert!(until_open(&p).is_some());
}

#[test]
fn one_call_of_a_thread_at_a_time() {
    let (p, q) = (hushed(), hushed());
    let me = p.me();
    let inside = read(&me, p.ch).expect("passing");
    assert!(read(&me, p.ch).is_none());
    assert!(write(&me, p.ch, 1).is_none());
    drop(inside);
    assert!(read(&me, p.ch).is_some());
    // Another domain is another place.
    assert!(read(&q.me(), q.ch).is_some());
}

#[test]
fn writes_are_counted_in_the_end() {
    let p = hushed();
    let me = p.me();
    assert!(
        write(&me, p.ch, pass_through::MOST + 1).is_none(),
        "only little"
    );
    let before = (0..10 * WRITES).take_while(|_| write(&me, p.ch, 1).is_some());
    assert_eq!(before.count(), WRITES as usize);
    assert_eq!(p.put(&[1]), 1);
    assert_eq!(p.get(&mut [0]), 1);
    assert!(write(&me, p.ch, 1).is_some());
    let counted =
        p.ch.writer
            .0
            .native_ops
            .load(std::sync::atomic::Ordering::Relaxed);
    assert!(counted > u64::from(WRITES), "{counted}");
}

#[test]
fn a_lease_ends_with_the_quiet() {
    let p = hushed();
    let (me, mut shortcut) = (p.me(), Shortcut::NONE);
    assert!(pass_through::read_again(me.tid, &mut shortcut).is_none());
    assert!(pass_through::read(&me, p.ch, &mut shortcut).is_some());
    for _ in 0..3 {
        assert!(pass_through::read_again(me.tid, &mut shortcut).is_some());
    }
    let mut writes = Shortcut::NONE;
    let before =
        (0..10 * WRITES).take_while(|_| pass_through::write(&me, p.ch, 1, &mut writes).is_some());
    assert_eq!(before.count(), WRITES as usize);
    assert!(until_open(&p).is_some());
    assert!(pass_through::read_again(me.tid, &mut shortcut).is_none());
    assert!(pass_through::write(&me, p.ch, 1, &mut writes).is_none());
    // Not while it is open, nor by what it was: for good.
    assert!(pass_through::read_again(me.tid, &mut shortcut).is_none());
}

#[test]
fn a_lease_is_its_threads_own() {
    let p = hushed();
    let mut shortcut = Shortcut::NONE;
    let inside = pass_through::read(&p.me(), p.ch, &mut shortcut).expect("passing");
    drop(inside);
    std::thread::scope(|s| {
        let (p, mut copy) = (&p, shortcut);
        let other = s.spawn(move || pass_through::read_again(p.me().tid, &mut copy).is_some());
        assert!(!other.join().unwrap());
    });
    assert!(pass_through::read_again(p.me().tid, &mut shortcut).is_some());
}

/// How many writes of `n` bytes that each wake a reader it takes until the ring is left, if it is; `flows`: after so
/// many one wakes nobody.
fn bells_until_left(p: &Pipe, n: usize, flows: Option<u32>) -> Option<u32> {
    let me = p.me();
    for i in 1..1000 {
        if policy::on_wake(&me, p.ch, n).is_some() {
            return Some(i);
        }
        if flows.is_some_and(|f| i % f == 0) {
            policy::on_flow(&me, p.ch, n);
        }
    }
    None
}

/// Beside a busy thread on one CPU a reader waits behind him for what follows the first PIPE_BUF bytes of a write;
/// longer ones, and those of a CPU that nobody else wants, are worth a ring.
#[test]
fn left_where_a_stranger_wants_the_one_cpu() {
    let on = |cpus| Pipe { cpus, ..pipe() };
    let busy = |p: &Pipe| {
        let until = &p.d.header().noyield_until;
        until.iter().for_each(|u| u.store(u64::MAX, Relaxed));
    };
    for (cpus, strange, n, wanted) in [
        (1, false, PIPE_BUF, Some(64)),
        (1, false, PIPE_BUF + 1, None),
        (1, true, PIPE_BUF + 1, Some(64)),
        (1, true, pass_through::MOST, Some(64)),
        (1, true, pass_through::MOST + 1, None),
        (2, true, PIPE_BUF + 1, None),
        (2, true, PIPE_BUF, Some(64)),
    ] {
        let p = on(cpus);
        if strange {
            busy(&p);
        }
        assert_eq!(
            bells_until_left(&p, n, None),
            wanted,
            "{cpus} {strange} {n}"
        );
    }
    // One that found its answer there already: on one CPU that is chance.
    assert_eq!(bells_until_left(&on(1), 100, Some(3)), None);
    let some = bells_until_left(&on(1), 100, Some(16));
    assert!(some.is_some_and(|n| (65..100).contains(&n)), "{some:?}");
    assert_eq!(bells_until_left(&on(2), 100, Some(16)), None);
}

/// A busy thread that rests for a moment comes back: what his slices taught is not forgotten by writes that woke
/// somebody all the same.
#[test]
fn a_strangers_rest_is_no_news() {
    let p = Pipe { cpus: 1, ..pipe() };
    let until = &p.d.header().noyield_until;
    let wants = |t| until.iter().for_each(|u| u.store(t, Relaxed));
    let worth = || p.ch.writer.0.worth.load(Relaxed);
    for wanted in [1 << 10, 1 << 12] {
        wants(u64::MAX);
        assert_eq!(bells_until_left(&p, pass_through::MOST, None), Some(64));
        assert_eq!(worth(), wanted);
        wants(0);
        assert_eq!(bells_until_left(&p, pass_through::MOST, None), None);
        assert_eq!(worth(), wanted);
    }
}

/// What it takes to open it again grows with each ring in vain, and a ring that is not makes it less, little by little.
#[test]
fn what_was_in_vain_is_remembered() {
    let p = pipe();
    let (me, w) = (p.me(), &p.ch.writer);
    let worth = || w.0.worth.load(Relaxed);
    for wanted in [1 << 10, 1 << 12, 1 << 14] {
        assert!(bells_until_left(&p, 100, None).is_some());
        assert_eq!(worth(), wanted);
    }
    let flow = |bytes: usize| {
        for _ in 0..bytes / 1024 {
            w.0.count(1024);
            policy::on_flow(&me, p.ch, 1024);
        }
    };
    flow(1000 << 10);
    assert_eq!(worth(), 1 << 14);
    flow(1 << 20);
    assert_eq!(worth(), 1 << 13);
    flow(16 << 20);
    assert_eq!(worth(), 0);
}
