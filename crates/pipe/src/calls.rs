//! What becomes of each system call on a carried object: the one table from which the rewriter, the dispatcher and
//! `docs/compatibility.md` take it.
//!
//! Invariant: what is not understood is not carried: a call that is in no row has each pipe handed back that one of its
//! arguments may name.
//! Not here: what the calls that depend on their arguments depend on (preload library, dispatch.rs and give_up.rs).
use crate::reason::Reason;
use byway_sys::syscall::nr::*;

mod others;

/// Numbers below this are looked at.
pub const CALLS: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Does {
    /// As it stands.
    Runs,
    /// Answered from the channel.
    Carried,
    /// Has a place of its own in the dispatcher. `first`: it concerns a channel only if the first argument is one's
    /// descriptor.
    Decided { first: bool },
    /// The descriptors in these arguments are handed back before it runs.
    HandsBack(&'static [usize], Reason),
    /// The process hands back all and takes no part any more, before it runs.
    Resigns(Reason),
    /// Takes memory away that a buffer may lie in.
    TakesMemory,
    /// The same; and has a place of its own in the dispatcher if its third argument has PROT_EXEC.
    Protects,
}

/// Calls of one treatment.
pub struct Row {
    pub calls: &'static [(usize, &'static str)],
    pub does: Does,
    /// What the documentation says.
    pub says: &'static str,
}

const fn row(calls: &'static [(usize, &'static str)], does: Does, says: &'static str) -> Row {
    Row { calls, does, says }
}

use Does::{Carried, Decided, HandsBack, Protects, Resigns, Runs, TakesMemory};
const ALWAYS: Does = Decided { first: false };
const BY_FIRST: Does = Decided { first: true };

