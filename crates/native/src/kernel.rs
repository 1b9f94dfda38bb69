//! The kernel's side of an end: pipe2(2), reads and writes that do not wait, the wait itself.
//!
//! Invariant: an attempt never sleeps that is not to, although the descriptor is a blocking one: so it can be shared
//! with programs that know nothing of this library.
//! Not here: channels.
use crate::timer;
use byway_sys::errno::Ret;
use byway_sys::file;
use byway_sys::syscall::{call3, call6, nr};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

const RWF_NOWAIT: usize = 8;
const EOPNOTSUPP: Ret = -95;
const ENOSYS: Ret = -38;
const EFAULT: Ret = -14;

/// A new pipe: read end, write end.
pub fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0i32; 2];
    // SAFETY: room for two ints.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new descriptors that nobody else has.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

/// Clears O_NONBLOCK, which the core would ask for: attempts say for themselves that they do not wait.
pub fn blocking(fd: &OwnedFd) -> io::Result<()> {
    match file::fcntl(number(fd), libc::F_SETFL as usize, 0) {
        0 => Ok(()),
        e => said(e).map(|_| ()),
    }
}

/// The number of `fd` as the core wants it.
pub fn number(fd: &OwnedFd) -> usize {
    fd.as_raw_fd() as usize
}

/// What the core, or a raw system call, said.
pub fn said(r: Ret) -> io::Result<usize> {
    usize::try_from(r).map_err(|_| io::Error::from_raw_os_error(-r as i32))
}

/// `said`, where EAGAIN is no error: `None`.
pub fn attempted(r: Ret) -> io::Result<Option<usize>> {
    if r == byway_sys::errno::EAGAIN {
        return Ok(None);
    }
    said(r).map(Some)
}

fn vectored(call: usize, fd: usize, base: usize, len: usize) -> Ret {
    let v = [base, len];
    let end = usize::MAX;
    // SAFETY: one struct iovec that describes memory of the caller's, as `read` and `write` demand.
    unsafe { call6(call, fd, v.as_ptr() as usize, 1, end, end, RWF_NOWAIT) }
}

/// read(2) itself.
#[inline]
pub fn read_asleep(fd: usize, b: &mut [u8]) -> Ret {
    timer::pend();
    // SAFETY: a buffer of the caller's.
    unsafe { call3(nr::READ, fd, b.as_mut_ptr() as usize, b.len()) }
}

/// write(2) itself, which may raise SIGPIPE.
#[inline]
pub fn write_asleep(fd: usize, b: &[u8]) -> Ret {
    // SAFETY: as above.
    unsafe { call3(nr::WRITE, fd, b.as_ptr() as usize, b.len()) }
}

/// read(2); EAGAIN where it cannot wait: of a descriptor that somebody has made a non-blocking one, or where nobody
/// writes yet.
pub fn read_waiting(fd: usize, b: &mut [u8]) -> Ret {
    begun(fd, read_asleep(fd, b))
}

/// LINUX fifo_poll: a FIFO that no writer has opened yet has not come to its end.
fn begun(fd: usize, r: Ret) -> Ret {
    if r == 0 && file::poll1(fd, file::POLLIN, 0).0 == 0 {
        return byway_sys::errno::EAGAIN;
    }
    r
}

/// read(2) without waiting: EAGAIN where it would sleep.
pub fn read(fd: usize, b: &mut [u8]) -> Ret {
    let r = vectored(nr::PREADV2, fd, b.as_mut_ptr() as usize, b.len());
    let r = begun(fd, r);
    if r != EOPNOTSUPP && r != ENOSYS {
        return r;
    }
    // LINUX before 6.4, and on FIFOs: no such reads of pipes. Another reader that comes in between takes the bytes,
    // and then this one waits for the next.
    match file::poll1(fd, file::POLLIN, 0) {
        (1.., _) => {
            // SAFETY: a buffer of the caller's.
            unsafe { call6(nr::READ, fd, b.as_mut_ptr() as usize, b.len(), 0, 0, 0) }
        }
        (0, _) => byway_sys::errno::EAGAIN,
        (e, _) => e,
    }
}

