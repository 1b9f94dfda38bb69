//! The side that is asked: it listens where the kernel lets it, or in the folder that it is given; it counts what comes, and
//! says so.
//!
//! Invariant: an order is looked at before anything is done for it, and no call waits longer than the test can take, so a
//! client that goes away or sends nonsense ends its own test only.
//! Not here: whom it listens to first (session.rs).
use super::client::nonsense;
use super::{ORDER, Options, Test};
use crate::child::{Failure, now};
use crate::net::duplex::{Carrier, Duplex};
use crate::net::pattern;
use crate::net::socket::{self, Family};
use socket2::{SockAddr, Socket};
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long a server of datagrams waits before it looks whether the client has ended.
const LULL: Duration = Duration::from_millis(50);
/// What a test may take after its time: until all that is on its way has come.
const REST: Duration = Duration::from_secs(20);
/// Bytes of a read of a stream, at most: the socket's buffer where that is less, as the original does.
const READ: usize = 1 << 20;

/// The name of a UNIX socket in its folder.
pub const SOCKET: &str = "socket";

/// Serves one test, at `ip`, or in `folder`.
///
/// # Errors
/// What went wrong; the client is told if it was its order.
pub fn run(control: &Duplex, ip: IpAddr, folder: Option<&Path>) -> Result<(), Failure> {
    let words: [u64; ORDER] = control.hear()?;
    let (test, o) = match Options::of(words) {
        Ok(order) => order,
        Err(why) => return refuse(control, &why),
    };
    let at = match (test.travels(), folder) {
        (true, _) => Ok(socket::any_port(ip)),
        (false, Some(folder)) => unix(folder),
        (false, None) => return refuse(control, "a UNIX socket does not leave its machine"),
    };
    let l = match at.and_then(|at| socket::listening(test.family(), &at, o.remote)) {
        Ok(l) => l,
        Err(e) => return refuse(control, &e.to_string()),
    };
    place(control, &l, test)?;
    super::patient(&l, test)?;
    let began = now();
    let (bytes, messages) = match test {
        Test::UdpStream => datagrams(&l, control, &o)?,
        Test::UdpRr => questions(&l, control, &o)?,
        Test::TcpCrr | Test::UnixCrr => connections(&l, test, &o)?,
        t if t.streams() => {
            let (bytes, messages, ns) = stream(&l, test, &o)?;
            return Ok(control.say(&[bytes, messages, ns])?);
        }
        _ => answers(&accepted(&l, test)?, &o)?,
    };
    Ok(control.say(&[bytes, messages, now() - began])?)
}

fn refuse(control: &Duplex, why: &str) -> Result<(), Failure> {
    let text = &why.as_bytes()[..why.len().min(128)];
    control.say(&[1, text.len() as u64])?;
    control.put(text)?;
    Err(Failure::Said(format!("refused: {why}")))
}

/// Tells where `l` is.
fn place(control: &Duplex, l: &Socket, test: Test) -> Result<(), Failure> {
    let at = l.local_addr()?;
    if test.family() == Family::Unix {
        let path = at.as_pathname().ok_or_else(nonsense)?.as_os_str();
        control.say(&[0, path.len() as u64])?;
        return Ok(control.put(path.as_bytes())?);
    }
    let port = at.as_socket().ok_or_else(nonsense)?.port();
    Ok(control.say(&[0, port.into()])?)
}

/// The path of the socket in `folder`. A worker that was killed has left its socket there, which is in the way of bind(2).
fn unix(folder: &Path) -> io::Result<SockAddr> {
    let path = folder.join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => SockAddr::unix(path),
    }
}

fn accepted(l: &Socket, test: Test) -> Result<Socket, Failure> {
    let (s, _) = l
        .accept()
        .map_err(|e| socket::said(e, "the test's own connection"))?;
    super::patient(&s, test)?;
    Ok(s)
}

/// Whether a test of `o` that began so long ago may still go on.
fn in_time(began: u64, o: &Options) -> Result<(), Failure> {
    if now() - began < o.ms * 1_000_000 + REST.as_nanos() as u64 {
        return Ok(());
    }
    Err(socket::said(
        io::ErrorKind::TimedOut.into(),
        "the client's end",
    ))
}

fn changed() -> Failure {
    Failure::Said("bytes came changed: what carries them is broken".into())
}

