//! read, readv, write and writev on a carried object: buffers in, steps of the pipe core out.
//!
//! Invariant: whatever sleeps is the caller's own call, or one that is restarted and interrupted as it would be.
//! Not here: which fds are carried.
use crate::access::MOST;
use crate::entry::{DONE, Frame, RUN, Room, THEN};
use crate::give_up::suspends;
use crate::{access, attach, fdtable, gather, message, pins, sets, tls, wait_all, watched};
use byway_mem::reclaim;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov, VECTORS};
use byway_pipe::cursor::{ReadCursor, WriteCursor};
use byway_pipe::read::Armed;
use byway_pipe::reason::Reason;
use byway_pipe::write::Progress;
use byway_pipe::{Caller, Step, biased_lock, fast_path, pass_through, read, socket, wait, write};
use byway_sys::errno::{EAGAIN, ECONNRESET, EINTR, EPIPE, Ret, failed};
use byway_sys::signal::Enders;
use byway_sys::socket::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_WAITALL, take_error};
use byway_sys::syscall::nr;
use byway_sys::{file, futex};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, compiler_fence};
use core::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

/// True once a handler without SA_RESTART is installed: a call that waits fails with EINTR after it.
#[unsafe(link_section = ".data")]
pub static ENDERS: AtomicBool = AtomicBool::new(false);
/// True once there is a handler that could run over a call.
#[unsafe(link_section = ".data")]
pub static HANDLERS: AtomicBool = AtomicBool::new(false);
/// Whether barriers of other processes reach this one.
#[unsafe(link_section = ".data")]
pub static KEEPS: AtomicBool = AtomicBool::new(false);
/// False once there is a handler, which may leave a write by longjmp, or a second thread, which may change its buffer.
pub static MAY_LEND: AtomicBool = AtomicBool::new(true);
/// True once this process has had a second thread.
#[unsafe(link_section = ".data")]
pub static THREADS: AtomicBool = AtomicBool::new(false);
/// The first thread of a process that has had a second one.
#[unsafe(link_section = ".data")]
static FIRST: AtomicU32 = AtomicU32::new(0);
/// Of `may_pull`: 0 not asked yet, 1 yes, 2 no.
#[unsafe(link_section = ".data")]
static PULL: AtomicU8 = AtomicU8::new(0);
#[unsafe(link_section = ".data")]
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Kinds of calls in flight, in `Frame::kind`.
pub const READ: usize = 1;
pub const WRITE: usize = 2;
const WAIT: usize = 3;
const POLL: usize = 4;
const REST: usize = 5;
/// As `REST`, and counted in the tail.
const REST_COUNTED: usize = 6;
const ROOM: usize = 7;
/// LINUX readv(2), sendmmsg(2): more buffers, or messages, are not taken.
pub const UIO_MAXIOV: usize = 1024;

/// Who calls now.
pub fn me() -> Option<Caller> {
    let domain = attach::domain()?;
    let t = tls::get();
    if t.tid.get() == 0 {
        t.tid.set(byway_sys::process::gettid());
    }
    let mut cpus = CPUS.load(Relaxed);
    if cpus == 0 {
        cpus = byway_sys::process::allowed_cpus();
        CPUS.store(cpus, Relaxed);
    }
    let me = Caller {
        spin: !ENDERS.load(Relaxed) || may_hold_signals(t.tid.get()),
        enders: match ENDERS.load(Relaxed) {
            true => Enders::WithoutRestart,
            false => Enders::None,
        },
        lend: MAY_LEND.load(Relaxed),
        handlers: HANDLERS.load(Relaxed),
        has_barriers: KEEPS.load(Relaxed),
        resign: true,
        pull: may_pull,
        restarts: futex::restarts,
        heard: || {
            let heard = &crate::entry::HEARD;
            heard.load(Relaxed) && heard.swap(false, Relaxed)
        },
        access: access::allowed,
        ..Caller::of(domain, t.tid.get(), cpus)
    };
    if !t.begun.replace(true) {
        // Whoever had this thread id before is dead.
        pass_through::begin(me.domain, me.tid);
    }
    Some(me)
}

/// Whether thread `tid` may hold signals off over an awake wait, whatever it waits for.
///
/// LINUX complete_signal: a signal of the process goes to its first thread, and to another one where that has it blocked. The call
/// of the first would not end then.
pub fn may_hold_signals(tid: u32) -> bool {
    !THREADS.load(Relaxed) || FIRST.load(Relaxed) != tid
}

