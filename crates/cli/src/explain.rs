//! `byway run --explain`: what a run's pipes have carried, as text or JSON.
//!
//! Invariant: the first line says it all. A share of the bytes is given only if all bytes were counted, or with the word
//! "most". A line has 80 columns where its names allow that, and is broken between its parts only.
//! Not here: the figures (account.rs), which channels are the run's (domain.rs).
use crate::account::{self, Cause, Entry, Kind, LITTLE_TEXT};
use crate::domain::Run;
use crate::output;
use crate::tell::tell;
use byway_mem::departures;
use byway_mem::layout::MAGIC;
use byway_pipe::reason::Reason;
use clap::{Args, ValueEnum, ValueHint};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Columns of a line, without the program's name that stands before it on standard error.
const COLUMNS: usize = 80 - "byway: ".len();

// What `byway run` is told about it. (A `///` here would be the head of the command's help.)
#[derive(Args, Default)]
pub struct Wanted {
    /// Say on standard error at the end what was carried, and why not all
    #[arg(short = 'v', long, value_name = "text|json|none", num_args = 0..=1, require_equals = true, default_missing_value = "text", hide_possible_values = true)]
    explain: Option<How>,
    /// Write that to FILE instead (with --explain=json: one JSON document)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    explain_to: Option<PathBuf>,
    /// Do not say that nothing is carried, or that a file is not obeyed
    #[arg(short, long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true)]
    quiet: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum How {
    Text,
    Json,
    None,
}

impl Wanted {
    /// Whether anything is to be told.
    pub fn is_any(&self) -> bool {
        let is_unsaid = self.explain.is_none() && self.explain_to.is_none();
        !is_unsaid && self.explain != Some(How::None)
    }

    /// Whether what is told goes to standard error, as text.
    pub fn is_on_stderr(&self) -> bool {
        self.explain == Some(How::Text) && self.explain_to.is_none()
    }

    /// Whether only what was asked for is told.
    pub fn is_quiet(&self) -> bool {
        self.quiet == Some(true)
    }

    /// Whether the file could be written.
    ///
    /// # Errors
    /// A sentence: what is wrong with it, and what to try.
    pub fn check(&self) -> Result<(), String> {
        match &self.explain_to {
            Some(to) => output::written(output::writable(to), to, OPTION),
            None => Ok(()),
        }
    }

    /// Tells of a run.
    pub fn tell(&self, told: &Told) {
        let json = self.explain == Some(How::Json);
        let text = match json {
            true => serde_json::to_string_pretty(&told.json()).unwrap_or_default() + "\n",
            false => told.text().iter().map(|l| format!("{l}\n")).collect(),
        };
        match &self.explain_to {
            Some(to) => {
                if let Err(e) = output::written(std::fs::write(to, text), to, OPTION) {
                    tell(&e);
                }
            }
            None if json => drop(std::io::stderr().write_all(text.as_bytes())),
            None => text.lines().for_each(tell),
        }
    }

    /// Tells that nothing is carried, and why.
    pub fn tell_nothing(&self, why: &str) {
        if self.is_on_stderr() {
            // In one line, however long.
            tell(&format!("nothing is carried: {why}"));
        } else if self.is_any() {
            self.tell(&Told::nothing(why));
        }
    }
}

const OPTION: &str = "--explain-to";

/// Programs of one name that took no part for one reason.
pub struct Absent {
    pub name: String,
    pub count: u32,
    /// Whether it had taken part before.
    pub left: bool,
    /// As in "sudo changes its credentials".
    pub why: String,
}

/// What is told of a run.
#[derive(Default)]
pub struct Told {
    /// Why nothing could be carried.
    pub nothing: Option<String>,
    /// The domain was cut off.
    pub cut: bool,
    pub absent: Vec<Absent>,
    pub channels: Vec<Entry>,
    /// Programs of this domain's runs that found no place in the table.
    pub untold: u32,
}

impl Told {
    /// Of a run that could not be prepared.
    fn nothing(why: &str) -> Told {
        Told {
            nothing: Some(why.into()),
            ..Told::default()
        }
    }

