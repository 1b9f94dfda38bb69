//! The one decision: ours, or the kernel's; and what must happen to a pipe before the kernel gets a call on it.
//!
//! Invariant: a call that can move or show a carried pipe's bytes in a way that is not carried finds the pipe handed
//! back. What is not known is not carried (crate pipe, calls.rs).
//! Not here: how bytes are moved.
use crate::entry::{DONE, Frame, HEARD, RUN, THEN};
use crate::environment::{self, Copy};
use crate::fdtable::Lookup;
use crate::give_up::{SUSPENDED, gives_up, is_small, resumes};
use crate::messages::Many;
use crate::sleep::{Begun, SLEEP};
use crate::{
    access, attach, class, cold, exec, fdtable, fifo, io, later, message, messages, new_fifo, pins,
    ready, scratch, sendfile, set_wait, sets, sleep, splice, tls, udp, unmatched, uring, watched,
};
use byway_mem::registry;
use byway_pipe::birth;
use byway_pipe::channel::Channel;
use byway_pipe::fifo_opens;
use byway_pipe::reason::Reason;
use byway_sys::errno::{EINTR, ENOENT, failed};
use byway_sys::syscall::{call6, nr};
use byway_sys::{file, process};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

const EPOCH: usize = 20;
const EXEC: usize = 21;
const OPENED: usize = 25;
const DUPLICATED: usize = 26;
const CLOSED: usize = 32;

const AT_FDCWD: usize = -100isize as usize;

const CLONE_VM: usize = 0x100;
const CLONE_FILES: usize = 0x400;
const CLONE_VFORK: usize = 0x4000;
const CLONE_THREAD: usize = 0x10000;
const CLONE_NEWPID: usize = 0x2000_0000;

/// Decides one call. The answer is `DONE`, `RUN` or `THEN` (make `f.sub`, then ask `after`).
pub extern "C" fn dispatch(f: &mut Frame) -> u32 {
    Many::forget(f);
    f.piece = 0;
    let does = decides(f);
    made(f, does)
}

/// A call is about to be made in the stead of `f`.
fn made(f: &mut Frame, does: u32) -> u32 {
    if does == THEN {
        f.maker = io::maker();
    }
    does
}

fn decides(f: &mut Frame) -> u32 {
    if !attach::active() {
        return match f.nr {
            nr::EXECVE | nr::EXECVEAT => execs(f),
            nr::SIGALTSTACK if is_small(f.args[0]) => {
                class::forget_all();
                RUN
            }
            _ => RUN,
        };
    }
    if is_vfork_child() {
        return vfork_child(f);
    }
    let [a0, a1, ..] = f.args;
    if !matches!(f.nr, nr::WRITE | nr::WRITEV) {
        set(&HEARD, true);
    }
    match f.nr {
        nr::READ | nr::WRITE | nr::READV | nr::WRITEV => carries(f),
        nr::SENDTO | nr::RECVFROM | nr::RECVMSG => message::begin(f).unwrap_or(RUN),
        nr::SENDMSG => message::begin(f).unwrap_or_else(|| gives_up(f, false)),
        nr::SOCKET => udp::creates(f),
        nr::SENDMMSG | nr::RECVMMSG => messages::begin(f),
        nr::SENDFILE => sendfile::begin(f),
        nr::SPLICE => splice::begin(f),
        nr::SOCKETPAIR => message::pairs(f),
        nr::CONNECT => unmatched::connects(f),
        nr::ACCEPT | nr::ACCEPT4 => unmatched::accepts(f),
        nr::SHUTDOWN => message::shuts(f),
        nr::SETSOCKOPT => message::sets_option(f),
        nr::GETSOCKOPT => message::asks_option(f),
        nr::CLOSE | nr::DUP2 | nr::DUP3 | nr::CLOSE_RANGE => replaces(f),
        nr::PIPE | nr::PIPE2 => pipe(f),
        nr::WAIT4 | nr::WAITID => same(f, EPOCH),
        nr::EXIT | nr::EXIT_GROUP => {
            moved();
            pins::ends();
            scratch::ends(tls::get().tid.get());
            if f.nr == nr::EXIT_GROUP {
                fifo::closes_all(0, usize::MAX);
                message::closes_all(0, usize::MAX);
                sets::ends(false);
                io::look();
            }
            RUN
        }
        nr::CLONE | nr::CLONE3 | nr::FORK | nr::VFORK => forks(f),
        nr::EXECVE | nr::EXECVEAT => execs(f),
        nr::OPEN | nr::OPENAT => opens(f),
        nr::FSTAT | nr::NEWFSTATAT => tells(f),
        nr::MKNOD | nr::MKNODAT => new_fifo::makes(f),
        nr::RT_SIGACTION => {
            handler(a0, a1);
            RUN
        }
        nr::MMAP => later::maps(f),
        nr::MPROTECT | nr::PKEY_MPROTECT => later::protects(f),
        nr::MUNMAP => later::unmaps(f),
        nr::POLL | nr::PPOLL | nr::SELECT | nr::PSELECT6 => match ready::at_hand(f) {
            Some(r) => {
                f.result = r;
                DONE
            }
            None => waits(f),
        },
        nr::EPOLL_WAIT | nr::EPOLL_PWAIT | nr::EPOLL_PWAIT2 => set_wait::begin(f),
        nr::EPOLL_CTL => sets::changes(f),
        nr::EPOLL_CREATE | nr::EPOLL_CREATE1 => sets::creates(f),
        nr::IO_URING_SETUP => uring::creates(f),
        nr::IO_URING_ENTER => uring::enters(f),
        nr::IO_URING_REGISTER => uring::registers(f),
        nr::DUP => duplicates(f),
        nr::FCNTL if [file::F_DUPFD, file::F_DUPFD_CLOEXEC].contains(&(a1 as u32 as usize)) => {
            duplicates(f)
        }
        _ => asks(f).unwrap_or_else(|| gives_up(f, false)),
    }
}

