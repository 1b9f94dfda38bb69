//! The figures of `byway stat` as the text of OpenMetrics 1.0, which Prometheus and its like read.
//!
//! Invariant: the samples of a family stand together behind its TYPE, UNIT and HELP; a counter's end with `_total`; the
//! last line is `# EOF`. A domain's samples have its first run's process id as the label `run`.
//! Not here: where the figures come from (stat.rs), the fronts of the CPUs (`--cpus`).
use super::{ClassStats, RunStats};
use std::fmt::Write;

/// The states of `band`, as the label of a state set has them.
const BANDS: [&str; 3] = ["grow", "no growth", "shrink"];

/// What is counted of each class: name, unit, help, value.
type OfClass<T> = (
    &'static str,
    &'static str,
    &'static str,
    fn(&ClassStats) -> T,
);

struct Text(String);

impl Text {
    /// The head of a family; its name ends with its unit, if it has one.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        // To write into a string does not fail.
        let _ = writeln!(self.0, "# TYPE byway_{name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(self.0, "# UNIT byway_{name} {unit}");
        }
        let _ = writeln!(self.0, "# HELP byway_{name} {help}");
    }

    fn sample(&mut self, name: &str, run: &RunStats, labels: &[(&str, &str)], value: f64) {
        let first = run.runs.first().copied().unwrap_or(0);
        let _ = write!(self.0, "byway_{name}{{run=\"{first}\"");
        for (label, value) in labels {
            let _ = write!(self.0, ",{label}=\"{value}\"");
        }
        let _ = writeln!(self.0, "}} {value}");
    }

    /// A family of one sample a domain.
    fn gauge(
        &mut self,
        name: &str,
        unit: &str,
        help: &str,
        all: &[RunStats],
        of: fn(&RunStats) -> f64,
    ) {
        self.family(name, "gauge", unit, help);
        for s in all {
            self.sample(name, s, &[], of(s));
        }
    }
}

/// The text of all domains.
pub fn text(all: &[RunStats]) -> String {
    let mut t = Text(String::new());
    let slabs = |s: &RunStats, n: u32| f64::from(n) * s.slab_bytes as f64;
    let bytes = "bytes";
    t.gauge("runs", "", "Live runs that share this memory.", all, |s| {
        s.runs.len() as f64
    });
    t.gauge("limit_bytes", bytes, "The limit, --memory.", all, |s| {
        s.limit_bytes as f64
    });
    t.family("taken_bytes", "gauge", bytes, "Slabs that have a class.");
    for s in all {
        t.sample("taken_bytes", s, &[], slabs(s, s.slabs_in_use));
    }
    t.family(
        "taken_most_bytes",
        "gauge",
        bytes,
        "The most that slabs ever took.",
    );
    for s in all {
        t.sample("taken_most_bytes", s, &[], slabs(s, s.slabs_high_water));
    }
    t.gauge(
        "free_bytes",
        bytes,
        "Memory that is there and holds nothing.",
        all,
        |s| s.free_bytes as f64,
    );
    t.gauge(
        "low_bytes",
        bytes,
        "Free memory goes back down to here.",
        all,
        |s| s.low_bytes as f64,
    );
    t.gauge(
        "high_bytes",
        bytes,
        "Free memory goes back once there is more.",
        all,
        |s| s.high_bytes as f64,
    );
    let help = "For how long there must be more of it.";
    t.gauge("decay_seconds", "seconds", help, all, |s| {
        f64::from(s.decay_ms) / 1e3
    });
    t.family("band", "stateset", "", "How full the memory is.");
    for s in all {
        for band in BANDS {
            t.sample(
                "band",
                s,
                &[("byway_band", band)],
                f64::from(u8::from(band == s.band)),
            );
        }
    }
    t.gauge("fifos", "", "FIFOs whose opens are counted.", all, |s| {
        f64::from(s.fifos_counted)
    });
    let help = "CPU time of the service to find out who holds FIFOs.";
    t.family("fifo_cpu_seconds", "counter", "seconds", help);
    for s in all {
        t.sample("fifo_cpu_seconds_total", s, &[], s.fifo_cpu_us as f64 / 1e6);
    }
    classes(&mut t, all);
    t.0 + "# EOF\n"
}

/// The families that have samples for each class of objects.
fn classes(t: &mut Text, all: &[RunStats]) {
    t.family("objects", "gauge", "", "Objects, by where they are.");
    for s in all {
        for c in &s.classes {
            for (place, n) in [
                ("in use", c.in_use),
                ("cached", c.cached),
                ("at home", c.at_home),
            ] {
                t.sample(
                    "objects",
                    s,
                    &[("class", c.class), ("place", place)],
                    n as f64,
                );
            }
        }
    }
    t.family(
        "present_bytes",
        "gauge",
        "bytes",
        "Pages of slabs that are there.",
    );
    for s in all {
        for c in &s.classes {
            t.sample(
                "present_bytes",
                s,
                &[("class", c.class)],
                c.present_bytes as f64,
            );
        }
    }
    let counters: [OfClass<u64>; 5] = [
        (
            "refills",
            "",
            "A front had none left and took a full bucket.",
            |c| c.events.refills,
        ),
        (
            "drains",
            "",
            "A front had no room left and gave a full bucket away.",
            |c| c.events.drains,
        ),
        (
            "remote_returns",
            "",
            "Refills with a bucket that another CPU had filled.",
            |c| c.events.remote_returns,
        ),
        ("failures", "", "Requests that got no object.", |c| {
            c.events.failures
        }),
        (
            "given_back_bytes",
            "bytes",
            "Pages given back to the machine.",
            |c| c.events.bytes_given_back,
        ),
    ];
    for (name, unit, help, of) in counters {
        t.family(name, "counter", unit, help);
        for s in all {
            for c in &s.classes {
                t.sample(
                    &format!("{name}_total"),
                    s,
                    &[("class", c.class)],
                    of(c) as f64,
                );
            }
        }
    }
}
