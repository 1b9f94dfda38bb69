//! The original tools of the network's sources, as they are installed: a server and a client of each, over the loopback.
//!
//! ```text
//! NPtcp  iperf3  sockperf  netperf     a client of the tool <--TCP or UDP--> its server
//! wrk                                  wrk --TCP--> nginx --> a file of 16 KiB
//! ```
//! Invariant: a run counts only if the tool says that all arrived: NPtcp compares every block once before it measures,
//! sockperf counts what was lost, wrk what failed.
//! Not here: the lab's own programs that do the same (net).
use super::case::{Case, find};
use super::nginx;
use super::worker::{client, number, strange};
use crate::child::Failure;
use crate::server::Server;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

/// Blocks that NPtcp compares before it measures.
const COMPARED: u32 = 20;
const MIB: f64 = (1 << 20) as f64;

/// A port of the loopback address that nobody has, for a tool that cannot be told to choose one.
fn port() -> std::io::Result<u16> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(free.local_addr()?.port())
}

/// Whether something listens on `port`, or receives datagrams there. A connection would be the client of some servers.
fn listens(port: u16) -> bool {
    // LINUX proc(5): address:port in hexadecimal digits, then the other end's, then the state: 0A is LISTEN, 07 that of UDP.
    let local = format!(":{port:04X}");
    let is = |line: &str, state: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(1).is_some_and(|a| a.ends_with(&local)) && words.get(3) == Some(&state)
    };
    let has = |table: &str, state: &str| {
        let text = std::fs::read_to_string(format!("/proc/self/net/{table}"));
        text.is_ok_and(|t| t.lines().any(|l| is(l, state)))
    };
    [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")]
        .iter()
        .any(|(table, state)| has(table, state))
}

fn command(name: &str, words: &[&str]) -> Command {
    let mut c = Command::new(find(name).unwrap_or_default());
    c.args(words);
    c
}

/// The server `name`, told `words`; back when it listens on `port`.
fn server(name: &'static str, words: &[&str], port: u16, run: &Path) -> Result<Server, Failure> {
    let mut c = command(name, words);
    c.current_dir(run);
    Server::start(name, &mut c, run, libc::SIGTERM, || listens(port))
}

/// What NPtcp has for one size of block: us of a block; `n` are the repeats.
///
/// # Errors
/// What went wrong.
pub fn nptcp(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    // It compares no block that is smaller.
    let size = case.size.max(64);
    let said = blocks(size, &["-i", "-n", &COMPARED.to_string()], run)?;
    if !said.ends_with(&format!(" {COMPARED}")) {
        return Err(strange("NPtcp -i", &said));
    }
    let said = blocks(case.size, &["-n", &n.to_string()], run)?;
    let seconds = said.rsplit(' ').next().and_then(|w| w.parse::<f64>().ok());
    let seconds = seconds.filter(|s| *s > 0.0);
    Ok(vec![1e6 * seconds.ok_or_else(|| strange("NPtcp", &said))?])
}

/// Both sides of NPtcp: the line that its client has written.
fn blocks(size: u32, words: &[&str], run: &Path) -> Result<String, Failure> {
    let (port, size) = (port()?, size.to_string());
    let number = port.to_string();
    let common = ["-P", &number, "-l", &size, "-u", &size, "-p", "0"];
    let common: Vec<_> = common.iter().chain(words).copied().collect();
    let server = server("NPtcp", &common, port, run)?;
    let mut c = command("NPtcp", &common);
    let file = run.join("np.out");
    c.args(["-h", "127.0.0.1", "-o"]).arg(&file);
    client("NPtcp", &mut c)?;
    server.finished()?;
    let text = std::fs::read_to_string(file)?;
    Ok(text.lines().next_back().unwrap_or("").trim().into())
}

/// A stream of iperf3 for `n` seconds, in writes of the case's size: MiB/s that arrived.
///
/// # Errors
/// What went wrong.
pub fn iperf3(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let port = port()?;
    let [number, size, seconds] = [port.into(), case.size, n].map(|v: u32| v.to_string());
    let words = ["-s", "-1", "-B", "127.0.0.1", "-p", &number];
    let server = server("iperf3", &words, port, run)?;
    let mut c = command("iperf3", &["-c", "127.0.0.1", "-p", &number, "-J"]);
    c.args(["-t", &seconds, "-l", &size]);
    if case.size == SEED {
        // As the source had it.
        c.args(["-w", "65500"]);
    }
    let said = client("iperf3", &mut c)?;
    server.finished()?;
    let said: serde_json::Value =
        serde_json::from_str(&said).map_err(|_| strange("iperf3", &said))?;
    let of = |sum: &str, what: &str| said["end"][sum][what].as_f64();
    let sent = of("sum_sent", "bytes");
    match (
        sent,
        of("sum_received", "bytes"),
        of("sum_received", "bits_per_second"),
    ) {
        // What is on its way when the time is over is not received.
        (Some(sent), Some(got), Some(bits)) if 0.0 < got && got <= sent => {
            Ok(vec![bits / 8.0 / MIB])
        }
        _ => Err(strange("iperf3", &said["end"].to_string())),
    }
}

/// Bytes of a write of the source's stream.
pub const SEED: u32 = 32_768;

