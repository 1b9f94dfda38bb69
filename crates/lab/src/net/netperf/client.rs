//! The side that decides: it orders a test, sends for the time that it was told, and asks what arrived.
//!
//! ```text
//! control:  order -->  <-- 0, where (or 1: why not)      ... data ...      end -->  <-- bytes, messages, ns
//! ```
//! Invariant: the clock runs from the first send to the moment at which the last byte is known to be there (of datagrams:
//! to the last send).
//! Not here: who the server is.
use super::{Options, Test};
use crate::child::{Failure, now};
use crate::net::duplex::{Carrier, Duplex};
use crate::net::pattern;
use crate::net::socket::{self, Family};
use socket2::{SockAddr, Socket};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

const MIB: f64 = (1 << 20) as f64;
/// How long a datagram's answer is waited for before another is sent.
const LOST: Duration = Duration::from_millis(200);
/// Datagrams lost one after the other before the test is given up.
const MOST_LOST: u64 = 20;

pub fn nonsense() -> Failure {
    Failure::Said(
        "the other side does not speak as `byway bench` does; are both of one version?".into(),
    )
}

/// What the server counted.
struct Counted {
    bytes: u64,
    messages: u64,
    ns: u64,
}

/// One test against the server at the other end of `control`, which is at `host`; its figures (`Test::metrics`).
///
/// # Errors
/// What went wrong, there or here.
pub fn run(control: &Duplex, host: IpAddr, test: Test, o: &Options) -> Result<Vec<f64>, Failure> {
    control.say(&o.words(test))?;
    let at = place(control, host, test)?;
    match test {
        Test::UdpStream => datagrams(control, &at, o),
        t if t.streams() => stream(control, &at, t, o),
        Test::UdpRr => questions(control, &at, o),
        Test::TcpCrr | Test::UnixCrr => connections(control, &at, test, o),
        t => answers(control, &at, t, o),
    }
}

/// Where the server listens.
fn place(control: &Duplex, host: IpAddr, test: Test) -> Result<SockAddr, Failure> {
    let [refused, what] = control.hear()?;
    let mut text = [0; 128];
    let n = usize::try_from(what).unwrap_or(usize::MAX);
    if refused != 0 {
        let text = text.get_mut(..n).ok_or_else(nonsense)?;
        control.take(text)?;
        return Err(Failure::Said(format!(
            "the server refuses: {}",
            String::from_utf8_lossy(text)
        )));
    }
    if test.family() == Family::Unix {
        let text = text.get_mut(..n).ok_or_else(nonsense)?;
        control.take(text)?;
        return Ok(SockAddr::unix(Path::new(OsStr::from_bytes(text)))?);
    }
    let port = u16::try_from(what).map_err(|_| nonsense())?;
    Ok(SocketAddr::new(host, port).into())
}

fn open(at: &SockAddr, test: Test, o: &Options) -> Result<Socket, Failure> {
    let s = socket::connected(test.family(), at, o.local)
        .map_err(|e| socket::said(e, "the test's own connection"))?;
    super::patient(&s, test)?;
    Ok(s)
}

fn counted(control: &Duplex) -> Result<Counted, Failure> {
    let [bytes, messages, ns] = control.hear()?;
    Ok(Counted {
        bytes,
        messages,
        ns,
    })
}

/// The numbers of both sides are not the same where they must be.
fn agree(what: &str, sent: u64, got: u64) -> Result<(), Failure> {
    if sent == got {
        return Ok(());
    }
    Err(Failure::Said(format!(
        "{sent} {what} were sent and {got} arrived: what carries them is broken"
    )))
}

/// Sends for the time of `o`: bytes, and ns until then.
fn send(s: &Socket, o: &Options) -> io::Result<(u64, u64)> {
    let mut message = vec![0xa5; o.message];
    let (began, mut sent) = (now(), 0);
    while now() - began < o.ms * 1_000_000 {
        if o.check {
            pattern::fill(&mut message, sent);
        }
        (&*s).write_all(&message)?;
        sent += o.message as u64;
    }
    Ok((sent, now() - began))
}

fn stream(control: &Duplex, at: &SockAddr, test: Test, o: &Options) -> Result<Vec<f64>, Failure> {
    let mut s = open(at, test, o)?;
    let began = now();
    let (sent, _) = send(&s, o)?;
    s.shutdown(std::net::Shutdown::Write)?;
    // The server closes when it has read all.
    if s.read(&mut [0])? != 0 {
        return Err(nonsense());
    }
    let ns = now() - began;
    let c = counted(control)?;
    agree("bytes", sent, c.bytes)?;
    Ok(vec![rate(c.bytes, c.ns), rate(sent, ns)])
}

