//! Processes that hold a FIFO, as /proc shows them to this user.
//!
//! Invariant: nothing is opened and nothing is changed. A process that /proc does not show is not found.
//! Not here: whether such a process takes part, and what follows from that (fifo.rs).
use byway_folder::descriptors;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A descriptor of the FIFO.
pub struct Holder {
    pub pid: u32,
    pub key: (u64, u64),
    /// /proc/PID/fd/N
    pub path: PathBuf,
}

/// Every descriptor of these FIFOs that the processes have which `wants` names.
pub fn of(keys: &[(u64, u64)], wants: impl Fn(u32) -> bool) -> Vec<Holder> {
    let mut v = Vec::new();
    if keys.is_empty() {
        return v;
    }
    each(wants, |pid, path, key| {
        if keys.contains(&key) {
            v.push(Holder {
                pid,
                key,
                path: path.to_owned(),
            });
        }
    });
    v
}

/// Whether only this process has the FIFO.
pub fn abandoned(dev: u64, ino: u64) -> bool {
    let me = std::process::id();
    of(&[(dev, ino)], |pid| pid != me).is_empty()
}

/// When process `pid` started, in ticks since boot (proc_pid_stat(5), field 22).
pub fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(19)?
        .parse()
        .ok()
}

/// Calls `f` with each descriptor of a named FIFO of the processes that `of` wants: process, /proc/PID/fd/N, device and
/// inode.
pub fn each(of: impl Fn(u32) -> bool, mut f: impl FnMut(u32, &Path, (u64, u64))) {
    descriptors::each(of, |pid, path| {
        if let Some(key) = descriptors::pipe(path, false) {
            f(pid, path, key);
        }
    });
}

/// Whether the FIFO is this user's: one of another's is more often read by somebody whom this user does not see.
pub fn is_own(path: &Path) -> bool {
    // SAFETY: geteuid has no preconditions.
    let uid = unsafe { libc::geteuid() };
    uid == 0 || fs::metadata(path).is_ok_and(|m| m.uid() == uid)
}
