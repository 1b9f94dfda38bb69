//! What carries the bytes from one process to another, and its two ends.
//!
//! Invariant: a link is made before the processes that use it are forked, and has no name when it is used: a FIFO's is
//! removed as soon as both ends are open, with signals held back, so nobody who is interrupted leaves it behind.
//! Not here: who is started under `byway run`: there the same calls of libc are carried.
use super::direct;
use crate::child::Failure;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;

/// How a link is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// pipe(2), as it is made.
    Pipe,
    /// The same with F_SETPIPE_SZ 1 MiB.
    Pipe1M,
    /// A pipe into which the writer vmsplices.
    Vmsplice,
    /// A named FIFO.
    Fifo,
    /// socketpair(AF_UNIX, SOCK_STREAM).
    Socket,
    /// The pipe core, called directly.
    Core,
    /// None: one process alone.
    Nothing,
}

impl Kind {
    const ALL: [(&'static str, Kind); 7] = [
        ("pipe", Kind::Pipe),
        ("pipe-1m", Kind::Pipe1M),
        ("vmsplice", Kind::Vmsplice),
        ("fifo", Kind::Fifo),
        ("socket", Kind::Socket),
        ("core", Kind::Core),
        ("nothing", Kind::Nothing),
    ];
    pub fn word(self) -> &'static str {
        let found = Kind::ALL.iter().find(|k| k.1 == self);
        found.map_or("", |k| k.0)
    }
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|k| k.0 == word).map(|k| k.1)
    }
}

const MIB: libc::c_int = 1 << 20;

/// Both ends. The descriptors stay open for the life of the process, which is one run.
#[derive(Clone, Copy)]
pub struct Link {
    r: i32,
    w: i32,
    kind: Kind,
    core: Option<direct::Pipe>,
}

impl Link {
    /// A new one, for processes that run on so many CPUs.
    ///
    /// # Errors
    /// The kernel's, or a sentence where there is a remedy.
    pub fn new(kind: Kind, cpus: usize) -> Result<Link, Failure> {
        let [r, w] = match kind {
            Kind::Socket => socket()?,
            Kind::Fifo => fifo()?,
            _ => pipe()?,
        };
        if kind == Kind::Pipe1M && !widen(w) {
            return Err(Failure::Said(
                "the kernel gives no pipe of 1 MiB; raise /proc/sys/fs/pipe-max-size to 1048576"
                    .into(),
            ));
        }
        let core = match kind {
            Kind::Core => Some(direct::Pipe::over(r, w, cpus)?),
            _ => None,
        };
        Ok(Link { r, w, kind, core })
    }

    /// Its descriptors: the reader's and the writer's.
    pub fn descriptors(&self) -> [i32; 2] {
        [self.r, self.w]
    }

    /// Ends it, for the process that calls.
    pub fn close(&self) {
        for fd in [self.r, self.w] {
            // SAFETY: ours, and not used again.
            unsafe { libc::close(fd) };
        }
    }

    /// The end of the thread that calls.
    pub fn writer(&self) -> End {
        match (self.core, self.kind) {
            (Some(p), _) => End::Core(Box::new(p.writer())),
            (None, Kind::Vmsplice) => End::Splice(self.w),
            _ => End::Fd(self.w),
        }
    }
    pub fn reader(&self) -> End {
        self.core
            .map_or(End::Fd(self.r), |p| End::Core(Box::new(p.reader())))
    }
}

