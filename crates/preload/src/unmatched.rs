//! Sockets with names: connect(2) and accept(2) make ends that do not know the other end yet (crate pipe, peer.rs), and the calls at
//! such an end that read or wait run in the kernel, counted.
//!
//! Before that an end is cold, and has no channel (cold.rs).
//!
//! Invariant: an end has a channel only if it came into being here, and has no option which a ring does not obey. Each call of
//! this process that may sleep at an unmatched end is counted, or ends it.
//! Not here: which two ends belong together, calls at a matched one (message.rs), sets of epoll's (sets.rs).
use crate::bits::Bits;
use crate::entry::{DONE, Frame, RUN};
use crate::fdtable::Endpoint;
use crate::{access, attach, cold, fdtable, io, sets, watched};
use byway_mem::layout::flags::NO_UNIX;
use byway_pipe::channel::Channel;
use byway_pipe::peer;
use byway_sys::errno::failed;
use byway_sys::socket;
use core::sync::atomic::Ordering::Relaxed;

/// In `Frame::kind`.
pub const CONNECTED: usize = 27;
pub const ACCEPTED: usize = 28;
pub const READS: usize = 29;

/// Ends that this process alone has, and by one number: a close frees what is known of them.
static ALONE: Bits = Bits::new();
/// Sockets with an option of which a ring knows nothing: they stay the kernel's.
static OPTIONS: Bits = Bits::new();
/// Listening UNIX stream sockets without such an option.
static LISTENS: Bits = Bits::new();

/// `fd`, which is no carried socket, gets such an option.
pub fn has_option(fd: usize) {
    OPTIONS.add(fd);
    LISTENS.take(fd);
}

/// This process alone has `fd`, and by this number.
pub fn is_alone(fd: usize) {
    ALONE.add(fd);
}

/// This process gets children, which have its descriptors.
pub fn forks() {
    cold::forks();
    watched::is_shared();
    ALONE.clear();
}

/// `fd` gets one more number, or another holder.
pub fn is_shared(fd: usize) {
    cold::is_shared(fd);
    ALONE.take(fd);
}

/// connect(2) to a UNIX address.
pub fn connects(f: &mut Frame) -> u32 {
    let [_, at, len, ..] = f.args;
    if len < 2 || is_forbidden() || !access::allowed(at, 2, false) {
        return RUN;
    }
    // SAFETY: asked for; each address begins with its family.
    let family = unsafe { (at as *const u16).read_unaligned() };
    if usize::from(family) != socket::AF_UNIX {
        return RUN;
    }
    f.want = io::maker();
    io::own(f, CONNECTED)
}

/// After that call.
pub fn connected(f: &Frame) -> u32 {
    let fd = f.args[0];
    if f.result == 0 && io::is_made_here(f.want) && !OPTIONS.has(fd) && watched::may_begin(fd) {
        begins(fd);
    }
    DONE
}

/// accept(2).
pub fn accepts(f: &mut Frame) -> u32 {
    if is_forbidden() {
        return RUN;
    }
    f.want = io::maker();
    io::own(f, ACCEPTED)
}

/// After that call. The new socket has its listener's options.
pub fn accepted(f: &Frame) -> u32 {
    let listener = f.args[0];
    if failed(f.result) || !io::is_made_here(f.want) {
        return DONE;
    }
    if !LISTENS.has(listener) {
        let fits = !OPTIONS.has(listener)
            && socket::is_unix(listener)
            && socket::is_stream(listener)
            && !socket::passes_credentials(listener);
        if !fits {
            return DONE;
        }
        LISTENS.add(listener);
    }
    watched::forget(f.result as usize);
    begins(f.result as usize);
    DONE
}

fn is_forbidden() -> bool {
    attach::domain().is_none_or(|d| d.header().flags.load(Relaxed) & NO_UNIX != 0)
}

/// An end comes into being.
fn begins(fd: usize) {
    fdtable::forget(fd);
    for bits in [&ALONE, &OPTIONS, &LISTENS] {
        bits.take(fd);
    }
    cold::begins(fd);
}

/// `fd` is about to be closed. Whether that is known to be the last of an end.
pub fn closes(fd: usize) -> bool {
    for bits in [&OPTIONS, &LISTENS] {
        bits.take(fd);
    }
    watched::forget(fd);
    cold::closes(fd);
    let last = ALONE.take(fd);
    if last && let (Some(d), Some(i)) = (attach::domain(), fdtable::unmatched(fd)) {
        peer::closes(d, i);
    }
    last
}

/// Each descriptor of which something is known here, or of one before it (cold.rs, watched.rs).
pub fn each_known(does: impl Fn(usize)) {
    for bits in [&ALONE, &OPTIONS, &LISTENS] {
        bits.each(&does);
    }
    cold::each(&does);
    watched::each(&does);
}

/// The slot that call `f` of `end` moves bytes of, if it has one. `Err`: it reads from an unmatched end, and runs, counted.
pub fn side(f: &mut Frame, end: Endpoint, writes: bool) -> Result<Option<usize>, u32> {
    let slot = end.side(writes);
    let (None, Some(i)) = (slot, end.unmatched()) else {
        return Ok(slot);
    };
    sets::reads_unmatched(f.args[0]);
    if !enters(i) {
        // It is matched by now.
        return Ok(fdtable::endpoint(f.args[0]).and_then(|end| end.side(writes)));
    }
    f.chan = i;
    f.want = io::maker();
    Err(io::own(f, READS))
}

/// After that call.
pub fn has_read(f: &Frame) -> u32 {
    if io::is_made_here(f.want) {
        leaves(f.chan);
    }
    DONE
}

/// A call that may sleep begins at such an end. False: it is matched by now.
pub fn enters(i: usize) -> bool {
    attach::domain()
        .and_then(|d| Channel::at(d, i))
        .is_some_and(peer::enters)
}

/// It has ended.
pub fn leaves(i: usize) {
    if let Some(ch) = attach::domain().and_then(|d| Channel::at(d, i)) {
        peer::leaves(ch);
    }
}
