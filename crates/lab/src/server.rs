//! A real server of a run: started by the run's worker, ready once it listens, ended with the value.
//!
//! Invariant: a server ends with its worker: the kernel sends it the signal by which it ends its own processes. What it
//! says goes into a file, whose last line is told if it fails.
//! Not here: the words of each server.
use crate::child::Failure;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Until it listens.
const START: Duration = Duration::from_secs(20);
/// Until it has ended.
const END: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(5);

pub struct Server {
    name: &'static str,
    child: Child,
    signal: i32,
    said: PathBuf,
}

impl Server {
    /// Starts `c`, which `signal` ends with all that it has started; back when it `listens`.
    ///
    /// # Errors
    /// A sentence: it does not start.
    pub fn start(
        name: &'static str,
        c: &mut Command,
        folder: &Path,
        signal: i32,
        listens: impl Fn() -> bool,
    ) -> Result<Server, Failure> {
        let said = folder.join(format!("{name}.said"));
        let file = File::create(&said)?;
        c.stdin(Stdio::null());
        c.stdout(file.try_clone()?).stderr(file);
        // SAFETY: prctl(2) only.
        unsafe {
            c.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, signal);
                Ok(())
            });
        }
        let mut server = Server {
            name,
            child: c.spawn()?,
            signal,
            said,
        };
        let until = Instant::now() + START;
        while !listens() {
            if let Some(status) = server.child.try_wait()? {
                return Err(server.failed(&format!("does not start ({status})")));
            }
            if Instant::now() > until {
                let how_long = START.as_secs();
                return Err(server.failed(&format!("does not listen after {how_long} s")));
            }
            std::thread::sleep(LOOK);
        }
        Ok(server)
    }

    fn failed(&self, what: &str) -> Failure {
        let said = std::fs::read(&self.said).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let last = said.lines().rev().find(|l| !l.trim().is_empty());
        let name = self.name;
        Failure::Said(format!("{name} {what}: {:?}", last.unwrap_or("")))
    }

    /// Ends it, as it is ended in use.
    ///
    /// # Errors
    /// A sentence: it had ended before, or ends otherwise than well.
    pub fn end(mut self) -> Result<(), Failure> {
        if let Some(status) = self.child.try_wait()? {
            return Err(self.failed(&format!("ended before it was told to ({status})")));
        }
        match self.ended() {
            Some(s) if s.success() || s.signal() == Some(self.signal) => Ok(()),
            Some(s) => Err(self.failed(&format!("ended with {s}"))),
            None => Err(self.failed(&format!("did not end in {} s", END.as_secs()))),
        }
    }

    /// Waits for one that ends by itself, after its only client.
    ///
    /// # Errors
    /// A sentence: it does not end, or not well.
    pub fn finished(mut self) -> Result<(), Failure> {
        match self.waited()? {
            Some(s) if s.success() => Ok(()),
            Some(s) => Err(self.failed(&format!("ended with {s}"))),
            None => Err(self.failed(&format!("did not end {} s after its client", END.as_secs()))),
        }
    }

    /// How it has ended, within `END`.
    fn waited(&mut self) -> std::io::Result<Option<ExitStatus>> {
        let until = Instant::now() + END;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            std::thread::sleep(LOOK);
        }
        Ok(None)
    }

    /// Sends the signal and waits; `None`: it was killed.
    fn ended(&mut self) -> Option<ExitStatus> {
        // SAFETY: our own child, which has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, self.signal) };
        if let Ok(Some(status)) = self.waited() {
            return Some(status);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.ended();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(text: &str, listens: bool) -> Result<Server, Failure> {
        let mut c = Command::new("sh");
        c.args(["-c", text]);
        let folder = std::env::temp_dir().join(format!("byway-server-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Server::start("it", &mut c, &folder, libc::SIGTERM, || listens)
    }

    #[test]
    fn a_server_ends_when_it_is_told_and_says_why_it_does_not_start() {
        sh("exec sleep 100", true).unwrap().end().unwrap();
        let why = sh("echo no port; exit 3", false).err().unwrap().to_string();
        assert!(
            why.contains("no port") && why.contains("exit status: 3"),
            "{why}"
        );
        sh("exit 0", true).unwrap().finished().unwrap();
        let why = sh("echo no client; exit 4", true).unwrap().finished();
        let why = why.err().unwrap().to_string();
        assert!(
            why.contains("no client") && why.contains("exit status: 4"),
            "{why}"
        );
        let s = sh("echo gone; exit 0", true).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        let why = s.end().err().unwrap().to_string();
        assert!(why.contains("before it was told"), "{why}");
        let folder = std::env::temp_dir().join(format!("byway-server-{}", std::process::id()));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
