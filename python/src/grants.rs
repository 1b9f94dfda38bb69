//! Grants as objects with the buffer protocol: numpy and memoryview see the shared memory itself.
//!
//! Invariant: an exported buffer keeps its object, and the object its memory; what is still exported for writing is not
//! shared.
//! unsafe: fills in Py_buffer.
use crate::raised;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

/// A buffer in shared memory that only this process has, to be filled.
#[pyclass(module = "byway")]
pub struct WriteGrant {
    inner: Option<native::WriteGrant>,
    /// What was shared to be sent, and could not be: nothing that was filled is lost.
    unsent: Option<native::Grant>,
    exports: usize,
}

impl WriteGrant {
    pub fn take(&mut self, size: Option<usize>) -> PyResult<native::Grant> {
        if self.exports > 0 {
            return Err(PyBufferError::new_err(
                "the grant is still being written: release its memoryviews and arrays first",
            ));
        }
        if let Some(g) = self.unsent.take() {
            let n = size.unwrap_or(g.len()).min(g.len());
            return Ok(g.slice(..n));
        }
        let Some(g) = self.inner.take() else {
            return Err(gone());
        };
        match g.share() {
            // After it, so that one that fails leaves the whole.
            Ok(g) => Ok(match size {
                Some(n) if n < g.len() => g.slice(..n),
                _ => g,
            }),
            Err(e) => {
                self.inner = Some(e.grant);
                Err(raised(e.error))
            }
        }
    }

    /// A sending that failed gives back what it took.
    pub fn give_back(&mut self, g: native::Grant) {
        self.unsent = Some(g);
    }
}

fn gone() -> PyErr {
    PyValueError::new_err("the grant was shared or sent already; reserve another")
}

/// A buffer of `size` bytes in shared memory, to be filled.
#[pyfunction]
pub fn reserve(size: usize) -> PyResult<WriteGrant> {
    let inner = Some(native::reserve(size).map_err(raised)?);
    Ok(WriteGrant {
        inner,
        unsent: None,
        exports: 0,
    })
}

#[pymethods]
impl WriteGrant {
    fn __len__(&self) -> usize {
        let unsent = self.unsent.as_ref().map_or(0, |g| g.len());
        self.inner.as_ref().map_or(unsent, |g| g.len())
    }

    /// Ends the filling, with the first `size` bytes.
    #[pyo3(signature = (size=None))]
    fn share(&mut self, size: Option<usize>) -> PyResult<Grant> {
        self.take(size).map(Grant)
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let (at, len) = match &mut slf.borrow_mut().inner {
            Some(g) => (g.as_mut_ptr(), g.len()),
            None => return Err(gone()),
        };
        // SAFETY: the interpreter's view; the memory stays while the object does.
        let r = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at.cast(), len as isize, 0, flags)
        };
        if r != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        slf.borrow_mut().exports += 1;
        Ok(())
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __releasebuffer__(&mut self, _view: *mut ffi::Py_buffer) {
        self.exports -= 1;
    }
}

/// A buffer in shared memory that several processes may have; nobody writes into it.
#[pyclass(frozen, module = "byway")]
pub struct Grant(pub native::Grant);

#[pymethods]
impl Grant {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// A part of it, which keeps all of it.
    fn slice(&self, start: usize, stop: usize) -> PyResult<Grant> {
        if start > stop || stop > self.0.len() {
            let n = self.0.len();
            return Err(PyIndexError::new_err(format!(
                "{start}:{stop} of {n} bytes"
            )));
        }
        Ok(Grant(self.0.slice(start..stop)))
    }

    /// # Safety
    /// Called by the interpreter.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let g = &slf.get().0;
        let (at, len) = (g.as_ptr().cast_mut(), g.len() as isize);
        // SAFETY: as above; marked as not writable.
        let r = unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), at.cast(), len, 1, flags) };
        if r != 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}
