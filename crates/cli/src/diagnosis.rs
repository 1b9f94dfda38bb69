//! `byway doctor --report`: one text to send with a bug report: the program, the machine, its limits, the settings, the
//! cache, the live runs, each value with what it means.
//!
//! Invariant: nothing private is in it: no environment but what this program reads, no command, no content of a file, no
//! name of a folder in the user's home but as `~`. A value that the machine does not tell is `-`.
//! Not here: what the machine allows (doctor.rs), the settings (config.rs); their findings are taken over.
use crate::settings::environment;
use crate::{cached, config, doctor, domain, library, stat};
use byway_lab::machine;
use byway_mem::layout::{SLAB_BYTES, flags};
use byway_mem::registry;
use clap::Command;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

/// Columns of a value's name, and of name and value where the explanation stands behind them.
const NAME: usize = 20;
const VALUE: usize = 52;

/// The text, as it grows.
#[derive(Default)]
struct Text(Vec<String>);

impl Text {
    fn section(&mut self, name: &str, about: &str) {
        self.0.push(format!("\n[{name}]  # {about}"));
    }

    /// A value, and what it means.
    fn say(&mut self, name: &str, value: &str, about: &str) {
        let value = match value.trim() {
            "" => "-".into(),
            value => value.split_whitespace().collect::<Vec<_>>().join(" "),
        };
        let line = format!("{name:NAME$}{value}");
        match line.chars().count() < VALUE {
            true => self.0.push(format!("{line:VALUE$}# {about}")),
            false => self.0.extend([line, format!("{:VALUE$}# {about}", "")]),
        }
    }

