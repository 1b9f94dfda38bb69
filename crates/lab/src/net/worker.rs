//! A worker of the network: the process that is started for one backend, one case, one round; plain, or under `byway run`.
//!
//! Invariant: it does the same whoever started it, and ends with its parent. Figures go to standard output, one a line.
//! Not here: how it is started (crate::pairs::start), what the sides do (netpipe, netperf, session.rs).
use super::Way;
use super::ftp::{self, transfer::Transfer};
use super::netperf::{self, Test};
use super::netpipe;
use super::session::{self, Asked};
use crate::child::Failure;
use crate::pairs::pair;
use crate::pairs::start::Of;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// What is to be done: one word of a command line, in JSON.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    pub cpus: Vec<usize>,
    /// The host that serves; `None`: both sides are here.
    pub peer: Option<SocketAddr>,
    pub work: Work,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Work {
    Netpipe(Way, netpipe::Options),
    /// UNIX sockets are in the folder, which is there where both sides are here.
    Netperf(Test, netperf::Options, Option<String>),
    /// Serves one client there; the port is its only figure.
    Serve(SocketAddr),
    Ftp(Transfer),
    /// The server of these files, there, until it is ended; it tells its port as `Serve` does.
    FtpServer(ftp::folder::Files, IpAddr),
}

impl Work {
    /// What serves it on another host of ours, at `ip`.
    pub fn server(&self, ip: IpAddr) -> Work {
        match self {
            Work::Ftp(t) => Work::FtpServer(t.files.clone(), ip),
            _ => Work::Serve(SocketAddr::new(ip, 0)),
        }
    }

    /// Of which bytes its carried part is.
    pub fn of(&self) -> Of {
        match self {
            Work::Netpipe(Way::Pipe, _) => Of::All,
            _ => Of::Sockets,
        }
    }

    /// Longer than it takes in one machine.
    pub fn limit(&self) -> Duration {
        match self {
            Work::Ftp(_) => Duration::from_secs(300),
            _ => Duration::from_secs(90),
        }
    }
}

/// The command that a worker is started with.
pub const COMMAND: &str = "net-worker";

impl Job {
    pub fn word(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The figures.
    ///
    /// # Errors
    /// What went wrong in it.
    pub fn run(&self) -> Result<Vec<f64>, Failure> {
        pair::take_part()?;
        match (&self.work, self.peer) {
            (Work::Netpipe(way, o), None) => netpipe::work(*way, &self.cpus, o),
            (Work::Netpipe(_, o), Some(p)) => {
                netpipe::against(&session::ask(p, Asked::Netpipe)?, o)
            }
            (Work::Netperf(test, o, folder), None) => {
                netperf::work(*test, &self.cpus, o, folder.as_ref().map(Path::new))
            }
            (Work::Netperf(test, o, _), Some(p)) => {
                netperf::against(&session::ask(p, Asked::Netperf)?, *test, o)
            }
            (Work::Serve(at), _) => serve_one(*at).map(|()| vec![]),
            (Work::Ftp(t), at) => Ok(vec![t.run(at)?]),
            (Work::FtpServer(files, ip), _) => ftp::serve(files, *ip),
        }
    }
}

/// Tells its port as soon as it listens, serves one client, and ends.
fn serve_one(at: SocketAddr) -> Result<(), Failure> {
    let l = session::listen(at).map_err(Failure::Said)?;
    tell(l.local_addr()?.as_socket().map_or(0, |a| a.port()))?;
    let mut done = Ok(());
    session::serve(&l, |_, result| {
        done = result.map(|_| ());
        false
    })?;
    done
}

/// Tells its port to the process that started it (place.rs).
///
/// # Errors
/// Nobody reads it.
pub fn tell(port: u16) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{port}")?;
    out.flush()
}

/// The whole life of a worker; 2 and a sentence if there are no figures.
pub fn main(word: &str) -> i32 {
    // SAFETY: no pointers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let Ok(job) = serde_json::from_str::<Job>(word) else {
        eprintln!(
            "byway: net-worker: `byway bench` starts it, with a word of its own; try `byway bench --help`"
        );
        return 2;
    };
    match job.run() {
        Ok(figures) => {
            let lines: String = figures.iter().map(|f| format!("{f}\n")).collect();
            print!("{lines}");
            0
        }
        Err(e) => {
            eprintln!("byway: net-worker: {e}");
            2
        }
    }
}
