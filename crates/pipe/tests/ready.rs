//! What a poll is told of a pipe that another thread is handing back, and whom a hand-back waits for.
//!
//! Invariant: the other thread has done what it does before it lets go, and the answer comes after that.
//! Not here: what programs find (tests/conformance/fifo_events.c), a spiller's pipe (spiller.rs).
mod common;
use byway_pipe::read::{self, Armed};
use byway_pipe::ready::Sight;
use byway_pipe::word::{Head, Tail};
use byway_pipe::{Step, lock, ready};
use byway_sys::errno::EAGAIN;
use common::{me, pipe};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[test]
fn a_hand_back_that_goes_on_makes_no_room() {
    let p = pipe();
    let mut warm = vec![0; 4096];
    for _ in 0..80 {
        assert_eq!(p.put(&warm), 4096);
        assert_eq!(p.get(&mut warm), 4096);
    }
    assert!(!p.ch.tail().closed());
    // SAFETY: a descriptor of ours.
    unsafe { libc::fcntl(p.w as i32, libc::F_SETFL, libc::O_NONBLOCK) };
    while p.put(&warm) > 0 {}
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
