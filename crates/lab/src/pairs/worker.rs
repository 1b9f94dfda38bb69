//! A worker: the process that is started for one backend, one case, one round; plain, or under `byway run`.
//!
//! Invariant: it does the same whoever started it: what carries its calls it does not know. It ends with its parent.
//! Not here: how it is started (start.rs, grep.rs), what the pair does (fifo.rs, bw_pipe.rs, pipeflex.rs, lat_pipe.rs, ready).
use super::fifo::{self, Cell};
use super::link::Kind;
use super::pipeflex::{self, Options};
use super::ready::work::{self, Members};
use super::{bw_pipe, grep, lat_pipe, pair};
use crate::child::Failure;
use std::path::Path;

/// What is to be done, in the words of a command line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Job {
    pub kind: Kind,
    pub cpus: Vec<usize>,
    pub work: Work,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Work {
    /// A cell of the table, and its runs.
    Fifo(Cell, fifo::Runs),
    /// Chunk and total, bytes.
    Stream(usize, usize),
    Flex(Options),
    /// Round trips; whether each side waits in epoll_wait(2) before it reads.
    Spin(u64, bool),
    /// Bytes of a message, and messages to a reader that polls.
    Polled(usize, u64),
    /// Messages through an epoll set.
    Set(Members, u64),
    /// Bytes to a sleeper, and us before each; whether to measure a pipe of the kernel's in turn with it; whether the
    /// sleeper waits in epoll_wait(2).
    Sleep(usize, u64, bool, bool),
    /// Starts of nothing.
    Nothing(usize),
}

impl Work {
    fn words(&self) -> (&'static str, Vec<u64>) {
        match *self {
            Work::Fifo(c, runs) => {
                let all = [c.size, c.count, runs.count].map(|n| n as u64);
                ("fifo", [&all[..], &[runs.warm_ms]].concat())
            }
            Work::Stream(chunk, total) => ("stream", vec![chunk as u64, total as u64]),
            Work::Flex(o) => (
                "flex",
                vec![
                    o.processes as u64,
                    o.ms,
                    o.read_us,
                    o.write_us,
                    o.read as u64,
                    o.write as u64,
                ],
            ),
            Work::Spin(trips, told) => ("spin", vec![trips, u64::from(told)]),
            Work::Polled(size, messages) => ("polled", vec![size as u64, messages]),
            Work::Set(m, messages) => {
                let all = [m.members as u64, m.active as u64, u64::from(m.plain)];
                ("set", [&all[..], &[messages]].concat())
            }
            Work::Sleep(wakes, pause, both, told) => (
                "sleep",
                vec![wakes as u64, pause, u64::from(both), u64::from(told)],
            ),
            Work::Nothing(runs) => ("nothing", vec![runs as u64]),
        }
    }

    fn of(name: &str, n: &[u64]) -> Option<Work> {
        let size = |v: u64| usize::try_from(v).ok().filter(|&v| v > 0);
        Some(match (name, n) {
            ("fifo", &[a, count, runs, warm_ms]) => Work::Fifo(
                Cell {
                    size: size(a)?,
                    count: size(count)?,
                },
                fifo::Runs {
                    count: size(runs)?,
                    warm_ms,
                },
            ),
            ("stream", &[chunk, total]) => Work::Stream(size(chunk)?, size(total)?),
            ("flex", &[processes, ms, read_us, write_us, read, write]) => Work::Flex(Options {
                processes: size(processes)?,
                ms,
                read_us,
                write_us,
                read: size(read)?,
                write: size(write)?,
            }),
            ("spin", &[trips, told]) => Work::Spin(trips, told == 1),
            ("polled", &[bytes, messages]) => Work::Polled(size(bytes)?, messages),
            ("set", &[members, active, plain, messages]) => Work::Set(
                Members {
                    members: size(members)?,
                    active: size(active)?,
                    plain: plain == 1,
                },
                messages,
            ),
            ("sleep", &[wakes, pause, both, told]) => {
                Work::Sleep(size(wakes)?, pause, both == 1, told == 1)
            }
            ("nothing", &[runs]) => Work::Nothing(size(runs)?),
            _ => return None,
        })
    }

    /// Bytes that it sends at least; 0 where that depends on the time.
    pub fn bytes(&self) -> u64 {
        match *self {
            Work::Fifo(c, runs) => c.bytes() * runs.count as u64,
            Work::Stream(_, total) => total as u64,
            Work::Spin(trips, _) => 2 * trips,
            Work::Polled(size, messages) => size as u64 * messages,
            Work::Set(m, messages) => m.bytes(messages),
            Work::Sleep(wakes, ..) => wakes as u64,
            Work::Flex(_) | Work::Nothing(_) => 0,
        }
    }

