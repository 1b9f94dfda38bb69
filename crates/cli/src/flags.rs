//! The command line: one definition, from which help and errors are made.
//!
//! Invariant: unusable words end with status 2 and a sentence.
//! Not here: what the commands do.
use crate::settings::{Settings, environment, file};
use crate::tell::tell;
use crate::{
    bench, cached, completions, config, diagnosis, doctor, explain, given, help, library, manual,
    object, report, run, stat, top,
};
use byway_lab::child::Failure;
use byway_lab::pairs;
use byway_lab::workload::pingpong;
use byway_lab::workload::start::calls;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueHint};
use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A command. Its words are made when it is called: all of them together cost every `byway run` as much as the start of
/// a process does.
fn one(name: &'static str, about: &'static str, words: fn(Command) -> Command) -> Command {
    Command::new(name).about(about).defer(words)
}

/// The commands for people: those of the help, the manual pages and the completions.
fn shown() -> Command {
    Command::new("byway")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Pipes of unmodified programs, through shared memory")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .after_help(help::topics())
        .subcommands([
            one(
                "run",
                "Run a command, and all that it starts, with its pipes carried",
                Run::augment_args,
            ),
            one(
                "demo",
                "Run real pipelines plain and carried in turn, and print one table",
                Demo::augment_args,
            ),
            one(
                "bench",
                "Measure one part by itself, against others that do the same",
                Bench::augment_args,
            ),
            one(
                "report",
                "Make one page of records (bench --json FILE): tables and plots",
                report::Wanted::augment_args,
            ),
            one(
                "stat",
                "Show the memory of the runs of this user: in use, cached, events",
                Stat::augment_args,
            ),
            one(
                "top",
                "Show the open pipes of this user's runs: how much is carried",
                Top::augment_args,
            ),
            one(
                "doctor",
                "Say what this machine allows, or whether a program can take part",
                Doctor::augment_args,
            ),
            one(
                "config",
                "Show the settings of `byway run`, and where each comes from",
                Config::augment_args,
            ),
            one(
                "completions",
                "Print a shell's completions of this program",
                Completions::augment_args,
            ),
        ])
}

/// All commands.
fn commands() -> Command {
    let hidden = |name, about, words| one(name, about, words).hide(true);
    shown().subcommands([
        hidden(
            "manual",
            "Writes the manual pages into a folder: `make install` calls it",
            Manual::augment_args,
        ),
        hidden(
            "library",
            "Writes the preload library into a folder: `make install` calls it",
            Library::augment_args,
        ),
        hidden(
            "ping-pong",
            "One byte to and fro between two processes: prints seconds a round trip",
            PingPong::augment_args,
        ),
        hidden(
            "count-calls",
            "Counts the system calls of a program, by ptrace(2): prints the number",
            CountCalls::augment_args,
        ),
        hidden(
            "pair-worker",
            "A run of one of the benchmarks between processes",
            PairWorker::augment_args,
        ),
        hidden(
            "net-worker",
            "A run of one of the benchmarks of the network",
            NetWorker::augment_args,
        ),
        hidden(
            "service-worker",
            "A run of one of the services",
            ServiceWorker::augment_args,
        ),
    ])
}

#[derive(Args)]
#[command(
    next_line_help = true,
    override_usage = "byway run [OPTIONS] [--] COMMAND [ARGUMENT]..."
)]
struct Run {
    /// Leave every pipe to the kernel: the command runs as without Byway
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          hide_possible_values = true)]
    off: Option<bool>,
    #[command(flatten)]
    explain: explain::Wanted,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    #[command(flatten)]
    settings: Settings,
}

