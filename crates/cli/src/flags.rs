//! The command line: one definition, from which help and errors are made.
//!
//! Invariant: unusable words end with status 2 and a sentence.
//! Not here: what the commands do.
use crate::{bench, doctor, given, object, report, run, stat};
use byway_lab::pairs;
use byway_mem::layout::flags;
use byway_mem::layout::{MOST_SLABS, SLAB_BYTES};
use byway_pipe::ring::{RING_MOST, SLACK};
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// The program's commands. Each one's words are made when it is called: all of them together cost every `byway run` as much
/// as the start of a process does.
fn commands() -> Command {
    fn one(name: &'static str, about: &'static str, words: fn(Command) -> Command) -> Command {
        Command::new(name).about(about).defer(words)
    }
    Command::new("byway")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Pipes of unmodified programs, through shared memory")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            one(
                "run",
                "Run a command, and all that it starts, with its pipes carried",
                Run::augment_args,
            ),
            one(
                "demo",
                "Run real pipelines plain and carried, interleaved, and print one table",
                Demo::augment_args,
            ),
            one(
                "bench",
                "Measure one part by itself, against others that do the same",
                Bench::augment_args,
            ),
            one(
                "report",
                "Make one page of records (bench ... --json FILE): tables and plots",
                report::Wanted::augment_args,
            ),
            one(
                "stat",
                "Show the memory of the runs of this user: in use, cached, events",
                Stat::augment_args,
            ),
            one(
                "doctor",
                "Say what this machine allows, or whether a program can take part",
                Doctor::augment_args,
            ),
            one(
                "ping-pong",
                "One byte to and fro between two processes: prints seconds a round trip",
                PingPong::augment_args,
            )
            .hide(true),
            one(
                "pair-worker",
                "A run of one of the benchmarks between processes",
                PairWorker::augment_args,
            )
            .hide(true),
            one(
                "net-worker",
                "A run of one of the benchmarks of the network",
                NetWorker::augment_args,
            )
            .hide(true),
        ])
}

#[derive(Args)]
#[command(
    next_line_help = true,
    override_usage = "byway run [OPTIONS] [--] COMMAND [ARGUMENT]..."
)]
struct Run {
    /// Leave every pipe to the kernel: the command runs as without Byway
    #[arg(long)]
    off: bool,
    /// Say on standard error at the end what was carried, and why not all
    #[arg(long)]
    explain: bool,
    /// Do without these, comma-separated, to see what a run does then
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    forbid: Vec<Forbidden>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true)]
    command: Vec<OsString>,
    #[command(flatten)]
    ring: Rings,
    #[command(flatten)]
    memory: Memory,
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
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    json: Option<PathBuf>,
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
    /// A line for each CPU as well
    #[arg(long)]
    cpus: bool,
    /// Only the run with this process id
    pid: Option<u32>,
}

#[derive(Args)]
#[command(next_line_help = true)]
struct Doctor {
    /// Walk the memory of this user's runs: is each object in just one place?
    #[arg(long, conflicts_with = "command")]
    audit: bool,
    /// Say what of these programs and libraries would be rewritten, and
    /// whether each byte of it is proven to be code
    #[arg(long, verbatim_doc_comment, value_name = "FILE", num_args = 1.., conflicts_with_all = ["command", "audit"])]
    object: Vec<OsString>,
    /// Of objects: every site, one line of JSON an object
    #[arg(long, requires = "object")]
    json: bool,
    /// A program (or library) to look at; the machine if none is given
    #[arg(last = true, value_name = "CMD")]
    command: Option<OsString>,
}

#[derive(Args)]
struct PingPong {
    trips: u64,
}

#[derive(Args)]
struct PairWorker {
    words: Vec<String>,
}

#[derive(Args)]
struct NetWorker {
    word: String,
}

