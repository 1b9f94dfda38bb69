//! The entries of a queue, and the list of those that may have something to tell.
//!
//! Invariant: as in mod.rs; an entry's key (slot and generation) is never used for another.
//! Not here: waiting (queue.rs).
use super::knote::{Kind, Knote, Place, User};
use super::look::{self, Seen};
use super::poller::{Clock, NONE, Poller, Report};
use super::{Change, Event, Filter, Flags, Inner, Source};
use crate::carried::Carried;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Weak;
use std::time::Instant;

/// Keys that are no entry's.
pub const WAKE_UP: u64 = u64::MAX;
const SECOND: u64 = u64::MAX - 1;
/// Reports that are asked for at once.
pub const REPORTS: usize = 64;

#[derive(Default)]
struct Slot {
    generation: u32,
    knote: Option<Knote>,
}

#[derive(Default)]
pub struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    names: HashMap<(u64, Filter), u64>,
    pub active: VecDeque<u64>,
    /// Readers that were armed since the queue last rested: what their rings do not need can go back.
    fresh: Vec<u64>,
    /// For descriptors of which two filters are watched.
    second: Option<Poller>,
    /// Threads that wait now.
    pub waiters: usize,
    /// Somebody has the queue's descriptor, and may wait for that.
    pub exposed: bool,
    /// The wake-up has woken since the kernel was last asked.
    pub woken: bool,
}

impl Table {
    fn get(&mut self, key: u64) -> Option<&mut Knote> {
        let slot = self.slots.get_mut(key as u32 as usize)?;
        (u64::from(slot.generation) == key >> 32)
            .then_some(slot.knote.as_mut())
            .flatten()
    }

    /// To be looked at with the next wait.
    pub fn activate(&mut self, key: u64, edge: bool) {
        if let Some(k) = self.get(key).filter(|k| k.enabled) {
            k.edge |= edge;
            if !std::mem::replace(&mut k.queued, true) {
                self.active.push_back(key);
            }
        }
    }

    /// Makes one change.
    pub fn apply(&mut self, c: Change, first: &Poller, queue: &Weak<Inner>) -> io::Result<()> {
        let ident = c.ident();
        let name = (ident, c.filter);
        let mut found = self.names.get(&name).copied();
        let end = !matches!(
            c.source,
            Source::Fd(_) | Source::Ident(_) | Source::Timer(..)
        );
        if let Some(key) = found
            && end
            && self.get(key).is_some_and(|k| k.kind.watch().is_none())
        {
            // The number was another descriptor's, which was closed without a word.
            self.remove(key, first);
            found = None;
        }
        if c.flags.has(Flags::DELETE) {
            let key = found.ok_or_else(|| absent(ident, c.filter))?;
            self.remove(key, first);
            return Ok(());
        }
        let key = match found {
            Some(key) => {
                self.change(key, &c)?;
                key
            }
            None if c.flags.has(Flags::ADD) => self.make(c, name, queue)?,
            None => return Err(absent(ident, c.filter)),
        };
        self.settle(key, first).inspect_err(|_| {
            self.remove(key, first);
        })
    }

    /// An entry that is there.
    fn change(&mut self, key: u64, c: &Change) -> io::Result<()> {
        let Some(k) = self.get(key) else {
            return Ok(());
        };
        if c.flags.has(Flags::ADD) {
            k.mode = mode(c);
            k.udata = c.udata;
            k.enabled = true;
            if let (Kind::Timer(clock), Source::Timer(_, every)) = (&k.kind, &c.source) {
                clock.set(*every, k.mode.has(Flags::ONESHOT))?;
            }
        }
        if c.flags.has(Flags::ENABLE) {
            k.enabled = true;
        }
        if c.flags.has(Flags::DISABLE) {
            k.enabled = false;
        }
        // What it has told is told again.
        k.told = None;
        Ok(())
    }

