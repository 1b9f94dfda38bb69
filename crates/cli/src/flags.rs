//! The command line: one definition, from which help and errors are made.
//!
//! Invariant: unusable words end with status 2 and a sentence.
//! Not here: what the commands do.
use crate::{demo, doctor, run};
use byway_mem::layout::flags;
use clap::{Parser, Subcommand, ValueEnum};
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
        /// Do without these, comma-separated
        #[arg(long, value_delimiter = ',', value_name = "WHAT")]
        forbid: Vec<Forbidden>,
        /// The command and its arguments
        #[arg(trailing_var_arg = true, required = true)]
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
    /// Tell what this machine allows, or whether a program can take part
    Doctor {
        /// A program (or library) to look at
        #[arg(last = true, value_name = "CMD")]
        command: Option<OsString>,
    },
}

/// What a run may be told to do without, to see or test what it does then.
#[derive(Clone, Copy, ValueEnum)]
enum Forbidden {
    /// Rings: channels are only recorded
    Carry,
    /// Waiting awake for a neighbour on another CPU
    Spin,
    /// Rewriting libc: nobody takes part
    Rewrite,
    /// Shared memory for rings
    Memory,
}

impl Forbidden {
    fn flag(self) -> u32 {
        match self {
            Forbidden::Carry => flags::NO_CARRY,
            Forbidden::Spin => flags::NO_SPIN,
            Forbidden::Rewrite => flags::NO_REWRITE,
            Forbidden::Memory => flags::NO_MEMORY,
        }
    }
}

/// Parses and runs; the result is the exit status.
pub fn main() -> i32 {
    match Flags::parse().command {
        Command::Run {
            off,
            explain,
            forbid,
            command,
        } => {
            let forbidden = forbid.iter().fold(0, |all, f| all | f.flag());
            run::run(off, explain, forbidden, &command)
        }
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
        Command::Doctor { command } => doctor::doctor(command.as_deref()),
    }
}
