//! `netperf`: how much a socket carries one way, and how often a request is answered.
//!
//! ```text
//! TCP_STREAM  UNIX_STREAM   client --messages, until the time is over--> server      both count: MiB/s
//! UDP_STREAM                the same in datagrams; what the server does not get is lost
//! TCP_RR  UDP_RR  UNIX_RR   client --request--> server, server --response--> client, one at a time: per second
//! TCP_CRR  UNIX_CRR         the same with a connection for each
//! ```
//! Invariant: the server counts what arrived and says it, and a test whose counts do not agree is an error (of datagrams:
//! is a loss, which is told).
//! Not here: the two sides (client.rs, server.rs), the sizes and CPUs of a case (case.rs), the table (text.rs).
//!
//! Source: "Care and Feeding of Netperf 2.7" (hewlettpackard.github.io/netperf), sections 5 and 6; UNIX_STREAM and
//! UNIX_RR are its STREAM_STREAM and STREAM_RR; UNIX_CRR is its TCP_CRR over such a socket.
pub mod case;
pub mod client;
pub mod server;
pub mod text;
pub mod workload;

use super::Backend;
use super::Way;
use super::duplex::Duplex;
use super::socket::{self, Buffers, Family, LOOPBACK, PATIENCE};
use crate::child::Failure;
use crate::pairs::pair;
use crate::record::Better;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

pub const BACKENDS: [Backend; 2] = [
    Backend::plain("kernel", Way::Tcp),
    Backend::carried("byway", Way::Tcp),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Test {
    UdpStream,
    TcpStream,
    UdpRr,
    TcpRr,
    TcpCrr,
    UnixStream,
    UnixRr,
    UnixCrr,
}

impl Test {
    /// In the seed's order, then what it does not have.
    pub const ALL: [Test; 8] = [
        Test::UdpStream,
        Test::TcpStream,
        Test::UdpRr,
        Test::TcpRr,
        Test::TcpCrr,
        Test::UnixStream,
        Test::UnixRr,
        Test::UnixCrr,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Test::UdpStream => "UDP_STREAM",
            Test::TcpStream => "TCP_STREAM",
            Test::UdpRr => "UDP_RR",
            Test::TcpRr => "TCP_RR",
            Test::TcpCrr => "TCP_CRR",
            Test::UnixStream => "UNIX_STREAM",
            Test::UnixRr => "UNIX_RR",
            Test::UnixCrr => "UNIX_CRR",
        }
    }
    pub fn of(name: &str) -> Option<Test> {
        Test::ALL.into_iter().find(|t| t.name() == name)
    }
    pub fn family(self) -> Family {
        match self {
            Test::UdpStream | Test::UdpRr => Family::Udp,
            Test::TcpStream | Test::TcpRr | Test::TcpCrr => Family::Tcp,
            Test::UnixStream | Test::UnixRr | Test::UnixCrr => Family::Unix,
        }
    }
    /// Whether bytes go one way only.
    pub fn streams(self) -> bool {
        matches!(self, Test::UdpStream | Test::TcpStream | Test::UnixStream)
    }
    /// Whether it can leave a machine.
    pub fn travels(self) -> bool {
        self.family() != Family::Unix
    }
    /// What its figures are, in the order in which a run gives them; the first is the one that is compared.
    pub fn metrics(self) -> Vec<(&'static str, &'static str, Better)> {
        match self {
            // What arrived is what counts; what was sent is shown beside it.
            Test::UdpStream => vec![
                ("receive", "MiB/s", Better::More),
                ("send", "MiB/s", Better::More),
                ("lost", "%", Better::Less),
            ],
            t if t.streams() => vec![
                ("receive", "MiB/s", Better::More),
                ("send", "MiB/s", Better::More),
            ],
            _ => vec![("rate", "1/s", Better::More)],
        }
    }
}

/// What netperf is told: `-m 32768 -s 65500,65500 -S 65500,65500 -r 1,1 -l SECONDS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Options {
    /// Bytes of each send.
    pub message: usize,
    /// Of the client's socket, and of the server's.
    pub local: Buffers,
    pub remote: Buffers,
    /// Bytes there and back.
    pub request: usize,
    pub response: usize,
    pub ms: u64,
    /// Check what arrives; the rate is then of no use.
    pub check: bool,
}

const SEED: Buffers = Buffers {
    send: 65_500,
    receive: 65_500,
};
/// The most that a datagram of IPv4 holds: 65535 less the headers of IP and UDP.
pub const DATAGRAM: usize = 65_507;
/// The most that is agreed to.
const MOST_BYTES: usize = 16 << 20;
const MOST_BUFFER: usize = 64 << 20;
const MOST_MS: u64 = 60_000;

impl Options {
    pub fn usual(quick: bool) -> Options {
        Options {
            message: 32_768,
            local: SEED,
            remote: SEED,
            request: 1,
            response: 1,
            ms: if quick { 200 } else { 1000 },
            check: false,
        }
    }

