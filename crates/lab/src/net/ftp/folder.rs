//! The folder of a measurement: what the server shows, the file that is transferred, and both programs' settings.
//!
//! ```text
//! byway-bench-ftp-PID/  token server.conf client.conf vsftpd.said got
//!                  root/  file
//!                    in/  put
//! ```
//! Invariant: only this user can read it; it is gone with the value, and when the program is interrupted.
//! Not here: the programs.
use crate::child::Failure;
use crate::scratch::{self, Scratch};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// All names, files before the folders that they are in.
const NAMES: [&str; 9] = [
    "token",
    "server.conf",
    "client.conf",
    "vsftpd.said",
    "got",
    "root/file",
    "root/in/put",
    "root/in",
    "root",
];
/// What is read, written or compared at once.
const CHUNK: usize = 1 << 20;

/// Where the files are: what a worker has to know of the folder.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Files {
    folder: PathBuf,
}

impl Files {
    pub fn folder(&self) -> &Path {
        &self.folder
    }
    pub fn root(&self) -> PathBuf {
        self.path("root")
    }
    pub fn file(&self) -> PathBuf {
        self.path("root/file")
    }
    /// Where a get, or a put, leaves its copy.
    pub fn copy(&self, put: bool) -> PathBuf {
        self.path(if put { "root/in/put" } else { "got" })
    }
    /// What the server asks for: others on the machine cannot read it.
    pub fn token(&self) -> PathBuf {
        self.path("token")
    }
    fn path(&self, name: &str) -> PathBuf {
        debug_assert!(NAMES.contains(&name), "a name that no handler removes");
        self.folder.join(name)
    }

    /// A file that only this user can read.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let path = self.path(name);
        let mut how = OpenOptions::new();
        let mut f = how
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)?;
        f.write_all(text.as_bytes())?;
        Ok(path)
    }
}

pub struct Folder {
    /// It goes with the value.
    _scratch: Scratch,
    files: Files,
    bytes: u64,
}

impl Folder {
    /// With a file of so many bytes, and a token that nobody guesses.
    ///
    /// # Errors
    /// A sentence: there is no room for it and for its copy.
    pub fn new(bytes: u64) -> Result<Folder, Failure> {
        let temporary = std::env::temp_dir();
        let remedy = format!(
            "no file of {} MB and a copy of it in {}",
            bytes / super::MB,
            temporary.display()
        );
        let remedy = |e: String| {
            Failure::Said(format!(
                "{remedy}: {e}; give a smaller --size, or set TMPDIR to a folder of yours with more room"
            ))
        };
        let room = scratch::room(&temporary).map_err(|e| remedy(e.to_string()))?;
        if room < 2 * bytes {
            return Err(remedy(format!("there are {} MB", room / super::MB)));
        }
        let name = format!("byway-bench-ftp-{}", std::process::id());
        let scratch = Scratch::create(&name, &NAMES).map_err(|e| remedy(e.to_string()))?;
        let files = Files {
            folder: scratch.path().into(),
        };
        let folder = Folder {
            _scratch: scratch,
            files,
            bytes,
        };
        folder.fill().map_err(|e| remedy(e.to_string()))?;
        Ok(folder)
    }

    fn fill(&self) -> io::Result<()> {
        fs::set_permissions(
            self.files.folder(),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )?;
        let mut folder = fs::DirBuilder::new();
        folder.mode(0o700);
        folder.create(self.files.root())?;
        folder.create(self.files.root().join("in"))?;
        self.files.write("token", &format!("{}\n", token()?))?;
        let mut chunk = vec![0; CHUNK];
        let mut f = File::create(self.files.file())?;
        let mut at = 0;
        while at < self.bytes {
            let n = (self.bytes - at).min(CHUNK as u64) as usize;
            crate::net::pattern::fill(&mut chunk[..n], at);
            f.write_all(&chunk[..n])?;
            at += n as u64;
        }
        Ok(())
    }

    pub fn files(&self) -> &Files {
        &self.files
    }
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Compares the copy with the file, and removes it.
    ///
    /// # Errors
    /// They differ, or it is not there.
    pub fn compare(&self, put: bool) -> Result<(), Failure> {
        let path = self.files.copy(put);
        let same = same(&self.files.file(), &path)?;
        fs::remove_file(path)?;
        if same {
            return Ok(());
        }
        Err(Failure::Said(
            "the file that was transferred is not the one that was sent".into(),
        ))
    }
}

/// What nobody guesses.
fn token() -> io::Result<String> {
    let mut b = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut b)?;
    Ok(b.iter().map(|x| format!("{x:02x}")).collect())
}

/// Whether both files have the same bytes.
fn same(a: &Path, b: &Path) -> io::Result<bool> {
    let (mut a, mut b) = (File::open(a)?, File::open(b)?);
    if a.metadata()?.len() != b.metadata()?.len() {
        return Ok(false);
    }
    let (mut x, mut y) = (vec![0; CHUNK], vec![0; CHUNK]);
    loop {
        let n = a.read(&mut x)?;
        if n == 0 {
            return Ok(true);
        }
        b.read_exact(&mut y[..n])?;
        if x[..n] != y[..n] {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The folder's name is the process's.
    pub static ONE: Mutex<()> = Mutex::new(());

    #[test]
    fn a_copy_is_compared_and_removed() {
        let _one = ONE.lock().unwrap();
        let folder = Folder::new(3 << 20 | 77).unwrap();
        let f = folder.files();
        let root = f.root();
        for put in [false, true] {
            fs::copy(f.file(), f.copy(put)).unwrap();
            folder.compare(put).unwrap();
            assert!(!f.copy(put).exists());
            let mut bytes = fs::read(f.file()).unwrap();
            bytes[3 << 20] ^= 1;
            fs::write(f.copy(put), &bytes).unwrap();
            assert!(
                folder
                    .compare(put)
                    .unwrap_err()
                    .to_string()
                    .contains("not the one")
            );
            fs::write(f.copy(put), &bytes[1..]).unwrap();
            assert!(folder.compare(put).is_err());
            assert!(folder.compare(put).is_err(), "it is gone");
        }
        drop(folder);
        assert!(!root.exists());
    }

    #[test]
    fn what_has_no_room_is_told() {
        let _one = ONE.lock().unwrap();
        let e = Folder::new(u64::MAX / 4).err().unwrap();
        assert!(e.to_string().contains("--size"), "{e}");
    }
}
