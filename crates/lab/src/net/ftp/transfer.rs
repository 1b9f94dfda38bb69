//! One transfer, in its worker: curl gets the file from vsftpd, or puts it, and says how long that took.
//!
//! ```text
//! worker --starts--> vsftpd (where it is not on the other host)      both under the worker's `byway run`, or under none
//!        --starts--> curl
//! ```
//! Invariant: the time is the client's own, from when both sides are ready to transfer to the server's word that all is
//! there: without its start and the log-in, as FTP clients print it.
//! Not here: whether the copy is right (folder.rs).
use super::folder::Files;
use super::server;
use crate::child::Failure;
use crate::net::socket::LOOPBACK;
use crate::program;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

/// Longer than a transfer takes, and less than its worker may (net/worker.rs).
const LIMIT: Duration = Duration::from_secs(270);

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub put: bool,
    pub files: Files,
    /// Of the file.
    pub bytes: u64,
}

impl Transfer {
    /// MB/s; `at` is the server on the other host, if there is one.
    ///
    /// # Errors
    /// A sentence: a program is not there, or says what went wrong.
    pub fn run(&self, at: Option<SocketAddr>) -> Result<f64, Failure> {
        match at {
            Some(at) => self.ask(at),
            None => {
                let (server, at) = server::start(&self.files, LOOPBACK)?;
                let rate = self.ask(at)?;
                server.end()?;
                Ok(rate)
            }
        }
    }

    fn ask(&self, at: SocketAddr) -> Result<f64, Failure> {
        let settings = self.files.write("client.conf", &self.settings(at)?)?;
        let mut c = Command::new(server::find("curl")?);
        c.arg("-q").arg("-K").arg(settings);
        let said = program::client("curl", &mut c, LIMIT)?;
        let seconds = seconds(&said, self.bytes).ok_or_else(|| {
            Failure::Said(format!(
                "curl says {said:?}, not the whole file; is it 7.84 or later?"
            ))
        })?;
        Ok(self.bytes as f64 / 1e6 / seconds)
    }

    /// What curl(1) is told in a file, where others cannot read the token.
    fn settings(&self, at: SocketAddr) -> std::io::Result<String> {
        let token = std::fs::read_to_string(self.files.token())?;
        let (remote, option, local) = if self.put {
            ("in/put", "upload-file", self.files.file())
        } else {
            ("file", "output", self.files.copy(false))
        };
        Ok(format!(
            "url = \"ftp://{at}/{remote}\"\n{option} = \"{}\"\nuser = \"anonymous:{}\"\n\
             noproxy = \"*\"\nsilent\nshow-error\n\
             write-out = \"%{{time_pretransfer}} %{{time_total}} %{{size_download}} %{{size_upload}}\"\n",
            local.display(),
            token.trim()
        ))
    }
}

/// Of what `write-out` says, if it is of so many bytes.
fn seconds(out: &str, bytes: u64) -> Option<f64> {
    let f: Vec<f64> = out
        .split_whitespace()
        .filter_map(|w| w.parse().ok())
        .collect();
    let [before, total, got, put] = f[..] else {
        return None;
    };
    let seconds = total - before;
    (got + put == bytes as f64 && seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_file_has_a_time() {
        assert_eq!(seconds("0.25 1.25 100 0", 100), Some(1.0));
        assert_eq!(seconds("0.25 1.25 0 100", 100), Some(1.0));
        assert_eq!(seconds("0.25 1.25 0 99", 100), None);
        assert_eq!(seconds("0.25 0.25 0 100", 100), None);
        assert_eq!(seconds("", 0), None);
    }
}