pub(super) fn pipe() -> io::Result<[i32; 2]> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors.
    match unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } {
        0 => Ok(fds),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives a pipe room for 1 MiB; whether it has that now.
pub(super) fn widen(fd: i32) -> bool {
    // SAFETY: no pointers.
    unsafe { libc::fcntl(fd, libc::F_SETPIPE_SZ, MIB) >= MIB }
}

fn socket() -> io::Result<[i32; 2]> {
    let mut fds = [0; 2];
    let how = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors.
    match unsafe { libc::socketpair(libc::AF_UNIX, how, 0, fds.as_mut_ptr()) } {
        0 => Ok(fds),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A FIFO in the temporary folder; its name is gone when this returns.
fn fifo() -> Result<[i32; 2], Failure> {
    let dir = std::env::temp_dir();
    let path = dir.join(format!("byway-bench-fifo-{}", std::process::id()));
    let name = CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)?;
    // SAFETY: sets of ours, and a C string that lives over the calls. The FIFO is opened for both, so that neither
    // end waits for the other, and before either end is used.
    let ends = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut before);
        let open = |how| libc::open(name.as_ptr(), how | libc::O_CLOEXEC);
        let ends = if libc::mkfifo(name.as_ptr(), 0o600) == 0 {
            let both = open(libc::O_RDWR);
            let ends = [open(libc::O_RDONLY), open(libc::O_WRONLY)];
            let error = io::Error::last_os_error();
            libc::close(both);
            libc::unlink(name.as_ptr());
            if ends.iter().all(|&e| e >= 0) {
                Ok(ends)
            } else {
                Err(error)
            }
        } else {
            Err(io::Error::last_os_error())
        };
        libc::sigprocmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        ends
    };
    ends.map_err(|e| {
        Failure::Said(format!(
            "no FIFO in {}: {e}; set TMPDIR to a folder of yours",
            dir.display()
        ))
    })
}

/// An end, as the thread that works with it has it.
#[derive(Clone)]
pub enum End {
    Fd(i32),
    Splice(i32),
    Core(Box<direct::End>),
}

impl End {
    /// Writes all of `b`.
    ///
    /// # Errors
    /// The kernel's.
    #[inline]
    pub fn put(&self, mut b: &[u8]) -> io::Result<()> {
        while !b.is_empty() {
            let n = match self {
                End::Fd(fd) => {
                    // SAFETY: a buffer that lives over the call.
                    counted(unsafe { libc::write(*fd, b.as_ptr().cast(), b.len()) })?
                }
                End::Splice(fd) => {
                    let v = libc::iovec {
                        iov_base: b.as_ptr().cast_mut().cast(),
                        iov_len: b.len(),
                    };
                    // SAFETY: the pages are only read, and stay until the run ends.
                    counted(unsafe { libc::vmsplice(*fd, &v, 1, 0) })?
                }
                End::Core(e) => e.write(b)?,
            };
            b = &b[n..];
        }
        Ok(())
    }

    /// Reads what is there, up to all of `b`.
    ///
    /// # Errors
    /// The kernel's, or that there is no writer any more.
    #[inline]
    pub fn get(&self, b: &mut [u8]) -> io::Result<usize> {
        let n = match self {
            End::Fd(fd) | End::Splice(fd) => {
                // SAFETY: a buffer that lives over the call.
                counted(unsafe { libc::read(*fd, b.as_mut_ptr().cast(), b.len()) })?
            }
            End::Core(e) => e.read(b)?,
        };
        if n == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(n)
    }
}

#[inline]
fn counted(n: isize) -> io::Result<usize> {
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_word() {
        for (word, kind) in Kind::ALL {
            assert_eq!(Kind::of(word), Some(kind));
            assert_eq!(kind.word(), word);
        }
        assert_eq!(Kind::of("ring"), None);
    }

    #[test]
    fn what_goes_in_comes_out() {
        for (_, kind) in Kind::ALL {
            let link = Link::new(kind, 1).unwrap();
            // More than hot, so that the core opens its ring.
            for i in 0..100u8 {
                let (out, mut back) = ([i; 3000], [0; 4000]);
                link.writer().put(&out).unwrap();
                let n = link.reader().get(&mut back).unwrap();
                assert_eq!(back[..n], out[..n], "{kind:?}");
                assert_eq!(n, 3000);
            }
        }
    }

    #[test]
    fn a_fifo_has_no_name_left() {
        let [r, w] = fifo().unwrap();
        let mine = format!("byway-bench-fifo-{}", std::process::id());
        assert!(!std::env::temp_dir().join(mine).exists());
        let file = std::fs::read_link(format!("/proc/self/fd/{r}")).unwrap();
        assert!(file.to_string_lossy().ends_with("(deleted)"));
        // SAFETY: ours.
        unsafe {
            libc::close(r);
            libc::close(w);
        }
    }
}
