//! Runs a workload: its cases in order, each with its share of the time, a table on the way, the record at the end.
//!
//! Invariant: time that a case did not need is there for those after it; with the record on standard output everything
//! else goes to standard error; a progress bar only where somebody looks (indicatif draws none into a pipe).
//! Not here: when a case ends (lab, runner.rs).
use super::flags::Wanted;
use super::outcome::Done;
use super::{against, baseline};
use crate::output::{writable, written};
use byway_lab::child::Failure;
use byway_lab::noise::{self, Watch};
use byway_lab::record::Record;
use byway_lab::runner::Limits;
use byway_lab::workload::Workload;
use byway_lab::{csv, interrupt, table};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps of the bar.
const STEPS: f64 = 1000.0;

/// Measures all that is wanted, shows it, and writes the record.
///
/// # Errors
/// A sentence: it could not be measured, or the record not be written.
pub fn run(workload: &mut dyn Workload, w: &Wanted) -> Result<Done, String> {
    let to_stdout = w.json.as_deref() == Some(Path::new("-"));
    // The record alone on standard output: the table then goes to standard error.
    let say = |s: &str| {
        if to_stdout {
            eprintln!("{s}");
        } else {
            println!("{s}");
        }
    };
    // What cannot be compared, or saved, is said before it is measured.
    let baseline = w.compared_with(workload.name())?;
    for (to, option) in [(&w.json, "--json"), (&w.csv, "--csv")] {
        if let Some(to) = to {
            written(writable(to), to, option)?;
        }
    }
    if let Some(name) = &w.save_baseline {
        baseline::ready(name, workload.name())?;
    }
    let record = measure(workload, w, &say)?;
    let footer = match w.quiet {
        true => table::faults(&record),
        false => table::footer(&record),
    };
    footer.iter().for_each(|l| say(l));
    if let Some(to) = &w.json {
        written(record.write(to), to, "--json")?;
    }
    if let Some(to) = &w.csv {
        written(std::fs::write(to, csv::of(&record)), to, "--csv")?;
    }
    if record.partial {
        return Ok(Done::Interrupted);
    }
    if !record.faults.is_empty() {
        return Ok(Done::Wrong);
    }
    let done = match &baseline {
        Some(b) => {
            say("");
            against::records(b, &record, &w.gate, &say)?
        }
        None => Done::Well,
    };
    if let Some(name) = &w.save_baseline {
        let to = baseline::save(name, &record)?;
        say(&format!("baseline {name}: {}", to.display()));
    }
    Ok(done)
}

/// Measures the cases that are wanted; lines and tables go to `say`.
///
/// # Errors
/// A sentence: what could not be measured.
pub fn measure(
    workload: &mut dyn Workload,
    w: &Wanted,
    say: &dyn Fn(&str),
) -> Result<Record, String> {
    let cases = w.chosen(workload.cases())?;
    let limits = w.limits(workload.usual())?;
    let mut record = Record::new(workload.name());
    record.percentiles = w.parts()?;
    record.affinity = workload.cpus();
    record.limit(&limits);
    interrupt::watch().map_err(|e| format!("Ctrl-C cannot be waited for: {e}"))?;
    let looked = look(workload, &mut record, &cases, say);
    let whole = workload_weight(workload, &cases);
    // Rounds that have to be take what they take.
    let time = match limits.sure {
        true => Duration::from_secs(86_400),
        false => limits.time,
    };
    let bar = match w.quiet {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(STEPS as u64),
    };
    let style = ProgressStyle::with_template("{wide_bar} {percent} % {msg}");
    bar.set_style(style.map_err(|e| e.to_string())?);
    bar.set_message("getting ready");
    bar.tick();
    let mut watch = Watch::begin(&record.affinity);
    match looked.and_then(|()| workload.prepare(&mut record, &cases)) {
        // Before there is anything.
        Err(Failure::Interrupted) => record.partial = true,
        done => done.map_err(|e| e.to_string())?,
    }
    record.parameters = workload.parameters();
    bar.suspend(|| workload.heading().iter().for_each(|l| say(l)));
    let began = Instant::now();
    let mut done = 0.0;
    for (i, case) in cases.iter().enumerate() {
        if record.partial {
            break;
        }
        let weight = workload.weight(case);
        let share = weight / workload_weight(workload, &cases[i..]);
        let left = limits.time.saturating_sub(began.elapsed());
        let limits = Limits {
            time: share_of(left, share),
            ..limits
        };
        let mut tick = |part: f64| {
            watch.between();
            let done = (done + weight * part) / whole;
            bar.set_message(format!(
                "{case:18} {}",
                left_of(began.elapsed(), done, time)
            ));
            bar.set_position((STEPS * done) as u64);
        };
        tick(0.0);
        match workload.measure(&mut record, case, &limits, &mut tick) {
            Err(Failure::Interrupted) => record.partial = true,
            done => done.map_err(|e| format!("{}: {case}: {e}", workload.name()))?,
        }
        bar.suspend(|| workload.lines(&record, case).iter().for_each(|l| say(l)));
        done += weight;
    }
    bar.finish_and_clear();
    record.noise = Some(watch.end());
    record.warnings = noise::warnings(&record);
    let tables = workload.tables(&mut record, &cases);
    tables.iter().for_each(|l| say(l));
    Ok(record)
}

/// Says what the cases would be compared with and is not here, before minutes are spent without it; the record says so too.
fn look(
    workload: &mut dyn Workload,
    record: &mut Record,
    cases: &[String],
    say: &dyn Fn(&str),
) -> Result<(), Failure> {
    for why in workload.look(record, cases)? {
        table::wrapped("left out:", &why)
            .iter()
            .for_each(|l| say(l));
        record.notes.push(format!("left out: {why}"));
    }
    Ok(())
}

