//! splice(2) from a carried pipe into another, or to where nothing is kept (/dev/null): the bytes are copied, and both stay
//! carried.
//!
//! ```text
//! try --> bytes have moved: done    --> the source has none: it is armed, and a read(2) that can take none sleeps --> try ...
//!                                   --> the target has no room: its lane is full, and a vmsplice(2) that can add none
//! both the kernel's --> the caller's own call, counted as a read of the one and a write of the other
//! ```
//! LINUX splice_pipe_to_pipe: waits for the source first, then for the target, and takes nothing before it has both; then takes
//! as much as there is and as has room.
//!
//! Invariant: no byte is out of both pipes while the call sleeps.
//! unsafe: none of its own.
//! Not here: FIFOs, other files, tee(2): those calls are the kernel's (give_up.rs). The copy (crate pipe, transfer.rs).
use crate::entry::{DONE, Frame, RUN, THEN};
use crate::{access, fdtable, give_up, io, scratch, sets};
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::read::{self, Armed};
use byway_pipe::ready::{self, Sight};
use byway_pipe::reason::Reason;
use byway_pipe::transfer::{self, Moved};
use byway_pipe::wait::{Came, Readers};
use byway_pipe::write::{self, Progress};
use byway_pipe::{Caller, Step, opening, policy};
use byway_sys::errno::{EAGAIN, EBADF, EFAULT, EINTR, Ret};
use byway_sys::syscall::nr;
use byway_sys::{file, process};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// In `Frame::kind`: it sleeps until there are bytes, or room; or the call is the kernel's own.
pub const FOR_BYTES: usize = 12;
pub const FOR_ROOM: usize = 13;
pub const COUNTED: usize = 14;

/// LINUX splice(2): SPLICE_F_NONBLOCK, and all flags.
const NONBLOCK: usize = 2;
const FLAGS: usize = 15;
/// In `Frame::next`, in the place of the target's slot: nothing is kept. Behind it is what an own call is counted as.
const NULL: usize = usize::MAX;

/// The kernel finds that nothing can be written here, and takes nothing.
static CONSTANT: u8 = 0;

/// The two ends of a call.
struct Ends<'a> {
    me: Caller,
    from: &'a Channel,
    inlet: usize,
    /// `None`: nothing is kept.
    to: Option<&'a Channel>,
    outlet: usize,
}

/// Begins such a call.
pub fn begin(f: &mut Frame) -> u32 {
    match ends_of(f) {
        Some(ends) => goes(f, &ends),
        None => kernels(f, Reason::Splice),
    }
}

/// `None`: it is the kernel's, for the moment of the call.
fn ends_of(f: &mut Frame) -> Option<Ends<'static>> {
    let [inlet, inlet_at, outlet, outlet_at, want, flags] = f.args;
    let is_whole = [inlet_at, outlet_at] == [0; 2] && want != 0;
    if fdtable::is_plain(inlet) || !is_whole || flags as u32 as usize & !FLAGS != 0 {
        return None;
    }
    let me = io::me()?;
    let carried = |fd: usize, writes: bool| {
        let end = fdtable::endpoint(fd).filter(|e| !e.is_socket && !e.is_inbox())?;
        let slot = end.side(writes)?;
        let ch = Channel::at(me.domain, slot).filter(|ch| !ch.is_fifo())?;
        Some((ch, slot))
    };
    let (from, slot) = carried(inlet, false)?;
    let (to, target) = match carried(outlet, true) {
        Some((to, target)) => (Some(to), target),
        None if fdtable::is_plain(outlet) && keeps_nothing(outlet) => (None, NULL),
        None => return None,
    };
    if target == slot {
        return None;
    }
    (f.fd, f.chan, f.next) = (inlet, slot, [target, 0]);
    (f.flags, f.pin, f.want) = (0, 0, want.min(access::MOST));
    Some(Ends {
        me,
        from,
        inlet,
        to,
        outlet,
    })
}

/// Whether what is spliced to `fd`, which is plain, goes nowhere.
fn keeps_nothing(fd: usize) -> bool {
    /// The last descriptor of which that was found, and how many had been closed then.
    static LAST: AtomicU64 = AtomicU64::new(u64::MAX);
    let now = (fd as u32 as u64) << 32 | u64::from(fdtable::closes());
    if LAST.load(Relaxed) != now {
        if !file::is_null(fd) {
            return false;
        }
        LAST.store(now, Relaxed);
    }
    file::may_splice_to(fd)
}

