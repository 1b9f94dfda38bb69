//! The two ends of a pipe: bytes and records.
//!
//! Invariant: an end is one thread's at a time; a second one that uses it meanwhile gets an error that says so, not a mixture.
//! Not here: Python's file interface (byway/__init__.py).
use crate::buffer::Bytes;
use crate::grants::{Grant, WriteGrant};
use crate::{raised, waiting};
use pyo3::exceptions::{PyEOFError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

fn closed() -> PyErr {
    PyValueError::new_err(
        "the end is closed; make a new pipe, or clone() an end before it is closed",
    )
}

/// A second thread's call on an end, or a signal handler's.
fn busy() -> PyErr {
    PyRuntimeError::new_err(
        "another call on this end is under way; give each thread an end of its own, by clone() before it begins, or share one \
         behind a threading.Lock; a call with a timeout comes back to be closed",
    )
}

/// What is no descriptor.
pub fn no_descriptor() -> PyErr {
    PyValueError::new_err("a descriptor is 0 or more; pass the number of one that is open")
}

fn owned(fd: i32) -> PyResult<OwnedFd> {
    if fd < 0 {
        return Err(no_descriptor());
    }
    // SAFETY: the caller gives it away, as the interface says.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// An end, or nothing once it is closed. Locked for as long as a call takes, and never waited for.
type Held<T> = Mutex<Option<T>>;

/// The end, for one call.
pub struct Call<'a, T>(MutexGuard<'a, Option<T>>);

impl<'a, T> Call<'a, T> {
    fn on(end: &'a Held<T>) -> PyResult<Call<'a, T>> {
        end.try_lock().map(Call).map_err(|_| busy())
    }

    pub fn end(&mut self) -> PyResult<&mut T> {
        self.0.as_mut().ok_or_else(closed)
    }
}

/// Where records and bytes come out.
#[pyclass(frozen, module = "byway")]
pub struct Receiver(Held<native::Receiver>);

/// Where records and bytes go in.
#[pyclass(frozen, module = "byway")]
pub struct Sender(Held<native::Sender>);

/// What both have beside their work. Two lists of methods instead of one, so that this one is written once.
macro_rules! an_end {
    ($Class:ident, $stream:ident, $Stream:ident) => {
        impl $Class {
            fn over(end: native::$Class) -> $Class {
                $Class(Mutex::new(Some(end)))
            }

            pub fn call(&self) -> PyResult<Call<'_, native::$Class>> {
                Call::on(&self.0)
            }
        }

        #[pymethods]
        impl $Class {
            /// The end whose descriptor came from elsewhere; it is this object's from now on.
            #[staticmethod]
            fn from_fd(fd: i32) -> PyResult<$Class> {
                let end = native::$Stream::from_fd(owned(fd)?).map_err(raised)?;
                Ok($Class::over(native::$Class::new(end)))
            }

            fn clone(&self) -> PyResult<$Class> {
                let end = self.call()?.end()?.try_clone().map_err(raised)?;
                Ok($Class::over(end))
            }

            fn fileno(&self) -> PyResult<i32> {
                Ok(self.call()?.end()?.as_raw_fd())
            }

            #[getter]
            fn is_carried(&self) -> PyResult<bool> {
                Ok(self.call()?.end()?.$stream().is_carried())
            }

            #[getter]
            fn closed(&self) -> bool {
                // One that is in a call is open.
                self.call().is_ok_and(|c| c.0.is_none())
            }

            /// Closes it; not while another thread is in a call on it, which would go on with what is no more.
            fn close(&self) -> PyResult<()> {
                *self.call()?.0 = None;
                Ok(())
            }

            fn __enter__(slf: Py<Self>) -> Py<Self> {
                slf
            }

            #[pyo3(signature = (*_error))]
            fn __exit__(&self, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
                self.close()
            }

            /// Gives the pipe to the kernel for good, and its descriptor to the caller.
            fn detach(&self) -> PyResult<i32> {
                let end = self.call()?.0.take().ok_or_else(closed)?;
                let fd = end.into_inner().into_fd().map_err(raised)?;
                Ok(fd.into_raw_fd())
            }
        }
    };
}
an_end!(Receiver, reader, Reader);
an_end!(Sender, writer, Writer);

#[pyfunction]
pub fn pipe() -> PyResult<(Receiver, Sender)> {
    let (r, s) = native::records().map_err(raised)?;
    Ok((Receiver::over(r), Sender::over(s)))
}

fn fifo(name: &str) -> PyResult<native::Fifo> {
    native::Fifo::new(name).map_err(raised)
}

#[pyfunction]
pub fn fifo_receiver(
    py: Python,
    name: &str,
    wait: bool,
    timeout: Option<f64>,
) -> PyResult<Receiver> {
    if !wait && timeout.is_some() {
        return Err(PyValueError::new_err(
            "wait=False opens at once, and timeout waits so long: take one of the two",
        ));
    }
    let mut f = fifo(name)?;
    let nobody = |e: io::Error| match e.kind() {
        io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::WouldBlock, e.to_string()),
        _ => e,
    };
    let attempt = |f: &mut native::Fifo| match (wait, timeout) {
        (false, _) => f.try_reader(),
        (true, Some(0.0)) => f.reader_timeout(Duration::ZERO).map_err(nobody),
        // One that looks first and then waits would be there, and gone, for a writer that comes in between.
        _ => Err(io::ErrorKind::WouldBlock.into()),
    };
    let open = |f: &mut native::Fifo, most: Option<Duration>| match most {
        None => f.reader(),
        Some(d) => f.reader_timeout(d),
    };
    let r = waiting(py, &mut f, timeout, attempt, open)?;
    Ok(Receiver::over(native::Receiver::new(r)))
}