/// The process has a second thread from now on.
pub fn has_threads() {
    FIRST.store(byway_sys::process::getpid(), Relaxed);
    THREADS.store(true, Relaxed);
}

/// A forked child begins: its first thread is another.
pub fn enter_child() {
    if THREADS.load(Relaxed) {
        FIRST.store(byway_sys::process::getpid(), Relaxed);
    }
}

/// Not under an inherited filter of system calls, which may know no process_vm_readv(2): a filter of the process's own ends
/// its part in everything (dispatch.rs).
fn may_pull() -> bool {
    if PULL.load(Relaxed) == 0 {
        let filtered = byway_sys::process::is_filtered();
        PULL.store(1 + u8::from(filtered), Relaxed);
    }
    PULL.load(Relaxed) == 1
}

/// Who calls, where it may be a vfork child, which has its parent's thread-local block.
pub fn me_or_vfork_child() -> Option<Caller> {
    let mut me = me()?;
    let tid = byway_sys::process::gettid();
    me.rseq = me.tid == tid;
    me.tid = tid;
    Some(me)
}

/// At the start and at the end of a process: does memory want to go back to the machine?
pub fn look() {
    if attach::domain().is_some_and(|d| !reclaim::is_little(&d))
        && let Some(me) = me_or_vfork_child()
    {
        reclaim::look(&byway_pipe::clusters::user(&me));
    }
}

/// The caller of `f`.
pub fn caller(f: &Frame) -> Option<Caller> {
    let me = me()?;
    Some(Caller {
        message: f.flags,
        // One that does not wait has its answer at once.
        spin: me.spin && f.flags & MSG_DONTWAIT == 0,
        ..me
    })
}

/// Begins a call on channel slot `i`.
pub fn begin(f: &mut Frame, i: usize) -> u32 {
    let writes = f.nr == nr::WRITE || f.nr == nr::WRITEV;
    f.flags = 0;
    if f.nr == nr::READ || f.nr == nr::WRITE {
        let [_, base, len, ..] = f.args;
        if len > MOST && access::is_refused(&[Iov { base, len }], f.nr) {
            return RUN;
        }
        f.iov[0] = Iov {
            base,
            len: len.min(MOST),
        };
        f.vectors = 1;
    } else if !(1..=UIO_MAXIOV).contains(&f.args[2]) {
        // LINUX writev(2): nothing to do, or EINVAL.
        return RUN;
    } else if !vectors(f, f.args[1], f.args[2], writes) {
        (f.vectors, f.list) = (0, [0; 2]);
    }
    start(f, i, writes)
}

/// Takes over the `n` structs iovec at `list`; of a call that `may_gather`, and has more than a frame, `start` takes their
/// bytes. False: they are too many, or none, or cannot be read.
pub fn vectors(f: &mut Frame, list: usize, n: usize, may_gather: bool) -> bool {
    let most = if may_gather { UIO_MAXIOV } else { VECTORS };
    if !(1..=most).contains(&n) || !access::allowed(list, n * size_of::<Iov>(), false) {
        return false;
    }
    if n > VECTORS {
        (f.vectors, f.list) = (0, [list, n]);
        return true;
    }
    for k in 0..n {
        // SAFETY: the array was checked.
        f.iov[k] = unsafe { access::buffer(list, k) };
    }
    f.vectors = n;
    true
}

/// A call on channel slot `i` whose buffers are those of `f`; none: they could not be had.
pub fn start(f: &mut Frame, i: usize, writes: bool) -> u32 {
    let does = starts(f, i, writes);
    gather::goes_on(f, does)
}

