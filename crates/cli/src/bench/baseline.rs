//! Records that later ones are compared with, by name.
//!
//! ```text
//! $XDG_DATA_HOME/byway/baselines/NAME/WORKLOAD.json      (~/.local/share if XDG_DATA_HOME is not set)
//! ```
//! Invariant: a name cannot leave the folder; a baseline is there as a whole or not at all (written under
//! another name, then renamed).
//! Not here: what is compared (lab, compare.rs).
//!
//! Source: XDG Base Directory Specification 0.8.
use crate::output::writable;
use byway_lab::record::Record;
use std::path::{Path, PathBuf};

/// A name of which a folder can be made: letters, digits, `.`, `_`, `-`, not beginning with a dot.
///
/// # Errors
/// A sentence: it is not.
pub fn name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if text.is_empty() || text.len() > 64 || text.starts_with('.') || !text.chars().all(fits) {
        return Err(
            "not a name; give up to 64 letters, digits, '.', '_' or '-', such as main or v1.2"
                .into(),
        );
    }
    Ok(text.into())
}

/// Where they are.
fn folder() -> Result<PathBuf, String> {
    let absolute = |v: std::ffi::OsString| Some(PathBuf::from(v)).filter(|p| p.is_absolute());
    let data = std::env::var_os("XDG_DATA_HOME").and_then(absolute);
    let home = || std::env::var_os("HOME").and_then(absolute);
    data.or_else(|| home().map(|h| h.join(".local/share")))
        .map(|d| d.join("byway/baselines"))
        .ok_or_else(|| "there is no place for baselines; set XDG_DATA_HOME or HOME".into())
}

fn place(folder: &Path, name: &str, workload: &str) -> PathBuf {
    folder.join(name).join(format!("{workload}.json"))
}

/// Saves a record as a baseline.
///
/// # Errors
/// A sentence: it cannot be.
pub fn save(name: &str, record: &Record) -> Result<PathBuf, String> {
    save_in(&folder()?, name, record)
}

fn save_in(folder: &Path, name: &str, record: &Record) -> Result<PathBuf, String> {
    if record.partial {
        return Err("the record is partial and no baseline; measure again".into());
    }
    let to = place(folder, name, &record.workload);
    let new = to.with_extension("new");
    let written = std::fs::create_dir_all(folder.join(name))
        .and_then(|()| record.write(&new))
        .and_then(|()| std::fs::rename(&new, &to));
    with_remedy(written, &to)?;
    Ok(to)
}

/// Sees to it, before anything is measured, that a record can be saved.
///
/// # Errors
/// A sentence: it cannot be.
pub fn ready(name: &str, workload: &str) -> Result<(), String> {
    let folder = folder()?;
    let to = place(&folder, name, workload);
    let made = std::fs::create_dir_all(folder.join(name));
    with_remedy(made.and_then(|()| writable(&to.with_extension("new"))), &to)
}

fn with_remedy(done: std::io::Result<()>, to: &Path) -> Result<(), String> {
    done.map_err(|e| {
        format!(
            "{}: {e}; set XDG_DATA_HOME to a folder of yours",
            to.display()
        )
    })
}

/// A baseline that was saved.
///
/// # Errors
/// A sentence: there is none.
pub fn load(name: &str, workload: &str) -> Result<Record, String> {
    load_from(&folder()?, name, workload)
}

fn load_from(folder: &Path, name: &str, workload: &str) -> Result<Record, String> {
    let from = place(folder, name, workload);
    if !from.exists() {
        let mut names: Vec<_> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| place(folder, n, workload).exists())
            .collect();
        names.sort();
        let there = if names.is_empty() {
            "none".into()
        } else {
            names.join(" ")
        };
        return Err(format!(
            "there is no baseline {name} of {workload}; there are: {there}; make one with --save-baseline {name}"
        ));
    }
    Record::read(&from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_folder() {
        assert_eq!(name("v1.2_main-3").unwrap(), "v1.2_main-3");
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            ".a",
            "a b",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(name(bad).unwrap_err().contains("give"), "{bad}");
        }
    }

    #[test]
    fn what_is_saved_is_found_again() {
        let dir = std::env::temp_dir().join(format!("byway-baseline-{}", std::process::id()));
        let mut r = Record::new("fifo");
        let to = save_in(&dir, "main", &r).unwrap();
        assert!(to.ends_with("main/fifo.json"));
        assert_eq!(load_from(&dir, "main", "fifo").unwrap().workload, "fifo");
        let e = load_from(&dir, "other", "fifo").unwrap_err();
        assert!(e.contains("there are: main"), "{e}");
        assert!(
            load_from(&dir, "main", "mbuf")
                .unwrap_err()
                .contains("there are: none")
        );
        r.partial = true;
        assert!(save_in(&dir, "main", &r).unwrap_err().contains("partial"));
        // Nothing half written stays.
        assert_eq!(std::fs::read_dir(dir.join("main")).unwrap().count(), 1);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