    fn make(&mut self, c: Change, name: (u64, Filter), queue: &Weak<Inner>) -> io::Result<u64> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let generation = self.slots[slot as usize].generation;
        let key = u64::from(generation) << 32 | u64::from(slot);
        let (mode, enabled, udata) = (mode(&c), !c.flags.has(Flags::DISABLE), c.udata);
        let kind = match c.source {
            Source::Reader(r) => r.watch(queue.clone(), key),
            Source::Receiver(r) => r.watch(queue.clone(), key),
            Source::Writer(w) => w.watch(queue.clone(), key),
            Source::Sender(s) => s.watch(queue.clone(), key),
            Source::Fd(fd) if Carried::is_native(fd.as_raw_fd() as usize) => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the descriptor is a native end's, and does not tell all: watch the end itself",
            )),
            Source::Fd(fd) => Ok(Kind::Fd(fd.as_raw_fd())),
            Source::Ident(_) if c.filter == Filter::User => Ok(Kind::User(User::default())),
            Source::Ident(_) => Err(absent(name.0, name.1)),
            Source::Timer(_, every) => Clock::new().and_then(|clock| {
                clock.set(every, mode.has(Flags::ONESHOT))?;
                Ok(Kind::Timer(clock))
            }),
        };
        let kind = kind.inspect_err(|_| self.free.push(slot))?;
        self.slots[slot as usize].knote = Some(Knote {
            ident: name.0,
            filter: name.1,
            udata,
            mode,
            enabled,
            queued: false,
            fresh: false,
            edge: false,
            place: Place::Nowhere,
            kind,
            told: None,
        });
        self.names.insert(name, key);
        Ok(key)
    }

    /// After a change: in epoll if it is enabled, and to be looked at.
    fn settle(&mut self, key: u64, first: &Poller) -> io::Result<()> {
        self.withdraw(key, first);
        let Some(k) = self.get(key).filter(|k| k.enabled) else {
            return Ok(());
        };
        if let Some(fd) = k.kind.fd() {
            let interest = k.interest();
            let mut place = Place::First;
            match first.add(fd, interest, key) {
                // The other filter's place.
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    self.second(first)?.add(fd, interest, key)?;
                    place = Place::Second;
                }
                r => r?,
            }
            if let Some(k) = self.get(key) {
                k.place = place;
            }
        }
        // The kernel tells of a descriptor that is ready when it is added.
        if self
            .get(key)
            .is_some_and(|k| !matches!(k.kind, Kind::Fd(_) | Kind::Timer(_)))
        {
            self.activate(key, false);
        }
        Ok(())
    }

    fn second(&mut self, first: &Poller) -> io::Result<&Poller> {
        if self.second.is_none() {
            let new = Poller::new()?;
            first.add(new.as_raw_fd(), libc::EPOLLIN as u32, SECOND)?;
            self.second = Some(new);
        }
        Ok(self.second.as_ref().expect("made above"))
    }

    /// Out of epoll.
    fn withdraw(&mut self, key: u64, first: &Poller) {
        let Some(k) = self.get(key) else { return };
        let (place, fd): (Place, Option<RawFd>) = (k.place, k.kind.fd());
        k.place = Place::Nowhere;
        match (place, fd, &self.second) {
            (Place::First, Some(fd), _) => first.delete(fd),
            (Place::Second, Some(fd), Some(second)) => second.delete(fd),
            _ => {}
        }
    }

    /// No longer there.
    pub fn remove(&mut self, key: u64, first: &Poller) {
        self.withdraw(key, first);
        if self.get(key).is_none() {
            return;
        }
        let slot = &mut self.slots[key as u32 as usize];
        slot.generation = slot.generation.wrapping_add(1) & (u32::MAX >> 1);
        if let Some(k) = slot.knote.take() {
            self.names.remove(&(k.ident, k.filter));
            if let Some(w) = k.kind.watch() {
                w.leave();
            }
        }
        self.free.push(key as u32);
    }

    /// What a user event is told by whoever triggers it.
    pub fn trigger(&mut self, ident: u64, data: i64) -> io::Result<()> {
        let key = self.names.get(&(ident, Filter::User)).copied();
        let key = key.ok_or_else(|| absent(ident, Filter::User))?;
        if let Some(Knote {
            kind: Kind::User(u),
            ..
        }) = self.get(key)
        {
            *u = User {
                triggered: true,
                data,
            };
        }
        self.activate(key, false);
        Ok(())
    }

    /// What the kernel told.
    pub fn reported(&mut self, reports: &[Report]) {
        for r in reports {
            match r.u64 {
                WAKE_UP => {}
                SECOND => self.second_reported(),
                key => self.activate(key, true),
            }
        }
    }

    fn second_reported(&mut self) {
        let mut reports = [NONE; REPORTS];
        let now = Some(Instant::now());
        let n = self
            .second
            .as_ref()
            .map_or(0, |p| p.wait(&mut reports, now).unwrap_or(0));
        for r in &reports[..n] {
            self.activate(r.u64, true);
        }
    }

    /// Looks at each active entry once; how many events there are. `patient`: as in look.rs.
    pub fn collect(&mut self, events: &mut [Event], first: &Poller, patient: bool) -> usize {
        let mut n = 0;
        for _ in 0..self.active.len() {
            if n == events.len() {
                break;
            }
            let Some(key) = self.active.pop_front() else {
                break;
            };
            let Some(k) = self.get(key) else { continue };
            k.queued = false;
            if !k.enabled {
                continue;
            }
            match look::look(k, patient) {
                Seen::Event(data, eof) => {
                    let end = if eof { Flags::EOF } else { Flags::default() };
                    events[n] = Event {
                        ident: k.ident,
                        filter: k.filter,
                        flags: k.mode | end,
                        data,
                        udata: k.udata,
                    };
                    n += 1;
                    self.told(key, first);
                }
                Seen::Later => self.activate(key, false),
                Seen::Nothing => self.asleep(key),
                Seen::Gone => self.remove(key, first),
            }
        }
        n
    }

    /// What follows from an event for its entry.
    fn told(&mut self, key: u64, first: &Poller) {
        let Some(k) = self.get(key) else { return };
        let (mode, clear) = (k.mode, k.mode.has(Flags::CLEAR));
        if let Kind::User(u) = &mut k.kind
            && clear
        {
            *u = User::default();
        }
        // The kernel tells again of what is there; of these it does not know.
        let again = match k.kind {
            Kind::User(_) | Kind::Writer { .. } => !clear,
            Kind::Reader { .. } => true,
            Kind::Fd(_) | Kind::Timer(_) => false,
        };
        if mode.has(Flags::ONESHOT) {
            self.remove(key, first);
        } else if mode.has(Flags::DISPATCH) {
            k.enabled = false;
            self.withdraw(key, first);
        } else if again {
            self.activate(key, false);
        }
    }

    /// Nothing is there: a reader may rest.
    pub fn asleep(&mut self, key: u64) {
        if let Some(k) = self.get(key)
            && matches!(k.kind, Kind::Reader { .. })
            && !std::mem::replace(&mut k.fresh, true)
        {
            self.fresh.push(key);
        }
    }

    /// Whether some may rest soon.
    pub fn is_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Gives back what the rings of readers that found nothing do not need.
    pub fn rest(&mut self) {
        for key in std::mem::take(&mut self.fresh) {
            let Some(k) = self.get(key) else { continue };
            k.fresh = false;
            if let Kind::Reader {
                carried: Some(c), ..
            } = k.kind
            {
                c.rest();
            }
        }
    }
}

fn mode(c: &Change) -> Flags {
    let timer = if c.filter == Filter::Timer {
        Flags::CLEAR
    } else {
        Flags::default()
    };
    let known = Flags::ONESHOT.bits() | Flags::CLEAR.bits() | Flags::DISPATCH.bits();
    Flags::from_bits(c.flags.bits() & known) | timer
}

fn absent(ident: u64, filter: Filter) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("the queue has no entry {ident} for {filter:?}: add it first"),
    )
}
