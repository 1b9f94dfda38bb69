//! Who holds a FIFO? The answer that lets a run carry it, and the watch that takes it back.
//!
//! ```text
//! a hot FIFO --Asked--> watch its opens, then look at everybody's descriptors --all take part--> Known
//! somebody opens it --------------------------> look again --one takes no part--> Unknown, its bytes to the kernel
//! ```
//! Invariant: a FIFO is Known only while an inotify watch of it, older than the look, tells of every open(2). The event
//! of an open is there before that open returns. Until the service has acted, an opener finds the FIFO's bytes in their
//! order (docs/fifo.md). A process that /proc does not show stays unknown: another user's, or one that hides itself.
//! Not here: reading and writing (crate pipe), entering FIFOs (crate preload, fifo.rs).
use crate::caller::{me, user};
use crate::{holders, members};
use byway_mem::domain::Domain;
use byway_mem::layout::flags;
use byway_mem::{participants, registry};
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::reason::Reason;
use byway_pipe::{fifo, handback};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After a look that found an outsider the next one comes this much later, and twice as much after each that followed: a
/// process between fork or exec and its first step soon does take part.
const AGAIN: Duration = Duration::from_millis(5);
const MOST_DOUBLED: u32 = 7;
/// Bytes that nobody takes for so long are the kernel's: /proc may not show the process that waits for them.
const UNREAD: Duration = Duration::from_millis(200);

/// The FIFOs of a domain.
pub struct Fifos {
    domain: Domain,
    /// The file of the domain, which every participant has mapped.
    file: PathBuf,
    inotify: i32,
    state: Mutex<State>,
    /// Participants that were looked at: id and start.
    verified: Mutex<HashMap<u32, u64>>,
}

#[derive(Default)]
struct State {
    /// Watch -> slot and the object that it had.
    watches: HashMap<i32, (usize, (u64, u64))>,
    /// Slots that were looked at in vain: how often in a row, and when next.
    refused: HashMap<usize, (u32, Instant)>,
    /// Slots with unread bytes: the head word, and since when it is that.
    unread: HashMap<usize, (u64, Instant)>,
    watcher: bool,
}

impl State {
    fn refuse(&mut self, slot: usize) {
        let n = self.refused.get(&slot).map_or(0, |r| r.0);
        let next = Instant::now() + AGAIN * (1 << n.min(MOST_DOUBLED));
        self.refused.insert(slot, (n + 1, next));
    }
}

impl Fifos {
    pub fn new(domain: Domain, file: &Path) -> Arc<Fifos> {
        // SAFETY: no pointers.
        let inotify = unsafe { libc::inotify_init1(libc::IN_CLOEXEC) };
        Arc::new(Fifos {
            domain,
            file: file.to_owned(),
            inotify,
            state: Mutex::default(),
            verified: Mutex::default(),
        })
    }

    /// Looks at the FIFOs that somebody would like to carry.
    pub fn prove(self: &Arc<Self>) {
        let d = self.domain;
        let h = d.header();
        if h.prove.swap(0, Relaxed) == 0 {
            return;
        }
        for i in registry::slots(d) {
            let (Some(ch), Some(key)) = (Channel::at(d, i), registry::object(d, i)) else {
                continue;
            };
            let holders = &ch.facts.0.holders;
            if holders.load(Relaxed) != Holders::Asked as u32 {
                continue;
            }
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.refused.get(&i).is_some_and(|r| Instant::now() < r.1) {
                // Later.
                h.prove.store(1, Relaxed);
                continue;
            }
            // /proc may not show its reader, which would find nothing in the kernel lane.
            let is_read = ch.was_read();
            let known = match is_read {
                false => Err(Reason::Cold),
                true => self.watch(&mut state, i, key).and_then(|()| {
                    self.hear(&mut state)?;
                    let others = self.others_hold(key);
                    (!others).then_some(()).ok_or(Reason::NotTakingPart)
                }),
            };
            let why = known.err().unwrap_or(Reason::Cold);
            ch.facts.0.why.store(why as u8, Relaxed);
            let known = known.is_ok();
            let now = if known {
                state.refused.remove(&i);
                Holders::Known
            } else {
                state.refuse(i);
                Holders::Unknown
            };
            // ORDER: the look before what it found.
            let _ = holders.compare_exchange(Holders::Asked as u32, now as u32, Release, Relaxed);
        }
    }

