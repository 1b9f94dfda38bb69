//! `byway stat` and `byway doctor --audit`: the memory of the runs of this user, as `netstat -m` would show it, and the
//! proof that none of it is lost. docs/stats.md explains every figure.
//!
//! Invariant: a run is looked at, never changed. A line of a table has 80 columns at most.
//! Not here: what the figures are made of (crate mem: stats.rs, audit.rs), their form for monitors (openmetrics.rs).
mod openmetrics;

use crate::{caller, domain, members};
use byway_folder::runs;
use byway_mem::audit;
use byway_mem::domain::Domain;
use byway_mem::layout::{CHANNEL, CPUS, Class, LOCKED, SLAB_BYTES};
use byway_mem::reclaim;
use byway_mem::stats::{self, Events};
use serde::Serialize;
use std::sync::atomic::Ordering::Relaxed;

/// The live runs that share a domain, the one that serves it first.
pub type Runs = Vec<u32>;

/// The domains of this user's live runs.
pub fn runs(only: Option<u32>) -> Vec<(Runs, Domain)> {
    let mut v: Vec<(Runs, Domain)> = runs::files(&domain::folder())
        .into_iter()
        .filter_map(|path| {
            let d = members::open(&path).filter(members::same_space)?;
            let mut runs = members::alive(&d);
            let first = d.header().creator.load(Relaxed);
            runs.sort_unstable_by_key(|&r| (r != first, r));
            let wanted = only.map_or(!runs.is_empty(), |p| runs.contains(&p));
            wanted.then_some((runs, d))
        })
        .collect();
    v.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    v
}

/// The live runs, or a sentence on standard error.
fn some(only: Option<u32>) -> Result<Vec<(Runs, Domain)>, i32> {
    let v = runs(only);
    match v.is_empty() {
        true => Err(no_run(only)),
        false => Ok(v),
    }
}

/// Says that there is no run, or not that one; the result is the exit status.
pub fn no_run(only: Option<u32>) -> i32 {
    let dir = domain::folder();
    match only {
        Some(pid) => eprintln!(
            "byway: stat: no run {pid} in {}; `byway stat` without a number shows all",
            dir.display()
        ),
        None => eprintln!(
            "byway: no run of yours is alive in {}; start one with `byway run -- CMD`",
            dir.display()
        ),
    }
    1
}

#[derive(Serialize)]
struct RunStats {
    runs: Runs,
    limit_bytes: usize,
    slab_bytes: usize,
    slabs_in_use: u32,
    slabs_high_water: u32,
    free_bytes: usize,
    low_bytes: usize,
    high_bytes: usize,
    decay_ms: u32,
    band: &'static str,
    direct_from: u32,
    fifos_counted: u32,
    fifo_cpu_us: u64,
    classes: Vec<ClassStats>,
    fronts: Vec<FrontStats>,
}

#[derive(Serialize)]
struct ClassStats {
    class: &'static str,
    object_bytes: usize,
    in_use: usize,
    cached: usize,
    at_home: usize,
    slabs: usize,
    slabs_high_water: usize,
    present_bytes: usize,
    #[serde(flatten)]
    events: EventStats,
}

#[derive(Serialize)]
struct FrontStats {
    /// A CPU's number; shared fronts come after the last CPU's.
    front: usize,
    shared: bool,
    class: &'static str,
    cached: usize,
    #[serde(flatten)]
    events: EventStats,
}

#[derive(Serialize)]
struct EventStats {
    refills: u64,
    drains: u64,
    remote_returns: u64,
    failures: u64,
    bytes_given_back: u64,
}

impl EventStats {
    /// The last columns of a line.
    fn columns(&self) -> String {
        format!(
            "{:>8}{:>7}{:>7}{:>9}{:>6}",
            count(self.refills),
            count(self.drains),
            count(self.remote_returns),
            count(self.failures),
            size(self.bytes_given_back as usize),
        )
    }
}

