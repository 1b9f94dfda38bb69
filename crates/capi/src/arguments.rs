//! Pointers and times of a caller's, made into what Rust can hold.
//!
//! Invariant: null is an error where the header does not allow it, never a fault. Of a pipe without shared memory at most one handle
//! in this process receives records, and then it is the only one.
use crate::error::failed;
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// struct byway_reader: for bytes or for records, which its first call tells.
pub struct Reader {
    pub end: native::Receiver,
    /// Records have been asked of it.
    receives: bool,
    /// One for each handle that is a clone of the same, or that it is a clone of.
    handles: Arc<()>,
}

impl Reader {
    pub fn new(of: native::Reader) -> Reader {
        Reader {
            end: native::Receiver::new(of),
            receives: false,
            handles: Arc::default(),
        }
    }

    /// Another one. One that receives goes by the receiver's rule; before that it is an end for bytes, which may have several.
    pub fn another(&mut self) -> io::Result<Reader> {
        let end = match self.receives {
            true => self.end.try_clone()?,
            false => native::Receiver::new(self.end.reader().try_clone()?),
        };
        Ok(Reader {
            end,
            receives: self.receives,
            handles: self.handles.clone(),
        })
    }

    /// To receive records by.
    #[inline]
    pub fn receiver(&mut self) -> io::Result<&mut native::Receiver> {
        if !self.receives {
            self.begin()?;
        }
        Ok(&mut self.end)
    }

    /// The first call for records. What has been cloned before, for bytes, is held to the receiver's rule now. More handles than
    /// are counted here cannot come meanwhile: a clone needs this one, or one that is counted.
    #[cold]
    fn begin(&mut self) -> io::Result<()> {
        if Arc::strong_count(&self.handles) > 1
            && !self.end.reader().is_carried()
            && let Err(e) = self.end.try_clone()
            && e.kind() == io::ErrorKind::Unsupported
        {
            return Err(e);
        }
        self.receives = true;
        Ok(())
    }
}

/// struct byway_writer.
pub struct Writer(pub native::Sender);

/// What is wrong with an argument.
pub fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

/// What a handle points to.
///
/// # Safety
/// Null, or got from here and not given back; no other thread uses it now.
pub unsafe fn handle<'a, T>(p: *mut T) -> io::Result<&'a mut T> {
    // SAFETY: the caller's promise.
    unsafe { p.as_mut() }.ok_or_else(no_handle)
}

/// Null, where a handle belongs.
pub fn no_handle() -> io::Error {
    invalid("a null pointer where a handle belongs")
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