fn starts(f: &mut Frame, i: usize, writes: bool) -> u32 {
    let Some(me) = caller(f) else { return RUN };
    let Some(ch) = Channel::at(me.domain, i) else {
        return RUN;
    };
    f.fd = f.args[0];
    f.chan = i;
    f.done = 0;
    f.pin = 0;
    forget_quiet(f.fd, writes, ch);
    if ch.is_kernels() {
        if !writes && socket::is_reset_kept(ch) {
            return message::tells_reset(f);
        }
        let plain = fdtable::leave(f.fd, i);
        if plain || !writes {
            sets::forgets(&me, f.fd);
        }
        if plain {
            watched::is_unsure(f.fd);
        }
        return RUN;
    }
    if f.vectors == 0
        && let Some(does) = gather::begins(f, &me, ch)
    {
        return does;
    }
    if f.vectors == 1 {
        let Iov { base, len } = f.iov[0];
        let whole = (base, len);
        // A handler over a write would find the thread's own half changed.
        let mut none = WriteCursor::NONE;
        let wrote = match me.handlers {
            true => &mut none,
            false => tls::get().wrote(),
        };
        let done = match writes {
            _ if len == 0 => None,
            true => fast_path::write(&me, ch, f.fd, whole, u64::MAX, wrote),
            false => {
                fast_path::read(&me, ch, whole, &mut { ReadCursor::NONE }).then_some(len as Ret)
            }
        };
        if let Some(r) = done {
            if !writes {
                sets::has_read_fast(&me, f.fd);
            }
            return finished(f, r);
        }
    }
    let parts = &f.iov[..f.vectors];
    f.want = parts.iter().fold(0, |n, v| v.len.saturating_add(n));
    if f.want == 0 || f.vectors > 1 && access::is_refused(parts, f.nr) {
        return RUN;
    }
    if f.want > MOST {
        return suspends(f, &[0], Reason::Vector);
    }
    if writes {
        let does = go_write(f, &me, ch);
        if does == DONE && f.result == EAGAIN && !ch.is_socket() {
            sets::blocks(&me, f.fd);
        }
        does
    } else {
        let told = sets::reads(&me, ch, f.fd);
        let does = match f.flags & (MSG_WAITALL | MSG_DONTWAIT) {
            MSG_WAITALL => wait_all::begin(f, &me, ch),
            _ => go_read(f, &me, ch),
        };
        if told && does == DONE {
            sets::has_read(&me, f.fd);
        }
        does
    }
}

/// The entry code is to ask again about `fd`, where its channel does not pass through any more.
fn forget_quiet(fd: usize, writes: bool, ch: &Channel) {
    let q = &tls::get().passing[usize::from(writes)];
    if q.fd.get() == fd as u32 + 1 && !ch.tail().passes_through() {
        q.fd.set(0);
    }
}

/// The entry code may make the next such calls by itself, if the channel passes through.
fn remember_quiet(f: &Frame, me: &Caller, ch: &Channel) {
    if !matches!(f.nr, nr::READ | nr::WRITE) || !ch.tail().passes_through() {
        return;
    }
    let writes = f.nr == nr::WRITE;
    if writes && f.want > pass_through::MOST {
        // Never passes through: what it would ask is asked in vain.
        return;
    }
    let Some(k) = pass_through::place(me) else {
        return;
    };
    let q = &tls::get().passing[usize::from(writes)];
    // What a handler says of another channel meanwhile is not mixed with this: `entry` would be the other's.
    q.fd.set(0);
    // ORDER: for a handler of this thread: nothing is known while it changes.
    compiler_fence(SeqCst);
    q.entry.set(fdtable::entry(f.fd));
    // ORDER: for the same: what belongs to the entry comes after it.
    compiler_fence(SeqCst);
    q.number.set(biased_lock::number(me, ch));
    q.apart.set(if writes { wait::apart(me, ch, k) } else { 0 });
    q.t.set(ch.tail_address().as_ptr() as usize);
    q.slot.set(&raw const *k as usize);
    // ORDER: for the same: all of it before `fd`.
    compiler_fence(SeqCst);
    q.fd.set(f.fd as u32 + 1);
}

/// This thread, where a handler could fork over the call that begins: the child returns from that call too, and what was
/// counted for it is its parent's.
pub fn maker() -> u32 {
    if !HANDLERS.load(Relaxed) {
        return 0;
    }
    let t = tls::get();
    if t.tid.get() == 0 {
        t.tid.set(byway_sys::process::gettid());
    }
    t.tid.get()
}

/// Whether the call that was made in the stead of `f` is this process's. The kernel is asked only right after a fork: from its
/// first call on a child's block has the child's own id.
pub fn is_made_here(f: &Frame) -> bool {
    let t = tls::get();
    let here = || match t.mode.get() {
        0 => t.tid.get(),
        _ => byway_sys::process::gettid(),
    };
    f.maker == 0 || f.maker == here()
}

/// Ends the sleep of a reader that `f` has armed, and that said `ret`.
pub fn finish_read(f: &Frame, me: &Caller, ch: &Channel, ret: Ret) {
    // SAFETY: written before the call was asked for.
    let armed = unsafe { f.armed.assume_init() };
    read::has_slept(me, ch, armed, ret);
    if is_made_here(f) {
        read::awake(ch, armed);
    }
}

