//! A backend that lives in a program of its own, in the folder of this one, so that what it needs is linked into nothing else.
//!
//! ```text
//! byway bench ... --words--> byway-mimalloc, ... --fork--> the run, as that of any backend
//!      <-- figures, a line each --
//! ```
//! Invariant: the program ends with its parent, and is asked before it is made to, so that it can clear.
//! Not here: the words and what they mean (mbuf/apart.rs, native/apart.rs), the backends.
use crate::child::Failure;
use crate::program;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Status of a program that has said on standard error why there is no figure.
const SAID: i32 = 2;

/// What such a program does with what it found; its exit status.
pub fn answer(found: Result<Vec<f64>, Failure>) -> i32 {
    match found {
        Ok(figures) => {
            figures.iter().for_each(|f| println!("{f}"));
            0
        }
        Err(e) => {
            eprintln!("{e}");
            SAID
        }
    }
}

/// Where `program` is: in the folder of this one, in the one above (of a test), or where `make install` has it.
///
/// # Errors
/// It is not there: a sentence; `remedy` ends it.
pub fn find(program: &str, remedy: &str) -> Result<PathBuf, Failure> {
    let exe = std::env::current_exe()?;
    let folders = exe.ancestors().skip(1).take(2);
    let installed = exe.ancestors().nth(2).map(|d| d.join("lib/byway"));
    let folders = folders.map(Path::to_path_buf).chain(installed);
    let mut there = folders.map(|d| d.join(program)).filter(|p| p.is_file());
    let folder = exe.parent().unwrap_or(Path::new("/")).display();
    there
        .next()
        .ok_or_else(|| Failure::Said(format!("{program} is not in {folder}; {remedy}")))
}

/// The figures of `c`, which limits its own time; `limit` is only for what hangs before it does.
///
/// # Errors
/// It could not be started, or what went wrong in it.
pub fn figures(c: &mut Command, limit: Duration) -> Result<Vec<f64>, Failure> {
    // SAFETY: prctl(2) only.
    unsafe {
        c.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
            Ok(())
        });
    }
    let said = program::output(c, limit)?;
    let status = said.status;
    if status.code() == Some(SAID) {
        let why = String::from_utf8_lossy(&said.err);
        return Err(Failure::Said(why.trim_end().into()));
    }
    let figures = String::from_utf8_lossy(&said.out);
    let figures: Vec<f64> = figures.lines().filter_map(|l| l.parse().ok()).collect();
    if !status.success() || figures.is_empty() {
        let program = c.get_program().to_string_lossy();
        let why = String::from_utf8_lossy(&said.err);
        return Err(Failure::Said(
            format!("{program} ended with {status}; try it again\n{why}")
                .trim_end()
                .into(),
        ));
    }
    Ok(figures)
}

/// CPUs, as a word.
pub fn cpus(cpus: &[usize]) -> String {
    let cpus: Vec<String> = cpus.iter().map(usize::to_string).collect();
    cpus.join(",")
}

/// The same, back.
pub fn parse_cpus(word: &str) -> Option<Vec<usize>> {
    word.split(',').map(|c| c.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn sh(text: &str) -> Result<Vec<f64>, Failure> {
        figures(Command::new("sh").args(["-c", text]), LIMIT)
    }

    #[test]
    fn figures_or_why_there_are_none() {
        assert_eq!(sh("echo 1.5; echo 2").unwrap(), [1.5, 2.0]);
        let why = sh("echo no library >&2; exit 2").unwrap_err().to_string();
        assert_eq!(why, "no library");
        let why = sh("echo bang >&2; kill -9 $$").unwrap_err().to_string();
        assert!(why.contains("signal: 9") && why.contains("bang"), "{why}");
        assert!(sh("true").is_err());
    }

    #[test]
    fn what_is_not_there_has_its_remedy() {
        let why = find("byway-nosuch", "build it").unwrap_err().to_string();
        assert!(why.ends_with("; build it") && why.starts_with("byway-nosuch is not in /"));
    }

    #[test]
    fn cpus_come_back() {
        assert_eq!(parse_cpus(&cpus(&[0, 3])), Some(vec![0, 3]));
        assert_eq!(parse_cpus("x"), None);
    }
}
