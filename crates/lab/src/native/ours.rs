//! The native library's records and grants, and its bytes, as ways.
//!
//! Invariant: a record that is too long to travel in the stream is a grant, unless copies are wanted.
//! Not here: the library (crate byway).
use super::way::{self, Need, Receiver, Sender, Way, end};
use std::io::{self, Read, Write};

pub struct Ours {
    bytes: usize,
    /// Reserved and numbered in place, and not copied.
    grants: bool,
    ends: (native::Receiver, native::Sender),
}

impl Ours {
    /// With `copy`, from and into buffers of the caller's.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn new(need: Need, copy: bool) -> io::Result<Ours> {
        Ok(Ours {
            bytes: need.bytes,
            grants: !copy && need.bytes > native::Sender::INLINE,
            ends: native::records()?,
        })
    }

    fn end<T>(&self, of: T) -> End<T> {
        End {
            grants: self.grants,
            ..End::new(of, self.bytes)
        }
    }
}

pub struct End<T> {
    of: T,
    buffer: Vec<u8>,
    grants: bool,
}

impl<T> End<T> {
    fn new(of: T, bytes: usize) -> End<T> {
        End {
            of,
            buffer: vec![1; bytes],
            grants: false,
        }
    }
}

impl Way for Ours {
    type Sender<'a> = End<native::Sender>;
    type Receiver<'a> = End<native::Receiver>;

    fn sender(&self) -> io::Result<End<native::Sender>> {
        Ok(self.end(self.ends.1.try_clone()?))
    }
    fn receiver(&self) -> io::Result<End<native::Receiver>> {
        Ok(self.end(self.ends.0.try_clone()?))
    }
}

impl Sender for End<native::Sender> {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        if !self.grants {
            way::fill(&mut self.buffer, i);
            return self.of.send(&self.buffer);
        }
        let mut g = native::reserve(self.buffer.len())?;
        way::number(&mut g, i);
        self.of.send_grant(g.share()?)?;
        Ok(())
    }
}

impl Receiver for End<native::Receiver> {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        if !self.grants {
            self.of.receive(&mut self.buffer)?.ok_or_else(end)?;
            return Ok(way::look(&self.buffer));
        }
        let m = self.of.message()?.ok_or_else(end)?;
        Ok(way::numbered(&m))
    }
}

/// Its bytes, where nobody needs boundaries.
pub struct Stream {
    bytes: usize,
    ends: (native::Reader, native::Writer),
}

impl Stream {
    /// # Errors
    /// No descriptor is free.
    pub fn new(need: Need) -> io::Result<Stream> {
        Ok(Stream {
            bytes: need.bytes,
            ends: native::pipe()?,
        })
    }
}

impl Way for Stream {
    type Sender<'a> = End<native::Writer>;
    type Receiver<'a> = End<native::Reader>;

    fn sender(&self) -> io::Result<End<native::Writer>> {
        Ok(End::new(self.ends.1.try_clone()?, self.bytes))
    }
    fn receiver(&self) -> io::Result<End<native::Reader>> {
        Ok(End::new(self.ends.0.try_clone()?, self.bytes))
    }
}

impl Sender for End<native::Writer> {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        way::fill(&mut self.buffer, i);
        self.of.write_all(&self.buffer)
    }
}

impl Receiver for End<native::Reader> {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        self.of.read_exact(&mut self.buffer)?;
        Ok(way::look(&self.buffer))
    }
}
