//! sock_diag(7): which socket is at the other end of a connection of UNIX, or TCP, sockets, or receives a datagram of UDP.
//!
//! Invariant: an answer is of the socket that was asked for, in the caller's network name space. Nothing here waits.
//! Not here: what is done with it (crate pipe, peer.rs).
use crate::errno::failed;
use crate::file;
use crate::socket::{self, AF_UNIX, MSG_DONTWAIT};
use crate::syscall::{call3, call6, nr};
use crate::tcp::{self, Name, Names};
use crate::udp;

const AF_NETLINK: usize = 16;
const SOCK_RAW: usize = 3;
const NETLINK_SOCK_DIAG: usize = 4;
/// struct nlmsghdr: length, type and flags, sequence number, port.
const HEADER: usize = 4;
const SOCK_DIAG_BY_FAMILY: u32 = 20;
const NLM_F_REQUEST: u32 = 1;
const NLM_F_ECHO: u32 = 8;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u32 = 2;
const INET_DIAG_INFO: u32 = 2;
/// LINUX rtnetlink(7): the index of the loopback interface in each name space.
const LOOPBACK: u32 = 1;
/// Of `struct unix_diag_msg` and the header before it.
const FIXED: usize = HEADER + 4;

/// A netlink socket to ask by.
pub struct Diag(usize);

impl Diag {
    /// `None`: there is none.
    pub fn open() -> Option<Diag> {
        Diag::of(NETLINK_SOCK_DIAG)
    }
    fn of(protocol: usize) -> Option<Diag> {
        // SAFETY: no pointers.
        let fd = unsafe {
            let how = SOCK_RAW | file::O_CLOEXEC;
            call3(nr::SOCKET, AF_NETLINK, how, protocol)
        };
        (!failed(fd)).then_some(Diag(fd as usize))
    }

    /// The cookie of the network name space that answers.
    pub fn space(&self) -> Option<u64> {
        socket::space(self.0)
    }

    /// Sends `request`, and receives into `answer` what the kernel says at once.
    fn ask<'a>(&self, request: &[u32], answer: &'a mut [u32]) -> Option<&'a [u32]> {
        let at = request.as_ptr() as usize;
        // SAFETY: as long as it is.
        let sent = unsafe { call6(nr::SENDTO, self.0, at, size_of_val(request), 0, 0, 0) };
        if failed(sent) {
            return None;
        }
        let (at, size) = (answer.as_mut_ptr() as usize, size_of_val(answer));
        // SAFETY: as long as it is.
        let n = unsafe { call6(nr::RECVFROM, self.0, at, size, MSG_DONTWAIT, 0, 0) };
        answer.get(..usize::try_from(n).ok()? / 4)
    }

    /// The inode number of the other end of the UNIX socket with the number `ino`; `None`: it has none, or the kernel does
    /// not say.
    pub fn unix_peer(&self, ino: u32) -> Option<u32> {
        let request = UNIX_REQUEST.map(|word| if word == ASKED { ino } else { word });
        unix(self.ask(&request, &mut [0; 64])?, ino)
    }

    /// The TCP socket at the other end of the one that has `names`; `None`: it is not in this name space.
    pub fn tcp_peer(&self, names: &Names) -> Option<Far> {
        // The other end's own name is what this one has for its peer.
        let request = inet(names.family, tcp::PROTOCOL, [names.peer, names.own], 0);
        let asked = &request[HEADER + 2..HEADER + 11];
        tcp(self.ask(&request, &mut [0; 160])?, asked)
    }

    /// The inode number of the UDP socket that gets what is sent from `names.own` to `names.peer` by the loopback interface;
    /// `None`: none in this name space, or the kernel does not say.
    ///
    /// LINUX udp_dump_one: looks it up as the datagram's own way does. The first name is that of the sender there.
    pub fn udp_receiver(&self, names: &Names) -> Option<u32> {
        let request = inet(
            names.family,
            udp::PROTOCOL,
            [names.own, names.peer],
            LOOPBACK,
        );
        let mut answer = [0; 160];
        let said = self.ask(&request, &mut answer)?;
        let is_answer = said.get(1)? & 0xffff == SOCK_DIAG_BY_FAMILY;
        // struct inet_diag_msg: the port is its own, the inode number the last word.
        let is_its_port = said.get(HEADER + 1)? & 0xffff == u32::from(names.peer.port);
        let inode = *said.get(HEADER + 17)?;
        (is_answer && is_its_port && inode != 0).then_some(inode)
    }
}

