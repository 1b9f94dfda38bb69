//! The queue: changes in, events out, and the wake-up between threads.
//!
//! Invariant: whoever makes an entry active rings the wake-up if somebody waits, or may poll the queue. The table's
//! lock orders the two: a waiter counts itself, and looks at the list, before it sleeps.
//! Not here: what there is to tell (look.rs), the entries (table.rs).
use super::look::GRACE;
use super::poller::{NONE, Poller, WakeUp};
use super::table::{REPORTS, Table, WAKE_UP};
use super::{Change, Event, Flags};
use crate::{home, thread};
use byway_mem::reclaim;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Readers that have found nothing for so long give memory back.
const REST: Duration = Duration::from_millis(20);

/// A queue, as its ends know it too.
pub struct Inner {
    epoll: Poller,
    wake_up: WakeUp,
    pid: u32,
    table: Mutex<Table>,
}

impl Inner {
    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing panics with it held.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After a change of the list: whoever waits looks at it.
    fn ring(&self, t: &mut Table) {
        if !t.active.is_empty() && (t.waiters > 0 || t.exposed) && !t.woken {
            t.woken = true;
            self.wake_up.send();
        }
    }

    /// A call on an end is over; `asleep`: its descriptor tells the rest.
    pub fn mark(&self, key: u64, asleep: bool) {
        let mut t = self.table();
        if asleep {
            t.asleep(key);
        } else {
            t.activate(key, false);
            self.ring(&mut t);
        }
    }

    /// An end is about to close.
    pub fn forget(&self, key: u64) {
        self.table().remove(key, &self.epoll);
    }
}

/// An event queue in the shape of kqueue(2): see [`events`](crate::events).
pub struct Queue {
    inner: Arc<Inner>,
}

impl Queue {
    /// A new queue, with nothing in it.
    ///
    /// # Errors
    /// No descriptor is free (it takes two).
    pub fn new() -> io::Result<Queue> {
        let (epoll, wake_up) = (Poller::new()?, WakeUp::new()?);
        epoll.add(
            wake_up.fd(),
            (libc::EPOLLIN | libc::EPOLLET) as u32,
            WAKE_UP,
        )?;
        Ok(Queue {
            inner: Arc::new(Inner {
                epoll,
                wake_up,
                pid: thread::ids().pid,
                table: Mutex::default(),
            }),
        })
    }