    /// Starts the thread that hears of opens, if there is none yet; why not.
    fn hear(self: &Arc<Self>, state: &mut State) -> Result<(), Reason> {
        if !state.watcher {
            let me = self.clone();
            let started = std::thread::Builder::new().spawn(move || me.watch_opens());
            started.map_err(|_| Reason::Unwatched)?;
            state.watcher = true;
        }
        Ok(())
    }

    /// Gives what nobody has taken for a while to the kernel: no look tells whether all who hold the FIFO can be seen.
    pub fn stir(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let watched: Vec<_> = state.watches.values().copied().collect();
        for (slot, key) in watched {
            let Some(ch) = Channel::at(self.domain, slot) else {
                continue;
            };
            let (t, h) = (ch.tail(), ch.head());
            let lies = !t.closed() && t.wide(h.position()) != h.position();
            if !lies || registry::object(self.domain, slot) != Some(key) {
                state.unread.remove(&slot);
                continue;
            }
            let (was, since) = *state.unread.entry(slot).or_insert((h.0, Instant::now()));
            if was != h.0 {
                state.unread.insert(slot, (h.0, Instant::now()));
            } else if since.elapsed() >= UNREAD {
                state.unread.remove(&slot);
                state.refuse(slot);
                self.take_back(ch, key);
            }
        }
    }

    /// Has every later open of the FIFO told; why not.
    fn watch(&self, state: &mut State, slot: usize, key: (u64, u64)) -> Result<(), Reason> {
        if state.watches.values().any(|w| *w == (slot, key)) {
            return Ok(());
        }
        // ORDER: pairs with the request.
        let asker = self.domain.header().asker.load(Acquire);
        let path = PathBuf::from(format!("/proc/{}/fd/{}", asker >> 32, asker as u32));
        let same = fs::metadata(&path).is_ok_and(|m| (m.dev(), m.ino()) == key);
        let name = CString::new(path.as_os_str().as_bytes());
        let (true, Ok(name)) = (same, name) else {
            return Err(Reason::Cold);
        };
        if !holders::is_own(&path) {
            return Err(Reason::AnotherUsers);
        }
        // SAFETY: `name` is a C string; IN_OPEN follows the link to the FIFO itself.
        let wd = unsafe { libc::inotify_add_watch(self.inotify, name.as_ptr(), libc::IN_OPEN) };
        if wd < 0 {
            return Err(Reason::Unwatched);
        }
        state.watches.insert(wd, (slot, key));
        Ok(())
    }

    /// Whether somebody who takes no part has the FIFO open.
    ///
    /// LINUX a look at /proc/PID/fd/N holds the open file for a moment, so that a close meanwhile is not yet the end of the
    /// pipe. Participants' descriptors are therefore left alone.
    fn others_hold(&self, key: (u64, u64)) -> bool {
        // A run itself only passes its descriptors on.
        let runs = members::alive(&self.domain);
        let is_outsider = |pid| !runs.contains(&pid) && !self.takes_part(pid);
        let mut found = false;
        holders::each(is_outsider, |_, _, k| found |= k == key);
        found
    }

