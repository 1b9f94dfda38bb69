//! Records, by who looks for the next one while another writes it.
//!
//! Not here: who sleeps, grants, the library (crate byway).
mod common;
use byway_pipe::record::{self, Found, HEAD, RecordHead};
use common::{Pipe, pipe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Records of eight bytes, each with its number.
const RECORDS: u64 = 300_000;

fn framed(n: u64) -> [u8; HEAD + 8] {
    let head = RecordHead { kind: 1, len: 8 };
    let mut b = [0; HEAD + 8];
    b[..HEAD].copy_from_slice(&head.to_bytes());
    b[HEAD..].copy_from_slice(&n.to_le_bytes());
    b
}

/// A pipe whose ring is open, and empty.
fn open() -> Pipe {
    let p = pipe();
    let mut b = framed(0);
    for _ in 0..64 {
        assert_eq!(p.put(&b), b.len() as isize);
        assert_eq!(p.get(&mut b), b.len() as isize);
    }
    assert!(!p.ch.tail().closed(), "not open after 64 writes");
    p
}

/// Who finds nothing waits until the tail has changed since the look. Were it a tail of after the look, that might have
/// the next record already: nobody would tell of it, and where two processes answer each other, both would wait in
/// vain.
#[test]
fn what_is_waited_for_is_not_there_yet() {
    let p = open();
    let (had, over) = (AtomicU64::new(0), AtomicBool::new(false));
    /// A failed assertion ends the writer too.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0..RECORDS {
                // It never waits for room.
                while n - had.load(Relaxed) > 1000 {
                    if over.load(Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                // Slower than who looks: nearly each comes while that one does.
                (0..5 + n % 7).for_each(|_| std::hint::spin_loop());
                assert_eq!(p.put(&framed(n)), (HEAD + 8) as isize);
            }
        });
        let _over = Over(&over);
        let (me, mut b, mut nothing) = (p.me(), [0; 8], 0u64);
        for next in 0..RECORDS {
            had.store(next, Relaxed);
            loop {
                let found = match record::take_inline(&me, p.ch, &mut b) {
                    Some(head) => Found::Taken(head),
                    None => record::take(&me, p.ch, &mut b),
                };
                match found {
                    Found::Taken(_) => break,
                    Found::Elsewhere(was) => {
                        let r = p.ch.head().position();
                        assert!(!was.closed() && !p.ch.chunk().valid());
                        assert_eq!(
                            was.wide(r),
                            r,
                            "Tail had record {next}, which was not found"
                        );
                        nothing += 1;
                    }
                    found => panic!("{found:?} at record {next}"),
                }
            }
            assert_eq!(u64::from_le_bytes(b), next);
        }
        assert!(nothing > 0, "there was always one");
    });
}
