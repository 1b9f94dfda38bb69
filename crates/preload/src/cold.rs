//! An end of a connection with a name before it has a channel: its calls are counted in the table of descriptors, so that a short
//! connection costs next to nothing.
//!
//! ```text
//! connect, accept --> cold --> some calls, or one that may share it --> unmatched (unmatched.rs)
//!                          --> with a second thread also one that waits for it, or asks
//! ```
//! Invariant: this process alone has a cold end, by one number. It gets a channel while no call that moves bytes is under way
//! on it: the channel could not count that one. An end that cannot wait for this has none for good.
//! Not here: what becomes of it then.
use crate::bits::Bits;
use crate::brief::{self, Origin};
use crate::entry::{DONE, Frame};
use crate::fdtable::{COLD, COLD_FROM};
use crate::{attach, exec, fdtable, give_up, io, message, udp, unmatched, watched};
use byway_mem::registry;
use byway_pipe::channel::{Channel, Holders};
use byway_pipe::lock::Patience;
use byway_pipe::reason::Reason;
use byway_pipe::{birth, peer, tcp};
use byway_sys::errno::Ret;
use byway_sys::syscall::nr;
use byway_sys::{file, process, socket};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// In `Frame::kind`.
pub const CALL: usize = 30;
/// So many calls run before an end has a channel. One that moves much counts as one more for each `MUCH` bytes: an end that
/// reads all that a stream of short writes has left makes few.
const FEW: u32 = 64;
const MUCH: Ret = 32 << 10;

/// In a cold end's entry: the calls under way, those that were made, which of the ends that had the number this is, whether it
/// writes no more, and whether accept(2) made it.
const UNDER_WAY: u32 = 1 << COLD_FROM;
const MADE: u32 = UNDER_WAY << 4;
const WHICH: u32 = MADE << 7;
const SHUT: u32 = WHICH << 2;
const ACCEPTED: u32 = SHUT << 1;
const MOST: u32 = 15;
/// So many ends differ in `which`.
const WHICHES: u32 = SHUT / WHICH;

fn under_way(e: u32) -> u32 {
    (e / UNDER_WAY) & MOST
}
fn made(e: u32) -> u32 {
    (e / MADE) & 127
}
fn which(e: u32) -> u32 {
    (e / WHICH) & (WHICHES - 1)
}

/// The cold ends of this process.
const ENDS: Bits = Bits::Cold;

fn origin(e: u32) -> Origin {
    match e & ACCEPTED {
        0 => Origin::Connect,
        _ => Origin::Accept,
    }
}

/// `fd` is one from now on. Of a UDP socket nobody asks its origin.
pub fn begins(fd: usize, origin: Origin) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let which = COUNT.fetch_add(1, Relaxed) & (WHICHES - 1);
    let accepted = if origin == Origin::Accept {
        ACCEPTED
    } else {
        0
    };
    fdtable::change(fd, |_| Some(COLD + which * WHICH + accepted));
    ENDS.add(fd);
}

/// This process gets children, which have its descriptors.
pub fn forks() {
    ENDS.each(is_shared);
}

/// `fd` gets one more number, or another holder.
pub fn is_shared(fd: usize) {
    match ENDS.has(fd) {
        true if udp::is_born(fd) => takes(fd, |fd| gets_inbox(fd, true, true)),
        true => warms(fd),
        false => {}
    }
}

/// `fd` is put into a set where nobody could remember it: it gets its channel before. A UDP socket has an inbox then if it
/// serves others: of those that ask once and are closed many come and go, and an inbox would cost each as much as it asks.
pub fn joins(fd: usize) {
    match udp::is_born(fd) {
        true => takes(fd, |fd| gets_inbox(fd, udp::serves(fd), false)),
        false => warms(fd),
    }
}

/// Whether `fd` is a cold end that stays so over a call which waits for it, or asks: no other thread could give it a channel.
///
/// LINUX signal(7): a handler ends a call that waits, whatever its SA_RESTART. So what a handler does to the end no wait outlives.
pub fn stays(fd: usize) -> bool {
    fdtable::is_cold(fdtable::entry(fd)) && !io::THREADS.load(Relaxed)
}

/// `fd` is about to be closed.
pub fn closes(fd: usize) {
    let e = fdtable::entry(fd);
    if ENDS.take(fd) && fdtable::is_cold(e) && !udp::is_born(fd) {
        brief::was(origin(e));
    }
}

/// shutdown(2) of `fd`, of what it reads, if it `reads` no more, else of what it writes alone. False: that is no cold end of a
/// connection.
pub fn shuts(fd: usize, reads: bool) -> bool {
    let shut = |e| fdtable::is_cold(e).then_some(e | SHUT);
    !udp::is_born(fd)
        && match reads {
            true => stays_kernels(fd),
            false => fdtable::change(fd, shut).is_some(),
        }
}

/// The thread that gives an end its channel.
#[unsafe(link_section = ".data")]
static WARMING: AtomicU32 = AtomicU32::new(0);

/// A forked child begins, with one thread.
pub fn enter_child() {
    WARMING.store(0, Relaxed);
}

/// The cold end `fd` gets a channel, if it is of a kind that may have one.
pub fn warms(fd: usize) {
    takes(fd, goes_warm);
}

