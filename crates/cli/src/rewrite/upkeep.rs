//! The cache's size: which files it has, which of them go.
//!
//! Invariant: only files go whose names the rewriter gives. One that goes is made again when it is needed; a process that
//! has it mapped keeps it.
//! Not here: whether a file is as it was written (cache.rs).
use super::cache::{glance, is_current, name_of, version_of};
use super::{image, own_objects};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A file whose object is gone stays so long: the object may be there for another mount name space.
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A file of the cache.
pub struct Kept {
    file: PathBuf,
    pub bytes: u64,
    /// When it was last used, as its file system has it: with `relatime` to the day, with `noatime` when it was made.
    pub used: SystemTime,
    /// The object that it was made from, as far as that is known.
    pub object: Option<PathBuf>,
    /// Nothing is at that path any more, or another object.
    pub is_gone: bool,
    pub says: &'static str,
}

/// The files of the cache that this version goes by, the last used one first. To list them is no use of them.
pub fn files(dir: &Path) -> Vec<Kept> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut all: Vec<_> = entries.filter_map(|e| kept(e.path())).collect();
    all.sort_by_key(|k| std::cmp::Reverse(k.used));
    all
}

fn kept(file: PathBuf) -> Option<Kept> {
    let name = file.file_name()?.to_str()?.to_owned();
    let m = fs::symlink_metadata(&file).ok().filter(|m| m.is_file())?;
    if !is_current(&name) {
        return None;
    }
    let found = glance(&file, image::begun);
    let path = |f: &image::Found| f.path().map(|p| PathBuf::from(OsStr::from_bytes(p)));
    let object = found.as_ref().and_then(path);
    let is_gone = object
        .as_ref()
        .is_some_and(|o| fs::metadata(o).map_or(true, |m| name_of(&m) != name));
    Some(Kept {
        bytes: m.blocks() * 512,
        used: m.modified().ok()?.max(m.accessed().ok()?),
        says: match &found {
            None => "damaged",
            Some(f) if f.is_clean() => "clean",
            Some(f) if f.unable().is_some() => "unable",
            Some(_) => "rewritten",
        },
        file,
        object,
        is_gone,
    })
}

/// Before `coming` bytes more are written: what belongs to objects that are gone goes, and as many of those that were not
/// used for longest as are more than `most`. The files of libc and its loader, which every start needs, stay.
pub fn make_room(dir: &Path, most: u64, coming: u64) {
    let (gone, mut left): (Vec<_>, Vec<_>) = files(dir)
        .into_iter()
        .partition(|k| k.is_gone && k.used.elapsed().is_ok_and(|age| age > DAY));
    for k in gone {
        let _ = fs::remove_file(&k.file);
    }
    let mut all = left.iter().map(|k| k.bytes).sum::<u64>() + coming;
    if all <= most {
        return;
    }
    let own: Vec<_> = own_objects()
        .iter()
        .filter_map(|o| fs::metadata(o).ok())
        .map(|m| dir.join(name_of(&m)))
        .collect();
    left.retain(|k| !own.contains(&k.file));
    while all > most
        && let Some(k) = left.pop()
    {
        if fs::remove_file(&k.file).is_ok() {
            all -= k.bytes;
        }
    }
}

/// Removes every file of the rewriter's, of whatever version; how many, and their bytes.
///
/// # Errors
/// The kernel's, of the first that cannot be removed.
pub fn clear(dir: &Path) -> std::io::Result<(usize, u64)> {
    let (mut n, mut bytes) = (0, 0);
    for e in fs::read_dir(dir)?.flatten() {
        let m = e.metadata()?;
        if e.file_name().to_str().and_then(version_of).is_some() && m.is_file() {
            fs::remove_file(e.path())?;
            (n, bytes) = (n + 1, bytes + m.blocks() * 512);
        }
    }
    Ok((n, bytes))
}

#[cfg(test)]
mod tests;