    /// What a file of the kernel's says.
    fn file(&mut self, name: &str, path: &str, about: &str) {
        self.say(name, &read(path), about);
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Prints the report; `run` has the options whose values it shows.
pub fn print(run: &Command) -> i32 {
    let mut t = Text::default();
    t.0.push(
        "# byway doctor --report: send this text with a bug report, and what you ran and saw."
            .into(),
    );
    t.0.push("# No environment, no commands and no files are in it; your home folder is ~. Read it first.".into());
    program(&mut t);
    machine_and_system(&mut t);
    limits(&mut t);
    t.section("findings", "what `byway doctor` says; `no` is in the way");
    t.0.extend(doctor::machine().lines);
    settings(&mut t, run);
    cache(&mut t);
    runs(&mut t);
    println!("{}", without_home(&t.0.join("\n"), &homes()));
    0
}

fn program(t: &mut Text) {
    t.section("program", "what runs");
    t.say("version", env!("CARGO_PKG_VERSION"), "of byway");
    t.say(
        "build",
        env!("BYWAY_BUILD"),
        "profile, target and compiler that it was built with",
    );
    let number = library::NAME.split('-').next().unwrap_or("");
    t.say("library", number, "hash of the preload library in it");
    let exe = std::env::current_exe().map_or(String::new(), |p| p.display().to_string());
    t.say("file", &exe, "where the program is");
    let at = library::at(&environment::cache_folder());
    let at = at.map_or(String::new(), |p| p.display().to_string());
    t.say("library file", &at, "where runs load it from; -: in memory");
}

fn machine_and_system(t: &mut Text) {
    let m = machine::this();
    t.section("machine", "what it runs on");
    t.say("kernel", &m.kernel, "release");
    t.file(
        "kernel build",
        "/proc/sys/kernel/version",
        "what was built, and when",
    );
    let name = read("/etc/os-release");
    let name = name.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="));
    let name = name.unwrap_or("").trim_matches('"');
    t.say("system", name, "the distribution");
    t.say("C library", &m.libc, "of this program; others may differ");
    t.say("CPU", &m.cpu, "as /proc/cpuinfo names it");
    let time = byway_folder::quota::cpus();
    t.say(
        "CPUs",
        &format!("{}, time of {time}", m.cpus),
        "usable, and by the control group's limit",
    );
    t.say("memory", &format!("{} MiB", m.memory_mib), "of the machine");
    t.say("container", &container(), "by the files that engines leave");
}

/// Which engine's mark is there.
fn container() -> String {
    let marks = [
        ("/.dockerenv", "docker"),
        ("/run/.containerenv", "podman"),
        ("/.flatpak-info", "flatpak"),
    ];
    let found: Vec<_> = marks
        .iter()
        .filter(|(mark, _)| Path::new(mark).exists())
        .map(|(_, name)| *name)
        .collect();
    match found.is_empty() {
        true => read("/run/systemd/container"),
        false => found.join(" "),
    }
}

fn limits(t: &mut Text) {
    t.section(
        "limits",
        "what may keep pipes from being carried, or make it slow",
    );
    t.file(
        "yama",
        "/proc/sys/kernel/yama/ptrace_scope",
        "not 0: UNIX sockets are left to the kernel; -: no Yama",
    );
    t.file("LSMs", "/sys/kernel/security/lsm", "security modules");
    let label = read("/proc/self/attr/current");
    let label = label.trim_end_matches('\0');
    t.say("label", label, "this process's, by AppArmor or SELinux");
    for (field, name, about) in [
        (
            "Seccomp:",
            "seccomp",
            "2: system calls are filtered: no biased locks, and sockets with names are the kernel's",
        ),
        (
            "NoNewPrivs:",
            "no new privileges",
            "1: setuid programs stay without their rights",
        ),
    ] {
        t.say(name, &status(field), about);
    }
    let shm = domain::folder();
    t.say("shared memory", &mount(&shm), "file system and its options");
    t.say("shared memory room", &room(&shm), "MiB free of all");
    for (name, path, about) in [
        (
            "pipe size",
            "/proc/sys/fs/pipe-max-size",
            "bytes a pipe may hold: 1048576 are needed",
        ),
        (
            "pipe pages",
            "/proc/sys/fs/pipe-user-pages-soft",
            "pages that all of a user's pipes may hold",
        ),
        (
            "inotify watches",
            "/proc/sys/fs/inotify/max_user_watches",
            "a user's; each FIFO takes one",
        ),
        (
            "memfd noexec",
            "/proc/sys/vm/memfd_noexec",
            "2: the library cannot be in memory; -: no such limit",
        ),
    ] {
        t.file(name, path, about);
    }
    let rseq = byway_sys::rseq::area().map_or("not registered", |_| "registered");
    t.say("rseq", rseq, "restartable sequences; else locks, slower");
    let tunables = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    t.say(
        "tunables",
        &tunables,
        "GLIBC_TUNABLES, which may switch rseq off",
    );
    for (name, limit, about) in [
        ("limit: files", "Max open files", "ulimit -n, soft and hard"),
        ("limit: file size", "Max file size", "ulimit -f"),
        (
            "limit: memory",
            "Max address space",
            "ulimit -v: if set, nothing is carried",
        ),
        ("limit: processes", "Max processes", "ulimit -u"),
    ] {
        t.say(name, &ulimit(limit), about);
    }
    let group = group();
    t.say(
        "control groups",
        if group.is_some() { "version 2" } else { "" },
        "-: version 1, or none",
    );
    for (name, about) in [
        ("cpu.max", "microseconds of CPU time in each period"),
        (
            "memory.max",
            "bytes; a run needs 1 MiB and up to 0.5 MiB a busy pipe",
        ),
        ("pids.max", "processes and threads; a run adds 4"),
    ] {
        let value = group.as_ref().map_or(String::new(), |g| read(g.join(name)));
        t.say(name, &value, about);
    }
    let others = std::env::var("LD_PRELOAD").unwrap_or_default();
    let others: Vec<_> = others
        .split([':', ' '])
        .filter_map(|p| Path::new(p).file_name()?.to_str())
        .collect();
    t.say(
        "other libraries",
        &others.join(" "),
        "in LD_PRELOAD: file names",
    );
}

/// A field of /proc/self/status.
fn status(field: &str) -> String {
    let text = read("/proc/self/status");
    let value = text.lines().find_map(|l| l.strip_prefix(field));
    value.unwrap_or("").into()
}

/// A line of /proc/self/limits, without its name and unit.
fn ulimit(name: &str) -> String {
    let text = read("/proc/self/limits");
    let value = text.lines().find_map(|l| l.strip_prefix(name));
    let words = value.unwrap_or("").split_whitespace().take(2);
    words.collect::<Vec<_>>().join(" ")
}

/// This process's control group of version 2. Its name stays out of the text: it may be a user's or a customer's.
fn group() -> Option<PathBuf> {
    let own = read("/proc/self/cgroup");
    let path = own.lines().find_map(|l| l.strip_prefix("0::/"))?;
    // LINUX cgroups(7): beside version 1 it is mounted below.
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let mut groups = roots.iter().map(|root| Path::new(root).join(path));
    groups.find(|group| group.join("cgroup.procs").is_file())
}

/// The file system that `path` is on, or will be, and how it is mounted.
fn mount(path: &Path) -> String {
    let there = path.ancestors().find_map(|p| fs::canonicalize(p).ok());
    let (table, there) = (read("/proc/self/mountinfo"), there.unwrap_or_default());
    let of = |line: &str| {
        // LINUX proc_pid_mountinfo(5).
        let (mount, system) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(4);
        let (point, options) = (fields.next()?, fields.next()?);
        let is_above = there.starts_with(point);
        let kind = system.split(' ').next()?;
        is_above.then(|| (point.len(), format!("{kind} {options}")))
    };
    // Of two mounts at one place the later one is seen.
    let found = table.lines().filter_map(of).max_by_key(|(n, _)| *n);
    found.map_or(String::new(), |(_, text)| text)
}

/// MiB that are free, of all, where `path` is or will be.
fn room(path: &Path) -> String {
    let there = path.ancestors().find(|p| p.exists());
    let room = there.and_then(doctor::room);
    room.map_or(String::new(), |(free, all)| format!("{free} of {all}"))
}

fn settings(t: &mut Text, run: &Command) {
    t.section(
        "settings",
        "of `byway run` without options, each with its source",
    );
    match config::all(run) {
        Err(why) => t.say("error", &why, "byway run ends with it"),
        Ok(all) => {
            for s in &all.settings {
                t.say(
                    &s.name,
                    s.value.as_deref().unwrap_or(""),
                    &format!("from {}", s.from),
                );
            }
            for f in &all.files {
                t.say("file", &f.path, &f.state);
            }
        }
    }
}

fn cache(t: &mut Text) {
    t.section("cache", "rewritten texts, and the preload library");
    let dir = environment::cache_folder();
    t.say("file system", &mount(&dir), "and its options");
    t.say("room", &room(&dir), "MiB free of all");
    let (texts, bytes, libraries) = cached::count(&dir);
    t.say("texts", &texts.to_string(), "rewritten objects");
    t.say("size", &format!("{} KiB", bytes >> 10), "of these texts");
    t.say(
        "libraries",
        &libraries.to_string(),
        "one a version of byway",
    );
}

fn runs(t: &mut Text) {
    let domains = stat::runs(None);
    t.section("runs", "live ones of this user");
    t.say(
        "groups",
        &domains.len().to_string(),
        "of runs that share memory",
    );
    for (runs, d) in &domains {
        let h = d.header();
        let (is_shared, pids) = (h.flags.load(Relaxed) & flags::SHARED != 0, runs.len());
        let taken = (h.slabs_used.load(Relaxed) as usize * SLAB_BYTES) >> 10;
        t.say(
            if is_shared { "shared" } else { "private" },
            &format!(
                "{pids} runs, {} pipes, {taken} of {} KiB",
                registry::slots(*d).count(),
                (d.slabs() * SLAB_BYTES) >> 10
            ),
            "pipes, FIFOs and directions of sockets; memory taken",
        );
    }
}

/// The user's home folders, as the environment and as links have them.
fn homes() -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let real = fs::canonicalize(&home).map_or(String::new(), |p| p.display().to_string());
    let mut homes = vec![home.trim_end_matches('/').to_owned(), real];
    // As much of `/` would be left as of nothing.
    homes.retain(|h| h.len() > 1 && h.starts_with('/'));
    homes.sort_by_key(|h| std::cmp::Reverse(h.len()));
    homes
}

/// `text` with `~` for each of `homes`, where one is a whole folder's name.
fn without_home(text: &str, homes: &[String]) -> String {
    let mut text = text.to_owned();
    for home in homes {
        let parts: Vec<_> = text.split(home.as_str()).collect();
        let mut new = parts[0].to_owned();
        for part in &parts[1..] {
            let goes_on = part.starts_with(|c: char| c.is_alphanumeric() || "-_.".contains(c));
            new += if goes_on { home } else { "~" };
            new += part;
        }
        text = new;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_not_told() {
        let homes = ["/home/ann".to_owned()];
        let text =
            "x /home/ann/.cache /home/anna /home/ann-2 /home/ann: /data/home/annex\n/home/ann";
        assert_eq!(
            without_home(text, &homes),
            "x ~/.cache /home/anna /home/ann-2 ~: /data/home/annex\n~"
        );
    }

    #[test]
    fn every_value_is_explained() {
        let mut t = Text::default();
        t.say("short", " a\tb ", "what it is");
        t.say("none", "", "what it is");
        t.say("long", &"x".repeat(60), "what it is");
        assert_eq!(
            t.0[0],
            format!("{:52}# what it is", "short               a b")
        );
        assert_eq!(
            t.0[1],
            format!("{:52}# what it is", "none                -")
        );
        assert_eq!(t.0[3], format!("{:52}# what it is", ""));
    }

    #[test]
    fn the_mount_is_the_one_below() {
        assert!(mount(Path::new("/proc/self")).starts_with("proc "));
        assert_eq!(
            mount(Path::new("/proc/none/at/all")),
            mount(Path::new("/proc"))
        );
    }
}
