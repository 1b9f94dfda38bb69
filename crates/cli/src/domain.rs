//! A run's domain, from the side that makes it: create, describe, remove.
//!
//! Invariant: the file is 0600 in a 0700 folder of this user, and is gone when the last run's value is dropped; a
//! domain whose runs were killed is removed by the next run.
//! Not here: the layout (crate mem), the file's name and life (crate folder, runs.rs), who shares it (members.rs), the work while the
//! command runs (service.rs).
use crate::account::{Counts, Entry};
use crate::caller::user;
use crate::members;
use crate::settings::{Settings, environment};
pub use byway_folder::{folder, usable};
use byway_folder::{native, quota, runs};
use byway_mem::domain::Domain;
use byway_mem::layout::{CHANNELS_MOST, Geometry, MAGIC, MEMBERS, flags};
use byway_mem::{group, reclaim, registry};
use byway_pipe::channel::Channel;
use byway_sys::process;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Threads of a run: `wait`, the service, one that hears of FIFOs that are opened, and one that looks who has them.
const THREADS: u32 = 4;

/// A domain that this process has.
pub struct Run {
    path: PathBuf,
    /// Locked: the file stays.
    file: File,
    is_maker: bool,
    pub(crate) domain: Domain,
    /// What is told of channels that were collected.
    pub(crate) gone: Mutex<Vec<Entry>>,
    /// Of FIFOs that were there before this run, what had gone through them.
    pub(crate) before: Mutex<HashMap<(u64, u64), Counts>>,
}

impl Run {
    /// Joins the domain that this user's runs share, or makes it; a new one for a run that wants something of its own.
    ///
    /// # Errors
    /// A sentence: what could not be made, and what to try.
    pub fn obtain(cache: &Path, settings: &Settings) -> Result<Run, String> {
        if !group::may_begin(Geometry::of(settings.memory.slabs())) {
            return Err("the memory control group has too little room; raise its limit".into());
        }
        if !quota::may_add(THREADS) {
            return Err("the control group allows too few processes; raise its pids.max".into());
        }
        let dir = folder();
        for _ in 0..5 {
            usable(&dir)?;
            // Another run may have ended, and removed the empty folder, in between.
            let Ok(lock) = byway_folder::hold(&dir) else {
                continue;
            };
            if !is_at(&lock, &dir) {
                continue;
            }
            runs::sweep(&dir);
            native::sweep(&dir);
            let cpus = quota::cpus();
            let found = if settings.is_private() {
                None
            } else {
                members::shared(&dir, cache, cpus)
            };
            let run = match found {
                Some((path, file, domain)) => Ok(Run {
                    path,
                    file,
                    is_maker: false,
                    domain,
                    gone: Mutex::default(),
                    before: Mutex::default(),
                }),
                None => Run::create(cache, cpus, settings),
            };
            drop(lock);
            return run.inspect(|run| runs::show_owner(&run.file));
        }
        Err(format!(
            "shared-memory folder {}: it vanishes",
            dir.display()
        ))
    }