impl From<Events> for EventStats {
    fn from(e: Events) -> EventStats {
        EventStats {
            refills: e.refills,
            drains: e.drains,
            remote_returns: e.remote,
            failures: e.failures,
            bytes_given_back: e.given_back,
        }
    }
}

fn look(runs: Runs, d: Domain) -> RunStats {
    let h = d.header();
    let kib = |v: u32| (v as usize) << 10;
    let classes = Class::ALL
        .into_iter()
        .map(|c| {
            let s = stats::class(&d, c);
            ClassStats {
                class: c.name(),
                object_bytes: c.bytes(),
                in_use: s.in_use,
                cached: s.cached,
                at_home: s.at_home,
                slabs: s.slabs,
                slabs_high_water: s.slabs_most,
                present_bytes: s.present,
                events: s.events.into(),
            }
        })
        .collect();
    let fronts = (0..CPUS + LOCKED)
        .flat_map(|f| Class::ALL.map(|c| (f, c)))
        .map(|(front, c)| FrontStats {
            front,
            shared: front >= CPUS,
            class: c.name(),
            cached: stats::cached(&d, front, c),
            events: stats::events(&d, front, c).into(),
        })
        .filter(|f| {
            let e = &f.events;
            f.cached > 0 || e.refills + e.drains + e.failures + e.bytes_given_back > 0
        })
        .collect();
    RunStats {
        runs,
        limit_bytes: d.slabs() * SLAB_BYTES,
        slab_bytes: SLAB_BYTES,
        slabs_in_use: h.slabs_used.load(Relaxed),
        slabs_high_water: h.slabs_most.load(Relaxed),
        free_bytes: reclaim::free_bytes(&d),
        low_bytes: kib(h.low_kib.load(Relaxed)),
        high_bytes: kib(h.high_kib.load(Relaxed)),
        decay_ms: h.decay_ms.load(Relaxed),
        band: match reclaim::band(&d) {
            reclaim::Band::Grow => "grow",
            reclaim::Band::Stay => "no growth",
            reclaim::Band::Shrink => "shrink",
        },
        direct_from: h.direct_from.load(Relaxed),
        fifos_counted: h.counted.load(Relaxed),
        fifo_cpu_us: h.fifo_us.load(Relaxed),
        classes,
        fronts,
    }
}

/// "run 12" or "run 12 and 2 more".
fn title(runs: &Runs) -> String {
    let first = runs.first().copied().unwrap_or(0);
    match runs.len() {
        0 | 1 => format!("run {first}"),
        n => format!("run {first} and {} more", n - 1),
    }
}

/// A size in five characters at most.
pub fn size(bytes: usize) -> String {
    let units = ["", "K", "M", "G", "T", "P", "E"];
    let k = (0..units.len()).find(|k| bytes >> (10 * k) < 10_000);
    let k = k.unwrap_or(units.len() - 1);
    format!("{}{}", bytes >> (10 * k), units[k])
}

/// A number in six characters at most, in thousands or more where it is long.
fn count(n: impl TryInto<u64>) -> String {
    let mut n = n.try_into().unwrap_or(u64::MAX);
    if n < 1_000_000 {
        return n.to_string();
    }
    let mut unit = "kMGTP".chars();
    let mut last = unit.next();
    n /= 1000;
    while n >= 100_000 {
        n /= 1000;
        last = unit.next();
    }
    n.to_string() + &last.map(String::from).unwrap_or_default()
}

