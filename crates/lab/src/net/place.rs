//! Where the two sides of a test are, and how a run is started there.
//!
//! ```text
//! here    one worker, both sides its children        two CPUs, if there are
//! veth    a worker that serves one client, in a namespace; a worker that asks it, in the other
//! peer    a worker that asks the host that serves there
//! ```
//! Invariant: a worker that serves is ended before the run is over, however that goes.
//! Not here: what a run measures.
use super::session;
use super::veth::{self, Veth};
use super::worker::{COMMAND, Job, Work};
use crate::child::Failure;
use crate::pairs::pair;
use crate::pairs::start::{Byway, Call, Done};
use crate::program;
use crate::record::{Overhead, Record};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::process::{Child, Stdio};
use std::time::Duration;

/// Longer than any run takes between two machines.
const FAR_LIMIT: Duration = Duration::from_secs(600);
/// Until a server listens.
const START: Duration = Duration::from_secs(20);
/// `byway run` without words of its own.
const CARRIED: &[&str] = &[];

/// Where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hosts {
    Here,
    Veth,
    Peer(SocketAddr),
}

pub struct Place {
    pub hosts: Hosts,
    pub cpus: Vec<usize>,
    byway: Byway,
    /// Once it is prepared.
    veth: Option<Veth>,
}

impl Place {
    pub fn new(hosts: Hosts, cpus: Vec<usize>, byway: Byway) -> Place {
        Place {
            hosts,
            cpus,
            byway,
            veth: None,
        }
    }

    /// As the record has it.
    pub fn name(&self) -> String {
        match self.hosts {
            Hosts::Here => "here".into(),
            Hosts::Veth => "veth".into(),
            Hosts::Peer(at) => at.to_string(),
        }
    }

    /// Makes the hosts, if they are made, and says where all happens.
    ///
    /// # Errors
    /// A sentence: they cannot be.
    pub fn prepare(&mut self, record: &mut Record) -> Result<(), Failure> {
        record.notes.push(match self.hosts {
            Hosts::Here => format!(
                "in one machine, one side on CPU {}, the other on CPU {}",
                self.cpus[0],
                self.second()
            ),
            Hosts::Veth => format!(
                "two network namespaces of one machine joined by veth, the client on CPU {}, the server on CPU {}; \
                 byway: both under `byway run`",
                self.cpus[0],
                self.second()
            ),
            Hosts::Peer(at) => format!(
                "the client on CPU {} of this machine, the server at {at}; byway: only the client under `byway run`",
                self.cpus[0]
            ),
        });
        record.overhead.push(Overhead {
            what: "a look at the clock".into(),
            value: pair::clock_ns(),
            unit: "ns".into(),
        });
        if self.hosts == Hosts::Veth {
            self.veth = Some(Veth::new()?);
        }
        Ok(())
    }

    /// Of the server, or where both are on one, that.
    fn second(&self) -> usize {
        self.cpus[1 % self.cpus.len()]
    }

    /// The namespace of host 0, the client's, or 1.
    fn namespace(&self, host: usize) -> Option<RawFd> {
        self.veth.as_ref().map(|v| v.fd(host))
    }

    /// One run, of two sides in one machine on `cpus`.
    ///
    /// # Errors
    /// What went wrong, here or there.
    pub fn run(&self, cpus: &[usize], work: Work, carried: bool) -> Result<Done, Failure> {
        let run = carried.then_some(CARRIED);
        let (server, limit) = match (self.hosts, &self.veth) {
            (Hosts::Veth, Some(_)) => (Some(self.serve(&work, run)?), work.limit()),
            (Hosts::Peer(_), _) => (None, FAR_LIMIT),
            _ => (None, work.limit()),
        };
        let (peer, cpus) = match (self.hosts, &server) {
            (Hosts::Peer(at), _) => (Some(at), vec![self.cpus[0]]),
            (_, Some(s)) => (Some(s.at), vec![self.cpus[0]]),
            _ => (None, cpus.to_vec()),
        };
        let job = Job { cpus, peer, work };
        let call = Call {
            program: None,
            words: vec![COMMAND.into(), job.word()],
            cpus: &job.cpus,
            run,
            namespace: self.namespace(0),
        };
        let done = self.byway.call(&call, limit, job.work.of());
        match (done, server) {
            // What the server says is nearer to the cause.
            (Err(e), Some(s)) => Err(s.why().unwrap_or(e)),
            (done, _) => done,
        }
    }

    /// A worker that serves `work` on the second host.
    fn serve(&self, work: &Work, run: Option<&'static [&'static str]>) -> Result<Server, Failure> {
        let ip: IpAddr = veth::SECOND.parse().map_err(std::io::Error::other)?;
        let job = Job {
            cpus: vec![self.second()],
            peer: None,
            work: work.server(ip),
        };
        let call = Call {
            program: None,
            words: vec![COMMAND.into(), job.word()],
            cpus: &job.cpus,
            run,
            namespace: self.namespace(1),
        };
        let mut c = self.byway.command(&call);
        let child = c
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut server = Server {
            child,
            at: SocketAddr::new(ip, session::PORT),
        };
        let line = match server.child.stdout.as_mut() {
            Some(out) => program::first_line(out, START)?,
            None => String::new(),
        };
        match line.parse() {
            Ok(port) => server.at.set_port(port),
            Err(_) => return Err(server.why().unwrap_or(call.silent(""))),
        }
        Ok(server)
    }
}

/// A worker that serves; gone with the value.
struct Server {
    child: Child,
    at: SocketAddr,
}

impl Server {
    /// What it says of its end, once that has come.
    fn why(mut self) -> Option<Failure> {
        program::end(&mut self.child);
        let mut text = String::new();
        let err = self.child.stderr.as_mut()?;
        err.read_to_string(&mut text).ok()?;
        let head = format!("byway: {COMMAND}: ");
        let said = text.lines().find_map(|l| l.strip_prefix(&head))?;
        Some(Failure::Said(format!("the server: {said}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        program::end(&mut self.child);
    }
}
