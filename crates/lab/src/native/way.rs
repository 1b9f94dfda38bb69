//! What a way of records from one process to another is to those who time it, and what its ends do with a record.
//!
//! | backend | file | |
//! |---|---|---|
//! | `byway` | ours.rs | a record of the native library; from 4 KiB on a grant, filled in place |
//! | `byway-copy` | ours.rs | the same bytes from and into buffers of the caller's |
//! | `byway-records` | ours.rs | records where `byway` is bytes: to a sleeper |
//! | `iceoryx2` | crates/iceoryx2 | publish/subscribe; loans; to a sleeper with a notification |
//! | `zeromq` | zeromq.rs | PUSH and PULL over ipc:// |
//! | `unix` | kernel.rs | a UNIX socket that keeps records (SOCK_SEQPACKET) |
//! | `kernel-pipe` | kernel.rs | a pipe of the kernel's, of 1 MiB for large records; no boundaries |
//! | `eventfd` | kernel.rs | a wake-up without data |
//! | `limit` | limit.rs | of a round trip: two words of shared memory; of a large record: one memcpy by one process |
//!
//! Invariant: a record is `bytes` long and begins with its number, which the receiver looks at. Who sends or receives a
//! copy of a large one touches a byte of each page as well; in a grant or a loan only the number is touched, for what is
//! measured is its way and not its pages.
//! Not here: clocks, processes (run.rs).
use crate::spin;
use byway_sys::process;
use std::io;

/// What a way is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    pub bytes: usize,
    pub wait: Wait,
    /// Both processes are on one CPU.
    pub sharing: bool,
}

impl Need {
    /// Looks again and again until `done`; where who waits keeps the CPU from who is waited for, that one has it between two
    /// looks.
    #[inline]
    pub fn until(self, mut done: impl FnMut() -> bool) {
        if !self.sharing {
            return spin::until(done);
        }
        while !done() {
            process::yield_now();
        }
    }
}

/// What who finds no record does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// What the way has for it: most sleep, perhaps after a moment awake; iceoryx2's subscribers look again and again.
    Usual,
    /// Looks again and again; of ours, whose own wait begins so, and of ZeroMQ, whose thread needs the CPU, as `Usual`.
    Awake,
    /// Sleeps.
    Asleep,
}

/// A way, before the processes are forked that use it.
pub trait Way {
    type Sender<'a>: Sender
    where
        Self: 'a;
    type Receiver<'a>: Receiver
    where
        Self: 'a;

    /// The end of the process that sends.
    ///
    /// # Errors
    /// No descriptor or memory is free.
    fn sender(&self) -> io::Result<Self::Sender<'_>>;

    /// The end of the process that receives.
    ///
    /// # Errors
    /// As `sender`.
    fn receiver(&self) -> io::Result<Self::Receiver<'_>>;
}

pub trait Sender {
    /// Sends record `i`.
    ///
    /// # Errors
    /// The way's.
    fn send(&mut self, i: u64) -> io::Result<()>;
}

pub trait Receiver {
    /// The number of the next record.
    ///
    /// # Errors
    /// The way's.
    fn receive(&mut self) -> io::Result<u64>;
}

/// The sender has gone.
pub fn end() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

const PAGE: usize = 4096;

/// Numbers a grant or loan.
pub fn number(b: &mut [u8], i: u64) {
    b[..8].copy_from_slice(&i.to_le_bytes());
}

/// The number of a grant or loan.
pub fn numbered(b: &[u8]) -> u64 {
    u64::from_le_bytes(b[..8].try_into().expect("a record has a number"))
}

/// The number in front, and of a large record a byte of each page. What a short one costs is its way, not this.
#[inline]
pub fn fill(b: &mut [u8], i: u64) {
    if b.len() > PAGE {
        (PAGE..b.len()).step_by(PAGE).for_each(|at| b[at] = i as u8);
    }
    number(b, i);
}

/// What `fill` left there.
#[inline]
pub fn look(b: &[u8]) -> u64 {
    let i = numbered(b);
    if b.len() <= PAGE {
        return i;
    }
    let pages = (PAGE..b.len()).step_by(PAGE);
    // A page that was not filled makes it another number.
    i + pages.filter(|&at| b[at] != i as u8).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_has_its_number_on_every_page() {
        for bytes in [8, 64, 3 * PAGE] {
            let mut b = vec![0; bytes];
            fill(&mut b, 300);
            assert_eq!(look(&b), 300);
        }
        let mut b = vec![0; 3 * PAGE];
        fill(&mut b, 300);
        b[2 * PAGE] = 0;
        assert_ne!(look(&b), 300);
    }
}
