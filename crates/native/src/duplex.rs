//! Two pipes as one: a pair of ends, each of which reads what the other one writes.
//!
//! Invariant: the two directions are two pipes, and know nothing of each other; each ends when its writer's side is closed.
//! Not here: the pipes.
use crate::{Reader, Writer, pipe};
use std::io::{self, Read, Write};
use std::time::Duration;

/// A new bidirectional pipe: what is written to one end is read from the other, both ways.
///
/// ```
/// use std::io::{Read, Write};
///
/// let (mut here, mut there) = byway::duplex()?;
/// let child = std::thread::spawn(move || -> std::io::Result<()> {
///     let mut question = [0; 4];
///     there.read_exact(&mut question)?;
///     there.write_all(b"pong")
/// });
/// here.write_all(b"ping")?;
/// let mut answer = [0; 4];
/// here.read_exact(&mut answer)?;
/// assert_eq!(&answer, b"pong");
/// child.join().expect("it does not panic")?;
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// No descriptor is free (it takes four).
pub fn duplex() -> io::Result<(Duplex, Duplex)> {
    let (here, to_here) = pipe()?;
    let (there, to_there) = pipe()?;
    Ok((Duplex::new(here, to_there), Duplex::new(there, to_here)))
}

/// One end of a bidirectional pipe: a reader and a writer.
///
/// It has two descriptors: one tells of bytes to read, the other of room to write; those of [`reader`](Duplex::reader) and
/// [`writer`](Duplex::writer) go into poll, or an event queue.
pub struct Duplex {
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
}

impl Duplex {
    /// An end of a reader and a writer, of whatever pipes or FIFOs.
    pub fn new(reader: Reader, writer: Writer) -> Duplex {
        Duplex { reader, writer }
    }

    /// Its reading half, for all that a reader can.
    pub fn reader(&mut self) -> &mut Reader {
        &mut self.reader
    }

    /// Its writing half, for all that a writer can.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.writer
    }

    /// Both halves, for use at the same time.
    pub fn halves(&mut self) -> (&mut Reader, &mut Writer) {
        (&mut self.reader, &mut self.writer)
    }

    /// Its two halves: for two threads, for records ([`Receiver::new`](crate::Receiver::new),
    /// [`Sender::new`](crate::Sender::new)), or to close one before the other.
    pub fn into_halves(self) -> (Reader, Writer) {
        (self.reader, self.writer)
    }

    /// Another end at the same two pipes, as dup(2) makes it.
    ///
    /// # Errors
    /// No descriptor is free (it takes two).
    pub fn try_clone(&self) -> io::Result<Duplex> {
        Ok(Duplex::new(
            self.reader.try_clone()?,
            self.writer.try_clone()?,
        ))
    }

    /// Whether bytes go through shared memory in both directions, or would with the next write.
    pub fn is_carried(&self) -> bool {
        self.reader.is_carried() && self.writer.is_carried()
    }

    /// As [`Reader::try_read`].
    ///
    /// # Errors
    /// As there.
    pub fn try_read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        self.reader.try_read(b)
    }

    /// As [`Reader::read_timeout`].
    ///
    /// # Errors
    /// As there.
    pub fn read_timeout(&mut self, b: &mut [u8], most: Duration) -> io::Result<usize> {
        self.reader.read_timeout(b, most)
    }

    /// As [`Writer::try_write`].
    ///
    /// # Errors
    /// As there.
    pub fn try_write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.writer.try_write(b)
    }

    /// As [`Writer::write_timeout`].
    ///
    /// # Errors
    /// As there.
    pub fn write_timeout(&mut self, b: &[u8], most: Duration) -> io::Result<usize> {
        self.writer.write_timeout(b, most)
    }
}

impl Read for Duplex {
    #[inline]
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        self.reader.read(b)
    }
}

impl Write for Duplex {
    #[inline]
    fn write(&mut self, b: &[u8]) -> io::Result<usize> {
        self.writer.write(b)
    }
    /// Nothing is held back.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