/// struct inet_diag_req_v2: family, protocol and what to show, states, ports, both addresses, interface, cookie.
fn inet(family: usize, protocol: usize, names: [Name; 2], interface: u32) -> [u32; HEADER + 14] {
    let mut request = [0u32; HEADER + 14];
    request[..HEADER].copy_from_slice(&[(HEADER as u32 + 14) * 4, ASKS, 1, 0]);
    let shows = 1 << (INET_DIAG_INFO - 1);
    request[HEADER] = family as u32 | (protocol as u32) << 8 | shows << 16;
    request[HEADER + 1] = ANY;
    let [first, second] = names;
    request[HEADER + 2] = u32::from(first.port) | u32::from(second.port) << 16;
    request[HEADER + 3..HEADER + 7].copy_from_slice(&first.words());
    request[HEADER + 7..HEADER + 11].copy_from_slice(&second.words());
    request[HEADER + 11] = interface;
    request[HEADER + 12..].fill(ANY);
    request
}

impl Drop for Diag {
    fn drop(&mut self) {
        file::close(self.0);
    }
}

/// Whether something may delay, or drop, what the loopback interface carries: it has a queueing discipline (tc(8)). Also where
/// the kernel does not say.
pub fn is_shaped() -> bool {
    const NETLINK_ROUTE: usize = 0;
    const RTM_GETQDISC: u32 = 38;
    const RTM_NEWQDISC: u32 = 36;
    const TCA_KIND: u32 = 1;
    const NOQUEUE: [u32; 2] = [u32::from_ne_bytes(*b"noqu"), u32::from_ne_bytes(*b"eue\0")];
    // struct tcmsg: family, interface, handle, parent (the root is all ones), information.
    // LINUX rtnetlink(7): the asker is told of it only if it asks for an echo.
    let asks = RTM_GETQDISC | (NLM_F_REQUEST | NLM_F_ECHO) << 16;
    let request = [(HEADER as u32 + 5) * 4, asks, 1, 0, 0, LOOPBACK, 0, ANY, 0];
    let mut answer = [0u32; 256];
    let is_usual = Diag::of(NETLINK_ROUTE).and_then(|route| {
        let (fixed, rest) = route
            .ask(&request, &mut answer)?
            .split_at_checked(HEADER + 5)?;
        let is_answer = fixed[1] & 0xffff == RTM_NEWQDISC;
        Some(is_answer && attribute(rest, TCA_KIND)? == NOQUEUE)
    });
    is_usual != Some(true)
}

/// What the kernel says of the TCP socket at the other end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Far {
    /// Whether neither end has ended its direction.
    pub is_whole: bool,
    /// Its inode number; 0: no process has it.
    pub inode: u32,
    /// Bytes that came and were not read, and then all that ever came.
    pub unread: u32,
    pub received: u64,
}

const ANY: u32 = u32::MAX;
const ASKS: u32 = SOCK_DIAG_BY_FAMILY | NLM_F_REQUEST << 16;
/// In its place stands the inode number that is asked for.
const ASKED: u32 = u32::MAX - 1;
/// struct unix_diag_req: family and protocol, states, inode number, what to show, cookie.
const UNIX_REQUEST: [u32; HEADER + 6] = [
    (HEADER as u32 + 6) * 4,
    ASKS,
    1,
    0,
    AF_UNIX as u32,
    ANY,
    ASKED,
    UDIAG_SHOW_PEER,
    ANY,
    ANY,
];

/// What the answer `words` says of UNIX socket `ino`.
fn unix(words: &[u32], ino: u32) -> Option<u32> {
    let (fixed, rest) = words.split_at_checked(FIXED)?;
    if fixed[1] & 0xffff != SOCK_DIAG_BY_FAMILY || fixed[HEADER + 1] != ino {
        return None;
    }
    match attribute(rest, UNIX_DIAG_PEER)? {
        [n] => Some(*n).filter(|n| *n != 0),
        _ => None,
    }
}

/// What the answer `words` says of the TCP socket with the ports and addresses `asked`.
///
/// LINUX sock_diag(7): struct inet_diag_msg, of 18 words. It tells of a listener where no connection has these names.
fn tcp(words: &[u32], asked: &[u32]) -> Option<Far> {
    const ESTABLISHED: u32 = 1;
    let (fixed, rest) = words.split_at_checked(HEADER + 18)?;
    if fixed[1] & 0xffff != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let said = &fixed[HEADER..];
    let is_same = said[1] == asked[0] && is_alike(&said[2..6], &asked[1..5]);
    if !is_same || !is_alike(&said[6..10], &asked[5..9]) {
        return None;
    }
    let info = tcp::Info::of(attribute(rest, INET_DIAG_INFO)?)?;
    Some(Far {
        is_whole: said[0] >> 8 & 0xff == ESTABLISHED,
        inode: said[17],
        unread: said[14],
        received: info.received,
    })
}

