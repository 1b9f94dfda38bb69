//! A block in a chain of mbufs and clusters that an allocator gives: what the mb_alloc page of 2001 had NetPIPE measure,
//! without the network between.
//!
//! ```text
//! sender, CPU 0: alloc, copy in --address and length of each piece, through a ring--> copy out, free: receiver, CPU 1
//! ```
//! Invariant: what one thread allocates the other frees. Ring, waiting and copies are the same for every allocator, and
//! so is where both sides are: two threads of one process, since no other process can free what malloc gave.
//! Not here: the allocators (crate::mbuf), what is sent when (sides.rs).
//!
//! Source: FreeBSD of 2001, sys/kern/uipc_socket.c, sosend: what fits into an mbuf lies in one, more lies in clusters.
use super::{Options, sides};
use crate::child::{self, Failure, Span};
use crate::mbuf::allocator::{Allocator, Local, Room};
use crate::net::duplex::Carrier;
use crate::pairs::pair;
use crate::ring::{self, Ring, SLOTS};
use byway_mem::layout::Class;
use std::cell::RefCell;
use std::io;
use std::sync::OnceLock;

/// The most that a piece has.
const MOST: usize = Class::Cluster.bytes();
/// Bits of a word of the ring that are the length of its piece; above them lies which object it is.
const LENGTH: u32 = 16;
const _: () = assert!(MOST < 1 << LENGTH);

/// The class that fits `len` bytes best.
fn class(len: usize) -> Class {
    if len <= Class::Mbuf.bytes() {
        Class::Mbuf
    } else {
        Class::Cluster
    }
}

/// An object on its way, and how much it holds.
#[derive(Clone, Copy)]
struct Piece {
    object: usize,
    len: usize,
}

impl Piece {
    /// An address has 47 bits, the number of an object fewer.
    fn word(self) -> u64 {
        (self.object as u64) << LENGTH | self.len as u64
    }
    fn of(word: u64) -> Piece {
        Piece {
            object: (word >> LENGTH) as usize,
            len: word as usize % (1 << LENGTH),
        }
    }
}

/// One thread's side.
struct Side<L> {
    local: L,
    to: ring::End,
    from: ring::End,
    /// What has come and is not yet taken: the piece, and how much of it is.
    rest: Option<(Piece, usize)>,
}

impl<L: Local> Side<L> {
    fn put(&mut self, b: &[u8]) -> io::Result<()> {
        for bytes in b.chunks(MOST) {
            let len = bytes.len();
            let object = self.local.alloc(class(len));
            let object = object.ok_or(io::ErrorKind::OutOfMemory)?;
            let at = self.local.at(object).cast::<u8>();
            // SAFETY: an object that we have, of a class that holds so much.
            unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), len) };
            self.to.put(Piece { object, len }.word())?;
        }
        self.to.flush();
        Ok(())
    }

    fn take(&mut self, b: &mut [u8]) -> io::Result<()> {
        let mut done = 0;
        while done < b.len() {
            let (piece, taken) = match self.rest.take() {
                Some(rest) => rest,
                None => {
                    let word = self.from.get();
                    (Piece::of(word.ok_or(io::ErrorKind::UnexpectedEof)?), 0)
                }
            };
            let n = (piece.len - taken).min(b.len() - done);
            // SAFETY: an object that its sender has filled and now is ours; both ends of the copy are within bounds.
            unsafe {
                let at = self.local.at(piece.object).cast::<u8>().add(taken);
                at.copy_to_nonoverlapping(b[done..].as_mut_ptr(), n);
            }
            done += n;
            if taken + n < piece.len {
                self.rest = Some((piece, taken + n));
            } else {
                self.local.free(piece.object, class(piece.len));
            }
        }
        Ok(())
    }

    /// Takes as much as can ever be on its way, writes to it and gives it back, as the page of 2001 had all memory made
    /// before it measured.
    fn warm(&mut self) -> Result<(), Failure> {
        let mut held = Vec::with_capacity(SLOTS);
        for class in [Class::Mbuf, Class::Cluster] {
            for _ in 0..SLOTS {
                let object = self.local.alloc(class).ok_or(Failure::NoMemory)?;
                // SAFETY: an object that we have.
                unsafe { self.local.at(object).write_bytes(1, class.bytes() / 8) };
                held.push(object);
            }
            held.drain(..).for_each(|x| self.local.free(x, class));
        }
        Ok(())
    }
}

/// A side as both modes of NetPIPE see it.
struct Chain<L>(RefCell<Side<L>>);

impl<L: Local> Carrier for Chain<L> {
    #[inline]
    fn put(&self, b: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().put(b)
    }
    #[inline]
    fn take(&self, b: &mut [u8]) -> io::Result<()> {
        self.0.borrow_mut().take(b)
    }
}

/// The worker's part: ns of a block of each size, through what `A` allocates.
///
/// # Errors
/// What went wrong in it.
pub fn work<A: Allocator>(cpus: &[usize], o: &Options) -> Result<Vec<f64>, Failure> {
    // On its way in either direction, and what lies in the caches of both threads.
    let objects = 4 * SLOTS;
    let a = A::make(Room {
        mbufs: objects,
        clusters: objects,
        jumbos: 0,
    })?;
    let sharing = pair::apart(cpus) < 2;
    let rings = [Ring::new(sharing)?, Ring::new(sharing)?];
    let (sizes, times) = (o.sizes(), OnceLock::new());
    child::threads(&[cpus[0], cpus[1 % cpus.len()]], |i, gate| {
        let mut side = Side {
            local: a.join(),
            to: rings[i].producer(),
            from: rings[1 - i].consumer(),
            rest: None,
        };
        let warm = side.warm();
        // Also who has no memory comes here: the other waits.
        gate.pass();
        warm?;
        let d = Chain(RefCell::new(side));
        if i == 0 {
            let ns = sides::transmit(&d, &sizes, o)?;
            times.get_or_init(|| ns);
        } else {
            sides::receive(&d)?;
        }
        Ok(Span::default())
    })?;
    Ok(times.into_inner().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mbuf::heaps::Malloc;

    #[test]
    fn words_hold_any_address_and_any_length() {
        for (object, len) in [(0, 1), ((1 << 47) - 16, MOST), (4096, 256)] {
            let p = Piece::of(Piece { object, len }.word());
            assert_eq!((p.object, p.len), (object, len));
        }
    }

    #[test]
    fn the_class_is_the_smallest_that_holds_it() {
        for len in 1..=MOST {
            let c = class(len);
            assert!(len <= c.bytes());
            assert!(
                Class::ALL
                    .iter()
                    .all(|o| o.bytes() >= c.bytes() || o.bytes() < len)
            );
        }
    }

    /// Both sides in one thread, which takes what it has put.
    fn alone() -> Chain<Malloc> {
        let ring = Ring::new(false).unwrap();
        Chain(RefCell::new(Side {
            local: Malloc,
            to: ring.producer(),
            from: ring.consumer(),
            rest: None,
        }))
    }

    #[test]
    fn bytes_come_in_other_pieces_than_they_went() {
        let d = alone();
        let sent: Vec<u8> = (0..10_000u32).map(|i| i as u8).collect();
        for b in sent.chunks(3000) {
            d.put(b).unwrap();
        }
        let mut got = vec![0; sent.len()];
        for b in got.chunks_mut(777) {
            d.take(b).unwrap();
        }
        assert_eq!(got, sent);
        assert!(d.0.borrow().rest.is_none());
        d.say(&[7, u64::MAX]).unwrap();
        assert_eq!(d.hear().unwrap(), [7, u64::MAX]);
    }
}
