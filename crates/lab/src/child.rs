//! Processes and threads of a run: one process that stands for the run, and in it those that work, from one moment on.
//!
//! ```text
//! byway bench --fork--> the run: makes the allocator --fork / spawn--> workers, each on its CPU
//!      <-- figures --------      <-- when each began and ended, how many operations --
//! ```
//! Invariant: a child dies with its parent (PR_SET_PDEATHSIG), memory is anonymous and goes with the processes, so an
//! interrupted or failed run leaves nothing behind. A run begins with a heap and caches that no other run has used.
//! Not here: what the workers do.
use crate::interrupt;
use crate::machine;
use crate::shared::{self, Shared};
use crate::spin;
use std::collections::HashSet;
use std::io::{self, Write};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// Why there is no figure.
#[derive(Debug)]
pub enum Failure {
    /// An allocator said that it has no object, or the machine that it has no memory.
    NoMemory,
    /// The machine refused something else.
    Machine(io::Error),
    /// A process of the run ended with this status of waitpid(2).
    Died(i32),
    /// The run did not end within its time.
    Stuck,
    /// Ctrl-C was pressed.
    Interrupted,
    /// What a program of the run, or who knows the remedy, says of it.
    Said(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Failure::NoMemory => {
                f.write_str("there is not enough memory; try --quick, or end other programs")
            }
            Failure::Machine(e) => write!(f, "{e}; try fewer processes (--cpus)"),
            Failure::Died(s) => write!(
                f,
                "a process of the run was killed (status {s:#x}), perhaps for want of memory; try --quick"
            ),
            Failure::Stuck => {
                f.write_str("a run did not end; try it again while the machine is idle")
            }
            Failure::Interrupted => f.write_str("interrupted"),
            Failure::Said(s) => f.write_str(s),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(e: io::Error) -> Failure {
        match e.raw_os_error() {
            // LINUX madvise(2): EFAULT is what MADV_POPULATE_WRITE says where a touch would be SIGBUS.
            Some(libc::ENOMEM | libc::EFAULT) => Failure::NoMemory,
            _ => Failure::Machine(e),
        }
    }
}

/// Exit statuses of a process of the run that could not do its work.
const NO_MEMORY: i32 = 10;
const REFUSED: i32 = 11;
/// It has said why.
const SAID: i32 = 12;

impl Failure {
    /// The status for it; what there is to say is said here, for a status has no words.
    fn tells(&self) -> i32 {
        match self {
            Failure::NoMemory => NO_MEMORY,
            Failure::Said(why) => {
                let _ = writeln!(io::stderr(), "byway: {why}");
                SAID
            }
            _ => REFUSED,
        }
    }
    /// What a status of waitpid(2) says; `None` if all went well.
    fn of(status: i32) -> Option<Failure> {
        if libc::WIFEXITED(status) {
            return match libc::WEXITSTATUS(status) {
                0 => None,
                NO_MEMORY => Some(Failure::NoMemory),
                SAID => Some(Failure::Said(
                    "a process of the run failed, as it said".into(),
                )),
                REFUSED => Some(Failure::Machine(io::Error::other(
                    "the machine gives no more processes or memory",
                ))),
                _ => Some(Failure::Died(status)),
            };
        }
        Some(Failure::Died(status))
    }
}

/// A child that runs `f` and ends. It never returns into the caller's code, and dies with the caller.
fn fork(f: impl FnOnce() -> Result<(), Failure>) -> io::Result<i32> {
    // SAFETY: no arguments.
    let parent = unsafe { libc::getpid() };
    // SAFETY: the child runs `f` and ends by _exit, so nothing of the parent is flushed or dropped twice.
    unsafe {
        let pid = libc::fork();
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The parent may have died before that.
            if libc::getppid() != parent {
                libc::_exit(REFUSED);
            }
            libc::_exit(f().map_or_else(|e| e.tells(), |()| 0));
        }
        Ok(pid)
    }
}

/// Forks a process that keeps all descriptors of this one open as long as this one lives, and does nothing else.
///
/// # Errors
/// The machine gives no process.
pub fn holder() -> io::Result<()> {
    fork(|| {
        loop {
            // SAFETY: no arguments.
            unsafe { libc::pause() };
        }
    })?;
    Ok(())
}

/// Words that a run hands back at most.
const WORDS: usize = 8192;

/// Runs `f` in a process of its own, for at most `limit`. Its figures.
///
/// # Errors
/// What went wrong there.
pub fn isolated(
    limit: Duration,
    f: impl FnOnce() -> Result<Vec<f64>, Failure>,
) -> Result<Vec<f64>, Failure> {
    let board = Shared::new((WORDS + 1) * 8)?;
    let words = board.words(0, WORDS + 1);
    let pid = fork(|| {
        let figures = f()?;
        let n = figures.len().min(WORDS);
        words[0].store(n as u64, Relaxed);
        for (w, v) in words[1..].iter().zip(&figures) {
            w.store(v.to_bits(), Relaxed);
        }
        Ok(())
    });
    let result = pid.map_err(Failure::from).and_then(|pid| wait(pid, limit));
    let n = (words[0].load(Relaxed) as usize).min(WORDS);
    let figures = words[1..=n]
        .iter()
        .map(|w| f64::from_bits(w.load(Relaxed)))
        .collect();
    board.unmap();
    result.map(|()| figures)
}

