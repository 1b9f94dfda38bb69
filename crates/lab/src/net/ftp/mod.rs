//! `ftp`: a large file from an FTP server, and to it: whole programs, as people use them.
//!
//! ```text
//! get   a file --> vsftpd --> curl --> its copy        put   a file --> curl --> vsftpd --> its copy
//! ```
//! Invariant: every copy is compared with the file that it was made from. Server, client and files are this measurement's
//! own, and gone after it; nobody else can log in while it runs.
//! Not here: a transfer and its client (transfer.rs), the server (server.rs), the files (folder.rs).
//!
//! Source: "Benchmarks für Networking Stack" (30 July 2008), whose file has 520 MB.
pub mod folder;
mod server;
mod text;
pub mod transfer;

use super::netperf::workload::OVER;
use super::place::{Hosts, Place};
use super::setting::Setting;
use super::worker::{self, Work};
use super::{Backend, Way, carried};
use crate::child::Failure;
use crate::pairs::start::Done;
use crate::record::{Better, Parameters, Record};
use crate::runner::{Contest, Limits};
use crate::workload::Workload;
use folder::{Files, Folder};
use std::net::IpAddr;
use transfer::Transfer;

pub const CASES: [&str; 2] = ["get", "put"];
pub const BACKENDS: [Backend; 2] = [
    Backend::plain("kernel", Way::Tcp),
    Backend::carried("byway", Way::Tcp),
];
/// What it starts.
const PROGRAMS: [&str; 2] = ["vsftpd", "curl"];
const MB: u64 = 1_000_000;

pub struct Ftp {
    setting: Setting,
    bytes: u64,
    /// Once it is prepared.
    ready: Option<Folder>,
}

impl Ftp {
    /// With a file of so many MB; `backends` are names, all if there is none.
    ///
    /// # Errors
    /// A sentence: there is no such backend, or the place is not for it.
    pub fn new(place: Place, size: u64, quick: bool, backends: &[String]) -> Result<Ftp, String> {
        if matches!(place.hosts, Hosts::Peer(_)) {
            return Err("ftp starts its server itself; between two hosts: --hosts veth".into());
        }
        Ok(Ftp {
            setting: Setting::new(place, &BACKENDS, backends, quick)?,
            bytes: size.saturating_mul(MB),
            ready: None,
        })
    }

    /// One run of the backend at `k`.
    fn one(&self, put: bool, k: usize) -> Result<Done, Failure> {
        let Some(folder) = &self.ready else {
            return Err(Failure::Said("ftp was not prepared".into()));
        };
        let work = Work::Ftp(Transfer {
            put,
            files: folder.files().clone(),
            bytes: folder.bytes(),
        });
        let done = self.setting.run(k, work)?;
        folder.compare(put)?;
        Ok(done)
    }
}

/// Serves `files` at `ip` until this worker is ended, and vsftpd with it.
///
/// # Errors
/// It does not start.
pub fn serve(files: &Files, ip: IpAddr) -> Result<Vec<f64>, Failure> {
    let (_server, at) = server::start(files, ip)?;
    worker::tell(at.port())?;
    loop {
        std::thread::park();
    }
}

impl Workload for Ftp {
    fn name(&self) -> &'static str {
        "ftp"
    }
    fn cases(&self) -> Vec<String> {
        CASES.map(String::from).into()
    }
    fn cpus(&self) -> Vec<usize> {
        self.setting.cpus()
    }

    fn parameters(&self) -> Parameters {
        self.setting.parameters([("bytes", self.bytes.into())])
    }

    fn usual(&self) -> Limits {
        let limits = Limits::usual(self.setting.quick, 5, 60);
        Limits {
            least: if self.setting.quick { 3 } else { 5 },
            ..limits
        }
    }

    fn missing(&self) -> Option<String> {
        let mut all = PROGRAMS.iter().map(|p| server::find(p));
        all.find_map(|p| p.err().map(|e| e.to_string()))
    }

    fn prepare(&mut self, record: &mut Record, _: &[String]) -> Result<(), Failure> {
        if let Some(why) = self.missing() {
            return Err(Failure::Said(why));
        }
        self.setting.prepare(record, &[], None)?;
        record.notes.push(text::about(self.bytes));
        self.ready = Some(Folder::new(self.bytes)?);
        Ok(())
    }

    fn measure(
        &mut self,
        record: &mut Record,
        case: &str,
        limits: &Limits,
        tick: &mut dyn FnMut(f64),
    ) -> Result<(), Failure> {
        let put = case == CASES[1];
        let (names, ratios) = (self.setting.names(), self.setting.against(OVER));
        let contest = Contest {
            case,
            metric: "rate",
            unit: "MB/s",
            better: Better::More,
            backends: &names,
            ratios: &ratios,
        };
        let outcome = contest.run(limits, |k| self.one(put, k), tick)?;
        record.add(&contest, &outcome);
        for (k, name) in names.iter().enumerate() {
            carried::add(record, case, name, outcome.runs[k].iter());
        }
        Ok(())
    }

    fn heading(&self) -> Vec<String> {
        vec![super::text::heading(OVER)]
    }
    fn lines(&self, record: &Record, case: &str) -> Vec<String> {
        super::text::lines(record, case, OVER)
    }
    fn tables(&self, record: &mut Record, _: &[String]) -> Vec<String> {
        record.notes.push(super::text::SOURCE.into());
        text::table(record, &self.setting.names())
    }
}
