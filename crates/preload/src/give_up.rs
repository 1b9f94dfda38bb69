//! Calls that a channel does not carry: what they name is handed back before they run, for good or until they return.
//!
//! Invariant: when such a call runs, the bytes and the readiness of each object that it names are the kernel's alone.
//! On doubt about its arguments the kernel gets them as they are, and says what is wrong.
//! unsafe: reads what the arguments point to, once the kernel says that it can be read.
//! Not here: which call is which (crate pipe, calls.rs), the handing back itself (exec.rs, and crate pipe, handback.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::{
    access, asked, class, cold, destinations, environment, exec, fdtable, identity, io, message,
};
use byway_pipe::calls::{self, Does};
use byway_pipe::reason::Reason;
use byway_sys::syscall::nr;
use byway_sys::{file, process};
use core::sync::atomic::Ordering::Relaxed;

/// In `Frame::kind`.
pub const SUSPENDED: usize = 23;

/// Hands back what call `f` names. `vfork`: by a vfork child, whose descriptors are not those of the table.
pub fn gives_up(f: &mut Frame, vfork: bool) -> u32 {
    match calls::of(f.nr) {
        Does::HandsBack(args, why @ Reason::Splice) if !vfork => return suspends(f, args, why),
        Does::HandsBack(args, why) => {
            for &k in args {
                match why {
                    Reason::Readiness => exec::give_up(f.args[k], why, vfork),
                    _ => exec::give_up_to_write(f.args[k], why, vfork),
                }
            }
        }
        Does::Resigns(why) => resigns(calls::reason(f.nr, why), vfork),
        _ => decided(f, vfork),
    }
    RUN
}

/// A call that moves a pipe's bytes itself, or changes what a ring is measured by: what it names is the kernel's until it
/// returns, for that reason.
pub fn suspends(f: &mut Frame, args: &[usize], why: Reason) -> u32 {
    f.vectors = 0;
    for &k in args {
        exec::suspend(f.args[k], why, |slot| {
            f.iov[f.vectors].base = slot;
            f.vectors += 1;
        });
    }
    if f.vectors == 0 {
        return RUN;
    }
    io::own(f, SUSPENDED)
}

/// After that call.
pub fn resumes(f: &mut Frame) -> u32 {
    if matches!(f.nr, nr::RECVFROM | nr::RECVMSG) {
        f.result = message::or_reset(f.args[0], f.result);
    }
    if io::is_made_here(f) {
        f.iov[..f.vectors].iter().for_each(|v| exec::resume(v.base));
    }
    DONE
}

fn resigns(why: Reason, vfork: bool) {
    if matches!(
        why,
        Reason::Credentials | Reason::NameSpace | Reason::Filter
    ) {
        environment::MOVED.store(true, Relaxed);
    }
    exec::give_up_all(why, vfork);
}

