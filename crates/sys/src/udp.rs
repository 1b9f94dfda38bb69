//! UDP sockets: who receives what one sends, on this host.
//!
//! Invariant: what is said is the kernel's own word of this moment, and only of what stays on this host. Nothing here waits.
//! unsafe: calls of the kernel, with names of ours.
//! Not here: which sockets are carried (preload library, udp.rs).
use crate::diag::Diag;
use crate::errno::ENOENT;
use crate::path::Path;
use crate::syscall::{call3, nr};
use crate::tcp::{Name, Names};
use crate::{file, socket};

/// IPPROTO_UDP.
pub const PROTOCOL: usize = 17;
pub const SOCK_DGRAM: usize = 2;
/// LINUX udp(7): the most bytes of a datagram of IPv6.
pub const MOST: usize = 65527;

/// The names that a datagram of `fd` to `to` has on its way; `None`: it may leave this host, or nobody knows them.
///
/// LINUX ip(7): a socket with no address of its own sends from the one that it sends to, if that is 127.0.0.1 or ::1.
pub fn names(fd: usize, (family, to): (usize, Name)) -> Option<Names> {
    let (_, own) = Name::own(fd)?;
    let own = match own.is_any() {
        true if to.is_own_source() => to.at_port_of(own),
        true => return None,
        false => own,
    };
    let names = Names {
        family,
        own,
        peer: to,
    };
    let has_ports = own.port != 0 && to.port != 0;
    (has_ports && names.is_local()).then_some(names)
}

/// The inode number of the socket that receives what goes by these `names` from `fd`; `None`: there is none in its name space.
pub fn receiver(fd: usize, names: &Names) -> Option<u64> {
    let diag = Diag::open()?;
    let is_here = diag.space() == socket::space(fd);
    let found = diag.udp_receiver(names).filter(|_| is_here)?;
    Some(u64::from(found))
}

/// A new socket with the name `own`, of that family, in place of one that is gone. `None`: somebody has that name.
///
/// LINUX bind(2): EADDRINUSE while any socket has it, for this one shares it with none.
pub fn with_name(family: usize, own: Name) -> Option<usize> {
    const SOCK_CLOEXEC: usize = 0o2000000;
    let (name, len) = own.write(family, family);
    // SAFETY: no pointers.
    let fd = unsafe { call3(nr::SOCKET, family, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    let fd = usize::try_from(fd).ok()?;
    // SAFETY: a name of ours.
    match unsafe { call3(nr::BIND, fd, name.as_ptr() as usize, len) } {
        0 => Some(fd),
        _ => {
            file::close(fd);
            None
        }
    }
}

/// Whether a datagram may be given another name on its way, by one who has just sent some: what they belong to is tracked, so
/// addresses may be translated.
///
/// LINUX nf_conntrack-sysctl: how many connections are tracked in the caller's name space; no file without the module. One of
/// UDP is tracked for 30 s after its last datagram.
pub fn may_be_translated() -> bool {
    if file::absent(Path::of(b"/proc/sys/net").address()) {
        return true;
    }
    let count = Path::of(b"/proc/sys/net/netfilter/nf_conntrack_count");
    let mut said = [0u8; 2];
    match file::read_all(&count, &mut said) {
        ENOENT => false,
        2 => said != *b"0\n",
        _ => true,
    }
}