/// `fd`, if it is a cold end, never has a channel. False: it is none. One that gets its channel at this moment finds that it
/// is none any more.
pub fn stays_kernels(fd: usize) -> bool {
    let was_cold = goes(fd, None).is_some();
    if was_cold {
        ENDS.take(fd);
    }
    was_cold
}

/// The cold end `fd` is none any more, by what `does`.
fn takes(fd: usize, does: impl FnOnce(usize)) {
    let Some(me) = io::me() else { return };
    let _signals = me.hold_signals();
    let mut patience = Patience::new();
    // ORDER: what the owner before has done is seen.
    while WARMING
        .compare_exchange(0, me.tid, Acquire, Relaxed)
        .is_err()
    {
        patience.wait(&me);
    }
    if ENDS.take(fd) {
        does(fd);
    }
    // ORDER: what was done comes before the next owner.
    WARMING.store(0, Release);
}

fn goes_warm(fd: usize) {
    if udp::is_born(fd) {
        return gets_inbox(fd, made(fdtable::entry(fd)) >= FEW, false);
    }
    let is_async = || file::fcntl(fd, file::F_GETFL, 0) as usize & file::O_ASYNC != 0;
    let slot = || {
        let (d, id) = (attach::domain()?, file::identity(fd)?);
        let slot = birth::end_born(d, kind(fd)?, id, attach::run());
        let ch = slot.and_then(|i| Channel::at(d, i));
        ch.iter().for_each(|ch| ch.used_by(process::name(), true));
        slot
    };
    let slot = match socket::is_stream(fd) && !is_async() && !watched::must_wait(fd) {
        true => slot(),
        false => None,
    };
    unmatched::is_alone(fd);
    message::uses();
    let was = slot.and_then(|_| goes(fd, slot));
    if let Some(e) = was {
        brief::stays(origin(e));
        if e & SHUT != 0 {
            exec::hands_back(fd, slot, Reason::Cold);
        }
    } else {
        // Another thread is in a call that nobody could count.
        goes(fd, None);
        unmatched::is_shared(fd);
        if let (Some(d), Some(i)) = (attach::domain(), slot) {
            peer::closes(d, i);
        }
        watched::forget(fd);
    }
    watched::joins(fd);
}

/// The cold UDP socket `fd` gets an inbox, if it `may`: it has moved enough, is about to be `shared`, for whoever gets it knows,
/// or serves others in a set. One that a call waits for, or that is given away otherwise, has none for good.
fn gets_inbox(fd: usize, may: bool, shared: bool) {
    let slot = match may && !udp::must_wait(fd) && !watched::must_wait(fd) {
        true => udp::inbox_born(fd),
        false => None,
    };
    let to = slot.map_or_else(|| fdtable::unmatched_entry(None), fdtable::inbox_entry);
    let goes = |e| (fdtable::is_cold(e) && (slot.is_none() || under_way(e) == 0)).then_some(to);
    if !shared {
        unmatched::is_alone(fd);
    }
    message::uses();
    if slot.is_none() || fdtable::change(fd, goes).is_none() {
        fdtable::change(fd, |e| {
            fdtable::is_cold(e).then_some(fdtable::unmatched_entry(None))
        });
        unmatched::is_shared(fd);
        if let (Some(d), Some(i)) = (attach::domain(), slot) {
            // Nobody has found it yet.
            registry::release(d, i);
        }
        watched::forget(fd);
    }
    watched::joins(fd);
}

/// What kind of socket `fd` is; `None`: one that has no channel.
fn kind(fd: usize) -> Option<Holders> {
    match socket::protocol(fd)? {
        0 => Some(Holders::Unix),
        byway_sys::tcp::PROTOCOL => tcp::may_carry(fd).then_some(Holders::Tcp),
        _ => None,
    }
}

/// The cold end `fd` gets the channel in slot `i`, or none for good: what its entry was. `None`: a call is under way.
fn goes(fd: usize, i: Option<usize>) -> Option<u32> {
    let to = fdtable::unmatched_entry(i);
    let goes = |e| (fdtable::is_cold(e) && (i.is_none() || under_way(e) == 0)).then_some(to);
    fdtable::change(fd, goes)
}

/// A call that moves bytes, on a cold end; `None`: that is none, or it shall have a channel.
pub fn call(f: &mut Frame) -> Option<u32> {
    let fd = f.args[0];
    let begins = |e: u32| {
        let counts = made(e) < FEW;
        let waits = watched::must_wait(fd) || udp::must_wait(fd);
        let stays = counts || under_way(e) > 0 || waits;
        let may = fdtable::is_cold(e) && stays && under_way(e) < MOST;
        may.then(|| e + UNDER_WAY + if counts { MADE } else { 0 })
    };
    let which = which(fdtable::change(fd, begins)?);
    if f.nr == nr::SENDMSG {
        give_up::passes_descriptors(f);
    }
    give_up::passes_all(f);
    f.chan = which as usize;
    Some(io::own(f, CALL))
}

/// After that call.
pub fn ended(f: &Frame) -> u32 {
    // The number may be another end's by now.
    let same = |e: u32| fdtable::is_cold(e) && which(e) == f.chan as u32 && under_way(e) > 0;
    let much = (f.result.max(0) / MUCH) as u32;
    let ends = |e| {
        let more = much.min(FEW.saturating_sub(made(e)));
        same(e).then(|| e - UNDER_WAY + more * MADE)
    };
    if io::is_made_here(f) {
        fdtable::change(f.args[0], ends);
    }
    DONE
}
