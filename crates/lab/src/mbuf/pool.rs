//! DPDK's shape: a fixed pool of objects, a ring of the free ones, a small cache for each thread.
//!
//! ```text
//! thread's cache (60, flushed at 90) <--bulk get / put--> ring of free objects <--all of them-- made once
//! ```
//! Invariant: an object is in the ring, in one cache or in use; all memory is taken when the pool is made, and stays.
//! Not here: huge pages and NUMA nodes, which DPDK adds and which would serve every backend alike.
//!
//! Source: DPDK lib/ring/rte_ring_c11_pvt.h (heads moved by compare-and-swap, tails stored in order),
//! lib/mempool/rte_mempool.h (rte_mempool_do_generic_get and _put of 22.11). One difference, in its favour: who waits
//! for an earlier thread's tail offers its CPU after a bounded spin; DPDK demands that such threads are not preempted.
use super::allocator::{Allocator, Local, Room};
use super::shared::Shared;
use super::spin;
use byway_mem::layout::{CLASSES, Class, PAGE};
use std::io;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Objects of a thread's cache, and where it flushes: rte_mempool's factor of 1.5.
const CACHE: usize = 60;
const FLUSH: usize = CACHE * 3 / 2;

/// One end of the ring.
#[repr(C, align(64))]
struct End {
    /// Moved first, by compare-and-swap; then `tail`, when the slots are done.
    head: AtomicU32,
    tail: AtomicU32,
}

#[repr(C)]
struct Ends {
    producers: End,
    consumers: End,
}

/// The ring of one class. Heads and tails run free and are masked at use.
#[derive(Clone, Copy)]
struct Ring {
    ends: &'static Ends,
    slots: &'static [AtomicU32],
}

impl Ring {
    /// Moves the head of `end` by `n` if `room(head)` allows it. Where it stood.
    fn claim(end: &End, n: u32, room: impl Fn(u32) -> u32) -> Option<u32> {
        // ORDER: the other end's tail is read after this head (rte_ring: "ensure the head is read before tail").
        let mut old = end.head.load(Acquire);
        loop {
            if n > room(old) {
                return None;
            }
            // ORDER: as the load above.
            match end
                .head
                .compare_exchange_weak(old, old.wrapping_add(n), Acquire, Acquire)
            {
                Ok(_) => return Some(old),
                Err(now) => old = now,
            }
        }
    }
    /// Ends what `claim` began, after those who began earlier.
    fn finish(end: &End, old: u32, n: u32) {
        spin::until(|| end.tail.load(Relaxed) == old);
        // ORDER: the slots before the tail that says that they are done.
        end.tail.store(old.wrapping_add(n), Release);
    }
    fn slot(&self, i: u32) -> &AtomicU32 {
        &self.slots[i as usize & (self.slots.len() - 1)]
    }

    /// All of `from` into the ring, which has room for every object of the pool.
    fn put(&self, from: &[u32]) {
        let n = from.len() as u32;
        let room = |head: u32| {
            // ORDER: slots that consumers have finished with.
            let tail = self.ends.consumers.tail.load(Acquire);
            (self.slots.len() as u32)
                .wrapping_add(tail)
                .wrapping_sub(head)
        };
        let Some(at) = Ring::claim(&self.ends.producers, n, room) else {
            return;
        };
        for (k, &x) in from.iter().enumerate() {
            self.slot(at.wrapping_add(k as u32)).store(x, Relaxed);
        }
        Ring::finish(&self.ends.producers, at, n);
    }
    /// Fills `to`, or does nothing and says false.
    fn get(&self, to: &mut [u32]) -> bool {
        let n = to.len() as u32;
        let room = |head: u32| {
            // ORDER: slots that producers have finished with.
            let tail = self.ends.producers.tail.load(Acquire);
            tail.wrapping_sub(head)
        };
        let Some(at) = Ring::claim(&self.ends.consumers, n, room) else {
            return false;
        };
        for (k, x) in to.iter_mut().enumerate() {
            *x = self.slot(at.wrapping_add(k as u32)).load(Relaxed);
        }
        Ring::finish(&self.ends.consumers, at, n);
        true
    }
}

/// A thread's cache of one class.
struct Cache {
    len: usize,
    objects: [u32; FLUSH],
}

#[derive(Clone, Copy)]
pub struct Pool {
    memory: Shared,
    rings: [Ring; CLASSES],
}

/// A thread's way to the pool. An object is its number in units of 256 bytes from the start of the mapping.
pub struct User {
    pool: Pool,
    caches: [Cache; CLASSES],
}

impl Allocator for Pool {
    type Local = User;

    fn make(room: Room) -> io::Result<Pool> {
        let slots = |c: Class| room.of(c).next_power_of_two();
        let rings_bytes: usize = Class::ALL
            .map(|c| size_of::<Ends>() + slots(c) * 4)
            .iter()
            .sum();
        let first = (rings_bytes + CLASSES * 64).next_multiple_of(PAGE);
        let memory = Shared::new(first + room.bytes())?;
        memory.populate()?;
        let (mut at, mut object) = (0, first / Class::Mbuf.bytes());
        let rings = Class::ALL.map(|class| {
            // SAFETY: only atomics, for which zeroes are a value.
            let ends: &Ends = unsafe { memory.get(at) };
            let words = at + size_of::<Ends>();
            // SAFETY: inside the mapping (`rings_bytes`), which stays; only atomics.
            let slots = unsafe {
                std::slice::from_raw_parts(
                    (memory.base() + words) as *const AtomicU32,
                    slots(class),
                )
            };
            at = (words + slots.len() * 4).next_multiple_of(64);
            let ring = Ring { ends, slots };
            for _ in 0..room.of(class) {
                ring.put(&[object as u32]);
                object += class.units();
            }
            ring
        });
        Ok(Pool { memory, rings })
    }
    fn join(&self) -> User {
        let empty = || Cache {
            len: 0,
            objects: [0; FLUSH],
        };
        User {
            pool: *self,
            caches: [empty(), empty(), empty()],
        }
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        Some((self.memory.base(), self.memory.bytes()))
    }
}

impl Local for User {
    #[inline]
    fn alloc(&mut self, class: Class) -> Option<usize> {
        let (ring, cache) = (
            &self.pool.rings[class as usize],
            &mut self.caches[class as usize],
        );
        if cache.len == 0 {
            // One for the caller, and the cache full.
            if !ring.get(&mut cache.objects[..CACHE + 1]) {
                // Not that many: one, past the cache.
                let mut one = [0];
                return ring.get(&mut one).then_some(one[0] as usize);
            }
            cache.len = CACHE + 1;
        }
        cache.len -= 1;
        Some(cache.objects[cache.len] as usize)
    }
    #[inline]
    fn free(&mut self, x: usize, class: Class) {
        let (ring, cache) = (
            &self.pool.rings[class as usize],
            &mut self.caches[class as usize],
        );
        if cache.len == FLUSH {
            ring.put(&cache.objects);
            cache.len = 0;
        }
        cache.objects[cache.len] = x as u32;
        cache.len += 1;
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        (self.pool.memory.base() + x * Class::Mbuf.bytes()) as *mut u64
    }
}

impl Drop for User {
    /// What is in the thread's cache goes back.
    fn drop(&mut self) {
        for (ring, cache) in self.pool.rings.iter().zip(&self.caches) {
            if cache.len > 0 {
                ring.put(&cache.objects[..cache.len]);
            }
        }
    }
}
