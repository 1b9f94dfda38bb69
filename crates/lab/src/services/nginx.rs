//! nginx behind nginx: one has a file, the other asks it over a UNIX socket, and is asked by ab over TCP.
//!
//! ```text
//! ab --TCP--> front --UNIX socket--> back --> a file of 16 KiB
//! ```
//! Invariant: the worker compares the file once, and ab the length of every answer.
//! Not here: FastCGI, TLS.
use super::case::{Case, find};
use super::worker::{client, number, strange};
use crate::child::Failure;
use crate::net::pattern;
use crate::server::Server;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

pub const PROGRAMS: [&str; 2] = ["nginx", "ab"];
const FILE: usize = 16 << 10;

/// `n` requests, on connections that stay: how many a second.
///
/// # Errors
/// What went wrong.
pub fn run(case: &Case, n: u32, run: &Path) -> Result<Vec<f64>, Failure> {
    let file = file(run)?;
    let socket = run.join("socket");
    let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let back = format!(
        "server {{ listen unix:{}; root {}; }}",
        socket.display(),
        run.join("www").display()
    );
    let front = format!(
        "upstream back {{ server unix:{}; keepalive 16; keepalive_requests 10000000; }}
         server {{ listen {at}; location / {{
           proxy_pass http://back; proxy_http_version 1.1; proxy_set_header Connection \"\";
         }} }}",
        socket.display()
    );
    let reached = || UnixStream::connect(&socket).is_ok();
    let back = start("nginx-back", run, &back, reached)?;
    let front = start("nginx-front", run, &front, || {
        TcpStream::connect(at).is_ok()
    })?;
    compare(at, &file)?;
    let mut c = Command::new(find("ab").unwrap_or_default());
    c.args(["-q", "-k", "-n", &n.to_string()]);
    c.args([
        "-c",
        &case.clients.to_string(),
        &format!("http://{at}/file"),
    ]);
    let said = client("ab", &mut c)?;
    front.end()?;
    back.end()?;
    Ok(vec![rate(&said, n)?])
}

/// Makes the file, which is all that is in its folder.
fn file(run: &Path) -> Result<Vec<u8>, Failure> {
    let mut file = vec![0; FILE];
    pattern::fill(&mut file, 0);
    std::fs::create_dir(run.join("www"))?;
    std::fs::write(run.join("www/file"), &file)?;
    Ok(file)
}

/// An nginx that has the file itself, and where it listens.
///
/// # Errors
/// What went wrong.
pub fn with_file(run: &Path) -> Result<(Server, SocketAddr), Failure> {
    let file = file(run)?;
    let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let http = format!(
        "server {{ listen {at}; root {}; }}",
        run.join("www").display()
    );
    let server = start("nginx", run, &http, || TcpStream::connect(at).is_ok())?;
    compare(at, &file)?;
    Ok((server, at))
}

/// One nginx of one worker process, with this in its part `http`.
fn start(
    name: &'static str,
    run: &Path,
    http: &str,
    listens: impl Fn() -> bool,
) -> Result<Server, Failure> {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    let settings = settings(name, run, http, root);
    let file = run.join(format!("{name}.conf"));
    std::fs::write(&file, settings)?;
    let mut c = Command::new(find("nginx").unwrap_or_default());
    c.arg("-p").arg(run).arg("-c").arg(file);
    c.args(["-e", "stderr"]);
    Server::start(name, &mut c, run, libc::SIGTERM, listens)
}

fn settings(name: &str, run: &Path, http: &str, root: bool) -> String {
    let run = run.display();
    // A worker process of another user could not enter this folder.
    let user = if root { "user root;" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|t| format!("{t}_temp_path {run}/{name}-{t};\n"))
        .concat();
    format!(
        "daemon off; worker_processes 1; pid {run}/{name}.pid; {user}
         events {{ worker_connections 256; }}
         http {{ access_log off; keepalive_requests 10000000; {temporary} {http} }}\n"
    )
}

/// Gets the file once.
fn compare(at: SocketAddr, file: &[u8]) -> Result<(), Failure> {
    let mut s = TcpStream::connect(at)?;
    s.write_all(b"GET /file HTTP/1.0\r\n\r\n")?;
    let mut got = vec![];
    s.read_to_end(&mut got)?;
    if got.starts_with(b"HTTP/1.1 200") && got.ends_with(file) {
        return Ok(());
    }
    let line = got.split(|&b| b == b'\r').next().unwrap_or(&[]);
    Err(Failure::Said(format!(
        "nginx answers {:?} and {} bytes that are not the file: what carries it is broken",
        String::from_utf8_lossy(line),
        got.len()
    )))
}

/// Of what ab says, if all `n` answers were right.
fn rate(said: &str, n: u32) -> Result<f64, Failure> {
    let of = |label: &str| number(said, label).ok_or_else(|| strange("ab", said));
    let (done, failed) = (of("Complete requests:")?, of("Failed requests:")?);
    let wrong = number(said, "Non-2xx responses:").unwrap_or(0.0);
    if done != f64::from(n) || failed + wrong != 0.0 {
        return Err(Failure::Said(format!(
            "ab has had {done} of {n} answers, {failed} of another length, {wrong} with another status"
        )));
    }
    of("Requests per second:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_right_answers_have_a_rate() {
        let said = |failed: u32, more: &str| {
            format!(
                "Complete requests:      100\nFailed requests:        {failed}\n{more}\
                 Requests per second:    4321.50 [#/sec] (mean)\n"
            )
        };
        assert_eq!(rate(&said(0, ""), 100).unwrap(), 4321.5);
        assert!(rate(&said(1, ""), 100).is_err() && rate(&said(0, ""), 101).is_err());
        assert!(rate(&said(0, "Non-2xx responses:      3\n"), 100).is_err());
    }
}