#[derive(Args)]
#[command(next_line_help = true)]
struct Demo {
    /// Size of the text file in TMPDIR (usually /tmp), MB
    #[arg(long, value_name = "MB", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,
    /// Counted runs of each pipeline and side
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    runs: u16,
    /// Write the record here as well; with `-` to standard output, and the
    /// table to standard error
    #[arg(long, value_name = "FILE", verbatim_doc_comment, value_hint = ValueHint::FilePath)]
    json: Option<PathBuf>,
    /// The table alone: no progress, no notes and warnings
    #[arg(short, long)]
    quiet: bool,
    /// Only these cases, such as `wc` or `cat-4@1cpu`; all if none is given
    cases: Vec<String>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
struct Bench {
    /// Serve another host's `--peer`, until Ctrl-C
    #[arg(long, value_name = "ADDRESS[:PORT]", num_args = 0..=1, default_missing_value = "127.0.0.1")]
    serve: Option<String>,
    #[command(subcommand)]
    what: Option<Box<bench::What>>,
}

#[derive(Args)]
struct Stat {
    /// One JSON document instead of tables
    #[arg(long)]
    json: bool,
    /// OpenMetrics text instead, for Prometheus and its like
    #[arg(long, conflicts_with = "json")]
    openmetrics: bool,
    /// A line for each CPU as well
    #[arg(long, conflicts_with = "openmetrics")]
    cpus: bool,
    /// Only the run with this process id
    pid: Option<u32>,
}

#[derive(Args)]
struct Top {
    /// One look, as text; usual where there is no terminal
    #[arg(long)]
    once: bool,
    /// One look, as one JSON document
    #[arg(long)]
    json: bool,
    /// Seconds between looks (2), also without a terminal
    #[arg(long, value_name = "SECONDS", conflicts_with_all = ["once", "json"], value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: Option<u64>,
}

#[derive(Args)]
#[command(next_line_help = true)]
struct Doctor {
    /// Walk the memory of this user's runs: is each object in just one place?
    #[arg(long, conflicts_with = "command")]
    audit: bool,
    /// Show the cache of rewritten texts; --cache=clear empties it
    #[arg(long, value_name = "clear", num_args = 0..=1, require_equals = true, default_missing_value = "show",
          hide_possible_values = true, conflicts_with_all = ["command", "audit"])]
    cache: Option<cached::Do>,
    /// Print one text to send with a bug report; nothing private is in it
    #[arg(long, conflicts_with_all = ["command", "audit", "cache", "object"])]
    report: bool,
    /// Say what of these programs and libraries would be rewritten, and
    /// whether each byte of it is proven to be code
    #[arg(long, verbatim_doc_comment, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath, conflicts_with_all = ["command", "audit", "cache"])]
    object: Vec<OsString>,
    /// Of objects: every site, one line of JSON an object
    #[arg(long, requires = "object")]
    json: bool,
    /// A program (or library) to look at; the machine if none is given
    #[arg(last = true, value_name = "CMD", value_hint = ValueHint::CommandName)]
    command: Option<OsString>,
}

