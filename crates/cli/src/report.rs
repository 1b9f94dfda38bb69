//! `byway report`: records as one page, and its plots as files.
//!
//! Invariant: an output is there as a whole or not at all (written under another name, then renamed); a folder gives its
//! records and those of the folders in it, by name.
//! Not here: the page (lab, report).
use crate::output::writable;
use byway_lab::record::Record;
use byway_lab::report;
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

// What it is told.
#[derive(Args)]
pub struct Wanted {
    /// Records (bench ... --json FILE), or folders, with those in them
    #[arg(required = true, value_name = "DIR|FILE", value_hint = ValueHint::AnyPath)]
    from: Vec<PathBuf>,
    /// The page
    #[arg(short, long, value_name = "FILE", default_value = "report.html", value_hint = ValueHint::FilePath)]
    output: PathBuf,
    /// Two records, or two folders of them: what has changed
    #[arg(long, conflicts_with = "svg")]
    compare: bool,
    /// Each plot as an SVG file in this folder, which is made
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    svg: Option<PathBuf>,
}

/// Writes it all; 2 if it could not.
pub fn report(w: &Wanted) -> i32 {
    match written(w) {
        Ok(text) => {
            println!("{text}");
            0
        }
        Err(e) => {
            eprintln!("byway: report: {e}");
            2
        }
    }
}

fn written(w: &Wanted) -> Result<String, String> {
    place(writable(&temporary(&w.output)), &w.output)?;
    if w.compare {
        return compared(w);
    }
    let mut records = vec![];
    for from in &w.from {
        records.extend(read(from)?);
    }
    let n = records.len();
    let named = report::named(records);
    whole(&w.output, &report::page(&named))?;
    let mut text = format!("{}: {n} records", w.output.display());
    if let Some(dir) = &w.svg {
        std::fs::create_dir_all(dir)
            .map_err(|e| format!("{}: {e}; give --svg a folder of yours", dir.display()))?;
        let files = report::svgs(&named)?;
        for (name, svg) in &files {
            whole(&dir.join(name), svg)?;
        }
        text.push_str(&format!("; {}: {} plots", dir.display(), files.len()));
    }
    Ok(text)
}

/// The page of what has changed.
fn compared(w: &Wanted) -> Result<String, String> {
    let [before, after] = &w.from[..] else {
        return Err("--compare takes two records, or two folders of them: before, after".into());
    };
    let (before, after) = (read(before)?, read(after)?);
    let n = format!("{} records before, {} after", before.len(), after.len());
    whole(&w.output, &report::compared(before, after)?)?;
    Ok(format!("{}: {n}", w.output.display()))
}

/// The record in a file, or those in a folder and in the folders that it has.
fn read(from: &Path) -> Result<Vec<Record>, String> {
    if !from.is_dir() {
        return Ok(vec![Record::read(from)?]);
    }
    let mut files = records_in(from)?;
    for folder in inside(from)?.iter().filter(|p| p.is_dir()) {
        files.extend(records_in(folder)?);
    }
    if files.is_empty() {
        return Err(format!(
            "{}: there is no record (*.json); make them with `byway bench seeds --out {}`",
            from.display(),
            from.display()
        ));
    }
    files.iter().map(|f| Record::read(f)).collect()
}

/// The records that lie in a folder itself, by name.
fn records_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = inside(folder)?;
    files.retain(|p| p.extension().is_some_and(|e| e == "json") && !p.is_dir());
    Ok(files)
}

/// What a folder has, by name.
fn inside(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|e| e.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Where a file is written before it is renamed; a device or a FIFO is written to itself, and stays what it is.
fn temporary(to: &Path) -> PathBuf {
    if to.metadata().is_ok_and(|m| !m.is_file()) {
        return to.into();
    }
    let mut name = to.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    to.with_file_name(name)
}

fn whole(to: &Path, text: &str) -> Result<(), String> {
    let new = temporary(to);
    let written = std::fs::write(&new, text);
    let renamed = written.and_then(|()| match new == to {
        true => Ok(()),
        false => std::fs::rename(&new, to),
    });
    place(renamed, to)
}

fn place(done: std::io::Result<()>, to: &Path) -> Result<(), String> {
    done.map_err(|e| {
        format!(
            "{}: {e}; give -o a place that can be written to",
            to.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("byway-report-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_folder_is_read_with_the_folders_in_it() {
        let dir = folder("order");
        std::fs::create_dir_all(dir.join("later/deeper")).unwrap();
        for place in ["zebra", "fifo", "later/mbuf", "later/deeper/grep"] {
            let workload = place.rsplit('/').next().unwrap();
            Record::new(workload)
                .write(&dir.join(format!("{place}.json")))
                .unwrap();
        }
        std::fs::write(dir.join("notes.txt"), "no record").unwrap();
        let names: Vec<_> = read(&dir)
            .unwrap()
            .into_iter()
            .map(|r| r.workload)
            .collect();
        assert_eq!(names, ["fifo", "zebra", "mbuf"]);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_not_there_has_a_remedy() {
        let dir = folder("empty");
        assert!(read(&dir).unwrap_err().contains("bench seeds --out"));
        assert!(read(&dir.join("none")).unwrap_err().contains("none"));
        let e = whole(Path::new("/nonexistent/x.html"), "").unwrap_err();
        assert!(e.contains("give -o"));
        // A folder is no page, and a device stays one.
        assert!(whole(&dir, "").unwrap_err().contains("give -o"));
        assert!(whole(Path::new("/dev/null"), "x").is_ok());
        assert!(!Path::new("/dev/null").metadata().unwrap().is_file());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
