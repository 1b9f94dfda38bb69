//! A host that serves tests, and one that asks it: first both say who they are.
//!
//! ```text
//! client: magic, version, what -->        then the test speaks for itself
//!         <-- magic, version, 0 (or 1: not this version, 2: what?)
//! ```
//! Invariant: a client has `PATIENCE` to say who it is, and `SESSION` for all that it wants; it is served alone; whatever it
//! does, and however slowly, the next one is served. Nothing has a name, so a server that is killed leaves nothing.
//! Not here: what may be asked (netpipe/sides.rs, netperf/mod.rs bound it).
use super::duplex::{Carrier, Duplex};
use super::socket::{self, Buffers, Family, PATIENCE};
use super::{netperf, netpipe};
use crate::child::Failure;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// "bywaylab".
const MAGIC: u64 = u64::from_le_bytes(*b"bywaylab");
/// Of what both sides say; another number is another language.
const VERSION: u64 = 1;
/// Where a host serves if it is not told: nobody is registered there, beside netperf's own 12865.
pub const PORT: u16 = 12_870;

/// What a client may take: longer than any measurement asks for (place.rs).
const SESSION: Duration = Duration::from_secs(600);

/// What a client wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    Netpipe = 1,
    Netperf = 2,
}

/// HOST, HOST:PORT, or an IPv6 address in brackets.
///
/// # Errors
/// A sentence: there is no such host.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let bare: Option<IpAddr> = text.trim_matches(['[', ']']).parse().ok();
    if let Some(ip) = bare {
        return Ok(SocketAddr::new(ip, PORT));
    }
    let found = if text.contains(':') {
        text.to_socket_addrs()
    } else {
        (text, PORT).to_socket_addrs()
    };
    found
        .ok()
        .and_then(|mut all| all.next())
        .ok_or(format!("there is no host {text}; give HOST or HOST:PORT"))
}

/// A connection to the host that serves at `to`, ready for `asked`.
///
/// # Errors
/// Nobody is there, or speaks otherwise.
pub fn ask(to: SocketAddr, asked: Asked) -> Result<Socket, Failure> {
    let what = to.to_string();
    let said = |e| socket::said(e, &what);
    let s = socket::connected(Family::Tcp, &to.into(), Buffers::default()).map_err(said)?;
    socket::patient(&s, PATIENCE)?;
    let d = Duplex::socket(s.as_raw_fd());
    d.say(&[MAGIC, VERSION, asked as u64]).map_err(said)?;
    let [magic, version, refused] = d.hear().map_err(said)?;
    if magic != MAGIC {
        return Err(Failure::Said(format!(
            "{to}: what listens there is no `byway bench --serve`; give another port"
        )));
    }
    if version != VERSION || refused != 0 {
        return Err(Failure::Said(format!(
            "{to}: `byway bench --serve` speaks version {version} there, this is {VERSION}; install the same on both"
        )));
    }
    Ok(s)
}

/// What `f` gives; after `limit` the connection is ended, and so `f`, which only waits for it.
fn within<T>(s: &Socket, limit: Duration, f: impl FnOnce() -> T) -> T {
    let (over, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let _ = s.shutdown(std::net::Shutdown::Both);
            }
        });
        let result = f();
        drop(over);
        result
    })
}

/// What `ask` begins, from the other side: serves one client.
///
/// # Errors
/// What went wrong; only this client is concerned.
pub fn answer(s: &Socket) -> Result<Asked, Failure> {
    socket::patient(s, PATIENCE)?;
    let d = Duplex::socket(s.as_raw_fd());
    let [magic, version, asked] = within(s, PATIENCE, || d.hear())?;
    if magic != MAGIC {
        return Err(Failure::Said("no client of this program".into()));
    }
    let asked = match asked {
        1 => Some(Asked::Netpipe),
        2 => Some(Asked::Netperf),
        _ => None,
    };
    let refused = match asked {
        _ if version != VERSION => 1,
        None => 2,
        Some(_) => 0,
    };
    d.say(&[MAGIC, VERSION, refused])?;
    match asked {
        Some(a) if refused == 0 => {
            within(s, SESSION, || match a {
                Asked::Netpipe => netpipe::serve(s),
                Asked::Netperf => netperf::serve(s),
            })?;
            Ok(a)
        }
        _ => Err(Failure::Said(format!(
            "a client of version {version}, this is {VERSION}"
        ))),
    }
}

/// Where clients of `at` are waited for.
///
/// # Errors
/// A sentence: the port is in use, or the address not of this machine.
pub fn listen(at: SocketAddr) -> Result<Socket, String> {
    let open = || {
        let s = Socket::new(Domain::for_address(at), Type::STREAM, Some(Protocol::TCP))?;
        // Also while connections of a server before it rest.
        s.set_reuse_address(true)?;
        s.bind(&at.into())?;
        s.listen(16)?;
        Ok(s)
    };
    open().map_err(|e: io::Error| match e.kind() {
        io::ErrorKind::AddrInUse => format!(
            "port {} is in use; give another: --serve {}:PORT",
            at.port(),
            at.ip()
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "{} is no address of this machine; `ip address` lists them",
                at.ip()
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!(
                "port {} is not for everybody; give one above 1023",
                at.port()
            )
        }
        _ => format!("{at}: {e}"),
    })
}