    /// Of the run, at its end.
    pub fn of(run: &Run, reason: impl Fn(&Path) -> Option<String>) -> Told {
        // What stands in its place is empty (guard.rs).
        if run.domain.header().magic.load(Relaxed) != MAGIC {
            return Told {
                cut: true,
                ..Told::default()
            };
        }
        let mut channels = run.account();
        channels.sort_by_key(|e| std::cmp::Reverse(e.all()));
        let mut absent: Vec<Absent> = vec![];
        for seen in departures::of(&run.domain, std::process::id()) {
            let path = account::printable(&seen.path, "");
            let why = u8::try_from(seen.why).map_or(Reason::Damaged, Reason::from);
            // Its own loader loads the library for the program that it is given.
            let base = Path::new(&path).file_name().unwrap_or_default();
            if why == Reason::Bare && base.to_string_lossy().starts_with("ld") {
                continue;
            }
            let one = Absent {
                name: account::name(seen.name),
                count: seen.count,
                left: account::is_later(why),
                why: sentence(why, Path::new(&path), &reason),
            };
            match absent
                .iter_mut()
                .find(|a| a.name == one.name && a.why == one.why)
            {
                Some(a) => a.count += one.count,
                None => absent.push(one),
            }
        }
        absent.sort_by_key(|a| std::cmp::Reverse(a.count));
        Told {
            absent,
            channels,
            nothing: None,
            cut: false,
            untold: departures::untold(&run.domain),
        }
    }

    /// The command itself took no part because of `why`, which names its file.
    pub fn command_took_no_part(&mut self, command: &OsStr, why: String) {
        let name = Path::new(command).file_name().unwrap_or(command);
        let name = name.to_string_lossy().into_owned();
        if self.absent.iter().all(|a| a.name != name) {
            self.absent.insert(
                0,
                Absent {
                    name,
                    count: 1,
                    left: false,
                    why: format!("cannot: {why}"),
                },
            );
        }
    }

    /// As lines.
    pub fn text(&self) -> Vec<String> {
        let mut lines = vec![broken(&self.head())];
        for a in &self.absent {
            let many = if a.count > 1 {
                format!("{} x ", a.count)
            } else {
                String::new()
            };
            let did = if a.left { "left" } else { "took no part" };
            let mut parts = vec![format!("{many}{} {did}:", a.name)];
            // A reason of the rewriter's is long.
            let clauses = a.why.split_inclusive(", ").map(|c| c.trim_end());
            parts.extend(clauses.enumerate().map(|(k, c)| match k {
                0 => format!(" it {c}"),
                _ => format!(" {c}"),
            }));
            lines.push(broken(&parts));
        }
        if self.untold > 0 {
            lines.push(format!("{} more programs took no part", self.untold));
        }
        lines.extend(folded(&self.channels).iter().map(|f| broken(&f.parts())));
        lines
    }

    /// The first line, in parts.
    fn head(&self) -> Vec<String> {
        if let Some(why) = &self.nothing {
            return vec!["nothing is carried:".into(), format!(" {why}")];
        }
        if self.cut {
            return vec!["its shared memory was cut off: nothing is known of its pipes".into()];
        }
        let all = self.channels.len();
        let carried = self
            .channels
            .iter()
            .filter(|e| e.counts.carried > 0)
            .count();
        let sockets = self.channels.iter().any(|e| e.kind == Kind::Socket);
        let pipes = match (all, sockets) {
            (_, true) => "pipes and sockets' directions",
            (1, false) => "pipe",
            _ => "pipes",
        };
        let mut parts = vec![match (all, carried) {
            (0, _) => "no pipe was seen".into(),
            (_, 0) => format!("none of {all} {pipes} carried"),
            _ => format!("{carried} of {all} {pipes} carried"),
        }];
        if carried > 0 {
            parts.extend(self.share().map(|s| format!(", {s} of the bytes")));
        }
        parts.extend(self.cause().map(|c| format!("; {c}")));
        parts
    }