/// What the call does, once it is known to be of two such ends.
fn goes(f: &mut Frame, ends: &Ends) -> u32 {
    let told = sets::reads(&ends.me, ends.from, ends.inlet);
    let Some(piece) = scratch::borrow(ends.me.tid) else {
        return kernels(f, Reason::Splice);
    };
    let aside = Iov {
        base: scratch::address(piece),
        len: scratch::SIZE,
    };
    let does = tries(f, ends, aside);
    scratch::give_back(piece);
    let Some(does) = does else {
        // A target that is to open soon is no fault of the source.
        let soon = ends
            .to
            .is_some_and(|to| to.tail().closed() && !to.forever());
        let early = policy::is_early(ends.from.facts.0.left.load(Relaxed));
        let why = match soon && early {
            true => Reason::Cold,
            false => Reason::Splice,
        };
        return kernels(f, why);
    };
    if told && does == DONE {
        sets::has_read(&ends.me, ends.inlet);
    }
    does
}

/// The kernel's, for the moment of the call.
fn kernels(f: &mut Frame, why: Reason) -> u32 {
    give_up::suspends(f, &[0, 2], why)
}

/// Moves what can be moved, or sleeps for it. `None`: it is the kernel's.
fn tries(f: &mut Frame, ends: &Ends, aside: Iov) -> Option<u32> {
    let me = &ends.me;
    let (mut done, mut waited) = (0, [false; 2]);
    let said = loop {
        let moved = match (open(f, ends), ends.to) {
            (_, _) if done == f.want => break done as Ret,
            (None, _) if done > 0 => break done as Ret,
            (None, _) => return None,
            (Some(false), _) if done > 0 => break done as Ret,
            (Some(false), _) => match own(f, ends) {
                None => continue,
                does => return does,
            },
            (_, Some(to)) => {
                let (from, to) = ((ends.from, ends.inlet), (to, ends.outlet));
                transfer::transfer(me, from, to, f.want - done, aside)
            }
            // Nobody is to have them.
            (_, None) => {
                let k = aside.len.min(f.want - done);
                transfer::take(me, (ends.from, ends.inlet), &[aside], k)
            }
        };
        let waits = match moved {
            Moved::Bytes(n) => {
                done += n;
                continue;
            }
            _ if done > 0 => break done as Ret,
            Moved::Failed(said) => break said,
            Moved::Kernels => return None,
            Moved::Nothing => waits_for_bytes(f, ends, &mut waited[0]),
            Moved::NoRoom => waits_for_room(f, ends, &mut waited[1]),
        };
        match waits {
            Waits::NoMore => {}
            Waits::Says(said) => break said,
            Waits::Asleep => return Some(THEN),
            Waits::Kernels => return None,
        }
    };
    f.result = said;
    Some(DONE)
}

/// What a wait comes to.
enum Waits {
    /// It is over: try again.
    NoMore,
    /// The call says this.
    Says(Ret),
    /// A call of the kernel's sleeps.
    Asleep,
    /// The call is the kernel's.
    Kernels,
}

/// The source has nothing. `waited`: awake, in this call.
fn waits_for_bytes(f: &mut Frame, ends: &Ends, waited: &mut bool) -> Waits {
    if is_nonblocking(f, ends) {
        return ends.says_empty().map_or(Waits::NoMore, Waits::Says);
    }
    if !core::mem::replace(waited, true) {
        let mut readers = Readers::NONE;
        readers.add(f.chan as u32, ends.from);
        match readers.wait(&ends.me) {
            Came::Yes => return Waits::NoMore,
            Came::Signal => return Waits::Says(EINTR),
            Came::No => {}
        }
    }
    let mut armed = Armed::NOT;
    match ready::arm(&ends.me, ends.from, ends.inlet, &mut armed) {
        Sight::Bytes => return Waits::NoMore,
        Sight::Kernels => return Waits::Kernels,
        Sight::Armed => {}
    }
    f.armed.write(armed);
    let nowhere = &raw const CONSTANT as usize;
    f.sub = [nr::READ, ends.inlet, nowhere, 1, 0, 0, 0];
    f.kind = FOR_BYTES;
    Waits::Asleep
}

/// The target has no room.
fn waits_for_room(f: &mut Frame, ends: &Ends, waited: &mut bool) -> Waits {
    let (me, Some(to)) = (&ends.me, ends.to) else {
        return Waits::Kernels;
    };
    if is_nonblocking(f, ends) {
        if ready::is_writable(me, to, ends.outlet) {
            return Waits::NoMore;
        }
        sets::blocks(me, ends.outlet);
        return Waits::Says(EAGAIN);
    }
    if !core::mem::replace(waited, true) {
        match transfer::await_room(me, to) {
            Came::Yes => return Waits::NoMore,
            Came::Signal => return Waits::Says(EINTR),
            Came::No => {}
        }
    }
    // As of a write: it is woken at half.
    if ready::space(me, to, ends.outlet) > 0 {
        // A reader is about to say so.
        process::yield_now();
        return Waits::NoMore;
    }
    io::room_call(f, ends.outlet);
    f.kind = FOR_ROOM;
    Waits::Asleep
}

