//! Records.
use crate::arguments::{Reader, Wait, Writer, bytes, give, handle, room};
use crate::error::{failed, status};
use crate::grants::Buffer;
use std::ffi::c_int;
use std::io;

/// BYWAY_INLINE of the header.
const _: () = assert!(native::Sender::INLINE == 4088);

/// # Safety
/// A handle; `n` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_send(w: *mut Writer, p: *const u8, n: usize, ms: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let (h, b) = match unsafe { (handle(w), bytes(p, n)) } {
        (Ok(h), Ok(b)) => (&mut h.0, b),
        (Err(e), _) | (_, Err(e)) => return failed(e),
    };
    status(match ms.into() {
        Wait::Not => h.try_send(b),
        Wait::Most(t) => h.send_timeout(b, t),
        Wait::Forever => h.send(b),
    })
}

/// # Safety
/// Two handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_send_grant(w: *mut Writer, g: *mut Buffer, ms: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let send = || unsafe {
        let (h, g) = (&mut handle(w)?.0, handle(g)?.share()?);
        match ms.into() {
            Wait::Not => h.try_send_grant(g)?,
            Wait::Most(t) => h.send_grant_timeout(g, t)?,
            Wait::Forever => h.send_grant(g)?,
        }
        Ok(())
    };
    status(send())
}

/// 1: there was one; 0: the end; or an error.
fn found(r: io::Result<bool>) -> c_int {
    r.map_or_else(failed, c_int::from)
}

/// # Safety
/// A handle; `size` writable bytes; a place for a length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_receive(
    r: *mut Reader,
    p: *mut u8,
    size: usize,
    n: *mut usize,
    ms: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let receive = || unsafe {
        let (h, b, n) = (handle(r)?.receiver()?, room(p, size)?, handle(n)?);
        let got = match ms.into() {
            Wait::Not => h.try_receive(b),
            Wait::Most(t) => h.receive_timeout(b, t),
            Wait::Forever => h.receive(b),
        }?;
        *n = got.unwrap_or(0);
        Ok(got.is_some())
    };
    found(receive())
}

/// # Safety
/// A handle; a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_receive_grant(
    r: *mut Reader,
    g: *mut *mut Buffer,
    ms: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    let receive = || unsafe {
        let h = handle(r)?.receiver()?;
        let got = match ms.into() {
            Wait::Not => h.try_message(),
            Wait::Most(t) => h.message_timeout(t),
            Wait::Forever => h.message(),
        }?;
        match got {
            Some(m) => give(g, Buffer::of(m)).map(|()| true),
            None => Ok(false),
        }
    };
    found(receive())
}