    /// Whether they can be met by `test`; both sides ask.
    ///
    /// # Errors
    /// A sentence: which cannot, and what can.
    pub fn possible(&self, test: Test) -> Result<(), String> {
        let most = match test.family() {
            Family::Udp => DATAGRAM,
            _ => MOST_BYTES,
        };
        let name = test.name();
        let sizes = [
            ("-m", self.message),
            ("-r", self.request),
            ("-r", self.response),
        ];
        if let Some((option, n)) = sizes.into_iter().find(|&(_, n)| n == 0 || n > most) {
            return Err(format!("{option} {n}: {name} can do 1 to {most} bytes"));
        }
        let buffers = [
            self.local.send,
            self.local.receive,
            self.remote.send,
            self.remote.receive,
        ];
        if let Some(n) = buffers.into_iter().find(|&n| n > MOST_BUFFER) {
            return Err(format!(
                "a socket's buffer of {n} bytes is too much; give -s and -S {MOST_BUFFER} or less"
            ));
        }
        if !(10..=MOST_MS).contains(&self.ms) {
            return Err(format!(
                "a test of {} s cannot be; give -l 0.01 to {}",
                self.ms as f64 / 1e3,
                MOST_MS / 1000
            ));
        }
        Ok(())
    }

    fn words(&self, test: Test) -> [u64; ORDER] {
        let index = Test::ALL.iter().position(|&t| t == test).unwrap_or(0);
        [
            index as u64,
            self.message as u64,
            self.remote.send as u64,
            self.remote.receive as u64,
            self.request as u64,
            self.response as u64,
            self.ms,
            u64::from(self.check),
        ]
    }

    /// What was ordered, as far as the server has to know; a sentence if it cannot be.
    fn of(words: [u64; ORDER]) -> Result<(Test, Options), String> {
        let [test, message, send, receive, request, response, ms, check] = words;
        let n = |v: u64| usize::try_from(v).unwrap_or(usize::MAX);
        let test = Test::ALL
            .get(n(test))
            .copied()
            .ok_or("there is no such test in this version")?;
        let o = Options {
            message: n(message),
            local: Buffers::default(),
            remote: Buffers {
                send: n(send),
                receive: n(receive),
            },
            request: n(request),
            response: n(response),
            ms,
            check: check != 0,
        };
        o.possible(test)?;
        Ok((test, o))
    }
}

/// Words of an order.
const ORDER: usize = 8;

/// The calls on a test's socket fail after a while where its peer may be on another host. The peer of a UNIX socket is a
/// process of the same worker, which has a limit of its own; so the socket has no option that an ordinary program's has not.
fn patient(s: &Socket, test: Test) -> io::Result<()> {
    match test.travels() {
        true => socket::patient(s, PATIENCE),
        false => Ok(()),
    }
}

/// The worker's part, both sides in processes of this machine: the figures. A UNIX socket is in `folder`.
///
/// # Errors
/// What went wrong in it.
pub fn work(
    test: Test,
    cpus: &[usize],
    o: &Options,
    folder: Option<&Path>,
) -> Result<Vec<f64>, Failure> {
    let (a, b) = Socket::pair(Domain::UNIX, Type::STREAM, None)?;
    let control = [a, b].map(|s| Duplex::socket(s.into_raw_fd()));
    let figures = pair::board(test.metrics().len())?;
    pair::pair(
        cpus,
        |gate| {
            gate.pass();
            let v = client::run(&control[0], LOOPBACK, test, o)?;
            for (word, f) in figures.iter().zip(&v) {
                word.store(f.to_bits(), Relaxed);
            }
            Ok(())
        },
        |gate| {
            gate.pass();
            server::run(&control[1], LOOPBACK, folder)
        },
    )?;
    let f = |w: &std::sync::atomic::AtomicU64| f64::from_bits(w.load(Relaxed));
    Ok(figures.iter().map(f).collect())
}

/// The same against a host that serves.
///
/// # Errors
/// What went wrong in it.
pub fn against(peer: &Socket, test: Test, o: &Options) -> Result<Vec<f64>, Failure> {
    let to = peer.peer_addr()?.as_socket().ok_or_else(client::nonsense)?;
    client::run(&Duplex::socket(peer.as_raw_fd()), to.ip(), test, o)
}

/// Serves that.
///
/// # Errors
/// What went wrong in it.
pub fn serve(peer: &Socket) -> Result<(), Failure> {
    let at = peer
        .local_addr()?
        .as_socket()
        .ok_or_else(client::nonsense)?;
    server::run(&Duplex::socket(peer.as_raw_fd()), at.ip(), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_bounded() {
        let o = Options::usual(true);
        for test in Test::ALL {
            let (same, back) = Options::of(o.words(test)).unwrap();
            assert_eq!(
                (same, back.message, back.remote),
                (test, o.message, o.remote)
            );
            assert_eq!(Test::of(test.name()), Some(test));
        }
        let bad = |i: usize, v: u64| {
            let mut w = o.words(Test::TcpRr);
            w[i] = v;
            Options::of(w)
        };
        assert!(bad(0, 8).is_err() && bad(0, u64::MAX).is_err());
        for i in 1..7 {
            assert!(bad(i, u64::MAX).is_err(), "{i}");
        }
        assert!(bad(6, 0).is_err() && bad(4, 0).is_err());
    }

    #[test]
    fn what_a_datagram_cannot_hold_is_told() {
        let o = Options {
            message: 65_508,
            ..Options::usual(true)
        };
        let e = o.possible(Test::UdpStream).unwrap_err();
        assert!(e.contains("65507"), "{e}");
        assert!(o.possible(Test::TcpStream).is_ok());
    }
}
