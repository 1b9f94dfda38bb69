//! The runs that share a domain: who they are, who serves it.
//!
//! Invariant: one of the runs of a domain serves it: the one that `creator` names. Joining and leaving happen under a lock on the folder.
//! Not here: what serving means (service.rs), how long the file stays (crate folder, runs.rs).
use byway_folder::runs;
use byway_mem::domain::Domain;
use byway_mem::layout::{MEMBERS, flags};
use byway_sys::process;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{AcqRel, Relaxed};

/// The domain in the file `path`.
pub fn open(path: &Path) -> Option<Domain> {
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.push(0);
    Domain::join(&name).ok()
}

/// Whether the process ids in `d` mean what they mean to this process.
pub fn same_space(d: &Domain) -> bool {
    d.header().pid_space.load(Relaxed) == process::pid_space()
}

/// The runs of a domain that live.
pub fn alive(d: &Domain) -> Vec<u32> {
    let all = d.header().members.iter().map(|m| m.load(Relaxed));
    all.filter(|&m| m != 0 && !process::is_gone(m)).collect()
}

/// Enters run `pid`; false if there is no room. Under the folder's lock.
pub fn enter(d: &Domain, pid: u32) -> bool {
    let m = &d.header().members;
    for i in 0..MEMBERS {
        let old = m[i].load(Relaxed);
        if old == 0 || old == pid || process::is_gone(old) {
            d.header().explains.fetch_and(!(1 << i), Relaxed);
            m[i].store(pid, Relaxed);
            return true;
        }
    }
    false
}

/// Takes run `pid` out. Under the folder's lock.
pub fn leave(d: &Domain, pid: u32) {
    let h = d.header();
    h.explains.fetch_and(!d.member_bit(pid), Relaxed);
    for m in &h.members {
        let _ = m.compare_exchange(pid, 0, Relaxed, Relaxed);
    }
    if let Some(&next) = alive(d).first() {
        // ORDER: what was done as the one who serves comes before the next one does it.
        let _ = h.creator.compare_exchange(pid, next, AcqRel, Relaxed);
        d.call_service();
    }
}

/// Who serves a domain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Serves {
    /// Another run, which lives.
    Another,
    /// This one, as before.
    Still,
    /// This one, from now on: the one before has ended, or was killed.
    Now,
}

/// Whether this process serves the domain; it takes over from one that is gone.
pub fn serves(d: &Domain, served: bool) -> Serves {
    let me = std::process::id();
    let c = &d.header().creator;
    let now = c.load(Relaxed);
    let mine = now == me
        || (process::is_gone(now)
            // ORDER: as in `leave`.
            && c.compare_exchange(now, me, AcqRel, Relaxed).is_ok());
    match (mine, served) {
        (false, _) => Serves::Another,
        (true, true) => Serves::Still,
        (true, false) => Serves::Now,
    }
}

/// A domain in `dir` that a run with this cache and these CPUs may share, entered; and its file, which this process has. Under the folder's
/// lock.
pub fn shared(dir: &Path, cache: &Path, cpus: u32) -> Option<(PathBuf, File, Domain)> {
    runs::files(dir).into_iter().find_map(|path| {
        let file = runs::have(&path).ok()?;
        let d = open(&path)?;
        let h = d.header();
        // SAFETY: copied out byte by byte; a peer may change it meanwhile, and then it is another name.
        let theirs: Vec<u8> = (0..h.cache_dir.len())
            .map(|k| unsafe { h.cache_dir.as_ptr().add(k).read_volatile() })
            .take_while(|&c| c != 0)
            .collect();
        // What the machine forbids.
        let of_machine = flags::NO_FIFO | flags::NO_UNIX | flags::NO_TCP | flags::NO_UDP;
        let fits = h.flags.load(Relaxed) & !of_machine == flags::SHARED
            && h.cpus.load(Relaxed) == cpus
            && same_space(&d)
            && theirs == cache.as_os_str().as_bytes();
        (fits && enter(&d, std::process::id())).then_some((path, file, d))
    })
}