#[pyfunction]
pub fn fifo_sender(py: Python, name: &str, timeout: Option<f64>) -> PyResult<Sender> {
    let mut f = fifo(name)?;
    let open = |f: &mut native::Fifo, most: Option<Duration>| match most {
        None => f.writer(),
        Some(d) => f.writer_timeout(d),
    };
    let attempt = |f: &mut native::Fifo| {
        f.try_writer().map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::new(
                e.kind(),
                format!(
                    "nobody reads FIFO {name:?} yet; start the other side, or call with a timeout"
                ),
            ),
            _ => e,
        })
    };
    let w = waiting(py, &mut f, timeout, attempt, open)?;
    Ok(Sender::over(native::Sender::new(w)))
}

#[pyfunction]
pub fn fifo_remove(name: &str) -> PyResult<()> {
    fifo(name)?.remove().map_err(raised)
}

/// A record that is longer than `SHORT` comes by another way.
const SHORT: usize = native::Sender::INLINE;

/// What a receiver found.
enum Got {
    Bytes(usize),
    Message(native::Message),
    End,
}

#[pymethods]
impl Receiver {
    /// The next record; EOFError at the end.
    #[pyo3(signature = (timeout=None))]
    fn receive<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyBytes>> {
        let mut b = [0; SHORT];
        let mut call = self.call()?;
        let mut state = (call.end()?, &mut b);
        type State<'a> = (&'a mut native::Receiver, &'a mut [u8; SHORT]);
        fn get(s: &mut State, most: Option<Option<Duration>>) -> io::Result<Got> {
            let n = match most {
                None => s.0.try_receive(s.1),
                Some(None) => s.0.receive(s.1),
                Some(Some(d)) => s.0.receive_timeout(s.1, d),
            };
            match n {
                Ok(Some(n)) => Ok(Got::Bytes(n)),
                Ok(None) => Ok(Got::End),
                // Longer: it is there, and found again.
                Err(e) if e.raw_os_error() == Some(90) => {
                    s.0.try_message().map(|m| m.map_or(Got::End, Got::Message))
                }
                Err(e) => Err(e),
            }
        }
        let got = waiting(
            py,
            &mut state,
            timeout,
            |s| get(s, None),
            |s, d| get(s, Some(d)),
        )?;
        match got {
            Got::Bytes(n) => Ok(PyBytes::new(py, &b[..n])),
            Got::Message(m) => Ok(PyBytes::new(py, &m)),
            Got::End => Err(PyEOFError::new_err("the last sender has closed")),
        }
    }

    /// The next record into `buffer`; how many bytes it has. EOFError at the end.
    #[pyo3(signature = (buffer, timeout=None))]
    fn receive_into(
        &self,
        py: Python,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let mut b = Bytes::write(buffer)?;
        let mut call = self.call()?;
        let mut state = (call.end()?, b.get_mut());
        let wait = |s: &mut (&mut native::Receiver, &mut [u8]), d: Option<Duration>| match d {
            None => s.0.receive(s.1),
            Some(d) => s.0.receive_timeout(s.1, d),
        };
        waiting(py, &mut state, timeout, |s| s.0.try_receive(s.1), wait)?
            .ok_or_else(|| PyEOFError::new_err("the last sender has closed"))
    }

