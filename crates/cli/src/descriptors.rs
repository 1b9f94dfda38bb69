//! The descriptors that processes have open, as /proc shows them to this user.
//!
//! Invariant: a process whose first thread has ended is looked into like any other.
//! Not here: what it means that one has a pipe (service.rs) or a FIFO (fifo.rs) open.
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Calls `f` with the process and /proc/.../fd/N of each descriptor of the processes that `of` wants.
pub fn each(of: impl Fn(u32) -> bool, mut f: impl FnMut(u32, &Path)) {
    for p in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = p.file_name().to_str().and_then(|s| s.parse().ok()) else {
            continue;
        };
        if !of(pid) || each_in(&p.path(), |fd| f(pid, fd)) {
            continue;
        }
        // LINUX proc(5): a first thread that has ended shows none any more; the others do.
        let tasks = fs::read_dir(p.path().join("task"));
        for t in tasks.into_iter().flatten().flatten() {
            if each_in(&t.path(), |fd| f(pid, fd)) {
                break;
            }
        }
    }
}

/// True if there was one.
fn each_in(task: &Path, mut f: impl FnMut(&Path)) -> bool {
    let mut any = false;
    for fd in fs::read_dir(task.join("fd"))
        .into_iter()
        .flatten()
        .flatten()
    {
        f(&fd.path());
        any = true;
    }
    any
}

/// Whether process `pid` is this user's and shows its descriptors to nobody but root.
///
/// LINUX prctl(2): PR_SET_DUMPABLE off, as keepers of secrets have it.
pub fn are_hidden(pid: u32) -> bool {
    let at = format!("/proc/{pid}");
    let denied = |e: std::io::Error| e.kind() == ErrorKind::PermissionDenied;
    if !fs::read_dir(format!("{at}/fd")).is_err_and(denied) {
        return false;
    }
    // SAFETY: geteuid has no preconditions.
    let own = unsafe { libc::geteuid() }.to_string();
    let status = fs::read_to_string(format!("{at}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    ids.is_some_and(|ids| ids.split_whitespace().any(|id| id == own))
}
