//! `byway stat` and `byway doctor --audit`: the memory of the runs of this user, as `netstat -m` would show it, and the
//! proof that none of it is lost. docs/stats.md explains every figure.
//!
//! Invariant: a run is looked at, never changed.
//! Not here: what the figures are made of (crate mem: stats.rs, audit.rs).
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
type Runs = Vec<u32>;

/// The domains of this user's live runs.
fn runs(only: Option<u32>) -> Vec<(Runs, Domain)> {
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
    if !v.is_empty() {
        return Ok(v);
    }
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
    Err(1)
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
fn size(bytes: usize) -> String {
    match bytes {
        b if b < 10_000 => format!("{b}"),
        b if b < 10_000 << 10 => format!("{}K", b >> 10),
        b => format!("{}M", b >> 20),
    }
}

fn print(s: &RunStats, cpus: bool) {
    let used = s.slabs_in_use as usize * s.slab_bytes;
    println!(
        "{}: {} of {} taken (most {}), {} free; back to {} when over {} for {} ms; {}",
        title(&s.runs),
        size(used),
        size(s.limit_bytes),
        size(s.slabs_high_water as usize * s.slab_bytes),
        size(s.free_bytes),
        size(s.low_bytes),
        size(s.high_bytes),
        s.decay_ms,
        s.band
    );
    println!(
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
    );
    for c in &s.classes {
        println!(
            "{:<8}{:>7}{:>7}{:>8}{:>7}{:>6}{:>8}{:>7}{:>7}{:>9}{:>6}",
            c.class,
            c.in_use,
            c.cached,
            c.at_home,
            size(c.present_bytes),
            size(c.slabs_high_water * s.slab_bytes),
            c.events.refills,
            c.events.drains,
            c.events.remote_returns,
            c.events.failures,
            size(c.events.bytes_given_back as usize),
        );
    }
    let ms = s.fifo_cpu_us as f64 / 1000.0;
    println!(
        "FIFOs: {} whose opens are counted; {ms:.1} ms of CPU time for who holds them",
        s.fifos_counted
    );
    if cpus {
        for f in &s.fronts {
            let name = if f.shared {
                format!("shared {} {}", f.front - CPUS, f.class)
            } else {
                format!("cpu {} {}", f.front, f.class)
            };
            println!(
                "  {:<16}{:>6} cached{:>12}{:>8}{:>7}{:>7}{:>9}{:>6}",
                name,
                f.cached,
                "",
                f.events.refills,
                f.events.drains,
                f.events.remote_returns,
                f.events.failures,
                size(f.events.bytes_given_back as usize),
            );
        }
    }
}

/// Prints the memory of every live run; 1 if there is none.
pub fn stat(json: bool, cpus: bool, only: Option<u32>) -> i32 {
    // No runs are an answer for a program, and a mistake of a person.
    let v = if json && only.is_none() {
        runs(None)
    } else {
        match some(only) {
            Err(status) => return status,
            Ok(v) => v,
        }
    };
    let all: Vec<RunStats> = v.into_iter().map(|(runs, d)| look(runs, d)).collect();
    if json {
        match serde_json::to_string_pretty(&all) {
            Ok(text) => println!("{text}"),
            Err(e) => {
                eprintln!("byway: stat: {e}");
                return 1;
            }
        }
    } else {
        all.iter().for_each(|s| print(s, cpus));
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