    /// Which part of the bytes was carried.
    fn share(&self) -> Option<String> {
        let sum = |f: fn(&Entry) -> u64| self.channels.iter().map(f).sum::<u64>();
        let (carried, all) = (sum(|e| e.counts.carried), sum(Entry::all));
        let exact = self.channels.iter().all(|e| e.is_exact);
        // Rounded down: 100 % is all.
        let part = (u128::from(carried) * 100 / u128::from(all.max(1))) as u64;
        match (exact, part) {
            (true, 0) => Some("under 1 %".into()),
            (true, n) => Some(format!("{n} %")),
            // It says nothing.
            (false, 99..) => None,
            (false, n) => Some(format!("at most {} %", n + 1)),
        }
    }

    /// What kept the most pipes, or programs, from being carried.
    fn cause(&self) -> Option<String> {
        let mut count: HashMap<&Cause, (usize, u64)> = HashMap::new();
        for e in &self.channels {
            if let Some(c) = e.cause.as_ref().filter(|c| !account::is_harmless(c)) {
                let n = count.entry(c).or_default();
                *n = (n.0 + 1, n.1 + e.all());
            }
        }
        let most = count
            .into_iter()
            .max_by_key(|(c, n)| (*n, c.program.clone(), c.text));
        let of_channel = most.map(|(c, _)| clause(c));
        let of_program = self.absent.first().map(|a| match a.why.split_once(": ") {
            Some(("cannot", _)) => format!("{} took no part", a.name),
            // The line that follows has the rest.
            Some((first, _)) => format!("{} {first}", a.name),
            None => format!("{} {}", a.name, a.why),
        });
        match &of_channel {
            // A program's own reason tells more.
            Some(c) if of_program.is_some() && c.contains("takes") => of_program,
            Some(_) => of_channel,
            None => of_program,
        }
    }

    /// The same as one document.
    pub fn json(&self) -> Value {
        let programs: Vec<Value> = self
            .absent
            .iter()
            .map(|a| json!({ "name": a.name, "count": a.count, "left": a.left, "why": a.why }))
            .collect();
        let channels: Vec<Value> = self
            .channels
            .iter()
            .map(|e| {
                json!({
                    "kind": e.kind.name(),
                    "inode": e.inode,
                    "writer": e.writer,
                    "reader": e.reader,
                    "carried_bytes": e.counts.carried,
                    "one_copy_bytes": e.counts.direct,
                    "kernel_bytes": e.counts.kernel,
                    "kernel_bytes_exact": e.is_exact,
                    "uncounted_calls": e.calls,
                    "polls": e.counts.polls,
                    "wake_ups": e.counts.wakes,
                    "hand_backs": e.counts.hand_backs,
                    "why": e.cause.as_ref().map(clause),
                })
            })
            .collect();
        json!({
            "schema": 1,
            "summary": self.head().concat(),
            "took_no_part": programs,
            "took_no_part_untold": self.untold,
            "channels": channels,
        })
    }
}

fn clause(c: &Cause) -> String {
    match &c.program {
        Some(p) => format!("{p} {}", c.text),
        None => c.text.into(),
    }
}

/// Why a program took no part. `reason` tells what the rewriter says of an object.
fn sentence(why: Reason, path: &Path, reason: impl Fn(&Path) -> Option<String>) -> String {
    let text = account::cause(why, None).text;
    let base = path.file_name().map(|n| n.to_string_lossy().into_owned());
    match (why, base) {
        (Reason::Unable | Reason::Code | Reason::Stray, Some(base)) => match reason(path) {
            Some(told) => format!("{text}: {base}: {told}"),
            None => format!("{text}: {base}"),
        },
        (Reason::Unknown, Some(base)) => format!("{text}: {base}"),
        _ => text.into(),
    }
}

/// Channels that are told in one line.
struct Folded<'a> {
    count: usize,
    first: &'a Entry,
    carried: u64,
    direct: u64,
    kernel: u64,
    polls: u32,
    wakes: u32,
    hand_backs: u32,
    is_exact: bool,
}

