//! What else the machine did while something was measured, and what makes figures worth less.
//!
//! Invariant: a warning says what was seen and what to do about that case; figures are never corrected for it.
//! Not here: looking during a run. It is looked before and after, and at the cores between two (smt.rs).
use crate::migrations::Migrations;
use crate::record::{End, Record};
use crate::runner::Ended;
use crate::smt::{Ipc, Smt};
use serde::{Deserialize, Serialize};
use std::fs::read_to_string;

/// Between two looks.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Noise {
    /// Part of the machine's CPU time that other guests of its host had.
    pub steal: f64,
    /// Part of it that other programs had.
    pub others: f64,
    /// The load average of a minute, before the first run.
    pub load: f64,
    /// How often a CPU was taken from one of our processes, in a second of their time.
    pub switches: f64,
    /// How often one of them was moved to another CPU, in a second of their time; none where that may not be counted.
    #[serde(default)]
    pub migrations: Option<f64>,
    /// Additions in a cycle, of each CPU that was used; none in records from before they were looked at.
    #[serde(default)]
    pub ipc: Vec<Ipc>,
}

/// What makes figures worth less.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub kind: Kind,
    /// What was seen.
    pub text: String,
    pub remedy: String,
}

#[derive(Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Steal,
    Others,
    Switches,
    Migrations,
    /// A core's other hardware thread was at work.
    Smt,
    Frequency,
    Outliers,
    /// Intervals wider than was wanted.
    Wide,
    /// So few rounds that an interval of 95 % covers less.
    Few,
}

/// Looks before a measurement, and after it.
pub struct Watch {
    migrations: Migrations,
    cores: Smt,
    before: Look,
}

impl Watch {
    /// Of these CPUs, which are looked at now for the first time.
    pub fn begin(cpus: &[usize]) -> Watch {
        let mut cores = Smt::of(cpus);
        cores.look();
        Watch {
            migrations: Migrations::count(),
            cores,
            before: Look::now(),
        }
    }
    /// Between two runs: looks at the cores, if it is time to.
    pub fn between(&mut self) {
        self.cores.look();
    }
    /// What was since.
    pub fn end(&self) -> Noise {
        let after = Look::now();
        let seconds = (after.ours - self.before.ours).max(1e-3);
        Noise {
            migrations: self.migrations.so_far().map(|n| n / seconds),
            ipc: self.cores.seen(),
            ..self.before.until(&after)
        }
    }
}

/// The machine's counts since its start, and ours.
struct Look {
    total: f64,
    busy: f64,
    steal: f64,
    ours: f64,
    switches: f64,
    load: f64,
}

impl Look {
    fn now() -> Look {
        let stat = read_to_string("/proc/stat").unwrap_or_default();
        let (total, busy, steal) = cpu_time(&stat);
        let (mut ours, mut switches) = (0.0, 0.0);
        for who in [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN] {
            // SAFETY: fills a struct of ours.
            let u = unsafe {
                let mut u: libc::rusage = std::mem::zeroed();
                libc::getrusage(who, &mut u);
                u
            };
            let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
            ours += s(u.ru_utime) + s(u.ru_stime);
            switches += u.ru_nivcsw as f64;
        }
        let load = read_to_string("/proc/loadavg").unwrap_or_default();
        Look {
            total,
            busy,
            steal,
            ours,
            switches,
            load: load
                .split(' ')
                .next()
                .and_then(|l| l.parse().ok())
                .unwrap_or(0.0),
        }
    }

