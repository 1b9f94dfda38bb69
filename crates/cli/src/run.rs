//! `byway run`: starts a command with the preload library and a domain, waits, and ends as the command ended.
//!
//! Invariant: the command's status, signals and output are its own; whatever cannot be prepared leaves it to the kernel.
//! Nothing stays behind: the domain's file goes with this process.
//! Not here: what the preload library does.
use crate::domain::{self, Run, c_string};
use crate::flags::Memory;
use crate::limit;
use crate::members;
use crate::rewrite;
use crate::service::Service;
use byway_mem::layout::flags;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

const LIBRARY: &str = "libbyway_preload.so";

/// Runs `command`; the result is the status to end with.
pub fn run(
    off: bool,
    explain: bool,
    mut forbidden: u32,
    memory: &Memory,
    command: &[OsString],
) -> i32 {
    if let Err(why) = memory.check() {
        eprintln!("byway: run: {why}");
        return 2;
    }
    if std::env::var_os("BYWAY_RSEQ").is_some_and(|v| v == "off") {
        forbidden |= flags::NO_RSEQ;
    }
    if off || std::env::var_os("BYWAY").is_some_and(|v| v == "off") {
        return plain(command);
    }
    // A folder that the user named and that cannot be used is the user's mistake; the usual one is the machine's.
    if std::env::var_os("BYWAY_SHM").is_some()
        && let Err(why) = domain::usable(&domain::folder())
    {
        eprintln!("byway: {why}");
        return 2;
    }
    match limit::as_error(|| prepare(forbidden, memory)) {
        Ok((run, cache, library)) => carried(&run, &cache, &library, explain, command),
        Err(why) => {
            if explain {
                eprintln!("byway: nothing is carried: {why}");
            }
            plain(command)
        }
    }
}

fn failed_to_start(command: &OsStr, e: &std::io::Error) -> i32 {
    // POSIX env: 127 not found, 126 found but not executable.
    let hint = if e.kind() == std::io::ErrorKind::NotFound {
        "; is it installed, and in PATH?"
    } else {
        ""
    };
    eprintln!("byway: cannot run {}: {e}{hint}", command.to_string_lossy());
    if e.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    }
}

fn plain(command: &[OsString]) -> i32 {
    let e = Command::new(&command[0]).args(&command[1..]).exec();
    failed_to_start(&command[0], &e)
}

/// The cache of rewritten texts.
fn cache_folder() -> PathBuf {
    let var = |n: &str| {
        std::env::var_os(n)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    var("BYWAY_CACHE")
        .or_else(|| var("XDG_CACHE_HOME").map(|d| d.join("byway")))
        .or_else(|| var("HOME").map(|d| d.join(".cache/byway")))
        .unwrap_or_else(|| {
            // SAFETY: geteuid has no preconditions.
            let uid = unsafe { libc::geteuid() };
            std::env::temp_dir().join(format!("byway-{uid}"))
        })
}

/// libc and the dynamic loader, as this process has them mapped.
pub fn own_objects() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let mut v: Vec<PathBuf> = maps
        .lines()
        .filter_map(|l| l.split_whitespace().nth(5))
        .filter(|p| p.ends_with("/libc.so.6") || p.contains("/ld-linux"))
        .map(PathBuf::from)
        .collect();
    v.dedup();
    v
}

/// The cache's folder, found or made.
///
/// # Errors
/// A sentence: what is wrong with it, and what to try.
pub fn usable_cache() -> Result<PathBuf, String> {
    let cache = cache_folder();
    rewrite::folder(&cache).map_err(|e| bad_cache(&cache, &e))
}

fn bad_cache(cache: &Path, e: &std::io::Error) -> String {
    format!(
        "the cache {}: {e}; set BYWAY_CACHE to a folder of yours that nobody else can write",
        cache.display()
    )
}

/// Makes all that a run needs: the domain, the cache folder, the preload library.
///
/// # Errors
/// A sentence: why nothing can be carried, and what to try.
pub fn prepare(forbidden: u32, memory: &Memory) -> Result<(Run, PathBuf, PathBuf), String> {
    let exe = std::env::current_exe().map_err(|e| format!("cannot find itself: {e}"))?;
    let dir = exe.parent().unwrap_or(Path::new("/"));
    let library = [dir.join(LIBRARY), dir.join("../lib/byway").join(LIBRARY)]
        .into_iter()
        .find(|p| p.is_file())
        .ok_or_else(|| {
            format!(
                "{LIBRARY} is not beside {}; build it with `make build`",
                exe.display()
            )
        })?;
    let cache = usable_cache()?;
    for path in own_objects() {
        let found = rewrite::ensure(&cache, &path).map_err(|e| bad_cache(&cache, &e))?;
        if let Some(why) = found {
            return Err(format!("{} cannot be rewritten: {why}", path.display()));
        }
    }
    let run = Run::obtain(&cache, forbidden, memory)?;
    Ok((run, cache, library))
}

