//! The look at all descriptors of the machine, and the hand-back that follows from it: by a thread of their own.
//!
//! Such a look takes the longer the more processes there are. Meanwhile the service answers others.
//!
//! Invariant: one look at a time, for all FIFOs that wait for one. A FIFO that an outsider may have opened in the midst
//! of it is looked for again.
//! Not here: when one is due (fifo.rs).
use super::{Fifos, State};
use crate::caller::{me, user};
use crate::tally::Fifo;
use crate::{holders, members};
use byway_mem::participants;
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::reason::Reason;
use byway_pipe::{fifo, handback};
use std::collections::HashSet;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// What is to be done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Does somebody who takes no part have the FIFO?
    Look(Fifo),
    /// Its bytes go to the kernel.
    TakeBack(Fifo),
}

/// The most looks for a FIFO that was opened in the midst of each.
const LOOKS: u32 = 3;
/// An opener says so right after its open, which the kernel has told of before: so long it is waited for. On a busy machine
/// it gets a CPU some milliseconds later, and a look takes longer than the wait.
const SAYS: Duration = Duration::from_micros(200);
const TURNS: u32 = 50;

impl Fifos {
    /// Has it done. False: there is no thread for it.
    pub(super) fn have_walked(self: &Arc<Self>, state: &mut State, task: Task) -> bool {
        if !state.walker {
            let me = self.clone();
            let started = std::thread::Builder::new().spawn(move || me.charged(|| me.walk()));
            state.walker = started.is_ok();
        }
        if state.walker && !state.tasks.contains(&task) {
            state.tasks.push(task);
            if let Task::Look(fifo) = task {
                state.looked_for.insert(fifo);
            }
        }
        state.walker
    }

    /// To the kernel, until it is asked for again.
    pub(super) fn take_back(self: &Arc<Self>, state: &mut State, fifo: Fifo) {
        state.refuse(fifo.0);
        if let Some(ch) = self.channel(fifo) {
            // ORDER: before the hand-back: an opener looks at it under the lock.
            ch.facts.0.holders.store(Holders::Unknown as u32, Release);
            if !self.have_walked(state, Task::TakeBack(fifo)) {
                self.take_all_back(&[(ch, fifo.1)]);
            }
        }
    }

    /// Until nothing is left to do.
    fn walk(self: &Arc<Self>) {
        loop {
            let tasks = {
                let mut state = self.lock();
                state.walker = !state.tasks.is_empty();
                std::mem::take(&mut state.tasks)
            };
            if tasks.is_empty() {
                return;
            }
            let mut looks = Vec::new();
            let mut backs = Vec::new();
            for task in tasks {
                match task {
                    Task::Look(fifo) => looks.push(fifo),
                    Task::TakeBack(fifo) => backs.extend(self.channel(fifo).map(|c| (c, fifo.1))),
                }
            }
            self.take_all_back(&backs);
            self.look_everywhere(looks);
        }
    }

    /// One look for all of these.
    fn look_everywhere(self: &Arc<Self>, mut left: Vec<Fifo>) {
        self.leave_doubtful(&mut left, false);
        for _ in 0..LOOKS {
            if left.is_empty() {
                return;
            }
            {
                let mut state = self.lock();
                for &fifo in &left {
                    state.tally.restart(fifo);
                    state.opened.remove(&fifo);
                }
                self.look_at_news(&mut state);
            }
            let held = self.held_by_others();
            left.retain(|&fifo| {
                let is_held = held.contains(&fifo.1);
                let mut state = self.lock();
                match is_held {
                    true => self.found(&mut state, fifo, true),
                    false => state.tally.set_proof(fifo),
                }
                !is_held
            });
            // What was opened since is known by the tally, or is to be looked for.
            self.leave_doubtful(&mut left, true);
        }
        for fifo in left {
            self.found(&mut self.lock(), fifo, true);
        }
    }

    /// Says of those FIFOs that only participants have, as far as participants have said in a while, that it is so.
    fn leave_doubtful(self: &Arc<Self>, left: &mut Vec<Fifo>, has_looked: bool) {
        for _ in 0..TURNS {
            left.retain(|&fifo| {
                // Until it is said: an open in between would be looked at too early.
                let mut state = self.lock();
                let is_clear = match state.tally.has_proof(fifo) {
                    true => state.tally.are_participants(fifo),
                    false => has_looked && !state.opened.contains(&fifo),
                };
                if is_clear {
                    self.found(&mut state, fifo, false);
                }
                self.look_at_news(&mut state);
                !is_clear
            });
            // Where nobody counts, nobody says.
            let mut is_counted = false;
            for &fifo in left.iter() {
                is_counted |= self.lock().tally.has_proof(fifo);
            }
            if !is_counted {
                return;
            }
            std::thread::sleep(SAYS);
        }
    }

