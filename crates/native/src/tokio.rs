//! Ends for tokio: the same calls, awaited instead of waited for. With the feature `tokio`.
//!
//! ```
//! use byway::tokio::{AsyncReader, AsyncWriter};
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(async {
//! let (reader, writer) = byway::pipe()?;
//! let (mut reader, mut writer) = (AsyncReader::new(reader)?, AsyncWriter::new(writer)?);
//! let task = tokio::spawn(async move { writer.write_all(b"hello").await });
//! let mut text = String::new();
//! reader.read_to_string(&mut text).await?;
//! assert_eq!(text, "hello");
//! task.await.expect("it does not panic")
//! # })?;
//! # Ok::<(), std::io::Error>(())
//! ```
//! All of these must be made, and used, inside a runtime with its I/O driver enabled. A future that is dropped has done
//! nothing, or all that it was for (but `write_all` and its kind, which are several writes).
//!
//! Invariant: a descriptor is awaited only after an attempt has said `WouldBlock`: before that it does not tell the
//! truth (crate documentation, Readiness).
//! unsafe: gives tokio the ends' descriptors. Not here: what the calls do.
use crate::{Grant, Message, Reader, Receiver, SendError, Sender, Writer};
use ::tokio::io::unix::{AsyncFd, AsyncFdReadyMutGuard};
use ::tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use ::tokio::task::coop;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Asks for readiness: of reading or of writing.
type Ready<E> = for<'a> fn(
    &'a mut AsyncFd<E>,
    &mut Context<'_>,
) -> Poll<io::Result<AsyncFdReadyMutGuard<'a, E>>>;

/// What `attempt` comes to, as soon as it does not say `WouldBlock`.
fn poll<E: AsRawFd, R>(
    fd: &mut AsyncFd<E>,
    cx: &mut Context<'_>,
    ready: Ready<E>,
    mut attempt: impl FnMut(&mut E) -> io::Result<R>,
) -> Poll<io::Result<R>> {
    // A stream that never runs dry must not keep its task's neighbours out.
    let progress = ready!(coop::poll_proceed(cx));
    let done = match attempt(fd.get_mut()) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => loop {
            // What the runtime remembers of the descriptor may be older than the attempt.
            let mut guard = ready!(ready(fd, cx))?;
            if let Ok(done) = guard.try_io(|fd| attempt(fd.get_mut())) {
                break done;
            }
        },
        done => done,
    };
    progress.made_progress();
    Poll::Ready(done)
}

fn reading<E: AsRawFd>() -> Ready<E> {
    |fd, cx| fd.poll_read_ready_mut(cx)
}

fn writing<E: AsRawFd>() -> Ready<E> {
    |fd, cx| fd.poll_write_ready_mut(cx)
}

macro_rules! ends {
    ($($name:ident over $end:ident, $interest:ident: $what:literal;)+) => {$(
        #[doc = $what]
        pub struct $name(AsyncFd<$end>);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(self.get_ref()).finish()
            }
        }

        impl $name {
            /// Of an end of this process's.
            ///
            /// # Errors
            /// The kernel's: the descriptor cannot be watched.
            ///
            /// # Panics
            /// Outside of a runtime with its I/O driver.
            pub fn new(end: $end) -> io::Result<$name> {
                // SAFETY: an end has the descriptor that it names, open, as long as it lives, and always the same; nobody
                // gets at it to put another in its place.
                let fd = unsafe { AsyncFd::register_with_interest(end, Interest::$interest) };
                Ok($name(fd?))
            }

            /// The end.
            pub fn get_ref(&self) -> &$end {
                self.0.get_ref()
            }

            /// The end, no longer the runtime's.
            pub fn into_inner(self) -> $end {
                self.0.into_inner()
            }
        }
    )+};
}
ends! {
    AsyncReader over Reader, READABLE: "The read end of a stream of bytes.";
    AsyncWriter over Writer, WRITABLE: "The write end of a stream of bytes.";
    AsyncReceiver over Receiver, READABLE: "The end that records are received from.";
    AsyncSender over Sender, WRITABLE: "The end that records are sent into.";
}

impl AsyncRead for AsyncReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let room = buf.initialize_unfilled();
        let n = ready!(poll(&mut self.0, cx, reading(), |r| r.try_read(room)))?;
        buf.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for AsyncWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        b: &[u8],
    ) -> Poll<io::Result<usize>> {
        poll(&mut self.0, cx, writing(), |w| w.try_write(b))
    }

    /// Nothing is held back.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// As of any pipe: the end is told when the writer is dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncReceiver {
    /// As [`Receiver::receive`].
    ///
    /// # Errors
    /// As there.
    pub async fn receive(&mut self, b: &mut [u8]) -> io::Result<Option<usize>> {
        poll_fn(|cx| poll(&mut self.0, cx, reading(), |r| r.try_receive(b))).await
    }

    /// As [`Receiver::message`].
    ///
    /// # Errors
    /// As there.
    pub async fn message(&mut self) -> io::Result<Option<Message>> {
        poll_fn(|cx| poll(&mut self.0, cx, reading(), Receiver::try_message)).await
    }
}

impl AsyncSender {
    /// As [`Sender::send`].
    ///
    /// # Errors
    /// As there.
    pub async fn send(&mut self, b: &[u8]) -> io::Result<()> {
        poll_fn(|cx| poll(&mut self.0, cx, writing(), |s| s.try_send(b))).await
    }

    /// As [`Sender::send_grant`].
    ///
    /// # Errors
    /// As there.
    pub async fn send_grant(&mut self, grant: Grant) -> Result<(), SendError> {
        let send = |s: &mut Sender| s.try_send_grant(grant.clone()).map_err(io::Error::from);
        let sent = poll_fn(|cx| poll(&mut self.0, cx, writing(), send)).await;
        sent.map_err(|error| SendError { grant, error })
    }
}
