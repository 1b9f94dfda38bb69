//! Pipes and FIFOs whose bytes travel through shared memory: the library for programs that can be changed.
//!
//! ```text
//! pipe()  Fifo      two ends: Reader, Writer    bytes: std's Read, Write and BufRead, with and without waiting, timed
//! duplex()          two of each: Duplex         both ways
//! records()         Sender, Receiver            whole messages, many senders, many receivers
//!   reserve, share ---> WriteGrant, Grant      one buffer, filled in place, handed over and shared without a copy
//! ```
//! Each end is a real descriptor of the kernel's: end of file, a broken pipe and sleep are the kernel's own, and a peer that
//! is killed is noticed as on any pipe. The bytes take the kernel's way only where somebody sleeps, or where nothing can be
//! carried (`why_not_carried` tells why); that is slower, never wrong.
//!
//! ```
//! use std::io::{Read, Write};
//!
//! let (mut reader, mut writer) = byway::pipe()?;
//! let child = std::thread::spawn(move || writer.write_all(b"hello"));
//! let mut text = String::new();
//! reader.read_to_string(&mut text)?;
//! child.join().expect("it does not panic")?;
//! assert_eq!(text, "hello");
//! # Ok::<(), std::io::Error>(())
//! ```
//! # Readiness
//! An end goes into poll, epoll or any event loop by its descriptor (`AsFd`). Bytes in shared memory do not make a
//! descriptor readable, so the rule is that of edge-triggered epoll: **read (write) until `WouldBlock`, then wait**.
//! From the moment an attempt said `WouldBlock` the descriptor tells the truth, level-triggered, until the next call on
//! that end.
//!
//! [`events`] waits for many ends at once, as kqueue(2) does, and keeps that rule itself.
//!
//! # Signals
//! Writing to a pipe that nobody reads is EPIPE, and raises SIGPIPE where the program has not ignored it, as write(2) does.
//! Rust programs ignore it from the start. A signal handler ends a wait with `Interrupted`.
//!
//! Invariant: nothing that a peer writes into shared memory makes a call here touch memory outside of the domain, or panic.
//! Not here: the channel protocol (crate byway-pipe, docs/pipe.md), the allocator (byway-mem). docs/native.md has the
//! design.
#![warn(missing_docs, missing_debug_implementations)]

mod ahead;
mod buffered;
mod carried;
mod collect;
mod debug;
mod duplex;
pub mod events;
mod fifo;
mod framing;
mod grant;
mod home;
mod kernel;
mod reader;
mod receiver;
mod records;
mod sender;
mod thread;
#[doc(hidden)]
pub mod timer;
#[cfg(feature = "tokio")]
pub mod tokio;
mod watch;
mod writer;

pub use buffered::Buffered;
pub use duplex::{Duplex, duplex};
pub use fifo::Fifo;
pub use grant::{Grant, ShareError, WriteGrant, reserve};
pub use reader::Reader;
pub use receiver::Receiver;
pub use records::{Message, records};
pub use sender::{SendError, Sender};
pub use writer::Writer;

use std::io;

/// A new nameless pipe: what is written to the writer is read from the reader.
///
/// Both ends may be cloned, moved to other threads, and inherited by a child that is forked; a program that a child
/// executes gets an end by number ([`Reader::from_fd`], after `fcntl(2)` has cleared its `FD_CLOEXEC`).
///
/// # Errors
/// The kernel's: no descriptor is free (EMFILE, ENFILE: close some, or raise `ulimit -n`).
pub fn pipe() -> io::Result<(Reader, Writer)> {
    let (r, w) = kernel::pipe()?;
    let carried = carried::Carried::new_pipe(&r);
    Ok((Reader::over(r, carried), Writer::over(w, carried)))
}

/// Why bytes of this process take the kernel's way, if they do: a sentence with what to try.
///
/// `None`: they go through shared memory.
pub fn why_not_carried() -> Option<String> {
    home::home().err()
}