/// Ends a write of the kernel's that is counted, and that said `ret`.
pub fn finish_write(f: &Frame, ch: &Channel, ret: Ret) {
    write::has_written(ch, ret);
    if is_made_here(f) {
        write::leaves(ch);
    }
}

/// The caller's own call, to be made by the entry code.
pub fn own(f: &mut Frame, kind: usize) -> u32 {
    f.sub[0] = f.nr;
    f.sub[1..].copy_from_slice(&f.args);
    f.kind = kind;
    THEN
}

fn finished(f: &mut Frame, r: Ret) -> u32 {
    f.result = r;
    DONE
}

fn go_read(f: &mut Frame, me: &Caller, ch: &Channel) -> u32 {
    let mut armed = Armed::NOT;
    let mut at = Buffers::new(&f.iov[..f.vectors]);
    at.advance(f.done);
    let step = read::read(me, ch, f.fd, at, f.want, f.done, &mut armed);
    f.armed.write(armed);
    match step {
        Step::Done(ECONNRESET) => {
            // Told once.
            message::is_reset(me, f.fd, true);
            finished(f, ECONNRESET)
        }
        Step::Done(r) => finished(f, r),
        Step::NativeCounted => {
            remember_quiet(f, me, ch);
            own(f, READ)
        }
        _ => RUN,
    }
}

pub fn go_write(f: &mut Frame, me: &Caller, ch: &Channel) -> u32 {
    let mut p = Progress {
        at: Buffers::new(&f.iov[..f.vectors]),
        want: f.want,
        done: f.done,
    };
    p.at.advance(f.done);
    let step = write::write(me, ch, f.fd, &mut p);
    f.done = p.done;
    let has_begun = f.done > 0 || gather::has_begun(f);
    match step {
        Step::Done(r) => finished(f, r),
        Step::NativeCounted if !has_begun => {
            // The caller's own buffers.
            gather::ends(f);
            remember_quiet(f, me, ch);
            let does = own(f, WRITE);
            f.sub[1] = f.fd;
            does
        }
        Step::NativeCounted => rest(f, REST_COUNTED),
        Step::Native if !has_begun => RUN,
        Step::Native => rest(f, REST),
        Step::WaitRestartable => {
            if f.vectors == VECTORS {
                return poll(f);
            }
            room_call(f, f.fd);
            f.kind = WAIT;
            sleeps(f)
        }
        Step::WaitPartial => poll(f),
        Step::WaitForRoom(was) => {
            f.room = Room { was, ..Room::NONE };
            sleep_for_room(f, ch)
        }
    }
}

/// Before a call that takes the bytes of another one, `want` of them: `Some` where no ring is open, and the caller's own
/// call is to be made.
pub fn is_closed(f: &mut Frame, me: &Caller, ch: &Channel, want: usize) -> Option<u32> {
    match write::native(me, ch, f.fd, want)? {
        Step::NativeCounted => Some(own(f, WRITE)),
        Step::Done(told) => Some(finished(f, told)),
        _ => Some(RUN),
    }
}

/// The call that is made sleeps until the pipe behind `fd` has room, then fails without effect: it has a bad address.
pub fn room_call(f: &mut Frame, fd: usize) {
    f.iov[VECTORS - 1] = Iov { base: 16, len: 1 };
    let v = &raw const f.iov[VECTORS - 1] as usize;
    f.sub = [nr::VMSPLICE, fd, v, 1, 0, 0, 0];
}

/// A span of a sleep on the head's word.
fn sleep_for_room(f: &mut Frame, ch: &Channel) -> u32 {
    let was = f.room.was as u32;
    f.sub = f.room.sleep.call(ch.head_address(), was, socket::SPAN_NS);
    f.kind = ROOM;
    sleeps(f)
}

/// The call made in the site's stead may sleep, and is one of several.
pub fn sleeps(f: &mut Frame) -> u32 {
    // A handler may leave the call by a jump: then nobody would close the other number.
    if f.pin == 0 && fdtable::is_socket(f.fd) && !HANDLERS.load(Relaxed) {
        f.pin = pins::pin(f.fd, tls::get().tid.get());
    }
    THEN
}

