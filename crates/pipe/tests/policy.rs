//! Policy by table: the score of what has worked, what opens a ring and what closes it. No call of the kernel.
mod common;

use byway_pipe::Caller;
use byway_pipe::channel::Holders;
use byway_pipe::policy::{self, Leave, Score};
use common::{Pipe, pipe};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

fn score(n: u32) -> Score {
    Score::load(&AtomicU32::new(n))
}

#[test]
fn a_score_moves_by_an_eighth_of_what_is_left() {
    let table = [
        (0, true, 32),
        (128, true, 144),
        (256, true, 256),
        (256, false, 224),
        (128, false, 112),
        (7, false, 7),
        (0, false, 0),
    ];
    for (from, worked, to) in table {
        assert_eq!(score(from).after(worked), score(to), "{from} {worked}");
    }
    assert_eq!(Score::BEST.after_dear(), score(192));
}

#[test]
fn six_in_vain_end_it_and_three_that_work_begin_it() {
    let tries = |mut s: Score, worked: bool| {
        let (before, mut n) = (s.pays(), 0);
        while s.pays() == before {
            s = s.after(worked);
            n += 1;
        }
        n
    };
    assert_eq!(tries(Score::NEW, false), 6);
    assert_eq!(tries(score(0), true), 3);
}

#[test]
fn a_score_that_a_peer_wrote_is_one() {
    assert_eq!(score(u32::MAX), Score::BEST);
}

/// A caller on so many CPUs, whose rings may be left.
fn on(p: &Pipe, cpus: u32) -> Caller {
    Caller { cpus, ..p.me() }
}

#[test]
fn what_makes_a_channel_hot() {
    // Bytes of each write, and how many of them it takes.
    for (n, writes) in [(1, 17), (4096, 17), (8192, 9), (65_536, 2), (65_537, 1)] {
        let p = pipe();
        let hot = (1..).find(|_| policy::is_hot(&p.ch.writer, n, 0));
        assert_eq!(hot, Some(writes), "{n}");
    }
    // Those before it, which nobody counted.
    assert!(policy::is_hot(&pipe().ch.writer, 1, 16));
}

#[test]
fn a_ring_is_left_after_64_wake_ups_in_a_row() {
    // On one CPU or two: whether a write that woke nobody makes all of them good, or four.
    for (cpus, left) in [(2, None), (1, Some(59))] {
        let p = pipe();
        let me = on(&p, cpus);
        for n in 1..64 {
            assert_eq!(policy::on_wake(&me, p.ch, 1), None, "{n}");
        }
        policy::on_flow(&me, p.ch, 1);
        let lone = p.ch.writer.0.lone_wakes.load(Relaxed);
        assert_eq!(lone, left.unwrap_or(0));
        for n in lone + 1..64 {
            assert_eq!(policy::on_wake(&me, p.ch, 1), None, "{n}");
        }
        assert_eq!(policy::on_wake(&me, p.ch, 1), Some(Leave::ForNow));
    }
}

/// A socket's, on two CPUs: wakes until its ring is left, and how, where every eighth write wakes nobody and the first wake was
/// `ago` us ago; its ring has carried so much before.
fn socket_left_after(ago: u64, worth: u32, carried: usize) -> (u32, Option<Leave>) {
    let p = pipe();
    p.ch.writer.0.worth.store(worth, Relaxed);
    p.ch.writer.0.count(carried);
    p.ch.facts.0.holders.store(Holders::Unix as u32, Relaxed);
    let me = on(&p, 2);
    let cycles = u64::from(p.me().domain.header().cycles_per_us.load(Relaxed).max(100));
    for n in 1..1000 {
        let left = policy::on_wake(&me, p.ch, 1);
        if left.is_some() {
            return (n, left);
        }
        if n == 1 {
            let since = &p.ch.writer.0.runs;
            since.store(since.load(Relaxed) - ago * cycles, Relaxed);
        }
        if n % 8 == 0 {
            policy::on_flow(&me, p.ch, 1);
        }
    }
    (1000, None)
}

#[test]
fn a_sockets_ring_is_left_for_good_if_its_connection_is_in_use() {
    // One write that woke nobody makes one good, on two CPUs too.
    let left = 1 << 10;
    assert_eq!(socket_left_after(0, left, 0), (72, Some(Leave::ForGood)));
    assert_eq!(
        socket_left_after(650_000, left, 0),
        (72, Some(Leave::ForNow))
    );
    // The first time, or it was worth its ring since.
    assert_eq!(socket_left_after(0, 64, 0), (72, Some(Leave::ForNow)));
    let much = 16 << 20;
    assert_eq!(socket_left_after(0, left, much), (72, Some(Leave::ForNow)));
}

#[test]
fn each_time_it_takes_four_times_as_many_writes_to_open_it() {
    let p = pipe();
    let me = on(&p, 2);
    let worth = || p.ch.writer.0.worth.load(Relaxed);
    for more in [
        1 << 10,
        1 << 12,
        1 << 14,
        1 << 16,
        1 << 18,
        1 << 20,
        1 << 20,
    ] {
        while policy::on_wake(&me, p.ch, 1).is_none() {}
        assert_eq!(worth(), more);
    }
    // By half with each MiB that woke nobody.
    for half in [1 << 19, 1 << 18] {
        for _ in 0..1024 {
            p.ch.writer.0.count(1024);
            policy::on_flow(&me, p.ch, 1024);
        }
        assert_eq!(worth(), half);
    }
    // Or with so many short ones, of which a MiB would be sixty-four times as many.
    for _ in 0..16 * 1024 {
        p.ch.writer.0.count(1);
        policy::on_flow(&me, p.ch, 1);
    }
    assert_eq!(worth(), 1 << 17);
    // One of nothing is none.
    policy::on_flow(&me, p.ch, 0);
    assert_eq!(worth(), 1 << 17);
}

#[test]
fn a_long_write_wakes_for_its_worth() {
    let p = pipe();
    let me = on(&p, 2);
    for _ in 0..200 {
        assert_eq!(policy::on_wake(&me, p.ch, 4097), None);
    }
}

#[test]
fn a_channel_that_is_mostly_spliced_opens_more_and_more_seldom() {
    let p = pipe();
    // Calls so far, bytes that the ring has carried, and whether these outweigh those.
    let table = [
        (64, 0, true),
        (65, 0, false),
        (65, 65 * 4096, true),
        (1000, 65 * 4096, false),
    ];
    let w = &p.ch.writer;
    for (calls, bytes, may) in table {
        w.0.count(bytes - w.0.counted() as usize);
        p.ch.facts.0.left.store(calls, Relaxed);
        assert_eq!(policy::outweighs(p.ch), may, "{calls} {bytes}");
    }
}
