//! `byway run`: starts a command with the preload library and a domain, waits, and ends as the command ended.
//!
//! Invariant: the command's status, signals and output are its own; whatever cannot be prepared leaves it to the kernel.
//! Nothing stays behind: the domain's file goes with this process.
//! Not here: what the command's signals and stops mean (child.rs), what the preload library does.
use crate::domain::{self, Run};
use crate::explain::{Told, Wanted};
use crate::library::Named;
use crate::prepare::{Why, prepare};
use crate::service::Service;
use crate::settings::{Settings, environment};
use crate::tell::tell;
use crate::{child, executable, given, guard, limit, members, program, rewrite};
use byway_mem::participants;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

/// Runs `command`, plainly if `off`; the result is the status to end with.
pub fn run(off: bool, explain: &Wanted, mut settings: Settings, command: &[OsString]) -> i32 {
    if let Err(why) = settings.memory.check() {
        tell(&format!("run: {why}"));
        return 2;
    }
    if let Err(why) = explain.check().and(environment::cache_bytes()) {
        tell(&format!("run: {why}"));
        return 2;
    }
    if environment::is_without_rseq() {
        settings.forbid_rseq();
    }
    if off {
        return plain(command);
    }
    // A folder that the user named and that cannot be used is the user's mistake; the usual one is the machine's.
    if environment::names_shm()
        && let Err(why) = domain::usable(&domain::folder())
    {
        tell(&why);
        return 2;
    }
    // What a preload library would keep from starting starts plainly, and so does what a setting leaves alone.
    let is_left = settings.programs.leaves(&executable::names(&command[0]));
    let left = || format!("{} is left alone by a setting", command[0].display());
    let refused = match is_left {
        true => Some(left()),
        false => executable::refuses_preload(&command[0]),
    };
    let carried = refused
        .map_or_else(
            || limit::as_error(|| prepare(&settings)),
            |why| Err(Why::Now(why)),
        )
        .and_then(|(run, cache, library)| {
            let told = settings.programs.variables();
            carried((&run, &cache, &library), explain, told, command).map_err(Why::Now)
        });
    carried.unwrap_or_else(|why| {
        explain.tell_nothing(why.text());
        // What somebody must mend is said, and to whoever is there to read it.
        let is_told = explain.is_on_stderr() || explain.is_quiet();
        if let (Why::Broken(text), false) = (&why, is_told) {
            tell(&format!("nothing is carried: {text}"));
        }
        plain(command)
    })
}

fn failed_to_start(command: &OsStr, e: &std::io::Error) -> i32 {
    // POSIX env: 127 not found, 126 found but not executable.
    let hint = if e.kind() == std::io::ErrorKind::NotFound {
        "; is it installed, and in PATH?"
    } else {
        ""
    };
    tell(&format!(
        "cannot run {}: {e}{hint}",
        command.to_string_lossy()
    ));
    if e.kind() == std::io::ErrorKind::NotFound {
        127
    } else {
        126
    }
}

fn plain(command: &[OsString]) -> i32 {
    let mut start = Command::new(&command[0]);
    given::pass_on(start.args(&command[1..]));
    let e = start.exec();
    // SAFETY: no handler. The attempt has set the default, and nobody may read what is said now.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    failed_to_start(&command[0], &e)
}

fn carried(
    (run, cache, library): (&Run, &Path, &Named),
    explain: &Wanted,
    told: impl Iterator<Item = (&'static str, String)>,
    command: &[OsString],
) -> Result<i32, String> {
    let mut start = Command::new(&command[0]);
    start
        .args(&command[1..])
        .env(
            "LD_PRELOAD",
            library.preload(std::env::var_os("LD_PRELOAD")),
        )
        .env("BYWAY", run.name())
        .envs(told);
    given::pass_on(&mut start);
    if explain.is_any() {
        run.begin_account();
    }
    let ended = AtomicBool::new(false);
    let mut took_part = true;
    let status = std::thread::scope(|s| {
        // Before the command, which would wait for each answer if there were no room for this thread.
        std::thread::Builder::new()
            .spawn_scoped(s, || serve(run, cache, &ended))
            .map_err(|e| format!("no thread for its service: {e}"))?;
        let status = spawned(&mut start).map(|child| {
            let pid = child.id() as i32;
            child::take_over(pid);
            guard::over(&run.domain);
            let status = child::wait(pid);
            took_part = participants::has(&run.domain, pid as u32);
            status
        });
        ended.store(true, Ordering::Relaxed);
        run.done();
        status.map_err(|e| format!("no process for the command: {e}"))
    })?;
    if explain.is_any() {
        let reason = |object: &Path| rewrite::ensure(cache, object).ok()?;
        let mut told = Told::of(run, reason);
        // One that never loaded the library cannot have said so.
        if !took_part && let Some(why) = program::why_not(&command[0], cache) {
            told.command_took_no_part(&command[0], why);
        }
        explain.tell(&told);
    }
    Ok(status)
}

/// Starts the command. A script without a `#!` line is the shell's, as execvp(3) has it; posix_spawn(3) refuses it.
fn spawned(start: &mut Command) -> std::io::Result<Child> {
    start.spawn().or_else(|e| match e.raw_os_error() {
        Some(libc::ENOEXEC) => {
            // SAFETY: nothing is done; that there is something to do has the standard library fork.
            unsafe { start.pre_exec(|| Ok(())) }.spawn()
        }
        _ => Err(e),
    })
}

/// The service of the run's domain, if no other run serves it, until `ended`.
fn serve(run: &Run, cache: &Path, ended: &AtomicBool) {
    limit::as_error_in_this_thread();
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
            service.tend(run, cache);
        }
    }
    service.end(served);
}
