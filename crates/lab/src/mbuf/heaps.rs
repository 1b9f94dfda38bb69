//! The allocators of a process: the C library's malloc, and mimalloc.
//!
//! Invariant: called as a C program calls them, with their default settings; this program's own memory does not come
//! from mimalloc.
//! Not here: sharing. Another process cannot free what they gave, so no case between processes has them.
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

#[derive(Clone, Copy)]
pub struct Mimalloc;

impl Allocator for Mimalloc {
    type Local = Mimalloc;

    fn make(_: Room) -> io::Result<Mimalloc> {
        Ok(Mimalloc)
    }
    fn join(&self) -> Mimalloc {
        Mimalloc
    }
    fn mapping(&self) -> Option<(usize, usize)> {
        None
    }
}

impl Local for Mimalloc {
    #[inline]
    fn alloc(&mut self, class: Class) -> Option<usize> {
        // SAFETY: no preconditions.
        let p = unsafe { libmimalloc_sys::mi_malloc(class.bytes()) };
        (!p.is_null()).then_some(p as usize)
    }
    #[inline]
    fn free(&mut self, x: usize, _: Class) {
        // SAFETY: `x` came from `alloc`, and is freed once.
        unsafe { libmimalloc_sys::mi_free(x as *mut _) }
    }
    #[inline]
    fn at(&self, x: usize) -> *mut u64 {
        x as *mut u64
    }
}
