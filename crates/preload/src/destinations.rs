//! Where this process's UDP sockets send to: of each pair of socket and name, the inbox that the kernel would deliver to.
//!
//! Invariant: what stands here is looked at under one lock, by the thread that sends; it is believed for `FRESH_US`, and then the
//! kernel is asked again. A send of the same socket that went by the kernel comes first (`follows`).
//! Not here: the send itself (udp.rs).
use crate::bits::Bits;
use crate::fdtable;
use byway_mem::registry;
use byway_pipe::Caller;
use byway_pipe::channel::Channel;
use byway_pipe::datagram::{self, Sender};
use byway_pipe::lock::Patience;
use byway_pipe::policy::per_us;
use byway_pipe::reason::Reason;
use byway_sys::socket::AF_INET;
use byway_sys::tcp::{Name, Names};
use byway_sys::{clock, diag, file, process, udp};
use core::cell::UnsafeCell;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// For so long the kernel's word is believed, us.
const FRESH_US: u64 = 5000;
/// Sends after which the kernel is asked for the first time; then four times as many, up to `LAST`.
const FIRST: u32 = 64;
const LAST: u32 = 1 << 16;
const PLACES: usize = 1024;

#[derive(Clone, Copy)]
struct Destination {
    /// Plus one; 0: the place is free.
    fd: u32,
    /// `None`: the socket is connected.
    to: Option<(usize, Name)>,
    names: Names,
    sends: u32,
    asks_at: u32,
    /// The slot of the receiver's inbox plus one, and the inode number of the receiver.
    slot: u32,
    inode: u64,
    dev: u64,
    sender: Sender,
    asked: u64,
    /// How many of the receiver's descriptors had been closed then (`datagram::closes`).
    closes: u32,
    /// The last one went by the ring.
    by_ring: bool,
    /// How often the socket had sent by the kernel then (`datagram::kernel_sends`).
    before: u64,
    /// Where the head was when the inbox was full for long, plus one.
    full_at: u64,
}

const NONE: Destination = Destination {
    fd: 0,
    to: None,
    names: Names {
        family: 0,
        own: Name::NONE,
        peer: Name::NONE,
    },
    sends: 0,
    asks_at: 0,
    slot: 0,
    inode: 0,
    dev: 0,
    sender: Sender {
        pid: 0,
        inode: 0,
        family: 0,
        name: Name::NONE,
    },
    asked: 0,
    closes: 0,
    by_ring: false,
    before: 0,
    full_at: 0,
};

struct All {
    /// The thread that has the places; 0: none.
    owner: AtomicU32,
    places: UnsafeCell<[Destination; PLACES]>,
}
// SAFETY: the places are used by the owner alone.
unsafe impl Sync for All {}
static ALL: All = All {
    owner: AtomicU32::new(0),
    places: UnsafeCell::new([NONE; PLACES]),
};

/// A forked child begins, with one thread, and a process number of its own.
pub fn enter_child() {
    if !SENDS.any() {
        return;
    }
    ALL.owner.store(0, Relaxed);
    let pid = process::getpid();
    each(|place| place.sender.pid = pid);
}

/// Descriptors that have places.
const SENDS: Bits = Bits::Sends;

fn each(does: impl Fn(&mut Destination)) {
    let held = crate::io::me().and_then(|me| Held::take(&me));
    if held.is_some() {
        // SAFETY: held.
        unsafe { (*ALL.places.get()).iter_mut().for_each(does) };
    }
}

/// The sockets are about to be another's, or another program's: what they have in rings comes before what that sends.
pub fn settles() {
    if !SENDS.any() {
        return;
    }
    if let Some(me) = crate::io::me_or_vfork_child() {
        each(|place| place.settles(&me));
    }
}

/// The socket with the inbox `own` is the kernel's for good: what it has in rings comes before what it sends next.
pub fn leaves(me: &Caller, own: &Channel) {
    let inode = own.facts.0.key.inode();
    if SENDS.any() {
        each(|place| {
            if place.sender.inode == inode {
                place.settles(me);
            }
        });
    }
}

/// `fd` is about to be closed.
pub fn closes(fd: usize) {
    if SENDS.take(fd) {
        each(|place| {
            if place.fd == fd as u32 + 1 {
                *place = NONE;
            }
        });
    }
}

