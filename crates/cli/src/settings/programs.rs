//! Which programs a run leaves alone, and which are the only ones to take part.
//!
//! Invariant: a word comes before the environment. An item names a program by its path if it has a slash, else by the
//! last part of its path; the preload library decides by the same rule (its programs.rs).
//! Not here: the files behind a command (executable.rs), what a process makes of a list (crate preload).
use super::environment;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The options that are such lists, and the variables by which processes are told.
pub const LISTS: [(&str, &str); 2] = [("leave", "BYWAY_LEAVE"), ("only", "BYWAY_ONLY")];

// Which programs take part. (A `///` here would be the head of the command's help.)
#[derive(Args, Default)]
#[command(next_help_heading = "Programs")]
pub struct Programs {
    /// Start this program plainly, and so what it starts (also: BYWAY_LEAVE)
    ///
    /// A name, or a path with a slash; more than one: again, or between
    /// colons.
    #[arg(long, value_name = "PROGRAM", value_delimiter = ':', value_parser = program, verbatim_doc_comment)]
    leave: Vec<String>,
    /// No other program takes part; what it starts may (also: BYWAY_ONLY)
    ///
    /// A name, or a path with a slash; more than one: again, or between
    /// colons.
    #[arg(long, value_name = "PROGRAM", value_delimiter = ':', value_parser = program, verbatim_doc_comment)]
    only: Vec<String>,
}

impl Programs {
    /// The variables that tell the run's processes, with their values, where words have said more than the environment.
    pub fn variables(&self) -> impl Iterator<Item = (&'static str, String)> {
        let words = [&self.leave, &self.only];
        let named = LISTS.iter().zip(words).filter(|(_, w)| !w.is_empty());
        named.map(|((_, variable), w)| (*variable, w.join(":")))
    }

    /// Whether a program that is known by `names` is to start without the library.
    pub fn leaves(&self, names: &[PathBuf]) -> bool {
        let list = match &self.leave[..] {
            [] => environment::programs("leave").unwrap_or_default(),
            words => words.join(":").into(),
        };
        names.iter().any(|n| has(&list, n))
    }
}

/// Whether a list between colons has the program at `path`.
pub fn has(list: &OsString, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let is = |item: &[u8]| match item.contains(&b'/') {
        true => item == path.as_os_str().as_bytes(),
        false => item == name,
    };
    let mut items = list.as_bytes().split(|&c| c == b':');
    items.any(|item| !item.is_empty() && is(item))
}

fn program(text: &str) -> Result<String, String> {
    match text {
        "" => Err("give a program's name, or its path".into()),
        text if text.ends_with('/') => {
            Err("a folder is no program; give its name, or its path".into())
        }
        text => Ok(text.into()),
    }
}