/// Calls that name something only with some arguments.
fn decided(f: &Frame, vfork: bool) {
    /// LINUX prctl(2), arch_prctl(2).
    const PR_SET_DUMPABLE: u32 = 4;
    const ARCH_SET_FS: usize = 0x1002;
    let [a0, a1, a2, ..] = f.args;
    match f.nr {
        nr::POLL | nr::PPOLL | nr::SELECT | nr::PSELECT6 => {
            asked::each(f, |fd, _| {
                exec::give_up(fd, Reason::Readiness, vfork);
                true
            });
        }
        nr::EPOLL_CTL => exec::give_up(a2, Reason::Readiness, vfork),
        nr::IOCTL => {
            // FIONREAD, FIOASYNC; of a socket SIOCOUTQ, SIOCATMARK
            let asks_socket = matches!(a1 as u32, 0x5411 | 0x8905) && fdtable::is_socket(a0);
            let is_inbox = || fdtable::known_endpoint(a0).is_some_and(fdtable::Endpoint::is_inbox);
            if asks_socket && is_inbox() {
                // LINUX udp(7): what is sent is the receiver's at once.
                return;
            }
            let asks = asks_socket || a1 as u32 as usize == file::FIONREAD;
            if asks && (cold::stays(a0) || fdtable::unmatched(a0).is_some()) {
                // All of its bytes are the kernel's.
                return;
            }
            if asks_socket || matches!(a1 as u32, 0x541B | 0x5452) {
                exec::give_up(a0, Reason::Control, vfork);
            }
        }
        nr::FCNTL => {
            // F_DUPFD to F_SETFL, locks, owners, F_SETLEASE to F_DUPFD_CLOEXEC, seals and hints leave the bytes alone: but
            // O_ASYNC and O_DIRECT. What is none of them is not known, or not carried.
            // LINUX fcntl(2) F_SETOWN, F_SETSIG: they say who gets which signal, and O_ASYNC that there is one.
            let command = a1 as u32;
            let flags = command == 4 && a2 & (file::O_ASYNC | file::O_DIRECT) != 0;
            if flags || !matches!(command, 0..=11 | 15..=17 | 36..=38 | 1024..=1030 | 1033..=1038) {
                exec::give_up(a0, Reason::Control, vfork);
            }
        }
        nr::IO_URING_SETUP | nr::IO_URING_ENTER | nr::IO_URING_REGISTER if vfork => {
            resigns(Reason::IoUring, vfork);
        }
        nr::IO_SUBMIT => submits(a2, a1.min(65536), vfork),
        // By a vfork child.
        nr::SENDTO | nr::RECVFROM | nr::RECVMSG | nr::RECVMMSG | nr::SHUTDOWN | nr::SETSOCKOPT => {
            exec::give_up_to_write(a0, Reason::Passed, vfork);
        }
        nr::SENDFILE => [a0, a1]
            .into_iter()
            .for_each(|fd| exec::give_up_to_write(fd, Reason::Splice, vfork)),
        nr::SPLICE => [a0, a2]
            .into_iter()
            .for_each(|fd| exec::give_up_to_write(fd, Reason::Splice, vfork)),
        nr::SENDMSG => {
            passes(a1, vfork);
            if vfork {
                exec::give_up_to_write(a0, Reason::Passed, vfork);
            }
        }
        nr::SENDMMSG => {
            passes_each(a1, a2, vfork);
            exec::give_up_to_write(a0, Reason::Splice, vfork);
        }
        // LINUX ptrace(2): from then on no other process may get this one's sockets.
        nr::CAPSET => message::gives_up_all(vfork),
        nr::PRCTL if a0 as u32 == PR_SET_DUMPABLE && a1 != 1 => {
            message::gives_up_all(vfork);
        }
        nr::SETUID
        | nr::SETGID
        | nr::SETREUID
        | nr::SETREGID
        | nr::SETRESUID
        | nr::SETRESGID
        | nr::SETFSUID
        | nr::SETFSGID
        | nr::SECCOMP
        | nr::PRCTL
            if identity::changes(f.nr, f.args) =>
        {
            resigns(calls::reason(f.nr, Reason::Credentials), vfork);
        }
        nr::SIGALTSTACK if !vfork && is_small(a0) => {
            exec::give_up_all(Reason::Stack, false);
            class::forget_all();
        }
        // Where thread-local storage is then, nobody can tell.
        nr::ARCH_PRCTL if !vfork && a0 == ARCH_SET_FS => {
            exec::give_up_all(Reason::NotTakingPart, false);
            class::forget_all();
        }
        nr::SETRLIMIT | nr::PRLIMIT64 | nr::MLOCKALL if counts_mapping(f) => {
            resigns(calls::reason(f.nr, Reason::Limits), vfork);
        }
        _ => {}
    }
}

/// Whether a handler's stack as the struct stack_t at `p` has it is too small for what is done beside the kernel's call.
///
/// LINUX sigaltstack(2): the kernel puts the registers there first; with the widest that it saves without being asked
/// 3.4 KiB.
pub fn is_small(p: usize) -> bool {
    const REGISTERS: usize = 3584;
    // Some 4 KiB are used (tests/harm/stack.py). With the rest it is SIGSTKSZ, which most programs ask for.
    const OURS: usize = 8192 - REGISTERS;
    if p == 0 || !access::allowed(p, 24, false) {
        return false;
    }
    // SAFETY: checked; struct stack_t is address, flags, size.
    let [_, flags, size] = unsafe { (p as *const [usize; 3]).read_unaligned() };
    const SS_DISABLE: usize = 2;
    flags & SS_DISABLE == 0 && size < REGISTERS + OURS
}

