//! How much a carried pipe holds, and from which length on a write is copied once.
//!
//! Invariant: up to the size of the kernel's pipe, a pipe takes at least the bytes that were asked for.
//! Not here: what a channel makes of it (crate pipe), how much memory all pipes have (memory.rs).
use byway_pipe::ring::{RING_MOST, SLACK};
use clap::{Args, ValueEnum};

// How much a carried pipe holds. (A `///` here would be the head of the command's help.)
#[derive(Args, Default)]
#[command(next_help_heading = "Pipes")]
pub struct Pipes {
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

#[derive(Clone, Copy, Default, ValueEnum)]
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
    #[default]
    Auto,
}

impl Pipes {
    /// Bytes of each ring; 0: by policy.
    pub fn ring_bytes(&self) -> u32 {
        match (self.capacity, self.pipe) {
            (Some(n), _) => ring(n),
            (None, Pipe::Base | Pipe::Zc) => ring(KERNEL),
            (None, Pipe::Lp | Pipe::LpZc) => 512 << 10,
            (None, Pipe::Auto) => 0,
        }
    }
    /// Bytes that a pipe takes; 0: what its ring has room for.
    pub fn holds(&self) -> u32 {
        match (self.capacity, self.pipe) {
            (Some(n), _) if n > SLACK as u32 && n <= KERNEL => n,
            (None, Pipe::Base | Pipe::Zc) => KERNEL,
            _ => 0,
        }
    }
    /// From so many bytes on a write may be copied once; 0: none.
    pub fn direct_from(&self) -> u32 {
        match self.pipe {
            Pipe::Zc | Pipe::LpZc => 64 << 10,
            Pipe::Base | Pipe::Lp | Pipe::Auto => 0,
        }
    }
    /// Whether the settings are the usual ones, with which runs share a domain.
    pub fn is_usual(&self) -> bool {
        self.capacity.is_none() && matches!(self.pipe, Pipe::Auto)
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