    fn found(self: &Arc<Self>, state: &mut State, fifo: Fifo, others: bool) {
        if !state.tasks.contains(&Task::Look(fifo)) {
            state.looked_for.remove(&fifo);
        }
        let Some(ch) = self.channel(fifo) else { return };
        if others {
            // Also a ring that was opened while it was looked for.
            self.take_back(state, fifo);
            ch.facts.0.why.store(Reason::NotTakingPart as u8, Relaxed);
        } else {
            state.answer(ch, fifo.0, Ok(()));
        }
    }

    /// The FIFOs that somebody has open who takes no part.
    ///
    /// LINUX a look at /proc/PID/fd/N holds the open file for a moment, so that a close meanwhile is not yet the end of the
    /// pipe. Participants' descriptors are therefore left alone.
    fn held_by_others(&self) -> HashSet<(u64, u64)> {
        // A run itself only passes its descriptors on.
        let runs = members::alive(&self.domain);
        let is_outsider = |pid| !runs.contains(&pid) && !self.takes_part(pid);
        let mut found = HashSet::new();
        holders::each(is_outsider, |_, _, key| {
            found.insert(key);
        });
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

    /// Gives several to the kernel, with one look for who has them, or two.
    pub(super) fn take_all_back(&self, fifos: &[(&Channel, (u64, u64))]) {
        for (ch, _) in fifos {
            // ORDER: before the hand-back: an opener looks at it under the lock.
            ch.facts.0.holders.store(Holders::Unknown as u32, Release);
        }
        let open: Vec<_> = fifos.iter().filter(|f| is_open(f.0)).collect();
        // As a rule a participant has it, and they are few.
        let takes_part = |pid| participants::has(&self.domain, pid);
        let mut keys: Vec<_> = open.iter().map(|f| f.1).collect();
        let mut all = holders::of(&keys, takes_part);
        keys.retain(|key| all.iter().all(|h| h.key != *key));
        all.extend(holders::of(&keys, |pid| !takes_part(pid)));
        for (ch, key) in open {
            self.hand_back(ch, all.iter().filter(|h| h.key == *key));
        }
    }

    /// Gives the FIFO's bytes back by an opening of ours, as one of `all` has it.
    fn hand_back<'a>(&self, ch: &Channel, all: impl Iterator<Item = &'a holders::Holder>) {
        let me = me(&user(self.domain));
        let own = std::process::id();
        // LINUX proc_pid_fd(5): the link's own mode tells how it was opened. Ours is as one that there is, so nobody who waits
        // in open(2) is let through by it; as a writer if there is one: a reader, for a moment, is one that a writer finds
        // where it should get EPIPE. fifo(7): O_WRONLY and O_NONBLOCK: ENXIO where nobody reads. Then nobody needs the bytes
        // now, and the open of one who does is an event.
        let mut all: Vec<_> = all
            .filter(|h| h.pid != own)
            .map(|h| {
                let mode = fs::symlink_metadata(&h.path).map_or(0, |m| m.mode());
                (mode & 0o200 != 0, h)
            })
            .collect();
        all.sort_by_key(|(writes, _)| !writes);
        for (writes, h) in all {
            // It may have been given back meanwhile: an opening of ours, which nobody needs, would keep a pipe that all
            // others leave.
            if !is_open(ch) {
                return;
            }
            let f = fs::OpenOptions::new()
                .read(!writes)
                .write(writes)
                .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
                .open(&h.path);
            if let Ok(f) = f {
                let fd = f.as_raw_fd() as usize;
                if ch.is_behind(fd) {
                    fifo::meet(&me, ch, fd);
                    handback::hand_back(&me, ch, fd, false, Reason::NotTakingPart);
                }
                return;
            }
        }
    }
}

/// Whether bytes may be in its ring, or on their way.
fn is_open(ch: &Channel) -> bool {
    !ch.tail().closed() || ch.tail().lock_owner() != 0
}
