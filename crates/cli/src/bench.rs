//! `byway bench mbuf`: our allocator and others in turn, in one table and, if wanted, one record.
//!
//! Invariant: words that cannot be used, or a machine that cannot do it, end with status 2, a sentence and a remedy.
//! Not here: what is run and how it is counted (crate lab, mbuf).
use byway_lab::machine;
use byway_lab::mbuf::{self, Case, Failure, Plan, text};
use byway_lab::record::Record;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

pub struct Wanted {
    /// Fewer and shorter runs, a smaller burst.
    pub quick: bool,
    /// Use only so many CPUs.
    pub cpus: Option<usize>,
    /// Where the record goes; `-` is standard output.
    pub json: Option<PathBuf>,
    /// Ids of the cases; all if empty.
    pub cases: Vec<String>,
}

/// Runs everything; 2 if it could not.
pub fn mbuf(w: &Wanted) -> i32 {
    let done = plan(w).and_then(|(plan, cases)| measure(w, plan, &cases));
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("byway: bench mbuf: {e}");
            2
        }
    }
}

/// What is to be done, or why it cannot be.
fn plan(w: &Wanted) -> Result<(Plan, Vec<Case>), String> {
    let mut cpus = machine::allowed();
    if let Some(n) = w.cpus {
        if n > cpus.len() {
            return Err(format!(
                "there are {} CPUs for this process, not {n}; give --cpus {} or less",
                cpus.len(),
                cpus.len()
            ));
        }
        cpus.truncate(n);
    }
    let all = Case::all(cpus.len());
    let id = |c: &Case| c.id();
    if let Some(c) = w
        .cases
        .iter()
        .find(|c| !all.iter().map(id).any(|i| i == **c))
    {
        let ids: Vec<_> = all.iter().map(id).collect();
        return Err(format!(
            "there is no case {c}; there are: {}",
            ids.join(" ")
        ));
    }
    let wanted = |c: &Case| w.cases.is_empty() || w.cases.contains(&c.id());
    let cases = all.into_iter().filter(wanted).collect();
    Ok((Plan::new(cpus, w.quick), cases))
}

fn measure(w: &Wanted, mut plan: Plan, cases: &[Case]) -> Result<(), String> {
    let failed = |e: Failure| e.to_string();
    let mut record = Record::new("mbuf");
    if cases.contains(&Case::Burst) && plan.fit().map_err(failed)? {
        record.notes.push(format!(
            "burst of {} MiB, half of the memory that there is",
            plan.burst >> 20
        ));
    }
    let to_stdout = w.json.as_deref() == Some(Path::new("-"));
    // The record alone on standard output: the table then goes to standard error.
    let say = |s: &str| {
        if to_stdout {
            eprintln!("{s}");
        } else {
            println!("{s}");
        }
    };
    let watermark = mbuf::prepare(&mut record).map_err(failed)?;
    let runs: usize = cases.iter().map(|c| plan.runs(c)).sum();
    let bar = ProgressBar::new(runs as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:9} {eta} left");
    bar.set_style(style.map_err(|e| e.to_string())?);
    bar.suspend(|| say(&text::heading()));
    for case in cases {
        bar.set_message(case.id());
        bar.tick();
        mbuf::measure(&mut record, case, &plan, watermark, || bar.inc(1))
            .map_err(|e| format!("{}: {e}", case.id()))?;
        bar.suspend(|| text::lines(&record, case).iter().for_each(|l| say(l)));
    }
    bar.finish_and_clear();
    if cases.contains(&Case::Burst) {
        say("");
        text::curve_table(&record).iter().for_each(|l| say(l));
        say("");
        text::plot(&record, watermark).iter().for_each(|l| say(l));
    }
    record.notes.iter().for_each(|n| say(&format!("note: {n}")));
    match &w.json {
        Some(to) => record.write(to).map_err(|e| {
            format!(
                "{}: {e}; give --json a place that can be written to",
                to.display()
            )
        }),
        None => Ok(()),
    }
}
