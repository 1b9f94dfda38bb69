//! A reader that reads ahead: std's `BufRead`.
//!
//! Invariant: what was read ahead is the reader's (ahead.rs): its next reads of every kind have it, in order, whether
//! the buffered reader is still there or not.
//! Not here: the room of those bytes (ahead.rs).
use crate::Reader;
use crate::ahead::Ahead;
use std::io::{self, BufRead, Read};

/// As many bytes are read at once.
const AT_ONCE: usize = 16 << 10;

/// A [`Reader`] as [`BufRead`]: for lines, or whatever else is looked for in bytes before they are taken.
///
/// As std's `BufReader` it takes more bytes out of the pipe than it was asked for. Another reader of the pipe does not
/// find those, in this process or elsewhere. The reader has them for its next reads ([`Reader::ahead`]), also when this
/// value is gone. If the process ends, they are lost.
///
/// ```
/// use std::io::{BufRead, Write};
///
/// let (mut reader, mut writer) = byway::pipe()?;
/// writer.write_all(b"one\ntwo\nthree")?;
/// drop(writer);
/// let lines: Result<Vec<_>, _> = reader.buffered().lines().collect();
/// assert_eq!(lines?, ["one", "two", "three"]);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Buffered<'a> {
    pub(crate) reader: &'a mut Reader,
    /// Room for the next bytes.
    spare: Option<Box<Ahead>>,
}

impl Reader {
    /// The reader as `BufRead`, for as long as the value lives. What it has not consumed comes with the reader's next
    /// reads, buffered or not ([`Reader::ahead`]).
    pub fn buffered(&mut self) -> Buffered<'_> {
        Buffered {
            reader: self,
            spare: None,
        }
    }
}

impl BufRead for Buffered<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if !self.reader.is_ahead() {
            let mut room = self.spare.take().unwrap_or_default();
            match self.reader.read(room.room(AT_ONCE)) {
                Ok(n @ 1..) => self.reader.has_ahead(room, n),
                end_or_error => {
                    self.spare = Some(room);
                    end_or_error?;
                }
            }
        }
        Ok(self.reader.ahead())
    }

    /// Takes bytes that `fill_buf` has shown; more than those are none.
    fn consume(&mut self, n: usize) {
        if let Some(room) = self.reader.take_ahead(n) {
            self.spare = Some(room);
        }
    }
}

impl Read for Buffered<'_> {
    fn read(&mut self, b: &mut [u8]) -> io::Result<usize> {
        // What is asked for is not read ahead.
        self.reader.read(b)
    }
}