/// One more descriptor of a file, by a number that the kernel gives: the channel follows, and so does a set.
fn duplicates(f: &mut Frame) -> u32 {
    unmatched::is_shared(f.args[0]);
    if sets::duplicates(f.args[0]) {
        return same(f, DUPLICATED);
    }
    sets::leaves(f.args[0]);
    RUN
}

/// A call that only asks, if it can be told.
fn asks(f: &mut Frame) -> Option<u32> {
    f.result = ready::answer(f)?;
    Some(DONE)
}

/// poll(2), select(2) and their like. Apart: an exec on a small stack is not to have its frame.
#[inline(never)]
fn waits(f: &mut Frame) -> u32 {
    /// What was ready may have gone to another reader: then it waits after all.
    const TRIES: u32 = 16;
    for _ in 0..TRIES {
        match sleep::begin(f) {
            Begun::Waits(how) => return how,
            Begun::Ready => {
                if let Some(does) = asks(f) {
                    return does;
                }
            }
            Begun::Ended => {
                f.result = EINTR;
                return DONE;
            }
            Begun::No => break,
        }
    }
    gives_up(f, false)
}

/// Whether a vfork child calls, which has its parent's thread-local block; a forked child's first call makes it a
/// participant.
fn is_vfork_child() -> bool {
    let t = tls::get();
    if t.mode.get() == 0 {
        return false;
    }
    let tid = process::gettid();
    if tid == t.tid.get() {
        t.mode.set(0);
        t.copy.replace(Copy::NONE).give_back();
    } else if t.mode.get() == tls::VFORKED {
        return true;
    } else {
        scratch::enter_child(t.tid.get());
        t.tid.set(tid);
        t.mode.set(0);
        // They name the parent's place.
        t.passing.iter().for_each(|q| q.fd.set(0));
        exec::enter_child();
    }
    false
}

/// read(2), write(2) and their like.
fn carries(f: &mut Frame) -> u32 {
    if let Some(does) = cold::call(f) {
        return does;
    }
    let Some(end) = fdtable::endpoint(f.args[0]) else {
        return RUN;
    };
    if end.is_inbox()
        && let Some(does) = udp::begin(f)
    {
        return does;
    }
    let writes = matches!(f.nr, nr::WRITE | nr::WRITEV);
    let slot = match unmatched::side(f, end, writes) {
        Ok(slot) => slot,
        Err(does) => return does,
    };
    let does = match slot {
        Some(i) => io::begin(f, i),
        // LINUX EBADF, which the kernel says itself.
        None => RUN,
    };
    if does == RUN {
        end.slots().for_each(count);
    }
    does
}

