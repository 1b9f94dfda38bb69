//! Two ends of a connection that are being matched: each knows the other by a step of its own, and a call may come between.
//!
//! Not here: the order of the steps in full (models/match.pml), real connections (tests/conformance/unix_names.c).
mod common;
use byway_mem::registry;
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::{birth, peer};
use byway_sys::file;
use common::Pipe;
use std::sync::atomic::Ordering::Relaxed;

/// One direction of a connection whose ends do not know each other, the channel of the end that reads, and both inode numbers.
fn ends() -> (Pipe, &'static Channel, [u64; 2]) {
    let p = common::sockets();
    let [one, other] = [p.w, p.r].map(|fd| file::identity(fd).unwrap());
    let [w, r] = [one, other].map(|id| {
        let i = birth::end_born(p.d, Holders::Unix, id, 1).unwrap();
        Channel::at(p.d, i).unwrap()
    });
    (Pipe { ch: w, ..p }, r, [one.ino, other.ino])
}

/// Writes until a ring opens, at most 500 times. Whether one did.
fn opens(p: &Pipe) -> bool {
    (0..500).any(|_| {
        assert_eq!(p.put(b"x"), 1);
        if p.ch.tail().closed() {
            let mut b = [0u8; 1];
            // SAFETY: our own buffer.
            let n = unsafe { libc::read(p.r as i32, b.as_mut_ptr().cast(), 1) };
            assert_eq!(n, 1);
        }
        !p.ch.tail().closed()
    })
}

#[test]
fn a_ring_opens_once_both_know_each_other() {
    let (p, far, [own, other]) = ends();
    assert_eq!(peer::reads(p.d, far), None);
    assert!(opens(&p));
    assert_eq!((far.reading_end(), p.ch.reading_end()), (own, other));
    assert_eq!(
        peer::reads(p.d, far),
        registry::find(p.d, p.ch.facts.0.key.dev.load(Relaxed), own)
    );
    assert!(!peer::enters(p.d, far));
}

/// The end that reads is matched, and the one that writes is not yet.
#[test]
fn a_call_between_the_two_steps_of_a_match_is_counted() {
    let (p, far, [own, _]) = ends();
    far.writer.0.born.store(own, Relaxed);
    assert!(peer::enters(p.d, far));
    assert!(
        !opens(&p),
        "a ring opened beside a call that it is not told of"
    );
    peer::leaves(far);
    assert!(opens(&p));
}

/// The end that reads has matched the one that writes, and not yet itself.
#[test]
fn a_writer_ends_a_match_that_the_other_end_has_begun() {
    let (p, far, [own, other]) = ends();
    p.ch.writer.0.born.store(other, Relaxed);
    assert!(peer::enters(p.d, far));
    assert!(
        !opens(&p),
        "a ring opened beside a call that it is not told of"
    );
    assert_eq!(far.reading_end(), own);
    peer::leaves(far);
    assert!(!peer::enters(p.d, far));
    assert!(opens(&p));
}