    fn takes_part(&self, pid: u32) -> bool {
        if !participants::has(&self.domain, pid) {
            return false;
        }
        // Not only the number: the process itself, by its start and its mappings.
        let Some(start) = holders::start_of(pid) else {
            return false;
        };
        let mut known = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&pid) == Some(&start) {
            return true;
        }
        let file = self.file.to_string_lossy();
        let has = fs::read_to_string(format!("/proc/{pid}/maps"))
            .is_ok_and(|m| m.lines().any(|l| l.ends_with(&*file)));
        if has {
            known.insert(pid, start);
        }
        has
    }

    /// For the life of this process: acts on opens.
    fn watch_opens(&self) {
        let mut buf = [0u64; 512];
        loop {
            // SAFETY: a buffer of ours, aligned for struct inotify_event.
            let n = unsafe { libc::read(self.inotify, buf.as_mut_ptr().cast(), size_of_val(&buf)) };
            if n <= 0 {
                return;
            }
            let bytes = &buf.as_slice()[..(n as usize).div_ceil(8)];
            let bytes: Vec<u8> = bytes.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let mut at = 0;
            let mut opened = Vec::new();
            // struct inotify_event: wd, mask, cookie, length of the name that follows.
            while at + 16 <= n as usize {
                let word = |k: usize| {
                    u32::from_ne_bytes(bytes[at + 4 * k..at + 4 * k + 4].try_into().expect("four"))
                };
                opened.push((word(0) as i32, word(1)));
                at += 16 + word(3) as usize;
            }
            opened.dedup();
            for (wd, mask) in opened {
                self.opened(wd, mask);
            }
        }
    }

    fn opened(&self, wd: i32, mask: u32) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if mask & libc::IN_Q_OVERFLOW != 0 {
            // Events were lost: as if somebody had opened each of them.
            let all: Vec<_> = state.watches.values().copied().collect();
            for (slot, key) in all {
                self.look(&mut state, slot, key);
            }
            return;
        }
        let Some(&(slot, key)) = state.watches.get(&wd) else {
            return;
        };
        if mask & libc::IN_IGNORED != 0 {
            state.watches.remove(&wd);
            // The FIFO is gone; one that has its number since was taken for watched.
            if let Some(ch) = Channel::at(self.domain, slot)
                && registry::object(self.domain, slot) == Some(key)
            {
                self.take_back(ch, key);
            }
            return;
        }
        self.look(&mut state, slot, key);
    }

    /// A Known FIFO was opened: by somebody who takes part?
    fn look(&self, state: &mut State, slot: usize, key: (u64, u64)) {
        let d = self.domain;
        let Some(ch) = Channel::at(d, slot) else {
            return;
        };
        if registry::object(d, slot) != Some(key) {
            return;
        }
        let holders = &ch.facts.0.holders;
        // ORDER: pairs with `prove`.
        if holders.load(Acquire) != Holders::Known as u32 {
            return;
        }
        if !self.others_hold(key) {
            return;
        }
        state.refuse(slot);
        ch.facts.0.why.store(Reason::NotTakingPart as u8, Relaxed);
        self.take_back(ch, key);
    }

    /// To the kernel, until it is asked for again.
    fn take_back(&self, ch: &Channel, key: (u64, u64)) {
        // ORDER: before the hand-back: an opener looks at it under the lock.
        ch.facts.0.holders.store(Holders::Unknown as u32, Release);
        if ch.tail().closed() && ch.tail().lock_owner() == 0 {
            return;
        }
        let me = me(&user(self.domain));
        let own = std::process::id();
        // LINUX proc_pid_fd(5): the link's own mode tells how it was opened. Ours is as one that there is, so nobody who waits
        // in open(2) is let through by it; as a writer if there is one: a reader, for a moment, is one that a writer finds
        // where it should get EPIPE. fifo(7): O_WRONLY and O_NONBLOCK: ENXIO where nobody reads. Then nobody needs the bytes
        // now, and the open of one who does is an event.
        let mut all: Vec<_> = holders::of(key)
            .into_iter()
            .filter(|h| h.pid != own)
            .map(|h| {
                let mode = fs::symlink_metadata(&h.path).map_or(0, |m| m.mode());
                (mode & 0o200 != 0, h)
            })
            .collect();
        all.sort_by_key(|(writes, _)| !writes);
        for (writes, h) in all {
            let f = fs::OpenOptions::new()
                .read(!writes)
                .write(writes)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(&h.path);
            if let Ok(f) = f {
                use std::os::fd::AsRawFd;
                let fd = f.as_raw_fd() as usize;
                if ch.is_behind(fd) {
                    fifo::meet(&me, ch, fd);
                    handback::hand_back(&me, ch, fd, false, Reason::NotTakingPart);
                }
                return;
            }
        }
    }

    /// Another has served before: what it knew is asked anew.
    pub fn begin(&self) {
        let d = self.domain;
        for i in registry::slots(d) {
            let (Some(ch), Some(key)) = (Channel::at(d, i), registry::object(d, i)) else {
                continue;
            };
            if ch.is_fifo() {
                self.take_back(ch, key);
            }
        }
        d.header().flags.fetch_and(!flags::NO_FIFO, Relaxed);
        // Requests that nobody answered.
        d.header().prove.store(1, Relaxed);
    }

    /// The end of the service: from now on nobody watches.
    pub fn end(&self) {
        let d = self.domain;
        d.header().flags.fetch_or(flags::NO_FIFO, Relaxed);
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for &(slot, key) in state.watches.values() {
            if let Some(ch) = Channel::at(d, slot)
                && registry::object(d, slot) == Some(key)
            {
                self.take_back(ch, key);
            }
        }
    }
}