/// What closes a descriptor, or makes it another file's.
fn replaces(f: &mut Frame) -> u32 {
    let [a0, a1, a2, ..] = f.args;
    match f.nr {
        nr::CLOSE => {
            let was = forgets(a0);
            closes(f, was, [a0, a0])
        }
        nr::CLOSE_RANGE => {
            if a2 & 2 != 0 {
                exec::give_up_all(Reason::Passed, false);
                return RUN;
            }
            if a2 & 4 == 0 {
                uring::closes_all(a0 as u32 as usize, a1 as u32 as usize);
                sets::closes_all(a0 as u32 as usize, a1 as u32 as usize);
                fifo::closes_all(a0 as u32 as usize, a1 as u32 as usize);
                message::closes_all(a0 as u32 as usize, a1 as u32 as usize);
            }
            let was = a2 & 4 == 0 && fdtable::forget_range(a0 as u32 as usize, a1 as u32 as usize);
            closes(f, was, [a0, a1])
        }
        _ => {
            sets::leaves(a0);
            unmatched::is_shared(a0);
            let was = a0 as u32 != a1 as u32 && forgets(a1);
            closes(f, was, [a1, a1])
        }
    }
}

/// `fd` is about to be closed, or to become another file's. False: no reader can go by that.
pub fn forgets(fd: usize) -> bool {
    uring::closes(fd);
    sets::closes(fd);
    fifo::closes(fd);
    message::closes(fd);
    fdtable::forget(fd)
}

/// One more call on the channel in slot `i` that runs where it stands.
fn count(i: usize) {
    if let Some(ch) = attach::domain().and_then(|d| Channel::at(d, i)) {
        ch.facts.0.left.fetch_add(1, Relaxed);
    }
}

/// After the call that `dispatch` (or this) asked for.
pub extern "C" fn after(f: &mut Frame) -> u32 {
    let does = goes_on(f);
    let does = match Many::has(f) {
        true => messages::goes_on(f, Some(does)),
        false => does,
    };
    made(f, does)
}

fn goes_on(f: &mut Frame) -> u32 {
    match f.kind {
        messages::OWN => DONE,
        EPOCH => {
            moved();
            DONE
        }
        CLOSED => {
            let [first, last] = f.list.map(|fd| fd as u32 as usize);
            fdtable::closed(first, last);
            if f.done != 0 {
                moved();
            }
            DONE
        }
        EXEC => {
            // Only a failed exec comes back.
            tls::get().copy.replace(Copy::NONE).give_back();
            if attach::active() {
                exec::stay_in_image();
            }
            DONE
        }
        SLEEP => sleep::end(f),
        set_wait::WAITS => set_wait::end(f),
        SUSPENDED => resumes(f),
        watched::CHANGED => watched::changed(f),
        unmatched::CONNECTED => unmatched::connected(f),
        unmatched::ACCEPTED => unmatched::accepted(f),
        cold::CALL => cold::ended(f),
        splice::FOR_BYTES | splice::FOR_ROOM | splice::COUNTED => splice::goes_on(f),
        udp::CREATED => udp::created(f),
        udp::READS => udp::has_read(f),
        unmatched::READS => unmatched::has_read(f),
        DUPLICATED => {
            sets::duplicated(f.args[0], f.result);
            DONE
        }
        OPENED => {
            fifo::opened(f.result, fifo_opens::Begun(f.done as u32));
            DONE
        }
        _ => io::resume(f),
    }
}

/// open(2) and openat(2): while the service counts opens, this one's may be of a FIFO.
fn opens(f: &mut Frame) -> u32 {
    let Some(begun) = attach::domain().and_then(|d| fifo_opens::begin_apart(&d)) else {
        return RUN;
    };
    f.done = begun.0 as usize;
    same(f, OPENED)
}

