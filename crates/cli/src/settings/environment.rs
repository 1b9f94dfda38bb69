//! The environment's part of what a run is told.
//!
//! Invariant: the environment is read, and never changed.
//! Not here: where shared memory lies (crate folder), where baselines lie (bench/baseline.rs).
use super::programs::LISTS;
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

/// The list of programs that the environment gives option `name`.
pub fn programs(name: &str) -> Option<OsString> {
    let (_, its) = LISTS.iter().find(|(option, _)| *option == name)?;
    variable(its)
}

/// Whether no file of settings is to be read.
pub fn is_without_files() -> bool {
    variable("BYWAY_CONFIG").is_some_and(|v| v == "off")
}

/// The folder of the user's settings, of all programs; XDG has a relative one ignored.
pub fn config_folder() -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from);
    path("XDG_CONFIG_HOME")
        .filter(|d| d.is_absolute())
        .or_else(|| path("HOME").map(|d| d.join(".config")))
}

/// Whether the user has named the folder of shared memory.
pub fn names_shm() -> bool {
    std::env::var_os("BYWAY_SHM").is_some()
}

/// What the cache of rewritten texts holds if nothing else is said, MiB.
const CACHE_MIB: u64 = 256;

/// Whether the environment says how much that cache may hold.
pub fn names_cache_bytes() -> bool {
    variable("BYWAY_CACHE_MIB").is_some()
}

/// Bytes that the cache of rewritten texts may hold.
///
/// # Errors
/// A sentence: the setting is no number.
pub fn cache_bytes() -> Result<u64, String> {
    let Some(said) = variable("BYWAY_CACHE_MIB") else {
        return Ok(CACHE_MIB << 20);
    };
    let mib = said.to_str().and_then(|s| s.parse::<u32>().ok());
    mib.map(|n| u64::from(n) << 20).ok_or_else(|| {
        format!(
            "BYWAY_CACHE_MIB={}: give a number of MiB",
            said.to_string_lossy()
        )
    })
}

/// The variable that says where the cache of rewritten texts is to be; none: there is none of them.
pub fn cache_variable() -> Option<&'static str> {
    let all = ["BYWAY_CACHE", "XDG_CACHE_HOME", "HOME"];
    all.into_iter().find(|name| variable(name).is_some())
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