static CHILD: AtomicI32 = AtomicI32::new(0);

extern "C" fn forward(sig: i32) {
    let pid = CHILD.load(Ordering::Relaxed);
    if pid > 0 {
        // SAFETY: kill(2) is async-signal-safe.
        unsafe { libc::kill(pid, sig) };
    }
}

fn carried(run: &Run, cache: &Path, library: &Path, explain: bool, command: &[OsString]) -> i32 {
    let mut preload = OsString::from(library);
    if let Some(old) = std::env::var_os("LD_PRELOAD").filter(|v| !v.is_empty()) {
        preload.push(":");
        preload.push(old);
    }
    let mut child = Command::new(&command[0]);
    child
        .args(&command[1..])
        .env("LD_PRELOAD", preload)
        .env("BYWAY", run.name());
    // Signals meant for the command reach it: those of the terminal by themselves, the others through us. They are
    // taken over only after the start, so the command inherits what we were given.
    if let Err(e) = c_string(&command[0]) {
        eprintln!("byway: {e}");
        return 126;
    }
    let child = match child.spawn() {
        Ok(c) => c,
        Err(e) => return failed_to_start(&command[0], &e),
    };
    let pid = child.id() as i32;
    CHILD.store(pid, Ordering::Relaxed);
    // SAFETY: `forward` only calls kill(2).
    unsafe {
        // From here on the service may write into the cache (limit.rs).
        for s in [libc::SIGINT, libc::SIGQUIT, libc::SIGXFSZ] {
            libc::signal(s, libc::SIG_IGN);
        }
        for s in [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2] {
            libc::signal(s, forward as *const () as libc::sighandler_t);
        }
    }
    let ended = AtomicBool::new(false);
    let status = std::thread::scope(|s| {
        s.spawn(|| {
            let mut service = Service::new(run);
            // Who made the domain serves it from the start.
            let mut served = run.is_maker();
            while !ended.load(Ordering::Relaxed) {
                let who = members::serves(&run.domain, served);
                let serves = who != members::Serves::Another;
                if who == members::Serves::Now {
                    served = true;
                    service.begin();
                }
                if serves {
                    run.serve(cache);
                }
                run.rest(serves);
                if serves {
                    service.tend(run);
                }
            }
            service.end(served);
        });
        let status = wait(pid);
        ended.store(true, Ordering::Relaxed);
        run.done();
        status
    });
    if explain {
        run.explain();
    }
    status
}

/// Waits for `pid`, stopping when it stops; its status, or 256 plus the signal that killed it.
fn wait(pid: i32) -> i32 {
    loop {
        let mut status = 0;
        // SAFETY: our own child and int.
        let r = unsafe { libc::waitpid(pid, &mut status, libc::WUNTRACED) };
        if r < 0 {
            if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            return 126;
        }
        if libc::WIFSTOPPED(status) && is_foreground() {
            // SAFETY: stops ourselves as the command stopped, and wakes it when we are woken.
            unsafe {
                libc::raise(libc::SIGSTOP);
                libc::kill(pid, libc::SIGCONT);
            }
        } else if libc::WIFSIGNALED(status) {
            return 256 + libc::WTERMSIG(status);
        } else if libc::WIFEXITED(status) {
            return libc::WEXITSTATUS(status);
        }
    }
}

/// Whether a shell waits for our group at a terminal: it sees that we have stopped, and wakes all of us. Nobody else would: who
/// stops just the command wakes just the command.
fn is_foreground() -> bool {
    use std::os::fd::AsRawFd;
    std::fs::File::open("/dev/tty")
        // SAFETY: our own descriptor; no pointers.
        .is_ok_and(|tty| unsafe { libc::tcgetpgrp(tty.as_raw_fd()) == libc::getpgrp() })
}

/// Ends this process as the command ended.
pub fn end(status: i32) -> ! {
    if status > 256 {
        // SAFETY: the same death as the command's, without a second core file.
        unsafe {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(status - 256, libc::SIG_DFL);
            libc::raise(status - 256);
        }
    }
    std::process::exit(status & 255)
}
