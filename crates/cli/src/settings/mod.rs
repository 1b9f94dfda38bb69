//! What a run is told: the options of `byway run` that shape its domain, the environment, and files.
//!
//! ```text
//! pipes.rs        how much a pipe holds, and which writes are copied once
//! memory.rs       how much shared memory there is, and when it goes back
//! programs.rs     which programs take part
//! environment.rs  BYWAY and its like, as this process was given them
//! file.rs         the files that give the options other defaults
//! ```
//! Invariant: nothing here uses another room of this crate, and nothing here acts: settings are read and checked.
//! Not here: the commands (flags.rs), what follows from a setting (domain.rs, run.rs).
pub mod environment;
pub mod file;
mod memory;
mod pipes;
pub mod programs;

use byway_mem::layout::flags;
use clap::{Args, ValueEnum};
use memory::Memory;
use pipes::Pipes;
use programs::Programs;

// The options of a run that shape its domain. (A `///` here would be the head of the command's help.)
#[derive(Args, Default)]
pub struct Settings {
    /// Do without these, comma-separated, to see what a run does then
    #[arg(long, value_delimiter = ',', value_name = "WHAT")]
    forbid: Vec<Forbidden>,
    #[command(flatten)]
    pub pipes: Pipes,
    #[command(flatten)]
    pub memory: Memory,
    #[command(flatten)]
    pub programs: Programs,
}

impl Settings {
    /// Whether the run has a domain of its own: one with other settings than the usual cannot be shared.
    pub fn is_private(&self) -> bool {
        let usual = self.memory.is_usual() && self.pipes.is_usual();
        self.memory.private || !usual || self.forbidden() != 0
    }

    /// What the run does without, as flags of its domain.
    pub fn forbidden(&self) -> u32 {
        self.forbid.iter().fold(0, |all, f| all | f.flag())
    }

    /// The run does without restartable sequences as well.
    pub fn forbid_rseq(&mut self) {
        self.forbid.push(Forbidden::Rseq);
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
    /// UNIX sockets
    Unix,
    /// TCP connections on this host
    Tcp,
    /// UDP sockets on this host
    Udp,
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
            Forbidden::Unix => flags::NO_UNIX,
            Forbidden::Tcp => flags::NO_TCP,
            Forbidden::Udp => flags::NO_UDP,
            Forbidden::Rseq => flags::NO_RSEQ,
        }
    }
}

#[cfg(test)]
mod tests;
