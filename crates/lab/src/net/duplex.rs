//! Both directions between two processes: what NetPIPE's blocks go through, and what a test is agreed on through.
//!
//! Invariant: all of a block is sent or received before a call returns; words are little-endian, whatever the machines.
//! Not here: how long a call waits, which is a matter of the socket (socket.rs).
use crate::pairs::link::{End, Kind, Link};
use std::io;
use std::os::fd::RawFd;

/// One side of what carries bytes both ways.
pub trait Carrier {
    /// Sends all of `b`.
    ///
    /// # Errors
    /// The kernel's, or that nobody receives any more.
    fn put(&self, b: &[u8]) -> io::Result<()>;

    /// Receives all of `b`.
    ///
    /// # Errors
    /// The kernel's, or that nobody sends any more.
    fn take(&self, b: &mut [u8]) -> io::Result<()>;

    /// # Errors
    /// As `put`.
    fn say(&self, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.put(&bytes)
    }

    /// # Errors
    /// As `take`.
    fn hear<const N: usize>(&self) -> io::Result<[u64; N]> {
        let mut words = [0; N];
        for w in &mut words {
            let mut b = [0; 8];
            self.take(&mut b)?;
            *w = u64::from_le_bytes(b);
        }
        Ok(words)
    }
}

/// A side in the hands of a process: of a socket, or of two links.
#[derive(Clone)]
pub struct Duplex {
    to: End,
    from: End,
}

impl Duplex {
    /// A socket, which has both directions.
    pub fn socket(fd: RawFd) -> Duplex {
        Duplex {
            to: End::Fd(fd),
            from: End::Fd(fd),
        }
    }

    /// Whether something can be received now, or the other side has ended.
    ///
    /// # Errors
    /// The kernel's.
    pub fn waits(&self) -> io::Result<bool> {
        let End::Fd(fd) = self.from else {
            return Ok(true);
        };
        let mut p = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one struct of ours.
        match unsafe { libc::poll(&mut p, 1, 0) } {
            n if n < 0 => Err(io::Error::last_os_error()),
            n => Ok(n > 0),
        }
    }
}

impl Carrier for Duplex {
    #[inline]
    fn put(&self, b: &[u8]) -> io::Result<()> {
        self.to.put(b)
    }

    #[inline]
    fn take(&self, b: &mut [u8]) -> io::Result<()> {
        let mut at = 0;
        while at < b.len() {
            at += self.from.get(&mut b[at..])?;
        }
        Ok(())
    }
}

/// Two links, one for each direction; made before the processes are forked.
#[derive(Clone, Copy)]
pub struct Links([Link; 2]);

impl Links {
    /// For processes that run on so many CPUs.
    ///
    /// # Errors
    /// As `Link::new`.
    pub fn new(kind: Kind, cpus: usize) -> Result<Links, crate::child::Failure> {
        Ok(Links([Link::new(kind, cpus)?, Link::new(kind, cpus)?]))
    }

    /// The side of the thread that calls: 0 or 1.
    pub fn side(&self, i: usize) -> Duplex {
        Duplex {
            to: self.0[i].writer(),
            from: self.0[1 - i].reader(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cross_both_ways() {
        for kind in [Kind::Pipe, Kind::Core] {
            let l = Links::new(kind, 1).unwrap();
            let (a, b) = (l.side(0), l.side(1));
            a.say(&[1, u64::MAX]).unwrap();
            assert_eq!(b.hear().unwrap(), [1, u64::MAX]);
            b.say(&[7]).unwrap();
            assert_eq!(a.hear().unwrap(), [7]);
        }
    }
}
