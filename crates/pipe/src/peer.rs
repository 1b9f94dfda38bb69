//! The two ends of a connection of sockets with names: how each finds the other.
//!
//! ```text
//! connect, accept --> each end has its channel, and knows of no other: unmatched
//!   --> its traffic is worth a ring: the kernel names the other end --> both are matched, for the life of the connection
//! ```
//! Nothing is asked at connect or accept, so that a short connection pays next to nothing. Until both are matched all
//! bytes are the kernel's. A call at an unmatched end may sleep, and the channel that it reads from cannot count it. So
//! the end counts it itself, as long as one of both does not know the other.
//!
//! Invariant: a ring opens only where both ends are matched and no such call is under way at the end that reads: each later
//! one knows its channel. An end that an outsider may have counts one call for good.
//! Not here: sockets of socketpair(2), which are matched from the start (birth.rs).
use crate::channel::Channel;
use crate::reason::Reason;
use crate::{Caller, policy, tcp};
use byway_mem::domain::Domain;
use byway_mem::registry;
use byway_sys::diag::Diag;
use byway_sys::{clock, process};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

/// In place of the other end's inode number: none is known, or the end is closed.
const NONE: u64 = 0;
const GONE: u64 = u64::MAX;
/// In `unmatched_calls`: an outsider may read from the end.
const OUTSIDER: u32 = 1 << 31;
/// Writes of the kernel's that make it worth to ask for the other end.
pub const WORTH: u32 = 64;

/// As many after which the kernel has been asked twice, and once more may be the last time: such an other end takes no part.
const ASKED: u32 = 1 << 12;
/// If it has not come for so long, us: one that takes all that a full queue has of short writes makes few calls, and has its
/// channel late.
const COMES_US: u64 = 100_000;

/// Whether the end that writes to `ch` knows the other, which may not know it yet.
pub fn is_matched(ch: &Channel) -> bool {
    !matches!(ch.writer.0.born.load(Relaxed), NONE | GONE)
}

/// The slot that the end which writes to `ch` reads from, once each end knows the other.
pub fn reads(d: Domain, ch: &Channel) -> Option<usize> {
    let (key, born) = (&ch.facts.0.key, &ch.writer.0.born);
    // ORDER: after the count of a call (`enters`), or of no consequence; the other end's likewise.
    let other = Some(born.load(SeqCst)).filter(|ino| !matches!(*ino, NONE | GONE))?;
    let i = registry::find(d, key.dev.load(Relaxed), other)?;
    let far = Channel::at(d, i).filter(|far| far.is_socket())?;
    (far.writer.0.born.load(SeqCst) == key.inode()).then_some(i)
}

/// A call that may sleep begins at the unmatched end that writes to `ch`. False: both are matched by now.
pub fn enters(d: Domain, ch: &Channel) -> bool {
    // ORDER: the count comes before the look, as the match of both comes before the look at the count (`is_ready`).
    ch.writer.0.unmatched_calls.fetch_add(1, SeqCst);
    let unmatched = reads(d, ch).is_none();
    if !unmatched {
        leaves(ch);
    }
    unmatched
}

/// Whether some are under way, armed registrations in sets among them.
pub fn is_counted(ch: &Channel) -> bool {
    ch.writer.0.unmatched_calls.load(Relaxed) & !OUTSIDER != 0
}

/// That call has ended.
pub fn leaves(ch: &Channel) {
    // ORDER: the call comes before that it counts no more.
    ch.writer.0.unmatched_calls.fetch_sub(1, SeqCst);
}

/// The end that writes to `ch` gets a holder that takes no part: what it reads is the kernel's for good.
pub fn has_outsider(ch: &Channel) {
    // ORDER: before the look whether it is matched, for then the other channel is handed back.
    ch.writer.0.unmatched_calls.fetch_or(OUTSIDER, SeqCst);
}

/// Whether both directions of the unmatched end that writes to `ch` are the kernel's for good. One that cannot be written to any
/// more, or whose writes a ring does not take, may read from a ring yet.
pub fn is_kernels(ch: &Channel) -> bool {
    ch.is_kernels() && ch.writer.0.unmatched_calls.load(Relaxed) & OUTSIDER != 0
}

/// The end that writes to `ch` comes into being. Calls that are still counted are of threads that have not seen the end of
/// the one before.
pub(crate) fn begins(ch: &Channel) {
    ch.writer.0.unmatched_calls.fetch_and(!OUTSIDER, Relaxed);
}