/// The block of a run, in lines of 80 columns at most.
fn lines(s: &RunStats, cpus: bool) -> Vec<String> {
    let used = s.slabs_in_use as usize * s.slab_bytes;
    let most = s.slabs_high_water as usize * s.slab_bytes;
    let mut lines = vec![
        format!(
            "{}: {} of {} taken (most {}), {} free",
            title(&s.runs),
            size(used),
            size(s.limit_bytes),
            size(most),
            size(s.free_bytes),
        ),
        format!(
            "    free memory back to {} when over {} for {} ms; {}",
            size(s.low_bytes),
            size(s.high_bytes),
            s.decay_ms,
            s.band
        ),
        format!(
            "{:<8}{:>7}{:>7}{:>8}{:>7}{:>6}{:>8}{:>7}{:>7}{:>9}{:>6}",
            "class",
            "in use",
            "cached",
            "at home",
            "memory",
            "most",
            "refills",
            "drains",
            "remote",
            "failures",
            "given"
        ),
    ];
    lines.extend(s.classes.iter().map(|c| {
        format!(
            "{:<8}{:>7}{:>7}{:>8}{:>7}{:>6}{}",
            c.class,
            count(c.in_use),
            count(c.cached),
            count(c.at_home),
            size(c.present_bytes),
            size(c.slabs_high_water * s.slab_bytes),
            c.events.columns()
        )
    }));
    let ms = s.fifo_cpu_us as f64 / 1000.0;
    lines.push(format!(
        "FIFOs: {} with counted opens; {ms:.1} ms of CPU time for their holders",
        s.fifos_counted
    ));
    let fronts = s.fronts.iter().filter(|_| cpus);
    lines.extend(fronts.map(|f| {
        let name = match f.shared {
            true => format!("shared {} {}", f.front - CPUS, f.class),
            false => format!("cpu {} {}", f.front, f.class),
        };
        let cached = count(f.cached);
        format!(
            "  {name:<17}{cached:>6} cached{:>11}{}",
            "",
            f.events.columns()
        )
    }));
    lines
}

/// How it is printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Tables { cpus: bool },
    Json,
    OpenMetrics,
}

/// Prints the memory of every live run; 1 if there is none.
pub fn stat(form: Form, only: Option<u32>) -> i32 {
    // No runs are an answer for a program, and a mistake of a person.
    let is_for_programs = !matches!(form, Form::Tables { .. });
    let v = if is_for_programs && only.is_none() {
        runs(None)
    } else {
        match some(only) {
            Err(status) => return status,
            Ok(v) => v,
        }
    };
    let all: Vec<RunStats> = v.into_iter().map(|(runs, d)| look(runs, d)).collect();
    match form {
        Form::Json => match serde_json::to_string_pretty(&all) {
            Ok(text) => println!("{text}"),
            Err(e) => {
                eprintln!("byway: stat: {e}");
                return 1;
            }
        },
        Form::OpenMetrics => print!("{}", openmetrics::text(&all)),
        Form::Tables { cpus } => {
            let lines = all.iter().flat_map(|s| lines(s, cpus));
            lines.for_each(|l| println!("{l}"));
        }
    }
    0
}

/// Walks the memory of every live run; 1 if an object is not in exactly one place, or there is no run.
pub fn audit() -> i32 {
    let v = match some(None) {
        Err(status) => return status,
        Ok(v) => v,
    };
    let mut bad = false;
    for (runs, d) in v {
        let Some(a) = audit::audit(&d, |f| caller::reach(d, f)) else {
            eprintln!("byway: doctor: no memory for the walk");
            return 1;
        };
        bad |= !a.is_clean();
        println!(
            "{}  {}: {} objects: {} at home, {} in buckets, {} in channels, {} with processes; {} lost, {} doubled, {} foreign",
            if a.is_clean() { "ok" } else { "no" },
            title(&runs),
            a.objects,
            a.at_home,
            a.in_buckets,
            a.in_channels,
            a.held,
            a.lost,
            a.doubled,
            a.foreign
        );
        if let Some((unit, mark)) = a.one_lost {
            let whose = match mark & CHANNEL {
                0 => format!("process {mark}"),
                _ => format!("channel {}", mark & !CHANNEL),
            };
            println!("    lost: object {unit}, last of {whose}");
        }
    }
    i32::from(bad)
}

#[cfg(test)]
mod tests;
