//! FIFOs by name: pipes that unrelated processes of one user find.
//!
//! Invariant: a name is an object of the kernel's in this user's folder, which only this library opens; so everybody who
//! has it takes part. It is gone with the last process that uses the library.
//! Not here: FIFOs at a path of the program's own: those anybody may open.
use crate::carried::Carried;
use crate::{Reader, Writer, home, kernel};
use std::ffi::CString;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A named FIFO of this user's, made when it is first opened.
///
/// It behaves as fifo(7): an open waits for the other side, the stream ends when the last writer closes, and begins anew
/// with the next one.
///
/// ```
/// use std::io::{Read, Write};
///
/// let fifo = byway::Fifo::new("doc-test")?;
/// let other = fifo.clone();
/// let writer = std::thread::spawn(move || other.writer()?.write_all(b"by name"));
/// let mut text = String::new();
/// fifo.reader()?.read_to_string(&mut text)?;
/// writer.join().expect("it does not panic")?;
/// assert_eq!(text, "by name");
/// fifo.remove()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fifo {
    name: String,
    path: PathBuf,
}

/// A timed open asks the kernel again after this long at first, and at most: it tells nobody who waits of an open.
const FIRST: Duration = Duration::from_micros(100);
const MOST: Duration = Duration::from_millis(5);

/// When a timed open looks again.
struct Rendezvous {
    until: Option<Instant>,
    pause: Duration,
}

impl Rendezvous {
    fn within(most: Duration) -> Rendezvous {
        Rendezvous {
            until: Instant::now().checked_add(most),
            pause: FIRST,
        }
    }

    /// The time of the next look; `None`: that was the last.
    fn next(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let soon = now + self.pause;
        self.pause = (self.pause * 2).min(MOST);
        match self.until {
            Some(t) if now >= t => None,
            Some(t) => Some(soon.min(t)),
            None => Some(soon),
        }
    }
}

