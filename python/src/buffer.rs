//! Memory of Python's objects: anything with the buffer protocol, as a run of bytes.
//!
//! Invariant: while a value here lives the object cannot move or shrink its memory.
//! unsafe: the buffer protocol. Not here: memory that Python gets from us (grants.rs).
use pyo3::ffi;
use pyo3::prelude::*;
use std::mem::MaybeUninit;

/// An object's bytes.
pub struct Bytes(Box<ffi::Py_buffer>);

// SAFETY: the export keeps the memory; other threads of Python that write into it meanwhile get what they ask for, as with
// any call of Python's that lets go of the lock.
unsafe impl Send for Bytes {}

impl Bytes {
    fn of(o: &Bound<'_, PyAny>, flags: i32) -> PyResult<Bytes> {
        let mut b: Box<MaybeUninit<ffi::Py_buffer>> = Box::new(MaybeUninit::uninit());
        // SAFETY: room for one Py_buffer; the interpreter is attached (`o` is bound).
        if unsafe { ffi::PyObject_GetBuffer(o.as_ptr(), b.as_mut_ptr(), flags) } != 0 {
            return Err(PyErr::fetch(o.py()));
        }
        // SAFETY: filled.
        Ok(Bytes(unsafe { b.assume_init() }))
    }
    /// To read from; contiguous.
    pub fn read(o: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        Bytes::of(o, ffi::PyBUF_SIMPLE)
    }
    /// To write into; contiguous.
    pub fn write(o: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        Bytes::of(o, ffi::PyBUF_WRITABLE)
    }
    pub fn get(&self) -> &[u8] {
        if self.0.len <= 0 {
            return &[];
        }
        // SAFETY: `len` bytes at `buf`, as long as the export is held.
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len as usize) }
    }
    pub fn get_mut(&mut self) -> &mut [u8] {
        if self.0.len <= 0 {
            return &mut [];
        }
        // SAFETY: as above, and writable (`write`).
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.0.len as usize) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: exported by `of`, released once.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}
