//! The preload library: its bytes, which this program carries; the file that the loader opens; its name in LD_PRELOAD.
//!
//! ```text
//! this program's bytes --unpacked once--> CACHE/NUMBER-libbyway_preload.so --LD_PRELOAD--> the command's loader
//! ```
//! Invariant: a run's library is the one that this program was built with: NUMBER is a hash of its bytes. So versions do
//! not disturb each other, and a program that is replaced does not disturb its runs.
//! Not here: what the library does, how it is built (build.rs), whether the cache's folder can be used (rewrite/folder.rs).
use crate::rewrite;
use byway_folder::runs;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const BYTES: &[u8] = include_bytes!(env!("BYWAY_LIBRARY"));
/// Its file's name, also where it is installed; it begins with a hash of the bytes.
pub const NAME: &str = concat!(env!("BYWAY_LIBRARY_NUMBER"), "-libbyway_preload.so");
/// How the names of all versions end, in the cache, in memory and of links.
const END: &str = "libbyway_preload.so";
/// Another version's file goes when it was not used for so long: file systems count uses in days.
const UNUSED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// No process unpacks for as long as this.
const STALE: Duration = Duration::from_secs(60);

/// The library, as a loader can open it.
pub enum Library {
    File(PathBuf),
    /// In the memory of this process: it is there as long as this process is.
    Memory(File),
}

/// This program's library: as it was installed, else in the folder `cache`, else in memory. Where the cache has it already
/// that takes two calls of the kernel's.
///
/// # Errors
/// The kernel's, and a sentence: what is wrong, and what to try.
pub fn find(cache: &Path) -> Result<Library, (io::Error, String)> {
    if let Some(path) = at(cache) {
        return Ok(Library::File(path));
    }
    tidy(cache);
    let made = rewrite::put(cache, NAME, BYTES, 0o500);
    if made.is_ok()
        && let Some(path) = at(cache)
    {
        return Ok(Library::File(path));
    }
    let why = made.err().map_or(String::new(), |e| format!(": {e}"));
    in_memory().map(Library::Memory).map_err(|e| {
        let text = format!(
            "no file for the preload library in {}{why}; nor in memory: {e}; set BYWAY_CACHE to a folder of yours",
            cache.display()
        );
        (e, text)
    })
}

/// Where a run would find the file, if it is there already.
pub fn at(cache: &Path) -> Option<PathBuf> {
    let mut places = installed().into_iter().chain([cache.join(NAME)]);
    places.find(|p| is_there(p))
}

/// Where `make install` and packages have it.
///
/// The loader of a program that may not read the user's files, as AppArmor has it, finds it there.
fn installed() -> Option<PathBuf> {
    let exe = std::env::current_exe().ok()?;
    Some(exe.ancestors().nth(2)?.join("lib/byway").join(NAME))
}

/// Whether a file that counts is at `path`. Its bytes are compared later (`renew`): here they would cost each start.
fn is_there(path: &Path) -> bool {
    rewrite::own(path, BYTES.len() as u64).is_some()
}

/// `byway library FOLDER`: writes the library's file into `folder`, to be installed; 2 if it cannot be.
pub fn write(folder: &Path) -> i32 {
    match rewrite::put(folder, NAME, BYTES, 0o755) {
        Ok(()) => 0,
        Err(e) => {
            eprintln!(
                "byway: library: {}: {e}; give a folder that can be written",
                folder.display()
            );
            2
        }
    }
}

/// What became of the library's file in the cache when all of it was read.
#[derive(PartialEq, Eq, Debug)]
pub enum Renewed {
    /// There is none: it is installed, or in memory.
    Absent,
    Whole,
    /// Other bytes: made anew.
    Mended,
    /// Other bytes, and the kernel's error.
    Stuck(String),
}

/// Compares the library's file in the folder `cache` with this program's bytes, and makes it anew if it differs.
pub fn renew(cache: &Path) -> Renewed {
    let Some(mut f) = rewrite::own(&cache.join(NAME), BYTES.len() as u64) else {
        return Renewed::Absent;
    };
    let mut bytes = Vec::with_capacity(BYTES.len());
    if f.read_to_end(&mut bytes).is_ok() && bytes == BYTES {
        return Renewed::Whole;
    }
    match rewrite::put(cache, NAME, BYTES, 0o500) {
        Ok(()) => Renewed::Mended,
        Err(e) => Renewed::Stuck(e.to_string()),
    }
}

