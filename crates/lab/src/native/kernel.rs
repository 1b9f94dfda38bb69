//! The kernel's ways: sockets that keep records, pipes, an eventfd.
//!
//! Invariant: a receiver that waits awake asks for what is there at once, again and again; else it sleeps in its read.
//! Not here: polling (poll(2) would be one call more).
use super::way::{self, Need, Receiver, Sender, Wait, Way, end};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    /// SOCK_SEQPACKET.
    Unix,
    Pipe,
    Eventfd,
}

pub struct Kernel {
    object: Object,
    need: Need,
    /// Where it is read, and where written.
    ends: [OwnedFd; 2],
}

/// What a system call gave, or its error.
fn made(r: i32) -> io::Result<i32> {
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(r)
}

impl Kernel {
    /// # Errors
    /// No descriptor is free.
    pub fn new(need: Need, object: Object) -> io::Result<Kernel> {
        let mut fds = [0i32; 2];
        match object {
            Object::Unix => {
                let how = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
                // SAFETY: room for two descriptors.
                made(unsafe { libc::socketpair(libc::AF_UNIX, how, 0, fds.as_mut_ptr()) })?;
            }
            Object::Pipe => {
                // SAFETY: as above.
                made(unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) })?;
            }
            Object::Eventfd => {
                // SAFETY: no pointers.
                fds[0] = made(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })?;
                // SAFETY: no pointers.
                fds[1] = made(unsafe { libc::fcntl(fds[0], libc::F_DUPFD_CLOEXEC, 0) })?;
            }
        }
        // SAFETY: just made, and nobody else's.
        let ends = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        if object == Object::Pipe && need.bytes > libc::PIPE_BUF {
            // SAFETY: no pointers. Where so much is not allowed it stays as it is.
            unsafe { libc::fcntl(fds[1], libc::F_SETPIPE_SZ, 1 << 20) };
        }
        if need.wait == Wait::Awake {
            // SAFETY: no pointers. Of a pipe or a pair of sockets only the end that is read.
            made(unsafe { libc::fcntl(fds[0], libc::F_SETFL, libc::O_NONBLOCK) })?;
        }
        Ok(Kernel { object, need, ends })
    }

    fn end(&self, i: usize) -> End {
        End {
            object: self.object,
            need: self.need,
            fd: self.ends[i].as_raw_fd(),
            buffer: vec![1; self.need.bytes],
            seen: 0,
        }
    }
}

pub struct End {
    object: Object,
    need: Need,
    /// The way's, which lives longer.
    fd: i32,
    buffer: Vec<u8>,
    /// What was received of an eventfd, which has no numbers.
    seen: u64,
}

impl Way for Kernel {
    type Sender<'a> = End;
    type Receiver<'a> = End;

    fn sender(&self) -> io::Result<End> {
        Ok(self.end(1))
    }
    fn receiver(&self) -> io::Result<End> {
        Ok(self.end(0))
    }
}

impl End {
    /// What there is, into the buffer from `at` on: bytes.
    #[inline]
    fn read(&mut self, at: usize) -> io::Result<usize> {
        let rest = &mut self.buffer[at..];
        let mut n = 0;
        let mut read = || {
            // SAFETY: a buffer of ours.
            n = unsafe { libc::read(self.fd, rest.as_mut_ptr().cast(), rest.len()) };
            n >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::WouldBlock
        };
        if self.need.wait == Wait::Awake {
            self.need.until(read);
        } else {
            read();
        }
        match n {
            0 => Err(end()),
            n if n < 0 => Err(io::Error::last_os_error()),
            n => Ok(n as usize),
        }
    }
}

impl Sender for End {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        match self.object {
            Object::Eventfd => self.buffer.copy_from_slice(&1u64.to_le_bytes()),
            _ => way::fill(&mut self.buffer, i),
        }
        let mut done = 0;
        while done < self.buffer.len() {
            let rest = &self.buffer[done..];
            // SAFETY: a buffer of ours.
            let n = unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) };
            if n < 0 {
                return Err(io::Error::last_os_error());
            }
            done += n as usize;
        }
        Ok(())
    }
}

impl Receiver for End {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        let mut done = 0;
        while done < self.buffer.len() {
            done += self.read(done)?;
        }
        if self.object == Object::Eventfd {
            self.seen += 1;
            return Ok(self.seen - 1);
        }
        Ok(way::look(&self.buffer))
    }
}
