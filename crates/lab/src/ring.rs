//! A ring of words for one producer and one consumer, in memory that processes share: how objects of an allocator go from
//! who takes them to who returns them.
//!
//! ```text
//! producer: put, put, ... --16 at a time, or when it says so--> consumer: get, get, ...
//!           own count       `written`                `read`     own count            counts run free
//! ```
//! Invariant: the ring is the same whatever the words stand for, and so is the waiting: awake where each side has a CPU
//! (spin.rs), asleep in the kernel where both share one. Who waits for an end that is gone is told so.
//! Not here: what a word means.
use crate::shared::{self, Shared};
use crate::spin;
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};

/// Words that it has room for.
pub const SLOTS: usize = 1024;
/// Words published at a time, so that it is not the ring that is measured.
const BURST: u64 = 16;
/// A full ring has been published: nobody waits for room behind words that the other cannot see.
const _: () = assert!(SLOTS.is_multiple_of(BURST as usize));
/// Bytes of what stands alone: two lines, since CPUs fetch them in pairs.
const ALONE: usize = 128;

/// What one side tells the other.
#[derive(Clone, Copy)]
struct Told {
    /// Twice its count, and one more when the side is gone: one word, so that a sleeper misses neither.
    count: &'static AtomicU64,
    /// Whether the other sleeps until that changes.
    awaited: &'static AtomicU64,
}

impl Told {
    const BYTES: usize = 2 * ALONE;

    fn at(memory: Shared, at: usize) -> Told {
        let word = |at| &memory.words(at, 1)[0];
        Told {
            count: word(at),
            awaited: word(at + ALONE),
        }
    }
}

/// Both ends.
#[derive(Clone, Copy)]
pub struct Ring {
    written: Told,
    read: Told,
    slots: &'static [AtomicU64],
    sharing: bool,
}

/// One end of a ring in the hands of its thread: its own count, and what it last saw of the other's.
pub struct End {
    slots: &'static [AtomicU64],
    mine: Told,
    other: Told,
    sharing: bool,
    own: u64,
    seen: u64,
}

impl Ring {
    /// For two sides that share a CPU, or do not.
    ///
    /// # Errors
    /// There is no memory.
    pub fn new(sharing: bool) -> io::Result<Ring> {
        let memory = Shared::new(2 * Told::BYTES + SLOTS * 8)?;
        memory.populate()?;
        Ok(Ring {
            written: Told::at(memory, 0),
            read: Told::at(memory, Told::BYTES),
            slots: memory.words(2 * Told::BYTES, SLOTS),
            sharing,
        })
    }

    pub fn producer(&self) -> End {
        self.end(self.written, self.read)
    }
    pub fn consumer(&self) -> End {
        self.end(self.read, self.written)
    }
    fn end(&self, mine: Told, other: Told) -> End {
        End {
            slots: self.slots,
            mine,
            other,
            sharing: self.sharing,
            own: 0,
            seen: 0,
        }
    }
}

impl End {
    /// The producer's: one word, seen with its burst. A full ring is waited for.
    ///
    /// # Errors
    /// There is no consumer any more.
    #[inline]
    pub fn put(&mut self, v: u64) -> io::Result<()> {
        let room = |own, seen| own - seen < SLOTS as u64;
        if !room(self.own, self.seen) && !self.wait(room) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.slots[self.own as usize % SLOTS].store(v, Relaxed);
        self.own += 1;
        if self.own.is_multiple_of(BURST) {
            self.publish();
        }
        Ok(())
    }

    /// The producer's: all that it has put is seen.
    #[inline]
    pub fn flush(&mut self) {
        if !self.own.is_multiple_of(BURST) {
            self.publish();
        }
    }

    /// The consumer's: the next word; `None`: the producer is gone, and this was all. An empty ring is waited for.
    #[inline]
    pub fn get(&mut self) -> Option<u64> {
        let filled = |own, seen| own != seen;
        if !filled(self.own, self.seen) && !self.wait(filled) {
            return None;
        }
        let v = self.slots[self.own as usize % SLOTS].load(Relaxed);
        self.own += 1;
        if self.own.is_multiple_of(BURST) {
            self.publish();
        }
        Some(v)
    }

    #[inline]
    fn publish(&self) {
        self.tell(2 * self.own);
    }

    #[inline]
    fn tell(&self, count: u64) {
        // ORDER: before the count the words and what their objects hold; or, the words have been read.
        self.mine.count.store(count, Release);
        if self.sharing {
            // ORDER: the count before the look; who goes to sleep says so before it looks at the count.
            fence(SeqCst);
            if self.mine.awaited.load(Relaxed) != 0 {
                shared::wake(self.mine.count);
            }
        }
    }

    /// Returns when `there` is true of the own count and of the other's, or says false: it never will be.
    #[cold]
    fn wait(&mut self, there: impl Fn(u64, u64) -> bool) -> bool {
        let (own, other) = (self.own, self.other);
        // ORDER: what the other did before it told its count.
        let look = || other.count.load(Acquire);
        let enough = |told| there(own, told / 2) || told % 2 == 1;
        let mut told = look();
        if self.sharing {
            while !enough(told) {
                other.sleep(told);
                told = look();
            }
        } else {
            spin::until(|| {
                told = look();
                enough(told)
            });
        }
        self.seen = told / 2;
        there(own, self.seen)
    }
}

impl Told {
    /// Until it is no longer `told`; perhaps not so long.
    fn sleep(&self, told: u64) {
        self.awaited.store(1, Relaxed);
        // ORDER: as in `tell`.
        fence(SeqCst);
        if self.count.load(Relaxed) == told {
            shared::sleep_while(self.count, told);
        }
        self.awaited.store(0, Relaxed);
    }
}

impl Drop for End {
    /// What was put is seen, and that there will be no more.
    fn drop(&mut self) {
        self.tell(2 * self.own + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `n` words, and flushes in between.
    fn cross(sharing: bool, n: u64) {
        let ring = Ring::new(sharing).unwrap();
        std::thread::scope(|s| {
            s.spawn(move || {
                let mut e = ring.producer();
                for i in 0..n {
                    e.put(i).unwrap();
                    if i % 1000 == 7 {
                        e.flush();
                    }
                }
            });
            let mut e = ring.consumer();
            for i in 0..n {
                assert_eq!(e.get(), Some(i));
            }
            assert_eq!(e.get(), None);
        });
    }

    #[test]
    fn nothing_is_lost_or_doubled_on_the_way() {
        cross(false, 100_000);
        cross(true, 100_000);
    }

    #[test]
    fn what_is_flushed_is_seen_at_once() {
        for sharing in [false, true] {
            let ring = Ring::new(sharing).unwrap();
            let (mut p, mut c) = (ring.producer(), ring.consumer());
            for i in 0..5000 {
                p.put(i).unwrap();
                p.flush();
                assert_eq!(c.get(), Some(i));
            }
        }
    }

    #[test]
    fn who_waits_for_an_end_that_goes_is_told() {
        for sharing in [false, true] {
            let ring = Ring::new(sharing).unwrap();
            std::thread::scope(|s| {
                let full = s.spawn(move || {
                    let mut e = ring.producer();
                    (0..).find_map(|i| e.put(i).err().map(|e| (i, e.kind())))
                });
                let mut e = ring.consumer();
                (0..100).for_each(|i| assert_eq!(e.get(), Some(i)));
                drop(e);
                let (put, why) = full.join().unwrap().unwrap();
                assert!(put >= SLOTS as u64 && why == io::ErrorKind::BrokenPipe);
            });
        }
    }
}