// How much a carried pipe holds. (A `///` here would be the head of the command's help.)
#[derive(Args)]
#[command(next_help_heading = "Pipes")]
struct Rings {
    /// How much a pipe holds, and how long writes go through
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pipe: Pipe,
    /// Bytes in flight in one pipe, 4K to 8M; by --pipe if not given
    ///
    /// The usual ones are 64K with base and 512K with lp.
    /// Up to 64K a pipe holds at least so much. Above that, writes of less
    /// than 4 KiB may find 4 KiB less. The kernel's own pipe must be able to
    /// hold twice that (/proc/sys/fs/pipe-max-size), or a pipe holds less.
    #[arg(long, value_name = "SIZE", value_parser = size, verbatim_doc_comment)]
    capacity: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Pipe {
    /// At least 64 KiB, as a pipe of the kernel
    Base,
    /// 512 KiB
    Lp,
    /// As base; long writes are copied once, between buffers
    Zc,
    /// Both
    #[value(name = "lp+zc")]
    LpZc,
    /// By each pipe's bytes
    Auto,
}

impl Rings {
    /// Of each ring; 0: by policy.
    fn bytes(&self) -> u32 {
        match (self.capacity, self.pipe) {
            (Some(n), _) => ring(n),
            (None, Pipe::Base | Pipe::Zc) => ring(KERNEL),
            (None, Pipe::Lp | Pipe::LpZc) => 512 << 10,
            (None, Pipe::Auto) => 0,
        }
    }
    /// Of a pipe that is no larger than the kernel's: bytes that it takes; 0: what the ring has room for.
    fn holds(&self) -> u32 {
        match (self.capacity, self.pipe) {
            (Some(n), _) if n > SLACK as u32 && n <= KERNEL => n,
            (None, Pipe::Base | Pipe::Zc) => KERNEL,
            _ => 0,
        }
    }
    /// Writes from here on may be direct; 0: none.
    fn direct_from(&self) -> u32 {
        match self.pipe {
            Pipe::Zc | Pipe::LpZc => 64 << 10,
            Pipe::Base | Pipe::Lp | Pipe::Auto => 0,
        }
    }
    /// Whether the channels have a say.
    fn is_auto(&self) -> bool {
        matches!(self.pipe, Pipe::Auto)
    }
    /// Whether they are the usual ones, which runs share.
    fn is_usual(&self) -> bool {
        self.capacity.is_none() && self.is_auto()
    }
}

/// Bytes that a pipe of the kernel holds.
const KERNEL: u32 = 64 << 10;

/// The ring for `n` bytes, a power of two. Where the kernel's own pipe would take all of them, written one by one, the ring has room for
/// them too: what it keeps free for a pump comes on top.
const fn ring(n: u32) -> u32 {
    let more = if n <= KERNEL { SLACK as u32 } else { 0 };
    (n + more).next_power_of_two()
}

/// A size from 4 KiB to 8 MiB.
fn size(text: &str) -> Result<u32, String> {
    let unit = match text.chars().last() {
        Some('k' | 'K') => 1 << 10,
        Some('m' | 'M') => 1 << 20,
        _ => 1,
    };
    let digits = &text[..text.len() - usize::from(unit > 1)];
    let n: u32 = digits
        .parse()
        .map_err(|_| "not a size; write 4096, 256K or 8M")?;
    let n = n.saturating_mul(unit);
    if !(4 << 10..=RING_MOST as u32).contains(&n) {
        return Err("from 4K to 8M".into());
    }
    Ok(n)
}

// The shared memory of a run.
#[derive(Args)]
#[command(next_help_heading = "Memory")]
pub struct Memory {
    /// In flight in all pipes at most, MiB; else the kernel's
    #[arg(long, value_name = "MIB", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=MOST_MIB))]
    pub memory: u32,
    /// Shared memory for this run alone
    ///
    /// All others of a user share theirs, so that FIFOs between them are
    /// carried. A run with figures of its own is always private.
    #[arg(long, verbatim_doc_comment)]
    pub private: bool,
    /// Make this much ready at the start, MiB
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    pub preallocate: u32,
    /// Free memory goes back to the system down to here, MiB ...
    #[arg(long, value_name = "MIB", default_value_t = 8)]
    low: u32,
    /// ... once there was more than this, MiB [default: 16, or twice --low]
    #[arg(
        long,
        value_name = "MIB",
        long_help = "... once there was more than this, MiB\n\n[default: 16, or twice --low; of little --memory half of it]"
    )]
    high: Option<u32>,
    /// ... for so long, ms
    #[arg(long, value_name = "MS", default_value_t = 300)]
    pub decay: u32,
    /// Of each ring; 0: by policy.
    #[arg(skip)]
    pub ring_bytes: u32,
    /// Bytes that a pipe takes; 0: what its ring has room for.
    #[arg(skip)]
    pub holds: u32,
    /// Direct writes from so many bytes on; 0: none.
    #[arg(skip)]
    pub direct_from: u32,
}

const MOST_MIB: i64 = ((MOST_SLABS * SLAB_BYTES) >> 20) as i64;

impl Default for Memory {
    fn default() -> Memory {
        Memory {
            memory: 128,
            private: false,
            preallocate: 0,
            low: 8,
            high: None,
            decay: 300,
            ring_bytes: 0,
            holds: 0,
            direct_from: 0,
        }
    }
}