/// Alike ones together, where the largest of them stands.
fn folded(channels: &[Entry]) -> Vec<Folded<'_>> {
    let mut v: Vec<Folded> = vec![];
    let mut places = HashMap::new();
    for e in channels {
        let alike = (e.kind, &e.writer, &e.reader, &e.cause, e.counts.carried > 0);
        let k = *places.entry(alike).or_insert(v.len());
        if k == v.len() {
            v.push(Folded {
                count: 0,
                first: e,
                carried: 0,
                direct: 0,
                kernel: 0,
                polls: 0,
                wakes: 0,
                hand_backs: 0,
                is_exact: true,
            });
        }
        let f = &mut v[k];
        f.count += 1;
        f.carried += e.counts.carried;
        f.direct += e.counts.direct;
        f.kernel += e.counts.kernel;
        f.polls = f.polls.saturating_add(e.counts.polls);
        f.wakes = f.wakes.saturating_add(e.counts.wakes);
        f.hand_backs = f.hand_backs.saturating_add(e.counts.hand_backs);
        f.is_exact &= e.is_exact;
    }
    v
}

impl Folded<'_> {
    /// Its line, in parts between which it may be broken.
    fn parts(&self) -> Vec<String> {
        let e = self.first;
        let many = if self.count > 1 {
            format!("{} x ", self.count)
        } else {
            String::new()
        };
        let kind = match e.kind {
            Kind::Pipe => "",
            Kind::Fifo => "fifo: ",
            Kind::Socket => "socket: ",
        };
        let ends = format!("{many}{kind}{} -> {}", e.writer, e.reader);
        let cause = e.cause.as_ref().map(clause);
        let least = if self.is_exact { "" } else { "at least " };
        if self.carried == 0 {
            let bytes = match (self.kernel, &e.cause) {
                (0, _) => String::new(),
                (_, Some(c)) if c.text == LITTLE_TEXT => String::new(),
                (n, _) => format!(", {least}{n} bytes by the kernel"),
            };
            let cause = cause.unwrap_or_else(|| "not carried".into());
            return vec![format!("{ends}:"), format!(" {cause}"), bytes];
        }
        let direct = match self.direct {
            0 => String::new(),
            n => format!(" ({n} of them in one copy)"),
        };
        let kernel = match (self.kernel, self.is_exact) {
            (0, true) => ", none by the kernel".into(),
            (0, false) => String::new(),
            (n, _) => format!(", {least}{n} by the kernel"),
        };
        let cause = cause.map_or_else(String::new, |c| format!("; {c}"));
        vec![
            format!("{ends}  {} bytes carried{direct}", self.carried),
            kernel,
            self.waits(),
            cause,
        ]
    }

    /// How often calls have waited for it among others, and what came of that.
    fn waits(&self) -> String {
        let many = |n: u32, what: &str| match n {
            1 => format!("1 {what}"),
            n => format!("{n} {what}s"),
        };
        match self.polls {
            0 => String::new(),
            n => format!(
                "; {}, {}, {}",
                many(n, "poll"),
                many(self.wakes, "wake-up"),
                many(self.hand_backs, "hand-back")
            ),
        }
    }
}

/// The parts as one line, broken where it would be too long. A line that goes on begins with four spaces.
fn broken(parts: &[String]) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for p in parts {
        if column > 0 && column + p.chars().count() > COLUMNS {
            text.push_str("\n    ");
            column = 4;
            let p = p.trim_start_matches([';', ',', ' ']);
            text.push_str(p);
            column += p.chars().count();
        } else {
            text.push_str(p);
            column += p.chars().count();
        }
    }
    text
}

#[cfg(test)]
mod tests;
