//! The user as whom a service runs that refuses to run as root.
//!
//! Invariant: the user is another than root only where root measures; then the whole run is that user's, with `byway run`.
//! Not here: services that root may run.
use std::ffi::CStr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Clone)]
pub struct User {
    pub name: &'static str,
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// PostgreSQL's own, or nobody; `None`: this user is not root, and needs no other.
    pub fn other() -> Option<User> {
        // SAFETY: no arguments.
        if unsafe { libc::geteuid() } != 0 {
            return None;
        }
        [c"postgres", c"nobody"].into_iter().find_map(User::named)
    }

    fn named(name: &'static CStr) -> Option<User> {
        // SAFETY: a C string; what is returned is valid until the next call, and this process calls from one thread.
        let p = unsafe { libc::getpwnam(name.as_ptr()).as_ref() }?;
        Some(User {
            name: name.to_str().ok()?,
            uid: p.pw_uid,
            gid: p.pw_gid,
        })
    }

    /// Makes `c` this user's, with its files in `home`.
    pub fn of(&self, c: &mut Command, home: &Path) {
        c.uid(self.uid).gid(self.gid);
        c.env("HOME", home).env("BYWAY_CACHE", home.join("cache"));
        // Of root, which is another user's then.
        c.env_remove("BYWAY_SHM").env_remove("XDG_CACHE_HOME");
    }

    /// Whether this user may start `program`.
    pub fn may_start(&self, program: &Path) -> bool {
        let mut c = Command::new(program);
        c.arg("--version").current_dir("/");
        c.stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.of(&mut c, Path::new("/"));
        c.status().is_ok_and(|s| s.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_needs_another() {
        // SAFETY: no arguments.
        let root = unsafe { libc::geteuid() } == 0;
        let user = User::other();
        assert_eq!(user.is_some(), root);
        if let Some(u) = user {
            assert_ne!(u.uid, 0);
            assert!(!u.may_start(Path::new("/nonexistent")));
        }
    }
}
