//! Records: messages that keep their boundaries, over a pipe or FIFO.
//!
//! Invariant: a record is written whole and read whole: what several senders send is never mixed, and what several receivers
//! receive is never torn. Up to `INLINE` bytes it travels in the stream; a longer one is a grant, of which the stream
//! carries 16 bytes.
//! Not here: the ends (sender.rs, receiver.rs), framing (framing.rs), memory (grant.rs).
use crate::carried::OrElse;
use crate::grant::Grant;
use crate::pipe;
use crate::receiver::Receiver;
use crate::sender::Sender;
use std::io;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Of a record that is its bytes.
pub const COPIED: u8 = 1;
/// Of a record that tells where its bytes are.
pub const GRANTED: u8 = 2;

/// A new pipe for records.
///
/// ```
/// let (mut receiver, mut sender) = byway::records()?;
/// sender.send(b"one")?;
/// sender.send(b"")?;
/// drop(sender);
/// let mut buffer = [0; 100];
/// assert_eq!(receiver.receive(&mut buffer)?, Some(3));
/// assert_eq!(receiver.receive(&mut buffer)?, Some(0));
/// assert_eq!(receiver.receive(&mut buffer)?, None); // the end
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// No descriptor is free.
pub fn records() -> io::Result<(Receiver, Sender)> {
    let (r, w) = pipe()?;
    Ok((Receiver::new(r), Sender::new(w)))
}

/// How long an operation may wait.
#[derive(Clone, Copy)]
pub enum Wait {
    Not,
    Until(Option<Instant>),
}

impl Wait {
    pub fn most(d: Duration) -> Wait {
        Wait::Until(Instant::now().checked_add(d))
    }

    /// What one attempt may do: the sleep follows it.
    #[inline]
    pub fn or_else(self) -> OrElse {
        match self {
            Wait::Not => OrElse::Return,
            Wait::Until(_) => OrElse::Spin,
        }
    }
}

/// A record that was received: its bytes, by copy or in shared memory.
#[derive(Debug)]
pub enum Message {
    /// A short one, copied out of the stream.
    Copied(Vec<u8>),
    /// A buffer that nobody copied.
    Shared(Grant),
}

impl Message {
    /// The grant, if it is one.
    pub fn into_grant(self) -> Option<Grant> {
        match self {
            Message::Shared(g) => Some(g),
            Message::Copied(_) => None,
        }
    }
}

impl Deref for Message {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Message::Copied(v) => v,
            Message::Shared(g) => g,
        }
    }
}

/// A record for which the buffer, or the pipe, is too small. The number alone: callers know it by `raw_os_error`, which
/// an error with a text of its own would not have; C and Python add what to try.
pub fn too_long() -> io::Error {
    io::Error::from_raw_os_error(libc::EMSGSIZE)
}

pub fn is_too_long(e: &io::Error) -> bool {
    e.raw_os_error() == Some(libc::EMSGSIZE)
}
