//! What a poll is told of a pipe that another thread is handing back, and whom a hand-back waits for.
//!
//! Invariant: the other thread has done what it does before it lets go, and the answer comes after that.
//! Not here: what programs find (tests/conformance/fifo_events.c), a spiller's pipe (spiller.rs).
mod common;
use byway_pipe::channel::PIPE_BUF;
use byway_pipe::read::{self, Armed};
use byway_pipe::ready::Sight;
use byway_pipe::word::{Head, Tail};
use byway_pipe::{Step, lock, ready};
use byway_sys::errno::EAGAIN;
use common::{Pipe, me, pipe};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// A pipe with a ring, whose writer may not sleep.
fn nonblocking() -> Pipe {
    let p = pipe();
    let mut page = [0; PIPE_BUF];
    for _ in 0..80 {
        assert_eq!(p.put(&page), 4096);
        assert_eq!(p.get(&mut page), 4096);
    }
    assert!(!p.ch.tail().closed());
    // SAFETY: a descriptor of ours.
    unsafe { libc::fcntl(p.w as i32, libc::F_SETFL, libc::O_NONBLOCK) };
    p
}

/// Writes pages until there is no room: how many.
fn fills(p: &Pipe) -> usize {
    (0..).take_while(|_| p.put(&[0; PIPE_BUF]) > 0).count()
}

#[test]
fn a_hand_back_that_goes_on_makes_no_room() {
    let p = nonblocking();
    fills(&p);
    assert!(!p.ch.tail().closed() && p.ch.chunk().valid());
    assert!(!ready::is_writable(&me(p.d), p.ch, p.w));
    let goes_on = AtomicBool::new(true);
    let taken = lock::take(&me(p.d), p.ch, p.w, Tail::closed).expect("the lock");
    let r = lock::hold(&me(p.d), p.ch, Head::SPILLS);
    let chunk = p.ch.chunk();
    // As if the kernel lane were empty: its bytes have been put aside.
    p.ch.clear_chunk(chunk);
    thread::scope(|s| {
        let asks = s.spawn(|| {
            let found = ready::is_writable(&me(p.d), p.ch, p.w);
            (found, goes_on.load(SeqCst /* ORDER: after the answer. */))
        });
        // Long enough for a wrong answer; a right one waits for us.
        thread::sleep(Duration::from_millis(50));
        p.ch.set_chunk(chunk);
        goes_on.store(false, SeqCst /* ORDER: before the lock is let go. */);
        lock::release(&me(p.d), p.ch, r);
        lock::unlock(&me(p.d), p.ch);
        drop(taken);
        assert_eq!(asks.join().expect("no panic"), (false, false));
    });
}

/// A hand-back waits for a reader that takes bytes in the kernel. One that waits for a set does not.
#[test]
fn a_waiter_takes_nothing() {
    let p = pipe();
    let (me, ch) = (p.me(), p.ch);
    let waits = || ready::arm(&me, ch, p.r, &mut { Armed::NOT });
    let reads = || {
        let mut armed = Armed::NOT;
        let step = read::native(&me, ch, p.r, 10, &mut armed);
        assert_eq!(step, Step::NativeCounted);
        armed
    };
    assert_eq!(waits(), Sight::Armed);
    assert!(!ch.is_taken_from());
    // Another thread reads meanwhile, as one of a pool that waits for a set.
    let armed = reads();
    assert!(ch.is_taken_from());
    read::finish(&me, ch, armed, EAGAIN);
    assert!(!ch.is_taken_from());
    let armed = reads();
    assert_eq!(waits(), Sight::Armed);
    ready::disarm(&me, ch);
    ready::disarm(&me, ch);
    assert!(ch.is_taken_from());
    read::finish(&me, ch, armed, EAGAIN);
    assert_eq!(ch.tail().sleepers(), 0);
}

/// A reader has had the kernel lane's bytes, and then some of the ring's, while a writer waited for it to say the first.
#[test]
fn room_behind_a_lane_that_was_read_is_found() {
    let p = nonblocking();
    let finds_room = || {
        let mut page = [0; PIPE_BUF];
        for _ in 0..fills(&p) {
            assert_eq!(p.get(&mut page), 4096);
        }
        let (me, r) = (p.me(), p.ch.head().position());
        // As if the lane's last byte had just been read: nobody has found it empty yet.
        p.ch.set_chunk(p.ch.chunk().next(r));
        assert!(lock::try_hold(&me, p.ch, r, Head::READS_LANE));
        thread::scope(|s| {
            let writes = s.spawn(|| fills(&p));
            let full = |t: Tail| t.lock_owner() != 0 && t.wide(r) > r + 50_000;
            let mut before = p.ch.tail();
            loop {
                thread::sleep(Duration::from_millis(1));
                let now = p.ch.tail();
                if now == before && full(now) || writes.is_finished() {
                    break;
                }
                before = now;
            }
            let there = (p.ch.tail().wide(r) - r) as usize / PIPE_BUF;
            // As a reader that takes two pages more.
            lock::release(&me, p.ch, r + 2 * PIPE_BUF as u64);
            let written = writes.join().expect("no panic");
            for _ in 2..written {
                assert_eq!(p.get(&mut page), 4096);
            }
            written > there
        })
    };
    // The writer does not wait for ever, and this thread may be late.
    assert!((0..20).any(|_| finds_room()), "EAGAIN where there was room");
}
