//! Who holds a FIFO? The answer that lets a run carry it, and the watch that takes it back.
//!
//! ```text
//! a FIFO is made ------> count its opens from its birth on (tally.rs)          --all said--> Born
//! a hot FIFO --Asked--> all opens said? else watch, look at all descriptors --all take part--> Known
//! somebody opens it --> all opens said? else Asked, or a look with the ring as it is --outsider--> Unknown, handed back
//! ```
//! Invariant: a FIFO is Known or Born only while a watch of it, older than the look or as old as the FIFO, tells of every
//! open(2). The event of an open is there before that open returns. Until the service has acted, an opener finds the
//! FIFO's bytes in their order (docs/fifo.md). A process that /proc does not show stays unknown: another user's, or one
//! that hides itself.
//! Not here: reading and writing (crate pipe), entering FIFOs (crate preload, fifo.rs).
use crate::holders;
use crate::tally::{Fifo, Tally};
use byway_mem::domain::Domain;
use byway_mem::layout::flags;
use byway_mem::registry;
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::reason::Reason;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use walk::Task;

mod walk;

/// After a look that found an outsider the next one comes this much later, and twice as much after each that followed: a
/// process between fork or exec and its first step soon does take part.
const AGAIN: Duration = Duration::from_millis(5);
const MOST_DOUBLED: u32 = 7;
/// Bytes that nobody takes for so long are the kernel's: /proc may not show the process that waits for them.
const UNREAD: Duration = Duration::from_millis(200);
/// What was opened is looked at so much later.
const SOON: Duration = Duration::from_micros(100);

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

struct State {
    /// Of FIFOs whose opens cannot be counted: watch -> slot and the object that it had.
    watches: HashMap<i32, Fifo>,
    tally: Tally,
    /// Slots that were looked at in vain: how often in a row, and when next.
    refused: HashMap<usize, (u32, Instant)>,
    /// Slots with unread bytes: the head word, and since when it is that.
    unread: HashMap<usize, (u64, Instant)>,
    watcher: bool,
    /// What is to be looked at, and whether somebody does (walk.rs).
    tasks: Vec<Task>,
    walker: bool,
    /// Those FIFOs among them that a look is due for, or under way.
    looked_for: HashSet<Fifo>,
    /// Opened while nobody knew who has them.
    opened: HashSet<Fifo>,
}

impl State {
    fn watched(&self) -> Vec<Fifo> {
        let told = self.watches.values().copied();
        told.chain(self.tally.fifos()).collect()
    }
    /// What was found of the FIFO in slot `slot`, if that is still asked.
    fn answer(&mut self, ch: &Channel, slot: usize, found: Result<(), Reason>) {
        let known = [Holders::Born, Holders::Known][usize::from(ch.was_read())];
        ch.facts
            .0
            .why
            .store(found.err().unwrap_or(Reason::Cold) as u8, Relaxed);
        let now = if found.is_ok() {
            self.refused.remove(&slot);
            known
        } else {
            self.refuse(slot);
            Holders::Unknown
        };
        let holders = &ch.facts.0.holders;
        // ORDER: the look before what it found.
        let _ = holders.compare_exchange(Holders::Asked as u32, now as u32, Release, Relaxed);
    }

    fn refuse(&mut self, slot: usize) {
        let n = self.refused.get(&slot).map_or(0, |r| r.0);
        let next = Instant::now() + AGAIN * (1 << n.min(MOST_DOUBLED));
        self.refused.insert(slot, (n + 1, next));
    }
}

