//! The C library's malloc.
//!
//! Invariant: called as a C program calls it, with its default settings.
//! Not here: sharing. Another process cannot free what it gave, so no case between processes has it. mimalloc has a
//! program of its own (apart.rs).
use super::allocator::{Allocator, Local, Room};
use byway_mem::layout::Class;
use std::io;

#[derive(Clone, Copy)]
pub struct Malloc;

impl Allocator for Malloc {
    type Local = Malloc;

    fn make(_: Room) -> io::Result<Malloc> {
        Ok(Malloc)
    }
    fn join(&self) -> Malloc {
        Malloc
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        None
    }
}

impl Local for Malloc {
    #[inline]
    fn alloc(&mut self, class: Class) -> Option<usize> {
        // SAFETY: no preconditions.
        let p = unsafe { libc::malloc(class.bytes()) };
        (!p.is_null()).then_some(p as usize)
    }
    #[inline]
    fn free(&mut self, x: usize, _: Class) {
        // SAFETY: `x` came from `alloc`, and is freed once.
        unsafe { libc::free(x as *mut _) }
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        x as *mut u64
    }
}
