//! errno, and the sentence behind it.
//!
//! Invariant: a call that fails sets both, for the calling thread; one that succeeds leaves both alone.
use std::borrow::Cow;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::io::{self, ErrorKind};

thread_local! {
    static LAST: RefCell<Cow<'static, CStr>> = const { RefCell::new(Cow::Borrowed(c"")) };
}

/// The number that C knows an error by.
pub fn number(e: &io::Error) -> c_int {
    if let Some(n) = e.raw_os_error() {
        return n;
    }
    match e.kind() {
        ErrorKind::WouldBlock => libc::EAGAIN,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::BrokenPipe => libc::EPIPE,
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::AlreadyExists => libc::EEXIST,
        ErrorKind::InvalidInput => libc::EINVAL,
        ErrorKind::InvalidData => libc::EPROTO,
        ErrorKind::OutOfMemory => libc::ENOMEM,
        ErrorKind::Unsupported => libc::ENOTSUP,
        ErrorKind::Interrupted => libc::EINTR,
        _ => libc::EIO,
    }
}

/// What to try where the error itself is no more than the kernel's number, or its kind.
fn remedy(number: c_int) -> Option<&'static str> {
    Some(match number {
        libc::EINTR => "a signal handler ran meanwhile; call again",
        libc::EMSGSIZE => {
            "the record is longer than the buffer, and still there; receive it into a larger one, or by byway_receive_grant"
        }
        libc::EMFILE => {
            "this process has no descriptor free; close some, or raise its limit (ulimit -n)"
        }
        libc::ENFILE => {
            "no process of this machine has a descriptor free; close some (fs.file-max)"
        }
        libc::EBADF => "pass the number of a descriptor that is open",
        libc::EPERM => {
            "an object that is always ready, as a regular file, needs no queue; call on it at once"
        }
        libc::ENOSPC => {
            "the folder for shared memory, or the kernel's table of watches, is full; take fewer"
        }
        _ => return None,
    })
}

/// What an attempt says that finds nothing: nothing is made for it, for attempts are many.
const NOTHING: &CStr =
    c"nothing is there, or no room; wait for the descriptor, or call with a time";

/// What happened, and what to try.
fn sentence(e: &io::Error) -> Cow<'static, CStr> {
    let bare = e.get_ref().is_none();
    if bare && e.kind() == ErrorKind::WouldBlock {
        return Cow::Borrowed(NOTHING);
    }
    let mut text = e.to_string();
    if let Some(todo) = remedy(number(e)).filter(|_| bare) {
        let what = text.split(" (os error").next().unwrap_or(&text);
        text = format!("{what}: {todo}");
    }
    Cow::Owned(CString::new(text).unwrap_or_default())
}

/// Tells of an error: -1 for the caller.
pub fn failed(e: io::Error) -> c_int {
    let n = number(&e);
    let text = sentence(&e);
    LAST.with(|l| *l.borrow_mut() = text);
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = n };
    -1
}

/// 0, or an error.
pub fn status(r: io::Result<()>) -> c_int {
    r.map_or_else(failed, |()| 0)
}

/// What the last call of this thread that failed has to say.
#[unsafe(no_mangle)]
pub extern "C" fn byway_error() -> *const c_char {
    LAST.with(|l| l.borrow().as_ptr())
}

/// Why nothing is carried here; null if something is.
#[unsafe(no_mangle)]
pub extern "C" fn byway_why_not_carried() -> *const c_char {
    match native::why_not_carried() {
        None => std::ptr::null(),
        Some(why) => {
            failed(io::Error::new(ErrorKind::Unsupported, why));
            byway_error()
        }
    }
}