impl Memory {
    pub fn slabs(&self) -> usize {
        ((self.memory as usize) << 20) / SLAB_BYTES
    }
    fn is_usual(&self) -> bool {
        let m = Memory::default();
        (
            self.memory,
            self.preallocate,
            self.low,
            self.high,
            self.decay,
        ) == (m.memory, m.preallocate, m.low, m.high, m.decay)
    }
    /// What was made ready stays.
    pub fn low(&self) -> u32 {
        self.low.max(self.preallocate)
    }
    pub fn high(&self) -> u32 {
        // More than there is would never be free.
        let usual = self.low().saturating_mul(2).max(16).min(self.memory / 2);
        self.high.unwrap_or(usual.max(self.low()))
    }
    /// Whether the figures agree with each other.
    ///
    /// # Errors
    /// A sentence: which do not.
    pub fn check(&self) -> Result<(), String> {
        for (what, least) in [("--low", self.low), ("--preallocate", self.preallocate)] {
            if self.high() < least {
                return Err(format!("--high {} is below {what} {least}", self.high()));
            }
        }
        if self.high() as i64 > 1 << 20 {
            return Err(format!(
                "--high {} MiB is more than any machine's",
                self.high()
            ));
        }
        if self.preallocate > self.memory {
            return Err(format!(
                "--preallocate {} is more than --memory {}",
                self.preallocate, self.memory
            ));
        }
        Ok(())
    }
}

/// What a run may be told to do without, to see or test what it does then.
#[derive(Clone, Copy, ValueEnum)]
enum Forbidden {
    /// Rings: channels are only recorded
    Carry,
    /// Waiting awake for a neighbour on another CPU
    Spin,
    /// Rewriting libc: no program takes part
    Rewrite,
    /// Shared memory for rings
    Memory,
    /// Named FIFOs
    Fifo,
    /// Restartable sequences: locks instead (also: BYWAY_RSEQ=off)
    Rseq,
}

impl Forbidden {
    fn flag(self) -> u32 {
        match self {
            Forbidden::Carry => flags::NO_CARRY,
            Forbidden::Spin => flags::NO_SPIN,
            Forbidden::Rewrite => flags::NO_REWRITE,
            Forbidden::Memory => flags::NO_MEMORY,
            Forbidden::Fifo => flags::NO_FIFO,
            Forbidden::Rseq => flags::NO_RSEQ,
        }
    }
}

/// Parses and runs; the result is the exit status.
pub fn main() -> i32 {
    let words = commands().get_matches();
    let Some((name, words)) = words.subcommand() else {
        unreachable!("clap: a command is required")
    };
    // A run outlives its standard error, a server its clients, and a worker is told by an error.
    let goes_on = match name {
        "run" | "pair-worker" | "net-worker" => true,
        "bench" => words.contains_id("serve"),
        _ => false,
    };
    if !goes_on {
        given::end_quietly();
    }
    match name {
        "run" => run(told(words)),
        "demo" => {
            let d: Demo = told(words);
            bench::demo(d.size, d.runs, d.json, d.cases)
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
            stat::stat(s.json, s.cpus, s.pid)
        }
        "doctor" => match told(words) {
            Doctor { audit: true, .. } => stat::audit(),
            Doctor { object, json, .. } if !object.is_empty() => object::print(&object, json),
            Doctor { command, .. } => doctor::doctor(command.as_deref()),
        },
        "ping-pong" => ping_pong(&told(words)),
        "pair-worker" => pairs::worker::main(&told::<PairWorker>(words).words),
        "net-worker" => byway_lab::net::worker::main(&told::<NetWorker>(words).word),
        name => unreachable!("clap: {name} is none of the commands"),
    }
}

/// A command's words, which clap has checked; what it cannot check ends here with its message.
fn told<T: FromArgMatches>(words: &ArgMatches) -> T {
    T::from_arg_matches(words).unwrap_or_else(|e| e.exit())
}

fn run(mut told: Run) -> i32 {
    // Figures of its own are figures of a domain of its own.
    told.memory.ring_bytes = told.ring.bytes();
    told.memory.holds = told.ring.holds();
    told.memory.direct_from = told.ring.direct_from();
    told.memory.private |= !told.memory.is_usual() || !told.ring.is_usual();
    let forbidden = told.forbid.iter().fold(0, |all, f| all | f.flag());
    run::run(
        told.off,
        told.explain,
        forbidden,
        &told.memory,
        &told.command,
    )
}

fn ping_pong(told: &PingPong) -> i32 {
    match byway_lab::workload::pingpong::run(told.trips.max(1)) {
        Ok(s) => {
            println!("{s}");
            0
        }
        Err(e) => {
            eprintln!("byway: ping-pong: {e}");
            1
        }
    }
}

#[cfg(test)]
mod tests;
