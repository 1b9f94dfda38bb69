//! The objects that every process of a run has: libc and the dynamic loader, as this process has them.
//!
//! Invariant: the objects are only named, not opened.
//! Not here: what is made of them (cache.rs).
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// libc and the dynamic loader, as this process has them loaded.
pub fn own_objects() -> Vec<PathBuf> {
    extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, all: *mut libc::c_void) -> i32 {
        // SAFETY: the loader's for the time of the call; `all` is the list below.
        let (name, all) = unsafe {
            let name = std::ffi::CStr::from_ptr((*info).dlpi_name).to_bytes();
            (OsStr::from_bytes(name), &mut *all.cast::<Vec<PathBuf>>())
        };
        let file = Path::new(name).file_name().map(OsStr::as_bytes);
        if file.is_some_and(|f| f == b"libc.so.6" || f.starts_with(b"ld-linux")) {
            all.push(name.into());
        }
        0
    }
    let mut all: Vec<PathBuf> = Vec::new();
    // SAFETY: `note` takes what it is given; the list lives over the call.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut all).cast()) };
    all
}
