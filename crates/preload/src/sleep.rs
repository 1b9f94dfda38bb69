//! Waiting in poll and select for carried pipes: each of them is armed, and the caller's own call sleeps.
//!
//! ```text
//! begin: a reader with nothing to read is armed (I4), a writer without room finds its kernel lane full
//!   --> the caller's own call: what comes is told by the kernel lane --> end: what was armed is disarmed
//! ```
//! Invariant: while that call sleeps, what the kernel says of each pipe that it names is true of the channel: the channel is the kernel's, or
//! its next byte or room comes by the kernel lane. So its answer is the caller's. A call that names too many, or many in vain,
//! arms none: its pipes are handed back for good (ADR 48).
//! Not here: calls that need not wait (ready.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::{asked, fdtable, io, message, ready, sets, udp, unmatched};
use byway_mem::layout::CHANNELS_MOST;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Iov, VECTORS};
use byway_pipe::read::Armed;
use byway_pipe::ready::{Sight, arm, arm_writer, disarm};
use byway_pipe::wait::{Came, Readers};
use byway_pipe::{Caller, policy};
use byway_sys::signal::Enders;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// In `Frame::kind`.
pub const SLEEP: usize = 22;
/// So many readers are armed for one call. With more of them the kernel's own poll takes less.
const MOST: usize = 32;
/// So many pipes are armed by calls that name no ring, though there were some: too many. One of fewer than `FEW` costs little.
const IN_VAIN: u32 = 512;
const FEW: usize = 8;
/// How many they are by now; of each call that which wakes it does not count.
#[unsafe(link_section = ".data")]
static ARMED_IN_VAIN: AtomicU32 = AtomicU32::new(0);
/// Their slots, which are remembered where other calls have their buffers.
type Slots = [u16; MOST];
/// In a slot: that which an unmatched socket writes to.
const UNMATCHED: u16 = 1 << 15;
const _: () = assert!(CHANNELS_MOST <= UNMATCHED as usize);
const _: () = assert!(size_of::<Slots>() <= size_of::<[Iov; VECTORS]>());

pub enum Begun {
    /// Its answer to the entry code: the caller's own call waits.
    Waits(u32),
    /// Something is ready, or the call does not wait.
    Ready,
    /// A handler has ended it.
    Ended,
    /// More than can be armed, or too many in vain, or arguments that the kernel refuses.
    No,
}

/// Makes call `f` ready to sleep.
pub fn begin(f: &mut Frame) -> Begun {
    match ready::waits(f) {
        Some(true) => {}
        Some(false) if names_none(f) => return Begun::Waits(kernels(f)),
        Some(false) => return Begun::Ready,
        None => return Begun::No,
    }
    let mut list = List {
        slots: [0; MOST],
        n: 0,
        has_cold: false,
    };
    let mut begun = Begun::Waits(RUN);
    let Some(me) = io::me() else { return begun };
    let only = only_reader(f).filter(|_| ready::may_spin(f, &me));
    let known = asked::each(f, |fd, events| {
        if ready::is_kernels(fd) {
            list.has_cold |= udp::is_cold(fd);
            return true;
        }
        // In this order: one that was matched in between, and that neither found, would be waited for uncounted.
        if let Some(slot) = fdtable::endpoint(fd).and_then(|end| end.unmatched()) {
            begun = list.add_unmatched(slot as u16, fd);
        } else if let Some((ch, slot)) = ready::channel_by(&me, fd) {
            begun = list.add(&me, ch, slot as u16, fd, events, only == Some(fd));
        }
        matches!(begun, Begun::Waits(_))
    });
    match begun {
        Begun::Waits(_) if known && list.is_in_vain(&me) => {
            list.disarm();
            return Begun::No;
        }
        Begun::Waits(_) if known && (list.n > 0 || list.has_cold) => {
            // SAFETY: both are integers without padding, and the one is as long as the other at least.
            unsafe { (&raw mut f.iov).cast::<Slots>().write(list.slots) };
            f.vectors = list.n;
            f.done = usize::from(list.has_cold);
            if list.has_cold {
                udp::begins_wait();
            }
            return Begun::Waits(io::own(f, SLEEP));
        }
        Begun::Waits(_) if known => return Begun::Waits(kernels(f)),
        _ => list.disarm(),
    }
    match known {
        true => begun,
        false => Begun::No,
    }
}

/// The answer to the entry code where nothing is armed: the call is the kernel's, but for what `ready::tells_resets` adds.
fn kernels(f: &mut Frame) -> u32 {
    if !message::is_used() {
        return RUN;
    }
    (f.vectors, f.done) = (0, 0);
    io::own(f, SLEEP)
}

