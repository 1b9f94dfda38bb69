//! A folder for files that a measurement needs, which is gone afterwards, also when the measurement is interrupted.
//!
//! Invariant: SIGINT, SIGTERM, SIGHUP and SIGPIPE (nobody reads the table any more) remove the files and the folder, then
//! do what they do. Only in the process that made it: who is forked from it leaves it alone.
//! Not here: SIGKILL, after which it stays; a SIGINT that only asks a measurement to end (interrupt.rs).
use crate::interrupt;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicPtr};

/// Names that a handler removes at most.
const NAMES: usize = 16;
/// Files first, their folder after them; null where there is none.
static LITTER: [AtomicPtr<libc::c_char>; NAMES] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; NAMES];
static OWNER: AtomicI32 = AtomicI32::new(0);

pub struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// A folder `name` in the temporary one, for files of these names.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(name: &str, files: &[&str]) -> io::Result<Scratch> {
        let dir = std::env::temp_dir().join(name);
        let paths = files.iter().map(|f| dir.join(f)).chain([dir.clone()]);
        // SAFETY: no arguments.
        OWNER.store(unsafe { libc::getpid() }, Relaxed);
        for p in paths {
            let name = CString::new(p.as_os_str().as_bytes())?.into_raw();
            let free = LITTER.iter().any(|slot| {
                let none = std::ptr::null_mut();
                // ORDER: the name is there for the handler that finds it.
                slot.compare_exchange(none, name, Release, Relaxed).is_ok()
            });
            debug_assert!(free, "more scratch files than a handler knows");
        }
        handle_signals();
        std::fs::create_dir(&dir)?;
        Ok(Scratch { dir })
    }
    pub fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
        for slot in &LITTER {
            // ORDER: pairs with `create`. The name itself stays: a handler may be looking at it.
            let name = slot.load(Acquire);
            if !name.is_null() && self.is_mine(name) {
                slot.store(std::ptr::null_mut(), Relaxed);
            }
        }
    }
}

impl Scratch {
    fn is_mine(&self, name: *const libc::c_char) -> bool {
        // SAFETY: a C string of `create`, which is never freed.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())).starts_with(&self.dir)
    }
}

/// Bytes that a file of this user may have in `dir`.
///
/// # Errors
/// It is not there.
pub fn room(dir: &Path) -> io::Result<u64> {
    let name = CString::new(dir.as_os_str().as_bytes())?;
    // SAFETY: a C string, and a struct of ours that is filled.
    unsafe {
        let mut v: libc::statvfs = std::mem::zeroed();
        match libc::statvfs(name.as_ptr(), &mut v) {
            0 => Ok(v.f_bavail * v.f_frsize),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// From now on signals that end the program clear first; or, if Ctrl-C is watched for, only ask (interrupt.rs).
pub(crate) fn handle_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGPIPE] {
        // SAFETY: `clear` only makes async-signal-safe calls.
        unsafe { libc::signal(signal, clear as *const () as libc::sighandler_t) };
    }
}

/// The handler.
extern "C" fn clear(signal: libc::c_int) {
    if interrupt::only_asks(signal) {
        return;
    }
    // SAFETY: unlink, rmdir, signal and raise are async-signal-safe; the names are C strings that are never freed.
    unsafe {
        if libc::getpid() == OWNER.load(Relaxed) {
            for slot in &LITTER {
                // ORDER: pairs with `create`.
                let name = slot.load(Acquire);
                if !name.is_null() && libc::unlink(name) != 0 {
                    libc::rmdir(name);
                }
            }
        }
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gone_with_the_value() {
        let name = format!("byway-scratch-{}", std::process::id());
        let s = Scratch::create(&name, &["a"]).unwrap();
        let dir = s.path().to_owned();
        std::fs::write(dir.join("a"), "x").unwrap();
        drop(s);
        assert!(!dir.exists());
        let left = |slot: &AtomicPtr<libc::c_char>| {
            let p = slot.load(Relaxed);
            if p.is_null() {
                return false;
            }
            // SAFETY: a C string that is never freed.
            let p = unsafe { std::ffi::CStr::from_ptr(p) };
            p.to_string_lossy().contains(&name)
        };
        assert!(!LITTER.iter().any(left));
    }
}
