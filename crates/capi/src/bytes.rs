//! Pipes as streams of bytes.
use crate::arguments::{
    Reader, Wait, Writer, bytes, count, descriptor, give, handle, no_handle, room, taken,
};
use crate::error::{failed, status};
use native::Sender;
use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};

/// # Safety
/// Places for two pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_pipe(r: *mut *mut Reader, w: *mut *mut Writer) -> c_int {
    status(native::pipe().and_then(|(reader, writer)| {
        // SAFETY: the caller's promise; the first handle comes back if there is no place for the second.
        unsafe {
            give(r, Reader::new(reader))?;
            give(w, Writer(Sender::new(writer))).inspect_err(|_| drop(taken(*r)))
        }
    }))
}

/// # Safety
/// The caller's descriptor; a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_from_fd(fd: c_int, r: *mut *mut Reader) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe {
        descriptor(fd)
            .and_then(native::Reader::from_fd)
            .and_then(|x| give(r, Reader::new(x)))
    })
}

/// # Safety
/// As [`byway_reader_from_fd`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_from_fd(fd: c_int, w: *mut *mut Writer) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe {
        descriptor(fd)
            .and_then(native::Writer::from_fd)
            .and_then(|x| give(w, Writer(Sender::new(x))))
    })
}

/// # Safety
/// A handle; a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_clone(of: *mut Reader, r: *mut *mut Reader) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe {
        handle(of)
            .and_then(Reader::another)
            .and_then(|x| give(r, x))
    })
}

/// # Safety
/// As [`byway_reader_clone`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_clone(of: *mut Writer, w: *mut *mut Writer) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe {
        handle(of)
            .and_then(|h| h.0.try_clone())
            .and_then(|x| give(w, Writer(x)))
    })
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_fd(r: *mut Reader) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { handle(r) }.map_or_else(failed, |h| h.end.as_raw_fd())
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_fd(w: *mut Writer) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { handle(w) }.map_or_else(failed, |h| h.0.as_raw_fd())
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_is_carried(r: *mut Reader) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { handle(r) }.map_or_else(failed, |h| h.end.reader().is_carried().into())
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_is_carried(w: *mut Writer) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { handle(w) }.map_or_else(failed, |h| h.0.writer().is_carried().into())
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_close(r: *mut Reader) {
    // SAFETY: the caller's promise.
    drop(unsafe { taken(r) });
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_close(w: *mut Writer) {
    // SAFETY: the caller's promise.
    drop(unsafe { taken(w) });
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_reader_into_fd(r: *mut Reader) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { taken(r) } {
        Some(h) => h
            .end
            .into_inner()
            .into_fd()
            .map_or_else(failed, |fd| fd.into_raw_fd()),
        None => failed(no_handle()),
    }
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_writer_into_fd(w: *mut Writer) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { taken(w) } {
        Some(h) => {
            h.0.into_inner()
                .into_fd()
                .map_or_else(failed, |fd| fd.into_raw_fd())
        }
        None => failed(no_handle()),
    }
}

/// # Safety
/// A handle; `n` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_read(r: *mut Reader, p: *mut u8, n: usize, ms: c_int) -> isize {
    // SAFETY: the caller's promise.
    let (h, b) = match unsafe { (handle(r), room(p, n)) } {
        (Ok(h), Ok(b)) => (h.end.reader(), b),
        (Err(e), _) | (_, Err(e)) => return failed(e) as isize,
    };
    count(match ms.into() {
        Wait::Not => h.try_read(b),
        Wait::Most(t) => h.read_timeout(b, t),
        Wait::Forever => h.read(b),
    })
}

/// # Safety
/// A handle; `n` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_write(w: *mut Writer, p: *const u8, n: usize, ms: c_int) -> isize {
    // SAFETY: the caller's promise.
    let (h, b) = match unsafe { (handle(w), bytes(p, n)) } {
        (Ok(h), Ok(b)) => (h.0.writer(), b),
        (Err(e), _) | (_, Err(e)) => return failed(e) as isize,
    };
    count(match ms.into() {
        Wait::Not => h.try_write(b),
        Wait::Most(t) => h.write_timeout(b, t),
        Wait::Forever => h.write(b),
    })
}