    /// The next record without a copy: a Grant, or bytes if it was a short one. EOFError at the end.
    #[pyo3(signature = (timeout=None))]
    fn receive_grant<'py>(
        &self,
        py: Python<'py>,
        timeout: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let wait = |r: &mut &mut native::Receiver, d: Option<Duration>| match d {
            None => r.message(),
            Some(d) => r.message_timeout(d),
        };
        let mut call = self.call()?;
        let m = waiting(py, &mut call.end()?, timeout, |r| r.try_message(), wait)?;
        match m {
            Some(native::Message::Shared(g)) => Ok(Bound::new(py, Grant(g))?.into_any()),
            Some(native::Message::Copied(v)) => Ok(PyBytes::new(py, &v).into_any()),
            None => Err(PyEOFError::new_err("the last sender has closed")),
        }
    }

    /// Bytes into `buffer`; how many; 0 at the end.
    #[pyo3(signature = (buffer, timeout=None))]
    fn read_into(
        &self,
        py: Python,
        buffer: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<usize> {
        let mut b = Bytes::write(buffer)?;
        let mut call = self.call()?;
        let mut state = (call.end()?.reader(), b.get_mut());
        let wait = |s: &mut (&mut native::Reader, &mut [u8]), d: Option<Duration>| match d {
            None => s.0.read(s.1),
            Some(d) => s.0.read_timeout(s.1, d),
        };
        waiting(py, &mut state, timeout, |s| s.0.try_read(s.1), wait)
    }
}

#[pymethods]
impl Sender {
    /// Sends any object with the buffer protocol as one record.
    #[pyo3(signature = (data, timeout=None))]
    fn send(&self, py: Python, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<()> {
        let wait = |s: &mut (&mut native::Sender, &[u8]), d: Option<Duration>| match d {
            None => s.0.send(s.1),
            Some(d) => s.0.send_timeout(s.1, d),
        };
        let attempt = |s: &mut (&mut native::Sender, &[u8])| s.0.try_send(s.1);
        // Bytes never change: no export is needed.
        if let Ok(b) = data.cast::<PyBytes>() {
            let mut call = self.call()?;
            return waiting(py, &mut (call.end()?, b.as_bytes()), timeout, attempt, wait);
        }
        let b = Bytes::read(data)?;
        let mut call = self.call()?;
        waiting(py, &mut (call.end()?, b.get()), timeout, attempt, wait)
    }

    /// Sends a Grant, or a WriteGrant, which is thereby shared, without a copy. If that fails the WriteGrant can be sent again.
    #[pyo3(signature = (grant, timeout=None))]
    fn send_grant(
        &self,
        py: Python,
        grant: &Bound<'_, PyAny>,
        timeout: Option<f64>,
    ) -> PyResult<()> {
        let mut call = self.call()?;
        let end = call.end()?;
        let written = grant.cast::<WriteGrant>().ok();
        let g = if let Ok(g) = grant.cast::<Grant>() {
            g.get().0.clone()
        } else if let Some(w) = written {
            w.borrow_mut().take(None)?
        } else {
            return Err(PyTypeError::new_err("a Grant or WriteGrant"));
        };
        let wait = |s: &mut (&mut native::Sender, native::Grant), d: Option<Duration>| {
            let g = s.1.clone();
            match d {
                None => s.0.send_grant(g),
                Some(d) => s.0.send_grant_timeout(g, d),
            }
            .map_err(io::Error::from)
        };
        let attempt = |s: &mut (&mut native::Sender, native::Grant)| {
            let g = s.1.clone();
            s.0.try_send_grant(g).map_err(io::Error::from)
        };
        let mut state = (end, g);
        let sent = waiting(py, &mut state, timeout, attempt, wait);
        if let (Err(_), Some(w)) = (&sent, written) {
            w.borrow_mut().give_back(state.1);
        }
        sent
    }

    /// Writes bytes: all of them, or with a timeout as many as there was room for; how many.
    #[pyo3(signature = (data, timeout=None))]
    fn write(&self, py: Python, data: &Bound<'_, PyAny>, timeout: Option<f64>) -> PyResult<usize> {
        let b = Bytes::read(data)?;
        // The end, what is to be written, and how much of it is.
        type State<'a> = (&'a mut native::Writer, &'a [u8], usize);
        let attempt = |s: &mut State| {
            s.2 += s.0.try_write(s.1)?;
            if s.2 < s.1.len() && timeout != Some(0.0) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            Ok(s.2)
        };
        let wait = |s: &mut State, d: Option<Duration>| {
            let rest = &s.1[s.2..];
            let n = match d {
                None => s.0.write(rest),
                Some(d) => s.0.write_timeout(rest, d),
            };
            match n {
                Ok(n) => s.2 += n,
                // What was written counts.
                Err(e) if e.kind() == io::ErrorKind::TimedOut && s.2 > 0 => return Ok(s.2),
                Err(e) => return Err(e),
            }
            if s.2 < s.1.len() && d.is_none() {
                // A signal handler ended it in between.
                return Err(io::ErrorKind::Interrupted.into());
            }
            Ok(s.2)
        };
        let mut call = self.call()?;
        let mut state = (call.end()?.writer(), b.get(), 0);
        waiting(py, &mut state, timeout, attempt, wait)
    }
}
