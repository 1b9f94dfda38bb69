//! What a benchmark may be told.
//!
//! Invariant: words that cannot be used are a sentence with what to give instead.
//! Not here: what they do.
use super::baseline;
use byway_lab::machine;
use byway_lab::pairs::pipeflex::Options;
use byway_lab::record::Record;
use byway_lab::runner::Limits;
use clap::{Args, ValueHint};
use std::path::PathBuf;
use std::time::Duration;

/// What every benchmark may be told.
#[derive(Args, Clone, Default)]
#[command(next_line_help = true)]
pub struct Wanted {
    /// Fewer and shorter runs
    #[arg(long)]
    pub quick: bool,
    /// Use only so many CPUs; all that this process may use if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub cpus: Option<u16>,
    /// Use these CPUs, such as 0,2; the first two for the processes of a pair
    #[arg(
        long,
        value_name = "CPU",
        value_delimiter = ',',
        conflicts_with = "cpus"
    )]
    pub pin: Vec<usize>,
    /// Seconds for all cases; one ends early if its intervals are narrow
    #[arg(long, value_name = "S")]
    pub time: Option<f64>,
    /// Width of 95 % intervals that is narrow enough, percent [default: 5]
    #[arg(long, value_name = "PCT")]
    pub width: Option<f64>,
    /// Rounds that count of each case, no fewer and no more, however long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), conflicts_with_all = ["time", "width"])]
    pub runs: Option<u16>,
    /// Percentiles of each row for the record, such as 50,95,99.9
    #[arg(long, value_name = "P", value_delimiter = ',')]
    pub percentiles: Vec<f64>,
    /// Write the record here as well; with `-` to standard output, and the
    /// table to standard error
    #[arg(long, value_name = "FILE", verbatim_doc_comment, value_hint = ValueHint::FilePath)]
    pub json: Option<PathBuf>,
    /// Write all samples here as comma-separated values
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub csv: Option<PathBuf>,
    /// Save the record under this name, to compare later ones with
    #[arg(long, value_name = "NAME", value_parser = baseline::name)]
    pub save_baseline: Option<String>,
    /// Compare with the record that was saved under this name
    #[arg(long, value_name = "NAME", value_parser = baseline::name)]
    pub baseline: Option<String>,
    #[command(flatten)]
    pub gate: Gate,
    /// The tables alone: no progress, no notes and warnings
    #[arg(short, long)]
    pub quiet: bool,
    /// Only these cases; all if none is given
    pub cases: Vec<String>,
}

/// What a comparison may be told.
#[derive(Args, Clone, Default)]
#[command(next_line_help = true)]
pub struct Gate {
    /// End with status 1 if a row's whole interval is worse by more percent
    #[arg(long, value_name = "PCT")]
    fail_on_regression: Option<f64>,
    /// Compare although these differ, such as kernel,libc
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub despite: Vec<String>,
}

impl Gate {
    /// From which part on worse is worse; `None`: it is only shown.
    ///
    /// # Errors
    /// A sentence: it is no threshold.
    pub fn threshold(&self) -> Result<Option<f64>, String> {
        match self.fail_on_regression {
            Some(p) if !(0.0..=1000.0).contains(&p) => Err(format!(
                "--fail-on-regression {p} is no threshold; give 0 to 1000 percent"
            )),
            p => Ok(p.map(|p| p / 100.0)),
        }
    }
}