/// fstat(2). Programs ask it of a file that they have opened, before they read: so nobody need ask once more.
fn tells(f: &mut Frame) -> u32 {
    let [fd, a1, a2, a3, ..] = f.args;
    let Some(asked) = Lookup::begin(fd) else {
        return RUN;
    };
    // SAFETY: the kernel checks the addresses; this is the caller's own call.
    f.result = unsafe { call6(f.nr, fd, a1, a2, a3, 0, 0) };
    let (path, to) = match f.nr {
        nr::FSTAT => (0, a1),
        _ => (a1, a2),
    };
    // LINUX newfstatat(2): AT_EMPTY_PATH allows a path too. From 6.11 on none is like an empty one.
    // SAFETY: the kernel has just read it there.
    let is_of = || path == 0 || unsafe { *(path as *const u8) } == 0;
    // SAFETY: the kernel has just told there.
    if !failed(f.result) && is_of() && !unsafe { file::is_pipe_or_socket(to) } {
        asked.is_plain();
    }
    DONE
}

/// The same call, with a word afterwards.
fn same(f: &mut Frame, kind: usize) -> u32 {
    f.sub[0] = f.nr;
    f.sub[1..].copy_from_slice(&f.args);
    f.kind = kind;
    THEN
}

/// A reader may be gone: writers look before their next write.
pub fn moved() {
    if let Some(d) = attach::domain() {
        d.header().death_epoch.fetch_add(1, Relaxed);
    }
}

/// The descriptors from the first of `all` to the last were forgotten, and one was a `carried` pipe's. With a second thread
/// they are once more after the call: until then each is the old file still, as that thread may have learned.
fn closes(f: &mut Frame, carried: bool, all: [usize; 2]) -> u32 {
    if io::THREADS.load(Relaxed) {
        f.list = all;
        f.done = carried as usize;
        return same(f, CLOSED);
    }
    if carried { same(f, EPOCH) } else { RUN }
}

fn pipe(f: &mut Frame) -> u32 {
    let flags = if f.nr == nr::PIPE2 { f.args[1] } else { 0 };
    // SAFETY: the kernel checks the address; this is the caller's own call.
    let r = unsafe { call6(f.nr, f.args[0], f.args[1], 0, 0, 0, 0) };
    f.result = r;
    if failed(r) || flags & file::O_DIRECT != 0 {
        return DONE;
    }
    // SAFETY: the kernel has just stored two ints there.
    let fds = unsafe { (f.args[0] as *const [u32; 2]).read_unaligned() };
    fdtable::forget(fds[0] as usize);
    fdtable::forget(fds[1] as usize);
    let (Some(d), Some(id)) = (attach::domain(), file::identity(fds[0] as usize)) else {
        return DONE;
    };
    if let Some(old) = registry::find(d, id.dev, id.ino) {
        registry::release(d, old);
    }
    birth::born(d, id, fds[0] as usize, attach::run(), |_| {});
    DONE
}

fn forks(f: &mut Frame) -> u32 {
    let flags = match f.nr {
        nr::FORK => 0,
        nr::VFORK => CLONE_VM | CLONE_VFORK,
        nr::CLONE => f.args[0],
        _ if access::allowed(f.args[0], 8, false) => {
            // SAFETY: checked; struct clone_args begins with the flags.
            unsafe { (f.args[0] as *const u64).read_unaligned() as usize }
        }
        _ => 0,
    };
    let t = tls::get();
    if t.tid.get() == 0 {
        t.tid.set(process::gettid());
    }
    if flags & CLONE_THREAD != 0 && flags & CLONE_FILES != 0 {
        watched::is_shared();
        io::MAY_LEND.store(false, Relaxed);
        io::has_threads();
        return RUN;
    }
    unmatched::forks();
    if flags & CLONE_NEWPID != 0 {
        // Its process ids would mean others to those who share its channels.
        exec::give_up_all(Reason::NameSpace, false);
        return RUN;
    }
    if flags & CLONE_VM == 0 && flags & CLONE_FILES == 0 {
        t.mode.set(tls::FORKED);
    } else if flags & CLONE_VFORK != 0 && flags & CLONE_FILES == 0 {
        t.mode.set(tls::VFORKED);
    } else {
        // Memory without descriptors, or the reverse: no table can be right for both.
        exec::give_up_all(Reason::Passed, false);
    }
    RUN
}

