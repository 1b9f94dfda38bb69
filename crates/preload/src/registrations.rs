//! The carried pipes of one epoll set, and which of them are armed.
//!
//! ```text
//! hot:  a call that waits looks at it, arms it, and disarms it when it comes back
//!   --> had nothing for some such calls --> idle: stays armed, so the kernel tells of its next byte
//!   --> this process reads from it --> hot
//! ```
//! Invariant: hot registrations stand before idle ones; an idle one is armed. By edge, an event that the kernel does not
//! tell is told by us, or the pipe is handed back: none is lost. One may be told twice.
//! unsafe: reaches into its own memory, below the number of registrations.
//! Not here: which sets there are, and epoll_ctl(2) (sets.rs); the call that waits (set_wait.rs).
use crate::{asked, exec, fdtable, sets};
use byway_pipe::channel::Channel;
use byway_pipe::read::Armed;
use byway_pipe::ready::{self, Sight};
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, handback};
use byway_sys::errno::failed;
use byway_sys::file::{self, POLLOUT};
use byway_sys::syscall::{call3, call6, nr};

/// So many looks find nothing before a registration is idle: its next byte comes by the kernel lane, which takes as long
/// as the kernel's own.
const IDLE_AFTER: u8 = 8;
/// So many hot ones are looked at by each call, whatever they have.
const FEW: usize = 16;

/// A registration of a carried pipe.
#[derive(Clone, Copy)]
pub struct Entry {
    pub fd: u32,
    pub slot: u32,
    /// Of what is asked, that which the end can have.
    pub events: u32,
    pub data: u64,
    /// EPOLLET.
    pub edge: bool,
    /// Of it all is to be told that is so: it was added or changed.
    pub fresh: bool,
    /// By edge: a write was told that there is no room, and room is to be told.
    pub blocked: bool,
    /// Whether it counts as a reader that sleeps.
    armed: bool,
    /// Looks in a row that found nothing.
    looks: u8,
    /// What is true, asked for, and not told by the kernel.
    pub hidden: u32,
    /// By edge: the ring has something to read, told or not.
    pub unread: bool,
    /// Where the stream ended when the last event was told, and at the last look.
    told: u64,
    at: u64,
}

impl Entry {
    pub fn of(fd: usize, slot: usize, events: u32, edge: bool, data: u64) -> Entry {
        Entry {
            fd: fd as u32,
            slot: slot as u32,
            events,
            data,
            edge,
            fresh: true,
            blocked: false,
            armed: false,
            looks: 0,
            hidden: 0,
            unread: false,
            told: 0,
            at: 0,
        }
    }

    /// The bits of `bits` that are asked for.
    pub fn asks(&self, bits: i16) -> u32 {
        self.events & u32::from(bits as u16)
    }

    /// Whether it had nothing for long.
    fn rests(&self) -> bool {
        self.hidden == 0 && !self.unread && self.looks >= IDLE_AFTER && self.asks(asked::OUT) == 0
    }

    fn channel(&self, me: &Caller) -> Option<&'static Channel> {
        Channel::at(me.domain, self.slot as usize)
    }

    /// What is true of it and asked for, and what the kernel does not tell of its descriptor. A writer without room finds
    /// its kernel lane full afterwards, so that the kernel tells of room when there is some.
    fn look(&mut self, me: &Caller) -> u32 {
        let Some(ch) = self.channel(me).filter(|ch| !ch.is_kernels()) else {
            return 0;
        };
        let fd = self.fd as usize;
        let mut bits = 0;
        if self.asks(asked::IN) != 0 {
            ready::await_rest(me, ch);
            let end = ready::end(ch);
            self.looks = match end == self.at {
                true => self.looks.saturating_add(1),
                false => 0,
            };
            self.at = end;
            self.unread = self.edge && ready::has_unread(ch, end);
            let hidden = match self.edge {
                true => self.unread && (end != self.told || self.fresh),
                false => ready::is_hidden(ch, fd),
            };
            if hidden {
                bits |= self.asks(asked::IN);
            }
        }
        if self.asks(asked::OUT) != 0 && self.owes_room(me, ch) {
            bits |= self.asks(asked::OUT);
        }
        bits
    }

    /// Whether there is room of which the kernel does not tell.
    fn owes_room(&mut self, me: &Caller, ch: &Channel) -> bool {
        if self.edge && !self.blocked && !self.fresh {
            return false;
        }
        let fd = self.fd as usize;
        if !ready::is_writable(me, ch, fd) && ready::arm_writer(me, ch, fd) {
            // The kernel lane is full: it makes an event of the room.
            self.blocked = false;
            return false;
        }
        self.edge && self.blocked || file::poll1(fd, POLLOUT, 0).1 & POLLOUT == 0
    }

    /// Its event is told.
    pub fn tell(&mut self) {
        (self.told, self.fresh, self.blocked) = (self.at, false, false);
        self.looks = 0;
    }
}

