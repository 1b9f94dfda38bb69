//! TCP sockets: the names of both ends, what they have moved, and whether a connection is what its names say.
//!
//! Invariant: nothing here waits or moves a byte. What is said of a socket is the kernel's own word of this moment.
//! Not here: which sockets are carried (crate pipe, peer.rs).
use crate::diag::Diag;
use crate::errno::{ENOENT, ENOPROTOOPT, Ret, failed};
use crate::file;
use crate::socket::{self, AF_INET, AF_INET6};
use crate::syscall::{call3, call6, nr};

/// IPPROTO_TCP, also the level of its options.
pub const PROTOCOL: usize = 6;
pub const TCP_NODELAY: usize = 1;
pub const TCP_CORK: usize = 3;
const TCP_INFO: usize = 11;

/// Words of the longest struct sockaddr of IP.
pub const NAME: usize = 7;

/// An address and a port, in the order of the network. Of an IPv4 address the first word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Name {
    pub port: u16,
    address: [u32; 4],
}

/// The names of the two ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Names {
    pub family: usize,
    pub own: Name,
    pub peer: Name,
}

impl Name {
    /// No name.
    pub const NONE: Name = Name {
        port: 0,
        address: [0; 4],
    };
    pub fn words(&self) -> [u32; 4] {
        self.address
    }
    /// What getsockname(2), or getpeername(2), says of `fd`, and the family. An IPv4 address in an IPv6 one is itself.
    fn of(call: usize, fd: usize) -> Option<(usize, Name)> {
        let (mut at, mut len) = ([0u32; NAME], 28u32);
        // SAFETY: room for the longest name of both families.
        let r = unsafe { call3(call, fd, at.as_mut_ptr() as usize, &raw mut len as usize) };
        if failed(r) { None } else { Name::read(&at) }
    }
    /// The name that this socket has: what getsockname(2) says of `fd`, and the family.
    pub fn own(fd: usize) -> Option<(usize, Name)> {
        Name::of(nr::GETSOCKNAME, fd)
    }
    /// The name of its other end.
    pub fn peer(fd: usize) -> Option<(usize, Name)> {
        Name::of(nr::GETPEERNAME, fd)
    }
    /// The name that stands in a struct sockaddr, and its family. An IPv4 address in an IPv6 one is itself.
    ///
    /// LINUX ip(7), ipv6(7): family and port, then the address; of IPv6 after a word, and the scope behind it.
    pub fn read(at: &[u32; NAME]) -> Option<(usize, Name)> {
        let (family, port) = ((at[0] & 0xffff) as usize, (at[0] >> 16) as u16);
        let v4 = |word| (AF_INET, [word, 0, 0, 0]);
        let (family, address) = match family {
            AF_INET => v4(at[1]),
            AF_INET6 if at[2..5] == [0, 0, 0xffffu32.to_be()] => v4(at[5]),
            AF_INET6 => (AF_INET6, [at[2], at[3], at[4], at[5]]),
            _ => return None,
        };
        Some((family, Name { port, address }))
    }
    /// As a struct sockaddr for a socket of `family`, and how long that is; `own` is the name's family.
    ///
    /// LINUX ipv6(7): an IPv4 address is the last of four words.
    pub fn write(&self, own: usize, family: usize) -> ([u32; NAME], usize) {
        let first = family as u32 | u32::from(self.port) << 16;
        let a = self.address;
        match (own, family) {
            (_, AF_INET) => ([first, a[0], 0, 0, 0, 0, 0], 16),
            (AF_INET, _) => ([first, 0, 0, 0, 0xffffu32.to_be(), a[0], 0], 28),
            _ => ([first, 0, a[0], a[1], a[2], a[3], 0], 28),
        }
    }
    /// Of these words, and that port.
    pub fn from(address: [u32; 4], port: u16) -> Name {
        Name { port, address }
    }
    /// LINUX ip(7): INADDR_ANY, and that of IPv6.
    pub fn is_any(&self) -> bool {
        self.address == [0; 4]
    }
    /// The same address with the port of another.
    pub fn at_port_of(self, other: Name) -> Name {
        Name {
            port: other.port,
            ..self
        }
    }
    /// LINUX ip(7), ipv6(7): 127.0.0.1, ::1. What is sent there comes from there, if its socket has no address.
    pub fn is_own_source(&self) -> bool {
        self.address[0].to_be() == 0x7f00_0001 && self.address[1..] == [0; 3]
            || self.address == [0, 0, 0, 1u32.to_be()]
    }
    /// LINUX ip(7), ipv6(7): 127.0.0.0/8, ::1.
    fn is_loopback(&self) -> bool {
        let last = 1u32.to_be();
        self.address[0].to_be() >> 24 == 127 && self.address[1..] == [0; 3]
            || self.address == [0, 0, 0, last]
    }
}