/// The places are this thread's until it is dropped.
struct Held(Option<byway_sys::signal::Held>);

impl Held {
    /// `None`: this is a handler over the thread that has them.
    fn take(me: &Caller) -> Option<Held> {
        let signals = me.hold_signals();
        let mut patience = Patience::new();
        // ORDER: what the owner before has done is seen.
        while let Err(owner) = ALL.owner.compare_exchange(0, me.tid, Acquire, Relaxed) {
            if owner == me.tid {
                return None;
            }
            patience.wait(me);
        }
        Some(Held(signals))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // ORDER: what was done comes before the next owner.
        ALL.owner.store(0, Release);
        self.0.take();
    }
}

/// One destination, while a send to it is made.
pub struct Place {
    at: &'static mut Destination,
    _held: Held,
}

/// That of a send of `fd` to `to`, or to the name that it is connected to. `None`: by the kernel.
///
/// `asks`: the socket has sent into a ring, by another number or for a name that has no place any more.
pub fn of(me: &Caller, fd: usize, to: Option<(usize, Name)>, asks: bool) -> Option<Place> {
    let held = Held::take(me)?;
    if !SENDS.has(fd) {
        SENDS.add(fd);
    }
    let port = to.map_or(0, |(_, name)| usize::from(name.port));
    let first = fd.wrapping_mul(31).wrapping_add(port) % PLACES;
    // SAFETY: held, until the place is dropped.
    let places = unsafe { &mut *ALL.places.get() };
    let mut at = first;
    for k in 0..4 {
        let i = (first + k) % PLACES;
        let is = places[i].fd == fd as u32 + 1 && places[i].to == to;
        if is || places[i].fd == 0 {
            at = i;
            break;
        }
    }
    let place = &mut places[at];
    if place.fd != fd as u32 + 1 || place.to != to {
        *place = Destination {
            fd: fd as u32 + 1,
            to,
            asks_at: if asks { 1 } else { FIRST },
            ..NONE
        };
    }
    Some(Place {
        at: place,
        _held: held,
    })
}

impl Destination {
    /// What it has in a ring comes before what it sends by the kernel: that is read, or else the inbox is handed back.
    fn settles(&mut self, me: &Caller) {
        if let Some(ch) = self.known(me).filter(|_| self.by_ring)
            && !datagram::awaits_empty(me, ch)
            && self.is_received()
        {
            datagram::leaves(me, ch, Some(self.names.peer), Reason::Full);
        }
        self.by_ring = false;
    }
    /// Whether the socket with the inbox receives still: another one may have the name by now.
    fn is_received(&self) -> bool {
        // An inherited filter may end the process for such a call.
        let fd = self.fd as usize - 1;
        !process::is_filtered() && udp::receiver(fd, &self.names) == Some(self.inode)
    }
    /// The inbox as it was found last, if it is one still.
    fn known(&self, me: &Caller) -> Option<&'static Channel> {
        let ch = Channel::at(me.domain, (self.slot as usize).checked_sub(1)?)?;
        let is = ch.facts.0.key.is(self.dev, self.inode) && ch.is_inbox() && !ch.is_kernels();
        is.then_some(ch)
    }
}