/// Nobody has an end of `ch` any more.
pub fn ends(ch: &Channel) {
    ch.writer.0.unmatched_calls.store(0, Relaxed);
}

/// The unmatched end that writes to the channel in slot `i` is closed, and nobody else has it: frees the slot.
pub fn closes(d: Domain, i: usize) {
    let Some(ch) = Channel::at(d, i) else { return };
    let calls = &ch.writer.0.unmatched_calls;
    if ch.is_socket()
        && tells(ch, NONE, GONE)
        // ORDER: as in `is_ready`; a call that is counted later finds no channel to open.
        && calls.load(SeqCst) == 0
        && ch.tail().closed()
    {
        registry::release(d, i);
    }
}

/// Under the lock of `ch`, whose traffic is worth a ring: whether its ring may open. Looks for the other end, if that is not
/// known.
pub(crate) fn is_ready(me: &Caller, ch: &Channel, fd: usize) -> bool {
    if !is_matched(ch) && !matches(me, ch, fd) {
        if is_late(me, ch) {
            takes_no_part(ch);
        }
        policy::open_later(ch, Reason::OtherEnd);
        return false;
    }
    let key = &ch.facts.0.key;
    let reader = registry::find(me.domain, key.dev.load(Relaxed), ch.reading_end());
    let Some(reader) = reader.and_then(|i| Channel::at(me.domain, i)) else {
        ch.keep_closed();
        return false;
    };
    // It may be the one that has matched this end, and is about to match its own.
    if !tells(reader, NONE, key.inode()) {
        ch.keep_closed();
        return false;
    }
    // ORDER: after the match of both: a call that is not counted by now sees it.
    match reader.writer.0.unmatched_calls.load(SeqCst) {
        0 => true,
        OUTSIDER.. => {
            ch.keep_closed();
            false
        }
        _ => {
            policy::ask_soon(&ch.writer);
            false
        }
    }
}

/// The other end of that which writes to `ch` was asked for in vain: whether that was the last time.
fn is_late(me: &Caller, ch: &Channel) -> bool {
    let (w, now) = (&ch.writer.0, clock::now());
    // Nothing was asked before: each question in vain counts as a ring that was left (`policy::open_later`).
    if !policy::was_left(ch) {
        w.runs.store(now, Relaxed);
    }
    let took = now.saturating_sub(w.runs.load(Relaxed));
    w.worth.load(Relaxed) >= ASKED && took > COMES_US * policy::per_us(me)
}

/// The other end of that which writes to `ch` takes no part: both directions are the kernel's for good, and cost what its do.
fn takes_no_part(ch: &Channel) {
    has_outsider(ch);
    if !is_matched(ch) {
        ch.keep_closed();
    }
}

/// Asks the kernel for the other end, and matches both. False: it has none yet, or it takes no part.
///
/// LINUX sock_diag(7): the inode numbers of the two ends of a connection, which never changes them.
fn matches(me: &Caller, ch: &Channel, fd: usize) -> bool {
    let (key, d) = (&ch.facts.0.key, me.domain);
    let (dev, own) = (key.dev.load(Relaxed), key.inode());
    // An inherited filter may end the process for such a call.
    if process::is_filtered() {
        return false;
    }
    let found = match ch.is_tcp() {
        true => tcp::peer(fd),
        false => Diag::open().and_then(|diag| diag.unix_peer(own as u32).map(u64::from)),
    };
    let Some(other) = found else {
        return false;
    };
    let slot = registry::find(d, dev, other).and_then(|i| Channel::at(d, i));
    let Some(far) = slot.filter(|far| far.is_socket() && far.is_tcp() == ch.is_tcp()) else {
        return false;
    };
    if !tells(far, NONE, own) {
        return false;
    }
    if !far.facts.0.key.is(dev, other) {
        // It was closed meanwhile, and the slot is another's.
        tells(far, own, NONE);
        return false;
    }
    ch.facts.0.why.store(Reason::Cold as u8, Relaxed);
    tells(ch, NONE, other)
}

/// What is known of the other end of the end that writes to `ch` becomes `now`, if it was `was`. False: it is neither.
fn tells(ch: &Channel, was: u64, now: u64) -> bool {
    let born = &ch.writer.0.born;
    // ORDER: before a look at the calls that are counted (`is_ready`, `closes`).
    let found = born.compare_exchange(was, now, SeqCst, SeqCst);
    found.is_ok() || found == Err(now)
}
