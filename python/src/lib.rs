//! The native library for Python: what is fast or touches memory; byway/__init__.py makes the rest of it.
//!
//! Invariant: a call first attempts with the interpreter's lock held; only one that has to wait lets go of it.
//! unsafe: Python's buffers. A buffer of Python's is used only while its export is held; a grant's memory is exported as
//! long as Python has the object.
//! Not here: what the calls do (crate byway).
mod buffer;
mod ends;
mod events;
mod grants;

use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

/// What to try where the error itself is no more than the kernel's number.
fn remedy(number: i32) -> Option<&'static str> {
    Some(match number {
        90 => {
            "the record is longer than the buffer, and still there: receive it into a larger one, or by receive() or receive_grant()"
        }
        24 => "this process has no descriptor free: close some, or raise its limit (ulimit -n)",
        23 => "no process of this machine has a descriptor free: close some (fs.file-max)",
        9 => "pass the number of a descriptor that is open",
        1 => {
            "an object that is always ready, as a regular file, needs no queue: call on it at once"
        }
        28 => "the folder for shared memory, or the kernel's table of watches, is full: take fewer",
        _ => return None,
    })
}

/// An error, as Python has it: with its number (of Linux, as in C), of which Python makes the class.
fn raised(e: io::Error) -> PyErr {
    let text = e.to_string();
    let number = match (e.raw_os_error(), e.kind()) {
        (Some(n), _) => {
            // Python says the number itself.
            let (text, _) = text.split_once(" (os error").unwrap_or((&text, ""));
            let text = match remedy(n) {
                Some(todo) => format!("{text}; {todo}"),
                None => text.to_string(),
            };
            return PyOSError::new_err((n, text));
        }
        (None, ErrorKind::InvalidInput) => return PyValueError::new_err(text),
        (None, ErrorKind::OutOfMemory) => return PyMemoryError::new_err(text),
        (None, ErrorKind::NotFound) => 2, // ENOENT
        (None, ErrorKind::WouldBlock) => {
            // Its own text, if it has one: a name that nobody has opened.
            let text = match e.get_ref() {
                Some(_) => text,
                None => format!(
                    "{text}; nothing is there, or no room: wait for the descriptor, or call with a timeout"
                ),
            };
            return PyOSError::new_err((11, text)); // EAGAIN
        }
        (None, ErrorKind::PermissionDenied) => 1, // EPERM
        (None, ErrorKind::AlreadyExists) => 17,   // EEXIST
        (None, ErrorKind::BrokenPipe) => 32,      // EPIPE
        (None, ErrorKind::InvalidData) => 71,     // EPROTO
        (None, ErrorKind::Unsupported) => 95,     // ENOTSUP
        (None, ErrorKind::TimedOut) => 110,       // ETIMEDOUT
        (None, _) => 5,                           // EIO
    };
    PyOSError::new_err((number, text))
}

/// Runs `attempt`, and where it finds nothing `wait`, without the interpreter's lock, for `timeout` seconds at most (`None`:
/// for as long as it takes). A signal handler that raises ends it.
fn waiting<S: Send, R: Send>(
    py: Python,
    state: &mut S,
    timeout: Option<f64>,
    attempt: impl FnOnce(&mut S) -> io::Result<R>,
    wait: impl Fn(&mut S, Option<Duration>) -> io::Result<R> + Sync,
) -> PyResult<R> {
    match attempt(state) {
        Err(e) if e.kind() == ErrorKind::WouldBlock && timeout != Some(0.0) => {}
        r => return r.map_err(raised),
    }
    let most = match timeout.map(Duration::try_from_secs_f64).transpose() {
        Ok(d) => d,
        Err(_) => {
            return Err(PyValueError::new_err(
                "timeout: a number of seconds, 0 or more, or None",
            ));
        }
    };
    let until = most.and_then(|d| Instant::now().checked_add(d));
    loop {
        let left = until.map(|t| t.saturating_duration_since(Instant::now()));
        match py.detach(|| wait(state, left)) {
            Err(e) if e.kind() == ErrorKind::Interrupted => py.check_signals()?,
            r => return r.map_err(raised),
        }
    }
}

/// Why bytes of this process take the kernel's way; `None` if they go through shared memory.
#[pyfunction]
fn why_not_carried() -> Option<String> {
    native::why_not_carried()
}

#[pymodule]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_class::<ends::Receiver>()?;
    m.add_class::<ends::Sender>()?;
    m.add_class::<events::Queue>()?;
    m.add_class::<grants::Grant>()?;
    m.add_class::<grants::WriteGrant>()?;
    m.add_function(wrap_pyfunction!(ends::pipe, m)?)?;
    m.add_function(wrap_pyfunction!(ends::fifo_receiver, m)?)?;
    m.add_function(wrap_pyfunction!(ends::fifo_sender, m)?)?;
    m.add_function(wrap_pyfunction!(ends::fifo_remove, m)?)?;
    m.add_function(wrap_pyfunction!(grants::reserve, m)?)?;
    m.add_function(wrap_pyfunction!(why_not_carried, m)?)?;
    m.add("INLINE", native::Sender::INLINE)
}
