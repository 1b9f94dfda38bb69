//! How much shared memory a run has, and when it goes back to the system.
//!
//! Invariant: the figures that `check` lets through agree with each other.
//! Not here: the memory itself (crate mem), how much of it a pipe takes (pipes.rs).
use byway_mem::layout::{MOST_SLABS, SLAB_BYTES};
use clap::{ArgAction, Args};

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
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
          default_value_t = false, hide_default_value = true, hide_possible_values = true,
          action = ArgAction::Set, verbatim_doc_comment)]
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
        }
    }
}

impl Memory {
    pub fn slabs(&self) -> usize {
        ((self.memory as usize) << 20) / SLAB_BYTES
    }
    /// Whether the figures are the usual ones, with which runs share a domain.
    pub fn is_usual(&self) -> bool {
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