/// A set's registrations, and who waits for the set. All zeros is an empty one.
pub struct List {
    memory: Option<&'static mut Memory>,
    n: usize,
    /// So many of them are hot; and of the others so many by edge.
    hot: usize,
    idle_edges: usize,
    /// The set's descriptors; none: nobody has this place.
    pub numbers: Numbers,
    /// Whether the set has had a registration that is in no list.
    pub mixed: bool,
    /// The thread that waits.
    pub waiter: u32,
    /// Moves with every set that has the place.
    pub life: u32,
    /// Where the next answer begins, so that each has its turn.
    pub first: usize,
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
        self.0.iter().find(|n| **n != 0).map(|n| *n as usize - 1)
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

impl List {
    pub const EMPTY: List = List {
        memory: None,
        n: 0,
        hot: 0,
        idle_edges: 0,
        numbers: Numbers::NONE,
        mixed: false,
        waiter: 0,
        life: 0,
        first: 0,
    };

    /// The list becomes that of set `fd`. False: there is no memory for it.
    pub fn begin(&mut self, fd: usize) -> bool {
        self.memory = Memory::new();
        if self.memory.is_some() {
            self.numbers.add(fd);
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
        (self.numbers, self.mixed, self.waiter) = (Numbers::NONE, false, 0);
        self.life = self.life.wrapping_add(1);
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

    /// Adds `e`, as a hot one; where it stands.
    pub fn add(&mut self, e: Entry) -> usize {
        let (n, hot) = (self.n, self.hot);
        if let Some(m) = &mut self.memory {
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
        self.swap(k, self.n);
        if let Some(m) = &mut self.memory {
            let e = &m.entries[self.n];
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
        if core::mem::take(&mut e.armed)
            && let Some(ch) = e.channel(me)
        {
            ready::disarm(me, ch);
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
        self.waiter = 0;
        (self.hot, self.idle_edges) = (self.n, 0);
        self.all().iter_mut().for_each(|e| e.armed = false);
    }

    /// Looks at what the kernel does not tell. Whether there is anything.
    pub fn look(&mut self, me: &Caller) -> bool {
        let mut any = false;
        for k in (0..self.hot).rev() {
            let e = &mut self.all()[k];
            e.hidden = e.look(me);
            any |= e.hidden != 0;
            if self.hot > FEW && self.all()[k].rests() && self.arm(me, k, false) {
                self.idles(k);
            }
        }
        any
    }

    /// The hot registration in place `k` is idle from now on, if it is armed.
    fn idles(&mut self, k: usize) {
        let e = self.all()[k];
        // A FIFO's outsiders come by the kernel lane at any time, and its service counts who sleeps.
        if e.armed {
            self.hot -= 1;
            self.swap(k, self.hot);
            self.idle_edges += usize::from(e.edge);
        }
    }

    /// Looks at registration `k` alone.
    pub fn look_at(&mut self, me: &Caller, k: usize) -> u32 {
        self.all()[k].look(me)
    }

    /// Arms all that are not, where the kernel was `asked` before; those whose pipes are the kernel's for good leave the list. False: something is there by
    /// now, and nothing of what this has armed is armed.
    pub fn arm_all(&mut self, me: &Caller, asked: bool) -> bool {
        for k in (0..self.hot).rev() {
            if self.all()[k].channel(me).is_none_or(Channel::is_kernels) {
                self.forget(k);
                self.mixed = true;
            } else if !self.arm(me, k, asked) {
                self.disarm_hot(me);
                return false;
            }
        }
        true
    }

    /// Arms the hot registration in place `k`, if it asks for something to read. False: there is something.
    pub fn arm(&mut self, me: &Caller, k: usize, asked: bool) -> bool {
        let e = self.all()[k];
        let Some(ch) = e.channel(me) else { return true };
        if e.asks(asked::IN) == 0 {
            return true;
        }
        let mut sight = ready::arm(me, ch, e.fd as usize, &mut { Armed::NOT });
        if sight == Sight::Bytes {
            let end = ready::end(ch);
            if !e.edge || (end != e.told || e.fresh) && ready::has_unread(ch, end) {
                return false;
            }
            // The kernel lane has bytes, and the kernel may be about to tell of them.
            if !asked {
                return false;
            }
            // Of what is unread all was told, and the ring does not tell of more.
            sight = ready::settle(me, ch, e.fd as usize, &mut { Armed::NOT });
        }
        let end = ready::end(ch);
        let e = &mut self.all()[k];
        e.armed = sight == Sight::Armed;
        // The kernel tells of what it has, and of what comes.
        (e.told, e.fresh) = (end, false);
        true
    }

    /// Hands the pipe of registration `k` back until its traffic pays again: so the kernel tells of it.
    pub fn leave_to_kernel(&mut self, me: &Caller, k: usize) {
        let e = self.all()[k];
        if let Some(ch) = e.channel(me) {
            handback::hand_back(me, ch, e.fd as usize, false, Reason::Readiness);
        }
    }

    fn disarm_hot(&mut self, me: &Caller) {
        for k in 0..self.hot {
            let looks = self.all()[k].looks;
            self.wake(me, k);
            self.all()[k].looks = looks;
        }
    }

    /// Whether one by edge has what was told and not read: an end is told with it.
    pub fn has_unread(&mut self) -> bool {
        self.hot().iter().any(|e| e.unread)
    }

    /// Whether an idle one is by edge: what the kernel tells of it must be seen.
    pub fn has_idle_edges(&self) -> bool {
        self.idle_edges > 0
    }

    /// The kernel has told `data`. By edge it tells once of a byte in the kernel lane, and of no byte of the ring behind it.
    pub fn told(&mut self, me: &Caller, data: u64) {
        for k in self.hot..self.n {
            if self.idle_edges == 0 {
                return;
            }
            let e = self.all()[k];
            if e.edge && e.data == data {
                self.wake(me, k);
            }
        }
    }

    /// The call that waited has come back: what had nothing for long stays armed.
    pub fn comes_home(&mut self, me: &Caller) {
        for k in (0..self.hot).rev() {
            let e = self.all()[k];
            if !e.armed {
                continue;
            }
            let ch = e.channel(me);
            let told = ch.is_none_or(ready::is_told);
            if !told && e.rests() && !ch.is_some_and(Channel::is_fifo) {
                self.idles(k);
            } else {
                let k = self.wake(me, k);
                self.all()[k].looks = if told { 0 } else { e.looks };
            }
        }
    }

    /// The slot of the one pipe that a call waits to read from.
    pub fn only_reader(&mut self) -> Option<usize> {
        if self.hot != self.n {
            return None;
        }
        let mut readers = self.hot().iter().filter(|e| e.asks(asked::IN) != 0);
        let one = readers.next()?;
        readers.next().is_none().then_some(one.slot as usize)
    }

    /// The pipes of the set are the kernel's from now on, and the set with them.
    pub fn give_up(&mut self, me: &Caller) {
        while let Some(k) = self.n.checked_sub(1) {
            let e = self.take(me, k);
            // Of what a child inherits it may have closed some.
            if fdtable::channel(e.fd as usize) == Some(e.slot as usize) {
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
