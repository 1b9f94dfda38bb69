//! What a reader has taken out of the stream and nobody has asked for yet.
//!
//! Invariant: it stood in the stream before all that the stream has left, so every read of that end looks here first;
//! and the queue that watches the end counts it.
//! Not here: who reads ahead (buffered.rs), or gives a record back (receiver.rs).
use crate::Reader;

/// Bytes that were read and not yet asked for, or room for such.
#[derive(Default)]
pub(crate) struct Ahead {
    bytes: Vec<u8>,
    /// Those that are left, of `bytes`.
    at: usize,
    end: usize,
}

impl Ahead {
    /// Room for `n` bytes; what was there is no more.
    pub(crate) fn room(&mut self, n: usize) -> &mut [u8] {
        (self.at, self.end) = (0, 0);
        self.bytes.resize(n, 0);
        &mut self.bytes
    }

    fn left(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }
}

impl Reader {
    /// Bytes that were read out of the pipe already, and come with the next reads of this end:
    /// [`buffered`](Reader::buffered) was shown more than it took, or a [`Receiver`](crate::Receiver) kept a record.
    /// Nobody else finds them, neither a clone nor who has the descriptor.
    pub fn ahead(&self) -> &[u8] {
        self.ahead.as_ref().map_or(&[], |a| a.left())
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Has the first `n` bytes of `room` come next, at least one. None were read ahead so far.
    #[cold]
    pub(crate) fn has_ahead(&mut self, mut room: Box<Ahead>, n: usize) {
        room.end = n.min(room.bytes.len());
        self.ahead = Some(room);
        self.tell(0);
    }

    /// Has `bytes` come next, before what was read ahead so far.
    #[cold]
    pub(crate) fn put_ahead(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(self.ahead());
        let end = bytes.len();
        self.ahead = (end > 0).then(|| Box::new(Ahead { bytes, at: 0, end }));
        self.tell(0);
    }

    /// Passes over `n` bytes of those, at most all; the room that they had, if there are no more.
    #[cold]
    pub(crate) fn take_ahead(&mut self, n: usize) -> Option<Box<Ahead>> {
        let a = self.ahead.as_mut()?;
        a.at = a.at.saturating_add(n).min(a.end);
        let all = a.at == a.end;
        let done = if all { self.ahead.take() } else { None };
        self.tell(0);
        done
    }

    /// Those that there are, up to the size of the buffer, which may be none.
    #[cold]
    pub(crate) fn read_ahead(&mut self, b: &mut [u8]) -> usize {
        let n = b.len().min(self.ahead().len());
        b[..n].copy_from_slice(&self.ahead()[..n]);
        self.take_ahead(n);
        n
    }

    /// What this end holds itself, besides `more` bytes, for the queue that watches it.
    pub(crate) fn keep(&self, more: usize) {
        if let Some(w) = self.watched() {
            w.keep(more + self.ahead().len());
        }
    }

    /// That has changed.
    pub(crate) fn tell(&self, more: usize) {
        self.keep(more);
        if let Some(w) = self.watched() {
            w.mark(false);
        }
    }
}
