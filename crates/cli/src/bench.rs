//! `byway bench`: one part by itself and others that do the same in turn, in one table and, if wanted, one record.
//!
//! Invariant: words that cannot be used, or a machine that cannot do it, end with status 2, a sentence and a remedy.
//! Not here: what is run and how it is counted (crate lab: mbuf, pairs).
use byway_lab::machine;
use byway_lab::mbuf::{self, Case, Failure, Plan, text};
use byway_lab::pairs::pipeflex::Options;
use byway_lab::pairs::start::Byway;
use byway_lab::pairs::{self, Bench, fifo, fifo_text};
use byway_lab::record::Record;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};

/// What every benchmark may be told.
#[derive(Args)]
pub struct Wanted {
    /// Fewer and shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Use only so many CPUs; all that this process may use if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub cpus: Option<u16>,
    /// Write the record here as well; `-` is standard output (the table then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Only these cases; all if none is given
    pub cases: Vec<String>,
}

/// What `bench pipeflex` may be told as well: the options of the original.
#[derive(Args)]
pub struct Flex {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Processes, two to a pipe
    #[arg(short = 'c', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=256))]
    processes: u16,
    /// Seconds that a run takes [default: 1, or 0.2 with --quick]
    #[arg(short = 't', long, value_name = "S")]
    time: Option<f64>,
    /// Mean time that a reader computes after each read, us
    #[arg(short = 'x', long, value_name = "US", default_value_t = 500, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    read_delay: u32,
    /// Mean time that a writer computes before each write, us
    #[arg(short = 'y', long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    write_delay: u32,
    /// Bytes of a read; 2 to 128 KiB in turn if not given
    #[arg(short = 'r', long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    read: Option<u32>,
    /// Bytes of a write
    #[arg(short = 'w', long, value_name = "BYTES", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    write: u32,
}

impl Flex {
    /// As the lab has them.
    fn options(&self) -> Result<Options, String> {
        if self.processes % 2 == 1 {
            return Err(format!(
                "-c {} is odd, and two processes share a pipe; give an even number",
                self.processes
            ));
        }
        let usual = Options::usual(self.wanted.quick);
        let ms = match self.time {
            Some(s) if (0.01..=60.0).contains(&s) => (s * 1e3) as u64,
            Some(s) => {
                return Err(format!(
                    "-t {s} is no time for a run; give 0.01 to 60 seconds"
                ));
            }
            None => usual.ms,
        };
        Ok(Options {
            processes: self.processes.into(),
            ms,
            read_us: self.read_delay.into(),
            write_us: self.write_delay.into(),
            read: self.read.unwrap_or(0) as usize,
            write: self.write as usize,
        })
    }
}

/// Runs everything; 2 if it could not.
pub fn mbuf(w: &Wanted) -> i32 {
    let done = plan(w).and_then(|(plan, cases)| measure(w, plan, &cases));
    ended("mbuf", done)
}

/// The CPUs to use, or why they cannot be.
fn cpus(w: &Wanted) -> Result<Vec<usize>, String> {
    let mut cpus = machine::allowed();
    if let Some(n) = w.cpus.map(usize::from) {
        if n > cpus.len() {
            return Err(format!(
                "there are {} CPUs for this process, not {n}; give --cpus {} or less",
                cpus.len(),
                cpus.len()
            ));
        }
        cpus.truncate(n);
    }
    Ok(cpus)
}

/// Those of `all` that are wanted, or why they cannot be.
fn chosen(w: &Wanted, all: Vec<String>) -> Result<Vec<String>, String> {
    if let Some(c) = w.cases.iter().find(|c| !all.contains(c)) {
        return Err(format!(
            "there is no case {c}; there are: {}",
            all.join(" ")
        ));
    }
    let wanted = |c: &String| w.cases.is_empty() || w.cases.contains(c);
    Ok(all.into_iter().filter(wanted).collect())
}

/// What is to be done, or why it cannot be.
fn plan(w: &Wanted) -> Result<(Plan, Vec<Case>), String> {
    let cpus = cpus(w)?;
    let all = Case::all(cpus.len());
    let ids = chosen(w, all.iter().map(Case::id).collect())?;
    let cases = all.into_iter().filter(|c| ids.contains(&c.id())).collect();
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
    write(&record, w)
}

