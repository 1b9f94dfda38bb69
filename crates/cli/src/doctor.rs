//! `byway doctor`: what this machine allows, and whether a program can take part, with the remedy where there is one.
//!
//! Invariant: nothing is started but the dynamic loader's own listing, and nothing is left behind but what the cache keeps.
//! Not here: how a program is looked at (program.rs), how a text is rewritten (rewrite/), what a run does with the
//! answers (run.rs).
use crate::library::{self, Renewed};
use crate::program::Is;
use crate::rewrite::{self, Object};
use crate::settings::Settings;
use crate::{config, domain, executable, limit, prepare, program};
use clap::Command;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Prints one line a finding, `run` having the options of a run; 1 if one of them keeps Byway from carrying, 2 if the program cannot be found.
pub fn doctor(command: Option<&OsStr>, run: &Command) -> i32 {
    match command {
        Some(c) => program(c, run),
        None => {
            let found = machine();
            found.lines.iter().for_each(|line| println!("{line}"));
            i32::from(found.bad)
        }
    }
}

/// What the machine allows, a line each.
#[derive(Default)]
pub struct Findings {
    pub lines: Vec<String>,
    bad: bool,
}

impl Findings {
    fn say(&mut self, ok: bool, text: &str) {
        self.bad |= !ok;
        let mark = if ok { "ok" } else { "no" };
        self.lines.push(format!("{mark}  {text}"));
    }
}

/// Looks at the machine, as a run would.
pub fn machine() -> Findings {
    let mut f = Findings::default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut parts = kernel
        .split(['.', '-'])
        .map(|p| p.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    f.say(
        version >= (5, 14),
        &format!(
            "kernel {} (5.14 or later is needed: MADV_POPULATE_WRITE)",
            kernel.trim()
        ),
    );
    f.say(true, &byway_lab::machine::libc_version());
    for path in rewrite::own_objects() {
        let (ok, text) = object(&path);
        f.say(ok, &format!("rewriting {}: {text}", path.display()));
    }
    f.say(true, &format!("restartable sequences: {}", rseq()));
    shared_memory(&mut f);
    pipe_sizes(&mut f);
    f.say(
        true,
        &format!(
            "process_vm_readv: {} (for writes that are copied once)",
            vm_readv()
        ),
    );
    cpus(&mut f);
    // Before the run's preparation, which mends those of its own objects.
    if let Ok(cache) = prepare::usable_cache() {
        verified(&cache, &mut f);
    }
    match limit::as_error(|| prepare::prepare(&Settings::default())) {
        Ok((_, cache, _)) => f.say(true, &format!("cache {}", cache.display())),
        Err(why) => f.say(false, why.text()),
    }
    f
}

/// Whether there is room for the memory of a run.
fn shared_memory(f: &mut Findings) {
    let folder = domain::folder();
    match room(folder.parent().unwrap_or(Path::new("/"))) {
        Some((mib, _)) => f.say(
            mib >= 2,
            &format!(
                "shared memory {}: {mib} MiB free; 1 MiB a run and up to 0.5 MiB a busy pipe are needed{}",
                folder.display(),
                if mib < 2 { "; set BYWAY_SHM to a folder of yours on a larger tmpfs" } else { "" }
            ),
        ),
        None => f.say(
            false,
            &format!("shared memory {}: not there; set BYWAY_SHM to a folder of yours", folder.display()),
        ),
    }
}

/// Whether a pipe of the kernel can be made as large as a ring.
fn pipe_sizes(f: &mut Findings) {
    let max: u64 = fs::read_to_string("/proc/sys/fs/pipe-max-size")
        .ok()
        .and_then(|s| s.trim().parse().ok())
        .unwrap_or(0);
    f.say(
        max >= 1 << 20,
        &format!(
            "pipe-max-size {} KiB (1024 are needed, so that a full ring fits back into the pipe{})",
            max >> 10,
            if max < 1 << 20 {
                "; as root: sysctl fs.pipe-max-size=1048576"
            } else {
                ""
            }
        ),
    );
}

/// How many CPUs this process may use, and the time of how many.
fn cpus(f: &mut Findings) {
    let (cpus, time) = (
        byway_sys::process::allowed_cpus(),
        byway_folder::quota::cpus(),
    );
    let how = match (cpus, time) {
        (1, _) => ": no spinning".into(),
        (_, 1) => "s, and the time of one (its control group's limit): no spinning".into(),
        _ if time < cpus => format!("s, and the time of {time} (its control group's limit)"),
        _ => "s".into(),
    };
    f.say(true, &format!("{cpus} CPU{how}"));
}

/// Looks at every file of the cache.
fn verified(cache: &Path, f: &mut Findings) {
    let v = rewrite::verify(cache);
    let mut text = format!("cached texts: {} files whole", v.whole);
    if v.removed > 0 {
        text += &format!(", {} damaged and removed", v.removed);
    }
    if v.stuck > 0 {
        let dir = cache.display();
        text += &format!(
            ", {} damaged or unreadable; remove what is in {dir}",
            v.stuck
        );
    }
    f.say(v.stuck == 0, &text);
    let (ok, text) = match library::renew(cache) {
        Renewed::Whole => (true, "whole".into()),
        Renewed::Absent => (
            true,
            "not in the cache: installed, not unpacked yet, or in memory".into(),
        ),
        Renewed::Mended => (true, "damaged in the cache, and made anew".into()),
        Renewed::Stuck(e) => (false, format!("damaged in the cache, and stays so: {e}")),
    };
    f.say(ok, &format!("preload library: {text}"));
}

/// Whether an object can be part of a process that takes part, and why.
fn object(path: &Path) -> (bool, String) {
    match fs::read(path).map(|bytes| rewrite::verdict(&bytes)) {
        Ok(Object::Clean(_)) => (true, "no system call of interest".into()),
        Ok(Object::Shadow(_, n)) => (true, format!("{n} sites")),
        Ok(Object::Unable(why)) => (false, why),
        Err(e) => (false, e.to_string()),
    }
}

fn rseq() -> &'static str {
    // The kernel refuses a length of 0 with EINVAL where it knows the call, ENOSYS where not.
    // SAFETY: no memory is registered.
    let r = unsafe { libc::syscall(libc::SYS_rseq, 0, 0, 0, 0) };
    if r < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
        "not in this kernel; the allocator takes a lock instead"
    } else if byway_sys::rseq::area().is_none() {
        "known to the kernel, not registered by the C library (before 2.35, or switched off); a lock instead"
    } else {
        "registered"
    }
}