/// Messages a second that sockperf makes its table for; no round trip is as short as 0.25 us. By itself it makes one for
/// 600,000, and ends with an error where there are more. A client that is slower never waits, so the figure stays the same.
const MESSAGES: &str = "4000000";

/// sockperf for `n` seconds: us from one side to the other, half of a round trip.
///
/// # Errors
/// What went wrong, or a message was lost.
pub fn sockperf(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let port = port()?;
    let [number, size, seconds] = [port.into(), case.size, n].map(|v: u32| v.to_string());
    let tcp: &[&str] = if case.id.ends_with("tcp") {
        &["--tcp"]
    } else {
        &[]
    };
    let common = ["-i", "127.0.0.1", "-p", &number];
    let common: Vec<_> = common.iter().chain(tcp).copied().collect();
    let words: Vec<_> = ["server"].iter().chain(&common).copied().collect();
    let server = server("sockperf", &words, port, run)?;
    let mut c = command("sockperf", &["ping-pong"]);
    c.args(common).args(["-t", &seconds, "-m", &size]);
    c.args(["--mps", MESSAGES]);
    let said = client("sockperf", &mut c)?;
    server.end()?;
    Ok(vec![latency(&said)?])
}

/// Of what sockperf says, if nothing was lost.
fn latency(said: &str) -> Result<f64, Failure> {
    let wrong =
        ["dropped", "duplicated", "out-of-order"].map(|w| number(said, &format!("{w} messages =")));
    if wrong != [Some(0.0); 3] {
        return Err(Failure::Said(format!(
            "sockperf has lost messages, or had others twice or out of order: {wrong:?}"
        )));
    }
    number(said, "avg-latency=").ok_or_else(|| strange("sockperf", said))
}

/// wrk for `n` seconds on the case's connections: answers a second.
///
/// # Errors
/// What went wrong, or an answer was another than the file.
pub fn wrk(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let (server, at) = nginx::with_file(run)?;
    let mut c = command("wrk", &["-t1", &format!("-c{}", case.clients)]);
    c.args([&format!("-d{n}s"), &format!("http://{at}/file")]);
    let said = client("wrk", &mut c)?;
    server.end()?;
    Ok(vec![answers(&said)?])
}

/// Of what wrk says, if nothing failed: then it has no line of failures.
fn answers(said: &str) -> Result<f64, Failure> {
    let wrong = |l: &&str| l.contains("Socket errors") || l.contains("Non-2xx");
    if let Some(line) = said.lines().find(wrong) {
        return Err(Failure::Said(format!("wrk says {:?}", line.trim())));
    }
    number(said, "Requests/sec:").ok_or_else(|| strange("wrk", said))
}

/// netperf for `n` seconds: MiB/s that arrived, or answers a second.
///
/// # Errors
/// What went wrong.
pub fn netperf(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let port = port()?;
    let [number, seconds] = [port.into(), n].map(|v: u32| v.to_string());
    let words = ["-D", "-4", "-L", "127.0.0.1", "-p", &number];
    let server = server("netserver", &words, port, run)?;
    let test = case.id.trim_start_matches("netperf-").to_uppercase();
    let mut c = command("netperf", &["-H", "127.0.0.1", "-p", &number]);
    c.args(["-f", "M", "-P", "0", "-v", "0", "-l", &seconds, "-t", &test]);
    if test.ends_with("STREAM") {
        c.args(["--", "-m", &case.size.to_string()]);
        c.args(["-s", "65500,65500", "-S", "65500,65500"]);
    }
    let said = client("netperf", &mut c)?;
    server.end()?;
    let figure = said.split_whitespace().find_map(|w| w.parse::<f64>().ok());
    let figure = figure.filter(|f| *f > 0.0);
    Ok(vec![figure.ok_or_else(|| strange("netperf", &said))?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_listened_on_is_seen_without_a_connection() {
        let l = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = l.local_addr().unwrap().port();
        assert!(listens(port));
        l.set_nonblocking(true).unwrap();
        assert!(l.accept().is_err(), "nobody has come");
        drop(l);
        assert!(!listens(port));
        let u = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(listens(u.local_addr().unwrap().port()));
    }

    #[test]
    fn a_lost_message_has_no_latency() {
        let said = |n: u32| {
            format!(
                "sockperf: \x1b[2;35m====> avg-latency=47.337 (std-dev=130.192)\x1b[0m\nsockperf: # dropped messages = {n}; \
                 # duplicated messages = 0; # out-of-order messages = 0\n"
            )
        };
        assert_eq!(latency(&said(0)).unwrap(), 47.337);
        assert!(latency(&said(1)).is_err() && latency("").is_err());
    }

    #[test]
    fn only_right_answers_have_a_rate() {
        let said =
            |more: &str| format!("  7829 requests in 1.05s\n{more}Requests/sec:   7428.68\n");
        assert_eq!(answers(&said("")).unwrap(), 7428.68);
        let wrong = "  Socket errors: connect 0, read 3, write 0, timeout 0\n";
        assert!(answers(&said(wrong)).is_err());
        assert!(answers(&said("  Non-2xx or 3xx responses: 2\n")).is_err());
        assert!(answers("").is_err());
    }
}
