//! Makes all that a run needs before its command starts: the domain, the cache folder, the preload library.
//!
//! Invariant: where a part cannot be made nothing is carried, and a sentence says why and what to try.
//! Not here: each part by itself (domain.rs, rewrite/, library.rs), the start (run.rs).
use crate::domain::{self, Run};
use crate::library::{self, Named};
use crate::rewrite;
use crate::settings::{Settings, environment};
use std::ffi::CString;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Why nothing can be carried.
pub enum Why {
    /// The set-up is broken, and stays so until somebody mends it.
    Broken(String),
    /// The kernel's turn, as things are.
    Now(String),
}

impl Why {
    /// A sentence: what is wrong, and what to try.
    pub fn text(&self) -> &str {
        match self {
            Why::Broken(text) | Why::Now(text) => text,
        }
    }

    /// `text`, because of `e`: room and descriptors come back. A limit is the caller's own.
    fn of(e: &std::io::Error, text: String) -> Why {
        use libc::{EAGAIN, EDQUOT, EFBIG, EINTR, EMFILE, ENFILE, ENOMEM, ENOSPC};
        match e.raw_os_error() {
            Some(EAGAIN | EDQUOT | EFBIG | EINTR | EMFILE | ENFILE | ENOMEM | ENOSPC) => {
                Why::Now(text)
            }
            _ => Why::Broken(text),
        }
    }

    /// `text` of what opens files by itself.
    fn of_files(text: String) -> Why {
        match File::open("/") {
            Err(e) => Why::of(&e, text),
            Ok(_) => Why::Broken(text),
        }
    }
}

/// The cache's folder, found or made.
///
/// # Errors
/// A sentence: what is wrong with it, and what to try.
pub fn usable_cache() -> Result<PathBuf, Why> {
    let cache = environment::cache_folder();
    let cache = rewrite::folder(&cache).map_err(|e| bad_cache(&cache, &e))?;
    if is_noexec(&cache) {
        return Err(Why::Broken(format!(
            "the cache {}: its file system is mounted noexec; set BYWAY_CACHE to a folder of yours where programs may \
             be executed",
            cache.display()
        )));
    }
    Ok(cache)
}

/// Whether nothing in `dir` may be executed, or mapped as code.
fn is_noexec(dir: &Path) -> bool {
    let name = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
    // SAFETY: a C string; fills a struct of ours.
    unsafe {
        let mut s: libc::statvfs = std::mem::zeroed();
        libc::statvfs(name.as_ptr(), &mut s) == 0 && s.f_flag & libc::ST_NOEXEC != 0
    }
}

fn bad_cache(cache: &Path, e: &std::io::Error) -> Why {
    let text = format!(
        "the cache {}: {e}; set BYWAY_CACHE to a folder of yours that nobody else can write",
        cache.display()
    );
    Why::of(e, text)
}

/// Makes all that a run needs: the domain, the cache folder, the preload library.
///
/// # Errors
/// A sentence: why nothing can be carried, and what to try.
pub fn prepare(settings: &Settings) -> Result<(Run, PathBuf, Named), Why> {
    if byway_sys::process::address_space_is_limited() {
        return Err(Why::Now(
            "its address space is limited (ulimit -v): a domain would be most of it".into(),
        ));
    }
    let cache = usable_cache()?;
    let library = library::find(&cache).map_err(|(e, text)| Why::of(&e, text))?;
    for path in rewrite::own_objects() {
        let found = rewrite::ensure(&cache, &path).map_err(|e| bad_cache(&cache, &e))?;
        if let Some(why) = found {
            let text = format!("{} cannot be rewritten: {why}", path.display());
            return Err(Why::Now(text));
        }
    }
    let dir = domain::folder();
    domain::usable(&dir).map_err(Why::of_files)?;
    // A folder that nobody can write into is no matter of room.
    let is_broken = !is_writable(&dir);
    let run = Run::obtain(&cache, settings).map_err(|text| match is_broken {
        true => Why::Broken(text),
        false => Why::Now(text),
    })?;
    let library = Named::of(library, run.path()).map_err(Why::Broken)?;
    Ok((run, cache, library))
}

/// Whether this user may make files in `dir`, as far as the kernel tells without one.
fn is_writable(dir: &Path) -> bool {
    let name = CString::new(dir.as_os_str().as_bytes()).unwrap_or_default();
    let how = (libc::W_OK | libc::X_OK, libc::AT_EACCESS);
    // SAFETY: a C string.
    unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), how.0, how.1) == 0 }
}
