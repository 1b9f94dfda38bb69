//! FIFOs by name.
use crate::arguments::{Reader, Wait, Writer, give, text};
use crate::error::status;
use native::{Fifo, Sender};
use std::ffi::{c_char, c_int};
use std::io::{self, ErrorKind};

/// # Safety
/// A C string; a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_fifo_reader(
    name: *const c_char,
    ms: c_int,
    r: *mut *mut Reader,
) -> c_int {
    // SAFETY: the caller's promise.
    let open = || unsafe {
        let f = Fifo::new(text(name)?)?;
        let x = match ms.into() {
            Wait::Forever => f.reader()?,
            Wait::Most(t) => f.reader_timeout(t)?,
            Wait::Not => f.try_reader()?,
        };
        give(r, Reader::new(x))
    };
    status(open())
}

/// The kernel has no reader of it yet: there is no end to wait for.
fn nobody(e: io::Error, f: &Fifo) -> io::Error {
    match e.kind() {
        ErrorKind::WouldBlock => {
            let name = f.name();
            io::Error::new(
                e.kind(),
                format!(
                    "nobody reads FIFO {name:?} yet; start the other side, or call with a time"
                ),
            )
        }
        _ => e,
    }
}

/// # Safety
/// As [`byway_fifo_reader`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_fifo_writer(
    name: *const c_char,
    ms: c_int,
    w: *mut *mut Writer,
) -> c_int {
    // SAFETY: the caller's promise.
    let open = || unsafe {
        let f = Fifo::new(text(name)?)?;
        let x = match ms.into() {
            Wait::Forever => f.writer()?,
            Wait::Most(t) => f.writer_timeout(t)?,
            Wait::Not => f.try_writer().map_err(|e| nobody(e, &f))?,
        };
        give(w, Writer(Sender::new(x)))
    };
    status(open())
}

/// # Safety
/// A C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_fifo_remove(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    status(
        unsafe { text(name) }
            .and_then(Fifo::new)
            .and_then(|f| f.remove()),
    )
}
