//! The command line: one definition, from which help and errors are made.
//!
//! Invariant: unusable words end with status 2 and a sentence.
//! Not here: what the commands do.
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Parser)]
#[command(
    name = "byway",
    version,
    about = "Pipes of unmodified programs, through shared memory"
)]
struct Flags {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command, and all that it starts, with its pipes carried
    Run {
        /// Leave every pipe to the kernel
        #[arg(long)]
        off: bool,
        /// At the end, tell on standard error what was carried, and why the rest was not
        #[arg(long)]
        explain: bool,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<OsString>,
    },
    /// Run real pipelines plain and carried, interleaved, and print one table
    Demo {
        /// Size of the text file, MB
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
        size: u64,
        /// Counted runs of each pipeline and side
        #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
        runs: u16,
        /// Write the record here as well; `-` is standard output (the table then goes to standard error)
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Only these cases, such as `wc` or `cat-4@1cpu`; all if none is given
        cases: Vec<String>,
    },
    /// One byte to and fro between two processes: prints seconds a round trip
    #[command(hide = true)]
    PingPong { trips: u64 },
    /// Tell whether programs' code can be rewritten, object by object
    Doctor {
        /// Programs or libraries; libc and the dynamic loader if none is given
        objects: Vec<PathBuf>,
    },
}

/// Parses and runs; the result is the exit status.
pub fn main() -> i32 {
    match Flags::parse().command {
        Command::Run {
            off,
            explain,
            command,
        } => run::run(off, explain, &command),
        Command::Demo {
            size,
            runs,
            json,
            cases,
        } => demo::demo(&demo::Wanted {
            size,
            runs: runs.into(),
            json,
            cases,
        }),
        Command::PingPong { trips } => match byway_lab::workload::pingpong::run(trips.max(1), true)
        {
            Ok(s) => {
                println!("{s}");
                0
            }
            Err(e) => {
                eprintln!("byway: ping-pong: {e}");
                1
            }
        },
        Command::Doctor { objects } => run::doctor(&objects),
    }
}

use crate::{demo, run};
