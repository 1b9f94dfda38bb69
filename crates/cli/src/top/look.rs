//! A look at the runs that live: their pipes, and what becomes of the bytes of each.
//!
//! Invariant: a run is looked at, never changed. The words of a channel are read one after another, while its programs go
//! on: its figures are of slightly different moments.
//! Not here: what was carried, and why not all (account.rs), how a look is shown (mod.rs, draw.rs).
use crate::account::{self, Cause, Counts, Entry};
use crate::stat::{self, size};
use byway_folder::descriptors;
use byway_mem::domain::Domain;
use byway_mem::layout::SLAB_BYTES;
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_pipe::mode::Mode;
use serde::Serialize;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::sync::atomic::Ordering::Relaxed;

/// The runs that share a domain, and its pipes.
#[derive(Serialize)]
pub struct Shared {
    pub runs: Vec<Running>,
    pub taken_bytes: usize,
    pub limit_bytes: usize,
    pub channels: Vec<Flow>,
}

#[derive(Serialize)]
pub struct Running {
    pub pid: u32,
    pub command: String,
}

/// One pipe or FIFO, or one direction of a connection.
#[derive(Serialize, Clone)]
pub struct Flow {
    pub kind: &'static str,
    pub inode: u64,
    /// The run in which it came into being.
    pub run: u32,
    pub writer: String,
    pub reader: String,
    /// The processes that have it open, as far as they show what they have.
    pub processes: BTreeSet<u32>,
    pub carried_bytes: u64,
    pub one_copy_bytes: u64,
    pub kernel_bytes: u64,
    pub kernel_bytes_exact: bool,
    pub uncounted_calls: u32,
    pub polls: u32,
    pub wake_ups: u32,
    pub hand_backs: u32,
    pub mode: &'static str,
    /// Bytes of the ring, and of those that lie in it; none where it has no ring.
    pub ring_bytes: Option<u64>,
    pub unread_bytes: Option<u64>,
    /// In a call of the kernel's: asleep, as a rule. 7 are 7 or more; none where such calls are not counted.
    pub readers_asleep: Option<u64>,
    pub writers_asleep: Option<u64>,
    pub why: Option<String>,
}

/// Device and inode of what processes have open, and which processes.
type Holders = HashMap<(u64, u64), BTreeSet<u32>>;

/// The live runs and their pipes; in each domain the pipe with the most bytes first.
pub fn look() -> Vec<Shared> {
    let domains = stat::runs(None);
    let mut holders = Holders::new();
    if domains.iter().any(|(_, d)| registry::had_any(d)) {
        descriptors::each(
            |_| true,
            |pid, path| {
                if let Some(key) = descriptors::pipe(path, true) {
                    holders.entry(key).or_default().insert(pid);
                }
            },
        );
    }
    let each = domains.into_iter().map(|(runs, d)| {
        let of = |i| flow(&d, i, &holders);
        let mut channels: Vec<Flow> = registry::slots(d).filter_map(of).collect();
        channels.sort_by_key(|f| std::cmp::Reverse(f.carried_bytes + f.kernel_bytes));
        Shared {
            runs: runs.into_iter().map(running).collect(),
            taken_bytes: d.header().slabs_used.load(Relaxed) as usize * SLAB_BYTES,
            limit_bytes: d.slabs() * SLAB_BYTES,
            channels,
        }
    });
    each.collect()
}

/// A run, and the command that it was given.
fn running(pid: u32) -> Running {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words: Vec<_> = line.split(|&c| c == 0).filter(|w| !w.is_empty()).collect();
    let own = words.iter().position(|w| *w == b"--").map_or(2, |k| k + 1);
    let words = words.iter().skip(own);
    let words: Vec<_> = words.map(|w| account::printable(w, "")).collect();
    Running {
        pid,
        command: words.join(" "),
    }
}