    fn own(&self) -> io::Result<&Inner> {
        if self.inner.pid == thread::ids().pid {
            return Ok(&self.inner);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the queue is the parent's: a child that is forked makes its own",
        ))
    }

    /// Makes a change.
    ///
    /// # Errors
    /// `NotFound`: no such entry. `AlreadyExists`: the end is in another queue, or has such an entry.
    /// `PermissionDenied`: epoll does not take such a descriptor (a regular file). `InvalidInput`: the descriptor of a
    /// native end (give the end), or a queue of the parent's. No descriptor is free (a timer takes one).
    pub fn apply(&self, change: Change) -> io::Result<()> {
        let q = self.own()?;
        let mut t = q.table();
        let made = t.apply(change, &q.epoll, &Arc::downgrade(&self.inner));
        q.ring(&mut t);
        made
    }

    /// Triggers the user event `ident`, from any thread; its event carries `data`. Triggered again before it was told,
    /// it tells the last.
    ///
    /// # Errors
    /// `NotFound`: there is no such entry.
    pub fn trigger(&self, ident: u64, data: i64) -> io::Result<()> {
        let q = self.own()?;
        let mut t = q.table();
        t.trigger(ident, data)?;
        q.ring(&mut t);
        Ok(())
    }

    /// Waits for events, `most` at most (`None`: as long as it takes; zero: not at all); how many there are, up to as
    /// many as fit. 0: nothing in that time.
    ///
    /// # Errors
    /// `Interrupted`: a signal handler ran meanwhile.
    pub fn wait(&self, events: &mut [Event], most: Option<Duration>) -> io::Result<usize> {
        let q = self.own()?;
        if events.is_empty() {
            return Ok(0);
        }
        let until = most.map(|d| Instant::now().checked_add(d));
        // Beyond what a clock can tell is for ever.
        let until = until.flatten();
        let mut reports = [NONE; REPORTS];
        let room = events.len().min(REPORTS);
        // Whether a look has left nothing but readers in their time of grace.
        let mut graceful = false;
        loop {
            let now = Instant::now();
            let mut resting = None;
            {
                let mut t = q.table();
                t.waiters += 1;
                let bound = if t.active.is_empty() {
                    t.is_fresh().then_some(REST)
                } else {
                    Some(if graceful { GRACE } else { Duration::ZERO })
                };
                if let Some(d) = bound {
                    resting = Some(now + d).filter(|&soon| until.is_none_or(|u| soon < u));
                }
            }
            // About to sleep: the time to give back what nobody uses.
            if let Some(h) = home::joined() {
                reclaim::look(&thread::user(h.domain));
            }
            let told = q.epoll.wait(&mut reports[..room], resting.or(until));
            let mut t = q.table();
            t.waiters -= 1;
            t.woken = false;
            let told = told?;
            if told == 0 && resting.is_some() && t.active.is_empty() {
                t.rest();
            }
            t.reported(&reports[..told]);
            let over = until.is_some_and(|u| Instant::now() >= u);
            // Who polls the queue's descriptor does not come back by itself.
            let patient = !over || !t.exposed;
            let n = t.collect(events, &q.epoll, patient);
            graceful = n == 0 && !t.active.is_empty();
            if n > 0 || over {
                q.ring(&mut t);
                return Ok(n);
            }
        }
    }

    /// Makes changes, then waits for events, as kevent(2) does. Changes that fail become events with `ERROR`, and then
    /// it does not wait.
    ///
    /// # Errors
    /// As [`Queue::wait`]; and that of the first change that fails where there is no room to tell of it.
    pub fn kevent<'a>(
        &self,
        changes: impl IntoIterator<Item = Change<'a>>,
        events: &mut [Event],
        most: Option<Duration>,
    ) -> io::Result<usize> {
        let mut failed = 0;
        for c in changes {
            let (filter, udata) = (c.filter, c.udata);
            let ident = c.ident();
            let Err(e) = self.apply(c) else { continue };
            let Some(place) = events.get_mut(failed) else {
                return Err(e);
            };
            *place = Event {
                ident,
                filter,
                flags: Flags::ERROR,
                data: i64::from(number(&e)),
                udata,
            };
            failed += 1;
        }
        if failed > 0 {
            return Ok(failed);
        }
        self.wait(events, most)
    }
}

/// The number of an error, as kevent(2) has it.
fn number(e: &io::Error) -> i32 {
    e.raw_os_error().unwrap_or(match e.kind() {
        io::ErrorKind::NotFound => libc::ENOENT,
        io::ErrorKind::AlreadyExists => libc::EEXIST,
        io::ErrorKind::PermissionDenied => libc::EPERM,
        _ => libc::EINVAL,
    })
}

/// The epoll's descriptor: readable when an event waits.
impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.expose();
        self.inner.epoll.fd().as_fd()
    }
}

impl fmt::Debug for Queue {
    /// Without exposing it: nobody polls what a person looks at.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Queue")
            .field("fd", &self.inner.epoll.as_raw_fd())
            .finish_non_exhaustive()
    }
}

impl AsRawFd for Queue {
    fn as_raw_fd(&self) -> RawFd {
        self.expose();
        self.inner.epoll.as_raw_fd()
    }
}

impl Queue {
    /// From now on the descriptor tells what only the list knows.
    fn expose(&self) {
        if let Ok(q) = self.own() {
            let mut t = q.table();
            t.exposed = true;
            q.ring(&mut t);
        }
    }
}
