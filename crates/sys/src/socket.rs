//! Stream sockets: calls on one that do not wait, and another process's end of one.
//!
//! Invariant: nothing here waits for a peer, and no call raises a signal that its caller did not ask for. What `fetch`
//! returns was proven to be the socket that was asked for.
//! Not here: which sockets are carried.
use crate::errno::{Ret, failed};
use crate::file::{self, Ident};
use crate::path::Path;
use crate::syscall::{call3, call6, nr};
use crate::tcp;

pub const AF_UNIX: usize = 1;
pub const AF_INET: usize = 2;
pub const AF_INET6: usize = 10;
pub const SOCK_STREAM: usize = 1;
/// Of a socket's type, what names the kind.
pub const SOCK_TYPE: usize = 0xf;
pub const SOL_SOCKET: usize = 1;
pub const MSG_OOB: usize = 1;
pub const MSG_PEEK: usize = 2;
pub const MSG_CTRUNC: usize = 8;
pub const MSG_TRUNC: usize = 0x20;
pub const MSG_DONTWAIT: usize = 0x40;
pub const MSG_WAITALL: usize = 0x100;
pub const MSG_ERRQUEUE: usize = 0x2000;
pub const MSG_NOSIGNAL: usize = 0x4000;
pub const MSG_MORE: usize = 0x8000;
pub const MSG_WAITFORONE: usize = 0x10000;
pub const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
pub const MSG_CMSG_COMPAT: usize = 0x8000_0000;
const SIOCOUTQ: usize = 0x5411;
pub const POLLRDHUP: i16 = 0x2000;
const SO_SNDBUF: usize = 7;
pub const SO_ERROR: usize = 4;

/// struct msghdr.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Message {
    pub name: usize,
    pub name_len: usize,
    pub parts: usize,
    pub n: usize,
    pub control: usize,
    pub control_len: usize,
    pub flags: usize,
}

impl Message {
    /// Of `n` parts at `parts`, and nothing else.
    pub fn of(parts: usize, n: usize) -> Message {
        Message {
            name: 0,
            name_len: 0,
            parts,
            n,
            control: 0,
            control_len: 0,
            flags: 0,
        }
    }
}

/// sendmsg(2) of the `n` structs iovec at `parts`.
///
/// # Safety
/// Each part may be read, or the kernel refuses it.
pub unsafe fn send(fd: usize, parts: usize, n: usize, flags: usize) -> Ret {
    let m = Message::of(parts, n);
    // SAFETY: the caller's promise; the message outlives the call.
    unsafe { call3(nr::SENDMSG, fd, &raw const m as usize, flags) }
}

/// recvmsg(2) of what is there into the `n` structs iovec at `parts`; EAGAIN if that is nothing.
///
/// # Safety
/// Each part may be written, or the kernel refuses it.
pub unsafe fn receive_now(fd: usize, parts: usize, n: usize) -> Ret {
    let mut m = Message::of(parts, n);
    // SAFETY: the caller's promise; the message outlives the call.
    unsafe { receive(fd, &raw mut m as usize, MSG_DONTWAIT) }
}

/// recvmsg(2) into the message at `message`.
///
/// # Safety
/// It is one, and what it names may be written, or the kernel refuses it.
pub unsafe fn receive(fd: usize, message: usize, flags: usize) -> Ret {
    // SAFETY: the caller's promise.
    unsafe { call3(nr::RECVMSG, fd, message, flags) }
}

/// How long a read of `fd` waits for bytes, us; `None`: without an end (SO_RCVTIMEO).
pub fn receive_time(fd: usize) -> Option<u64> {
    const SO_RCVTIMEO: usize = 20;
    let mut time = [0u64; 2];
    let len = size_of_val(&time);
    // SAFETY: room for a struct timeval.
    let n = unsafe { ask(fd, SOL_SOCKET, SO_RCVTIMEO, &raw mut time as usize, len) };
    let us = time[0].saturating_mul(1_000_000).saturating_add(time[1]);
    (n.is_ok() && us > 0).then_some(us)
}

