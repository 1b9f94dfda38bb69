//! Where a backend's files are that have names: a folder in /dev/shm, and shared memory whose names begin as the folder's.
//!
//! Invariant: the folder is locked by whoever made it and by all that it forked (flock(2)); what nobody locks is litter,
//! and nobody else removes anything. The lock goes with the last of them, however they end.
//! Not here: what the files are.
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const MEMORY: &str = "/dev/shm";
const PREFIX: &str = "byway-bench-";
/// Longer than it takes to end processes that are ending.
const PATIENCE: Duration = Duration::from_secs(5);

/// A name that no other run has.
pub fn name() -> String {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let (me, run) = (std::process::id(), RUNS.fetch_add(1, Relaxed));
    format!("{PREFIX}{me}-{run}")
}

/// The folder of that name.
pub fn folder(name: &str) -> PathBuf {
    Path::new(MEMORY).join(name)
}

/// What the names of shared memory begin with.
pub fn prefix(name: &str) -> String {
    format!("{name}_")
}

/// The place, which goes with its value.
pub struct Place {
    name: String,
    _lock: File,
}

impl Place {
    /// # Errors
    /// The folder is there and stays, or cannot be made.
    pub fn make(name: &str) -> io::Result<Place> {
        let mut why = io::ErrorKind::AlreadyExists.into();
        for _ in 0..10 {
            let made = DirBuilder::new().mode(0o700).create(folder(name));
            // Between the two a sweep may take it for litter; then once more.
            match made.and_then(|()| lock(name)) {
                Ok(Some(lock)) if folder(name).exists() => {
                    let name = name.into();
                    return Ok(Place { name, _lock: lock });
                }
                Ok(_) => {}
                Err(e) => why = e,
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(why)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// The lock of that folder; `None` if somebody has it.
fn lock(name: &str) -> io::Result<Option<File>> {
    let f = File::open(folder(name))?;
    // SAFETY: our own descriptor.
    if unsafe { libc::flock(f.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Some(f));
    }
    match io::Error::last_os_error() {
        e if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        e => Err(e),
    }
}

/// Removes all of that name, the folder last: while it is there it will be found.
fn remove(name: &str) {
    let prefix = prefix(name);
    for e in entries() {
        if e.as_bytes().starts_with(prefix.as_bytes()) {
            let _ = fs::remove_file(Path::new(MEMORY).join(e));
        }
    }
    let _ = fs::remove_dir_all(folder(name));
}

fn entries() -> Vec<std::ffi::OsString> {
    let all = fs::read_dir(MEMORY).into_iter().flatten().flatten();
    all.map(|e| e.file_name()).collect()
}

/// Removes what a run has left that was killed, once the last of its processes has gone.
pub fn clear(name: &str) {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        match lock(name) {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(_lock)) => return remove(name),
            // It was never made, or is gone.
            Err(_) => return,
        }
    }
}

/// Removes what runs have left of whom nothing else is.
pub fn sweep() {
    let ours = |e: &OsStr| Some(e.to_str()?.strip_prefix(PREFIX)?.contains('_'));
    for e in entries() {
        if ours(&e) == Some(false) {
            let name = e.to_string_lossy();
            if let Ok(Some(_lock)) = lock(&name) {
                remove(&name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment of that name.
    fn segment(name: &str) -> PathBuf {
        Path::new(MEMORY).join(prefix(name) + "segment")
    }

    #[test]
    fn it_goes_with_its_files() {
        let name = name();
        let place = Place::make(&name).unwrap();
        fs::write(segment(&name), "x").unwrap();
        fs::create_dir(folder(&name).join("nodes")).unwrap();
        // Somebody else's: the name only begins alike.
        let other = Path::new(MEMORY).join(format!("{name}0"));
        fs::write(&other, "x").unwrap();
        assert!(Place::make(&name).is_err());
        // What is locked is in use.
        sweep();
        assert!(segment(&name).exists());
        drop(place);
        assert!(!segment(&name).exists() && !folder(&name).exists() && other.exists());
        fs::remove_file(other).unwrap();
    }

    #[test]
    fn what_the_dead_left_is_cleared_and_swept() {
        for clears in [true, false] {
            let name = name();
            // As SIGKILL leaves it: the lock is gone, nothing else.
            let place = Place::make(&name).unwrap();
            fs::write(segment(&name), "x").unwrap();
            // SAFETY: as the end of the process would.
            unsafe { libc::flock(place._lock.as_raw_fd(), libc::LOCK_UN) };
            std::mem::forget(place);
            if clears {
                clear(&name);
            } else {
                sweep();
            }
            assert!(!segment(&name).exists() && !folder(&name).exists());
            clear(&name);
        }
    }
}
