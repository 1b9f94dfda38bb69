//! What the runs' domains and the native library's have in common: the user's folder of shared memory, and the look for who has which
//! pipe open.
//!
//! Invariant: a folder is used only if it is this user's and nobody else can write into it.
//! Not here: what lies in it (a native domain's part: native.rs; the runs' part: runs.rs). It is a crate of its own because it needs std, which the preload library's crates have not.
pub mod descriptors;
pub mod native;
pub mod pipes;
pub mod quota;
pub mod runs;

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The folder: `BYWAY_SHM`, or the usual one. Absolute: the command may change its own.
pub fn folder() -> PathBuf {
    match std::env::var_os("BYWAY_SHM") {
        None => PathBuf::from(format!("/dev/shm/byway-{}", user())),
        Some(dir) => std::path::absolute(&dir).unwrap_or(dir.into()),
    }
}

/// The effective user's id.
pub fn user() -> u32 {
    // SAFETY: no preconditions.
    unsafe { libc::geteuid() }
}

/// Makes the folder `dir` if it is not there, and checks whose it is. One that somebody removes meanwhile, because it is empty,
/// is no error: its user finds out, and tries again.
///
/// # Errors
/// A sentence: what is wrong with it, and what to try.
pub fn usable(dir: &Path) -> Result<(), String> {
    let say = |e: io::Error| {
        format!(
            "shared-memory folder {}: {e}; set BYWAY_SHM to a folder of yours on a tmpfs",
            dir.display()
        )
    };
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(say(e)),
        _ => {}
    }
    let m = match fs::symlink_metadata(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        m => m.map_err(say)?,
    };
    if !m.is_dir() || m.uid() != user() || m.mode() & 0o022 != 0 {
        return Err(format!(
            "shared-memory folder {}: not a folder that only you can write; chmod 700 it, remove it, or set BYWAY_SHM to another",
            dir.display()
        ));
    }
    Ok(())
}

/// Holds a folder until the value is dropped.
///
/// # Errors
/// The kernel's: it is not there.
pub fn hold(dir: &Path) -> io::Result<File> {
    let f = File::open(dir)?;
    lock(&f, libc::LOCK_EX)?;
    Ok(f)
}

/// flock(2).
///
/// # Errors
/// The kernel's; `WouldBlock` with LOCK_NB: somebody has it.
pub fn lock(f: &File, how: i32) -> io::Result<()> {
    loop {
        // SAFETY: a descriptor of ours.
        if unsafe { libc::flock(f.as_raw_fd(), how) } == 0 {
            return Ok(());
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
