//! sendmmsg(2) and recvmmsg(2) on a carried socket: one message after another, each as sendmsg(2) or recvmsg(2) would have it.
//!
//! ```text
//! begin --> message: answered, or THEN it sleeps or is the kernel's --> counted --> next message ... --> how many
//! ```
//! Invariant: between `begin` and the end of the call the frame is one message's; its own number and arguments stay in
//! `Many`, and are back when it ends. A number that has become another file's meanwhile ends the call with what it has.
//! unsafe: reads and writes the list of messages, which was looked at.
//! Not here: a call with a time, more than 1,024 messages, and flags that a ring does not obey: they are the kernel's as a whole.
use crate::entry::{DONE, Frame, RUN, THEN};
use crate::give_up::{passes_all, passes_descriptors, suspends};
use crate::{access, attach, cold, fdtable, io, message, unmatched};
use byway_pipe::channel::Channel;
use byway_pipe::copy::Iov;
use byway_pipe::reason::Reason;
use byway_pipe::socket;
use byway_sys::errno::{ECONNRESET, Ret, failed};
use byway_sys::socket::{MSG_DONTWAIT, MSG_WAITFORONE, Message, take_error};
use byway_sys::syscall::nr;

/// In `Frame::kind`: a message that is the kernel's.
pub const OWN: usize = 33;

/// struct mmsghdr.
#[repr(C)]
struct Part {
    message: Message,
    len: u32,
}

/// Of a call with many messages.
pub struct Many {
    /// Its number; 0: the frame is of no such call.
    nr: usize,
    args: [usize; 6],
    /// Messages, those that are done, and the flags of the next one.
    all: usize,
    done: usize,
    flags: usize,
    /// The channel that the socket writes to.
    writes: Option<usize>,
}

impl Many {
    /// `f`, which begins, is of no such call.
    pub fn forget(f: &mut Frame) {
        f.many.nr = 0;
    }
    /// Whether `f` is of one.
    pub fn has(f: &Frame) -> bool {
        f.many.nr != 0
    }
}

/// Begins such a call.
pub fn begin(f: &mut Frame) -> u32 {
    if let Some(does) = cold::call(f) {
        return does;
    }
    let writes = f.nr == nr::SENDMMSG;
    let [fd, list, all, flags, time, _] = f.args;
    let Some(end) = fdtable::endpoint(fd).filter(|e| e.is_socket) else {
        passes_all(f);
        return RUN;
    };
    if let Err(does) = unmatched::side(f, end, writes) {
        return does;
    }
    if !writes && let Some(error) = error_before(fd) {
        f.result = error;
        return DONE;
    }
    let (all, one) = (all as u32 as usize, flags & !MSG_WAITFORONE);
    let carried = (1..=io::UIO_MAXIOV).contains(&all)
        && (writes || time == 0)
        && message::obeys_flags(if writes { flags } else { one }, writes)
        && access::allowed(list, all * size_of::<Part>(), true);
    if !carried {
        let does = suspends(f, &[0], Reason::Splice);
        passes_all(f);
        if let Some(ch) = channel(end.writes).filter(|_| writes) {
            socket::mixes(ch);
        }
        return does;
    }
    f.many = Many {
        nr: f.nr,
        args: f.args,
        all,
        done: 0,
        flags: if writes { flags } else { one },
        writes: end.writes,
    };
    goes_on(f, None)
}

/// LINUX do_recvmmsg: an error that waits is told before what there is to read.
fn error_before(fd: usize) -> Option<Ret> {
    let error = -(take_error(fd) as Ret);
    let reset = io::me().is_some_and(|me| message::is_reset(&me, fd, true));
    Some(if reset { ECONNRESET } else { error }).filter(|e| *e != 0)
}

fn channel(slot: Option<usize>) -> Option<&'static Channel> {
    Channel::at(attach::domain()?, slot?)
}

/// Goes on with the next message, after the one before it did `did`.
pub fn goes_on(f: &mut Frame, mut did: Option<u32>) -> u32 {
    loop {
        match did {
            Some(THEN) => return THEN,
            Some(DONE) if !has_done(f) => return ends(f),
            Some(DONE) | None => {}
            // As it stands: the kernel's.
            Some(_) => return io::own(f, OWN),
        }
        begins_next(f);
        did = Some(message::begin(f).unwrap_or_else(|| {
            if f.nr == nr::SENDMSG {
                passes_descriptors(f);
            }
            RUN
        }));
    }
}

/// The frame becomes the next message's.
fn begins_next(f: &mut Frame) {
    f.nr = match f.many.nr {
        nr::SENDMMSG => nr::SENDMSG,
        _ => nr::RECVMSG,
    };
    let at = f.many.args[1] + f.many.done * size_of::<Part>();
    f.args = [f.many.args[0], at, f.many.flags, 0, 0, 0];
}

/// A message has ended. False: it was the last.
fn has_done(f: &mut Frame) -> bool {
    let part = f.args[1] as *mut Part;
    if failed(f.result) {
        keeps_error(f);
        return false;
    }
    // SAFETY: `begin` has looked at the list.
    let message = unsafe {
        (&raw mut (*part).len).write_unaligned(f.result as u32);
        (&raw const (*part).message).read_unaligned()
    };
    f.many.done += 1;
    let is_whole = match f.many.nr {
        // LINUX __sys_sendmmsg: a message of which only a part went is the last.
        nr::SENDMMSG => f.result as usize == size(message),
        // LINUX recvmmsg(2).
        _ if f.many.args[3] & MSG_WAITFORONE != 0 => {
            f.many.flags |= MSG_DONTWAIT;
            true
        }
        _ => true,
    };
    is_whole && f.many.done < f.many.all && is_same(f)
}

/// Bytes of a message that was sent.
fn size(m: Message) -> usize {
    let part = |k| {
        // SAFETY: the kernel has read the list, or a ring's write has.
        unsafe { access::buffer(m.parts, k) }.len
    };
    match access::allowed(m.parts, m.n * size_of::<Iov>(), false) {
        true => (0..m.n).map(part).fold(0, usize::saturating_add),
        false => 0,
    }
}

/// LINUX do_recvmmsg: an error behind messages is told by the next call. The kernel has told it already, once.
fn keeps_error(f: &Frame) {
    let end = fdtable::known_endpoint(f.many.args[0]);
    if f.many.done > 0
        && f.many.nr == nr::RECVMMSG
        && f.result == ECONNRESET
        && let Some(ch) = end.and_then(|end| channel(end.reads))
    {
        socket::keeps_cut(ch);
    }
}

/// Whether the number still is the socket's: another thread may have closed it while a message slept.
fn is_same(f: &Frame) -> bool {
    let (fd, writes) = (f.many.args[0], f.many.writes);
    let is_known = fdtable::known_endpoint(fd).is_some_and(|end| end.writes == writes);
    is_known || channel(writes).is_some_and(|ch| ch.lane(fd).is_ours())
}

/// The call has as many messages as it gets.
fn ends(f: &mut Frame) -> u32 {
    (f.nr, f.args) = (f.many.nr, f.many.args);
    if f.many.done > 0 {
        f.result = f.many.done as Ret;
    }
    Many::forget(f);
    DONE
}