/// Whether both rings are open: the target's is opened with the source's. `None`: one is, and the other is not to be had.
fn open(f: &Frame, ends: &Ends) -> Option<bool> {
    let from = !ends.from.tail().closed();
    let Some(to) = ends.to else {
        return Some(from);
    };
    let t = to.tail();
    match (from, t.closed()) {
        (true, false) => Some(true),
        (true, true) => {
            let opens = || opening::open(&ends.me, to, ends.outlet, f.want);
            // The first try is for nothing where calls are not counted.
            let may = policy::is_as_worthy(&to.writer, &ends.from.writer);
            (may && (opens() || t.passes_through() && opens())).then_some(true)
        }
        (false, true) if t.spiller() == 0 => Some(false),
        (false, _) => None,
    }
}

/// The caller's own call, where both pipes are the kernel's. `None`: one is no more.
fn own(f: &mut Frame, ends: &Ends) -> Option<u32> {
    let me = &ends.me;
    let mut armed = Armed::NOT;
    let reads = match read::native(me, ends.from, ends.inlet, f.want, &mut armed) {
        Step::Done(_) => return None,
        step => step == Step::NativeCounted,
    };
    let writes = match ends.to.map(|to| write::counts(me, to, ends.outlet, 0)) {
        None | Some(Some(Step::Native)) => false,
        Some(Some(Step::NativeCounted)) => true,
        _ => {
            if reads {
                read::awake(ends.from, armed);
            }
            return None;
        }
    };
    if !reads && !writes {
        // For good.
        fdtable::leave(ends.inlet, f.chan);
        return Some(RUN);
    }
    f.armed.write(armed);
    f.next[1] = usize::from(reads) | usize::from(writes) << 1;
    Some(io::own(f, COUNTED))
}

/// Whether the call does not wait.
///
/// LINUX do_splice: O_NONBLOCK of either pipe says so too.
fn is_nonblocking(f: &Frame, ends: &Ends) -> bool {
    f.args[5] & NONBLOCK != 0
        || file::is_nonblocking(ends.inlet)
        || ends.to.is_some() && file::is_nonblocking(ends.outlet)
}

impl Ends<'_> {
    /// What a call that does not wait says of a source that has nothing: 0 at the end; `None`: it has something after all.
    fn says_empty(&self) -> Option<Ret> {
        let (_, now) = file::poll1(self.inlet, file::POLLIN, 0);
        let said = if now & file::POLLHUP != 0 { 0 } else { EAGAIN };
        // A writer that has ended since has written before that.
        let empty = now & file::POLLIN == 0 && !ready::has_bytes(self.from);
        empty.then_some(said)
    }
    /// Whether the descriptors are still those that the call was made with: another thread may close them while it sleeps.
    fn are_ours(&self) -> bool {
        self.from.lane(self.inlet).is_ours()
            && self.to.is_none_or(|to| to.lane(self.outlet).is_ours())
    }
}

/// After a call that `tries` asked for.
pub fn goes_on(f: &mut Frame) -> u32 {
    let Some(me) = io::me() else { return DONE };
    let Some(from) = Channel::at(me.domain, f.chan) else {
        return DONE;
    };
    let to = match f.next[0] {
        NULL => None,
        slot => Channel::at(me.domain, slot),
    };
    let ends = Ends {
        me,
        from,
        inlet: f.args[0],
        to,
        outlet: f.args[2],
    };
    match f.kind {
        COUNTED => {
            let [_, counted] = f.next;
            if counted & 1 != 0 {
                io::finish_read(f, &me, from, f.result);
            }
            if let Some(to) = to.filter(|_| counted & 2 != 0) {
                // Of a source that has nothing it says the same.
                let full = f.result == EAGAIN && !ready::is_writable(&me, to, ends.outlet);
                let said = if f.result == EAGAIN && !full {
                    0
                } else {
                    f.result
                };
                io::finish_write(f, to, said);
            }
            return DONE;
        }
        FOR_BYTES => {
            io::finish_read(f, &me, from, f.result);
            if f.result != EFAULT {
                return DONE;
            }
        }
        _ => {
            let none = Progress {
                at: Buffers::new(&[]),
                want: f.want,
                done: 0,
            };
            if let Some(said) = write::woken(&me, ends.outlet, &none, true, f.result) {
                f.result = said;
                return DONE;
            }
        }
    }
    if !ends.are_ours() {
        f.result = EBADF;
        return DONE;
    }
    goes(f, &ends)
}
