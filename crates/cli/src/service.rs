//! What a run does for its domain while the command runs: answers questions, gives back memory, brings home what the dead
//! held, frees the slots of pipes that are gone.
//!
//! Invariant: everything here can also be left undone: a domain without its service works, and only keeps more memory.
//! Not here: making and removing the domain (domain.rs).
use crate::caller::{me, reach, user};
use crate::domain::Run;
use crate::fifo::Fifos;
use crate::{holders, library};
use byway_folder::descriptors;
use byway_mem::cache::User;
use byway_mem::layout::Class;
use byway_mem::reclaim::{self, Band};
use byway_mem::{group, participants, registry, sweep};
use byway_pipe::channel::Channel;
use byway_pipe::peer;
use byway_pipe::{clusters, spiller};
use byway_sys::process;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Of a turn; requests in between do not make them more.
const TURN: Duration = Duration::from_millis(150);
/// Collecting asks the kernel about every descriptor of the user's processes: not more often than this.
const COLLECT: Duration = Duration::from_secs(1);

/// What the service remembers from one turn to the next.
pub struct Service {
    /// Of each slot, the tail and the head word at the last turn: a channel that has moved since is not at rest.
    seen: Vec<(u64, u64)>,
    deaths: u32,
    fifos: Arc<Fifos>,
    collected: Instant,
    tended: Instant,
    /// Whether the cache's files of libc and the loader were read in full.
    renewed: bool,
}

impl Service {
    pub fn new(run: &Run) -> Service {
        Service {
            seen: Vec::new(),
            deaths: 0,
            fifos: Fifos::new(run.domain, run.path()),
            collected: Instant::now(),
            tended: Instant::now(),
            renewed: false,
        }
    }

    /// Takes over from a run that has ended: nobody has seen the opens of FIFOs since then.
    pub fn begin(&self) {
        self.fifos.begin();
    }

    /// The end of the service: opens of FIFOs are not seen from now on.
    pub fn end(&self, served: bool) {
        if served {
            self.fifos.end();
        }
    }

    /// Five times a second: memory of channels at rest, free memory over the watermark, what the dead held.
    pub fn tend(&mut self, run: &Run, cache: &Path) {
        let d = run.domain;
        self.fifos.answers();
        self.fifos.prove();
        if self.tended.elapsed() < TURN {
            return;
        }
        if !std::mem::replace(&mut self.renewed, true) {
            // What every program maps. A short run does not take the time.
            for object in crate::rewrite::own_objects() {
                let _ = crate::rewrite::renew(cache, &object);
            }
            library::renew(cache);
        }
        if d.header().slabs_used.load(Ordering::Relaxed) == 0 {
            return;
        }
        self.tended = Instant::now();
        self.fifos.stir();
        let u = user(d);
        let me = me(&u);
        group::look(&d);
        let tight = reclaim::band(&d) == Band::Shrink;
        self.seen.resize(d.channels_made(), (0, 0));
        for (i, seen) in self.seen.iter_mut().enumerate() {
            if let (Some(_), Some(ch)) = (registry::inode(d, i), Channel::at(d, i)) {
                let now = (ch.tail().0, ch.head().0);
                if tight || *seen == now {
                    clusters::trim(&me, &u, ch);
                }
                *seen = (ch.tail().0, ch.head().0);
            }
        }
        reclaim::tend(&u);
        let h = d.header();
        let deaths = h.death_epoch.load(Ordering::Relaxed);
        if deaths != self.deaths && self.collected.elapsed() > COLLECT {
            self.deaths = deaths;
            self.collected = Instant::now();
            // A pipe that nobody holds any more keeps what nobody read.
            let mut clusters = 0;
            reach(d, &mut |_| clusters += 1);
            if clusters * Class::Jumbo.bytes() > (h.low_kib.load(Ordering::Relaxed) as usize) << 10
            {
                run.collect();
            }
            sweep::sweep(&u, |f| reach(d, f));
        }
    }
}

impl Run {
    /// Answers one request for verdicts, if there is one, and collects if somebody ran short.
    pub fn serve(&self, cache: &Path) {
        let h = self.domain.header();
        // ORDER: the request's words were written before its number.
        let wanted = h.scan_wanted.load(Ordering::Acquire);
        if wanted != h.scan_done.load(Ordering::Relaxed) {
            let pid = h.scan_pid.swap(0, Ordering::Relaxed);
            let objects = match h.scan_fd.load(Ordering::Relaxed) {
                _ if pid == 0 => Vec::new(),
                0 => mapped_code(pid),
                fd => vec![format!("/proc/{pid}/fd/{}", fd - 1).into()],
            };
            look_at(cache, &objects);
            // ORDER: the cache files before the answer.
            h.scan_done.store(wanted, Ordering::Release);
        }
        if h.collect.swap(0, Ordering::Relaxed) != 0 {
            self.collect();
            sweep::sweep(&user(self.domain), |f| reach(self.domain, f));
        }
    }

