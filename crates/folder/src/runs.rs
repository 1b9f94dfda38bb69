//! The files of runs' domains in the user's folder: their names, their locks, what is left of dead ones.
//!
//! Invariant: each run that shares a domain has a lock on its file for as long as it lives, in whatever pid name space. A file is
//! removed only by one that finds nobody else's lock on it, under the folder's lock.
//! Not here: what lies in such a file (crate mem), which runs share it (the program's members.rs).
use crate::lock;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How the names begin, also those of earlier versions.
const RUN: &str = "run-";
/// Digits of the number that follows. Of random bits: process ids are not one of a kind where two name spaces share the folder.
const DIGITS: usize = 16;
/// How the names of links end: the library knows itself by it.
const LINK: &str = "-libbyway_preload.so";

/// Whether `name` is a domain's: of this version, or of an earlier one, which had the maker's process id.
fn is_domain(name: &str) -> bool {
    name.strip_prefix(RUN).is_some_and(|n| {
        let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        n.len() == DIGITS && n.bytes().all(is_hex) || n.parse::<u32>().is_ok()
    })
}

/// The domain that a link's name begins with, if `name` is one's.
fn of_link(name: &str) -> Option<&str> {
    let (domain, run) = name.strip_suffix(LINK)?.rsplit_once('-')?;
    (is_domain(domain) && run.parse::<u32>().is_ok()).then_some(domain)
}

/// Where run `run` of the domain in the file `domain` has its link to a library.
pub fn link(domain: &Path, run: u32) -> PathBuf {
    let mut name = domain.as_os_str().to_owned();
    name.push(format!("-{run}{LINK}"));
    name.into()
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let all = fs::read_dir(dir).into_iter().flatten().flatten();
    all.filter_map(|e| e.file_name().into_string().ok())
}

/// The files of domains in `dir`.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let named = names(dir).filter(|n| is_domain(n));
    named.map(|n| dir.join(n)).collect()
}

fn random() -> io::Result<u64> {
    let mut bytes = [0; 8];
    // SAFETY: the buffer lives over the call. LINUX getrandom(2): so few bytes come whole.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got != bytes.len() as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::from_ne_bytes(bytes))
}

/// A new file in `dir`, which this process has. Under the folder's lock.
///
/// # Errors
/// The kernel's.
pub fn create(dir: &Path) -> io::Result<(PathBuf, File)> {
    let path = dir.join(format!("{RUN}{:0DIGITS$x}", random()?));
    let mut how = OpenOptions::new();
    let f = how
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    lock(&f, libc::LOCK_SH)?;
    Ok((path, f))
}

fn open(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    // Whatever somebody put there under such a name is not waited for.
    how.read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    how.open(path)
}

/// A domain's file, which this process has from now on. Under the folder's lock.
///
/// # Errors
/// The kernel's.
pub fn have(path: &Path) -> io::Result<File> {
    let f = open(path)?;
    lock(&f, libc::LOCK_SH)?;
    Ok(f)
}

/// Locks the file `f` so that others can ask for this process's id (crate mem, domain.rs). It may fail, and then they ask
/// /proc.
///
/// POSIX fcntl(2) F_SETLK: the lock ends when this process closes any descriptor of the file.
pub fn show_owner(f: &File) {
    // SAFETY: struct flock is valid zeroed: from the file's beginning to its end.
    let mut all: libc::flock = unsafe { std::mem::zeroed() };
    all.l_type = libc::F_RDLCK as libc::c_short;
    // SAFETY: a descriptor of ours; the struct lives over the call.
    unsafe { libc::fcntl(f.as_raw_fd(), libc::F_SETLK, &all) };
}

/// Whether nobody else has the file `f`; this process's own lock ends. Under the folder's lock.
///
/// LINUX flock(2): another kind of lock takes the place of the one that the open file has. SIGKILL releases it.
fn is_left(f: &File) -> bool {
    lock(f, libc::LOCK_EX | libc::LOCK_NB).is_ok()
}

/// Leaves the file `f` at `path`; the last one removes it. Under the folder's lock.
pub fn leave(f: &File, path: &Path) {
    if is_left(f) {
        let _ = fs::remove_file(path);
    }
}

/// Removes the domains in `dir` that nobody has, whatever is in them, and the links of those that are gone. Under the folder's lock.
pub fn sweep(dir: &Path) {
    for path in files(dir) {
        let is_dead =
            open(&path).is_ok_and(|f| f.metadata().is_ok_and(|m| m.is_file()) && is_left(&f));
        if is_dead {
            let _ = fs::remove_file(&path);
        }
    }
    for name in names(dir) {
        if of_link(&name).is_some_and(|domain| !dir.join(domain).exists()) {
            let _ = fs::remove_file(dir.join(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dead_go_and_the_others_stay() {
        let dir = std::env::temp_dir().join(format!("byway-runs-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let (used, held) = create(&dir).unwrap();
        let (dead, _) = create(&dir).unwrap();
        let link_of = |domain: &Path| {
            let at = link(domain, 7);
            std::os::unix::fs::symlink("/lib", &at).unwrap();
            at
        };
        let links = [&used, &dead].map(|d| link_of(d));
        let others = [
            "run-",
            "run-x",
            "run-12345678abcdefg",
            "run-all",
            "run-a-1-libbyway_preload.so",
            "native-1-2",
        ];
        for name in others.iter().chain(&["run-12", "run-0123456789abcdef"]) {
            fs::write(dir.join(name), "anything").unwrap();
        }
        fs::create_dir(dir.join("run-13")).unwrap();
        sweep(&dir);
        assert!(used.exists() && !dead.exists());
        assert_eq!(
            links.map(|l| fs::symlink_metadata(l).is_ok()),
            [true, false]
        );
        assert!(others.iter().all(|n| dir.join(n).exists()));
        assert!(!dir.join("run-12").exists() && !dir.join("run-0123456789abcdef").exists());
        assert!(dir.join("run-13").exists(), "no file");

        let also = have(&used).unwrap();
        leave(&held, &used);
        assert!(used.exists(), "another has it");
        leave(&also, &used);
        assert!(!used.exists());
        fs::remove_dir_all(&dir).unwrap();
    }
}
