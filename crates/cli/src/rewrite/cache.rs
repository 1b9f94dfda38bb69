//! The folder of rewritten texts: one file an object, which later runs use again.
//!
//! Invariant: a file is complete and nobody else can have written it, or it does not count and is made anew (written under
//! another name, then renamed). Its name is the identity of the object it was made from: a changed object is a new name.
//! Not here: the folder itself (folder.rs); what is in a file (image.rs); whether a process has that very object mapped (the preload
//! library).
use super::folder::is_trusted;
use super::image;
use super::upkeep;
use super::verdict::{Object, verdict};
use crate::settings::environment;
use byway_sys::cached::VERSION;
use byway_sys::process;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read, Result, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// File systems count time in steps of at most this: two changes within one step have the same time.
const TIME_STEP: Duration = Duration::from_millis(20);
/// No process writes a file for as long as this.
const STALE: Duration = Duration::from_secs(60);
/// A program maps all kinds of files as code; larger ones have no text that could be rewritten.
const OBJECT_MOST: u64 = 4 << 30;
/// Hexadecimal digits of a name's five numbers.
const DIGITS: [usize; 5] = [16, 16, 16, 8, 16];

/// A file's name for an object: device, inode, time of its last change, size, and the version of this rewriter. The time of
/// the last change is the kernel's own: no program can set it back.
pub(super) fn name_of(m: &fs::Metadata) -> String {
    format!(
        "{:016x}-{:016x}-{:016x}-{:08x}-{:016x}.v{VERSION}",
        m.dev(),
        m.ino(),
        m.ctime(),
        m.ctime_nsec(),
        m.size()
    )
}

/// The version of the rewriter that gives a file this name.
pub(super) fn version_of(name: &str) -> Option<u32> {
    let (numbers, version) = name.rsplit_once(".v")?;
    let is_hex = |s: &str| s.bytes().all(|c| c.is_ascii_hexdigit());
    let ours = numbers.split('-').map(str::len).eq(DIGITS) && numbers.split('-').all(is_hex);
    if ours { version.parse().ok() } else { None }
}

/// Whether this version of the rewriter gives a file this name.
pub(super) fn is_current(name: &str) -> bool {
    version_of(name) == Some(VERSION)
}

/// Sees to it that the cache has an answer for the object at `path`; the reason if it cannot take part.
///
/// # Errors
/// Reading the object or writing the cache failed.
pub fn ensure(dir: &Path, path: &Path) -> Result<Option<String>> {
    let mut object = regular(path)?;
    let m = object.metadata()?;
    let name = name_of(&m);
    let file = dir.join(&name);
    // All of it is read now and then (`renew`), and by `byway doctor`: at each start that would take a sixteenth of its time.
    if let Some(found) = valid(&file, image::begun) {
        return Ok(found.unable());
    }
    let bytes = unchanged(&mut object, &m)?;
    let (mut bytes, why) = match verdict(&bytes) {
        Object::Clean(v) | Object::Shadow(v, _) => (v, None),
        Object::Unable(why) => (image::unable(&why), Some(why)),
    };
    // A descriptor's path is another one soon.
    let from = fs::canonicalize(path).unwrap_or_default();
    image::put_path(&mut bytes, from.as_os_str().as_bytes());
    // First, for they may fill the disk.
    sweep(dir);
    let most = environment::cache_bytes().unwrap_or(u64::MAX);
    upkeep::make_room(dir, most, bytes.len() as u64);
    put(dir, &name, &bytes, 0o600).map(|()| why)
}

/// Makes the file `name` in `dir`, in the place of one that is there: whoever opens it finds all of it.
///
/// # Errors
/// The kernel's; then nothing has changed.
pub fn put(dir: &Path, name: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    // Process ids are those of one name space; several of them may share the folder.
    let tmp = dir.join(format!(
        ".{name}.{}-{:x}",
        std::process::id(),
        now.as_nanos()
    ));
    let made = write(&tmp, bytes, mode).and_then(|()| fs::rename(&tmp, dir.join(name)));
    made.inspect_err(|_| drop(fs::remove_file(&tmp)))
}

/// What the cache says of an object.
#[derive(PartialEq, Eq, Debug)]
pub enum Answer {
    Clean,
    Rewritten,
    /// It cannot take part, and why.
    Unable(String),
}

/// The cache's answer for the object at `path`, made if there is none: what a run's processes go by.
///
/// # Errors
/// As `ensure`; and where the answer is gone at once.
pub fn answer(dir: &Path, path: &Path) -> Result<Answer> {
    if let Some(why) = ensure(dir, path)? {
        return Ok(Answer::Unable(why));
    }
    let file = dir.join(name_of(&fs::metadata(path)?));
    match valid(&file, image::begun).map(|f| f.is_clean()) {
        Some(true) => Ok(Answer::Clean),
        Some(false) => Ok(Answer::Rewritten),
        None => Err(Error::other("its answer in the cache is gone")),
    }
}

