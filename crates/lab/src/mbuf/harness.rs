//! No allocator: what the loops, the touches and the passing on cost by themselves.
//!
//! Invariant: it gives out the same objects round and round, and does nothing else.
//! Not here: subtraction. Its figure stands beside the others, which contain it.
use super::allocator::{Allocator, Local, Room};
use super::shared::Shared;
use byway_mem::layout::Class;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Threads that have a round of their own.
const THREADS: usize = 2;

/// With `OBJECTS` in a thread's round: few where they come back at once, as many as are on their way where they do not.
#[derive(Clone, Copy)]
pub struct Harness<const OBJECTS: usize> {
    memory: Shared,
}

pub struct User<const OBJECTS: usize> {
    base: usize,
    next: usize,
}

impl<const OBJECTS: usize> Allocator for Harness<OBJECTS> {
    type Local = User<OBJECTS>;

    fn make(_: Room) -> io::Result<Self> {
        // The first word counts the threads.
        let memory = Shared::new(4096 + THREADS * OBJECTS * Class::Mbuf.bytes())?;
        Ok(Harness { memory })
    }
    fn join(&self) -> User<OBJECTS> {
        let n = self.memory.words(0, 1)[0].fetch_add(1, Relaxed) as usize;
        User {
            base: self.memory.base() + 4096 + n % THREADS * OBJECTS * Class::Mbuf.bytes(),
            next: 0,
        }
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        Some((self.memory.base(), self.memory.bytes()))
    }
}

impl<const OBJECTS: usize> Local for User<OBJECTS> {
    #[inline]
    fn alloc(&mut self, _: Class) -> Option<usize> {
        self.next = (self.next + 1) % OBJECTS;
        Some(self.base + self.next * Class::Mbuf.bytes())
    }
    #[inline]
    fn free(&mut self, x: usize, _: Class) {
        std::hint::black_box(x);
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        x as *mut u64
    }
}
