//! The files that this program writes for a user, and that an option names.
//!
//! Invariant: looking whether a file could be written leaves what is there as it is.
//! Not here: what is written, and when (bench/session.rs, bench/baseline.rs, report.rs).
use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

/// What could not be written, with the option that said where.
pub fn written(done: std::io::Result<()>, to: &Path, option: &str) -> Result<(), String> {
    done.map_err(|e| {
        format!(
            "{}: {e}; give {option} a place that can be written to",
            to.display()
        )
    })
}

/// Whether a file could be written at `to`, found out by opening one.
///
/// # Errors
/// The kernel's.
pub fn writable(to: &Path) -> std::io::Result<()> {
    let mut how = OpenOptions::new();
    match to.metadata() {
        _ if to.as_os_str() == "-" => Ok(()),
        Ok(m) if m.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(m) if m.is_file() => how.append(true).open(to).map(drop),
        // To open a FIFO or a device may wait, or do something.
        Ok(_) => Ok(()),
        Err(_) => match how.write(true).create_new(true).open(to) {
            Ok(_) => std::fs::remove_file(to),
            // A symbolic link to what is not there yet.
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(e) => Err(e),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays() {
        let dir = std::env::temp_dir().join(format!("byway-writable-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let file = dir.join("a");
        assert!(writable(&file).is_ok() && !file.exists());
        std::fs::write(&file, "old").unwrap();
        assert!(writable(&file).is_ok());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
        assert!(writable(&dir).is_err() && writable(&dir.join("b/c")).is_err());
        assert!(writable(Path::new("-")).is_ok() && writable(Path::new("/dev/null")).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
