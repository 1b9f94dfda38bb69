//! The environment's part of what a run is told.
//!
//! Invariant: the environment is read, and never changed.
//! Not here: where shared memory lies (crate folder), where baselines lie (bench/baseline.rs).
use std::ffi::OsString;
use std::path::PathBuf;

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|v| !v.is_empty())
}

/// Whether every pipe is left to the kernel.
pub fn is_off() -> bool {
    variable("BYWAY").is_some_and(|v| v == "off")
}

/// Whether restartable sequences are not to be used.
pub fn is_without_rseq() -> bool {
    variable("BYWAY_RSEQ").is_some_and(|v| v == "off")
}

/// Whether the user has named the folder of shared memory.
pub fn names_shm() -> bool {
    std::env::var_os("BYWAY_SHM").is_some()
}

/// The cache of rewritten texts: where it is to be.
pub fn cache_folder() -> PathBuf {
    let path = |name| variable(name).map(PathBuf::from);
    let dir = path("BYWAY_CACHE")
        .or_else(|| path("XDG_CACHE_HOME").map(|d| d.join("byway")))
        .or_else(|| path("HOME").map(|d| d.join(".cache/byway")))
        .unwrap_or_else(|| {
            // SAFETY: geteuid has no preconditions.
            let uid = unsafe { libc::geteuid() };
            std::env::temp_dir().join(format!("byway-{uid}"))
        });
    // The command may change its folder.
    std::path::absolute(&dir).unwrap_or(dir)
}
