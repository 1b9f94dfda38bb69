//! The event queue: what byway/events.py makes a Queue of.
//!
//! Invariant: the interpreter's lock is not held while a thread waits.
//! Not here: what the caller gives along with an entry (Python keeps it).
use crate::ends::{Receiver, Sender, no_descriptor};
use crate::raised;
use native::events::{Change, Event, Filter, Flags};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A queue; several threads may use it at once.
#[pyclass(frozen, module = "byway.events")]
pub struct Queue(native::events::Queue);

fn filter(n: i16) -> PyResult<Filter> {
    [Filter::Read, Filter::Write, Filter::Timer, Filter::User]
        .into_iter()
        .find(|f| *f as i16 == n)
        .ok_or_else(|| PyValueError::new_err("a filter: READ, WRITE, TIMER or USER"))
}

fn seconds(s: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(s)
        .map_err(|_| PyValueError::new_err("a time: a number of seconds, 0 or more"))
}

/// ident, filter, flags, data, token.
type Told = (u64, i16, u16, i64, u64);

#[pymethods]
impl Queue {
    #[new]
    fn new() -> PyResult<Queue> {
        native::events::Queue::new().map(Queue).map_err(raised)
    }

    fn fileno(&self) -> i32 {
        self.0.as_raw_fd()
    }

    fn receiver(&self, end: &Receiver, flags: u16, token: u64) -> PyResult<u64> {
        let mut call = end.call()?;
        let end = call.end()?;
        let ident = end.as_raw_fd() as u64;
        let c = Change::read(end).flags(Flags::from_bits(flags));
        self.0.apply(c.udata(token)).map_err(raised)?;
        Ok(ident)
    }

    fn sender(&self, end: &Sender, flags: u16, token: u64) -> PyResult<u64> {
        let mut call = end.call()?;
        let end = call.end()?;
        let ident = end.as_raw_fd() as u64;
        let c = Change::write(end).flags(Flags::from_bits(flags));
        self.0.apply(c.udata(token)).map_err(raised)?;
        Ok(ident)
    }

    fn descriptor(&self, fd: i32, of: i16, flags: u16, token: u64) -> PyResult<u64> {
        if fd < 0 {
            return Err(no_descriptor());
        }
        // SAFETY: of a descriptor that is not open, epoll says so.
        let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
        let c = match filter(of)? {
            Filter::Read => Change::read(borrowed),
            Filter::Write => Change::write(borrowed),
            _ => return Err(PyValueError::new_err("of a descriptor: READ or WRITE")),
        };
        let c = c.flags(Flags::from_bits(flags)).udata(token);
        self.0.apply(c).map_err(raised)?;
        Ok(fd as u64)
    }

    fn user(&self, ident: u64, flags: u16, token: u64) -> PyResult<()> {
        let c = Change::user(ident).flags(Flags::from_bits(flags));
        self.0.apply(c.udata(token)).map_err(raised)
    }

    fn timer(&self, ident: u64, every: f64, flags: u16, token: u64) -> PyResult<()> {
        let c = Change::timer(ident, seconds(every)?).flags(Flags::from_bits(flags));
        self.0.apply(c.udata(token)).map_err(raised)
    }

    fn entry(&self, ident: u64, of: i16, flags: u16, token: u64) -> PyResult<()> {
        let c = Change::entry(ident, filter(of)?, Flags::from_bits(flags));
        self.0.apply(c.udata(token)).map_err(raised)
    }

    fn trigger(&self, ident: u64, data: i64) -> PyResult<()> {
        self.0.trigger(ident, data).map_err(raised)
    }

    fn wait(&self, py: Python, most: usize, timeout: Option<f64>) -> PyResult<Vec<Told>> {
        let until = match timeout.map(seconds).transpose()? {
            Some(d) => Instant::now().checked_add(d),
            None => None,
        };
        let mut events = vec![Event::default(); most.clamp(1, 1024)];
        let n = loop {
            let left = until.map(|t| t.saturating_duration_since(Instant::now()));
            let found = if left.is_some_and(|d| d.is_zero()) {
                self.0.wait(&mut events, left)
            } else {
                py.detach(|| self.0.wait(&mut events, left))
            };
            match found {
                Err(e) if e.kind() == ErrorKind::Interrupted => py.check_signals()?,
                n => break n.map_err(raised)?,
            }
        };
        let told = |e: &Event| (e.ident, e.filter as i16, e.flags.bits(), e.data, e.udata);
        Ok(events[..n].iter().map(told).collect())
    }
}