/// Reads to the end: bytes, reads, ns from the first byte to the end.
fn stream(l: &Socket, test: Test, o: &Options) -> Result<(u64, u64, u64), Failure> {
    let mut s = accepted(l, test)?;
    let mut buf = vec![0; s.recv_buffer_size()?.clamp(1, READ)];
    let (mut bytes, mut reads, mut began) = (0, 0, now());
    loop {
        let n = s.read(&mut buf)?;
        if n == 0 {
            return Ok((bytes, reads, now() - began));
        }
        if reads == 0 {
            began = now();
        }
        in_time(began, o)?;
        if o.check && !pattern::is(&buf[..n], bytes) {
            return Err(changed());
        }
        bytes += n as u64;
        reads += 1;
    }
}

/// Request and response until the client ends: bytes, requests.
fn answers(s: &Socket, o: &Options) -> Result<(u64, u64), Failure> {
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (mut n, began) = (0, now());
    while whole(s, &mut request)? {
        in_time(began, o)?;
        check(o, &request, n, &mut response)?;
        (&*s).write_all(&response)?;
        n += 1;
    }
    Ok((n * o.request as u64, n))
}

/// Reads all of a request; false if there is none any more.
fn whole(mut s: &Socket, request: &mut [u8]) -> Result<bool, Failure> {
    let first = s.read(request)?;
    if first == 0 {
        return Ok(false);
    }
    s.read_exact(&mut request[first..])?;
    Ok(true)
}

/// Looks at request `n` and fills the response, if the test is to check.
fn check(o: &Options, request: &[u8], n: u64, response: &mut [u8]) -> Result<(), Failure> {
    if o.check {
        if !pattern::is(request, n) {
            return Err(changed());
        }
        pattern::fill(response, n);
    }
    Ok(())
}

/// A connection for each request, until one asks nothing.
fn connections(l: &Socket, test: Test, o: &Options) -> Result<(u64, u64), Failure> {
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (mut n, began) = (0, now());
    loop {
        in_time(began, o)?;
        let mut s = accepted(l, test)?;
        if !whole(&s, &mut request)? {
            return Ok((n * o.request as u64, n));
        }
        check(o, &request, n, &mut response)?;
        s.write_all(&response)?;
        n += 1;
    }
}

/// Receives until the client has said how much it sent and nothing more comes; `each` is told of each datagram.
fn receive(
    l: &Socket,
    control: &Duplex,
    o: &Options,
    buf: &mut [u8],
    mut each: impl FnMut(&[u8], &socket2::SockAddr) -> Result<(), Failure>,
) -> Result<(), Failure> {
    l.set_read_timeout(Some(LULL))?;
    let began = now();
    loop {
        // SAFETY: bytes are always initialised; recv_from only writes initialised bytes into them.
        let room = unsafe { &mut *(std::ptr::from_mut(buf) as *mut [MaybeUninit<u8>]) };
        match l.recv_from(room) {
            Ok((n, from)) => each(&buf[..n], &from)?,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                if control.waits()? {
                    control.hear::<1>()?;
                    return Ok(());
                }
            }
            Err(e) => return Err(e.into()),
        }
        // Datagrams that never end, or a client that says nothing.
        in_time(began, o)?;
    }
}

fn datagrams(l: &Socket, control: &Duplex, o: &Options) -> Result<(u64, u64), Failure> {
    let mut buf = vec![0; o.message];
    let (mut bytes, mut n) = (0, 0);
    receive(l, control, o, &mut buf, |b, _| {
        if o.check {
            // Those before it may be lost, so where it begins it has to say itself.
            pattern::place(b).ok_or_else(changed)?;
        }
        bytes += b.len() as u64;
        n += 1;
        Ok(())
    })?;
    Ok((bytes, n))
}

fn questions(l: &Socket, control: &Duplex, o: &Options) -> Result<(u64, u64), Failure> {
    let (mut buf, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (mut bytes, mut n) = (0, 0);
    receive(l, control, o, &mut buf, |b, from| {
        if o.check {
            // A request that is sent again is the same, so the response follows from it alone.
            pattern::fill(&mut response, pattern::place(b).ok_or_else(changed)?);
        }
        l.send_to(&response, from)?;
        bytes += b.len() as u64;
        n += 1;
        Ok(())
    })?;
    Ok((bytes, n))
}