/// Whether the call has the kernel count what this process has mapped, the domain among it.
///
/// LINUX setrlimit(2) RLIMIT_AS: the next mapping fails, but not where there is no limit. mlockall(2) MCL_CURRENT: fails over RLIMIT_MEMLOCK, else every
/// page is made.
fn counts_mapping(f: &Frame) -> bool {
    const RLIMIT_AS: usize = 9;
    const MCL_CURRENT: usize = 1;
    let [a0, a1, a2, ..] = f.args;
    match f.nr {
        nr::SETRLIMIT => a0 as u32 as usize == RLIMIT_AS && limits(a1),
        nr::MLOCKALL => a0 & MCL_CURRENT != 0,
        _ => {
            a2 != 0
                && a1 as u32 as usize == RLIMIT_AS
                && [0, process::getpid()].contains(&(a0 as u32))
                && limits(a2)
        }
    }
}

/// Whether the struct rlimit at `p` has a limit now. On doubt it has.
fn limits(p: usize) -> bool {
    const INFINITY: u64 = u64::MAX;
    // SAFETY: asked for; the limit of now comes first.
    !access::allowed(p, 16, false) || unsafe { (p as *const u64).read_unaligned() } != INFINITY
}

/// The `n` requests whose addresses are at `list`.
///
/// LINUX io_submit(2): struct iocb has the descriptor at 20. A request may be for readiness (IOCB_CMD_POLL).
fn submits(list: usize, n: usize, vfork: bool) {
    if !access::allowed(list, n * 8, false) {
        return;
    }
    for k in 0..n {
        // SAFETY: the array was checked.
        let request = unsafe { (list as *const usize).add(k).read_unaligned() };
        if access::allowed(request, 64, false) {
            // SAFETY: checked.
            let fd = unsafe { ((request + 20) as *const u32).read_unaligned() };
            exec::give_up_to_write(fd as usize, Reason::Readiness, vfork);
        }
    }
}

/// Hands back what call `f`, a sendmsg, passes on.
pub fn passes_descriptors(f: &Frame) {
    passes(f.args[1], false);
}

/// The same of a sendmmsg.
pub fn passes_all(f: &Frame) {
    if f.nr == nr::SENDMMSG {
        passes_each(f.args[1], f.args[2], false);
    }
}

/// What the `n` structs mmsghdr at `list` pass on.
fn passes_each(list: usize, n: usize, vfork: bool) {
    for k in 0..n.min(1024) {
        passes(list + k * 64, vfork);
    }
}

/// Descriptors in the control part of a struct msghdr.
pub fn passes(msg: usize, vfork: bool) {
    if !access::allowed(msg, 56, false) {
        return;
    }
    // SAFETY: checked; msg_control and msg_controllen stand at 32 and 40.
    let (control, len) = unsafe {
        (
            ((msg + 32) as *const usize).read_unaligned(),
            ((msg + 40) as *const usize).read_unaligned(),
        )
    };
    if !(16..=65536).contains(&len) || !access::allowed(control, len, false) {
        return;
    }
    let mut at = 0;
    while at + 16 <= len {
        // SAFETY: inside the checked control buffer.
        let (n, kind) = unsafe {
            (
                ((control + at) as *const usize).read_unaligned(),
                ((control + at + 8) as *const [u32; 2]).read_unaligned(),
            )
        };
        if n < 16 || at + n > len {
            break;
        }
        // SOL_SOCKET, SCM_RIGHTS
        if kind == [1, 1] {
            destinations::settles();
            for k in 0..(n - 16) / 4 {
                // SAFETY: as above.
                let fd = unsafe { ((control + at + 16 + k * 4) as *const i32).read_unaligned() };
                if fd >= 0 {
                    exec::give_up_to_write(fd as usize, Reason::Passed, vfork);
                }
            }
        }
        at += n.next_multiple_of(8);
    }
}