    /// Whether there are pipes whose bytes may be carried.
    pub fn is_by_pipes(&self) -> bool {
        !matches!(self, Work::Set(Members { plain: true, .. }, _))
    }
}

impl Job {
    pub fn words(&self) -> Vec<String> {
        let (name, numbers) = self.work.words();
        let cpus: Vec<_> = self.cpus.iter().map(usize::to_string).collect();
        let mut v = vec![name.into(), self.kind.word().into(), cpus.join(",")];
        v.extend(numbers.iter().map(u64::to_string));
        v
    }

    pub fn of(words: &[String]) -> Option<Job> {
        let [name, kind, cpus, numbers @ ..] = words else {
            return None;
        };
        let numbers: Option<Vec<u64>> = numbers.iter().map(|n| n.parse().ok()).collect();
        let cpus: Option<Vec<usize>> = cpus.split(',').map(|c| c.parse().ok()).collect();
        Some(Job {
            kind: Kind::of(kind)?,
            cpus: cpus?,
            work: Work::of(name, &numbers?)?,
        })
    }

    /// The figures.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn run(&self) -> Result<Vec<f64>, Failure> {
        let (kind, cpus) = (self.kind, &self.cpus[..]);
        pair::take_part()?;
        match self.work {
            Work::Fifo(cell, runs) => fifo::work(kind, cpus, cell, runs),
            Work::Stream(chunk, total) => bw_pipe::work(kind, cpus, chunk, total),
            Work::Flex(options) => pipeflex::work(kind, cpus, options),
            Work::Spin(trips, told) => lat_pipe::spin(kind, cpus, trips, told),
            Work::Polled(size, messages) => work::polled(cpus, size, messages),
            Work::Set(members, messages) => work::messages(cpus, members, messages),
            Work::Sleep(wakes, pause, both, told) => {
                let kinds = [kind, Kind::Pipe];
                lat_pipe::sleep(&kinds[..1 + usize::from(both)], cpus, wakes, pause, told)
            }
            Work::Nothing(runs) => pair::nothing(cpus, runs),
        }
    }
}

/// The whole life of a worker: figures to standard output, one a line; 2 and a sentence if there are none.
pub fn main(words: &[String]) -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let done = match words {
        // Of grep: in place of cat, and a bound.
        [what, path] if what == "give" => {
            let given = grep::give(Path::new(path), libc::STDOUT_FILENO);
            given.map(|()| vec![]).map_err(Failure::from)
        }
        [what, path] if what == "copy" => grep::copy(Path::new(path)),
        _ => Job::of(words).map_or_else(
            || {
                let how =
                    "`byway bench` starts it, with words of its own; try `byway bench --help`";
                Err(Failure::Said(how.into()))
            },
            |job| job.run(),
        ),
    };
    match done {
        Ok(figures) => {
            let lines: String = figures.iter().map(|f| format!("{f}\n")).collect();
            print!("{lines}");
            0
        }
        Err(e) => {
            eprintln!("byway: pair-worker: {e}");
            2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_the_job() {
        let flex = Options {
            read: 4096,
            ..Options::usual(true)
        };
        for work in [
            Work::Fifo(
                Cell {
                    size: 64,
                    count: 100,
                },
                fifo::Runs {
                    count: 7,
                    warm_ms: 3,
                },
            ),
            Work::Stream(4096, 1 << 20),
            Work::Flex(flex),
            Work::Spin(10, false),
            Work::Spin(10, true),
            Work::Polled(64, 9),
            Work::Set(
                Members {
                    members: 10,
                    active: 2,
                    plain: true,
                },
                8,
            ),
            Work::Sleep(5, 200, false, true),
            Work::Sleep(5, 200, true, false),
            Work::Nothing(3),
        ] {
            let job = Job {
                kind: Kind::Fifo,
                cpus: vec![0, 3],
                work,
            };
            assert_eq!(Job::of(&job.words()), Some(job));
        }
    }

    #[test]
    fn other_words_are_no_job() {
        for words in [
            "",
            "fifo",
            "fifo fifo 0 64 100 7",
            "spin ring 0 5",
            "spin pipe x 5",
            "stream pipe 0 0 9",
        ] {
            let words: Vec<String> = words.split(' ').map(String::from).collect();
            assert_eq!(Job::of(&words), None, "{words:?}");
        }
    }
}
