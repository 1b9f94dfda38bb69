//! The cases of `start`: what each starts, how often, and which programs it needs.
//!
//! Invariant: a case's output is the same in each run on one machine, and its files are those of `FILES`.
//! Not here: what is measured of a case (mod.rs).
use crate::program;

/// One case: a shell line over `$D` (the folder of `FILES`), `$P` (python), `$T` (true) and `$N` (how often).
pub struct Case {
    pub id: &'static str,
    line: &'static str,
    /// How often in a usual run, and with --quick.
    times: [u32; 2],
    /// Which share of the time it should have: roughly its seconds.
    pub weight: f64,
    /// What must be installed, besides bash.
    programs: &'static [&'static str],
}

/// What the script of `configure` is: the hand-made one, and the Makefile of `make-j2`. The rest is written by the script.
pub const FILES: [&str; 6] = [
    "configure",
    "Makefile",
    "conftest.c",
    "conftest.o",
    "conftest.err",
    "conftest",
];
pub const CONFIGURE: &str = include_str!("configure.sh");
/// Targets of the Makefile, each a shell and a pipe.
pub const TARGETS: u32 = 100;

pub const CASES: [Case; 7] = [
    Case {
        id: "true-loop",
        line: "for ((i = 0; i < N; i++)); do \"$T\"; done; echo $i",
        times: [1000, 100],
        weight: 1.5,
        programs: &["true"],
    },
    Case {
        id: "subshell",
        line: "for ((i = 0; i < N; i++)); do x=$(:); y=$(expr $i + 1); done; echo \"$x$y\"",
        times: [500, 50],
        weight: 1.5,
        programs: &["expr"],
    },
    Case {
        id: "configure",
        line: "cd \"$D\" && sh ./configure $((N * 2)) $N",
        times: [20, 3],
        weight: 2.5,
        programs: &["cc", "grep", "sed", "tr", "expr"],
    },
    Case {
        id: "make-j2",
        line: "make -s -j2 -C \"$D\" $(seq -f item-%.0f $N) | sort",
        times: [TARGETS, 10],
        weight: 1.0,
        programs: &["make", "seq", "sort", "tr"],
    },
    Case {
        id: "xargs",
        line: "seq $N | xargs -n1 echo",
        times: [500, 50],
        weight: 1.0,
        programs: &["xargs", "seq", "echo"],
    },
    Case {
        id: "python-c",
        line: "for ((i = 0; i < N; i++)); do \"$P\" -c pass; done; echo $i",
        times: [20, 2],
        weight: 1.0,
        programs: &["python3"],
    },
    Case {
        id: "node-e",
        line: "for ((i = 0; i < N; i++)); do node -e 0; done; echo $i",
        times: [5, 1],
        weight: 1.0,
        programs: &["node"],
    },
];

impl Case {
    pub fn of(id: &str) -> Option<&'static Case> {
        CASES.iter().find(|c| c.id == id)
    }
    pub fn times(&self, quick: bool) -> u32 {
        self.times[usize::from(quick)]
    }
    /// The shell's line. It has its number in it, since a variable of the environment is every child's as well.
    pub fn line(&self, quick: bool) -> String {
        format!("N={}; {}", self.times(quick), self.line)
    }
    /// The first program that it needs and that is not here.
    pub fn missing(&self) -> Option<&'static str> {
        let mut all = ["bash"].iter().chain(self.programs);
        all.find(|p| program::find(p, &[]).is_none()).copied()
    }
}

/// Each target starts a shell, and in it a program at the end of a pipe.
pub fn makefile() -> String {
    let items: Vec<_> = (1..=TARGETS).map(|i| format!("item-{i}")).collect();
    let items = items.join(" ");
    format!("all: {items}\n{items}:\n\t@echo $@ | tr a-z A-Z\n.PHONY: all {items}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_does_less_when_it_is_quick() {
        for c in &CASES {
            assert!(c.times(true) < c.times(false), "{}", c.id);
            assert!(c.line(true).starts_with(&format!("N={}; ", c.times(true))));
        }
    }

    #[test]
    fn a_program_that_is_not_here_is_named() {
        let case = Case {
            programs: &["no-such-program-of-ours"],
            ..CASES[0]
        };
        assert_eq!(case.missing(), Some("no-such-program-of-ours"));
    }
}