/// Serves clients of `l` one after the other: `each` is told of every one how it went, and says whether to go on.
///
/// # Errors
/// No more can be waited for.
pub fn serve(
    l: &Socket,
    mut each: impl FnMut(&str, Result<Asked, Failure>) -> bool,
) -> io::Result<()> {
    loop {
        let (s, from) = match l.accept() {
            Ok(found) => found,
            // LINUX accept(2): errors of a connection that is gone already come here.
            Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(e) => return Err(e),
        };
        let from = from.as_socket().map_or(String::new(), |a| a.to_string());
        if !each(&from, answer(&s)) {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::netperf::Test;
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::thread;

    fn started(clients: usize) -> (SocketAddr, thread::JoinHandle<Vec<Result<Asked, String>>>) {
        let l = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = l.local_addr().unwrap().as_socket().unwrap();
        let t = thread::spawn(move || {
            let mut all = vec![];
            serve(&l, |_, r| {
                all.push(r.map_err(|e| e.to_string()));
                all.len() < clients
            })
            .unwrap();
            all
        });
        (at, t)
    }

    #[test]
    fn strangers_are_sent_away_and_the_next_is_served() {
        let (at, server) = started(6);
        let other = |bytes: &[u8]| {
            let mut s = TcpStream::connect(at).unwrap();
            let _ = s.write_all(bytes);
            let _ = s.shutdown(Shutdown::Write);
            let mut back = vec![];
            let _ = s.read_to_end(&mut back);
            back
        };
        assert!(other(b"GET / HTTP/1.0\r\n\r\n and so on").is_empty());
        assert!(other(b"").is_empty());
        let words = |w: [u64; 3]| w.map(u64::to_le_bytes).concat();
        assert_eq!(other(&words([MAGIC, 99, 1]))[16..24], 1u64.to_le_bytes());
        assert_eq!(
            other(&words([MAGIC, VERSION, 9]))[16..24],
            2u64.to_le_bytes()
        );
        // A client that orders what cannot be.
        let huge = [words([MAGIC, VERSION, 1]), words([u64::MAX, 1, 0])].concat();
        assert_eq!(other(&huge).len(), 24);
        let o = netpipe::Options {
            upper: 1000,
            check: true,
            repeats: 3,
            ..netpipe::Options::usual(true)
        };
        let s = ask(at, Asked::Netpipe).unwrap();
        let v = netpipe::against(&s, &o).unwrap();
        assert_eq!(v.len(), o.sizes().len());
        let all = server.join().unwrap();
        assert!(all[..5].iter().all(Result::is_err), "{all:?}");
        assert_eq!(all[5], Ok(Asked::Netpipe));
    }

    #[test]
    fn every_test_that_travels_runs_between_hosts() {
        let tests = Test::ALL.into_iter().filter(|t| t.travels());
        let (at, server) = started(tests.clone().count() + 1);
        let o = netperf::Options {
            ms: 20,
            check: true,
            ..netperf::Options::usual(true)
        };
        for test in tests {
            let s = ask(at, Asked::Netperf).unwrap();
            let v = netperf::against(&s, test, &o).unwrap_or_else(|e| panic!("{test:?}: {e}"));
            assert_eq!(v.len(), test.metrics().len());
        }
        let s = ask(at, Asked::Netperf).unwrap();
        // A loopback host may be asked for a UNIX socket; one that cannot be is refused in words.
        let bad = netperf::Options { message: 0, ..o };
        let e = netperf::against(&s, Test::TcpStream, &bad).unwrap_err();
        assert!(e.to_string().contains("-m 0"), "{e}");
        let all = server.join().unwrap();
        assert!(all[..all.len() - 1].iter().all(Result::is_ok), "{all:?}");
    }

    #[test]
    fn who_dawdles_is_cut_off() {
        let [server, client] = socket::tcp_pair(Buffers::default()).unwrap();
        // Its writes raise no signal when the other side has gone.
        let mut client = TcpStream::from(client);
        let client = thread::spawn(move || {
            // A byte now and then, for ever: each comes in time, all of them never do.
            while client.write_all(&[0]).is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let d = Duplex::socket(server.as_raw_fd());
        let e = within(&server, Duration::from_millis(50), || {
            d.take(&mut [0; 1 << 20])
        });
        assert_eq!(e.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        drop(server);
        client.join().unwrap();
    }

    #[test]
    fn who_is_not_there_is_told() {
        let l = listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = l.local_addr().unwrap().as_socket().unwrap();
        let e = listen(at).unwrap_err();
        assert!(e.contains("in use"), "{e}");
        drop(l);
        let e = ask(at, Asked::Netpipe).unwrap_err();
        assert!(e.to_string().contains("--serve"), "{e}");
        let e = listen("192.0.2.77:0".parse().unwrap()).unwrap_err();
        assert!(e.contains("no address of this machine"), "{e}");
        assert!(
            address("no.such.host.invalid")
                .unwrap_err()
                .contains("HOST:PORT")
        );
        assert_eq!(address("127.0.0.1").unwrap().port(), PORT);
        assert_eq!(address("[::1]:77").unwrap().to_string(), "[::1]:77");
        assert_eq!(address("::1").unwrap().port(), PORT);
    }
}
