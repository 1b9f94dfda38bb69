//! What a case of the benchmark asks of an allocator: the part that all share, and each thread's way to it.
//!
//! Invariant: the timed loops are generic over these two, so each backend's calls are compiled into its own loop and
//! none pays for a dispatch that another does not.
//! Not here: the backends (one file each), the cases.
use byway_mem::layout::Class;
use std::io;

/// How much a case will have in use at once: what a fixed pool must be made for, and a limit for the others.
#[derive(Clone, Copy, Default)]
pub struct Room {
    pub mbufs: usize,
    pub clusters: usize,
    pub jumbos: usize,
}

impl Room {
    /// What can be in use of `class`.
    pub fn of(&self, class: Class) -> usize {
        match class {
            Class::Mbuf => self.mbufs,
            Class::Cluster => self.clusters,
            Class::Jumbo => self.jumbos,
        }
    }
    /// Bytes of all of it.
    pub fn bytes(&self) -> usize {
        Class::ALL.iter().map(|&c| self.of(c) * c.bytes()).sum()
    }
}

/// An allocator that is ready: a copy goes to every thread and through fork(2) to every process.
pub trait Allocator: Copy + Send + Sync {
    type Local: Local;

    /// Makes it, with `room` for objects.
    ///
    /// # Errors
    /// The machine does not give the memory.
    fn make(room: Room) -> io::Result<Self>;

    /// The calling thread's way to it. After a fork the child asks for its own.
    fn join(&self) -> Self::Local;

    /// Where its memory lies, if that is a mapping of its own; else it is part of the process.
    fn mapping(&self) -> Option<(usize, usize)>;

    /// Bytes of the machine's memory that the allocator itself says it has for objects, if it can tell.
    fn told(&self) -> Option<usize> {
        None
    }
}

/// One thread's allocation and release.
pub trait Local {
    /// An object of `class`: a word that can go to another process if the allocator is shared. `None`: no memory.
    fn alloc(&mut self, class: Class) -> Option<usize>;

    /// Ends the use of `x`, which `alloc` of the same class gave to somebody.
    fn free(&mut self, x: usize, class: Class);

    /// Where `x` lies in this process.
    fn at(&self, x: usize) -> *mut u64;
}
