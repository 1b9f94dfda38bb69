//! The carried pipes of one epoll set, and which of them are armed.
//!
//! ```text
//! hot:  a call that waits looks at it, arms it, and disarms it when it comes back
//!   --> had nothing for some such calls --> idle: stays armed, so the kernel tells of its next byte
//!   --> this process reads from it --> hot
//! told once (EPOLLONESHOT): armed by the first call that waits, and idle from then on. The kernel alone tells of it, and so
//!   disables it; what the kernel does not see is handed back. Then it is off: nobody arms it before a MOD.
//! ```
//! Invariant: hot registrations stand before idle ones; an idle one is armed. While a thread sleeps in the set, so is each hot
//! one that asks for bytes and has none. By edge, an event that the kernel does not tell is told by us, or the pipe is
//! handed back: none is lost. One may be told twice, but not of those that are told once.
//! unsafe: reaches into its own memory, below the number of registrations.
//! Not here: when one is looked at and armed (registrations/arming.rs); one alone (registration.rs); which sets there are, and
//! epoll_ctl(2) (sets.rs); the call that waits (set_wait.rs).
use crate::registration::Entry;
use crate::{asked, exec, fdtable, message, sets, unmatched};
use byway_pipe::Caller;
use byway_pipe::ready;
use byway_pipe::reason::Reason;
use byway_pipe::wait::Readers;
use byway_sys::errno::failed;
use byway_sys::syscall::{call3, call6, nr};

mod arming;

/// Places for hints, by data.
const HINTS: usize = 4096;

/// Whether a call may sleep beside bytes that were told, for another thread to read them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shares {
    No,
    Yes,
    /// It has slept so: what nobody reads is handed back.
    Again,
}

/// What the kernel alone tells of a set: each more than the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Quiet {
    No,
    /// All that there is before a wait; what it tells after one must be heard.
    Before,
    /// All, whatever comes.
    All,
}

impl Quiet {
    /// That which is stored as `n`.
    pub fn of(n: u8) -> Quiet {
        match n {
            0 => Quiet::No,
            1 => Quiet::Before,
            _ => Quiet::All,
        }
    }
}

/// A set's registrations, and who waits for the set. All zeros is an empty one.
pub struct List {
    memory: Option<&'static mut Memory>,
    n: usize,
    /// So many of them are hot; and of the others so many by edge.
    hot: usize,
    idle_edges: usize,
    /// A bit for the data of each, and of those that have gone.
    pub data: u64,
    /// The set's descriptors; none: nobody has this place.
    pub numbers: Numbers,
    /// Whether the set has had a registration that is in no list.
    pub mixed: bool,
    /// Those of them that are told once, and those that are sockets.
    once: usize,
    sockets: usize,
    /// So many threads sleep in calls that wait for the set, as its lock was taken.
    pub waiters: u32,
    /// Whether one that is told once was taken out while a thread may have had its event.
    doubt: bool,
    pub shares: Shares,
    /// Where the next answer begins, so that each has its turn.
    pub first: usize,
    /// Whether the last answer had no room for all of ours.
    pub crowded: bool,
    /// Waits for which a socket was armed in vain, less the looks that saved one; and when the first of them was.
    in_vain: u32,
    in_vain_from: u64,
}

/// The descriptors of one set: the first, and those that a dup has made. Each plus one, or 0.
#[derive(Clone, Copy)]
pub struct Numbers([u32; 4]);

impl Numbers {
    const NONE: Numbers = Numbers([0; 4]);

    pub fn has(&self, fd: usize) -> bool {
        self.0.contains(&(fd as u32 + 1))
    }
    /// Any of them.
    pub fn one(&self) -> Option<usize> {
        self.all().next()
    }
    pub fn all(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter(|n| **n != 0).map(|n| *n as usize - 1)
    }
    /// False: there is no room for one more.
    pub fn add(&mut self, fd: usize) -> bool {
        let free = self.0.iter_mut().find(|n| **n == 0);
        free.map(|n| *n = fd as u32 + 1).is_some()
    }
    pub fn drop(&mut self, fd: usize) {
        let same = self.0.iter_mut().filter(|n| **n == fd as u32 + 1);
        same.for_each(|n| *n = 0);
    }
}

/// As many as a process has descriptors. Only pages that are used become memory.
struct Memory {
    /// Of each descriptor its place plus one, or 0.
    places: [u32; fdtable::FDS],
    /// The descriptor plus one of the last registration whose data goes here.
    hints: [u32; HINTS],
    entries: [Entry; fdtable::FDS],
}

