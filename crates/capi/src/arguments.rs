//! Pointers and times of a caller's, made into what Rust can hold.
//!
//! Invariant: null is an error where the header does not allow it, never a fault.
use crate::error::failed;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::Duration;

/// struct byway_reader.
pub struct Reader(pub native::Receiver);
/// struct byway_writer.
pub struct Writer(pub native::Sender);

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// What a handle points to.
///
/// # Safety
/// Null, or got from here and not given back; no other thread uses it now.
pub unsafe fn handle<'a, T>(p: *mut T) -> io::Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { p.as_mut() }.ok_or_else(|| invalid("a null pointer where a handle belongs"))
}

/// A handle that the caller gives back; nothing for null.
///
/// # Safety
/// As [`handle`].
pub unsafe fn taken<T>(p: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise; it was a `Box`.
    (!p.is_null()).then(|| unsafe { Box::from_raw(p) })
}

/// Gives `v` to the caller at `to`.
///
/// # Safety
/// Null, or a place for a pointer.
pub unsafe fn give<T>(to: *mut *mut T, v: T) -> io::Result<()> {
    if to.is_null() {
        return Err(invalid("a null pointer where a handle is to be stored"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(Box::into_raw(Box::new(v))) };
    Ok(())
}

/// Bytes to read from.
///
/// # Safety
/// `n` readable bytes, or none.
pub unsafe fn bytes<'a>(p: *const u8, n: usize) -> io::Result<&'a [u8]> {
    match (p.is_null(), n) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(invalid("a null pointer where bytes belong")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(p, n) }),
    }
}

/// Bytes to write to.
///
/// # Safety
/// `n` writable bytes that nobody else uses now, or none.
pub unsafe fn room<'a>(p: *mut u8, n: usize) -> io::Result<&'a mut [u8]> {
    match (p.is_null(), n) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(invalid("a null pointer where a buffer belongs")),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts_mut(p, n) }),
    }
}

/// A name.
///
/// # Safety
/// Null, or a C string.
pub unsafe fn text<'a>(p: *const c_char) -> io::Result<&'a str> {
    if p.is_null() {
        return Err(invalid("a null pointer where a name belongs"));
    }
    // SAFETY: the caller's promise.
    let s = unsafe { CStr::from_ptr(p) };
    s.to_str().map_err(|_| invalid("a name that is not UTF-8"))
}

/// A descriptor that is the library's from now on.
///
/// # Safety
/// The caller's own, or none.
pub unsafe fn descriptor(fd: c_int) -> io::Result<OwnedFd> {
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// How long a call may wait, of milliseconds: below 0 for ever, 0 not at all.
pub enum Wait {
    Not,
    Most(Duration),
    Forever,
}

impl From<c_int> for Wait {
    fn from(ms: c_int) -> Wait {
        match ms {
            0 => Wait::Not,
            1.. => Wait::Most(Duration::from_millis(ms as u64)),
            _ => Wait::Forever,
        }
    }
}

/// A count, or an error.
pub fn count(r: io::Result<usize>) -> isize {
    r.map_or_else(|e| failed(e) as isize, |n| n as isize)
}