/// Of the read end of a FIFO that was opened with O_NONBLOCK, and still has it: whether a writer has come since, be he
/// gone again. Bytes that are there count as a writer's.
pub fn has_writer(fd: usize) -> io::Result<bool> {
    // LINUX fifo_open, pipe_poll: POLLHUP when no writer is there and one has been since that open; a writer that is
    // there and has written nothing shows nothing.
    if file::poll1(fd, file::POLLIN, 0).0 > 0 {
        return Ok(true);
    }
    match nobody_or(fd) {
        0 => Ok(false),
        byway_sys::errno::EAGAIN | EFAULT => Ok(true),
        e => said(e).map(|_| true),
    }
}

/// LINUX pipe_read: 0 where nobody writes, EAGAIN where somebody does and nothing is there. What is there is not taken:
/// memory that the kernel must not write to makes it EFAULT.
fn nobody_or(fd: usize) -> Ret {
    static NOWHERE: u8 = 0;
    // SAFETY: no memory is written to: the byte lies in a mapping that is only for reading.
    unsafe { call3(nr::READ, fd, &raw const NOWHERE as usize, 1) }
}

/// Sleeps until `until`, or until a signal handler has run, which is an error.
pub fn pause(until: Instant) -> io::Result<()> {
    // LINUX poll(2): of a descriptor below 0 nothing is told.
    wait(usize::MAX, 0, Some(until)).map(|_| ())
}

/// write(2) without waiting: EAGAIN where it would sleep, EPIPE without a signal where nobody reads.
pub fn write(fd: usize, b: &[u8]) -> Ret {
    if file::reader_gone(fd) {
        return byway_sys::errno::EPIPE;
    }
    let r = vectored(nr::PWRITEV2, fd, b.as_ptr() as usize, b.len());
    if r != EOPNOTSUPP && r != ENOSYS {
        return r;
    }
    // LINUX pipe_poll: POLLOUT where a slot is free, which takes PIPE_BUF bytes.
    match file::poll1(fd, file::POLLOUT, 0) {
        (1.., _) => {
            let n = b.len().min(libc::PIPE_BUF);
            // SAFETY: a buffer of the caller's.
            unsafe { call6(nr::WRITE, fd, b.as_ptr() as usize, n, 0, 0, 0) }
        }
        (0, _) => byway_sys::errno::EAGAIN,
        (e, _) => e,
    }
}

/// Sleeps until `fd` shows one of `events`, an error or the end of the other side. `None` when `until` has come.
pub fn wait(fd: usize, events: i16, until: Option<Instant>) -> io::Result<Option<i16>> {
    let mut p = libc::pollfd {
        fd: fd as i32,
        events,
        revents: 0,
    };
    let left = until.map(|t| t.saturating_duration_since(Instant::now()));
    let spec = left.map(|d| libc::timespec {
        tv_sec: d.as_secs().min(i64::MAX as u64) as i64,
        tv_nsec: i64::from(d.subsec_nanos()),
    });
    timer::pend();
    let spec = spec.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: one struct pollfd and one struct timespec of ours.
    match unsafe { libc::ppoll(&mut p, 1, spec, std::ptr::null()) } {
        0 => Ok(None),
        1.. => Ok(Some(p.revents)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::{EFAULT, file, nobody_or, number, pipe};
    use byway_sys::errno::EAGAIN;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn a_look_for_a_writer_takes_nothing() {
        let (r, w) = pipe().unwrap();
        let fd = number(&r);
        assert_eq!(file::fcntl(fd, libc::F_SETFL as usize, file::O_NONBLOCK), 0);
        assert_eq!(nobody_or(fd), EAGAIN);
        let (mut r, mut w) = (File::from(r), File::from(w));
        w.write_all(b"abc").unwrap();
        assert_eq!((nobody_or(fd), nobody_or(fd)), (EFAULT, EFAULT));
        let mut b = [0; 9];
        assert_eq!((r.read(&mut b).unwrap(), &b[..3]), (3, &b"abc"[..]));
        drop(w);
        assert_eq!(nobody_or(fd), 0);
    }
}