fn wait(pid: i32, limit: Duration) -> Result<(), Failure> {
    let (began, mut status) = (Instant::now(), 0);
    loop {
        // SAFETY: our own child and int.
        let r = unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) };
        if r == pid {
            return Failure::of(status).map_or(Ok(()), Err);
        }
        if r < 0 {
            return Err(io::Error::last_os_error().into());
        }
        let interrupted = interrupt::asked();
        if interrupted || began.elapsed() > limit {
            // SAFETY: our own child, which has not been waited for.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, &mut status, 0);
            }
            return Err(if interrupted {
                Failure::Interrupted
            } else {
                Failure::Stuck
            });
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// From now on processes of a run that has ended before them are this process's children, for `bury`.
///
/// # Errors
/// The machine does not know of that.
pub fn adopt() -> io::Result<()> {
    // SAFETY: prctl(2) without pointers.
    if unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Returns when no child is left.
pub fn bury() {
    let none = std::ptr::null_mut();
    // SAFETY: no status is wanted.
    while unsafe { libc::waitpid(-1, none, 0) } > 0 || interrupted() {}
}

/// Whether a signal ended the last call.
fn interrupted() -> bool {
    io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
}

/// What one worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// CLOCK_MONOTONIC, ns, which all processes share.
    pub began: u64,
    pub ended: u64,
    pub operations: u64,
    /// ns of the CPU that its thread had between the two.
    pub ran: u64,
}

/// Nanoseconds now.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}
/// Nanoseconds of the CPU that the calling thread has had.
pub fn ran() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock(which: libc::clockid_t) -> u64 {
    // SAFETY: fills a struct of ours.
    unsafe {
        let mut t: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(which, &mut t);
        t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
    }
}

/// Which part of their CPUs' time the workers had; 1 on an idle machine.
pub fn busy(spans: &[Span], cpus: usize) -> f64 {
    let ran: u64 = spans.iter().map(|s| s.ran).sum();
    let there: u64 = spans.iter().map(|s| s.ended - s.began).sum();
    let share = cpus.min(spans.len()) as f64 / spans.len().max(1) as f64;
    ran as f64 / (there as f64 * share).max(1.0)
}

/// Where workers wait for each other, and leave what they did.
#[derive(Clone, Copy)]
pub struct Gate {
    ready: &'static AtomicU64,
    spans: &'static [AtomicU64],
    workers: usize,
    /// Whether there are fewer CPUs than workers, so that who waits holds up another.
    sharing: bool,
}

impl Gate {
    fn new(workers: usize, cpus: usize) -> io::Result<Gate> {
        let memory = Shared::new(64 + workers * 32)?;
        Ok(Gate {
            ready: &memory.words(0, 1)[0],
            spans: memory.words(64, workers * 4),
            workers,
            sharing: cpus < workers,
        })
    }
    /// Returns when all workers have come here; each time that they do.
    pub fn pass(&self) {
        // ORDER: what each did before comes before what all do then.
        let came = self.ready.fetch_add(1, AcqRel) as usize + 1;
        let all = came.next_multiple_of(self.workers);
        if !self.sharing {
            spin::until(|| {
                // ORDER: as above.
                self.ready.load(Acquire) as usize >= all
            });
        } else if came == all {
            shared::wake(self.ready);
        } else {
            loop {
                // ORDER: as above.
                let now = self.ready.load(Acquire);
                if now as usize >= all {
                    break;
                }
                // Not by offers of the CPU: LINUX 6.18 takes from who makes them what it would have had later.
                shared::sleep_while(self.ready, now);
            }
        }
    }
    fn leave(&self, i: usize, s: Span) {
        for (w, v) in self.spans[4 * i..]
            .iter()
            .zip([s.began, s.ended, s.operations, s.ran])
        {
            // ORDER: read after the worker has been waited for; named for those who are threads.
            w.store(v, Release);
        }
    }
    fn spans(&self) -> Vec<Span> {
        let word = |i: usize| self.spans[i].load(Relaxed);
        (0..self.workers)
            .map(|i| Span {
                began: word(4 * i),
                ended: word(4 * i + 1),
                operations: word(4 * i + 2),
                ran: word(4 * i + 3),
            })
            .collect()
    }
}

/// Runs `work(i, gate)` in a process for each of `cpus`, bound to it. Called in a run's own process, which has no other
/// children.
///
/// # Errors
/// What went wrong in the first that failed; the others then end with the run.
pub fn processes(
    cpus: &[usize],
    work: impl Fn(usize, Gate) -> Result<Span, Failure>,
) -> Result<Vec<Span>, Failure> {
    group(
        &cpus.iter().map(std::slice::from_ref).collect::<Vec<_>>(),
        work,
    )
}