/// MiB in a second.
fn rate(bytes: u64, ns: u64) -> f64 {
    bytes as f64 / MIB / (ns.max(1) as f64 / 1e9)
}

fn datagrams(control: &Duplex, at: &SockAddr, o: &Options) -> Result<Vec<f64>, Failure> {
    let s = open(at, Test::UdpStream, o)?;
    let (sent, ns) = send(&s, o)?;
    control.say(&[sent / o.message as u64])?;
    let c = counted(control)?;
    if c.bytes > sent {
        agree("bytes", sent, c.bytes)?;
    }
    // Both over the same time, as the original has it, so that the difference is the loss.
    let lost = 100.0 * (sent - c.bytes) as f64 / sent as f64;
    Ok(vec![rate(c.bytes, ns), rate(sent, ns), lost])
}

/// Calls `each` for the time of `o`: how often a second.
fn count(
    o: &Options,
    mut each: impl FnMut(u64) -> Result<(), Failure>,
) -> Result<(u64, f64), Failure> {
    let (began, mut n) = (now(), 0);
    loop {
        each(n)?;
        n += 1;
        let ns = now() - began;
        if ns >= o.ms * 1_000_000 {
            return Ok((n, n as f64 / (ns as f64 / 1e9)));
        }
    }
}

/// What a side looks for in what it gets, if it looks.
fn right(o: &Options, b: &[u8], at: u64) -> Result<(), Failure> {
    if o.check && !pattern::is(b, at) {
        return Err(Failure::Said(
            "a response came changed: what carries it is broken".into(),
        ));
    }
    Ok(())
}

/// Request and response, filled if they are looked at.
fn messages(o: &Options, n: u64, request: &mut [u8]) {
    if o.check {
        pattern::fill(request, n);
    }
}

fn answers(control: &Duplex, at: &SockAddr, test: Test, o: &Options) -> Result<Vec<f64>, Failure> {
    let mut s = open(at, test, o)?;
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (n, rate) = count(o, |n| {
        messages(o, n, &mut request);
        s.write_all(&request)?;
        s.read_exact(&mut response)?;
        right(o, &response, n)
    })?;
    s.shutdown(std::net::Shutdown::Write)?;
    agree("requests", n, counted(control)?.messages)?;
    Ok(vec![rate])
}

fn connections(
    control: &Duplex,
    at: &SockAddr,
    test: Test,
    o: &Options,
) -> Result<Vec<f64>, Failure> {
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let (n, rate) = count(o, |n| {
        let mut s = open(at, test, o)?;
        messages(o, n, &mut request);
        s.write_all(&request)?;
        s.read_exact(&mut response)?;
        // The server closes first, so that the port that rests for a while is its own, which all share.
        if s.read(&mut [0])? != 0 {
            return Err(nonsense());
        }
        right(o, &response, n)
    })?;
    // One that asks nothing is the last.
    drop(open(at, test, o)?);
    agree("requests", n, counted(control)?.messages)?;
    Ok(vec![rate])
}

fn questions(control: &Duplex, at: &SockAddr, o: &Options) -> Result<Vec<f64>, Failure> {
    let mut s = open(at, Test::UdpRr, o)?;
    s.set_read_timeout(Some(LOST))?;
    let (mut request, mut response) = (vec![0; o.request], vec![0; o.response]);
    let mut lost = 0;
    let (n, rate) = count(o, |n| {
        messages(o, n, &mut request);
        let mut again = 0;
        loop {
            if s.send(&request)? != request.len() {
                return Err(nonsense());
            }
            match s.read(&mut response) {
                Ok(got) if got == o.response => return right(o, &response, n),
                Ok(_) => return Err(nonsense()),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && again < MOST_LOST => {
                    again += 1;
                    lost += 1;
                }
                Err(e) => return Err(socket::said(e, "UDP_RR")),
            }
        }
    })?;
    control.say(&[n])?;
    let c = counted(control)?;
    // Each loss is of a request or of a response.
    if !(n..=n + lost).contains(&c.messages) {
        agree("requests", n, c.messages)?;
    }
    Ok(vec![rate])
}