impl Memory {
    fn new() -> Option<&'static mut Memory> {
        const PRIVATE_ANONYMOUS_NORESERVE: usize = 0x4022;
        let how = PRIVATE_ANONYMOUS_NORESERVE;
        // SAFETY: a new mapping.
        let at = unsafe { call6(nr::MMAP, 0, size_of::<Memory>(), 3, how, usize::MAX, 0) };
        // SAFETY: as large as that, aligned to a page, and nobody else's; all zeros is a value of it.
        (!failed(at)).then(|| unsafe { &mut *(at as *mut Memory) })
    }

    fn give_back(&'static mut self) {
        let at = core::ptr::from_mut(self) as usize;
        // SAFETY: mapped by `new`; nothing refers to it any more.
        unsafe { call3(nr::MUNMAP, at, size_of::<Memory>(), 0) };
    }
}

fn hint(data: u64) -> usize {
    (data ^ data >> 12 ^ data >> 32) as usize % HINTS
}

/// The bit of `data` in [`List::data`].
pub fn data_bit(data: u64) -> u64 {
    1 << (hint(data) % 64)
}

impl List {
    pub const EMPTY: List = List {
        memory: None,
        n: 0,
        hot: 0,
        idle_edges: 0,
        data: 0,
        numbers: Numbers::NONE,
        mixed: false,
        once: 0,
        sockets: 0,
        waiters: 0,
        doubt: false,
        shares: Shares::No,
        first: 0,
        crowded: false,
        in_vain: 0,
        in_vain_from: 0,
    };

    /// Whether there is memory for registrations.
    pub fn has_memory(&mut self) -> bool {
        if self.memory.is_none() {
            self.memory = Memory::new();
        }
        self.memory.is_some()
    }

    /// The place is another set's to have.
    pub fn leave(&mut self) {
        while let Some(k) = self.n.checked_sub(1) {
            self.forget(k);
        }
        if let Some(memory) = self.memory.take() {
            memory.give_back();
        }
        (self.numbers, self.mixed) = (Numbers::NONE, false);
        self.doubt = false;
        self.in_vain = 0;
    }

    pub fn len(&self) -> usize {
        self.n
    }

    /// The hot ones: those which a call looks at.
    pub fn hot(&mut self) -> &mut [Entry] {
        let n = self.hot;
        self.memory
            .as_mut()
            .map_or(&mut [], |m| &mut m.entries[..n])
    }

    pub fn all(&mut self) -> &mut [Entry] {
        let n = self.n;
        self.memory
            .as_mut()
            .map_or(&mut [], |m| &mut m.entries[..n])
    }

    pub fn place(&self, fd: usize) -> Option<usize> {
        let places = &self.memory.as_ref()?.places;
        (*places.get(fd)? as usize).checked_sub(1)
    }

    fn swap(&mut self, a: usize, b: usize) {
        if let Some(m) = &mut self.memory {
            m.entries.swap(a, b);
            for k in [a, b] {
                m.places[m.entries[k].fd as usize] = k as u32 + 1;
            }
        }
    }

    /// The place of the last registration with `data`, if others with data like it have not come since.
    fn by_data(&self, data: u64) -> Option<usize> {
        let m = self.memory.as_ref()?;
        let fd = (m.hints[hint(data)] as usize).checked_sub(1)?;
        let k = self.place(fd)?;
        (m.entries[k].data == data).then_some(k)
    }

    /// Adds `e`, as a hot one; where it stands.
    pub fn add(&mut self, mut e: Entry) -> usize {
        let (n, hot) = (self.n, self.hot);
        self.once += usize::from(e.once);
        self.sockets += usize::from(e.is_socket);
        self.data |= data_bit(e.data);
        if let Some(k) = self.by_data(e.data) {
            self.all()[k].alike = true;
            e.alike = true;
        }
        if let Some(m) = &mut self.memory {
            m.hints[hint(e.data)] = e.fd + 1;
            m.entries[n] = e;
            m.places[e.fd as usize] = n as u32 + 1;
            (self.n, self.hot) = (n + 1, hot + 1);
            self.swap(n, hot);
        }
        hot
    }

    /// Takes the registration in place `k` off the list.
    pub fn take(&mut self, me: &Caller, k: usize) -> Entry {
        let k = self.wake(me, k);
        let e = self.all()[k];
        self.forget(k);
        e
    }

    /// The channel of the registration in place `k` is the kernel's for good: from now on the kernel tells all of it.
    pub fn drops(&mut self, me: &Caller, k: usize) {
        let e = self.take(me, k);
        self.gone(&e);
        self.mixed = true;
    }

