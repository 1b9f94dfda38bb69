//! The least that is possible: of a round trip two words of shared memory, of a large record one memcpy.
//!
//! Invariant: nothing is carried but the number of a record.
//! Not here: anybody who sleeps.
use super::way::{Need, Receiver, Sender, Way};
use crate::child::now;
use crate::shared::Shared;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A word that both processes see: how many were sent.
pub struct Word(Need, &'static AtomicU64);

impl Word {
    /// # Errors
    /// No memory.
    pub fn new(need: Need) -> io::Result<Word> {
        Ok(Word(need, &Shared::new(64)?.words(0, 1)[0]))
    }
}

pub struct End {
    need: Need,
    word: &'static AtomicU64,
    seen: u64,
}

impl Way for Word {
    type Sender<'a> = End;
    type Receiver<'a> = End;

    fn sender(&self) -> io::Result<End> {
        Ok(End {
            need: self.0,
            word: self.1,
            seen: 0,
        })
    }
    fn receiver(&self) -> io::Result<End> {
        self.sender()
    }
}

impl Sender for End {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        // ORDER: the limit has no data but the word.
        self.word.store(i + 1, Release);
        Ok(())
    }
}

impl Receiver for End {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        let next = self.seen + 1;
        // ORDER: as the sender.
        self.need.until(|| self.word.load(Acquire) == next);
        self.seen = next;
        Ok(next - 1)
    }
}

/// Nanoseconds of copying `bytes`, `n` times, each time into the other of two places.
pub fn memcpy(bytes: usize, n: u64) -> f64 {
    let from = vec![1u8; bytes];
    let mut to = [vec![0u8; bytes], vec![0u8; bytes]];
    let began = now();
    for i in 0..n {
        to[i as usize % 2].copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    }
    (now() - began) as f64 / n as f64
}
