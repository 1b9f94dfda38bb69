//! The preload library: where it lies, and how LD_PRELOAD names it.
//!
//! Invariant: the command's loader is never told of a library that it cannot load: it would say so at every start.
//! Not here: what the library does.
use byway_folder::runs;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const LIBRARY: &str = "libbyway_preload.so";

/// The library that belongs to this program.
///
/// # Errors
/// A sentence: what is wrong, and what to try.
pub fn find() -> Result<PathBuf, String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find itself: {e}"))?;
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let path = [dir.join(LIBRARY), dir.join("../lib/byway").join(LIBRARY)]
        .into_iter()
        .find(|p| p.is_file())
        .ok_or_else(|| {
            format!(
                "{LIBRARY} is not beside {}; build it with `make build`",
                exe.display()
            )
        })?;
    loadable(&path).map_err(|e| {
        format!(
            "the library {}: {e}; install it anew, readable, where programs may be executed",
            path.display()
        )
    })?;
    Ok(path)
}

/// Whether the loader could load it, as far as it can be told without doing so.
fn loadable(path: &Path) -> io::Result<()> {
    let mut f = File::open(path)?;
    let mut magic = [0; 4];
    f.read_exact(&mut magic)?;
    if magic != *b"\x7fELF" {
        return Err(io::Error::other("no ELF file"));
    }
    // LINUX mmap(2): EPERM for code on a file system that is mounted noexec.
    let how = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: a new private mapping of one page, which nobody runs; unmapped at once.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            4096,
            how,
            libc::MAP_PRIVATE,
            f.as_raw_fd(),
            0,
        );
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        libc::munmap(p, 4096);
    }
    Ok(())
}

/// The library as LD_PRELOAD names it, for as long as the value lives.
pub struct Named {
    path: PathBuf,
    is_link: bool,
}

impl Named {
    /// `library` itself, or a link to it beside the domain's file.
    ///
    /// # Errors
    /// A sentence: why LD_PRELOAD cannot name it, and what to try.
    pub fn of(library: PathBuf, domain: &Path) -> Result<Named, String> {
        if can_be_named(&library) {
            return Ok(Named {
                path: library,
                is_link: false,
            });
        }
        let path = runs::link(domain, std::process::id());
        if !can_be_named(&path) {
            return Err(format!(
                "LD_PRELOAD can name neither {} nor {}; install byway to a path without space, colon and dollar sign, \
                 or set BYWAY_SHM to one",
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
        })
    }

    /// The value of LD_PRELOAD: what was there before comes first, as a sanitizer's library has to.
    pub fn preload(&self, before: Option<OsString>) -> OsString {
        let mut all = before.filter(|v| !v.is_empty()).unwrap_or_default();
        if !all.is_empty() {
            all.push(":");
        }
        all.push(&self.path);
        all
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
mod tests {
    use super::*;

    #[test]
    fn named_by_itself_or_by_a_link() {
        let dir = std::env::temp_dir().join(format!("byway-named-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let domain = dir.join("run-0123456789abcdef");
        let plain = Named::of("/opt/byway/lib.so".into(), &domain).unwrap();
        assert_eq!(plain.preload(None), "/opt/byway/lib.so");
        assert_eq!(plain.preload(Some("a b".into())), "a b:/opt/byway/lib.so");
        for odd in ["/opt/by way/l.so", "/opt/by:way/l.so", "/opt/$ORIGIN/l.so"] {
            let named = Named::of(odd.into(), &domain).unwrap();
            let link = PathBuf::from(named.preload(Some("".into())));
            assert_eq!(fs::read_link(&link).unwrap(), Path::new(odd));
            assert!(Named::of(odd.into(), Path::new("/dev/a b/run-1")).is_err());
            drop(named);
            assert!(fs::symlink_metadata(&link).is_err());
        }
        fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn what_the_loader_would_refuse() {
        let path = std::env::temp_dir().join(format!("byway-loadable-{}", std::process::id()));
        assert!(loadable(&path).is_err());
        fs::write(&path, "").unwrap();
        assert!(loadable(&path).is_err());
        fs::write(&path, "no library").unwrap();
        assert!(loadable(&path).is_err());
        fs::remove_file(&path).unwrap();
        assert!(loadable(&std::env::current_exe().unwrap()).is_ok());
    }
}
