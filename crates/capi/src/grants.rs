//! Buffers in shared memory.
use crate::arguments::{handle, taken};
use crate::error::{failed, status};
use native::{Grant, Message, WriteGrant};
use std::ffi::{c_int, c_void};
use std::io;

/// struct byway_grant: being filled, shared, or a short record that was copied.
pub enum Buffer {
    Mine(WriteGrant),
    Shared(Grant),
    Copied(Vec<u8>),
}

impl Buffer {
    pub fn of(m: Message) -> Buffer {
        match m {
            Message::Shared(g) => Buffer::Shared(g),
            Message::Copied(v) => Buffer::Copied(v),
        }
    }

    /// The bytes.
    fn view(&self) -> &[u8] {
        match self {
            Buffer::Mine(g) => g,
            Buffer::Shared(g) => g,
            Buffer::Copied(v) => v,
        }
    }

    /// What can be sent, cloned or cut: from now on nobody writes into it. If it cannot be had now this is as it was.
    pub fn share(&mut self) -> io::Result<Grant> {
        let g = match std::mem::replace(self, Buffer::Copied(Vec::new())) {
            Buffer::Shared(g) => g,
            Buffer::Mine(w) => w.share().map_err(|e| {
                *self = Buffer::Mine(e.grant);
                e.error
            })?,
            Buffer::Copied(v) => copied(&v).inspect_err(|_| *self = Buffer::Copied(v))?,
        };
        *self = Buffer::Shared(g.clone());
        Ok(g)
    }
}

/// A buffer with these bytes.
fn copied(b: &[u8]) -> io::Result<Grant> {
    let mut g = native::reserve(b.len())?;
    g.copy_from_slice(b);
    Ok(g.share()?)
}

fn boxed(r: io::Result<Buffer>) -> *mut Buffer {
    r.map_or_else(
        |e| {
            failed(e);
            std::ptr::null_mut()
        },
        |b| Box::into_raw(Box::new(b)),
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn byway_reserve(n: usize) -> *mut Buffer {
    boxed(native::reserve(n).map(Buffer::Mine))
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_data(g: *mut Buffer) -> *mut c_void {
    // SAFETY: the caller's promise.
    match unsafe { handle(g) } {
        Ok(b) => b.view().as_ptr().cast_mut().cast(),
        Err(e) => {
            failed(e);
            std::ptr::null_mut()
        }
    }
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_size(g: *mut Buffer) -> usize {
    // SAFETY: the caller's promise.
    unsafe { handle(g) }.map_or(0, |b| b.view().len())
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_share(g: *mut Buffer, n: usize) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { handle(g) }.and_then(|b| {
        let mine = matches!(b, Buffer::Mine(_));
        let g = b.share()?;
        // After it, so that one that fails leaves the whole.
        if mine && n < g.len() {
            *b = Buffer::Shared(g.slice(..n));
        }
        Ok(())
    }))
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_clone(g: *mut Buffer) -> *mut Buffer {
    // SAFETY: the caller's promise.
    boxed(
        unsafe { handle(g) }
            .and_then(Buffer::share)
            .map(Buffer::Shared),
    )
}

/// # Safety
/// A handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_slice(g: *mut Buffer, from: usize, n: usize) -> *mut Buffer {
    // SAFETY: the caller's promise.
    let whole = unsafe { handle(g) }.and_then(Buffer::share);
    boxed(whole.and_then(|g| match from.checked_add(n) {
        Some(end) if end <= g.len() => Ok(Buffer::Shared(g.slice(from..end))),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{n} bytes from {from} on are not within {}", g.len()),
        )),
    }))
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_grant_release(g: *mut Buffer) {
    // SAFETY: the caller's promise.
    drop(unsafe { taken(g) });
}