/// Memory that what was sent by `fd` takes until it is read; much where the kernel does not say.
///
/// LINUX unix(7): SIOCOUTQ; a message's is given back when its last byte is read.
pub fn unread(fd: usize) -> usize {
    let mut n: i32 = -1;
    // SAFETY: `n` is an int that lives over the call.
    let r = unsafe { call3(nr::IOCTL, fd, SIOCOUTQ, &raw mut n as usize) };
    if failed(r) {
        usize::MAX
    } else {
        n.max(0) as usize
    }
}

/// The address family of socket `fd`.
pub fn family(fd: usize) -> Option<usize> {
    const SO_DOMAIN: usize = 39;
    option(fd, SO_DOMAIN).map(|n| n as usize)
}

/// The protocol of socket `fd`; of a UNIX socket 0.
pub fn protocol(fd: usize) -> Option<usize> {
    const SO_PROTOCOL: usize = 38;
    option(fd, SO_PROTOCOL).map(|n| n as usize)
}

/// Whether `fd` is a stream socket.
pub fn is_stream(fd: usize) -> bool {
    const SO_TYPE: usize = 3;
    option(fd, SO_TYPE) == Some(SOCK_STREAM as i32)
}

/// Whether messages tell of their senders to `fd`: SO_PASSCRED, SO_PASSSEC, SO_PASSPIDFD.
///
/// LINUX unix(7): an accepted socket has these of its listener.
pub fn passes_credentials(fd: usize) -> bool {
    [16, 34, 76]
        .into_iter()
        .any(|o| option(fd, o).unwrap_or(0) != 0)
}

/// Bytes of memory that what is sent by `fd` may take in the kernel; 0 where the kernel does not say.
pub fn send_buffer(fd: usize) -> usize {
    option(fd, SO_SNDBUF).map_or(0, |n| n.max(0) as usize)
}

/// The error that `fd` has to tell, which is told by this; 0: none.
pub fn take_error(fd: usize) -> i32 {
    option(fd, SO_ERROR).unwrap_or(0)
}

/// The cookie of the network name space of socket `fd`, which is never another's.
pub fn space(fd: usize) -> Option<u64> {
    const SO_NETNS_COOKIE: usize = 71;
    let mut value = 0u64;
    // SAFETY: room for eight bytes.
    let n = unsafe { ask(fd, SOL_SOCKET, SO_NETNS_COOKIE, &raw mut value as usize, 8) };
    n.is_ok().then_some(value)
}

fn option(fd: usize, which: usize) -> Option<i32> {
    let mut value = 0i32;
    // SAFETY: room for an int.
    let n = unsafe {
        ask(
            fd,
            SOL_SOCKET,
            which,
            &raw mut value as usize,
            size_of::<i32>(),
        )
    };
    n.is_ok().then_some(value)
}

/// getsockopt(2) into the `len` bytes at `at`: how many it has filled.
///
/// # Safety
/// They may be written.
pub(crate) unsafe fn ask(
    fd: usize,
    level: usize,
    which: usize,
    at: usize,
    len: usize,
) -> Result<usize, Ret> {
    let mut filled = len as u32;
    // SAFETY: the caller's promise; the length lives over the call.
    let r = unsafe {
        let len_at = &raw mut filled as usize;
        call6(nr::GETSOCKOPT, fd, level, which, at, len_at, 0)
    };
    if failed(r) {
        Err(r)
    } else {
        Ok(filled as usize)
    }
}

/// Whether the other end of socket `fd` has ended its direction, at least.
pub fn has_ended(fd: usize) -> bool {
    file::poll1(fd, POLLRDHUP, 0).1 & (POLLRDHUP | file::POLLHUP | file::POLLERR) != 0
}

/// Whether the other end of the UNIX, or TCP, socket `fd` has been closed.
///
/// LINUX unix_poll: POLLHUP when both directions are shut down, as a close of the other end does. tcp_poll: POLLHUP only when
/// this end has too; POLLRDHUP also of one that goes on to read.
pub fn is_peer_gone(fd: usize) -> bool {
    let said = file::poll1(fd, POLLRDHUP, 0).1;
    said & (file::POLLHUP | file::POLLERR) != 0 || said & POLLRDHUP != 0 && tcp::is_peer_gone(fd)
}

