//! Bidirectional pipes.
use crate::arguments::{Reader, Writer, handle, taken};
use crate::error::status;
use native::Sender;
use std::ffi::c_int;

/// struct byway_end.
#[repr(C)]
pub struct End {
    reader: *mut Reader,
    writer: *mut Writer,
}
// As tests/native/c/check.c has it.
const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<End>() == 16 && align_of::<End>() == 8);
    assert!(offset_of!(End, reader) == 0 && offset_of!(End, writer) == 8);
};

/// # Safety
/// Places for two ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_duplex(here: *mut End, there: *mut End) -> c_int {
    // SAFETY: the caller's promise.
    let places = unsafe { handle(here).and_then(|a| Ok((a, handle(there)?))) };
    status(places.and_then(|(a, b)| {
        for (place, end) in [a, b].into_iter().zip(<[_; 2]>::from(native::duplex()?)) {
            let (r, w) = end.into_halves();
            *place = End {
                reader: Box::into_raw(Box::new(Reader::new(r))),
                writer: Box::into_raw(Box::new(Writer(Sender::new(w)))),
            };
        }
        Ok(())
    }))
}

/// # Safety
/// Null, or an end whose handles are the caller's, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_end_close(end: *mut End) {
    // SAFETY: the caller's promise.
    if let Some(e) = unsafe { end.as_mut() } {
        // SAFETY: as above; null from now on.
        unsafe { (drop(taken(e.reader)), drop(taken(e.writer))) };
        *e = End {
            reader: std::ptr::null_mut(),
            writer: std::ptr::null_mut(),
        };
    }
}
