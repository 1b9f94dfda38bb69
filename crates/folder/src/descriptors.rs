//! The descriptors that processes have open, as /proc shows them to this user.
//!
//! Invariant: a process whose first thread has ended is looked into like any other.
//! Not here: what it means that somebody has one open.
use std::collections::HashSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::OnceLock;

/// Calls `f` with the process and /proc/.../fd/N of each descriptor of the processes that `of` wants.
pub fn each(of: impl Fn(u32) -> bool, mut f: impl FnMut(u32, &Path)) {
    for p in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = p.file_name().to_str().and_then(|s| s.parse().ok()) else {
            continue;
        };
        if !of(pid) || each_in(&p.path(), |fd| f(pid, fd)) || is_kernels(&p.path()) {
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

/// Whether a process is a thread of the kernel's own, which never has a descriptor. On doubt it is none.
///
/// Most processes of a small machine are such threads. A look at the tasks of each would take as long as all the rest, and a
/// writer waits for the answer.
///
/// LINUX proc_pid_stat(5): field 9, which PF_KTHREAD is a bit of.
fn is_kernels(process: &Path) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let mut text = [0; 256];
    let read = |mut f: fs::File| f.read(&mut text);
    let n = fs::File::open(process.join("stat")).and_then(read);
    let text = String::from_utf8_lossy(&text[..n.unwrap_or(0)]);
    // The name may hold anything: field 3 is the first one behind the last ')'.
    let flags = text
        .rsplit_once(')')
        .and_then(|(_, fields)| fields.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Device and inode of the named FIFO, or with `nameless` the pipe or socket, that a descriptor is one of.
pub fn pipe(fd: &Path, nameless: bool) -> Option<(u64, u64)> {
    // Others are not asked what they are: that may take long.
    let to = fs::read_link(fd).ok()?;
    let to = to.as_os_str().as_bytes();
    if to.starts_with(b"/") {
        let m = fs::metadata(fd).ok()?;
        return m.file_type().is_fifo().then(|| (m.dev(), m.ino()));
    }
    if !nameless {
        return None;
    }
    let (kind, inode) = std::str::from_utf8(to).ok()?.split_once(":[")?;
    let dev = match kind {
        "pipe" => devices()[0],
        "socket" => devices()[1],
        _ => return None,
    };
    let known = || Some((dev?, inode.strip_suffix(']')?.parse().ok()?));
    known().or_else(|| fs::metadata(fd).ok().map(|m| (m.dev(), m.ino())))
}

/// The devices of all nameless pipes and of all sockets, as far as one of each could be made.
///
/// LINUX pipefs, sockfs: a machine has one of each, and a link to one of their files has its inode number. So nobody need
/// be asked beyond the link, which takes as long again.
fn devices() -> [Option<u64>; 2] {
    static DEVICES: OnceLock<[Option<u64>; 2]> = OnceLock::new();
    let of = |fd: Option<OwnedFd>| Some(fs::File::from(fd?).metadata().ok()?.dev());
    *DEVICES.get_or_init(|| {
        let pipe = std::io::pipe().ok().map(|(r, _)| r.into());
        let socket = UnixDatagram::unbound().ok().map(OwnedFd::from);
        [of(pipe), of(socket)]
    })
}

/// Device and inode of every pipe that a process had open from the begin of the look to its end, and of many others.
///
/// LINUX proc(5): processes are listed by id, and ids begin anew: a pipe can pass, while it is looked for, from one that is yet to
/// come to a child that would have been listed before. Its child has it still when it is looked for again.
pub fn pipes() -> HashSet<(u64, u64)> {
    let mut found = HashSet::new();
    for _ in 0..2 {
        each(|_| true, |_, fd| found.extend(pipe(fd, true)));
    }
    found
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
    let own = crate::user().to_string();
    let status = fs::read_to_string(format!("{at}/status")).unwrap_or_default();
    let ids = status.lines().find_map(|l| l.strip_prefix("Uid:"));
    ids.is_some_and(|ids| ids.split_whitespace().any(|id| id == own))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_kernels_thread_is_known_by_its_flags_alone() {
        let at = std::env::temp_dir().join(format!("byway-descriptors-{}", std::process::id()));
        fs::create_dir_all(&at).unwrap();
        let said = |stat: &str| {
            fs::write(at.join("stat"), stat).unwrap();
            is_kernels(&at)
        };
        assert!(said("77 (kdamond.0) I 2 0 0 0 -1 2129984 0 0 0"));
        assert!(said("78 (kworker/0:1-a) b) S 2 0 0 0 -1 69238880 0 0 0"));
        assert!(!said("4711 (cat) S 1 4711 4711 0 -1 4194560 90 0 0"));
        // Its name says what it likes.
        assert!(!said(
            "4712 (x) I 2 0 0 0 -1 2129984) Z 1 4712 0 0 -1 4194560 90 0"
        ));
        assert!(!said("4713 (short"));
        fs::remove_dir_all(&at).unwrap();
        assert!(!is_kernels(&at), "none that is gone");
        assert!(!is_kernels(Path::new("/proc/self")));
    }

    #[test]
    fn a_pipe_of_this_process_is_found() {
        let (r, _w) = std::io::pipe().unwrap();
        let m = fs::metadata(format!("/proc/self/fd/{}", r.as_raw_fd())).unwrap();
        assert!(pipes().contains(&(m.dev(), m.ino())));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let (a, b) = UnixDatagram::pair().unwrap();
        let found = pipes();
        for s in [a, b] {
            let m = fs::metadata(format!("/proc/self/fd/{}", s.as_raw_fd())).unwrap();
            assert!(found.contains(&(m.dev(), m.ino())));
        }
    }

    #[test]
    fn a_named_pipe_is_asked_for_and_a_file_is_none() {
        let at = std::env::temp_dir().join(format!("byway-fifo-{}", std::process::id()));
        let name = std::ffi::CString::new(at.as_os_str().as_bytes()).unwrap();
        // SAFETY: a NUL-terminated path.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let f = fs::File::options()
            .read(true)
            .write(true)
            .open(&at)
            .unwrap();
        let fd = format!("/proc/self/fd/{}", f.as_raw_fd());
        let m = f.metadata().unwrap();
        assert_eq!(pipe(Path::new(&fd), false), Some((m.dev(), m.ino())));
        fs::remove_file(&at).unwrap();
        let f = fs::File::open("/dev/null").unwrap();
        let fd = format!("/proc/self/fd/{}", f.as_raw_fd());
        assert_eq!(pipe(Path::new(&fd), true), None);
    }
}