fn vm_readv() -> &'static str {
    let (from, mut to) = (1u8, 0u8);
    let l = libc::iovec {
        iov_base: (&raw mut to).cast(),
        iov_len: 1,
    };
    let r = libc::iovec {
        iov_base: (&raw const from).cast_mut().cast(),
        iov_len: 1,
    };
    // SAFETY: one byte between two variables of ours.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &l, 1, &r, 1, 0) };
    if n == 1 && to == from {
        "allowed"
    } else {
        "forbidden"
    }
}

/// MiB that can still be written under `dir`, and of all.
pub fn room(dir: &Path) -> Option<(u64, u64)> {
    let c = CString::new(dir.as_os_str().as_bytes()).ok()?;
    // SAFETY: fills a struct of ours.
    unsafe {
        let mut s: libc::statvfs = std::mem::zeroed();
        if libc::statvfs(c.as_ptr(), &mut s) < 0 {
            return None;
        }
        let mib = |blocks| (blocks * s.f_frsize) >> 20;
        Some((mib(s.f_bavail), mib(s.f_blocks)))
    }
}

/// The set-up as a run makes it, then the program.
fn program(name: &OsStr, words: &Command) -> i32 {
    if executable::find(name).is_none() {
        eprintln!(
            "byway: doctor: {} is not in PATH; give its path",
            name.to_string_lossy()
        );
        return 2;
    }
    let run = limit::as_error(|| prepare::prepare(&Settings::default()));
    let cache = match run {
        Ok((_, cache, _)) => cache,
        Err(why) => {
            println!("no  {}", why.text());
            return 1;
        }
    };
    let found = program::look(name, &cache).unwrap_or_default();
    for f in &found.0 {
        let mark = match f.is {
            Is::Fine => "ok",
            Is::Against => "no",
            Is::Open => "??",
        };
        println!("{mark}  {}", f.text);
    }
    let left = match config::leaves(words, &executable::names(name)) {
        Ok(left) => left,
        Err(why) => {
            eprintln!("byway: {why}");
            return 2;
        }
    };
    if let Some(by) = &left {
        println!("no  {}: left alone by a setting, {by}", name.display());
    }
    let against = left.is_some() || found.any(Is::Against);
    println!(
        "{}",
        match (against, found.any(Is::Open)) {
            (true, _) => "no  it cannot take part: its pipes stay the kernel's",
            (false, true) =>
                "ok  it can take part when it starts; `byway run --explain -- CMD` tells the rest",
            (false, false) => "ok  it can take part",
        }
    );
    i32::from(against)
}
