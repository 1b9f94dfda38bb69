//! What an end and the event queue that watches it both must know.
//!
//! ```text
//! end:    begin -> (attempt) -> end ---- marks its knote ----> queue: looks at the stream; nothing there: arms the reader
//!           busy: the queue keeps off                          for the end, whose next attempt ends that again
//! ```
//! Invariant: a reader is armed by the end or by the queue, and known to both; never twice. The queue's lock is taken
//! before an end's, never after.
//! Not here: what the queue looks for (events/).
use crate::events::Inner;
use crate::thread;
use byway_pipe::read::Armed;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Of a reader that is watched.
#[derive(Clone, Copy)]
pub enum State {
    /// The descriptor tells nothing.
    Awake,
    /// A call on the end is under way.
    Busy,
    /// The descriptor tells the truth.
    Armed(Armed),
}

/// One end in one queue.
pub struct Watch {
    queue: Weak<Inner>,
    key: u64,
    /// The process whose queue it is: a child that is forked has a copy of the end, and no queue.
    pid: u32,
    /// Of a reader.
    state: Mutex<State>,
    /// Whether the queue still has the entry.
    live: AtomicBool,
    /// Of a writer: its last call found no room, and the descriptor tells when there is.
    full: AtomicBool,
    /// Bytes that the end itself holds, and that the stream no longer has.
    kept: AtomicUsize,
}

impl Watch {
    pub fn new(queue: Weak<Inner>, key: u64, armed: Option<Armed>) -> Arc<Watch> {
        Arc::new(Watch {
            queue,
            key,
            pid: thread::ids().pid,
            state: Mutex::new(armed.map_or(State::Awake, State::Armed)),
            live: AtomicBool::new(true),
            full: AtomicBool::new(false),
            kept: AtomicUsize::new(0),
        })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics with it held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// The end holds so many bytes, from now on. RELAXED: the queue's lock orders it, which who adds the end has, and
    /// `mark` takes.
    pub fn keep(&self, n: usize) {
        self.kept.store(n, Relaxed);
    }

    /// With what it is armed.
    pub fn armed(&self) -> Option<Armed> {
        match *self.state() {
            State::Armed(a) => Some(a),
            _ => None,
        }
    }

    /// Of a writer: whether it is to wait for its descriptor.
    pub fn full(&self) -> &AtomicBool {
        &self.full
    }

    /// The queue has no such entry any more.
    pub fn leave(&self) {
        self.live.store(false, Relaxed);
    }

    /// Whether a queue of this process watches the end now.
    pub fn is_live(&self) -> bool {
        self.queue().is_some()
    }

    fn queue(&self) -> Option<Arc<Inner>> {
        // RELAXED: an entry that has just gone is looked for in vain.
        let here = self.live.load(Relaxed) && self.pid == thread::ids().pid;
        here.then(|| self.queue.upgrade()).flatten()
    }

    /// A call on the end is over; `asleep`: it found nothing, and the descriptor tells the rest.
    pub fn mark(&self, asleep: bool) {
        if let Some(q) = self.queue() {
            q.mark(self.key, asleep);
        }
    }

    /// The end is about to close.
    pub fn forget(&self) {
        if let Some(q) = self.queue() {
            q.forget(self.key);
        }
    }
}

/// Who knows whether a reader is armed.
pub enum Arms {
    Own(Option<Armed>),
    Watched(Arc<Watch>),
}

impl Arms {
    /// Of a child, whose parent is the one that is watched: its own from now on.
    pub fn watch(&self) -> Option<&Arc<Watch>> {
        match self {
            Arms::Watched(w) if w.pid == thread::ids().pid => Some(w),
            _ => None,
        }
    }

    pub fn set(&mut self, armed: Armed) {
        match self.watch() {
            Some(w) => *w.state() = State::Armed(armed),
            None => *self = Arms::Own(Some(armed)),
        }
    }

    /// Whether nobody is armed, nor watches.
    #[inline]
    pub fn are_none(&self) -> bool {
        matches!(self, Arms::Own(None))
    }

    /// No longer armed; what it was armed with.
    pub fn take(&mut self) -> Option<Armed> {
        let now = match self {
            Arms::Own(a) => return a.take(),
            Arms::Watched(_) => self.watch().map(|w| {
                let mut state = w.state();
                std::mem::replace(&mut *state, State::Busy)
            }),
        };
        match now {
            Some(State::Armed(a)) => Some(a),
            Some(_) => None,
            None => {
                *self = Arms::Own(None);
                None
            }
        }
    }
}

/// A call on a reader: while it lasts a queue keeps off.
pub struct Turn(Option<Arc<Watch>>);

impl Turn {
    /// One that no queue need know of.
    pub const UNWATCHED: Turn = Turn(None);

    /// Begins one; after `Arms::take`.
    #[inline]
    pub fn of(arms: &Arms) -> Turn {
        match arms {
            Arms::Own(_) => Turn(None),
            Arms::Watched(w) => Turn(Some(w.clone())),
        }
    }
}

impl Drop for Turn {
    #[inline]
    fn drop(&mut self) {
        if let Some(w) = self.0.take() {
            ended(&w);
        }
    }
}

#[cold]
fn ended(w: &Watch) {
    let mut state = w.state();
    let asleep = matches!(*state, State::Armed(_));
    if !asleep {
        *state = State::Awake;
    }
    drop(state);
    w.mark(asleep);
}