fn workload_weight(workload: &dyn Workload, cases: &[String]) -> f64 {
    cases.iter().map(|c| workload.weight(c)).sum()
}

/// How long it will take, by what is done, but no longer than it may; nothing is known of it before any is.
fn left_of(spent: Duration, done: f64, most: Duration) -> String {
    let most = most.saturating_sub(spent).as_secs_f64();
    let s = if done > 0.0 {
        (spent.as_secs_f64() * (1.0 - done) / done).min(most)
    } else {
        most
    };
    match s {
        s if s > 80_000.0 => String::new(),
        s if s >= 90.0 => format!("{:.0} min left", s / 60.0),
        s => format!("{s:.0} s left"),
    }
}

fn share_of(time: Duration, share: f64) -> Duration {
    Duration::from_secs_f64(time.as_secs_f64() * share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_lab::record::{Better, Parameters};
    use byway_lab::runner::Contest;
    use std::cell::RefCell;

    /// Cases `1`, `2`, ... with their number as weight; nothing is measured.
    struct Fake {
        times: Vec<Duration>,
        wrong: bool,
        interrupted: bool,
    }

    impl Workload for Fake {
        fn name(&self) -> &'static str {
            "fake"
        }
        fn cases(&self) -> Vec<String> {
            vec!["1".into(), "2".into(), "3".into()]
        }
        fn cpus(&self) -> Vec<usize> {
            vec![0]
        }
        fn parameters(&self) -> Parameters {
            Parameters::from([("size".into(), 5.into())])
        }
        fn usual(&self) -> Limits {
            Limits::usual(true, 60, 60)
        }
        fn weight(&self, case: &str) -> f64 {
            case.parse().unwrap_or(1.0)
        }
        fn prepare(&mut self, _: &mut Record, _: &[String]) -> Result<(), Failure> {
            if self.interrupted {
                return Err(Failure::Interrupted);
            }
            Ok(())
        }
        fn measure(
            &mut self,
            record: &mut Record,
            case: &str,
            limits: &Limits,
            tick: &mut dyn FnMut(f64),
        ) -> Result<(), Failure> {
            self.times.push(limits.time);
            let contest = Contest {
                case,
                metric: "time",
                unit: "s",
                better: Better::Less,
                backends: &["a"],
                ratios: &[],
            };
            let outcome = contest.run(limits, |_| Ok(vec![1.0]), tick)?;
            record.add(&contest, &outcome);
            if self.wrong {
                record.faults.push("outputs differ".into());
            }
            Ok(())
        }
        fn heading(&self) -> Vec<String> {
            vec!["heading".into()]
        }
        fn lines(&self, _: &Record, case: &str) -> Vec<String> {
            vec![format!("line {case}")]
        }
    }

    #[test]
    fn cases_share_the_time_by_weight() {
        let mut fake = Fake {
            times: vec![],
            wrong: false,
            interrupted: false,
        };
        let said = RefCell::new(vec![]);
        let say = |s: &str| said.borrow_mut().push(s.to_string());
        let r = measure(&mut fake, &Wanted::default(), &say).unwrap();
        let seconds: Vec<_> = fake.times.iter().map(Duration::as_secs_f64).collect();
        // Nobody needs any of it, so the last may have all.
        assert!((seconds[0] - 10.0).abs() < 1.0 && (seconds[1] - 24.0).abs() < 1.5);
        assert!(seconds[2] > 55.0 && seconds[2] <= 60.0);
        assert_eq!(said.into_inner(), ["heading", "line 1", "line 2", "line 3"]);
        assert_eq!((r.results.len(), &r.parameters["size"]), (3, &5.into()));
        assert!(r.noise.is_some() && !r.partial);
    }

    #[test]
    fn interrupted_before_there_is_anything_it_is_partial() {
        let mut fake = Fake {
            times: vec![],
            wrong: false,
            interrupted: true,
        };
        let r = measure(&mut fake, &Wanted::default(), &|_| ()).unwrap();
        assert!(r.partial && r.results.is_empty() && fake.times.is_empty());
        let done = run(&mut fake, &Wanted::default());
        assert!(matches!(done, Ok(Done::Interrupted)));
    }

    #[test]
    fn what_is_left_is_by_what_is_done_and_no_longer_than_it_may_be() {
        let s = Duration::from_secs;
        assert_eq!(left_of(s(10), 0.25, s(100)), "30 s left");
        assert_eq!(left_of(s(10), 0.05, s(100)), "2 min left");
        assert_eq!(left_of(s(0), 0.0, s(60)), "60 s left");
        assert_eq!(left_of(s(1), 0.0, s(86_400)), "");
    }

    #[test]
    fn what_differed_is_wrong() {
        let mut fake = Fake {
            times: vec![],
            wrong: true,
            interrupted: false,
        };
        assert!(matches!(
            run(&mut fake, &Wanted::default()),
            Ok(Done::Wrong)
        ));
    }

    #[test]
    fn a_place_that_cannot_be_written_to_is_told() {
        let w = Wanted {
            json: Some("/nonexistent/a".into()),
            ..Wanted::default()
        };
        let mut fake = Fake {
            times: vec![],
            wrong: false,
            interrupted: false,
        };
        let e = run(&mut fake, &w).err().unwrap();
        assert!(e.contains("--json a place"), "{e}");
        assert!(fake.times.is_empty(), "before anything was measured");
    }
}
