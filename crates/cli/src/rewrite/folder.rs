//! Finds or makes the folder of the cache.
//!
//! Invariant: a folder counts only if it belongs to this user or root and nobody else can write into it; it is never changed. A link
//! on the way counts only if it belongs to one of the two as well. Each part of the path is opened once, and then asked.
//! Not here: what lies in the folder (cache.rs).
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// LINUX path_resolution(7): more links than this are ELOOP.
const LINKS_MOST: usize = 40;

/// The folder at `dir`, by a path without links; what is missing of it is made, for this user alone, in a folder of this user or root.
///
/// # Errors
/// It cannot be made or is no folder, or others could change what is in it.
pub fn folder(dir: &Path) -> Result<PathBuf> {
    let mut path = PathBuf::from("/");
    let mut at = open(None, OsStr::new("/"))?;
    let mut left = names(&std::path::absolute(dir)?);
    let mut links = 0;
    while let Some(name) = left.pop() {
        let next = match open(Some(&at), &name) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // Root in another user's home: that user could not use what root makes there.
                if !is_trusted(at.metadata()?.uid()) {
                    let why = format!("{} belongs to another user", path.display());
                    return Err(Error::other(why));
                }
                make(&at, &name)?;
                open(Some(&at), &name)?
            }
            f => f?,
        };
        let m = next.metadata()?;
        if m.is_symlink() {
            let link = path.join(&name);
            if !is_trusted(m.uid()) {
                let why = format!("{} is another user's link", link.display());
                return Err(Error::other(why));
            }
            links += 1;
            if links > LINKS_MOST {
                return Err(Error::from_raw_os_error(libc::ELOOP));
            }
            let to = target(&next)?;
            if to.is_absolute() {
                path = PathBuf::from("/");
                at = open(None, OsStr::new("/"))?;
            }
            left.extend(names(&to));
        } else if !m.is_dir() {
            return Err(Error::from_raw_os_error(libc::ENOTDIR));
        } else {
            at = next;
            if name == ".." {
                path.pop();
            } else {
                path.push(name);
            }
        }
    }
    let m = at.metadata()?;
    if !is_trusted(m.uid()) {
        return Err(Error::other("it belongs to another user"));
    }
    if m.mode() & 0o022 != 0 {
        return Err(Error::other("others can write into it"));
    }
    Ok(path)
}

/// Whether a file of user `uid` may lead us: this user's and root's.
pub fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == byway_folder::user()
}

/// The names that a path goes through, the last first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|c| match c {
        Component::Normal(n) => Some(n.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    names.collect()
}

/// What is called `name` in folder `at`, a link itself and not what it leads to.
fn open(at: Option<&File>, name: &OsStr) -> Result<File> {
    let c = CString::new(name.as_bytes())?;
    let at = at.map_or(libc::AT_FDCWD, AsRawFd::as_raw_fd);
    // LINUX open(2), O_PATH: opens what may not be read, and has no effect on what it opens.
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_CLOEXEC;
    // SAFETY: a NUL-terminated name and a descriptor that lives over the call.
    let fd = unsafe { libc::openat(at, c.as_ptr(), flags) };
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: new, and nobody else's.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Makes a folder for this user alone, unless somebody just did.
fn make(at: &File, name: &OsStr) -> Result<()> {
    let c = CString::new(name.as_bytes())?;
    // SAFETY: a NUL-terminated name and a descriptor that lives over the call.
    let r = unsafe { libc::mkdirat(at.as_raw_fd(), c.as_ptr(), 0o700) };
    match Error::last_os_error() {
        e if r < 0 && e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

/// Where a link that is open leads.
fn target(link: &File) -> Result<PathBuf> {
    let mut to = vec![0u8; libc::PATH_MAX as usize];
    let room = to.as_mut_ptr().cast();
    // LINUX readlink(2): an empty name means the link that the descriptor itself is of.
    // SAFETY: a NUL-terminated name, and a buffer of the length that is given.
    let n = unsafe { libc::readlinkat(link.as_raw_fd(), c"".as_ptr(), room, to.len()) };
    if n < 0 {
        return Err(Error::last_os_error());
    }
    to.truncate(n as usize);
    Ok(OsString::from_vec(to).into())
}
