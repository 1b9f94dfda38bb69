//! Redis: redis-server on a UNIX socket, asked by redis-benchmark.
//!
//! ```text
//! worker --SET, GET of 64 KiB--> redis-server    compared        redis-benchmark --SET and GET of 32 B--> redis-server
//! ```
//! Invariant: the server keeps nothing on a disk, and the worker compares its own count of requests with the server's.
//! Not here: its cluster, its TLS.
use super::case::{Case, find};
use super::worker::{client, number, strange};
use crate::child::Failure;
use crate::net::pattern;
use crate::server::Server;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

pub const PROGRAMS: [&str; 2] = ["redis-server", "redis-benchmark"];
/// Bytes of the value that is compared: more than one message of the kernel's holds.
const VALUE: usize = 64 << 10;

/// Requests of SET and then of GET, `n` of each: how many of each a second, GET first.
///
/// # Errors
/// What went wrong.
pub fn run(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let socket = run.join("socket");
    let mut c = Command::new(find("redis-server").unwrap_or_default());
    c.args(["--port", "0", "--unixsocketperm", "700", "--save", ""]);
    c.args(["--appendonly", "no", "--daemonize", "no"]);
    c.arg("--unixsocket").arg(&socket).arg("--dir").arg(run);
    let listens = || UnixStream::connect(&socket).is_ok();
    let server = Server::start("redis-server", &mut c, run, libc::SIGTERM, listens)?;
    let mut own = Own::new(&socket)?;
    own.compare()?;
    let mut c = Command::new(find("redis-benchmark").unwrap_or_default());
    c.arg("-s").arg(&socket);
    c.args(["-t", "set,get", "-d", "32", "--csv"]);
    for (option, value) in [("-c", case.clients), ("-P", case.depth), ("-n", n)] {
        c.arg(option).arg(value.to_string());
    }
    let said = client("redis-benchmark", &mut c)?;
    own.count(n)?;
    drop(own);
    server.end()?;
    let rate = |test: &str| rate(&said, test).ok_or_else(|| strange("redis-benchmark", &said));
    Ok(vec![rate("GET")?, rate("SET")?])
}

/// Of a line such as `"GET","12345.67","0.1", ...`.
fn rate(said: &str, test: &str) -> Option<f64> {
    let head = format!("\"{test}\",\"");
    let line = said.lines().find_map(|l| l.strip_prefix(&head))?;
    line.split('"').next()?.parse().ok()
}

/// The worker's own connection.
struct Own(BufReader<UnixStream>);

impl Own {
    fn new(socket: &Path) -> Result<Own, Failure> {
        Ok(Own(BufReader::new(UnixStream::connect(socket)?)))
    }

    /// Sends a command; its answer, a line or a value.
    fn ask(&mut self, words: &[&[u8]]) -> Result<Vec<u8>, Failure> {
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for w in words {
            command.extend(format!("${}\r\n", w.len()).bytes());
            command.extend(*w);
            command.extend(b"\r\n");
        }
        self.0.get_mut().write_all(&command)?;
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        let line = line.trim_end();
        let Some(length) = line.strip_prefix('$') else {
            return Ok(line.as_bytes().to_vec());
        };
        let length: usize = length.parse().map_err(|_| strange("redis-server", line))?;
        let mut value = vec![0; length + 2];
        self.0.read_exact(&mut value)?;
        value.truncate(length);
        Ok(value)
    }

    /// Sets a value and gets the same.
    fn compare(&mut self) -> Result<(), Failure> {
        let mut value = vec![0; VALUE];
        pattern::fill(&mut value, 0);
        let set = self.ask(&[b"SET", b"byway", &value])?;
        let got = self.ask(&[b"GET", b"byway"])?;
        if set == b"+OK" && got == value {
            return Ok(());
        }
        Err(Failure::Said(
            "redis-server gives another value than was set: what carries it is broken".into(),
        ))
    }

    /// Whether the server has had all requests, and the worker's own: one of each.
    fn count(&mut self, n: u32) -> Result<(), Failure> {
        let stats = self.ask(&[b"INFO", b"commandstats"])?;
        let stats = String::from_utf8_lossy(&stats);
        for command in ["set", "get"] {
            let calls = number(&stats, &format!("cmdstat_{command}:calls=")).unwrap_or(0.0);
            // A client of several requests at a time ends with a whole set of them.
            if calls < f64::from(n) + 1.0 {
                return Err(Failure::Said(format!(
                    "redis-server had {calls} requests of {command}, and {n} were sent: what carries them is broken"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_test() {
        let said = "\"test\",\"rps\",\"avg\"\n\"SET\",\"10.5\",\"1\"\n\"GET\",\"20\",\"1\"\n";
        assert_eq!(
            (rate(said, "SET"), rate(said, "GET")),
            (Some(10.5), Some(20.0))
        );
        assert_eq!(rate(said, "INCR"), None);
    }
}
