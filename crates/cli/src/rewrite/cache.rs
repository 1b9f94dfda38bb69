//! The folder of rewritten texts: one file an object, kept from run to run.
//!
//! Invariant: a file is complete and owned by this user, or it is not there (written beside and renamed). Its name is the
//! identity of the object it was made from: a changed object is a new name.
//! Not here: what is in a file (image.rs); whether a process has that very object mapped (the preload library).
use super::{Object, image, verdict};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Of the rewriter and its files; the preload library looks for the same.
const VERSION: &str = "v3";
/// File systems count time in steps of at most this: two changes within one step have the same time.
const TIME_STEP: Duration = Duration::from_millis(20);

/// A file's name for an object: device, inode, time of its last change, size, and the version of this rewriter. The time of
/// the last change is the kernel's own: no program can set it back.
fn name_of(m: &fs::Metadata) -> String {
    format!(
        "{:016x}-{:016x}-{:016x}-{:08x}-{:016x}.{VERSION}",
        m.dev(),
        m.ino(),
        m.ctime(),
        m.ctime_nsec(),
        m.size()
    )
}

/// Sees to it that the cache has an answer for the object at `path`; the reason if it cannot take part.
///
/// # Errors
/// Reading the object or writing the cache failed.
pub fn ensure(dir: &Path, path: &Path) -> std::io::Result<Option<String>> {
    let mut object = fs::File::open(path)?;
    let m = object.metadata()?;
    let name = name_of(&m);
    let file = dir.join(&name);
    let mut old = [0u8; 4096];
    if let Ok(f) = fs::File::open(&file)
        && f.read_exact_at(&mut old, 0).is_ok()
        && old.starts_with(image::MAGIC)
    {
        return Ok((old[8] == 2).then(|| image::reason(&old)));
    }
    let bytes = unchanged(&mut object, &m)?;
    let (bytes, why) = match verdict(&bytes) {
        Object::Clean(v) | Object::Shadow(v, _) => (v, None),
        Object::Unable(why) => (image::note(2, &why, &[]), Some(why)),
    };
    let tmp = dir.join(format!(".{name}.{}", std::process::id()));
    let mut f = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&tmp)?;
    f.write_all(&bytes)?;
    drop(f);
    fs::rename(&tmp, &file)?;
    forget_older(dir);
    Ok(why)
}

/// The bytes of an object that is what `m` says, before they are read and afterwards.
fn unchanged(object: &mut fs::File, m: &fs::Metadata) -> std::io::Result<Vec<u8>> {
    let changed = SystemTime::UNIX_EPOCH + Duration::new(m.ctime() as u64, m.ctime_nsec() as u32);
    // A later change must get a later time.
    if let Ok(age) = changed.elapsed()
        && age < TIME_STEP
    {
        std::thread::sleep(TIME_STEP - age);
    }
    let mut bytes = Vec::with_capacity(m.size() as usize);
    object.read_to_end(&mut bytes)?;
    if name_of(&object.metadata()?) != name_of(m) {
        return Err(std::io::Error::other("it changed while it was read"));
    }
    Ok(bytes)
}

/// Removes what rewriters of another version left.
fn forget_older(dir: &Path) {
    for e in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = e.file_name();
        let version = Path::new(&name).extension().and_then(|x| x.to_str());
        if version.is_some_and(|v| v.starts_with('v') && v != VERSION) {
            let _ = fs::remove_file(e.path());
        }
    }
}
