//! `grep`: the first benchmark of "Pipe performance results": `grep` over a file of 50 MB, for a pattern that is not there.
//!
//! ```text
//! auto ... lp+zc  cat $G | grep -c nosuchpattern, under `byway run`     kernel-64k  the same line, plain
//! kernel-1m       the same cat and grep, started by the same shell, on a pipe that the harness has made
//! vmsplice        the same line with a program of ours for cat, which gives the file's pages (`give`)
//! memcpy          one thread, which copies the file once (`copy`): a bound of the bytes' way, not of the line
//! ```
//! Invariant: whole programs from the shell's start to its end, in the kernel's own places: nothing is bound or warmed but
//! the file, which is in memory since it was written. Every run must say 0, but `memcpy`, whose copy is compared instead.
//! Not here: other pipelines (`byway demo`).
//!
//! `vmsplice` compares unfairly: cat has to copy the file, this one maps it.
use super::link::{self, End, Kind, Link};
use super::start::{Byway, Call, Done, Of};
use super::{Backend, Plan, bw_pipe, carried_pipes};
use crate::child::{Failure, now};
use crate::workload::pipeline::{self, Case, Texts};
use crate::workload::shell::Side;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Duration;

pub const CASE: &str = "50MB";
pub const OVER: [&str; 2] = bw_pipe::OVER;

pub fn backends(pipes: &[&'static str]) -> Vec<Backend> {
    let mut v = carried_pipes(pipes);
    v.extend(bw_pipe::plain());
    v
}

/// The file.
///
/// # Errors
/// A sentence: there is no room.
pub fn texts() -> Result<Texts, Failure> {
    Texts::fifty().map_err(|e| {
        Failure::Said(format!(
            "no file of 50 MB in {}: {e}; set TMPDIR to a folder of yours with more room",
            std::env::temp_dir().display()
        ))
    })
}

/// The ends that `wide` leaves: above all that the harness, and a shell of its own accord, have.
const ENDS: [i32; 2] = [100, 101];
/// As the shell's own pipeline is two processes of its, both waited for; nobody else keeps an end.
const WIDE: &str = "cat $G >&101 100<&- 101>&- & grep -c nosuchpattern <&100 100<&- 101>&- & exec 100<&- 101>&-; wait";
const GIVEN: &str = "\"$B\" pair-worker give \"$G\" | grep -c nosuchpattern";

/// In a new process: a pipe of 1 MiB, its ends where `WIDE` looks for them.
fn wide() -> io::Result<()> {
    let ends = link::pipe()?;
    if !link::widen(ends[1]) {
        return Err(io::Error::last_os_error());
    }
    for (end, place) in ends.into_iter().zip(ENDS) {
        // SAFETY: no pointers; the ends that were made close when the shell starts.
        match unsafe { libc::fcntl(end, libc::F_DUPFD, place) } {
            n if n == place => {}
            n if n < 0 => return Err(io::Error::last_os_error()),
            // Somebody is there.
            _ => return Err(io::Error::from_raw_os_error(libc::EBUSY)),
        }
    }
    Ok(())
}

/// Longer than a copy takes on a machine that is not stuck.
const LIMIT: Duration = Duration::from_secs(60);

/// One run, ms.
///
/// # Errors
/// It could not be started, or said something else than 0.
pub fn run(backend: &Backend, plan: &Plan, byway: &Byway, texts: &Texts) -> Result<Done, Failure> {
    if backend.kind == Kind::Nothing {
        let file = texts.small().to_string_lossy().into_owned();
        let call = Call {
            program: None,
            words: vec!["pair-worker".into(), "copy".into(), file],
            cpus: &plan.cpus,
            run: None,
            namespace: None,
        };
        return byway.call(&call, LIMIT, Of::All);
    }
    let (case, side) = match (backend.run, backend.kind) {
        (Some(words), _) => (shell()?, Side::Carried(words)),
        (None, Kind::Pipe1M) => {
            // Where the kernel gives none, it is said before the time runs.
            Link::new(Kind::Pipe1M, 1)?.close();
            (Case::of(CASE, WIDE), Side::After(wide))
        }
        (None, Kind::Vmsplice) => (Case::of(CASE, GIVEN), Side::Plain),
        _ => (shell()?, Side::Plain),
    };
    let run = pipeline::run(&case, side, byway.path(), texts, Some(&plan.cpus))?;
    if run.output != b"0\n" {
        return Err(Failure::Said(format!(
            "cat and grep said {:?}, not 0, as {}; are both installed?",
            String::from_utf8_lossy(&run.output),
            backend.name
        )));
    }
    Ok(Done {
        figures: vec![run.wall * 1e3],
        carried: None,
        why: None,
    })
}

/// The line of the source.
fn shell() -> io::Result<Case> {
    let mut all = pipeline::cases().into_iter();
    all.find(|c| c.id == "grep-50MB")
        .ok_or_else(|| io::Error::other("no such pipeline"))
}

/// The pages of a file, for the life of the process.
fn mapped(path: &Path) -> io::Result<&'static [u8]> {
    let file = File::open(path)?;
    let n = file.metadata()?.len() as usize;
    let how = libc::MAP_SHARED | libc::MAP_POPULATE;
    let fd = file.as_raw_fd();
    // SAFETY: a new mapping at an address that the kernel chooses, which stays; the harness's file, which nobody changes.
    unsafe {
        let p = libc::mmap(std::ptr::null_mut(), n, libc::PROT_READ, how, fd, 0);
        if p == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(std::slice::from_raw_parts(p.cast(), n))
    }
}