impl Names {
    /// Those of the connected socket `fd`.
    pub fn of(fd: usize) -> Option<Names> {
        let (family, own) = Name::of(nr::GETSOCKNAME, fd)?;
        let (other, peer) = Name::of(nr::GETPEERNAME, fd)?;
        (family == other).then_some(Names { family, own, peer })
    }
    /// Whether both ends are on this host, as their addresses have it.
    pub fn is_local(&self) -> bool {
        self.own.address == self.peer.address || self.own.is_loopback() && self.peer.is_loopback()
    }
    /// Whether it is connected to itself.
    pub fn is_own_peer(&self) -> bool {
        self.own == self.peer
    }
}

/// Whether the other end of `fd` is on this host, as its address has it.
pub fn is_local(fd: usize) -> bool {
    let Some((_, peer)) = Name::of(nr::GETPEERNAME, fd) else {
        // LINUX getpeername(2): ENOTCONN while the connection is being made, where the address that it is made to is not told.
        return Name::of(nr::GETSOCKNAME, fd).is_some_and(|(_, own)| own.is_loopback());
    };
    peer.is_loopback()
        || Name::of(nr::GETSOCKNAME, fd).is_some_and(|(_, own)| own.address == peer.address)
}

/// Whether the names of connection `fd` are those that both ends have used: nobody translates them.
///
/// LINUX nf_conntrack: SO_ORIGINAL_DST has an answer where the connection is tracked. Then two connections may have names that
/// fit, although their peers are others.
pub fn is_untracked(fd: usize, family: usize) -> bool {
    const SO_ORIGINAL_DST: usize = 80;
    const SOL_IP: usize = 0;
    const SOL_IPV6: usize = 41;
    let mut name = [0u32; 7];
    let level = if family == AF_INET { SOL_IP } else { SOL_IPV6 };
    // SAFETY: room for either name.
    let said = unsafe { socket::ask(fd, level, SO_ORIGINAL_DST, name.as_mut_ptr() as usize, 28) };
    matches!(said, Err(ENOENT | ENOPROTOOPT))
}

/// Of struct tcp_info, the counts of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Info {
    pub received: u64,
    /// Acknowledged; at the end that has connected also its SYN.
    acknowledged: u64,
    /// Nothing comes or goes any more.
    is_over: bool,
    sent: u64,
    sent_again: u64,
    /// Written, and not sent yet.
    waiting: u32,
}

impl Info {
    /// Words up to the end of the last count.
    const WORDS: usize = 54;

    /// `None`: the kernel does not have all of them (Linux 4.19).
    pub fn of(words: &[u32]) -> Option<Info> {
        let words = words.get(..Info::WORDS)?;
        let long = |i: usize| u64::from(words[i]) | u64::from(words[i + 1]) << 32;
        const TCP_CLOSE: u8 = 7;
        Some(Info {
            is_over: words[0] as u8 == TCP_CLOSE,
            received: long(32),
            acknowledged: long(30),
            waiting: words[36],
            sent: long(50),
            sent_again: long(52),
        })
    }
    fn now(fd: usize) -> Option<Info> {
        let mut words = [0u32; Info::WORDS];
        let size = size_of_val(&words);
        // SAFETY: as long as it is.
        let n = unsafe { socket::ask(fd, PROTOCOL, TCP_INFO, words.as_mut_ptr() as usize, size) };
        Info::of(&words[..n.ok()? / 4])
    }
}

