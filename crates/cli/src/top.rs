//! `byway top`: the runs that live, their pipes, and what becomes of the bytes of each, at one look.
//!
//! Invariant: a run is looked at, never changed. The words of a channel are read one after another, while its programs go
//! on: its figures are of slightly different moments. A line has 80 columns at most.
//! Not here: what was carried, and why not all (account.rs), the memory (stat.rs), what a run's pipes carried in all
//! (explain.rs).
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
use std::io::IsTerminal;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(2);
/// Columns of a line.
const COLUMNS: usize = 80;

#[derive(Serialize)]
struct Seen {
    schema: u32,
    domains: Vec<Shared>,
}

/// The runs that share a domain, and its pipes.
#[derive(Serialize)]
struct Shared {
    runs: Vec<Running>,
    taken_bytes: usize,
    limit_bytes: usize,
    channels: Vec<Flow>,
}

#[derive(Serialize)]
struct Running {
    pid: u32,
    command: String,
}

/// One pipe or FIFO, or one direction of a connection.
#[derive(Serialize)]
struct Flow {
    kind: &'static str,
    inode: u64,
    /// The run in which it came into being.
    run: u32,
    writer: String,
    reader: String,
    /// The processes that have it open, as far as they show what they have.
    processes: BTreeSet<u32>,
    carried_bytes: u64,
    one_copy_bytes: u64,
    kernel_bytes: u64,
    kernel_bytes_exact: bool,
    uncounted_calls: u32,
    polls: u32,
    wake_ups: u32,
    hand_backs: u32,
    mode: &'static str,
    /// Bytes of the ring, and of those that lie in it; none where it has no ring.
    ring_bytes: Option<u64>,
    unread_bytes: Option<u64>,
    /// In a call of the kernel's: asleep, as a rule. 7 are 7 or more; none where such calls are not counted.
    readers_asleep: Option<u64>,
    writers_asleep: Option<u64>,
    why: Option<String>,
}

/// Device and inode of what processes have open, and which processes.
type Holders = HashMap<(u64, u64), BTreeSet<u32>>;

/// Prints one look, or one after another on a terminal until it is interrupted; 1 if there is no run.
pub fn top(once: bool, json: bool) -> i32 {
    let is_screen = !once && !json && std::io::stdout().is_terminal();
    loop {
        let seen = Seen {
            schema: 1,
            domains: look(),
        };
        if json {
            return match serde_json::to_string_pretty(&seen) {
                Ok(text) => {
                    println!("{text}");
                    0
                }
                Err(e) => {
                    eprintln!("byway: top: {e}");
                    1
                }
            };
        }
        if seen.domains.is_empty() {
            return stat::no_run(None);
        }
        let text: String = seen.domains.iter().flat_map(lines).collect();
        if !is_screen {
            print!("{text}");
            return 0;
        }
        // The cursor to the first line, and away what was there.
        print!("\x1b[H\x1b[J{text}");
        std::thread::sleep(PAUSE);
    }
}

fn look() -> Vec<Shared> {
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

/// A domain's part of the text.
fn lines(s: &Shared) -> Vec<String> {
    let mut lines: Vec<_> = s
        .runs
        .iter()
        .map(|r| format!("run {}: {}", r.pid, r.command))
        .collect();
    lines.push(format!(
        "{} of {} taken, {} open",
        size(s.taken_bytes),
        size(s.limit_bytes),
        match s.channels.len() {
            1 => "1 pipe or FIFO".into(),
            n => format!("{n} pipes, FIFOs and sockets' directions"),
        }
    ));
    if !s.channels.is_empty() {
        lines.push(columns(
            ["carried", "kernel", "ring", "full", "rd", "wr"],
            "pipe",
        ));
    }
    for f in &s.channels {
        let or = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        let least = if f.kernel_bytes_exact { "" } else { ">" };
        let part = f.unread_bytes.zip(f.ring_bytes);
        let figures = [
            size(f.carried_bytes as usize),
            format!("{least}{}", size(f.kernel_bytes as usize)),
            f.ring_bytes.map_or("-".into(), |n| size(n as usize)),
            part.map_or("-".into(), |(n, all)| format!("{}%", n * 100 / all.max(1))),
            or(f.readers_asleep),
            or(f.writers_asleep),
        ];
        let kind = if f.kind == "pipe" {
            String::new()
        } else {
            format!("{}: ", f.kind)
        };
        let ends = format!("{kind}{} -> {}", f.writer, f.reader);
        lines.push(columns(figures.each_ref().map(String::as_str), &ends));
        if let Some(why) = &f.why {
            lines.push(format!("{:36}{why}", ""));
        }
    }
    lines.push(String::new());
    lines.into_iter().map(|l| cut(&l) + "\n").collect()
}

fn columns([carried, kernel, ring, full, readers, writers]: [&str; 6], ends: &str) -> String {
    format!("{carried:>7} {kernel:>7} {ring:>6} {full:>5} {readers:>2} {writers:>2}  {ends}")
}

/// A line of as many columns as there are.
fn cut(line: &str) -> String {
    match line.chars().count() > COLUMNS {
        true => line.chars().take(COLUMNS - 2).chain("..".chars()).collect(),
        false => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, unread: Option<u64>) -> Flow {
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

    #[test]
    fn lines_fit_and_say_how_full_a_ring_is() {
        let shared = Shared {
            runs: vec![Running {
                pid: 4_194_304,
                command: "long ".repeat(30),
            }],
            taken_bytes: usize::MAX,
            limit_bytes: usize::MAX,
            channels: vec![
                flow("fifteen-letters + others", Some(2 << 20)),
                flow("é".repeat(40).as_str(), None),
            ],
        };
        let lines = lines(&shared);
        assert!(
            lines.iter().all(|l| l.trim_end().chars().count() <= 80),
            "{lines:?}"
        );
        assert!(lines[0].ends_with("..\n"));
        assert!(
            lines[3].contains(" 25% ") && lines[3].contains(" >15E "),
            "{}",
            lines[3]
        );
        assert!(lines[3].contains("socket: fifteen-letters"));
        assert!(lines[5].contains("      -     -  7  -  "), "{}", lines[5]);
    }
}