#[rustfmt::skip]
pub const ROWS: &[Row] = &[
    row(&[(READ, "read"), (WRITE, "write"), (READV, "readv"), (WRITEV, "writev")], Carried,
        "carried, up to 16 buffers; a write up to 1,024; a read of more, or more than 2 GiB, handed back until it returns. With a bad \
         buffer address handed back"),
    row(&[(PIPE, "pipe"), (PIPE2, "pipe2")], ALWAYS, "a channel comes into being (not with O_DIRECT)"),
    row(&[(CLOSE, "close"), (DUP2, "dup2"), (DUP3, "dup3"), (CLOSE_RANGE, "close_range")], ALWAYS,
        "the kernel's own; the channel follows. close_range with CLOSE_RANGE_UNSHARE: the process resigns"),
    row(&[(FSTAT, "fstat"), (NEWFSTATAT, "newfstatat")], BY_FIRST,
        "the kernel's own; a descriptor that it says is no pipe's and no socket's is known to be plain"),
    row(&[(FORK, "fork"), (VFORK, "vfork"), (CLONE, "clone"), (CLONE3, "clone3")], ALWAYS,
        "carried on by children and threads; what a vfork child uses is handed back for good. A child with the memory but other descriptors, \
         or in a new pid name space: the process resigns"),
    row(&[(EXECVE, "execve"), (EXECVEAT, "execveat")], ALWAYS, "handed back; carried again when the new image has attached"),
    row(&[(EXIT, "exit"), (EXIT_GROUP, "exit_group"), (WAIT4, "wait4"), (WAITID, "waitid")], ALWAYS, "the kernel's own; writers look whether a reader has gone"),
    row(&[(OPEN, "open"), (OPENAT, "openat"), (MKNOD, "mknod"), (MKNODAT, "mknodat")], ALWAYS,
        "the kernel's own; of a FIFO the run's service is told (docs/fifo.md)"),
    row(&[(RT_SIGACTION, "rt_sigaction")], ALWAYS, "the kernel's own; a wait that a handler ends holds signals off while it is awake"),
    row(&[(MMAP, "mmap")], ALWAYS, "the kernel's own; a library's rewritten text is mapped in its place. Code that cannot be proven, or that is made by a runtime which is not known \
         (ADR 24): the process resigns"),
    row(&[(MPROTECT, "mprotect"), (PKEY_MPROTECT, "pkey_mprotect")], Protects,
        "the kernel's own; buffers are looked at again. With PROT_EXEC, on a file's pages, or as for mmap: the process resigns"),
    row(&[(MUNMAP, "munmap"), (BRK, "brk"), (MREMAP, "mremap"), (SHMAT, "shmat"), (SHMDT, "shmdt")],
        TakesMemory, "the kernel's own; buffers are looked at again"),
    row(&[(POLL, "poll"), (PPOLL, "ppoll")], ALWAYS,
        "without a time to wait, or with something ready: answered from the channel; for no event (hang-up and error alone; every Rust program's \
         start) the kernel's own; else the kernel's own call waits, and what comes is told by the pipe itself. More than 32 to read from, or 8 that only wake it: \
         handed back for good"),
    row(&[(SELECT, "select"), (PSELECT6, "pselect6")], ALWAYS, "as poll, of descriptors below 1024"),
    row(&[(EPOLL_CREATE, "epoll_create"), (EPOLL_CREATE1, "epoll_create1")], ALWAYS, "the kernel's own; the set is known from then on"),
    row(&[(EPOLL_CTL, "epoll_ctl")], ALWAYS,
        "by level, by edge, with EPOLLONESHOT and EPOLLEXCLUSIVE, in one set that this process has made and has for itself: carried on, and the \
         registration is the kernel's. By edge a program that leaves bytes unread and waits may be told of them twice. A FIFO that is open for both directions and asked about both, a \
         UDP socket with EPOLLONESHOT, or one in another set: handed back for good"),
    row(&[(EPOLL_WAIT, "epoll_wait"), (EPOLL_PWAIT, "epoll_pwait"), (EPOLL_PWAIT2, "epoll_pwait2")], BY_FIRST,
        "as poll. With several threads in one set at a time, by level and by edge: a pipe that they find bytes in is handed back for some time"),
    row(&[(DUP, "dup")], BY_FIRST, "the kernel's own; the channel follows, and so does an epoll set, up to four numbers"),
    row(&[(SPLICE, "splice")], ALWAYS,
        "from a pipe into another, or to /dev/null: carried (not of a FIFO); else handed back until it returns; where that is most of what is done with it, for 4 to 16 times as many writes each time"),
    row(&[(TEE, "tee")], HandsBack(&[0, 1], Reason::Splice), "as splice from a file"),
    row(&[(SENDFILE, "sendfile")], ALWAYS,
        "from a regular file to a socket: carried; else handed back until it returns; where that is most of what is done with it, for good"),
    row(&[(VMSPLICE, "vmsplice"), (PREADV2, "preadv2"), (PWRITEV2, "pwritev2")], HandsBack(&[0], Reason::Splice), "as splice from a file; a socket, where that is most of what is done with it, for good"),
    row(&[(IOCTL, "ioctl")], BY_FIRST, "FIONREAD: answered from the channel; FIOASYNC: handed back for good"),
    row(&[(FCNTL, "fcntl")], BY_FIRST,
        "F_GETPIPE_SZ: answered from the channel; F_SETPIPE_SZ: the kernel's own, and the pipe is carried on with exactly that size, up to 4 MiB; O_ASYNC, O_DIRECT, and what is not known: handed back for good; O_NONBLOCK and F_DUPFD: the channel follows"),
    row(&[(SOCKET, "socket")], ALWAYS, "the kernel's own; a UDP socket may have an inbox (docs/sockets.md)"),
    row(&[(SOCKETPAIR, "socketpair")], ALWAYS, "AF_UNIX, SOCK_STREAM: two channels come into being, one for each direction"),
    row(&[(CONNECT, "connect"), (ACCEPT, "accept"), (ACCEPT4, "accept4")], ALWAYS,
        "the kernel's own; of a UNIX stream socket, or one of TCP on one host, a channel comes into being for the end, and is matched with the other end's once it is hot; of UDP the inbox is handed back for good"),
    row(&[(SENDTO, "sendto"), (RECVFROM, "recvfrom"), (RECVMSG, "recvmsg")], BY_FIRST,
        "of a socket carried, without an address, and with no flags but MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE, MSG_CMSG_CLOEXEC, and MSG_PEEK or MSG_WAITALL; else handed back until it returns. Of UDP with an address too; with another flag a send \
         waits for the inbox to be empty; a receive with MSG_ERRQUEUE hands it back for good"),
    row(&[(SENDMSG, "sendmsg")], ALWAYS,
        "of a socket as sendto; with a control message handed back until it returns. What SCM_RIGHTS passes on is handed back for good"),
    row(&[(SENDMMSG, "sendmmsg")], ALWAYS, "of a socket each message as by sendmsg, up to 1,024"),
    row(&[(RECVMMSG, "recvmmsg")], BY_FIRST,
        "of a socket each message as by recvmsg, up to 1,024; with a time handed back until it returns"),
    row(&[(SHUTDOWN, "shutdown")], BY_FIRST, "the directions that end are handed back for good"),
    row(&[(GETSOCKOPT, "getsockopt")], BY_FIRST, "the kernel's own; SO_ERROR tells of a reset too that a ring knows of; TCP_NODELAY and TCP_CORK are told as they were set"),
    row(&[(SETSOCKOPT, "setsockopt")], ALWAYS,
        "times, and what concerns no bytes: the kernel's own; TCP_NODELAY, TCP_CORK: remembered, and the kernel's while no ring is open; SO_SNDBUF, SO_RCVBUF: handed back until it returns; other options of sockets: handed back for good"),
    row(&[(IO_SUBMIT, "io_submit")], ALWAYS, "the descriptors of its requests are handed back for good"),
    row(&[(IO_URING_SETUP, "io_uring_setup"), (IO_URING_ENTER, "io_uring_enter"), (IO_URING_REGISTER, "io_uring_register")], ALWAYS,
        "the kernel's own; the descriptors that requests name, and those that are registered, are handed back for good before. With SQPOLL, NO_MMAP or REGISTERED_FD_ONLY, \
         a ring that is registered, resized, or not made by this process under this number, and what Linux 6.18 does not know: the process resigns"),
    row(&[(SETUID, "setuid"), (SETGID, "setgid"), (SETREUID, "setreuid"), (SETREGID, "setregid"), (SETRESUID, "setresuid"), (SETRESGID, "setresgid"),
          (SETFSUID, "setfsuid"), (SETFSGID, "setfsgid")], ALWAYS, "to what is so already: the kernel's own; else the process resigns"),
    row(&[(CHROOT, "chroot"), (PIVOT_ROOT, "pivot_root"), (SETNS, "setns"), (UNSHARE, "unshare"),
          (LANDLOCK_RESTRICT_SELF, "landlock_restrict_self")], Resigns(Reason::Credentials), "the process resigns"),
    row(&[(SECCOMP, "seccomp")], ALWAYS, "a mode or a filter is set: the process resigns"),
    row(&[(PRCTL, "prctl")], ALWAYS,
        "PR_SET_SECCOMP, PR_SET_TSC with a change: the process resigns; PR_SET_DUMPABLE: its sockets are handed back for good"),
    row(&[(CAPSET, "capset")], ALWAYS, "the kernel's own; the process's sockets are handed back for good"),
    row(&[(ARCH_PRCTL, "arch_prctl")], ALWAYS, "ARCH_SET_FS, which moves thread-local storage: the process resigns"),
    row(&[(SETRLIMIT, "setrlimit"), (PRLIMIT64, "prlimit64")], ALWAYS, "RLIMIT_AS, to less than infinity: the process resigns (ADR 22)"),
    row(&[(MLOCKALL, "mlockall")], ALWAYS, "MCL_CURRENT: the process resigns"),
    row(&[(SIGALTSTACK, "sigaltstack")], ALWAYS, "less than 8 KiB: the process resigns"),
    row(others::LEAVE_ALONE, Runs, "the kernel's own: they leave the bytes alone, or refuse a pipe"),
    row(others::NAME_NONE, Runs, "the kernel's own: they name no descriptor that could be a pipe's"),
];