impl Place {
    /// The inbox that the kernel would deliver to, if that is known. Counts a send.
    pub fn inbox(&mut self, me: &Caller) -> Option<&'static Channel> {
        let at = &mut *self.at;
        at.sends = at.sends.saturating_add(1);
        if at.slot == 0 && (at.sends < at.asks_at || at.asks_at > LAST) {
            return None;
        }
        let now = clock::now();
        let is_fresh = now.wrapping_sub(at.asked) < FRESH_US * per_us(me);
        let is_there = |ch: &&Channel| is_fresh && datagram::closes(ch) == at.closes;
        let found = match at.known(me).filter(is_there) {
            None if self.asks(me, now) => self.at.known(me),
            found => found,
        };
        if found.is_none() && self.at.slot != 0 {
            self.forgets();
        }
        found
    }

    /// Asks the kernel who receives. False: nobody that takes part.
    fn asks(&mut self, me: &Caller, now: u64) -> bool {
        let was = (self.at.slot, self.at.inode);
        let known = self.at.known(me);
        // Of a close from here on is asked once more.
        let closes = known.map_or(0, datagram::closes);
        let before = known.filter(|_| self.at.by_ring);
        let found = self.found(me);
        let at = &mut *self.at;
        (at.asked, at.closes) = (now, closes);
        match found {
            Some((slot, inode, dev)) if (slot as u32 + 1, inode) == was => at.dev = dev,
            Some((slot, inode, dev)) => {
                (at.slot, at.inode, at.dev) = (slot as u32 + 1, inode, dev);
                at.by_ring = false;
                if was.0 == 0 {
                    self.has_others_ask();
                }
                let at = &mut *self.at;
                if let Some(ch) = Channel::at(me.domain, slot) {
                    at.closes = datagram::closes(ch);
                    ch.used_by(process::name(), true);
                }
            }
            None => self.forgets(),
        }
        if (self.at.slot, self.at.inode) != was
            && let Some(ch) = before
        {
            let _ = datagram::awaits_empty(me, ch);
        }
        self.at.slot != 0
    }

    /// The socket may send there by another descriptor, which counts its sends, too: one by the kernel would overtake what this has
    /// in the ring.
    fn has_others_ask(&mut self) {
        let this = &raw mut *self.at;
        let first = ALL.places.get().cast::<Destination>();
        // Of one socket, by whichever descriptor, the inbox is one.
        let own = |fd: u32| fdtable::known((fd as usize).checked_sub(1)?);
        let inbox = own(self.at.fd);
        for i in 0..PLACES {
            let other = first.wrapping_add(i);
            if other == this {
                continue;
            }
            // SAFETY: held; this one is left out.
            let other = unsafe { &mut *other };
            if other.fd != 0 && other.slot == 0 && other.to == self.at.to && own(other.fd) == inbox
            {
                other.asks_at = other.sends;
            }
        }
    }

    fn found(&mut self, me: &Caller) -> Option<(usize, u64, u64)> {
        let at = &mut *self.at;
        let fd = at.fd as usize - 1;
        // An inherited filter may end the process for such a call.
        if process::is_filtered() {
            return None;
        }
        let to = match at.to {
            Some(to) => to,
            None => Name::peer(fd)?,
        };
        at.names = udp::names(fd, to)?;
        let is_new = at.slot == 0;
        if is_new && (udp::may_be_translated() || diag::is_shaped()) {
            return None;
        }
        let inode = udp::receiver(fd, &at.names)?;
        let own = file::identity(fd)?;
        at.sender = Sender {
            pid: process::getpid(),
            inode: own.ino,
            family: at.names.family as u16,
            name: at.names.own,
        };
        let slot = registry::find(me.domain, own.dev, inode)?;
        let is = |ch: &&Channel| ch.is_inbox() && !ch.forever();
        Channel::at(me.domain, slot).filter(is)?;
        Some((slot, inode, own.dev))
    }

    fn forgets(&mut self) {
        let at = &mut *self.at;
        at.slot = 0;
        at.by_ring = false;
        at.asks_at = at.sends.saturating_add(at.asks_at.saturating_mul(3));
    }

    pub fn sender(&self) -> &Sender {
        &self.at.sender
    }
    /// Whether something of the socket with the inbox `own` is, or may be, in the kernel's queue of the receiver.
    pub fn follows(&self, own: &Channel) -> bool {
        !self.at.by_ring || self.at.before != datagram::kernel_sends(own)
    }
    /// The most bytes of a datagram on this way.
    ///
    /// LINUX udp(7): with IPv4 its header counts, too.
    pub fn most(&self) -> usize {
        match self.at.names.family {
            AF_INET => udp::MOST - 20,
            _ => udp::MOST,
        }
    }
    /// Its name.
    pub fn receiver(&self) -> Name {
        self.at.names.peer
    }
    pub fn goes_by_kernel(&mut self, own: &Channel) {
        datagram::sends_by_kernel(own);
        self.at.by_ring = false;
    }
    pub fn went_by_ring(&mut self, own: &Channel) {
        (self.at.by_ring, self.at.before) = (true, datagram::kernel_sends(own));
        self.at.full_at = 0;
    }
    /// Whether the inbox was full for long where its head was at `r`.
    pub fn is_dropping(&self, r: u64) -> bool {
        self.at.full_at == r + 1
    }
    pub fn drops(&mut self, r: u64) {
        self.at.full_at = r + 1;
    }
}