/// After the caller's own call.
pub fn end(f: &mut Frame) -> u32 {
    if !io::is_made_here(f) {
        return DONE;
    }
    if f.done != 0 {
        udp::ends_wait();
    }
    // SAFETY: `begin` has written it.
    let slots = unsafe { (&raw const f.iov).cast::<Slots>().read() };
    List {
        slots,
        n: f.vectors,
        has_cold: false,
    }
    .disarm();
    ready::tells_resets(f);
    DONE
}

/// Waits awake for something to read, as far as that is cheap.
///
/// LINUX signal(7): a handler ends such a call with EINTR, whatever its SA_RESTART.
pub fn spins(me: &Caller, readers: &Readers) -> Came {
    let enders = if me.handlers {
        Enders::All
    } else {
        Enders::None
    };
    let me = &Caller {
        spin: true,
        enders,
        ..*me
    };
    readers.wait(me)
}

/// Whether the kernel tells all of what call `f` names.
fn names_none(f: &Frame) -> bool {
    let mut none = true;
    let known = asked::each(f, |fd, _| {
        none = ready::is_kernels(fd);
        none
    });
    known && none
}

/// The carried descriptor that call `f` waits to read from, if there is one only.
fn only_reader(f: &Frame) -> Option<usize> {
    let mut found = None;
    let mut n = 0;
    asked::each(f, |fd, events| {
        if events & asked::IN != 0 && !ready::is_kernels(fd) {
            found = Some(fd);
            n += 1;
        }
        n < 2
    });
    found.filter(|_| n == 1)
}

/// The channels whose readers are armed.
struct List {
    slots: Slots,
    n: usize,
    /// A UDP socket without an inbox is among what it waits for.
    has_cold: bool,
}

impl List {
    fn add(
        &mut self,
        me: &Caller,
        ch: &Channel,
        slot: u16,
        fd: usize,
        events: i16,
        only: bool,
    ) -> Begun {
        let has = self.slots[..self.n].contains(&slot);
        if events & asked::IN != 0 && fdtable::fits(fd, false) && !has {
            if self.n == MOST {
                return Begun::No;
            }
            sets::reads(me, ch, fd);
            if only {
                let mut readers = Readers::NONE;
                readers.add(u32::from(slot), ch);
                match spins(me, &readers) {
                    Came::Yes => return Begun::Ready,
                    Came::Signal => return Begun::Ended,
                    Came::No => {}
                }
            }
            match arm(me, ch, fd, &mut { Armed::NOT }) {
                Sight::Armed => {
                    self.slots[self.n] = slot;
                    self.n += 1;
                }
                Sight::Bytes => return Begun::Ready,
                Sight::Kernels => {}
            }
        }
        if events & asked::OUT != 0 && fdtable::fits(fd, true) && !arm_writer(me, ch, fd) {
            return Begun::Ready;
        }
        Begun::Waits(RUN)
    }

    /// A socket that does not know its other end.
    fn add_unmatched(&mut self, slot: u16, fd: usize) -> Begun {
        if self.slots[..self.n].contains(&(slot | UNMATCHED)) {
            return Begun::Waits(RUN);
        }
        if self.n == MOST {
            return Begun::No;
        }
        sets::reads_unmatched(fd, slot.into());
        if !unmatched::enters(slot as usize) {
            // It does by now: the call begins anew.
            return Begun::Ready;
        }
        self.slots[self.n] = slot | UNMATCHED;
        self.n += 1;
        Begun::Waits(RUN)
    }

    /// Those that are matched: the other slots are none of a channel's.
    fn channels(&self, me: &Caller) -> impl Iterator<Item = &'static Channel> {
        let slots = self.slots[..self.n].iter().copied();
        slots.filter_map(|slot| Channel::at(me.domain, slot as usize))
    }

    /// Whether it is one call too many for nothing.
    fn is_in_vain(&self, me: &Caller) -> bool {
        if self.n < FEW {
            return false;
        }
        let others = match self.channels(me).any(|ch| !ch.tail().closed()) {
            true => 0,
            false if !self.channels(me).any(policy::was_left) => return false,
            false => ARMED_IN_VAIN.load(Relaxed) + self.n as u32 - 1,
        };
        ARMED_IN_VAIN.store(others % IN_VAIN, Relaxed);
        others >= IN_VAIN
    }

    fn disarm(&self) {
        let Some(me) = io::me() else { return };
        for &slot in &self.slots[..self.n] {
            if slot & UNMATCHED != 0 {
                unmatched::leaves((slot & !UNMATCHED) as usize);
                continue;
            }
            if let Some(ch) = Channel::at(me.domain, slot as usize) {
                disarm(&me, ch);
            }
        }
    }
}