/// What becomes of one that is in no row.
const UNKNOWN: Does = HandsBack(&[0, 1, 2, 3, 4, 5], Reason::Control);

/// The row of call number `n`; `ROWS.len()` if it is in none.
const fn row_of(n: usize) -> usize {
    let mut r = 0;
    while r < ROWS.len() {
        let mut c = 0;
        while c < ROWS[r].calls.len() {
            if ROWS[r].calls[c].0 == n {
                return r;
            }
            c += 1;
        }
        r += 1;
    }
    r
}

/// Of each row what it does; behind the last one what becomes of a call that is in none.
///
/// A table of these for all calls would be three pages of pointers, which the loader relocates in every process.
static DOES: [Does; ROWS.len() + 1] = {
    let mut all = [UNKNOWN; ROWS.len() + 1];
    let mut r = 0;
    while r < ROWS.len() {
        all[r] = ROWS[r].does;
        r += 1;
    }
    all
};

static ROW: [u8; CALLS] = {
    let mut all = [0; CALLS];
    let mut n = 0;
    while n < CALLS {
        all[n] = row_of(n) as u8;
        n += 1;
    }
    all
};

/// What becomes of call number `n`.
pub fn of(n: usize) -> Does {
    ROW.get(n).map_or(UNKNOWN, |&r| DOES[r as usize])
}