fn poll(f: &mut Frame) -> u32 {
    f.pollfd = f.fd as u32 as u64 | (file::POLLOUT as u64) << 32;
    f.sub = [
        nr::POLL,
        &f.pollfd as *const u64 as usize,
        1,
        usize::MAX,
        0,
        0,
        0,
    ];
    f.kind = POLL;
    sleeps(f)
}

/// What is left of a write that the ring began and the kernel must end.
fn rest(f: &mut Frame, kind: usize) -> u32 {
    let mut at = Buffers::new(&f.iov[..f.vectors]);
    at.advance(f.done);
    let (base, len) = at.run();
    let ch = attach::domain().and_then(|d| Channel::at(d, f.chan));
    f.sub = match ch.is_some_and(Channel::is_socket) {
        // LINUX unix_stream_sendmsg: a call that has sent a part says so, without a signal.
        true => [nr::SENDTO, f.fd, base, len, f.flags | MSG_NOSIGNAL, 0, 0],
        false => [nr::WRITE, f.fd, base, len, 0, 0, 0],
    };
    f.kind = kind;
    sleeps(f)
}

/// After a call that `begin` asked for.
pub fn resume(f: &mut Frame) -> u32 {
    if let Some(fd) = pins::moved(f.pin) {
        f.fd = fd;
    }
    let does = goes_on(f);
    let does = gather::goes_on(f, does);
    if does != THEN {
        pins::unpin(f.pin);
    }
    does
}

/// Whether a read that has slept, and has `n` bytes, takes what the ring has behind them.
fn may_go_on(f: &Frame, ch: &Channel, n: usize) -> bool {
    // LINUX unix_stream_read_generic: a read ends behind what came with a message. No part of a write that a ring has the rest
    // of came with one.
    // SAFETY: written before the call was asked for.
    let was_open = || unsafe { f.armed.assume_init_ref() }.was_open();
    !ch.tail().closed()
        && (!ch.is_socket() || wait::is_part(ch, n) || f.nr != nr::RECVMSG && was_open())
}

fn goes_on(f: &mut Frame) -> u32 {
    let Some(me) = caller(f) else { return DONE };
    let Some(ch) = Channel::at(me.domain, f.chan) else {
        return DONE;
    };
    let ret = f.result;
    match f.kind {
        READ => {
            finish_read(f, &me, ch, ret);
            if ret <= 0 && ch.is_socket() {
                return finished(f, message::or_reset(f.fd, ret));
            }
            if ret > 0 && (ret as usize) < f.want && may_go_on(f, ch, ret as usize) {
                f.done = ret as usize;
                let was = ch.tail().position();
                wait::let_publish(&me, ch, f.done, was);
                let step = go_read(f, &me, ch);
                if step != DONE || failed(f.result) {
                    return finished(f, ret);
                }
            }
            DONE
        }
        WRITE => {
            finish_write(f, ch, ret);
            DONE
        }
        wait_all::RECEIVES | wait_all::POLLS => wait_all::goes_on(f, &me, ch),
        ROOM => {
            if ret == EINTR && futex::restarts() {
                if is_made_here(f) {
                    socket::ends_sleep(ch);
                }
                return finished(f, if f.done > 0 { f.done as Ret } else { EINTR });
            }
            f.room.spans += 1;
            match socket::sleeps_on(&me, ch, f.fd, f.room.was, f.room.spans) {
                true => sleep_for_room(f, ch),
                false => go_write(f, &me, ch),
            }
        }
        WAIT | POLL => {
            let p = Progress {
                at: Buffers::new(&f.iov[..f.vectors]),
                want: f.want,
                done: f.done,
            };
            match write::woken(&me, f.fd, &p, f.kind == WAIT, ret) {
                Some(r) => finished(f, r),
                None => go_write(f, &me, ch),
            }
        }
        REST | REST_COUNTED => {
            if !failed(ret) {
                f.done += ret as usize;
                if f.done < f.want && ret as usize == f.sub[3] {
                    ch.writer.0.count_kernel(ret);
                    return rest(f, f.kind);
                }
            } else if ret == EPIPE && ch.is_socket() {
                // LINUX sock_alloc_send_pskb: a writer that sleeps, as this one did, is told of the error, and nobody else.
                take_error(f.fd);
            }
            match f.kind {
                REST_COUNTED => finish_write(f, ch, ret),
                _ => ch.writer.0.count_kernel(ret),
            }
            finished(f, f.done as Ret)
        }
        _ => DONE,
    }
}