/// Bytes that were ever written to `fd`; `None`: the kernel does not say. Nobody writes meanwhile.
///
/// LINUX tcp_retransmit_skb: what is sent again counts as that before it is sent, and as sent only if it is. So where any was,
/// what is acknowledged and what is not must come to as much.
pub fn written(fd: usize) -> Option<u64> {
    const TRIES: u32 = 16;
    for _ in 0..TRIES {
        let info = Info::now(fd)?;
        let all = (info.sent + u64::from(info.waiting)).checked_sub(info.sent_again)?;
        if info.sent_again == 0 {
            return Some(all);
        }
        let waits = socket::unread(fd) as u64;
        if Info::now(fd)? == info {
            let counted = info.acknowledged.checked_add(waits)?;
            return (counted == all || counted == all + 1).then_some(all);
        }
    }
    None
}

/// Bytes that were ever read from `fd`, at least: those that come meanwhile may count as not read.
pub fn taken(fd: usize) -> Option<u64> {
    let received = Info::now(fd)?.received;
    Some(received.saturating_sub(file::fionread(fd) as u64))
}

/// Bytes that the other end of `fd` has said it takes, and that are not under way to it; 0 where the kernel does not say.
///
/// LINUX tcp(7): what was said once is not taken back, unless the other end makes its buffer smaller.
pub fn window(fd: usize) -> usize {
    /// Linux 5.4.
    const SND_WND: usize = 57;
    let mut words = [0u32; SND_WND + 1];
    let (at, size) = (words.as_mut_ptr() as usize, size_of_val(&words));
    // SAFETY: as long as it is.
    let said = unsafe { socket::ask(fd, PROTOCOL, TCP_INFO, at, size) };
    match said {
        Ok(n) if n == size => (words[SND_WND] as usize).saturating_sub(socket::unread(fd)),
        _ => 0,
    }
}

/// Bytes that have ever come to `fd`, of which no more will; `None`: that is not so, or the kernel does not say.
///
/// LINUX tcp_reset: what had come by then can be read still.
pub fn came_at_most(fd: usize) -> Option<u64> {
    let info = Info::now(fd)?;
    info.is_over.then_some(info.received)
}

/// Whether no process has the other end of TCP socket `fd`, which has ended its own direction.
pub fn is_peer_gone(fd: usize) -> bool {
    let (Some(names), Some(diag)) = (Names::of(fd), Diag::open()) else {
        return false;
    };
    socket::protocol(fd) == Some(PROTOCOL)
        && diag.space() == socket::space(fd)
        && diag.tcp_peer(&names).is_none_or(|far| far.inode == 0)
}

/// Whether small writes to `fd` wait for those before them to be acknowledged (Nagle).
pub fn delays(fd: usize) -> bool {
    option(fd, TCP_NODELAY) == Some(0)
}

/// From now on they do, or do not.
pub fn set_delays(fd: usize, delays: bool) {
    set_option(fd, TCP_NODELAY, !delays);
}

/// Whether a segment that is not full waits until `fd` is uncorked, or for 200 ms.
pub fn is_corked(fd: usize) -> bool {
    option(fd, TCP_CORK).is_some_and(|on| on != 0)
}

/// From now on it does, or does not: then what waits goes. What setsockopt(2) says.
pub fn set_cork(fd: usize, on: bool) -> Ret {
    set_option(fd, TCP_CORK, on)
}

fn option(fd: usize, which: usize) -> Option<i32> {
    let mut on = 0i32;
    // SAFETY: room for an int.
    let said = unsafe { socket::ask(fd, PROTOCOL, which, &raw mut on as usize, 4) };
    said.is_ok().then_some(on)
}

fn set_option(fd: usize, which: usize, on: bool) -> Ret {
    let on = i32::from(on);
    // SAFETY: an int that lives over the call.
    unsafe {
        let at = &raw const on as usize;
        call6(nr::SETSOCKOPT, fd, PROTOCOL, which, at, 4, 0)
    }
}
