//! Rewrites the system-call sites of an ELF object, once, into a file that every process maps in place of its text.
//!
//! Invariant: a cache file is complete and owned by this user, or it is not there (written beside and renamed); its
//! name is the identity of the object it was made from, so a changed object is a new name.
//! Not here: mapping (the preload library does that), deciding about calls.
mod bridge;
mod image;
mod scan;

use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Of the rewriter and its files; the preload library looks for the same.
const VERSION: &str = "v2";

/// What an object is to us.
pub enum Object {
    /// No site of interest.
    Clean,
    /// The rewritten text as a cache file.
    Shadow(Vec<u8>),
    /// A site of interest cannot be rewritten, or the object is of a foreign kind.
    Unable(String),
}

/// Reads `path` and says what it is.
///
/// # Errors
/// The file cannot be read.
pub fn verdict(path: &Path) -> std::io::Result<Object> {
    let bytes = fs::read(path)?;
    Ok(match scan::scan(&bytes) {
        Ok(s) if s.sites.is_empty() && s.bridge.is_none() => Object::Clean,
        Ok(s) => match image::build(&s) {
            Ok(v) => Object::Shadow(v),
            Err(why) => Object::Unable(why),
        },
        Err(why) => Object::Unable(why),
    })
}

/// The cache file's name for an object: device, inode, mtime, size, and the version of this rewriter.
pub fn key_name(m: &fs::Metadata) -> String {
    format!(
        "{:016x}-{:016x}-{:016x}-{:08x}-{:016x}.{VERSION}",
        m.dev(),
        m.ino(),
        m.mtime(),
        m.mtime_nsec(),
        m.size()
    )
}

/// Makes the cache folder: 0700 and this user's.
///
/// # Errors
/// It cannot be made, or belongs to somebody else.
pub fn folder(dir: &Path) -> std::io::Result<()> {
    fs::create_dir_all(dir)?;
    let m = fs::metadata(dir)?;
    // SAFETY: geteuid has no preconditions.
    if m.uid() != unsafe { libc::geteuid() } {
        return Err(std::io::Error::other(format!(
            "{} belongs to another user",
            dir.display()
        )));
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700))
}

/// Sees to it that the cache has an answer for the object at `path`; the reason if it cannot take part.
///
/// # Errors
/// Reading the object or writing the cache failed.
pub fn ensure(dir: &Path, path: &Path) -> std::io::Result<Option<String>> {
    let m = fs::metadata(path)?;
    let file = dir.join(key_name(&m));
    let mut old = [0u8; 4096];
    if let Ok(f) = fs::File::open(&file)
        && f.read_exact_at(&mut old, 0).is_ok()
        && old.starts_with(image::MAGIC)
    {
        return Ok((old[8] == 2).then(|| image::reason(&old)));
    }
    let (bytes, why) = match verdict(path)? {
        Object::Clean => (image::note(0, ""), None),
        Object::Shadow(v) => (v, None),
        Object::Unable(why) => (image::note(2, &why), Some(why)),
    };
    let tmp = dir.join(format!(".{}.{}", key_name(&m), std::process::id()));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn libc_path() -> std::path::PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.split_whitespace()
            .find(|w| w.ends_with("/libc.so.6"))
            .expect("a dynamic test program")
            .into()
    }

    #[test]
    fn libc_can_be_rewritten() {
        match verdict(&libc_path()).unwrap() {
            Object::Shadow(v) => {
                let sites = u32::from_le_bytes(v[72..76].try_into().unwrap());
                assert!(sites > 60, "only {sites} sites");
            }
            Object::Clean => panic!("libc without system calls"),
            Object::Unable(why) => panic!("{why}"),
        }
    }

    #[test]
    fn every_rewritten_site_keeps_its_syscall() {
        let bytes = fs::read(libc_path()).unwrap();
        let s = scan::scan(&bytes).unwrap();
        let image = image::build(&s).unwrap();
        let off = u64::from_le_bytes(image[32..40].try_into().unwrap()) as usize;
        for site in &s.sites {
            let at = off + (site.start - s.text_vaddr) as usize;
            assert_eq!(image[at], 0xe9, "no jump at {:#x}", site.start);
            if !site.moved {
                let sys = off + (site.syscall - s.text_vaddr) as usize;
                assert_eq!(&image[sys..sys + 2], &[0x0f, 0x05]);
            }
        }
    }
}