    /// Makes a new domain, for runs that have the time of `cpus` CPUs. A limit of file sizes is an error here (limit.rs).
    fn create(cache: &Path, cpus: u32, settings: &Settings) -> Result<Run, String> {
        let geometry = Geometry::of(settings.memory.slabs());
        let dir = folder();
        let say = |e: std::io::Error| {
            format!(
                "{}: {e}; set BYWAY_SHM to a folder of yours on a tmpfs",
                dir.display()
            )
        };
        let (path, f) = runs::create(&dir).map_err(say)?;
        let domain = map(&f, geometry)
            .map_err(say)
            .and_then(|d| describe(d, cache, cpus, settings).map(|()| d))
            .inspect_err(|_| drop(fs::remove_file(&path)))?;
        let memory = &settings.memory;
        if memory.preallocate > 0 {
            reclaim::preallocate(&user(domain), (memory.preallocate as usize) << 20);
        }
        Ok(Run {
            path,
            file: f,
            is_maker: true,
            domain,
            gone: Mutex::default(),
            before: Mutex::default(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Whether this process made the domain.
    pub fn is_maker(&self) -> bool {
        self.is_maker
    }
    /// What the preload library is told: the file, and the run.
    pub fn name(&self) -> OsString {
        let mut n = self.path.as_os_str().to_owned();
        n.push(format!(":{}", std::process::id()));
        n
    }

    /// From here on the run's channels are kept for `account`. What FIFOs have carried until now is none of it.
    pub fn begin_account(&self) {
        let d = self.domain;
        let me = d.member_bit(std::process::id());
        d.header().explains.fetch_or(me, Ordering::Relaxed);
        if self.is_maker {
            return;
        }
        let Ok(mut before) = self.before.lock() else {
            return;
        };
        for i in registry::slots(d) {
            if let (Some(ch), Some(key)) = (Channel::at(d, i), registry::object(d, i))
                && ch.is_fifo()
            {
                ch.writer.0.runs.fetch_and(!me, Ordering::Relaxed);
                before.insert(key, Counts::of(ch));
            }
        }
    }

    /// What each of the run's channels has carried.
    pub fn account(&self) -> Vec<Entry> {
        let gone = self.gone.lock().map(|v| v.clone()).unwrap_or_default();
        let now = registry::slots(self.domain).filter_map(|i| self.own(i));
        gone.into_iter().chain(now).collect()
    }

    /// What the channel in slot `i` has carried, if it came into being in this run, or is a FIFO that this run has used.
    pub(crate) fn own(&self, i: usize) -> Option<Entry> {
        let d = self.domain;
        let key = registry::object(d, i)?;
        let ch = Channel::at(d, i)?;
        let me = std::process::id();
        let is_own = match ch.is_fifo() {
            true => ch.writer.0.runs.load(Ordering::Relaxed) & d.member_bit(me) != 0,
            false => ch.facts.0.run.load(Ordering::Relaxed) == me,
        };
        let before = self.before.lock().ok()?.get(&key).copied();
        is_own.then(|| Entry::of(&d, ch, key.1, before.unwrap_or_default()))
    }

    /// Whether another run, which lives, will tell of the channel in slot `i` and has not yet.
    pub(crate) fn is_kept(&self, i: usize) -> bool {
        let d = self.domain;
        // Many more may be needed.
        if d.channels_made() > CHANNELS_MOST / 2 {
            return false;
        }
        let h = d.header();
        let Some(ch) = Channel::at(d, i) else {
            return false;
        };
        let users = match ch.is_fifo() {
            true => ch.writer.0.runs.load(Ordering::Relaxed),
            false => d.member_bit(ch.facts.0.run.load(Ordering::Relaxed)),
        };
        let others = !d.member_bit(std::process::id());
        let explaining = users & others & h.explains.load(Ordering::Relaxed);
        let is_alive = |k: usize| !process::is_gone(h.members[k].load(Ordering::Relaxed));
        (0..MEMBERS).any(|k| explaining >> k & 1 != 0 && is_alive(k))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let lock = self.path.parent().map(byway_folder::hold);
        members::leave(&self.domain, std::process::id());
        runs::leave(&self.file, &self.path);
        drop(lock);
        // Only an empty folder goes.
        if let Some(dir) = self.path.parent()
            && !environment::names_shm()
        {
            let _ = fs::remove_dir(dir);
        }
    }
}

/// Gives the new file `f` its size and maps it, as a domain that is not yet described.
fn map(f: &File, geometry: Geometry) -> std::io::Result<Domain> {
    f.set_len(geometry.bytes as u64)?;
    // The header and tables are touched by everybody: reserve them now, so that a full folder is an error here.
    let tables = geometry.reserved() as i64;
    // SAFETY: our own fd.
    let r = unsafe { libc::posix_fallocate(f.as_raw_fd(), 0, tables) };
    if r != 0 {
        return Err(std::io::Error::from_raw_os_error(r));
    }
    // SAFETY: a new shared mapping of the whole file; it stays for the life of the process.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            geometry.bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            f.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: mapped above.
    Ok(unsafe { Domain::over(base.cast(), geometry.slabs) })
}

/// Writes into the header of `domain`, which nobody else has yet, what the runs that share it read there.
fn describe(domain: Domain, cache: &Path, cpus: u32, settings: &Settings) -> Result<(), String> {
    domain.lay_out();
    domain.keep_out_of_cores();
    let h = domain.header();
    let dir = cache.as_os_str().as_bytes();
    if dir.len() >= h.cache_dir.len() {
        return Err("the cache folder's path is too long; set BYWAY_CACHE".into());
    }
    // SAFETY: nobody else has the file yet; the length was checked.
    unsafe {
        std::ptr::copy_nonoverlapping(dir.as_ptr(), h.cache_dir.as_ptr().cast_mut(), dir.len())
    };
    let relaxed = Ordering::Relaxed;
    let flags = match settings.is_private() {
        true => settings.forbidden(),
        false => flags::SHARED,
    };
    let sockets = if sockets_can_be_fetched() {
        0
    } else {
        flags::NO_UNIX | flags::NO_TCP | flags::NO_UDP
    };
    h.flags.store(flags | sockets, relaxed);
    members::enter(&domain, std::process::id());
    h.creator.store(std::process::id(), relaxed);
    h.cpus.store(cpus, relaxed);
    h.cycles_per_us.store(cycles_per_us(), relaxed);
    let (memory, pipes) = (&settings.memory, &settings.pipes);
    h.low_kib.store(memory.low() << 10, relaxed);
    h.high_kib.store(memory.high() << 10, relaxed);
    h.decay_ms.store(memory.decay, relaxed);
    h.pid_space.store(byway_sys::process::pid_space(), relaxed);
    h.ring_bytes.store(pipes.ring_bytes(), relaxed);
    h.holds.store(pipes.holds(), relaxed);
    h.direct_from.store(pipes.direct_from(), relaxed);
    h.may_promise.store(byway_folder::pipes::budget(), relaxed);
    // ORDER: the rest of the header before the mark that makes it a domain.
    h.magic.store(MAGIC, Ordering::Release);
    Ok(())
}

/// Whether a process may get another's socket, without which a reader could not hand one back (crate pipe, socket.rs).
///
/// LINUX pidfd_getfd(2); Yama (ptrace_scope) may allow it to ancestors only.
fn sockets_can_be_fetched() -> bool {
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    let is_free = matches!(scope.trim(), "" | "0");
    let Ok((end, _other)) = UnixStream::pair() else {
        return false;
    };
    let Some(id) = byway_sys::file::identity(end.as_raw_fd() as usize) else {
        return false;
    };
    let own = byway_sys::socket::fetch(std::process::id(), id.dev, id.ino);
    own.into_iter().for_each(byway_sys::file::close);
    is_free && own.is_some()
}

/// Whether `dir` still leads to the folder `held`.
fn is_at(held: &File, dir: &Path) -> bool {
    let of = |m: &fs::Metadata| (m.dev(), m.ino());
    matches!((held.metadata(), fs::metadata(dir)), (Ok(a), Ok(b)) if of(&a) == of(&b))
}

static START: OnceLock<(Instant, u64)> = OnceLock::new();

/// Begins to measure the cycle counter: called first thing, so that the program's own work fills the time.
pub fn start_clock() {
    START.get_or_init(|| (Instant::now(), byway_sys::clock::now()));
}

/// The cycle counter's rate since `start_clock`, over a tenth of a millisecond at least: an error under 1 %.
fn cycles_per_us() -> u32 {
    start_clock();
    let &(t, c) = START.get().expect("just set");
    while t.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
    let d = byway_sys::clock::now() - c;
    (d as u128 * 1000 / t.elapsed().as_nanos().max(1)) as u32
}
