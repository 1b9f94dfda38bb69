//! Sockets as the tests want them: buffers set before they connect, and how long their calls wait.
//!
//! Invariant: a socket has a name in a file system only if it is told one, and who gives the name removes it.
//! Not here: what goes through them.
use crate::child::Failure;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How long a call waits for another host, or for a process that should be there.
pub const PATIENCE: Duration = Duration::from_secs(10);
pub const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// Bytes of a socket's send and receive buffers as they are asked for; 0: the system's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Buffers {
    pub send: usize,
    pub receive: usize,
}

impl Buffers {
    /// Asks for them. LINUX: what it gives is twice that, for its own bookkeeping, and bounded by net.core.[rw]mem_max.
    fn set(self, s: &Socket) -> io::Result<()> {
        if self.send > 0 {
            s.set_send_buffer_size(self.send)?;
        }
        if self.receive > 0 {
            s.set_recv_buffer_size(self.receive)?;
        }
        Ok(())
    }
}

/// What kind of socket a test is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    Tcp,
    Udp,
    /// UNIX, stream.
    Unix,
}

fn open(family: Family, address: &SockAddr, b: Buffers) -> io::Result<Socket> {
    let s = match family {
        Family::Tcp => Socket::new(address.domain(), Type::STREAM, Some(Protocol::TCP)),
        Family::Udp => Socket::new(address.domain(), Type::DGRAM, Some(Protocol::UDP)),
        Family::Unix => Socket::new(Domain::UNIX, Type::STREAM, None),
    }?;
    b.set(&s)?;
    Ok(s)
}

/// `ip` with a port that the kernel chooses.
pub fn any_port(ip: IpAddr) -> SockAddr {
    SocketAddr::new(ip, 0).into()
}

/// One to which others connect, at `address`.
///
/// # Errors
/// The kernel's.
pub fn listening(family: Family, address: &SockAddr, b: Buffers) -> io::Result<Socket> {
    let s = open(family, address, b)?;
    s.bind(address)?;
    if family != Family::Udp {
        s.listen(128)?;
    }
    Ok(s)
}

/// One that is connected to `to`.
///
/// # Errors
/// The kernel's, or that nobody answers.
pub fn connected(family: Family, to: &SockAddr, b: Buffers) -> io::Result<Socket> {
    let s = open(family, to, b)?;
    match family {
        Family::Tcp => s.connect_timeout(to, PATIENCE)?,
        _ => s.connect(to)?,
    }
    Ok(s)
}

/// Calls on `s` fail after a while in place of waiting for ever.
///
/// # Errors
/// The kernel's.
pub fn patient(s: &Socket, how_long: Duration) -> io::Result<()> {
    s.set_read_timeout(Some(how_long))?;
    s.set_write_timeout(Some(how_long))
}

/// Two connected ones, by way of the loopback interface, without Nagle's algorithm, as NetPIPE has them.
///
/// # Errors
/// The kernel's.
pub fn tcp_pair(b: Buffers) -> io::Result<[Socket; 2]> {
    let l = listening(Family::Tcp, &any_port(LOOPBACK), b)?;
    let one = connected(Family::Tcp, &l.local_addr()?, b)?;
    let (other, _) = l.accept()?;
    for s in [&one, &other] {
        s.set_tcp_nodelay(true)?;
    }
    Ok([one, other])
}

/// Two connected ones in this machine.
///
/// # Errors
/// The kernel's.
pub fn unix_pair(b: Buffers) -> io::Result<[Socket; 2]> {
    let (one, other) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    b.set(&one)?;
    b.set(&other)?;
    Ok([one, other])
}

/// A failure between two hosts in words, where the plain one does not say enough.
pub fn said(e: io::Error, what: &str) -> Failure {
    Failure::Said(match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!(
            "{what}: no answer for {} s; is the other host there, and not serving somebody else?",
            PATIENCE.as_secs()
        ),
        io::ErrorKind::ConnectionRefused => format!(
            "{what}: nobody listens there; start `byway bench --serve ADDRESS` on that host"
        ),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => {
            format!("{what}: the other side has ended; look at what it says")
        }
        _ => format!("{what}: {e}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn every_family_connects() {
        let b = Buffers {
            send: 65_500,
            receive: 65_500,
        };
        // LINUX unix(7): the empty name is an abstract one that the kernel chooses.
        let at = [any_port(LOOPBACK), SockAddr::unix("").unwrap()];
        for (family, at) in [Family::Tcp, Family::Unix].into_iter().zip(at) {
            let l = listening(family, &at, b).unwrap();
            let mut c = connected(family, &l.local_addr().unwrap(), b).unwrap();
            let (mut s, _) = l.accept().unwrap();
            c.write_all(b"x").unwrap();
            let mut got = [0; 1];
            s.read_exact(&mut got).unwrap();
            assert_eq!(&got, b"x");
            assert!(c.send_buffer_size().unwrap() >= 65_500);
        }
        let l = listening(Family::Udp, &any_port(LOOPBACK), b).unwrap();
        let c = connected(Family::Udp, &l.local_addr().unwrap(), b).unwrap();
        assert_eq!(c.send(&[1; 1000]).unwrap(), 1000);
        let mut got = [0; 2000];
        assert_eq!((&l).read(&mut got).unwrap(), 1000);
    }

    #[test]
    fn failures_have_a_remedy() {
        let e = said(io::ErrorKind::ConnectionRefused.into(), "there");
        assert!(e.to_string().contains("--serve"));
        let e = said(io::ErrorKind::WouldBlock.into(), "there");
        assert!(e.to_string().contains("10 s"));
    }
}