    /// What was between.
    fn until(&self, end: &Look) -> Noise {
        let part = |v: f64, of: f64| {
            if of > 0.0 {
                (v / of).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        let (total, ours) = (end.total - self.total, end.ours - self.ours);
        let others = end.busy - self.busy - ours;
        Noise {
            steal: part(end.steal - self.steal, total),
            others: part(others, total),
            load: self.load,
            switches: if ours > 0.0 {
                (end.switches - self.switches) / ours
            } else {
                0.0
            },
            migrations: None,
            ipc: vec![],
        }
    }
}

/// Seconds of all CPUs together: all, those that programs of this machine had, those that other guests had.
fn cpu_time(stat: &str) -> (f64, f64, f64) {
    // SAFETY: no pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as f64;
    let line = stat.lines().next().unwrap_or("");
    let v: Vec<f64> = (line.split_whitespace().skip(1))
        .map(|f| f.parse().unwrap_or(0.0) / ticks)
        .collect();
    // LINUX proc(5): user nice system idle iowait irq softirq steal (guest is in user).
    let [user, nice, system, idle, iowait, irq, softirq, steal] = v[..v.len().min(8)] else {
        return (0.0, 0.0, 0.0);
    };
    let busy = user + nice + system + irq + softirq;
    (busy + idle + iowait + steal, busy, steal)
}

/// From which part of the time on others disturb.
const STEAL: f64 = 0.01;
const OTHERS: f64 = 0.05;
/// Switches in a second of CPU time; who has its CPU to itself sees some ten.
const SWITCHES: f64 = 200.0;
/// Moves in a second of CPU time; programs that end after a moment are moved when they start.
const MOVES: f64 = 500.0;
/// Part of a core's units that a CPU has at least when it has the core to itself.
const WHOLE: f64 = 0.9;
/// Part of the samples of a row that may be far out.
pub const FAR: f64 = 0.1;
/// Rounds from which the middle 95 % of the draws are 95 %.
pub const ENOUGH: usize = 6;

fn percent(part: f64) -> String {
    format!("{:.0} %", 100.0 * part)
}

/// The names of some cases, few enough to be read.
fn some(names: &[String]) -> String {
    match names {
        [a, b, c, _, rest @ ..] => format!("{a}, {b}, {c} and {} more", rest.len() + 1),
        few => few.join(", "),
    }
}

/// Takes a warning: its kind, its text, its remedy.
type Add<'a> = &'a mut dyn FnMut(Kind, String, &str);

/// All that can be said of `r`.
pub fn warnings(r: &Record) -> Vec<Warning> {
    let mut v = vec![];
    let mut add = |kind, text: String, remedy: &str| {
        let remedy = remedy.into();
        v.push(Warning { kind, text, remedy });
    };
    if let Some(n) = &r.noise {
        taken(n, r.affinity.len(), &mut add);
        shared(n, &mut add);
    }
    if let Some(g) = r.machine.governor.as_ref().filter(|g| *g != "performance") {
        let text = format!("the CPUs' frequency follows the load (governor {g})");
        let remedy = "as root: cpupower frequency-set -g performance";
        add(Kind::Frequency, text, remedy);
    }
    let far = r
        .results
        .iter()
        .filter(|w| w.outliers as f64 > FAR * w.n as f64);
    let far: Vec<_> = far.map(|w| format!("{} {}", w.case, w.backend)).collect();
    if !far.is_empty() {
        let text = format!(
            "more than {} of the samples are far out: {}",
            percent(FAR),
            some(&far)
        );
        let remedy = "look at --percentiles 5,50,95 and at the samples; there may be two ways in which it runs";
        add(Kind::Outliers, text, remedy);
    }
    wide(r, &mut add);
    v
}

/// Of time on `cpus` CPUs that others had, and of processes that were moved.
fn taken(n: &Noise, cpus: usize, add: Add) {
    if n.steal > STEAL {
        let text = format!(
            "other guests of the host had {} of the CPUs' time",
            percent(n.steal)
        );
        let remedy = "measure at another hour, or on a machine that is not shared; the ratios suffer less than the \
                      figures, since neighbouring runs are disturbed alike";
        add(Kind::Steal, text, remedy);
    }
    if n.others > OTHERS {
        let text = format!(
            "other programs had {} of the CPUs' time (load {:.1} at the start)",
            percent(n.others),
            n.load
        );
        let remedy = "end them (top shows them), or leave them a CPU with --cpus";
        add(Kind::Others, text, remedy);
    }
    if n.switches > SWITCHES && cpus > 1 {
        let text = format!(
            "a CPU was taken from a measured process {:.0} times in a second of its time",
            n.switches
        );
        let remedy = "end other programs; with many processes on few CPUs it is what is measured";
        add(Kind::Switches, text, remedy);
    }
    if let Some(n) = n.migrations.filter(|&n| n > MOVES) {
        let text = format!(
            "measured processes were moved between CPUs {n:.0} times in a second of their time"
        );
        let remedy = "end other programs, or compare on one CPU: --cpus 1, or --pin";
        add(Kind::Migrations, text, remedy);
    }
}

/// Of cores whose other hardware thread was at work.
fn shared(n: &Noise, add: Add) {
    let shared = n.ipc.iter().filter(|i| i.part() < WHOLE);
    let shared: Vec<_> = (shared
        .map(|i| format!("CPU {}: {:.1}, at most {:.1}", i.cpu, i.median, i.most)))
    .collect();
    if !shared.is_empty() {
        let text = format!(
            "another hardware thread used units of our cores (additions in a cycle, between the runs: {})",
            some(&shared)
        );
        let remedy = "leave it idle (lscpu -e: CPUs of one CORE), or, where it is another guest's, measure at another hour: \
                      code of many instructions takes up to twice as long, waiting hardly longer, so ratios move too";
        add(Kind::Smt, text, remedy);
    }
}

/// Of intervals that are wider, or of fewer rounds, than they should be.
fn wide(r: &Record, add: Add) {
    let wanted = r.limits.as_ref().map_or(f64::INFINITY, |l| l.width);
    let wide: Vec<_> = (r.ended.iter())
        .filter(|e| matches!(e.by, Ended::Time | Ended::Rounds))
        .filter_map(|e| Some((e, e.width.filter(|&w| w > wanted)?)))
        .collect();
    if !wide.is_empty() {
        let names: Vec<_> = wide
            .iter()
            .map(|(e, w)| format!("{} {}", e.case, percent(*w)))
            .collect();
        let needs = |(e, w): &(&End, f64)| e.seconds * (w / wanted).powi(2);
        let now: f64 = r.ended.iter().map(|e| e.seconds).sum();
        let spent: f64 = wide.iter().map(|(e, _)| e.seconds).sum();
        let more: f64 = wide.iter().map(needs).sum();
        let text = format!("intervals wider than {}: {}", percent(wanted), some(&names));
        // Where it is so far off, it is not time that is missing.
        let remedy = if more > 20.0 * spent {
            let widest = wide.iter().map(|(_, w)| *w).fold(0.0, f64::max);
            format!(
                "more time would hardly do; end other programs, or accept a --width of {:.0}",
                100.0 * widest
            )
        } else {
            format!(
                "about --time {:.0} would do for all of them, or accept a --width of more",
                now - spent + more
            )
        };
        add(Kind::Wide, text, &remedy);
    }
    let few = r.ended.iter().filter(|e| (1..ENOUGH).contains(&e.rounds));
    let few: Vec<_> = few.map(|e| format!("{} {}", e.case, e.rounds)).collect();
    if !few.is_empty() {
        let text = format!(
            "so few rounds that an interval covers less than 95 %: {}",
            some(&few)
        );
        add(
            Kind::Few,
            text,
            "give more --runs or --time, or leave out --quick",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Better, Wanted};

    fn look(total: f64, busy: f64, steal: f64, ours: f64, switches: f64) -> Look {
        Look {
            total,
            busy,
            steal,
            ours,
            switches,
            load: 0.5,
        }
    }

    #[test]
    fn the_kernels_line_is_read() {
        // SAFETY: no pointers.
        let t = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let stat = format!("cpu  {} 0 {t} {} 0 0 0 {t} 0 0\ncpu0 1 2", 2 * t, 4 * t);
        assert_eq!(cpu_time(&stat), (8.0, 3.0, 1.0));
        assert_eq!(cpu_time("nothing"), (0.0, 0.0, 0.0));
    }

    #[test]
    fn the_time_of_others_is_not_ours() {
        let n = look(0.0, 0.0, 0.0, 0.0, 0.0).until(&look(200.0, 80.0, 10.0, 50.0, 5000.0));
        assert_eq!((n.steal, n.others, n.switches), (0.05, 0.15, 100.0));
    }

    #[test]
    fn the_machine_has_counts() {
        let a = Look::now();
        assert!(a.total > 0.0 && a.busy > 0.0 && a.ours >= 0.0);
    }

    fn ipc(median: f64) -> Ipc {
        Ipc {
            cpu: 0,
            median,
            most: 3.95,
            looks: 20,
        }
    }

    fn calm() -> Record {
        let mut r = Record::new("t");
        r.machine.governor = None;
        r.affinity = vec![0, 1];
        r.limits = Some(Wanted {
            width: 0.05,
            time: 60.0,
            least: 5,
            most: 30,
            warm: 1,
        });
        r.noise = Some(Noise {
            steal: 0.0,
            others: 0.0,
            load: 0.0,
            switches: 0.0,
            migrations: None,
            ipc: vec![ipc(3.9), ipc(3.8)],
        });
        r
    }

    fn kinds(r: &Record) -> Vec<Kind> {
        warnings(r).iter().map(|w| w.kind).collect()
    }

    #[test]
    fn a_quiet_machine_has_no_warnings() {
        assert!(kinds(&calm()).is_empty());
    }

    #[test]
    fn each_disturbance_has_its_warning() {
        let mut r = calm();
        r.noise = Some(Noise {
            steal: 0.02,
            others: 0.5,
            load: 2.0,
            switches: 1000.0,
            migrations: Some(900.0),
            ipc: vec![ipc(3.9), ipc(2.5)],
        });
        r.machine.governor = Some("powersave".into());
        let metric = ("m", "s", Some(Better::Less));
        r.row("a", "b", metric, &[vec![1.0, 1.1, 1.2, 1.1, 9.0]]);
        let all = [
            Kind::Steal,
            Kind::Others,
            Kind::Switches,
            Kind::Migrations,
            Kind::Smt,
            Kind::Frequency,
            Kind::Outliers,
        ];
        assert_eq!(kinds(&r), all);
        assert!(warnings(&r).iter().all(|w| !w.remedy.is_empty()));
    }

    #[test]
    fn wide_intervals_are_told_with_the_time_that_they_need() {
        let mut r = calm();
        let end = |case: &str, by, rounds, width| End {
            case: case.into(),
            by,
            rounds,
            seconds: 10.0,
            width: Some(width),
        };
        r.ended = vec![
            end("a", Ended::Width, 7, 0.04),
            end("b", Ended::Time, 7, 0.1),
            end("c", Ended::Rounds, 4, 0.05),
        ];
        assert_eq!(kinds(&r), [Kind::Wide, Kind::Few]);
        // 20 s as they are, and b four times as long.
        assert!(warnings(&r)[0].remedy.contains("--time 60"));
        assert!(warnings(&r)[0].text.contains("b 10 %"));
        r.ended[1].width = Some(2.0);
        assert!(warnings(&r)[0].remedy.contains("--width of 200"));
    }

    #[test]
    fn a_long_list_is_cut() {
        let names: Vec<_> = (0..9).map(|i| i.to_string()).collect();
        assert_eq!(some(&names), "0, 1, 2 and 6 more");
        assert_eq!(some(&names[..2]), "0, 1");
    }
}
