//! Across fork and exec.
//!
//! Invariant: between execve and the new image's attaching, every pipe that survives is the kernel's, and stays so if
//! the image never attaches. Taking part is thereby shown by doing, never inferred from what a file looks like.
//! Not here: reading ELF files, environments.
use crate::fdtable::Endpoint;
use crate::{
    attach, cold, destinations, family, fdtable, io, message, pins, programs, sets, tls, udp,
    unmatched, uring,
};
use byway_mem::layout::{EXEC_CHANNELS, EXECS, ExecRecord};
use byway_mem::{participants, registry};
use byway_pipe::channel::Channel;
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, fifo, fifo_opens, handback, pass_through, peer, policy, spiller, tcp};
use byway_sys::file::each_fd;
use byway_sys::{file, process};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

fn record(pid: u32, create: bool) -> Option<&'static ExecRecord> {
    let d = attach::domain()?;
    let home = pid as usize * 7;
    for k in 0..8 {
        let r = d.exec_record((home + k) % EXECS);
        if r.pid.load(Relaxed) == pid {
            return Some(r);
        }
    }
    if !create {
        return None;
    }
    for k in 0..8 {
        let r = d.exec_record((home + k) % EXECS);
        let owner = r.pid.load(Relaxed);
        // RELAXED: the record is read only by the same process after its exec.
        if (owner == 0 || process::is_dead(owner))
            && r.pid.compare_exchange(owner, pid, Relaxed, Relaxed).is_ok()
        {
            r.count.store(0, Relaxed);
            return Some(r);
        }
    }
    None
}