/// Reads all of what the cache has for the object at `path`, and makes it anew if it is not as it was written.
///
/// # Errors
/// Reading the object or writing the cache failed.
pub fn renew(dir: &Path, path: &Path) -> Result<()> {
    let file = dir.join(name_of(&regular(path)?.metadata()?));
    if valid(&file, image::begun).is_some() && valid(&file, image::whole).is_none() {
        fs::remove_file(&file)?;
    }
    ensure(dir, path).map(|_| ())
}

fn write(tmp: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let mut f = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(tmp)?;
    f.write_all(bytes)?;
    // LINUX rename(2) may reach the disk before the bytes do.
    f.sync_all()
}

/// Opens an object. A FIFO would keep us waiting, and a device may do something when it is opened.
fn regular(path: &Path) -> Result<File> {
    let found = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path)?;
    if !found.metadata()?.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))
}

/// How much of a cache file is read to know whether it counts.
pub(super) type Check = fn(File, u64) -> Option<image::Found>;

/// What the cache file at `path` says, if it counts.
fn valid(path: &Path, check: Check) -> Option<image::Found> {
    counts(open(path, 0).ok()?, check)
}

/// The same without a use of the file: which ones go depends on the times of access.
pub(super) fn glance(path: &Path, check: Check) -> Option<image::Found> {
    // LINUX open(2), O_NOATIME: of root's files for root alone.
    let f = open(path, libc::O_NOATIME).or_else(|_| open(path, 0));
    counts(f.ok()?, check)
}

fn open(path: &Path, how: i32) -> Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | how)
        .open(path)
}

fn counts(f: File, check: Check) -> Option<image::Found> {
    let m = f.metadata().ok()?;
    is_own(&m).then(|| check(f, m.size()))?
}

/// Whether `m` is of a regular file that nobody else can write.
fn is_own(m: &fs::Metadata) -> bool {
    m.is_file() && is_trusted(m.uid()) && m.mode() & 0o022 == 0
}

/// The file at `path`, if it has just `size` bytes and nobody else can write it.
pub fn own(path: &Path, size: u64) -> Option<File> {
    let f = open(path, 0).ok()?;
    let m = f.metadata().ok()?;
    (is_own(&m) && m.size() == size).then_some(f)
}

/// The bytes of an object that is what `m` says, before they are read and afterwards.
fn unchanged(object: &mut File, m: &fs::Metadata) -> Result<Vec<u8>> {
    let changed = SystemTime::UNIX_EPOCH + Duration::new(m.ctime() as u64, m.ctime_nsec() as u32);
    // A later change must get a later time.
    if let Ok(age) = changed.elapsed()
        && age < TIME_STEP
    {
        std::thread::sleep(TIME_STEP - age);
    }
    let large = || Error::other("it is too large");
    if m.size() > OBJECT_MOST {
        return Err(large());
    }
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(m.size() as usize + 1)
        .map_err(|_| large())?;
    object.take(m.size() + 1).read_to_end(&mut bytes)?;
    if name_of(&object.metadata()?) != name_of(m) {
        return Err(Error::other("it changed while it was read"));
    }
    Ok(bytes)
}

/// Removes what rewriters of older versions left, and what processes that have ended did not finish. Of two versions that are in use
/// only one removes the other's.
fn sweep(dir: &Path) {
    for e in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = e.file_name();
        let Some(name) = name.to_str() else { continue };
        let old = version_of(name).is_some_and(|v| v < VERSION);
        if old || (is_of_the_dead(name) && is_stale(&e)) {
            let _ = fs::remove_file(e.path());
        }
    }
}

/// Whether this is the name of an unfinished file whose process has ended.
fn is_of_the_dead(name: &str) -> bool {
    let parts = name.strip_prefix('.').and_then(|n| n.rsplit_once('.'));
    let Some((of, writer)) = parts else {
        return false;
    };
    let pid = writer.split('-').next().and_then(|p| p.parse().ok());
    // Where ids begin anew, the dead process may have had ours.
    version_of(of).is_some() && pid.is_some_and(|p| p == std::process::id() || process::is_gone(p))
}

/// In another name space a process that has an id that is free here may be writing.
fn is_stale(e: &fs::DirEntry) -> bool {
    let age = e.metadata().and_then(|m| m.modified());
    age.is_ok_and(|t| t.elapsed().is_ok_and(|a| a > STALE))
}

/// What a look at every file of the cache found.
#[derive(Default, PartialEq, Debug)]
pub struct Verified {
    pub whole: usize,
    /// Damaged, and removed.
    pub removed: usize,
    /// Damaged or unreadable, and still there.
    pub stuck: usize,
}

/// Reads every file of this version in full, and removes those that do not count.
pub fn verify(dir: &Path) -> Verified {
    let mut v = Verified::default();
    for e in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = e.file_name();
        if !name.to_str().is_some_and(is_current) {
            continue;
        }
        let n = if glance(&e.path(), image::whole).is_some() {
            &mut v.whole
        } else if fs::remove_file(e.path()).is_ok() {
            &mut v.removed
        } else {
            &mut v.stuck
        };
        *n += 1;
    }
    v
}

#[cfg(test)]
mod tests;
