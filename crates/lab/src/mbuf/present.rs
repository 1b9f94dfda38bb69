//! The seed's "present allocator", in memory that processes share: one free list a class under one lock.
//!
//! ```text
//! list: [lock | head | fresh] --> object --> object --> object        the link is the first word of a free object
//! ```
//! Invariant: a free object is in the list of its class or above `fresh`; memory that was taken never goes back.
//! Not here: per-CPU anything. That is what the measurement is about.
//!
//! Source: FreeBSD-CURRENT of June 2001, sys/kern/uipc_mbuf.c: lists `mmbfree` and `mclfree`, each with its mutex
//! beside the head, `m_mballoc` for a page of mbufs when a list is empty, `MFREE` that only ever returns to the list.
//! Choices, each in its favour where there was one:
//! - The lock is a test-and-test-and-set word with exponential backoff, which offers the CPU now and then (spin.rs).
//!   FreeBSD's mutex slept when the holder did. Of what was tried on two CPUs with two threads that do nothing else it
//!   was the fastest: 45 ns an operation, against 200 with short pauses, 200 for a futex mutex, 360 for one that
//!   spins first, 550 for a ticket lock.
//! - Lock, head and fresh of a class share one cache line, so a thread that gets the lock has all it needs.
//! - No statistics (the original counted types under the same lock), no interrupt masking (`splimp`).
use super::allocator::{Allocator, Local, Room};
use super::shared::Shared;
use super::spin;
use byway_mem::layout::{Class, PAGE};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// One class.
#[repr(C, align(64))]
struct List {
    lock: AtomicU32,
    /// Address of the first free object; 0: none.
    head: AtomicU64,
    /// What was never used: addresses from `fresh` to `end`.
    fresh: AtomicU64,
    end: AtomicU64,
}

#[derive(Clone, Copy)]
pub struct Present {
    memory: Shared,
}

impl Present {
    fn list(&self, class: Class) -> &'static List {
        // SAFETY: only atomics, for which zeroes are a value.
        unsafe { self.memory.get(class as usize * size_of::<List>()) }
    }
}

impl List {
    fn lock(&self) {
        spin::with_backoff(|| {
            self.lock.load(Relaxed) == 0
                // ORDER: what the last holder did is seen.
                && self.lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        });
    }
    fn unlock(&self) {
        // ORDER: what was done under the lock comes before its end.
        self.lock.store(0, Release);
    }

    /// A page of small objects, or one large one, into the list: `m_mballoc`. The lock is held, as it was there.
    #[cold]
    fn grow(&self, class: Class) {
        let from = self.fresh.load(Relaxed);
        let to = (from + PAGE.max(class.bytes()) as u64).min(self.end.load(Relaxed));
        let mut x = from;
        while x + class.bytes() as u64 <= to {
            link(x).store(self.head.load(Relaxed), Relaxed);
            self.head.store(x, Relaxed);
            x += class.bytes() as u64;
        }
        self.fresh.store(x, Relaxed);
    }
}

/// The first word of the free object at `x`.
fn link(x: u64) -> &'static AtomicU64 {
    // SAFETY: an object of the mapping, which stays, and aligned; nobody uses it, the lock of its list is held.
    unsafe { &*(x as *const AtomicU64) }
}

impl Allocator for Present {
    type Local = Present;

    fn make(room: Room) -> io::Result<Present> {
        let memory = Shared::new(PAGE + room.bytes() + 4 * PAGE)?;
        let p = Present { memory };
        let mut at = (memory.base() + PAGE) as u64;
        for class in Class::ALL {
            let l = p.list(class);
            let bytes = (room.of(class) * class.bytes()).next_multiple_of(PAGE) as u64;
            l.fresh.store(at, Relaxed);
            l.end.store(at + bytes, Relaxed);
            at += bytes;
        }
        Ok(p)
    }
    fn join(&self) -> Present {
        *self
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        Some((self.memory.base(), self.memory.bytes()))
    }
}

impl Local for Present {
    #[inline]
    fn alloc(&mut self, class: Class) -> Option<usize> {
        let l = self.list(class);
        l.lock();
        if l.head.load(Relaxed) == 0 {
            l.grow(class);
        }
        let x = l.head.load(Relaxed);
        if x != 0 {
            l.head.store(link(x).load(Relaxed), Relaxed);
        }
        l.unlock();
        (x != 0).then_some(x as usize)
    }
    #[inline]
    fn free(&mut self, x: usize, class: Class) {
        let l = self.list(class);
        l.lock();
        link(x as u64).store(l.head.load(Relaxed), Relaxed);
        l.head.store(x as u64, Relaxed);
        l.unlock();
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        x as *mut u64
    }
}