impl Fifo {
    /// The FIFO of that name: letters, digits, `-`, `_` and `.`, at most 200 of them, beginning with a letter or digit.
    ///
    /// # Errors
    /// `InvalidInput`: not such a name. `Unsupported`: nothing can be carried here, and why ([`why_not_carried`]); a FIFO at
    /// a path of its own (mkfifo(3)) serves then.
    ///
    /// [`why_not_carried`]: crate::why_not_carried
    pub fn new(name: &str) -> io::Result<Fifo> {
        let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let first = name
            .chars()
            .next()
            .is_some_and(|c| c.is_ascii_alphanumeric());
        if !first || name.len() > 200 || !name.chars().all(fits) || home::RESERVED.contains(&name) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "{name:?} is no name of a FIFO; take letters, digits, - _ . and none of {:?}",
                    home::RESERVED
                ),
            ));
        }
        let h = home::needed(
            "a FIFO by name",
            "take one at a path (mkfifo(3)), whose descriptors Reader and Writer take",
        )?;
        if !h.is_current() {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "this process has closed all its descriptors, and others began without it; open a FIFO before that, or start anew",
            ));
        }
        Ok(Fifo {
            name: name.into(),
            path: h.folder.join(name),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens it for reading; waits for a writer.
    ///
    /// # Errors
    /// The kernel's, with what to try. `Interrupted`: a signal handler ran meanwhile.
    pub fn reader(&self) -> io::Result<Reader> {
        let fd = self.open(libc::O_RDONLY)?;
        let carried = Carried::fifo(&fd);
        Ok(Reader::over(fd, carried))
    }

    /// Opens it for reading at once. The first read waits for a writer, an attempt finds nothing until one has come.
    ///
    /// # Errors
    /// As `reader`.
    pub fn try_reader(&self) -> io::Result<Reader> {
        let fd = self.open(libc::O_RDONLY | libc::O_NONBLOCK)?;
        kernel::blocking(&fd)?;
        let carried = Carried::fifo(&fd);
        Ok(Reader::over(fd, carried))
    }

    /// As `reader`, waiting no longer than `most`: a writer that comes in that time has come, be he gone again before
    /// it is over, and what he wrote is there.
    ///
    /// From its call on a writer finds a reader, as while `reader` waits; if the time is over he has a broken pipe.
    /// Where another reader has left bytes of a writer that has gone, it does not wait for the next one, as `reader`
    /// would.
    ///
    /// # Errors
    /// `TimedOut`: nobody opened it for writing in that time. The others as [`Fifo::reader`].
    pub fn reader_timeout(&self, most: Duration) -> io::Result<Reader> {
        let mut wait = Rendezvous::within(most);
        let fd = self.open(libc::O_RDONLY | libc::O_NONBLOCK)?;
        while !kernel::has_writer(kernel::number(&fd))? {
            let next = wait.next().ok_or_else(|| self.nobody("writing"))?;
            // A writer's bytes, or his end, are told at once.
            kernel::wait(kernel::number(&fd), libc::POLLIN, Some(next))?;
        }
        kernel::blocking(&fd)?;
        let carried = Carried::fifo(&fd);
        Ok(Reader::over(fd, carried))
    }

    /// Opens it for writing; waits for a reader.
    ///
    /// # Errors
    /// As `reader`.
    pub fn writer(&self) -> io::Result<Writer> {
        let fd = self.open(libc::O_WRONLY)?;
        let carried = Carried::fifo(&fd);
        Ok(Writer::over(fd, carried))
    }

    /// Opens it for writing if somebody reads.
    ///
    /// # Errors
    /// `WouldBlock`: nobody reads yet.
    pub fn try_writer(&self) -> io::Result<Writer> {
        let fd = match self.open(libc::O_WRONLY | libc::O_NONBLOCK) {
            // POSIX open: ENXIO: O_NONBLOCK, O_WRONLY, and no reader.
            Err(e) if e.raw_os_error() == Some(libc::ENXIO) => {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            fd => fd?,
        };
        kernel::blocking(&fd)?;
        let carried = Carried::fifo(&fd);
        Ok(Writer::over(fd, carried))
    }

    /// As `writer`, waiting no longer than `most`.
    ///
    /// # Errors
    /// `TimedOut`: nobody opened it for reading in that time. The others as [`Fifo::reader`].
    pub fn writer_timeout(&self, most: Duration) -> io::Result<Writer> {
        let mut wait = Rendezvous::within(most);
        loop {
            match self.try_writer() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                w => return w,
            }
            kernel::pause(wait.next().ok_or_else(|| self.nobody("reading"))?)?;
        }
    }

    fn nobody(&self, what: &str) -> io::Error {
        io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "nobody opened FIFO {:?} for {what} in that time; start the other side, or wait longer",
                self.name
            ),
        )
    }

    /// Takes the name away: who has the FIFO open keeps it, who opens the name later gets a new one.
    ///
    /// # Errors
    /// The kernel's; a FIFO that is not there is none.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn open(&self, how: i32) -> io::Result<OwnedFd> {
        let path = CString::new(self.path.as_os_str().as_bytes())?;
        let flags = how | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        loop {
            // SAFETY: a C string; the descriptor is new.
            let fd = unsafe {
                let r = libc::mkfifo(path.as_ptr(), 0o600);
                if r != 0 && io::Error::last_os_error().raw_os_error() != Some(libc::EEXIST) {
                    return Err(io::Error::last_os_error());
                }
                libc::open(path.as_ptr(), flags)
            };
            if fd >= 0 {
                // SAFETY: as above.
                let fd = unsafe { OwnedFd::from_raw_fd(fd) };
                if byway_sys::file::identity(kernel::number(&fd)).is_some_and(|i| i.fifo) {
                    return Ok(fd);
                }
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{} is no FIFO; remove it", self.path.display()),
                ));
            }
            let e = io::Error::last_os_error();
            // Removed in between: made anew.
            if e.kind() != io::ErrorKind::NotFound {
                return Err(e);
            }
        }
    }
}