/// As `processes`, each bound to several CPUs.
///
/// # Errors
/// What went wrong in the first that failed; the others then end with the run.
pub fn group(
    places: &[&[usize]],
    work: impl Fn(usize, Gate) -> Result<Span, Failure>,
) -> Result<Vec<Span>, Failure> {
    let gate = Gate::new(places.len(), distinct(&places.concat()))?;
    for (i, cpus) in places.iter().enumerate() {
        fork(|| {
            machine::bind(cpus);
            gate.leave(i, work(i, gate)?);
            Ok(())
        })?;
    }
    for _ in places {
        let mut status = 0;
        // SAFETY: our own children and int.
        let pid = unsafe { libc::waitpid(-1, &mut status, 0) };
        if pid < 0 {
            return Err(io::Error::last_os_error().into());
        }
        if let Some(e) = Failure::of(status) {
            return Err(e);
        }
    }
    Ok(gate.spans())
}

/// How many CPUs these are.
fn distinct(cpus: &[usize]) -> usize {
    cpus.iter().collect::<HashSet<_>>().len()
}

/// As `processes`, in threads of the calling process.
///
/// # Errors
/// What went wrong in the first that failed.
pub fn threads(
    cpus: &[usize],
    work: impl Fn(usize, Gate) -> Result<Span, Failure> + Sync,
) -> Result<Vec<Span>, Failure> {
    let gate = Gate::new(cpus.len(), distinct(cpus))?;
    std::thread::scope(|s| {
        let started: Vec<_> = cpus
            .iter()
            .enumerate()
            .map(|(i, &cpu)| {
                let work = &work;
                s.spawn(move || {
                    machine::pin(cpu);
                    gate.leave(i, work(i, gate)?);
                    Ok(())
                })
            })
            .collect();
        started
            .into_iter()
            .try_for_each(|t| t.join().unwrap_or(Err(Failure::Stuck)))
    })?;
    Ok(gate.spans())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn figures_come_back() {
        assert_eq!(isolated(LIMIT, || Ok(vec![1.5, 2.5])).unwrap(), [1.5, 2.5]);
    }

    #[test]
    fn a_failure_has_its_reason() {
        let r = isolated(LIMIT, || Err(Failure::NoMemory));
        assert!(matches!(r, Err(Failure::NoMemory)));
        // SAFETY: ends only the child.
        let r = isolated(LIMIT, || unsafe { libc::_exit(7) });
        assert!(matches!(r, Err(Failure::Died(_))));
        let r = isolated(Duration::from_millis(20), || {
            std::thread::sleep(LIMIT);
            Ok(vec![])
        });
        assert!(matches!(r, Err(Failure::Stuck)));
    }

    #[test]
    fn a_worker_that_fails_ends_the_run() {
        let cpu = machine::allowed()[0];
        let r = isolated(LIMIT, || {
            processes(&[cpu, cpu], |i, gate| {
                if i == 0 {
                    return Err(Failure::NoMemory);
                }
                // Never opens: the other does not come.
                gate.pass();
                Ok(Span::default())
            })
            .map(|_| vec![])
        });
        assert!(matches!(r, Err(Failure::NoMemory)));
    }

    #[test]
    fn who_shares_a_cpu_is_not_disturbed_by_that() {
        let s = Span {
            began: 0,
            ended: 100,
            operations: 1,
            ran: 50,
        };
        assert_eq!(busy(&[s; 2], 1), 1.0);
        assert_eq!(busy(&[s; 2], 2), 0.5);
    }

    #[test]
    fn a_gate_opens_each_time() {
        let cpus = machine::allowed();
        for second in [cpus[0], cpus[cpus.len() - 1]] {
            let board = Shared::new(64).unwrap();
            let count = &board.words(0, 1)[0];
            let turns = isolated(LIMIT, || {
                processes(&[cpus[0], second], |_, gate| {
                    for turn in 0..100 {
                        if count.load(Relaxed) < 2 * turn {
                            return Err(Failure::Stuck);
                        }
                        count.fetch_add(1, Relaxed);
                        gate.pass();
                    }
                    Ok(Span::default())
                })?;
                Ok(vec![count.load(Relaxed) as f64])
            });
            assert_eq!(turns.unwrap(), [200.0]);
        }
    }

    #[test]
    fn workers_begin_together() {
        let cpu = machine::allowed()[0];
        let figures = isolated(LIMIT, || {
            let spans = processes(&[cpu; 3], |i, gate| {
                gate.pass();
                Ok(Span {
                    began: now(),
                    ended: now(),
                    operations: i as u64,
                    ran: 0,
                })
            })?;
            Ok(spans.iter().map(|s| s.operations as f64).collect())
        });
        assert_eq!(figures.unwrap(), [0.0, 1.0, 2.0]);
    }
}