/// The reason that `--explain` names, of a call that the table treats for `why`.
pub fn reason(n: usize, why: Reason) -> Reason {
    match n {
        CHROOT | PIVOT_ROOT | SETNS | UNSHARE => Reason::NameSpace,
        SECCOMP | PRCTL | LANDLOCK_RESTRICT_SELF => Reason::Filter,
        MLOCKALL => Reason::Locked,
        _ => why,
    }
}

/// Which of the entry code's classes a call is of: 0 runs, 1 is ours if the descriptor in its first argument is not
/// plain, 2 is always asked, 3 takes memory away, 4 too, and is asked if it makes memory executable, 5 is asked if the
/// descriptor in its list of one is not plain, 6 if its second argument is not null, 7 as 1, and by its third argument, 8 as 1,
/// if it has AT_EMPTY_PATH.
pub const fn class(n: usize) -> u8 {
    let row = row_of(n);
    let does = if row < ROWS.len() {
        ROWS[row].does
    } else {
        UNKNOWN
    };
    match does {
        _ if n == POLL => 5,
        _ if n == RT_SIGACTION => 6,
        _ if n == SPLICE => 7,
        _ if n == NEWFSTATAT => 8,
        Runs => 0,
        Carried | Decided { first: true } => 1,
        HandsBack(&[0], _) => 1,
        Decided { first: false } | HandsBack(..) | Resigns(_) => 2,
        TakesMemory => 3,
        Protects => 4,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::String;
    use std::{format, fs, vec::Vec};

    #[test]
    fn each_call_is_in_one_row() {
        let mut all: Vec<_> = ROWS.iter().flat_map(|r| r.calls).collect();
        all.sort();
        for two in all.windows(2) {
            assert!(two[0].0 != two[1].0, "{two:?}");
        }
        // LINUX 6.18 has these, on x86-64.
        let known = (0..=335).chain(424..=469);
        assert!(all.iter().map(|c| c.0).eq(known), "one is in no row");
        assert_eq!(of(0), Carried);
        assert_eq!(of(39), Runs);
        for none in [400, CALLS, usize::MAX] {
            assert_eq!(of(none), UNKNOWN);
        }
    }

    /// What runs as it stands is not rewritten: a cache of before would leave out calls that are asked about now.
    #[test]
    fn a_cache_is_of_this_table() {
        let asked = (0..CALLS).filter(|n| of(*n) != Runs);
        let sum = asked.fold(0, |s: u64, n| (s ^ n as u64).wrapping_mul(0x100_0000_01b3));
        let is = (byway_sys::cached::VERSION, sum);
        assert_eq!(
            is,
            (17, 6831109919537400176),
            "raise VERSION of crates/sys/src/cached.rs with it"
        );
    }

    /// `UPDATE=1 cargo test -p byway-pipe calls` writes it.
    #[test]
    fn the_documentation_has_the_table() {
        const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/compatibility.md");
        const BEGIN: &str = "<!-- calls: made from crates/pipe/src/calls.rs -->\n";
        const END: &str = "<!-- end of calls -->\n";
        let mut table = String::from("| call on a carried object | |\n|---|---|\n");
        for r in ROWS {
            let names: Vec<_> = r.calls.iter().map(|c| c.1).collect();
            let names = match names.len() {
                n if n > 100 => format!("the {n} others of Linux 6.18"),
                _ => names.join(", "),
            };
            table += &format!("| {names} | {} |\n", r.says);
        }
        table += "| one that is not known | each pipe that an argument may name is handed back for good |\n";
        let text = fs::read_to_string(FILE).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (is, after) = rest.split_once(END).unwrap();
        if std::env::var_os("UPDATE").is_some() {
            fs::write(FILE, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(is, table, "run this test with UPDATE=1");
        }
    }
}