/// A new descriptor of the socket with inode number `ino` on device `dev`, which process `pid` has open; `None` if it
/// has not, or the kernel refuses.
///
/// LINUX pidfd_getfd(2): as ptrace(2) allows it.
pub fn fetch(pid: u32, dev: u64, ino: u64) -> Option<usize> {
    // SAFETY: no pointers.
    let process = unsafe { call3(nr::PIDFD_OPEN, pid as usize, 0, 0) };
    if failed(process) {
        return None;
    }
    let mut found = None;
    let is = |id: Ident| id.is_socket && (id.dev, id.ino) == (dev, ino);
    let dir = Path::of(b"/proc/").number(pid as usize).text(b"/fd\0");
    file::each_in(dir.address(), false, |fd| {
        let link = Path::of(b"/proc/")
            .number(pid as usize)
            .text(b"/fd/")
            .number(fd);
        if found.is_some() || !names(&link, ino) {
            return;
        }
        // SAFETY: no pointers.
        let got = unsafe { call3(nr::PIDFD_GETFD, process as usize, fd, 0) };
        if failed(got) {
            return;
        }
        // The number may have become another file's since.
        match file::identity(got as usize).is_some_and(is) {
            true => found = Some(got as usize),
            false => file::close(got as usize),
        }
    });
    file::close(process as usize);
    found
}

/// The same from whoever has it open: a look at every process of the host.
pub fn fetch_of_any(dev: u64, ino: u64) -> Option<usize> {
    let mut found = None;
    file::each_in(c"/proc".as_ptr() as usize, false, |pid| {
        found = found.or_else(|| fetch(pid as u32, dev, ino));
    });
    found
}

/// Whether the link at `path` names the socket with inode number `ino`.
fn names(path: &Path, ino: u64) -> bool {
    let mut to = [0u8; 32];
    let n = file::follow(path, &mut to);
    let digits = to[..n.min(to.len())]
        .strip_prefix(b"socket:[")
        .and_then(|rest| rest.strip_suffix(b"]"));
    digits.is_some_and(|d| {
        d.iter()
            .fold(0u64, |v, c| v.wrapping_mul(10) + u64::from(c & 15))
            == ino
    })
}

/// `fd` takes as much unread as the kernel allows.
fn enlarge(fd: usize) {
    const SO_SNDBUFFORCE: usize = 32;
    let bytes = 4i32 << 20;
    let at = &raw const bytes as usize;
    // LINUX socket(7): the first stops at wmem_max, the second needs CAP_NET_ADMIN.
    for how in [SO_SNDBUF, SO_SNDBUFFORCE] {
        // SAFETY: an int that lives over the call.
        unsafe { call6(nr::SETSOCKOPT, fd, SOL_SOCKET, how, at, 4, 0) };
    }
}

/// Puts a socket in place of the one behind `fd`, of which the other end is gone, at each number that this process has
/// for it: one that has to read what `fill` sends by a descriptor of its other end, and then the end. False: it could
/// not be made.
pub fn replace(fd: usize, fill: impl FnOnce(usize)) -> bool {
    let mut ends = [0u32; 2];
    let at = ends.as_mut_ptr() as usize;
    let how = SOCK_STREAM | file::O_CLOEXEC;
    let Some(id) = file::identity(fd) else {
        return false;
    };
    // SAFETY: room for two ints.
    if failed(unsafe { call6(nr::SOCKETPAIR, AF_UNIX, how, 0, at, 0, 0) }) {
        return false;
    }
    let [near, far] = ends.map(|end| end as usize);
    enlarge(far);
    fill(far);
    file::close(far);
    let flags = file::fcntl(fd, file::F_GETFL, 0);
    file::fcntl(near, file::F_SETFL, flags.max(0) as usize);
    file::each_fd(|fd| {
        if file::identity(fd) == Some(id) {
            let cloexec = file::fcntl(fd, file::F_GETFD, 0) & 1 != 0;
            let how = if cloexec { file::O_CLOEXEC } else { 0 };
            // SAFETY: no pointers.
            unsafe { call3(nr::DUP3, near, fd, how) };
        }
    });
    file::close(near);
    true
}