    /// Sleeps until somebody asks, `done` is called, or a fifth of a second has passed (a request may be a collection);
    /// for a moment only if a FIFO is to be looked at again.
    pub fn rest(&self, serves: bool) {
        let h = self.domain.header();
        // A run that does not serve is not to wake for each question.
        let seen = if serves {
            h.scan_done.load(Ordering::Relaxed)
        } else {
            h.scan_wanted.load(Ordering::Relaxed)
        };
        let births = [&h.birth_wanted, &h.birth_done].map(|w| w.load(Ordering::Relaxed));
        if serves && (births[0] != births[1] || h.drain.load(Ordering::Relaxed) != 0) {
            return;
        }
        let waiting = serves && h.prove.load(Ordering::Relaxed) != 0;
        let t = libc::timespec {
            tv_sec: 0,
            tv_nsec: if waiting { 5_000_000 } else { 200_000_000 },
        };
        // SAFETY: FUTEX_WAIT on a word of the mapping.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                h.scan_wanted.as_ptr(),
                libc::FUTEX_WAIT,
                seen,
                &t,
            )
        };
    }

    /// Ends a `rest`.
    pub fn done(&self) {
        let h = self.domain.header();
        h.scan_wanted.fetch_add(1, Ordering::Relaxed);
        self.domain.call_service();
    }

    /// Frees the slots of pipes that no process of this user holds any more; none while one that takes part does not show what it
    /// holds.
    fn collect(&self) {
        let before: Vec<(usize, (u64, u64))> = registry::slots(self.domain)
            .filter_map(|i| registry::object(self.domain, i).map(|key| (i, key)))
            .collect();
        let held = descriptors::pipes();
        if participants::all(&self.domain).any(descriptors::are_hidden) {
            return;
        }
        let u = user(self.domain);
        let mut fifos = Vec::new();
        for (i, key) in before {
            let ch = Channel::at(self.domain, i);
            // A spiller may hide what it holds, as its maker did.
            let reads = |ch: &Channel| ch.is_socket() && held.contains(&(key.0, ch.reading_end()));
            if held.contains(&key)
                || ch.is_some_and(|ch| spiller::is_at_work(ch.tail()) || reads(ch))
            {
                continue;
            }
            if ch.is_some_and(Channel::is_fifo) {
                fifos.push((i, key));
            } else {
                self.free(i, key, &u);
            }
        }
        if fifos.is_empty() {
            return;
        }
        // Nobody may come in between: they are looked for again while nobody can enter or find one. One look for all of
        // them: others wait for its end.
        registry::alone(&self.domain, u.who.tid, || {
            let keys: Vec<_> = fifos.iter().map(|f| f.1).collect();
            let held = holders::of(&keys, |_| true);
            fifos.retain(|f| held.iter().all(|h| h.key != f.1));
            for (i, key) in fifos {
                self.free(i, key, &u);
            }
        });
    }

    /// Frees slot `i`, if it is still that of the same pipe.
    fn free(&self, i: usize, key: (u64, u64), u: &User) {
        if registry::object(self.domain, i) == Some(key)
            && !self.is_kept(i)
            && let Some(ch) = Channel::at(self.domain, i)
        {
            let told = self.own(i);
            peer::ends(ch);
            clusters::give(u, ch);
            clusters::release(self.domain, ch);
            registry::release(self.domain, i);
            if let Some(told) = told
                && let Ok(mut gone) = self.gone.lock()
                && gone.len() < 100_000
            {
                gone.push(told);
            }
            if let Ok(mut before) = self.before.lock() {
                before.remove(&key);
            }
        }
    }
}

/// The files that process `pid` has mapped as code, as /proc shows them to this user; the preload library is not asked about.
fn mapped_code(pid: u32) -> Vec<PathBuf> {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let mut files: Vec<PathBuf> = maps
        .split(|&c| c == b'\n')
        .filter_map(|line| {
            let path = line.iter().position(|&c| c == b'/')?;
            let mode = line.split(|&c| c == b' ').nth(1)?;
            let wanted = mode.get(2) == Some(&b'x') && !library::is_mapped_by(line);
            wanted.then(|| OsStr::from_bytes(&line[path..]).into())
        })
        .collect();
    files.sort();
    files.dedup();
    files
}

/// Sees to it that the cache has an answer for each of `objects`, on as many CPUs as there are.
fn look_at(cache: &Path, objects: &[PathBuf]) {
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(path) = objects.get(next.fetch_add(1, Ordering::Relaxed)) {
            let _ = crate::rewrite::ensure(cache, path);
        }
    };
    let more = objects
        .len()
        .min(process::allowed_cpus() as usize)
        .saturating_sub(1);
    std::thread::scope(|s| {
        for _ in 0..more {
            // Without room for one the others do its part.
            let _ = std::thread::Builder::new().spawn_scoped(s, work);
        }
        work();
    });
}