    /// Says of `e`, which is to be told once, whether what is told of it will be known to be: no thread is away with an
    /// event of `was`, which it replaces, or of one that was taken out.
    pub fn judge(&mut self, me: &Caller, e: &mut Entry, was: Option<(Entry, bool)>) {
        e.sure = self.waiters == 0
            || was.map_or(!self.doubt, |(was, armed)| {
                was.once && was.was_quiet(me, armed)
            });
        e.begin(me);
        if let Some((was, _)) = was {
            (e.shown, e.poor) = (was.shown, was.poor);
        }
        e.alike |= was.is_some_and(|(was, _)| was.alike && was.data == e.data);
    }

    /// A registration is gone: one that is added later by its number may have its data.
    pub fn gone(&mut self, e: &Entry) {
        self.doubt |= self.waiters > 0 && !(e.once && e.off);
    }

    /// Takes the registration in place `k` off the list, whatever it counts as.
    fn forget(&mut self, mut k: usize) {
        if k < self.hot {
            self.hot -= 1;
            self.swap(k, self.hot);
            k = self.hot;
        } else {
            self.idle_edges -= usize::from(self.all()[k].edge);
        }
        self.n -= 1;
        if self.n == 0 {
            self.data = 0;
        }
        self.swap(k, self.n);
        if let Some(m) = &mut self.memory {
            let e = &m.entries[self.n];
            self.once -= usize::from(e.once);
            self.sockets -= usize::from(e.is_socket);
            m.places[e.fd as usize] = 0;
            sets::unlists(e);
        }
    }

    /// The registration in place `k` is hot and not armed from now on; where it stands then.
    pub fn wake(&mut self, me: &Caller, mut k: usize) -> usize {
        if k >= self.hot {
            self.swap(k, self.hot);
            k = self.hot;
            self.hot += 1;
            self.idle_edges -= usize::from(self.all()[k].edge);
        }
        let e = &mut self.all()[k];
        e.looks = 0;
        e.calm = false;
        if core::mem::take(&mut e.armed) {
            match e.channel(me) {
                Some(ch) => ready::disarm(me, ch),
                None => unmatched::leaves(e.slot as usize),
            }
        }
        k
    }

    /// Nothing is armed.
    pub fn wake_all(&mut self, me: &Caller) {
        for k in (0..self.n).rev() {
            self.wake(me, k);
        }
    }

    /// Nothing is armed, in a child that has come by fork: what is armed is its parent's.
    pub fn enter_child(&mut self) {
        (self.hot, self.idle_edges) = (self.n, 0);
        self.all().iter_mut().for_each(|e| e.armed = false);
    }

    /// Whether one by edge has what was told and not read: an end is told with it.
    pub fn has_unread(&mut self) -> bool {
        self.hot().iter().any(|e| e.unread)
    }

    /// Whether what the kernel tells must be seen: of idle ones by edge, of those that are told once, and of sockets.
    pub fn hears(&self) -> bool {
        self.idle_edges > 0 || self.once > 0 || self.sockets > 0
    }

    /// What is to be told besides `shown` of `data`, if that is of a socket whose other end was killed before it had read all.
    pub fn reset_bits(&mut self, me: &Caller, data: u64, shown: u32) -> u32 {
        let k = self.by_data(data).filter(|_| self.sockets > 0);
        k.map_or(0, |k| {
            // LINUX epoll_ctl(2): the events of poll(2) have the same bits.
            u32::from(message::reset_bits(me, self.all()[k].fd as usize, shown as i16) as u16)
        })
    }

    /// What a call that waits need not do.
    pub fn quiet(&self) -> Quiet {
        match (self.hot, self.hears()) {
            (0, false) => Quiet::All,
            (0, true) => Quiet::Before,
            _ => Quiet::No,
        }
    }

    /// The channels that a call waits to read from, but for idle ones; none, if their next bytes may come by the kernel alone.
    pub fn hot_readers(&mut self, me: &Caller) -> Readers {
        let mut all = Readers::NONE;
        for e in self.hot().iter().filter(|e| e.asks(asked::IN) != 0) {
            match e.channel(me) {
                Some(_) if !e.may_wait_awake(me) => return Readers::NONE,
                Some(ch) => all.add(e.slot, ch),
                None => {}
            }
        }
        all
    }

    /// The pipes of the set are the kernel's from now on, and the set with them.
    pub fn give_up(&mut self, me: &Caller) {
        while let Some(k) = self.n.checked_sub(1) {
            let e = self.take(me, k);
            // Of what a child inherits it may have closed some.
            let end = fdtable::endpoint(e.fd as usize);
            if end.is_some_and(|end| end.slots().any(|i| i == e.slot as usize)) {
                exec::give_up(e.fd as usize, Reason::Readiness, false);
            }
        }
        while let Some(fd) = self.numbers.one() {
            fdtable::set_plain(fd);
            self.numbers.drop(fd);
        }
        self.leave();
    }
}
