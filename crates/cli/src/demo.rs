//! `byway demo`: real pipelines on a real file, plain and carried in turn, in one table and, if wanted, one record.
//!
//! Not here: what is run and how it is counted (crate lab).
use byway_lab::record::Record;
use byway_lab::table;
use byway_lab::workload::pipeline::{self, Case, Texts};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

pub struct Wanted {
    /// Million bytes of text.
    pub size: u64,
    /// Counted pairs of runs of each pipeline.
    pub runs: usize,
    /// Where the record goes; `-` is standard output.
    pub json: Option<PathBuf>,
    /// Ids of the cases; all if empty.
    pub cases: Vec<String>,
}

/// Runs everything; 1 if any output or status differed, 2 if it could not start.
pub fn demo(w: &Wanted) -> i32 {
    let all = pipeline::cases();
    let unknown = w.cases.iter().find(|c| !all.iter().any(|a| a.id == **c));
    if let Some(c) = unknown {
        let ids: Vec<_> = all.iter().map(|c| c.id.as_str()).collect();
        eprintln!(
            "byway: demo: there is no case {c}; there are: {}",
            ids.join(" ")
        );
        return 2;
    }
    let cases: Vec<Case> = all
        .into_iter()
        .filter(|a| w.cases.is_empty() || w.cases.contains(&a.id))
        .collect();
    match measure(w, &cases) {
        Ok(same) => i32::from(!same),
        Err(e) => {
            eprintln!(
                "byway: demo: {e}; it needs bash and {} MB of room in {} (TMPDIR)",
                w.size + 50,
                std::env::temp_dir().display()
            );
            2
        }
    }
}

fn measure(w: &Wanted, cases: &[Case]) -> std::io::Result<bool> {
    let byway = std::env::current_exe()?;
    let to_stdout = w.json.as_deref() == Some(Path::new("-"));
    // The record alone on standard output: the table then goes to standard error.
    let say = |s: String| {
        if to_stdout {
            eprintln!("{s}");
        } else {
            println!("{s}");
        }
    };
    let bar = ProgressBar::new((cases.len() * (w.runs + 1)) as u64);
    bar.set_style(
        ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:18} {eta} left")
            .map_err(std::io::Error::other)?,
    );
    bar.set_message("writing the text");
    bar.tick();
    let texts = Texts::create(w.size)?;
    let mut record = Record::new("demo");
    bar.suspend(|| say(table::heading()));
    let mut all = true;
    for case in cases {
        bar.set_message(case.id.clone());
        let same = pipeline::measure(&mut record, case, w.runs, &byway, &texts, || bar.inc(1))?;
        all &= same;
        let ratio = record.ratios.last().expect("measure adds one");
        bar.suspend(|| say(table::line(&record, ratio, same)));
    }
    bar.finish_and_clear();
    if let Some(to) = &w.json {
        record.write(to)?;
    }
    Ok(all)
}
