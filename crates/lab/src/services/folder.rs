//! The folder of a measurement of services: sockets, settings, and the database.
//!
//! ```text
//! byway-bench-services-PID/   redis/  memcached/  nginx/  postgres/      each its service's user's, 0700
//! ```
//! Invariant: it is gone when this process has ended, however that was: a shell of its own waits for that, and removes it.
//! Not here: folders of few files, which a signal's handler removes (scratch.rs).
use super::case::Service;
use super::user::User;
use crate::child::Failure;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Removes `$0` at the end of its input. A server that is ending may still write there, so it looks again.
const GUARD: &str = "cat >/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- \"$0\" 2>/dev/null; [ -e \"$0\" ] || exit; sleep 0.2; done";
/// LINUX unix(7): bytes of a socket's path, less the null at its end.
const LONGEST: usize = 107;
/// The longest name of a socket below the folder: PostgreSQL's.
const DEEPEST: &str = "postgres/run/.s.PGSQL.5432";

pub struct Folder {
    path: PathBuf,
    guard: Child,
}

impl Folder {
    /// # Errors
    /// A sentence: it cannot be made.
    pub fn create() -> Result<Folder, Failure> {
        let temporary = std::env::temp_dir();
        let path = temporary.join(format!("byway-bench-services-{}", std::process::id()));
        let remedy = |why: &str| {
            let temporary = temporary.display();
            Failure::Said(format!(
                "no folder of sockets in {temporary}: {why}; set TMPDIR to a folder of yours, such as /tmp"
            ))
        };
        match path.join(DEEPEST).to_str() {
            None => return Err(remedy("its name is not in UTF-8")),
            Some(p) if p.len() > LONGEST => return Err(remedy("its name is too long")),
            Some(_) => {}
        }
        Folder::guarded(path).map_err(|e| remedy(&e.to_string()))
    }

    fn guarded(path: PathBuf) -> io::Result<Folder> {
        DirBuilder::new().mode(0o711).create(&path)?;
        let mut sh = Command::new("sh");
        sh.args(["-c", GUARD]).arg(&path);
        sh.stdin(Stdio::piped());
        sh.stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: setsid(2) only: Ctrl-C is for those of the terminal's group.
        unsafe {
            sh.pre_exec(|| {
                libc::setsid();
                Ok(())
            });
        }
        let guard = sh.spawn().inspect_err(|_| {
            let _ = std::fs::remove_dir(&path);
        })?;
        Ok(Folder { path, guard })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a service, of the user that it runs as.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn of(&self, service: Service, user: Option<&User>) -> io::Result<PathBuf> {
        let path = self.path.join(service.name());
        if !path.exists() {
            std::fs::create_dir(&path)?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            if let Some(u) = user {
                chown(&path, Some(u.uid), Some(u.gid))?;
            }
        }
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_gone_with_the_value() {
        let path = std::env::temp_dir().join(format!("byway-services-{}", std::process::id()));
        let folder = Folder::guarded(path.clone()).unwrap();
        let own = folder.of(Service::Redis, None).unwrap();
        assert_eq!(own, folder.of(Service::Redis, None).unwrap());
        assert_eq!(own.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::create_dir_all(own.join("a/b")).unwrap();
        std::fs::write(own.join("a/b/c"), "x").unwrap();
        assert!(Folder::guarded(path.clone()).is_err(), "it is there");
        drop(folder);
        assert!(!path.exists());
    }
}
