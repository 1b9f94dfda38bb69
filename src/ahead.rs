//! What a reader has taken out of the stream and nobody has asked for yet.
//!
//! Invariant: it stood in the stream before all that the stream has left, so every read of that end looks here first;
//! and the queue that watches the end counts it.
//! Not here: who reads ahead (buffered.rs), or gives a record back (receiver.rs).
use crate::Reader;

/// Bytes that were read and not yet asked for: at least one is left.
pub(crate) struct Ahead {
    bytes: Vec<u8>,
    at: usize,
}

impl Reader {
    /// Bytes that were read out of the pipe already, and come with the next reads of this end:
    /// [`buffered`](Reader::buffered) was shown more than it took, or a [`Receiver`](crate::Receiver) kept a record.
    /// Nobody else finds them, neither a clone nor who has the descriptor.
    pub fn ahead(&self) -> &[u8] {
        self.ahead.as_ref().map_or(&[], |a| &a.bytes[a.at..])
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    /// Has `bytes` come next.
    #[cold]
    pub(crate) fn put_ahead(&mut self, mut bytes: Vec<u8>) {
        bytes.extend_from_slice(self.ahead());
        self.ahead = match bytes.is_empty() {
            true => None,
            false => Some(Box::new(Ahead { bytes, at: 0 })),
        };
        self.tell(0);
    }

    /// Passes over `n` bytes of those, at most all; what they lay in, if there are no more.
    #[cold]
    pub(crate) fn take_ahead(&mut self, n: usize) -> Option<Vec<u8>> {
        let a = self.ahead.as_mut()?;
        a.at = a.at.saturating_add(n).min(a.bytes.len());
        let all = a.at == a.bytes.len();
        let done = if all { self.ahead.take() } else { None };
        self.tell(0);
        done.map(|a| a.bytes)
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