impl Fifos {
    pub fn new(domain: Domain, file: &Path) -> Arc<Fifos> {
        // SAFETY: no pointers.
        let inotify = unsafe { libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK) };
        let state = State {
            watches: HashMap::new(),
            tally: Tally::new(domain),
            refused: HashMap::new(),
            unread: HashMap::new(),
            watcher: false,
            tasks: Vec::new(),
            walker: false,
            looked_for: HashSet::new(),
            opened: HashSet::new(),
        };
        Arc::new(Fifos {
            domain,
            file: file.to_owned(),
            inotify,
            state: Mutex::new(state),
            verified: Mutex::default(),
        })
    }

    /// Looks at the FIFOs that somebody would like to carry.
    pub fn prove(self: &Arc<Self>) {
        if self.domain.header().prove.swap(0, Relaxed) != 0 {
            self.charged(|| self.prove_all());
        }
    }

    fn prove_all(self: &Arc<Self>) {
        let d = self.domain;
        let h = d.header();
        for i in registry::slots(d) {
            let (Some(ch), Some(key)) = (Channel::at(d, i), registry::object(d, i)) else {
                continue;
            };
            let holders = &ch.facts.0.holders;
            if holders.load(Relaxed) != Holders::Asked as u32 {
                continue;
            }
            let mut state = self.lock();
            if state.looked_for.contains(&(i, key)) {
                continue;
            }
            if state.refused.get(&i).is_some_and(|r| Instant::now() < r.1) {
                // Later.
                h.prove.store(1, Relaxed);
                continue;
            }
            // /proc may not show its reader, which would find nothing in the kernel lane.
            let is_read = ch.was_read();
            let watched = match is_read {
                false => Err(Reason::Cold),
                true => self.watch(&mut state, i, key).and_then(|()| {
                    self.hear(&mut state)?;
                    let are_told = state.tally.are_participants((i, key));
                    // Else it stays asked until somebody has looked.
                    match are_told || self.have_walked(&mut state, Task::Look((i, key))) {
                        true => Ok(are_told),
                        false => Err(Reason::Unwatched),
                    }
                }),
            };
            match watched {
                Ok(true) => state.answer(ch, i, Ok(())),
                Ok(false) => {}
                Err(why) => state.answer(ch, i, Err(why)),
            }
            self.look_at_news(&mut state);
        }
    }

    /// Answers participants: one that makes a FIFO, and one that is about to become another program.
    pub fn answers(self: &Arc<Self>) {
        let h = self.domain.header();
        let is_asked = h.birth_wanted.load(Relaxed) != h.birth_done.load(Relaxed);
        if is_asked || h.drain.load(Relaxed) != 0 {
            self.charged(|| self.answer());
        }
    }

    fn answer(self: &Arc<Self>) {
        let h = self.domain.header();
        // ORDER: the request's words were written before its number.
        let wanted = h.birth_wanted.load(Acquire);
        if wanted != h.birth_done.load(Relaxed) {
            self.birth(wanted);
        }
        if h.drain.swap(0, Relaxed) != 0 {
            let mut state = self.lock();
            state.tally.drain();
            self.look_at_news(&mut state);
        }
    }

    fn birth(self: &Arc<Self>, wanted: u32) {
        let h = self.domain.header();
        let words = [&h.birth_pid, &h.birth_folder, &h.birth_fd, &h.birth_slot];
        let [pid, folder, fd, slot] = words.map(|w| w.load(Relaxed));
        // ORDER: of one request: whoever asks later changes the words after the number.
        fence(Acquire);
        if h.birth_wanted.load(Relaxed) != wanted {
            return;
        }
        let mut state = self.lock();
        let path = |fd: u32| PathBuf::from(format!("/proc/{pid}/fd/{fd}"));
        if fd == 0 {
            if self.hear(&mut state).is_ok() {
                state.tally.watch_folder(&path(folder), pid);
            }
        } else {
            let (slot, path) = (slot as usize, path(fd - 1));
            // By a second name somebody may have opened it in another folder.
            let found = fs::metadata(&path).ok().filter(|m| m.nlink() == 1);
            if let Some(key) = found.map(|m| (m.dev(), m.ino()))
                && registry::object(self.domain, slot) == Some(key)
                && let Some(ch) = Channel::at(self.domain, slot).filter(|ch| ch.is_fifo())
                && holders::is_own(&path)
            {
                let holders = &ch.facts.0.holders;
                state.refused.remove(&slot);
                if state.tally.begin_at_birth(&path, (slot, key), pid)
                    && state.tally.are_participants((slot, key))
                {
                    // ORDER: the watch before what it tells.
                    holders.store(Holders::Born as u32, Release);
                }
            }
        }
        self.look_at_news(&mut state);
        // ORDER: the watch before the answer.
        h.birth_done.store(wanted, Release);
    }

    /// Does `f`, and notes the CPU time that it takes.
    fn charged(&self, f: impl FnOnce()) {
        let before = cpu_time();
        f();
        let us = cpu_time().saturating_sub(before).as_micros() as u64;
        self.domain.header().fifo_us.fetch_add(us, Relaxed);
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
    pub fn stir(self: &Arc<Self>) {
        let mut state = self.lock();
        state.tally.tend();
        for (slot, key) in state.watched() {
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
                self.take_back(&mut state, (slot, key));
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
        let fifo = (slot, key);
        if state.tally.has(&path, fifo) || state.tally.begin(&path, fifo) {
            return Ok(());
        }
        // SAFETY: `name` is a C string; IN_OPEN follows the link to the FIFO itself.
        let wd = unsafe { libc::inotify_add_watch(self.inotify, name.as_ptr(), libc::IN_OPEN) };
        if wd < 0 {
            return Err(Reason::Unwatched);
        }
        state.watches.insert(wd, (slot, key));
        Ok(())
    }

    /// For the life of this process: acts on opens.
    fn watch_opens(self: &Arc<Self>) {
        let group = {
            let state = self.lock();
            state.tally.group()
        };
        // LINUX poll(2): a negative descriptor is left out.
        let mut both = [self.inotify, group].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        loop {
            // SAFETY: an array of two.
            let n = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
            if n < 0 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                return;
            }
            // An opener says so right after its open: what is read at once is in doubt.
            std::thread::sleep(SOON);
            self.charged(|| {
                let told = self.told();
                let mut state = self.lock();
                for (wd, mask) in told {
                    self.opened(&mut state, wd, mask);
                }
                state.tally.drain();
                self.look_at_news(&mut state);
            });
        }
    }

    /// What the kernel has told of FIFOs whose opens are not counted: watches, and of what.
    fn told(&self) -> Vec<(i32, u32)> {
        let mut buf = [0u64; 512];
        // SAFETY: a buffer of ours, aligned for struct inotify_event.
        let n = unsafe { libc::read(self.inotify, buf.as_mut_ptr().cast(), size_of_val(&buf)) };
        let n = n.max(0) as usize;
        let bytes: Vec<u8> = buf.iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut told = Vec::new();
        let mut at = 0;
        // struct inotify_event: wd, mask, cookie, length of the name that follows.
        while at + 16 <= n {
            let word = |k: usize| {
                u32::from_ne_bytes(bytes[at + 4 * k..at + 4 * k + 4].try_into().expect("four"))
            };
            told.push((word(0) as i32, word(1)));
            at += 16 + word(3) as usize;
        }
        told.dedup();
        told
    }

    /// Looks at the FIFOs that were opened since, as the tally has it, and forgets those that are gone.
    fn look_at_news(self: &Arc<Self>, state: &mut State) {
        loop {
            let (opened, removed) = state.tally.take_news();
            if opened.is_empty() && removed.is_empty() {
                return;
            }
            for (slot, key) in removed {
                state.opened.remove(&(slot, key));
                // LINUX FAN_DELETE_SELF: nobody has it open. One that has its number since is not known.
                if let Some(ch) = self.channel((slot, key)) {
                    // ORDER: as in `take_back`.
                    ch.facts.0.holders.store(Holders::Unknown as u32, Release);
                }
            }
            for (slot, key) in opened {
                self.look(state, slot, key);
            }
        }
    }

    fn opened(self: &Arc<Self>, state: &mut State, wd: i32, mask: u32) {
        if mask & libc::IN_Q_OVERFLOW != 0 {
            // Events were lost: as if somebody had opened each of them.
            let all: Vec<_> = state.watches.values().copied().collect();
            for (slot, key) in all {
                self.look(state, slot, key);
            }
            return;
        }
        let Some(&(slot, key)) = state.watches.get(&wd) else {
            return;
        };
        if mask & libc::IN_IGNORED != 0 {
            state.watches.remove(&wd);
            // The FIFO is gone; one that has its number since was taken for watched.
            self.take_back(state, (slot, key));
            return;
        }
        self.look(state, slot, key);
    }

    /// A FIFO was opened: by somebody who takes part?
    fn look(self: &Arc<Self>, state: &mut State, slot: usize, key: (u64, u64)) {
        let fifo = (slot, key);
        let Some(ch) = self.channel(fifo) else {
            return;
        };
        let holders = &ch.facts.0.holders;
        // ORDER: pairs with `State::answer`.
        let now = holders.load(Acquire);
        if now < Holders::Known as u32 {
            state.opened.insert(fifo);
            return;
        }
        if state.tally.are_participants(fifo) {
            return;
        }
        if ch.tail().closed() {
            // RELAXED: no ring is opened until it is said; one that is opened right now goes if an outsider is found.
            let _ = holders.compare_exchange(now, Holders::Asked as u32, Relaxed, Relaxed);
        }
        if !self.have_walked(state, Task::Look(fifo)) {
            self.take_back(state, fifo);
        }
    }

    /// The FIFO's channel, if it has it still.
    fn channel(&self, (slot, key): Fifo) -> Option<&'static Channel> {
        let ch = Channel::at(self.domain, slot);
        ch.filter(|_| registry::object(self.domain, slot) == Some(key))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another has served before: what it knew is asked anew.
    pub fn begin(&self) {
        let d = self.domain;
        let fifos: Vec<_> = registry::slots(d)
            .filter_map(|i| Some((Channel::at(d, i)?, registry::object(d, i)?)))
            .filter(|(ch, _)| ch.is_fifo())
            .collect();
        // Nobody has counted in between.
        for (ch, _) in &fifos {
            ch.reader.0.counted_from.store(0, Relaxed);
        }
        d.header().counted.store(0, Relaxed);
        self.take_all_back(&fifos);
        d.header().flags.fetch_and(!flags::NO_FIFO, Relaxed);
        // Requests that nobody answered.
        d.header().prove.store(1, Relaxed);
    }

    /// The end of the service: from now on nobody watches.
    pub fn end(&self) {
        let d = self.domain;
        d.header().flags.fetch_or(flags::NO_FIFO, Relaxed);
        d.header().counted.store(0, Relaxed);
        let state = self.lock();
        let fifos: Vec<_> = state
            .watched()
            .into_iter()
            .filter(|&(slot, key)| registry::object(d, slot) == Some(key))
            .filter_map(|(slot, key)| Some((Channel::at(d, slot)?, key)))
            .collect();
        self.take_all_back(&fifos);
    }
}

/// CPU time that this thread has had.
fn cpu_time() -> Duration {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills a struct timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}