impl Wanted {
    /// The CPUs to use, or why they cannot be.
    pub fn places(&self) -> Result<Vec<usize>, String> {
        let mut cpus = machine::allowed();
        if let Some(c) = self.pin.iter().find(|c| !cpus.contains(c)) {
            return Err(format!(
                "CPU {c} is not for this process; there are: {}",
                words(&cpus)
            ));
        }
        if !self.pin.is_empty() {
            return Ok(self.pin.clone());
        }
        if let Some(n) = self.cpus.map(usize::from) {
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
    pub fn chosen(&self, all: Vec<String>) -> Result<Vec<String>, String> {
        if let Some(c) = self.cases.iter().find(|c| !all.contains(c)) {
            return Err(format!(
                "there is no case {c}; there are: {}",
                all.join(" ")
            ));
        }
        let wanted = |c: &String| self.cases.is_empty() || self.cases.contains(c);
        Ok(all.into_iter().filter(wanted).collect())
    }

    /// The limits, of all cases together.
    pub fn limits(&self, usual: Limits) -> Result<Limits, String> {
        let mut l = usual;
        if let Some(s) = self.time {
            if !(0.1..=86_400.0).contains(&s) {
                return Err(format!("--time {s} is no time; give 0.1 to 86400 seconds"));
            }
            l.time = Duration::from_secs_f64(s);
            // The time is what is asked for, so it may be used, and no more than that.
            l.most = 10_000;
            l.sure = false;
        }
        if let Some(w) = self.width {
            if !(0.01..=100.0).contains(&w) {
                return Err(format!("--width {w} is no width; give 0.01 to 100 percent"));
            }
            l.width = w / 100.0;
        }
        if let Some(n) = self.runs {
            (l.least, l.most) = (n.into(), n.into());
            l.time = Duration::from_secs(86_400);
            l.sure = false;
        }
        Ok(l)
    }

    /// The baseline of a workload, if one is wanted, or why it cannot be compared with.
    pub fn compared_with(&self, workload: &str) -> Result<Option<Record>, String> {
        let threshold = self.gate.threshold()?;
        match &self.baseline {
            Some(name) => baseline::load(name, workload).map(Some),
            None if threshold.is_some() => Err(
                "--fail-on-regression has nothing to compare with; give --baseline NAME as well"
                    .into(),
            ),
            None => Ok(None),
        }
    }

    /// The percentiles.
    pub fn parts(&self) -> Result<Vec<f64>, String> {
        match self
            .percentiles
            .iter()
            .find(|p| !(0.0..=100.0).contains(*p))
        {
            Some(p) => Err(format!(
                "--percentiles {p} is no percentile; give 0 to 100, such as 50,95,99.9"
            )),
            None => Ok(self.percentiles.clone()),
        }
    }
}

fn words(v: &[usize]) -> String {
    v.iter().map(usize::to_string).collect::<Vec<_>>().join(" ")
}

/// What `bench pipeline` may be told as well.
#[derive(Args)]
pub struct Lines {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Size of the text file, MB [default: 500, or 100 with --quick]
    #[arg(long, value_name = "MB", value_parser = clap::value_parser!(u64).range(1..))]
    size: Option<u64>,
}

impl Lines {
    pub fn size(&self) -> u64 {
        self.size.unwrap_or(size(self.wanted.quick))
    }
}

/// The usual size of the text, MB.
pub fn size(quick: bool) -> u64 {
    if quick { 100 } else { 500 }
}

/// What `bench pipeflex` may be told as well: the options of the original.
#[derive(Args)]
pub struct Flex {
    #[command(flatten)]
    pub wanted: Wanted,
    /// Processes, two to a pipe
    #[arg(short = 'c', long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=256))]
    processes: u16,
    /// Seconds that a run takes [default: 0.15, or 0.04 with --quick]
    #[arg(short = 't', long, value_name = "S")]
    run_time: Option<f64>,
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
    pub fn options(&self) -> Result<Options, String> {
        if self.processes % 2 == 1 {
            return Err(format!(
                "-c {} is odd, and two processes share a pipe; give an even number",
                self.processes
            ));
        }
        let usual = Options::usual(self.wanted.quick);
        let ms = match self.run_time {
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        flex: Flex,
    }

    fn parsed(words: &str) -> Result<Flex, String> {
        let line = Line::try_parse_from(words.split(' ')).map_err(|e| e.to_string())?;
        Ok(line.flex)
    }
    fn options(words: &str) -> Result<Options, String> {
        parsed(words)?.options()
    }
    fn limits(words: &str) -> Result<Limits, String> {
        parsed(words)?.wanted.limits(Limits::usual(false, 1, 60))
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
        let long = "pipeflex --processes 4 --run-time 20 --read-delay 500 --write-delay 3 --read 65536 --write 512";
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
        let f = parsed("x 9").unwrap();
        let e = f.wanted.chosen(vec!["1".into(), "2".into()]).unwrap_err();
        assert!(e.contains("no case 9") && e.contains("1 2"));
    }

    #[test]
    fn limits_are_what_was_asked_for() {
        let l = limits("x --time 90 --width 2.5").unwrap();
        assert_eq!((l.time, l.width), (Duration::from_secs(90), 0.025));
        let l = limits("x --runs 3").unwrap();
        assert_eq!((l.least, l.most), (3, 3));
        // Rounds that have to be are those that nobody has told a time for.
        let sure = |words: &str| {
            let usual = Limits {
                sure: true,
                ..Limits::usual(false, 1, 60)
            };
            parsed(words).unwrap().wanted.limits(usual).unwrap().sure
        };
        assert!(sure("x") && sure("x --width 2") && !sure("x --time 90") && !sure("x --runs 3"));
        for wrong in ["x --time 0", "x --time nan", "x --width 0", "x --width -5"] {
            let e = limits(wrong).unwrap_err();
            assert!(e.contains("give") || e.contains("Usage"), "{e}");
        }
        assert!(limits("x --runs 3 --time 5").is_err());
    }

    #[test]
    fn places_that_are_not_there_are_told() {
        let places = |words: &str| parsed(words)?.wanted.places();
        let first = machine::allowed()[0];
        assert_eq!(places(&format!("x --pin {first}")).unwrap(), [first]);
        assert!(places("x --pin 99999").unwrap_err().contains("there are"));
        assert!(places("x --cpus 60000").unwrap_err().contains("or less"));
        assert!(places("x --cpus 1 --pin 0").is_err());
    }

    #[test]
    fn thresholds_are_percent() {
        let of = |words: &str| parsed(words)?.wanted.gate.threshold();
        assert_eq!(of("x").unwrap(), None);
        assert_eq!(of("x --fail-on-regression 5").unwrap(), Some(0.05));
        assert!(
            of("x --fail-on-regression 5000")
                .unwrap_err()
                .contains("give")
        );
        let with = |words: &str| parsed(words)?.wanted.compared_with("t").map(|_| ());
        assert_eq!(with("x"), Ok(()));
        assert!(
            with("x --fail-on-regression 5")
                .unwrap_err()
                .contains("--baseline")
        );
        assert!(of("x --baseline ../x").unwrap_err().contains("not a name"));
    }

    #[test]
    fn percentiles_are_parts_of_a_hundred() {
        let parts = |words: &str| parsed(words)?.wanted.parts();
        assert_eq!(parts("x --percentiles 50,99.9").unwrap(), [50.0, 99.9]);
        assert!(
            parts("x --percentiles 101")
                .unwrap_err()
                .contains("0 to 100")
        );
    }
}