/// Whether one address as the kernel tells it is the other, as it was asked for.
///
/// LINUX ipv6(7): a socket of IPv6 has an IPv4 address in the last of four words.
fn is_alike(said: &[u32], asked: &[u32]) -> bool {
    let mapped = [0, 0, 0xffffu32.to_be(), asked[0]];
    said == asked || (said == mapped && asked[1..] == [0; 3])
}

/// The words of the attribute `kind` among `rest`.
///
/// LINUX netlink(7): attributes of a length and a type, each padded to words.
fn attribute(mut rest: &[u32], kind: u32) -> Option<&[u32]> {
    while let Some(&head) = rest.first() {
        let len = ((head & 0xffff) as usize).div_ceil(4).max(1);
        if head >> 16 == kind {
            return rest.get(1..len);
        }
        rest = rest.get(len..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{Diag, tcp, unix};
    use crate::tcp::{Names, is_peer_gone, written};
    use std::format;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(s: &impl AsRawFd) -> u32 {
        let id = crate::file::identity(s.as_raw_fd() as usize);
        id.map_or(0, |id| id.ino as u32)
    }
    fn peer(ino: u32) -> Option<u32> {
        Diag::open().expect("a socket to ask by").unix_peer(ino)
    }

    #[test]
    fn each_end_names_the_other() {
        let (a, b) = UnixStream::pair().expect("a pair");
        assert_eq!(peer(inode(&a)), Some(inode(&b)));
        assert_eq!(peer(inode(&b)), Some(inode(&a)));
    }

    #[test]
    fn a_connection_has_its_ends_once_it_is_accepted() {
        let dir = std::env::temp_dir().join(format!("byway-diag-{}", std::process::id()));
        let listener = UnixListener::bind(&dir).expect("a listener");
        let near = UnixStream::connect(&dir).expect("a connection");
        assert_eq!(peer(inode(&near)), None);
        assert_eq!(peer(inode(&listener)), None);
        let (far, _) = listener.accept().expect("its other end");
        assert_eq!(peer(inode(&near)), Some(inode(&far)));
        std::fs::remove_file(dir).expect("the name goes");
    }

    #[test]
    fn what_is_no_answer_names_nobody() {
        assert_eq!(unix(&[], 7), None);
        let mut answer = [48, 20, 1, 0, 1, 7, 0, 0, 2 << 16 | 8, 9];
        assert_eq!(unix(&answer, 7), Some(9));
        assert_eq!(unix(&answer, 8), None);
        answer[9] = 0;
        assert_eq!(unix(&answer, 7), None);
        answer[8] = 2 << 16;
        assert_eq!(unix(&answer, 7), None);
        answer[1] = 2;
        assert_eq!(unix(&answer, 7), None);
        assert_eq!(tcp(&[20; 30], &[0; 9]), None);
    }

    fn number(s: &impl AsRawFd) -> usize {
        s.as_raw_fd() as usize
    }

    #[test]
    fn each_end_of_tcp_names_the_other_and_what_it_has() {
        let diag = Diag::open().expect("a socket to ask by");
        // The third is an IPv4 connection by IPv6 sockets on one side.
        for (at, to) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::1", "::1"),
            ("::", "127.0.0.1"),
        ] {
            let listener = TcpListener::bind((at, 0)).expect("a listener");
            let port = listener.local_addr().expect("its name").port();
            let mut near = TcpStream::connect((to, port)).expect("a connection");
            let names = Names::of(number(&near)).expect("names");
            assert!(names.is_local() && !super::is_shaped());
            assert_eq!(diag.tcp_peer(&names).map(|far| far.inode), Some(0));
            let (mut far, _) = listener.accept().expect("its other end");
            let asked = |s: &TcpStream| diag.tcp_peer(&Names::of(number(s)).expect("names"));
            assert_eq!(asked(&near).map(|p| p.inode), Some(inode(&far)));
            assert_eq!(asked(&far).map(|p| p.inode), Some(inode(&near)));

            near.write_all(&[7; 300]).expect("bytes");
            far.read_exact(&mut [0; 100]).expect("some of them");
            let has = asked(&near).map(|p| (p.unread, p.received));
            assert_eq!(has, Some((200, 300)));
            assert_eq!(written(number(&near)), Some(300));
            assert_eq!(crate::tcp::taken(number(&far)), Some(100));

            near.shutdown(Shutdown::Write).expect("half of the end");
            assert!(!is_peer_gone(number(&far)));
            drop(near);
            assert!(is_peer_gone(number(&far)));
        }
    }
}