fn execs(f: &mut Frame) -> u32 {
    if f.nr == nr::EXECVE && file::absent(f.args[0]) {
        // A search along PATH: this one cannot start, so nothing changes hands.
        f.result = ENOENT;
        return DONE;
    }
    let (dir, path, envp) = match f.nr {
        nr::EXECVE => (AT_FDCWD, 0, 2),
        _ => (f.args[0], 1, 3),
    };
    let takes_pipes = !attach::active() || exec::leave_image(f.args[path]);
    let copy = environment::bare(dir, f.args[path], f.args[envp], takes_pipes);
    let then = same(f, EXEC);
    if let Some(copy) = copy {
        f.sub[1 + envp] = copy.address();
        // One that is there is of a vfork child before.
        tls::get().copy.replace(copy).give_back();
    }
    then
}

/// A child that shares our memory but not our descriptors: every pipe it uses goes to the kernel.
fn vfork_child(f: &mut Frame) -> u32 {
    match f.nr {
        nr::READ | nr::WRITE | nr::READV | nr::WRITEV => {
            if let Some(end) = fdtable::ask_kernel(f.args[0]) {
                end.slots().for_each(count);
            }
            exec::give_up_to_write(f.args[0], Reason::Passed, true);
            RUN
        }
        nr::EXECVE | nr::EXECVEAT => execs(f),
        nr::OPEN | nr::OPENAT => opens(f),
        nr::CLOSE | nr::DUP2 | nr::DUP3 | nr::CLOSE_RANGE | nr::EXIT | nr::EXIT_GROUP => {
            moved();
            RUN
        }
        nr::PIPE
        | nr::PIPE2
        | nr::SOCKET
        | nr::SOCKETPAIR
        | nr::CONNECT
        | nr::ACCEPT
        | nr::ACCEPT4
        | nr::MKNOD
        | nr::MKNODAT
        | nr::FSTAT
        | nr::NEWFSTATAT
        | nr::RT_SIGACTION
        | nr::MMAP
        | nr::MPROTECT
        | nr::PKEY_MPROTECT
        | nr::MUNMAP
        | nr::CLONE
        | nr::CLONE3
        | nr::FORK
        | nr::VFORK => RUN,
        nr::WAIT4 | nr::WAITID => RUN,
        _ => gives_up(f, true),
    }
}

/// Counts the handlers that are there before the first call: of another preloaded library's constructor.
pub fn look_for_handlers() {
    for sig in 1..=64 {
        let old = [0usize; 4];
        let act = old.as_ptr() as usize;
        // SAFETY: room for one struct kernel_sigaction, with the kernel's size of a mask.
        let r = unsafe { call6(nr::RT_SIGACTION, sig, 0, act, size_of::<u64>(), 0, 0) };
        if !failed(r) {
            handler(sig, act);
        }
    }
}

/// rt_sigaction(2): from a handler on this process's waits are others.
fn handler(sig: usize, act: usize) {
    const SA_RESTART: usize = 0x1000_0000;
    if act == 0 || (32..=33).contains(&sig) || !access::allowed(act, 32, false) {
        return;
    }
    // SAFETY: checked; struct kernel_sigaction is handler, flags, restorer, mask.
    let [h, flags] = unsafe { (act as *const [usize; 2]).read_unaligned() };
    // SIGILL, SIGTRAP, SIGBUS, SIGFPE, SIGSEGV come from the thread's own instructions, not while it waits.
    let own = matches!(sig, 4 | 5 | 7 | 8 | 11);
    if h > 1 && !own {
        set(&io::HANDLERS, true);
        set(&io::MAY_LEND, false);
        if flags & SA_RESTART == 0 {
            set(&io::ENDERS, true);
        }
    }
}

/// Stores `to`, but not over the same: after a fork the first store into a page copies it, for parent and child.
fn set(flag: &AtomicBool, to: bool) {
    if flag.load(Relaxed) != to {
        flag.store(to, Relaxed);
    }
}