/// The record, where it is wanted.
fn write(record: &Record, w: &Wanted) -> Result<(), String> {
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

/// Says what `what` could not do; 2 if it could not.
fn ended(what: &str, done: Result<(), String>) -> i32 {
    match done {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("byway: bench {what}: {e}");
            2
        }
    }
}

/// Runs a benchmark between two processes; 2 if it could not.
pub fn pairs(bench: Bench, w: &Wanted) -> i32 {
    let usual = Options::usual(w.quick);
    ended(bench.name(), measure_pairs(bench, w, usual))
}

/// The same of `pipeflex`, with its options.
pub fn pipeflex(f: &Flex) -> i32 {
    let done = f
        .options()
        .and_then(|options| measure_pairs(Bench::Pipeflex, &f.wanted, options));
    ended(Bench::Pipeflex.name(), done)
}

fn measure_pairs(bench: Bench, w: &Wanted, flex: Options) -> Result<(), String> {
    let failed = |e: Failure| e.to_string();
    let exe = std::env::current_exe().map_err(|e| format!("it cannot find itself: {e}"))?;
    let byway = Byway::new(&exe);
    let mut plan = pairs::Plan::new(cpus(w)?, w.quick);
    plan.flex = flex;
    plan.pipes = byway.pipes();
    let cases = chosen(w, bench.cases(&plan))?;
    let mut record = Record::new(bench.name());
    let to_stdout = w.json.as_deref() == Some(Path::new("-"));
    let say = |s: &str| {
        if to_stdout {
            eprintln!("{s}");
        } else {
            println!("{s}");
        }
    };
    record.notes.push(pairs::text::about(bench).into());
    pairs::overhead(&mut record, &plan, &byway).map_err(failed)?;
    let runs = cases.len() * bench.rounds(&plan) * bench.backends(&plan).len();
    let bar = ProgressBar::new(runs as u64);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg:11} {eta} left");
    bar.set_style(style.map_err(|e| e.to_string())?);
    if bench != Bench::Fifo {
        bar.suspend(|| say(&pairs::text::heading(bench)));
    }
    for case in &cases {
        bar.set_message(case.clone());
        bar.tick();
        pairs::measure(&mut record, bench, case, &plan, &byway, || bar.inc(1))
            .map_err(|e| format!("{case}: {e}"))?;
        if bench != Bench::Fifo {
            let lines = pairs::text::lines(&record, bench, case, &plan);
            bar.suspend(|| lines.iter().for_each(|l| say(l)));
        }
    }
    bar.finish_and_clear();
    if bench == Bench::Fifo {
        let cells: Vec<_> = cases.iter().filter_map(|c| fifo::Cell::of(c)).collect();
        record.notes.extend(fifo::notes(&cells, &plan));
        record.notes.push(fifo_text::SOURCE.into());
        fifo_text::table(&record).iter().for_each(|l| say(l));
    }
    for n in &record.notes {
        pairs::text::note(n).iter().for_each(|l| say(l));
    }
    write(&record, w)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flex: Flex,
    }

    fn options(words: &str) -> Result<Options, String> {
        let line = Line::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
        line.flex.options()
    }

    #[test]
    fn the_options_of_the_original() {
        let o = options("pipeflex -c4 -t 20 -x 500 -y 3 -r 65536 -w 512").unwrap();
        let expected = Options {
            processes: 4,
            ms: 20_000,
            read_us: 500,
            write_us: 3,
            read: 65536,
            write: 512,
        };
        assert_eq!(o, expected);
        let long = "pipeflex --processes 4 --time 20 --read-delay 500 --write-delay 3 --read 65536 --write 512";
        assert_eq!(options(long).unwrap(), expected);
        assert_eq!(options("pipeflex --quick").unwrap(), Options::usual(true));
    }

    #[test]
    fn options_that_cannot_be_have_a_remedy() {
        assert!(options("pipeflex -c3").unwrap_err().contains("even"));
        assert!(options("pipeflex -t 0").unwrap_err().contains("give"));
        assert!(options("pipeflex -r 0").is_err());
    }

    #[test]
    fn cases_that_are_not_there_are_told() {
        let line = Line::try_parse_from(["x", "9"]).unwrap();
        let e = chosen(&line.flex.wanted, vec!["1".into(), "2".into()]).unwrap_err();
        assert!(e.contains("no case 9") && e.contains("1 2"));
    }
}
