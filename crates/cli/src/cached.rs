//! `byway doctor --cache`: what the cache holds, the rewritten texts and the preload library, and clearing it.
//!
//! Invariant: to show the cache changes nothing, and makes no folder. Cleared is what a run makes anew: the texts. The
//! library stays, for live runs name it to each process that they start.
//! Not here: what a file of it is (rewrite/), what a run needs of it (prepare.rs).
use crate::library;
use crate::rewrite::{self, upkeep};
use crate::settings::environment;
use clap::ValueEnum;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Do {
    Show,
    Clear,
}

/// Columns of an object's path.
const PATH: usize = 46;

/// Shows or clears it; 1 if it cannot be used.
pub fn cache(what: Do) -> i32 {
    let dir = environment::cache_folder();
    if !dir.exists() {
        println!("{}: not there yet", dir.display());
        return 0;
    }
    // Only what a run would use.
    let done = rewrite::folder(&dir).and_then(|dir| match what {
        Do::Show => Ok(show(&dir)),
        Do::Clear => upkeep::clear(&dir)
            .map(|(n, bytes)| format!("{}: {n} files removed, {}", dir.display(), mib(bytes))),
    });
    match done {
        Ok(text) => println!("{text}"),
        Err(e) => {
            eprintln!(
                "byway: doctor: {}: {e}; set BYWAY_CACHE to a folder of yours",
                dir.display()
            );
            return 1;
        }
    }
    0
}

fn show(dir: &Path) -> String {
    let files = upkeep::files(dir);
    let bytes = files.iter().map(|f| f.bytes).sum();
    let most = environment::cache_bytes().map_or_else(|why| why, mib);
    let mut text = format!(
        "{}: {} files, {} of at most {most} (BYWAY_CACHE_MIB)",
        dir.display(),
        files.len(),
        mib(bytes)
    );
    for f in files {
        let object = f.object.map_or("?".into(), |o| o.display().to_string());
        let gone = if f.is_gone { "gone: " } else { "" };
        let (size, age, says) = (mib(f.bytes), ago(f.used), f.says);
        text += &format!(
            "\n{size:>9}  {age:<8} {says:<9}  {gone}{}",
            end(&object, PATH - gone.len())
        );
    }
    for (name, m) in libraries(dir) {
        let (size, age) = (mib(m.blocks() * 512), ago(library::used(&m)));
        text += &format!("\n{size:>9}  {age:<8} library    {name}");
    }
    text
}

/// How many texts it holds, their bytes, and how many libraries.
pub fn count(dir: &Path) -> (usize, u64, usize) {
    let files = upkeep::files(dir);
    let bytes = files.iter().map(|f| f.bytes).sum();
    (files.len(), bytes, libraries(dir).len())
}

/// The files of preload libraries, of this and other versions.
fn libraries(dir: &Path) -> Vec<(String, fs::Metadata)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter_map(|e| Some((e.file_name().into_string().ok()?, e)));
    let ours = named.filter(|(name, _)| library::is_of_a_version(name));
    ours.filter_map(|(name, e)| Some((name, e.metadata().ok()?)))
        .collect()
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// When it was used; file systems count that in days.
fn ago(then: SystemTime) -> String {
    let hours = then.elapsed().map_or(0, |d| d.as_secs() / 3600);
    match hours / 24 {
        0 => "today".into(),
        n => format!("{n} d ago"),
    }
}

/// The last `most` characters.
fn end(text: &str, most: usize) -> String {
    let n = text.chars().count();
    if n <= most {
        return text.into();
    }
    let last: String = text.chars().skip(n - most + 3).collect();
    format!("...{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_end_of_a_long_path() {
        assert_eq!(end("/usr/lib/libc.so.6", 46), "/usr/lib/libc.so.6");
        let long = format!("/{}/libx.so", "a".repeat(60));
        assert_eq!(end(&long, 46).chars().count(), 46);
        assert!(end(&long, 46).starts_with("...a") && end(&long, 46).ends_with("/libx.so"));
        assert_eq!(mib(3 << 19), "1.5 MiB");
    }
}
