//! mimalloc, for `byway bench mbuf`: a program of its own, because its start-up would be everybody's.
//!
//! Invariant: called as a C program calls it, with its default settings.
//! Not here: the cases, and what the words mean (byway_lab::mbuf::apart).
use byway_lab::mbuf::allocator::{Allocator, Local, Room};
use byway_lab::mbuf::apart;
use byway_mem::layout::Class;
use std::io;

fn main() {
    std::process::exit(apart::serve::<Mimalloc>(std::env::args().skip(1)));
}

#[derive(Clone, Copy)]
struct Mimalloc;

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
