//! A native domain's folder: what lies in it, and what is left of one that nobody has any more.
//!
//! Invariant: nothing in it is removed but under the folder's lock, and only while nobody has a lock on `memory`, which every
//! process that uses the domain holds through a mapping.
//! Not here: joining, making (the library's home.rs). The locks are the same in every version, so that one may remove another's.
use crate::lock;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// How the names of these folders begin.
const NATIVE: &str = "native-";
/// The domain's memory.
pub const MEMORY: &str = "memory";

/// The folder of the domain of this version and pid name space, in the user's folder.
pub fn folder(above: &Path, version: u32, space: u64) -> PathBuf {
    above.join(format!("{NATIVE}{version}-{space}"))
}

/// Opens a file that is no link.
///
/// # Errors
/// The kernel's.
pub fn open(path: &Path) -> io::Result<File> {
    let mut how = fs::OpenOptions::new();
    how.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    how.open(path)
}

/// Removes what the dead left in a folder: their memory, and their FIFOs.
pub fn empty(dir: &Path) {
    for e in fs::read_dir(dir).into_iter().flatten().flatten() {
        let _ = fs::remove_file(e.path());
    }
}

/// Removes the domains in `above` that nobody has: of processes that were all killed, of other versions, of name spaces that
/// are gone. Whoever is about to join one finds that its folder went, and makes it again.
pub fn sweep(above: &Path) {
    for e in fs::read_dir(above).into_iter().flatten().flatten() {
        let is_native = e
            .file_name()
            .to_str()
            .is_some_and(|n| n.starts_with(NATIVE));
        // Of the entry itself: a link is none.
        if is_native && e.file_type().is_ok_and(|t| t.is_dir()) {
            sweep_one(&e.path());
        }
    }
}

fn sweep_one(dir: &Path) {
    let Ok(held) = File::open(dir) else { return };
    // Who has it now joins, or leaves.
    if lock(&held, libc::LOCK_EX | libc::LOCK_NB).is_err() {
        return;
    }
    let is_dead = match open(&dir.join(MEMORY)) {
        Ok(memory) => lock(&memory, libc::LOCK_EX | libc::LOCK_NB).is_ok(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    };
    if is_dead {
        empty(dir);
        let _ = fs::remove_dir(dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold;

    #[test]
    fn of_three_folders_the_used_one_stays() {
        let above = std::env::temp_dir().join(format!("byway-folder-{}", std::process::id()));
        let [dead, used, joining] = [1, 2, 3].map(|n| folder(&above, n, 7));
        for dir in [&dead, &used, &joining] {
            fs::create_dir_all(dir).unwrap();
            fs::write(dir.join(MEMORY), "").unwrap();
            fs::write(dir.join("a-fifo"), "").unwrap();
        }
        let memory = open(&used.join(MEMORY)).unwrap();
        lock(&memory, libc::LOCK_SH).unwrap();
        let joins = hold(&joining).unwrap();
        sweep(&above);
        assert!(!dead.exists());
        assert!(used.join("a-fifo").exists() && joining.join("a-fifo").exists());

        drop((memory, joins));
        fs::create_dir(above.join("another")).unwrap();
        std::os::unix::fs::symlink(above.join("another"), above.join("native-link")).unwrap();
        sweep(&above);
        let mut left: Vec<_> = fs::read_dir(&above)
            .unwrap()
            .flatten()
            .map(|e| e.file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["another", "native-link"]);
        fs::remove_dir_all(&above).unwrap();
    }
}
