//! Whether a core's other hardware thread is at work: how many additions a CPU does in a cycle, between the runs.
//!
//! Two hardware threads share a core's units. While the other one works, code with many instructions takes up to twice as
//! long, and code that waits for memory, or for another CPU, hardly longer: so it is not only the figures that change but
//! their ratios. Where the other one belongs to another guest of the host, nothing that the machine counts tells of it.
//!
//! ```text
//! a cycle      an addition that needs the one before, which no other thread makes longer; it follows the frequency
//! additions    that need nothing of each other: as many in a cycle as the core has units for, if it has them to itself
//! ```
//! Invariant: a look takes some 200 us on each CPU, no oftener than each 200 ms, while nothing that is measured runs.
//! Not here: what is made of it (noise.rs); who the other one is, which only the host knows.
use crate::{machine, stats};
use serde::{Deserialize, Serialize};
use std::arch::asm;
use std::time::{Duration, Instant};

/// Between two looks.
const EACH: Duration = Duration::from_millis(200);
/// Pairs of loops in a look; each takes some 15 us.
const PAIRS: usize = 9;
/// Turns of a loop, of 32 additions each.
const TURNS: u64 = 512;

/// What was seen of a CPU.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq)]
pub struct Ipc {
    pub cpu: usize,
    /// Additions in a cycle: median of the looks.
    pub median: f64,
    /// The most that three looks agree on.
    pub most: f64,
    pub looks: usize,
}

/// The most of `looks`, within a tenth of which two others are. What disturbs only one of the two loops makes single ones
/// several times too high, and that would make of every other look one of a core that is shared.
fn most(looks: &[f64]) -> f64 {
    let mut sorted = looks.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let agreed = sorted.windows(3).find(|w| w[2] >= 0.9 * w[0]);
    agreed.map_or_else(|| stats::median(looks), |w| w[0])
}

impl Ipc {
    /// What part of the core the CPU had, as far as it can be known. A core's units are a whole number, and three at
    /// least in all that have an invariant time stamp counter; the loop's own instructions leave a few percent of one.
    pub fn part(&self) -> f64 {
        (self.median / (self.most - 0.1).ceil().max(3.0)).min(1.0)
    }
}

/// The looks at some CPUs.
pub struct Smt {
    cpus: Vec<(usize, Vec<f64>)>,
    last: Option<Instant>,
}

impl Smt {
    /// Nothing is looked at yet.
    pub fn of(cpus: &[usize]) -> Smt {
        Smt {
            cpus: cpus.iter().map(|&c| (c, vec![])).collect(),
            last: None,
        }
    }

    /// Looks at each CPU, if the last look is long enough ago.
    pub fn look(&mut self) {
        if self.last.is_some_and(|at| at.elapsed() < EACH) {
            return;
        }
        for (cpu, looks) in &mut self.cpus {
            let cpu = *cpu;
            // A thread of its own: what is started later shall not inherit the CPU.
            let seen = std::thread::scope(|s| {
                let look = move || {
                    machine::pin(cpu);
                    additions()
                };
                let thread = std::thread::Builder::new().spawn_scoped(s, look);
                thread.ok().and_then(|t| t.join().ok())
            });
            looks.extend(seen);
        }
        self.last = Some(Instant::now());
    }

    /// Of the CPUs that could be looked at.
    pub fn seen(&self) -> Vec<Ipc> {
        let seen = self.cpus.iter().filter(|(_, looks)| !looks.is_empty());
        seen.map(|(cpu, looks)| Ipc {
            cpu: *cpu,
            median: stats::median(looks),
            most: most(looks),
            looks: looks.len(),
        })
        .collect()
    }
}

/// Additions in a cycle, here and now: the median of some pairs, since one may be interrupted.
fn additions() -> f64 {
    let seconds = |f: fn(u64)| {
        let at = Instant::now();
        f(TURNS);
        at.elapsed().as_secs_f64().max(1e-9)
    };
    // As many additions in either loop.
    let pairs: Vec<_> = (0..PAIRS)
        .map(|_| seconds(chain) / seconds(apart))
        .collect();
    stats::median(&pairs)
}

/// `turns` times 32 additions, each of which needs the one before. Of registers: some processors do those of constants
/// while they rename.
fn chain(turns: u64) {
    // SAFETY: registers that the compiler gave, and flags.
    unsafe {
        asm!(
            "2:",
            ".rept 32",
            "add {a}, {k}",
            ".endr",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) turns.max(1) => _,
            a = inout(reg) 0u64 => _,
            k = in(reg) 1u64,
            options(nomem, nostack)
        );
    }
}

/// As many that need only what was there eight additions ago.
fn apart(turns: u64) {
    // SAFETY: registers that the compiler gave, and flags.
    unsafe {
        asm!(
            "2:",
            ".rept 4",
            "add {a}, {k}",
            "add {b}, {k}",
            "add {c}, {k}",
            "add {d}, {k}",
            "add {e}, {k}",
            "add {f}, {k}",
            "add {g}, {k}",
            "add {h}, {k}",
            ".endr",
            "dec {n}",
            "jnz 2b",
            n = inout(reg) turns.max(1) => _,
            a = inout(reg) 0u64 => _,
            b = inout(reg) 0u64 => _,
            c = inout(reg) 0u64 => _,
            d = inout(reg) 0u64 => _,
            e = inout(reg) 0u64 => _,
            f = inout(reg) 0u64 => _,
            g = inout(reg) 0u64 => _,
            h = inout(reg) 0u64 => _,
            k = in(reg) 1u64,
            options(nomem, nostack)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cpu_is_looked_at_and_the_caller_stays_where_it_may_be() {
        let cpus = machine::allowed();
        let mut smt = Smt::of(&cpus);
        assert!(smt.seen().is_empty());
        smt.look();
        // Too soon: no second look.
        smt.look();
        let seen = smt.seen();
        assert_eq!(seen.iter().map(|i| i.cpu).collect::<Vec<_>>(), cpus);
        for i in &seen {
            // More than one unit, fewer than any processor has; a look that was disturbed throughout is still a number.
            assert!(i.looks == 1 && i.median > 0.2 && i.median < 16.0, "{i:?}");
        }
        assert_eq!(machine::allowed(), cpus);
    }

    #[test]
    fn what_one_look_saw_is_not_the_most() {
        assert_eq!(most(&[3.8, 3.7, 15.2, 3.75, 2.0]), 3.8);
        assert_eq!(most(&[9.0, 3.8, 15.2, 3.75, 3.7]), 3.8);
        // Mostly shared, and three times not: those are what the core has.
        assert_eq!(most(&[2.0, 2.1, 3.8, 2.0, 3.8, 1.9, 3.7]), 3.8);
        // Too few to agree.
        assert_eq!(most(&[3.8]), 3.8);
        assert_eq!(most(&[15.2, 3.8]), 9.5);
    }

    #[test]
    fn the_part_is_of_a_whole_number_of_units() {
        let i = |median, most| Ipc {
            cpu: 0,
            median,
            most,
            looks: 9,
        };
        // A core of four units by itself; now and then shared; shared throughout; one of six.
        assert!(i(3.9, 3.95).part() > 0.97);
        assert!((i(2.4, 3.9).part() - 0.6).abs() < 1e-9);
        assert!(i(2.1, 2.3).part() < 0.75);
        assert!(i(5.7, 5.8).part() > 0.94);
        // Of three units with a little noise above: not taken for one of four.
        assert!(i(2.95, 3.05).part() > 0.97);
    }
}