/// A number of the image that is started by the path at `path`. Of one below a descriptor none is the kernel's own (fexecve): such
/// an image counts as another.
///
/// LINUX getauxval(3), AT_EXECFN: the path that execve(2) was called with, of a script too.
fn image(path: usize) -> u64 {
    let path = programs::string(path).unwrap_or_default();
    path.iter().fold(0xcbf2_9ce4_8422_2325, |h, c| {
        (h ^ u64::from(*c)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Before execve(2): every surviving pipe goes to the kernel and waits for the new image. Whether that may have one that is
/// carried.
#[inline(never)]
pub fn leave_image(path: usize) -> bool {
    let Some(d) = attach::domain() else {
        return true;
    };
    let pid = process::getpid();
    destinations::settles();
    // Before it leaves: a look in between would find an outsider.
    fifo_opens::settle(&d);
    participants::leave(&d, pid);
    // A walk over the descriptors costs a short program a twentieth of its time.
    if !registry::had_any(&d) && !family::has_sets() {
        return takes_fifo();
    }
    let Some(me) = io::me_or_vfork_child() else {
        return true;
    };
    if me.rseq {
        sets::ends(true);
    }
    // LINUX execve(2): the caller goes on under the id of the process's first thread, which ends wherever it is.
    let heir = me.tid != pid;
    let slot = record(pid, true);
    if let Some(r) = slot {
        r.count.store(0, Relaxed);
        r.image.store(image(path), Relaxed);
    }
    let survives = |fd| file::fcntl(fd, file::F_GETFD, 0) & 1 == 0;
    let mut takes = false;
    each_fd(|fd| {
        if let Some(set) = fdtable::set(fd) {
            if survives(fd) {
                takes = true;
                sets::leave_image(fd, set);
            }
            return;
        }
        let Some(end) = fdtable::ask_kernel(fd) else {
            return;
        };
        if end.is_socket && !survives(fd) {
            message::empties(&me, fd, end);
        }
        takes |= survives(fd);
        if survives(fd) {
            leaves_unmatched(fd, end, Reason::NotTakingPart, true);
        }
        for i in end.slots() {
            leave_channel(&me, (fd, i), slot, (heir, survives(fd)));
        }
    });
    takes || takes_fifo()
}

/// The same of the channel in slot `i` behind `fd`, which `survives`, or is closed by the exec. `heir`: the caller is not
/// the process's first thread.
fn leave_channel(
    me: &Caller,
    (fd, i): (usize, usize),
    record: Option<&ExecRecord>,
    (heir, survives): (bool, bool),
) {
    let Some(ch) = Channel::at(me.domain, i) else {
        return;
    };
    if !survives {
        // Closed by the exec itself; or a descriptor that another thread opens for a moment, as an opening of a
        // channel does.
        if heir {
            // What the first thread holds would be held for good, by an id in use.
            handback::hand_back(me, ch, fd, true, Reason::NotTakingPart);
        }
        if ch.is_fifo() {
            fifo::leave(me, ch, fd);
        }
        return;
    }
    let mut noted = None;
    if let Some(r) = record {
        let n = r.count.load(Relaxed) as usize;
        if r.channels[..n.min(EXEC_CHANNELS)]
            .iter()
            .any(|c| c.load(Relaxed) as usize == i)
        {
            spiller::wait(me, ch, fd);
            return;
        }
        if n < EXEC_CHANNELS {
            r.channels[n].store(i as u16, Relaxed);
            r.count.store(n as u32 + 1, Relaxed);
            ch.facts.0.pending.fetch_add(1, Relaxed);
            noted = Some((r, n));
        }
    }
    let forever = noted.is_none();
    if !handback::hand_back(me, ch, fd, forever, Reason::NotTakingPart)
        && let Some((r, n)) = noted
    {
        // Another thread has closed it; there may be one more.
        r.count.store(n as u32, Relaxed);
        ch.facts.0.pending.fetch_sub(1, Relaxed);
    }
    // An image that takes no part would write before what is not in the kernel's pipe yet.
    spiller::wait(me, ch, fd);
}

/// Whether a standard descriptor is a named FIFO, of which nothing may be known yet.
fn takes_fifo() -> bool {
    let is_fifo = |fd| file::identity(fd).is_some_and(|i| i.fifo);
    (0..3).any(|fd| is_fifo(fd) && !file::is_nameless(fd))
}

/// A forked child's first call: it takes part like its parent.
pub fn enter_child() {
    if let Some(d) = attach::domain() {
        participants::join(&d, process::getpid());
    }
    io::enter_child();
    sets::enter_child();
    pins::enter_child();
    cold::enter_child();
    destinations::enter_child();
    udp::enter_child();
    uring::enter_child();
    tls::get().begun.set(false);
}

/// The exec failed: the process goes on as it was.
pub fn stay_in_image() {
    // Not a vfork child: what it does goes past its parent's table.
    if io::me_or_vfork_child().is_some_and(|me| me.rseq) {
        enter_image(None);
    } else {
        take_back(None);
    }
}

/// The image that was started by the path at `path` attached; `None`: the old one goes on.
pub fn enter_image(path: Option<usize>) {
    if let Some(d) = attach::domain() {
        participants::join(&d, process::getpid());
        take_back(path);
    }
}

/// The pipes that this process has left for its new image may be carried again. Not where another image came in between: it took
/// no part, and a process that it started may have them.
fn take_back(path: Option<usize>) {
    if !attach::domain().is_some_and(|d| registry::had_any(&d)) {
        return;
    }
    let Some(r) = record(process::getpid(), false) else {
        return;
    };
    let n = (r.count.load(Relaxed) as usize).min(EXEC_CHANNELS);
    if path.is_none_or(|p| image(p) == r.image.load(Relaxed)) {
        for c in &r.channels[..n] {
            resume(c.load(Relaxed) as usize);
        }
    }
    r.count.store(0, Relaxed);
    r.pid.store(0, Relaxed);
}

/// In what `suspend` tells: a call at the unmatched end that writes to the slot; one that passes through.
const UNMATCHED: usize = 1 << 16;
const PASSES: usize = 1 << 17;

/// The channel in `slot` may be opened again.
pub fn resume(slot: usize) {
    if slot & UNMATCHED != 0 {
        return unmatched::leaves(slot & !UNMATCHED);
    }
    let Some(d) = attach::domain() else { return };
    if slot & PASSES != 0 {
        return pass_through::ends(d, tls::get().tid.get());
    }
    if let Some(ch) = Channel::at(d, slot) {
        ch.facts.0.pending.fetch_sub(1, Relaxed);
        if !policy::outweighs(ch) {
            pass_through::begins(ch);
        }
    }
}

/// Hands the object behind `fd` back for a call that moves its bytes itself; `each` is told the slots, for [`resume`]
/// after the call.
///
/// The tail does not count that call, so nobody may open the channel meanwhile.
pub fn suspend(fd: usize, why: Reason, mut each: impl FnMut(usize)) {
    let Some(mut end) = fdtable::endpoint(fd) else {
        return;
    };
    if end.is_inbox() {
        // It never opens again; and what its socket has in rings comes before what the call sends.
        return udp::leaves(fd, why);
    }
    let Some(me) = io::me() else { return };
    if let Some(i) = end.unmatched() {
        match unmatched::enters(i) {
            true => each(i | UNMATCHED),
            false => end = fdtable::endpoint(fd).unwrap_or(end),
        }
    }
    for slot in end.slots() {
        let Some(ch) = Channel::at(me.domain, slot) else {
            continue;
        };
        if ch.is_tcp() && end.writes == Some(slot) {
            tcp::hurries(ch, fd);
        }
        if pass_through::enters(&me, ch) {
            each(slot | PASSES);
            continue;
        }
        ch.facts.0.left.fetch_add(1, Relaxed);
        let outweighs = policy::outweighs(ch);
        // A connection has its end near, a pipe may have other traffic one day.
        if ch.forever() || !outweighs && ch.is_socket() {
            gives_up(&me, fd, slot, why, false);
            continue;
        }
        if !outweighs {
            // Beside what the hand-back of an open one does: sixteen times as many writes then.
            policy::open_later(ch, why);
        }
        if ch.facts.0.why.swap(why as u8, Relaxed) != why as u8 {
            ch.blame(process::name());
        }
        // EDGE E5: before the look at the tail, or the lock, that follows.
        ch.facts.0.pending.fetch_add(1, SeqCst);
        handback::hand_back(&me, ch, fd, false, why);
        spiller::wait(&me, ch, fd);
        each(slot);
    }
}

/// Hands the object behind `fd` back for good, if it is carried.
pub fn give_up(fd: usize, why: Reason, vfork: bool) {
    for_good(fd, why, vfork, |_, _| {});
}

/// The same, before a call that may write into it, or have another do so: then all of its bytes are in the kernel lane.
pub fn give_up_to_write(fd: usize, why: Reason, vfork: bool) {
    for_good(fd, why, vfork, |me, ch| spiller::wait(me, ch, fd));
}

/// What the unmatched socket behind `fd` reads is the kernel's for good: another may read it, or it has ended.
pub fn leaves_unmatched(fd: usize, end: Endpoint, why: Reason, vfork: bool) {
    let (Some(i), Some(me)) = (end.unmatched(), io::me_or_vfork_child()) else {
        return;
    };
    if let Some(ch) = Channel::at(me.domain, i) {
        peer::has_outsider(ch);
        unmatched::is_shared(fd);
        // It may have been matched a moment ago.
        if let Some(slot) = fdtable::ask_kernel(fd).and_then(|end| end.reads) {
            gives_up(&me, fd, slot, why, vfork);
        }
    }
}

/// Hands one direction of the socket behind `fd` back for good.
pub fn hands_back(fd: usize, slot: Option<usize>, why: Reason) {
    if let (Some(slot), Some(me)) = (slot, io::me()) {
        gives_up(&me, fd, slot, why, false);
    }
}

fn for_good(fd: usize, why: Reason, vfork: bool, then: impl Fn(&Caller, &Channel)) {
    let (end, me) = match vfork {
        true => (fdtable::ask_kernel(fd), io::me_or_vfork_child()),
        false => (fdtable::endpoint(fd), io::me()),
    };
    let (Some(end), Some(me)) = (end, me) else {
        return;
    };
    leaves_unmatched(fd, end, why, vfork);
    for slot in end.slots() {
        if let Some(ch) = gives_up(&me, fd, slot, why, vfork) {
            then(&me, ch);
        }
    }
}

fn gives_up(
    me: &Caller,
    fd: usize,
    i: usize,
    why: Reason,
    vfork: bool,
) -> Option<&'static Channel> {
    let ch = Channel::at(me.domain, i)?;
    let why = match why {
        Reason::Passed if vfork => Reason::Vfork,
        why => why,
    };
    if !ch.forever() {
        ch.blame(process::name());
    }
    if handback::hand_back(me, ch, fd, true, why) && !vfork {
        if ch.is_inbox() {
            destinations::leaves(me, ch);
        }
        fdtable::leave(fd, i);
    }
    Some(ch)
}

/// Hands back every pipe of this process, which takes no part any more; of a vfork child those that it has: its parent,
/// whose memory it uses, goes on.
pub fn give_up_all(why: Reason, vfork: bool) {
    let why = match why {
        Reason::Passed if !vfork => Reason::Unshared,
        why => why,
    };
    resign(why, vfork, &[]);
}

/// The same, because the file behind `fd` is about to be mapped as code that is not known.
pub fn give_up_for(fd: usize) {
    let mut path = [0; 256];
    let n = file::link(fd, &mut path);
    resign(Reason::Code, false, &path[..n]);
}

fn resign(why: Reason, vfork: bool, path: &[u8]) {
    if !vfork {
        destinations::settles();
    }
    each_fd(|fd| give_up_to_write(fd, why, true));
    if !vfork {
        sets::resigns();
        uring::closes_all(0, usize::MAX);
        attach::stop(why, path);
    }
}
