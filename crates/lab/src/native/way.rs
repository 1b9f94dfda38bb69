//! The ways of a record from one process to another.
//!
//! | | |
//! |---|---|
//! | `byway` | a record of the native library; from 4 KiB on a grant, filled in place |
//! | `byway-copy` | the same bytes from and into buffers of the caller's |
//! | `unix` | a UNIX socket that keeps records (SOCK_SEQPACKET) |
//! | `kernel-pipe` | a pipe of the kernel's, of 1 MiB for large records; no boundaries |
//! | `eventfd` | a wake-up without data |
//! | `limit` | of a round trip: two words of shared memory; of a large record: one memcpy by one process |
//!
//! Invariant: a record is `bytes` long and begins with its number, which the receiver looks at. Who sends or receives a
//! copy of a large one touches a byte of each page as well; in a grant only the number is touched, for what is measured is
//! its way and not its pages.
//! Not here: clocks, processes (run.rs).
use crate::child::now;
use crate::shared::Shared;
use crate::spin;
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Which way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Byway,
    BywayCopy,
    Unix,
    Pipe,
    Eventfd,
    Limit,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Byway => "byway",
            Kind::BywayCopy => "byway-copy",
            Kind::Unix => "unix",
            Kind::Pipe => "kernel-pipe",
            Kind::Eventfd => "eventfd",
            Kind::Limit => "limit",
        }
    }
}

/// One way, before the processes are forked that use it.
pub struct Way {
    kind: Kind,
    bytes: usize,
    ends: Ends,
}

enum Ends {
    Byway(Box<(native::Receiver, native::Sender)>),
    /// Read end, write end.
    Fds([Fd; 2]),
    Word(&'static AtomicU64),
}

/// A descriptor that goes with its value.
struct Fd(i32);
impl Drop for Fd {
    fn drop(&mut self) {
        // SAFETY: our own.
        unsafe { libc::close(self.0) };
    }
}

/// What a system call gave, or its error.
fn made(r: i32) -> io::Result<i32> {
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(r)
}

impl Way {
    /// # Errors
    /// No descriptor is free, or no memory.
    pub fn new(kind: Kind, bytes: usize) -> io::Result<Way> {
        let mut fds = [0i32; 2];
        let ends = match kind {
            Kind::Byway | Kind::BywayCopy => Ends::Byway(Box::new(native::records()?)),
            Kind::Unix => {
                let how = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
                // SAFETY: room for two descriptors.
                made(unsafe { libc::socketpair(libc::AF_UNIX, how, 0, fds.as_mut_ptr()) })?;
                Ends::Fds(fds.map(Fd))
            }
            Kind::Pipe => {
                // SAFETY: as above.
                made(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
                let ends = fds.map(Fd);
                if bytes > libc::PIPE_BUF {
                    // SAFETY: no pointers. Where so much is not allowed it stays as it is.
                    unsafe { libc::fcntl(fds[1], libc::F_SETPIPE_SZ, 1 << 20) };
                }
                Ends::Fds(ends)
            }
            Kind::Eventfd => {
                // SAFETY: no pointers.
                let fd = Fd(made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?);
                // SAFETY: no pointers.
                let other = Fd(made(unsafe { libc::dup(fd.0) })?);
                Ends::Fds([fd, other])
            }
            Kind::Limit => Ends::Word(&Shared::new(64)?.words(0, 1)[0]),
        };
        Ok(Way { kind, bytes, ends })
    }

    /// The end of the process that sends.
    ///
    /// # Errors
    /// No descriptor is free.
    pub fn sender(&self) -> io::Result<Sender<'_>> {
        Ok(Sender {
            way: self,
            buffer: vec![1; self.bytes],
            native: match &self.ends {
                Ends::Byway(e) => Some(e.1.try_clone()?),
                _ => None,
            },
        })
    }

    /// The end of the process that receives.
    ///
    /// # Errors
    /// As `sender`.
    pub fn receiver(&self) -> io::Result<Receiver<'_>> {
        Ok(Receiver {
            way: self,
            buffer: vec![0; self.bytes],
            seen: 0,
            native: match &self.ends {
                Ends::Byway(e) => Some(e.0.try_clone()?),
                _ => None,
            },
        })
    }

    /// Filled in place, and not copied.
    fn grants(&self) -> bool {
        self.kind == Kind::Byway && self.bytes > native::Sender::INLINE
    }
}

pub struct Sender<'a> {
    way: &'a Way,
    buffer: Vec<u8>,
    native: Option<native::Sender>,
}

