//! The side that is asked: it listens where the kernel lets it, counts what comes, and says so.
//!
//! Invariant: an order is looked at before anything is done for it, and no call waits longer than the test can take, so a
//! client that goes away or sends nonsense ends its own test only.
//! Not here: whom it listens to first (session.rs).
use super::client::nonsense;
use super::{ORDER, Options, Test};
use crate::child::{Failure, now};
use crate::net::duplex::{Carrier, Duplex};
use crate::net::pattern;
use crate::net::socket::{self, Family, PATIENCE};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::time::Duration;

/// How long a server of datagrams waits before it looks whether the client has ended.
const LULL: Duration = Duration::from_millis(50);
/// What a test may take after its time: until all that is on its way has come.
const REST: Duration = Duration::from_secs(20);
/// Bytes of a read of a stream, at most: the socket's buffer where that is less, as the original does.
const READ: usize = 1 << 20;

/// Serves one test, at `ip`.
///
/// # Errors
/// What went wrong; the client is told if it was its order.
pub fn run(control: &Duplex, ip: IpAddr) -> Result<(), Failure> {
    let words: [u64; ORDER] = control.hear()?;
    let (test, o) = match Options::of(words) {
        Ok(order) => order,
        Err(why) => return refuse(control, &why),
    };
    if !test.travels() && !ip.is_loopback() {
        return refuse(control, "a UNIX socket does not leave its machine");
    }
    let l = match socket::listening(test.family(), ip, o.remote) {
        Ok(l) => l,
        Err(e) => return refuse(control, &e.to_string()),
    };
    place(control, &l, test)?;
    socket::patient(&l, PATIENCE)?;
    let began = now();
    let (bytes, messages) = match test {
        Test::UdpStream => datagrams(&l, control, &o)?,
        Test::UdpRr => questions(&l, control, &o)?,
        Test::TcpCrr => connections(&l, &o)?,
        t if t.streams() => {
            let (bytes, messages, ns) = stream(&l, &o)?;
            return Ok(control.say(&[bytes, messages, ns])?);
        }
        _ => answers(&accepted(&l)?, &o)?,
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
        let name = at.as_abstract_namespace().ok_or_else(nonsense)?;
        control.say(&[0, name.len() as u64])?;
        return Ok(control.put(name)?);
    }
    let port = at.as_socket().ok_or_else(nonsense)?.port();
    Ok(control.say(&[0, port.into()])?)
}

fn accepted(l: &Socket) -> Result<Socket, Failure> {
    let (s, _) = l
        .accept()
        .map_err(|e| socket::said(e, "the test's own connection"))?;
    socket::patient(&s, PATIENCE)?;
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
fn stream(l: &Socket, o: &Options) -> Result<(u64, u64, u64), Failure> {
    let mut s = accepted(l)?;
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
fn connections(l: &Socket, o: &Options) -> Result<(u64, u64), Failure> {
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (mut n, began) = (0, now());
    loop {
        in_time(began, o)?;
        let mut s = accepted(l)?;
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