/// Removes the files of versions that nobody uses any more, and what an unpacking left that was killed.
fn tidy(cache: &Path) {
    for e in fs::read_dir(cache).into_iter().flatten().flatten() {
        let name = e.file_name();
        let Some(name) = name.to_str() else { continue };
        let is_unfinished = name.starts_with('.') && name.contains(&format!("{END}."));
        let most = match (is_unfinished, is_of_a_version(name)) {
            (true, _) => STALE,
            (_, true) => UNUSED,
            _ => continue,
        };
        let unused = e.metadata().ok().and_then(|m| used(&m).elapsed().ok());
        if unused.is_some_and(|time| time > most) {
            let _ = fs::remove_file(e.path());
        }
    }
}

/// Whether a version of this program gives a library's file this name.
pub fn is_of_a_version(name: &str) -> bool {
    let number = name.strip_suffix(END).and_then(|n| n.strip_suffix('-'));
    number.is_some_and(|n| n.len() == 16 && n.bytes().all(|c| c.is_ascii_hexdigit()))
}

/// When a file was last used, as far as its file system tells.
pub fn used(m: &fs::Metadata) -> SystemTime {
    let at = m.atime().max(m.mtime()).max(0);
    SystemTime::UNIX_EPOCH + Duration::from_secs(at as u64)
}

/// Whether a line of /proc/PID/maps is of a preload library's code.
pub fn is_mapped_by(line: &[u8]) -> bool {
    // LINUX proc(5): also a file of memory is marked so.
    let path = line.strip_suffix(b" (deleted)").unwrap_or(line);
    path.ends_with(END.as_bytes())
}

/// The library in a file of memory that nobody can change.
fn in_memory() -> io::Result<File> {
    // LINUX memfd_create(2): from 6.3 on a sysctl may have files without MFD_EXEC not executable; older kernels refuse it.
    const MFD_EXEC: u32 = 0x10;
    let how = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: a C string; the descriptor is new.
    let create = |how| unsafe { libc::memfd_create(c"libbyway_preload.so".as_ptr(), how) };
    let fd = match create(how | MFD_EXEC) {
        -1 => create(how),
        fd => fd,
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new, and nobody else's.
    let mut f = unsafe { File::from_raw_fd(fd) };
    f.write_all(BYTES)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a descriptor of ours.
    if unsafe { libc::fcntl(f.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(f)
}

/// The library as LD_PRELOAD names it, for as long as the value lives.
pub struct Named {
    path: PathBuf,
    is_link: bool,
    /// Open for those who follow the link.
    _memory: Option<File>,
}

impl Named {
    /// `library` itself, or a link to it beside the domain's file.
    ///
    /// # Errors
    /// A sentence: why LD_PRELOAD cannot name it, and what to try.
    pub fn of(library: Library, domain: &Path) -> Result<Named, String> {
        let (library, memory) = match library {
            Library::File(path) if can_be_named(&path) => {
                return Ok(Named {
                    path,
                    is_link: false,
                    _memory: None,
                });
            }
            Library::File(path) => (path, None),
            // This process's descriptor, and not the command's: programs close what they do not know.
            Library::Memory(f) => {
                let path = format!("/proc/{}/fd/{}", std::process::id(), f.as_raw_fd());
                (path.into(), Some(f))
            }
        };
        let path = runs::link(domain, std::process::id());
        if !can_be_named(&path) {
            return Err(format!(
                "LD_PRELOAD can name neither {} nor {}; set BYWAY_CACHE or BYWAY_SHM to a folder of yours whose path \
                 has no space, colon and dollar sign",
                library.display(),
                path.display()
            ));
        }
        // Of a run of the same number that was killed.
        let _ = fs::remove_file(&path);
        std::os::unix::fs::symlink(&library, &path)
            .map_err(|e| format!("a link to the library, {}: {e}", path.display()))?;
        Ok(Named {
            path,
            is_link: true,
            _memory: memory,
        })
    }

    /// The value of LD_PRELOAD: what was there before comes first, as a sanitizer's library has to. The library of a run
    /// that this one is inside goes: of two versions in one process neither could take part.
    pub fn preload(&self, before: Option<OsString>) -> OsString {
        let before = before.unwrap_or_default();
        let names = before.as_bytes().split(|c| b" :".contains(c));
        let others = names.filter(|name| !name.is_empty() && !name.ends_with(END.as_bytes()));
        let all: Vec<&[u8]> = others.chain([self.path.as_os_str().as_bytes()]).collect();
        OsString::from_vec(all.join(&b':'))
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        if self.is_link {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// LINUX ld.so(8): LD_PRELOAD is split at spaces and colons, and a dollar sign begins a name that the loader replaces.
fn can_be_named(path: &Path) -> bool {
    let bytes = OsStr::as_bytes(path.as_os_str());
    !bytes.iter().any(|c| b" :$".contains(c))
}

#[cfg(test)]
mod tests;