pub struct Receiver<'a> {
    way: &'a Way,
    buffer: Vec<u8>,
    /// Of an eventfd, and of the word: what was received.
    seen: u64,
    native: Option<native::Receiver>,
}

const PAGE: usize = 4096;

/// The number in front, and of a large record a byte of each page.
fn fill(b: &mut [u8], i: u64) {
    for at in (PAGE..b.len()).step_by(PAGE) {
        b[at] = i as u8;
    }
    b[..8].copy_from_slice(&i.to_le_bytes());
}
fn look(b: &[u8]) -> u64 {
    let i = u64::from_le_bytes(b[..8].try_into().expect("a record has a number"));
    let pages = (PAGE..b.len()).step_by(PAGE);
    // A page that was not filled makes it another number.
    i + pages.filter(|&at| b[at] != i as u8).count() as u64
}

impl Sender<'_> {
    /// Sends record `i`.
    ///
    /// # Errors
    /// The way's.
    #[inline]
    pub fn send(&mut self, i: u64) -> io::Result<()> {
        match (&mut self.native, &self.way.ends) {
            (Some(s), _) if self.way.grants() => {
                let mut g = native::reserve(self.way.bytes)?;
                g[..8].copy_from_slice(&i.to_le_bytes());
                s.send_grant(g.share()?)?;
                Ok(())
            }
            (Some(s), _) => {
                fill(&mut self.buffer, i);
                s.send(&self.buffer)
            }
            (None, Ends::Word(w)) => {
                // ORDER: the limit has no data but the word.
                w.store(i + 1, Release);
                Ok(())
            }
            (None, Ends::Fds(fds)) => {
                if self.way.kind == Kind::Eventfd {
                    self.buffer.copy_from_slice(&1u64.to_le_bytes());
                } else {
                    fill(&mut self.buffer, i);
                }
                let mut done = 0;
                while done < self.buffer.len() {
                    let rest = &self.buffer[done..];
                    // SAFETY: a buffer of ours.
                    let n = unsafe { libc::write(fds[1].0, rest.as_ptr().cast(), rest.len()) };
                    if n < 0 {
                        return Err(io::Error::last_os_error());
                    }
                    done += n as usize;
                }
                Ok(())
            }
            (None, Ends::Byway(_)) => unreachable!("it has a native end"),
        }
    }
}

impl Receiver<'_> {
    /// The number of the next record.
    ///
    /// # Errors
    /// The way's.
    #[inline]
    pub fn receive(&mut self) -> io::Result<u64> {
        let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        match (&mut self.native, &self.way.ends) {
            (Some(r), _) if self.way.grants() => {
                let m = r.message()?.ok_or_else(end)?;
                Ok(u64::from_le_bytes(m[..8].try_into().expect("a number")))
            }
            (Some(r), _) => {
                r.receive(&mut self.buffer)?.ok_or_else(end)?;
                Ok(look(&self.buffer))
            }
            (None, Ends::Word(w)) => {
                let next = self.seen + 1;
                // ORDER: as the sender.
                spin::until(|| w.load(Acquire) == next);
                self.seen = next;
                Ok(next - 1)
            }
            (None, Ends::Fds(fds)) => {
                let mut done = 0;
                while done < self.buffer.len() {
                    let rest = &mut self.buffer[done..];
                    // SAFETY: a buffer of ours.
                    let n = unsafe { libc::read(fds[0].0, rest.as_mut_ptr().cast(), rest.len()) };
                    match n {
                        0 => return Err(end()),
                        n if n < 0 => return Err(io::Error::last_os_error()),
                        n => done += n as usize,
                    }
                }
                if self.way.kind == Kind::Eventfd {
                    self.seen += 1;
                    return Ok(self.seen - 1);
                }
                Ok(look(&self.buffer))
            }
            (None, Ends::Byway(_)) => unreachable!("it has a native end"),
        }
    }
}

/// Nanoseconds of copying `bytes`, `n` times, each time into the other of two places.
pub fn memcpy(bytes: usize, n: u64) -> f64 {
    let from = vec![1u8; bytes];
    let mut to = [vec![0u8; bytes], vec![0u8; bytes]];
    let began = now();
    for i in 0..n {
        to[i as usize % 2].copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
    }
    (now() - began) as f64 / n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_number_on_every_page() {
        for bytes in [8, 64, 3 * PAGE] {
            let mut b = vec![0; bytes];
            fill(&mut b, 300);
            assert_eq!(look(&b), 300);
        }
        let mut b = vec![0; 3 * PAGE];
        fill(&mut b, 300);
        b[2 * PAGE] = 0;
        assert_ne!(look(&b), 300);
    }
}
