//! memcached on a UNIX socket, asked by the worker itself: it has no benchmark of its own.
//!
//! ```text
//! 50 connections, each:  set KEY (100 B) --> STORED    get KEY --> the same 100 B    ...    by poll(2), in one thread
//! ```
//! Invariant: a connection has one request on its way, and every byte of every answer is compared.
//! Not here: its binary protocol.
use super::case::{Case, find};
use crate::child::Failure;
use crate::net::pattern;
use crate::server::Server;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

pub const PROGRAMS: [&str; 1] = ["memcached"];
const VALUE: usize = 100;
/// ms that an answer may take.
const PATIENCE: i32 = 10_000;

/// `n` requests, as many of set as of get: how many a second.
///
/// # Errors
/// What went wrong.
pub fn run(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let socket = run.join("socket");
    let mut c = Command::new(find("memcached").unwrap_or_default());
    c.arg("-s").arg(&socket).args(["-a", "0700", "-m", "64"]);
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        // It wants to be told that root is meant.
        c.args(["-u", "root"]);
    }
    let listens = || UnixStream::connect(&socket).is_ok();
    let server = Server::start("memcached", &mut c, run, libc::SIGTERM, listens)?;
    let rate = load(&socket, case.clients, n / case.clients)?;
    server.end()?;
    Ok(vec![rate])
}

/// `clients` connections with so many requests each: requests a second.
fn load(socket: &Path, clients: u32, each: u32) -> Result<f64, Failure> {
    let mut all = (0..clients)
        .map(|i| Client::new(socket, i))
        .collect::<io::Result<Vec<_>>>()?;
    let began = Instant::now();
    for c in &mut all {
        c.ask()?;
    }
    let mut left = all.len();
    while left > 0 {
        let wanted = |c: &Client| if c.asked > each { 0 } else { libc::POLLIN };
        let mut polled: Vec<_> = all
            .iter()
            .map(|c| libc::pollfd {
                fd: c.stream.as_raw_fd(),
                events: wanted(c),
                revents: 0,
            })
            .collect();
        // SAFETY: as many structs of ours.
        let found = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as _, PATIENCE) };
        if found < 0 {
            return Err(io::Error::last_os_error().into());
        }
        if found == 0 {
            return Err(Failure::Said(format!(
                "memcached has not answered {left} of {clients} clients for {} s",
                PATIENCE / 1000
            )));
        }
        for (c, p) in all.iter_mut().zip(&polled) {
            if p.revents == 0 || c.asked > each || !c.hear()? {
                continue;
            }
            if c.asked == each {
                c.asked += 1;
                left -= 1;
            } else {
                c.ask()?;
            }
        }
    }
    Ok(f64::from(clients * each) / began.elapsed().as_secs_f64())
}

/// A connection with a key of its own.
struct Client {
    stream: UnixStream,
    key: u32,
    /// Requests so far: the first of every two sets what the second gets.
    asked: u32,
    value: Vec<u8>,
    expected: Vec<u8>,
    got: Vec<u8>,
}

impl Client {
    fn new(socket: &Path, key: u32) -> io::Result<Client> {
        Ok(Client {
            stream: UnixStream::connect(socket)?,
            key,
            asked: 0,
            value: vec![0; VALUE],
            expected: vec![],
            got: vec![],
        })
    }

    /// Sends the next request.
    fn ask(&mut self) -> io::Result<()> {
        let (key, gets) = (self.key, self.asked % 2 == 1);
        self.got.clear();
        self.expected.clear();
        let mut request = vec![];
        if gets {
            write!(request, "get key-{key}\r\n")?;
            write!(self.expected, "VALUE key-{key} 0 {VALUE}\r\n")?;
            self.expected.extend(&self.value);
            self.expected.extend(b"\r\nEND\r\n");
        } else {
            pattern::fill(&mut self.value, u64::from(key + self.asked));
            write!(request, "set key-{key} 0 0 {VALUE}\r\n")?;
            request.extend(&self.value);
            request.extend(b"\r\n");
            self.expected.extend(b"STORED\r\n");
        }
        self.asked += 1;
        self.stream.write_all(&request)
    }

    /// Takes what is there; whether the answer is complete.
    fn hear(&mut self) -> Result<bool, Failure> {
        let mut buf = [0; 4096];
        let n = self.stream.read(&mut buf)?;
        self.got.extend(&buf[..n]);
        // Also the beginning of an answer tells whether it is another.
        if n == 0 || !self.expected.starts_with(&self.got) {
            return Err(Failure::Said(format!(
                "memcached answers request {} of client {} with {:?} in place of {:?}",
                self.asked,
                self.key,
                String::from_utf8_lossy(&self.got),
                String::from_utf8_lossy(&self.expected)
            )));
        }
        Ok(self.got.len() == self.expected.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A server that answers `n` requests of one client, a set and a get in turn; `wrong` is added to a value's bytes.
    fn serve(l: &UnixListener, n: u32, wrong: u8) {
        let (mut s, _) = l.accept().unwrap();
        let mut value = vec![];
        for i in 0..n {
            let mut got = vec![0; 4096];
            let m = s.read(&mut got).unwrap();
            if i % 2 == 0 {
                let at = m - VALUE - 2;
                value = got[at..m - 2].iter().map(|b| b + wrong).collect();
                s.write_all(b"STORED\r\n").unwrap();
            } else {
                s.write_all(b"VALUE key-0 0 100\r\n").unwrap();
                s.write_all(&value).unwrap();
                let _ = s.write_all(b"\r\nEND\r\n");
            }
        }
    }

    #[test]
    fn an_answer_that_changes_is_found() {
        let path = std::env::temp_dir().join(format!("byway-memcached-{}", std::process::id()));
        for wrong in [0, 1] {
            let _ = std::fs::remove_file(&path);
            let l = UnixListener::bind(&path).unwrap();
            let server = thread::spawn(move || serve(&l, if wrong == 0 { 6 } else { 2 }, wrong));
            let rate = load(&path, 1, 6);
            server.join().unwrap();
            assert_eq!(rate.is_ok(), wrong == 0, "{rate:?}");
        }
        std::fs::remove_file(path).unwrap();
    }
}
