//! Finds a program of a measurement, runs it to its end, and has both its outputs.
//!
//! Invariant: a program that does not end within its time, or when Ctrl-C is pressed, is ended; nothing is looked at while
//! it works silently, so that a benchmark on one CPU has that CPU.
//! Not here: what is started (pairs/start.rs, workload/shell.rs).
use crate::child::Failure;
use crate::interrupt;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a program said.
pub struct Output {
    pub out: Vec<u8>,
    pub err: Vec<u8>,
    pub status: ExitStatus,
}

/// Runs `c`, which has to end within `limit`.
///
/// # Errors
/// It could not be started, or did not end in time, or was not let.
pub fn output(c: &mut Command, limit: Duration) -> Result<Output, Failure> {
    let mut child = c
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let said = collect(&mut child, Instant::now() + limit);
    if said.is_err() {
        end(&mut child);
    }
    let [out, err] = said?;
    Ok(Output {
        out,
        err,
        status: child.wait()?,
    })
}

/// What a client says on standard output; it ends with its worker.
///
/// # Errors
/// A sentence: it failed, or did not end.
pub fn client(name: &str, c: &mut Command, limit: Duration) -> Result<String, Failure> {
    // SAFETY: prctl(2) only.
    unsafe {
        c.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
    let said = output(c, limit).map_err(|e| match e {
        Failure::Stuck => Failure::Said(format!("{name} did not end in {} s", limit.as_secs())),
        e => e,
    })?;
    let (out, err) = (
        String::from_utf8_lossy(&said.out),
        String::from_utf8_lossy(&said.err),
    );
    if said.status.success() {
        return Ok(out.into());
    }
    let mut lines = err
        .lines()
        .chain(out.lines())
        .filter(|l| !l.trim().is_empty());
    let last = lines.next_back().unwrap_or("");
    let status = said.status;
    Err(Failure::Said(format!(
        "{name} ended with {status}: {last:?}"
    )))
}

/// Reads both outputs to their ends.
fn collect(child: &mut Child, until: Instant) -> Result<[Vec<u8>; 2], Failure> {
    let (mut out, mut err) = (child.stdout.take(), child.stderr.take());
    let mut text = [vec![], vec![]];
    let mut b = [0; 1 << 16];
    while out.is_some() || err.is_some() {
        let fd = |f: Option<i32>| libc::pollfd {
            fd: f.unwrap_or(-1),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut p = [
            fd(out.as_ref().map(AsRawFd::as_raw_fd)),
            fd(err.as_ref().map(AsRawFd::as_raw_fd)),
            fd(Some(interrupt::descriptor())),
        ];
        let left = until.saturating_duration_since(Instant::now());
        // SAFETY: three structs of ours.
        let n = unsafe { libc::poll(p.as_mut_ptr(), 3, left.as_millis() as i32) };
        if interrupt::asked() {
            return Err(Failure::Interrupted);
        }
        if n == 0 {
            return Err(Failure::Stuck);
        }
        if n < 0 {
            let e = io::Error::last_os_error();
            if e.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(e.into());
        }
        if p[0].revents != 0 {
            take(&mut out, &mut b, &mut text[0])?;
        }
        if p[1].revents != 0 {
            take(&mut err, &mut b, &mut text[1])?;
        }
    }
    Ok(text)
}

/// The first file of this name on the PATH, or in one of `more` folders.
pub fn find(name: &str, more: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = more.iter().map(PathBuf::from);
    let mut all = std::env::split_paths(&path)
        .chain(more)
        .map(|d| d.join(name));
    all.find(|p| p.is_file())
}

/// The first line that `from` says; what there is of it if that ends before.
///
/// # Errors
/// It says nothing for `limit`.
pub fn first_line(from: &mut (impl Read + AsRawFd), limit: Duration) -> Result<String, Failure> {
    let until = Instant::now() + limit;
    let (mut line, mut b) = (vec![], [0]);
    loop {
        let mut p = libc::pollfd {
            fd: from.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let left = until.saturating_duration_since(Instant::now());
        // SAFETY: one struct of ours.
        let n = unsafe { libc::poll(&mut p, 1, left.as_millis() as i32) };
        if interrupt::asked() {
            return Err(Failure::Interrupted);
        }
        if n == 0 {
            return Err(Failure::Stuck);
        }
        if n > 0 && (from.read(&mut b)? == 0 || b[0] == b'\n') {
            return Ok(String::from_utf8_lossy(&line).into_owned());
        }
        if n > 0 {
            line.push(b[0]);
        }
    }
}

/// What is there; `None` from then on at the end.
fn take(from: &mut Option<impl Read>, b: &mut [u8], into: &mut Vec<u8>) -> io::Result<()> {
    if let Some(f) = from {
        match f.read(b)? {
            0 => *from = None,
            n => into.extend_from_slice(&b[..n]),
        }
    }
    Ok(())
}

/// Ends a child that is late, gently first: `byway run` then ends what it has started.
pub fn end(child: &mut Child) {
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGTERM) };
    for _ in 0..200 {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_or_is_not_here() {
        assert!(find("sh", &[]).is_some_and(|p| p.is_file()));
        assert_eq!(find("no-such-program-of-ours", &["/usr/sbin"]), None);
    }

    #[test]
    fn both_outputs_are_read_however_much_they_are() {
        let mut c = Command::new("sh");
        c.args([
            "-c",
            "head -c 300000 /dev/zero >&2; head -c 200000 /dev/zero; exit 3",
        ]);
        let o = output(&mut c, Duration::from_secs(60)).unwrap();
        assert_eq!(
            (o.out.len(), o.err.len(), o.status.code()),
            (200_000, 300_000, Some(3))
        );
    }

    #[test]
    fn a_line_is_read_while_its_program_runs() {
        let mut c = Command::new("sh");
        c.args(["-c", "echo 77; exec sleep 100"]);
        let mut child = c.stdout(Stdio::piped()).spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        assert_eq!(first_line(&mut out, Duration::from_secs(60)).unwrap(), "77");
        let r = first_line(&mut out, Duration::from_millis(20));
        assert!(matches!(r, Err(Failure::Stuck)));
        end(&mut child);
        assert_eq!(first_line(&mut out, Duration::from_secs(60)).unwrap(), "");
    }

    #[test]
    fn who_is_late_is_ended() {
        let mut c = Command::new("sleep");
        c.arg("100");
        let r = output(&mut c, Duration::from_millis(20));
        assert!(matches!(r, Err(Failure::Stuck)));
    }

    #[test]
    fn a_client_that_fails_is_quoted() {
        let sh = |text: &str| {
            let mut c = Command::new("sh");
            client("sh", c.args(["-c", text]), Duration::from_secs(60))
        };
        assert_eq!(sh("echo 7").unwrap(), "7\n");
        let why = sh("echo no socket >&2; exit 4").unwrap_err().to_string();
        assert!(
            why.contains("no socket") && why.contains("status: 4"),
            "{why}"
        );
    }
}