/// `vmsplice`, in place of cat: gives the pages of a file to the pipe `to`.
///
/// # Errors
/// The kernel's.
pub fn give(path: &Path, to: i32) -> io::Result<()> {
    End::Splice(to).put(mapped(path)?)
}

/// What cat writes at once.
const PIECE: usize = 128 << 10;

/// `memcpy`: ms that one copy of a file takes, from pages that are in memory into pages that are there.
///
/// # Errors
/// The kernel's, or a copy that is none.
pub fn copy(path: &Path) -> Result<Vec<f64>, Failure> {
    let from = mapped(path)?;
    let mut into = vec![1u8; from.len()];
    let began = now();
    for (to, piece) in into.chunks_mut(PIECE).zip(from.chunks(PIECE)) {
        to.copy_from_slice(std::hint::black_box(piece));
    }
    let ns = now() - began;
    if into != from {
        return Err(Failure::Said("a copy of the file differs from it".into()));
    }
    Ok(vec![ns as f64 / 1e6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program;
    use std::io::Read;
    use std::os::fd::FromRawFd;
    use std::os::unix::process::CommandExt;
    use std::path::PathBuf;
    use std::process::Command;

    /// A file that goes with the value; some of its lines have the pattern.
    struct Sample(PathBuf, Vec<u8>);
    impl Sample {
        fn new(name: &str) -> Sample {
            let own = format!("byway-grep-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(own);
            let line = |i| {
                format!(
                    "{i} {}\n",
                    ["nosuchpattern", "something"][usize::from(i % 1000 > 0)]
                )
            };
            let text: String = (0..30_000).map(line).collect();
            std::fs::write(&path, &text).unwrap();
            Sample(path, text.into())
        }
    }
    impl Drop for Sample {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn what_is_given_is_the_file() {
        let s = Sample::new("give");
        let [r, w] = link::pipe().unwrap();
        // SAFETY: a new descriptor, which nobody else closes.
        let mut from = unsafe { File::from_raw_fd(r) };
        let reader = std::thread::spawn(move || {
            let mut all = vec![];
            from.read_to_end(&mut all).map(|_| all)
        });
        give(&s.0, w).unwrap();
        // SAFETY: ours, and not used again.
        unsafe { libc::close(w) };
        assert!(reader.join().unwrap().unwrap() == s.1);
    }

    #[test]
    fn a_copy_has_its_time() {
        let s = Sample::new("copy");
        let v = copy(&s.0).unwrap();
        assert!(v.len() == 1 && v[0] > 0.0);
        assert!(copy(Path::new("/nonexistent")).is_err());
    }

    #[test]
    fn cat_and_grep_have_a_pipe_of_a_mebibyte() {
        let s = Sample::new("wide");
        let mut c = Command::new("bash");
        c.args(["-c", WIDE]).env("G", &s.0);
        // SAFETY: only system calls.
        unsafe {
            c.pre_exec(|| {
                wide()?;
                match libc::fcntl(ENDS[1], libc::F_GETPIPE_SZ) {
                    n if n >= 1 << 20 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(libc::ENOSPC)),
                }
            });
        }
        let o = program::output(&mut c, Duration::from_secs(60)).unwrap();
        assert_eq!(String::from_utf8_lossy(&o.out), "30\n");
        assert!(o.err.is_empty(), "{}", String::from_utf8_lossy(&o.err));
    }
}