/// The channel in slot `i`; none if no process has it open: what it carried is told when its run ends.
fn flow(d: &Domain, i: usize, holders: &Holders) -> Option<Flow> {
    let key = registry::object(*d, i)?;
    let ch = Channel::at(*d, i)?;
    let processes = holders.get(&key)?.clone();
    let told = Entry::of(d, ch, key.1, Counts::default());
    // EDGE E5: before the tail, as a mode has it.
    let forever = ch.forever();
    let (head, tail) = (ch.head(), ch.tail());
    let mode = Mode::of(tail, forever);
    let ring = ch.ring(d).filter(|_| mode == Mode::Open);
    // A head that was read first is never before the tail, but a reader goes on between the two.
    let unread = tail.wide(head.position()) - head.position();
    let is_counted = mode != Mode::PassThrough;
    Some(Flow {
        kind: told.kind.name(),
        inode: told.inode,
        run: ch.facts.0.run.load(Relaxed),
        writer: told.writer,
        reader: told.reader,
        processes,
        carried_bytes: told.counts.carried,
        one_copy_bytes: told.counts.direct,
        kernel_bytes: told.counts.kernel,
        kernel_bytes_exact: told.is_exact,
        uncounted_calls: told.calls,
        polls: told.counts.polls,
        wake_ups: told.counts.wakes,
        hand_backs: told.counts.hand_backs,
        mode: match mode {
            Mode::Open => "carried",
            Mode::Closed => "kernel",
            Mode::PassThrough => "passes through",
            Mode::Moving | Mode::Spilling => "changes",
            Mode::Kernels => "kernel for good",
        },
        ring_bytes: ring.map(|r| r.bytes()),
        unread_bytes: ring.map(|r| unread.min(r.bytes())),
        readers_asleep: is_counted.then(|| tail.sleepers()),
        writers_asleep: is_counted
            .then(|| tail.kernel_writers() + u64::from(ring.is_some() && sleeps_full(ch))),
        why: told.cause.map(clause),
    })
}

/// Whether a writer sleeps because the ring is full. The tail does not count it: the bytes that it has put into the kernel
/// lane keep its descriptor full, and the channel has the thread that last went to sleep so.
fn sleeps_full(ch: &Channel) -> bool {
    let thread = ch.writer.0.sleeper.load(Relaxed);
    let stat = || fs::read_to_string(format!("/proc/{thread}/stat")).ok();
    // LINUX proc_pid_stat(5): the state stands behind the name, which may have any character.
    let sleeps = |stat: String| {
        stat.rsplit_once(") ")
            .is_some_and(|(_, state)| state.starts_with('S'))
    };
    thread != 0 && ch.chunk().valid() && stat().is_some_and(sleeps)
}

fn clause(c: Cause) -> String {
    match c.program {
        Some(program) => format!("{program} {}", c.text),
        None => c.text.into(),
    }
}

impl Running {
    pub fn line(&self) -> String {
        format!("run {}: {}", self.pid, self.command)
    }
}

impl Shared {
    /// The memory, and how many channels.
    pub fn summary(&self) -> String {
        format!(
            "{} of {} taken, {} open",
            size(self.taken_bytes),
            size(self.limit_bytes),
            match self.channels.len() {
                1 => "1 pipe or FIFO".into(),
                n => format!("{n} pipes, FIFOs and sockets' directions"),
            }
        )
    }
}

impl Flow {
    /// Carried, by the kernel, size of the ring, how full it is, readers and writers asleep.
    pub fn figures(&self) -> [String; 6] {
        let or = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        let least = if self.kernel_bytes_exact { "" } else { ">" };
        let full = self.percent_full();
        [
            size(self.carried_bytes as usize),
            format!("{least}{}", size(self.kernel_bytes as usize)),
            self.ring_bytes.map_or("-".into(), |n| size(n as usize)),
            full.map_or("-".into(), |n| format!("{n}%")),
            or(self.readers_asleep),
            or(self.writers_asleep),
        ]
    }

    pub fn percent_full(&self) -> Option<u64> {
        let part = self.unread_bytes.zip(self.ring_bytes);
        part.map(|(n, all)| n * 100 / all.max(1))
    }

    /// Its kind, unless it is a pipe, and the programs at both ends.
    pub fn ends(&self) -> String {
        let kind = match self.kind {
            "pipe" => String::new(),
            kind => format!("{kind}: "),
        };
        format!("{kind}{} -> {}", self.writer, self.reader)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A channel with the longest figures that there are.
    pub fn flow(name: &str, unread: Option<u64>) -> Flow {
        Flow {
            kind: "socket",
            inode: u64::MAX,
            run: 1,
            writer: name.into(),
            reader: name.into(),
            processes: BTreeSet::new(),
            carried_bytes: u64::MAX,
            one_copy_bytes: 0,
            kernel_bytes: u64::MAX,
            kernel_bytes_exact: false,
            uncounted_calls: 0,
            polls: 0,
            wake_ups: 0,
            hand_backs: 0,
            mode: "carried",
            ring_bytes: unread.map(|_| 8 << 20),
            unread_bytes: unread,
            readers_asleep: Some(7),
            writers_asleep: unread,
            why: Some("nobody could watch who opens it (fs.inotify.max_user_watches)".into()),
        }
    }
}