#[derive(Args)]
struct Config {
    /// One JSON document instead of a table
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Completions {
    /// The shell
    shell: completions::Shell,
}

#[derive(Args)]
struct Manual {
    folder: PathBuf,
}

#[derive(Args)]
struct Library {
    folder: PathBuf,
}

#[derive(Args)]
struct PingPong {
    trips: u64,
}

#[derive(Args)]
struct CountCalls {
    program: String,
}

#[derive(Args)]
struct PairWorker {
    words: Vec<String>,
}

#[derive(Args)]
struct NetWorker {
    word: String,
}

#[derive(Args)]
struct ServiceWorker {
    word: String,
}

/// Parses and runs; the result is the exit status.
pub fn main() -> i32 {
    // clap has the help of commands by the same word, and says what is neither.
    if let Some(text) = help::asked(std::env::args_os().skip(1)) {
        given::end_quietly();
        print!("{text}");
        return 0;
    }
    let words = commands().get_matches();
    let Some((name, words)) = words.subcommand() else {
        unreachable!("clap: a command is required")
    };
    // A run outlives its standard error, a server its clients, and a worker is told by an error.
    let goes_on = match name {
        "run" | "pair-worker" | "net-worker" | "service-worker" => true,
        "bench" => words.contains_id("serve"),
        _ => false,
    };
    if !goes_on {
        given::end_quietly();
    }
    match name {
        "run" => run(words),
        "demo" => {
            let d: Demo = told(words);
            bench::demo(d.size, d.runs, d.json, d.quiet, d.cases)
        }
        "bench" => match told(words) {
            Bench {
                serve: Some(at), ..
            } => bench::net::serve(&at),
            // clap: without either the help is printed before this.
            Bench { what, .. } => what.map_or(2, |what| bench::bench(&what)),
        },
        "report" => report::report(&told(words)),
        "stat" => {
            let s: Stat = told(words);
            let form = match (s.json, s.openmetrics) {
                (true, _) => stat::Form::Json,
                (_, true) => stat::Form::OpenMetrics,
                _ => stat::Form::Tables { cpus: s.cpus },
            };
            stat::stat(form, s.pid)
        }
        "top" => {
            let t: Top = told(words);
            top::top(&top::Wanted {
                once: t.once,
                json: t.json,
                every: t.every.map(Duration::from_secs),
            })
        }
        "doctor" => match told(words) {
            Doctor { audit: true, .. } => stat::audit(),
            Doctor { report: true, .. } => diagnosis::print(&run_words()),
            Doctor {
                cache: Some(what), ..
            } => cached::cache(what),
            Doctor { object, json, .. } if !object.is_empty() => object::print(&object, json),
            Doctor { command, .. } => doctor::doctor(command.as_deref(), &run_words()),
        },
        "config" => config::config(&run_words(), told::<Config>(words).json),
        "completions" => completions::print(shown(), told::<Completions>(words).shell),
        "manual" => manual::write(shown(), &told::<Manual>(words).folder),
        "library" => library::write(&told::<Library>(words).folder),
        "ping-pong" => figure(name, pingpong::run(told::<PingPong>(words).trips.max(1))),
        "count-calls" => figure(name, calls::count(&told::<CountCalls>(words).program)),
        "pair-worker" => pairs::worker::main(&told::<PairWorker>(words).words),
        "net-worker" => byway_lab::net::worker::main(&told::<NetWorker>(words).word),
        "service-worker" => byway_lab::services::worker::main(&told::<ServiceWorker>(words).word),
        name => unreachable!("clap: {name} is none of the commands"),
    }
}

/// A command's words, which clap has checked; what it cannot check ends here with its message.
fn told<T: FromArgMatches>(words: &ArgMatches) -> T {
    T::from_arg_matches(words).unwrap_or_else(|e| e.exit())
}

/// The words of `run`, by which files are read.
fn run_words() -> Command {
    let mut run = Run::augment_args(Command::new("run"));
    run.build();
    run
}

/// What `run` is told: by the words, and where they say nothing by the files.
///
/// # Errors
/// The exit status; what is wrong has been said.
fn completed(words: &ArgMatches) -> Result<Run, i32> {
    let off = words.get_one::<bool>("off").copied();
    let files = match off.unwrap_or_else(environment::is_off) {
        // What leaves everything to the kernel is not kept from it by a file.
        true => vec![],
        false => file::found(),
    };
    if files.is_empty() {
        return Ok(told(words));
    }
    let fails = |why: String| {
        tell(&why);
        2
    };
    let is_quiet = words.get_one::<bool>("quiet") == Some(&true);
    let refused = |path: &Path, why: &str| {
        if !is_quiet {
            tell(&format!("{}: not obeyed: {why}", path.display()));
        }
    };
    let line = std::env::args_os().collect();
    let all = file::with_files(files, &run_words(), words, line, refused).map_err(fails)?;
    let Some(all) = all else {
        return Ok(told(words));
    };
    let words = commands().get_matches_from(all);
    let told: Run = told(words.subcommand_matches("run").unwrap_or(&words));
    // A figure of the command line may not agree with one of a file.
    let agree = told.settings.memory.check();
    agree.map_err(|why| {
        fails(format!(
            "run: {why}; `byway config` shows what a file gives"
        ))
    })?;
    Ok(told)
}

fn run(words: &ArgMatches) -> i32 {
    match completed(words) {
        Ok(told) => {
            let off = told.off.unwrap_or_else(environment::is_off);
            run::run(off, &told.explain, told.settings, &told.command)
        }
        Err(status) => status,
    }
}

/// Prints what a command of the lab has found out.
fn figure(name: &str, found: Result<impl Display, Failure>) -> i32 {
    match found {
        Ok(figure) => {
            println!("{figure}");
            0
        }
        Err(e) => {
            eprintln!("byway: {name}: {e}");
            1
        }
    }
}

#[cfg(test)]
mod tests;
