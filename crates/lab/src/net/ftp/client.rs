//! curl for one run: it gets the file, or puts it, and says how long the transfer took.
//!
//! Invariant: the time is the client's own, from when both sides are ready to transfer to the server's word that all is
//! there: without its start and the log-in, as FTP clients print it.
//! Not here: whether the copy is right (folder.rs).
use super::folder::Folder;
use super::server::{self, Server};
use crate::child::Failure;
use crate::net::place::Place;
use crate::pairs::start::Call;
use crate::program;
use std::time::Duration;

/// Longer than a transfer takes.
const LIMIT: Duration = Duration::from_secs(300);

/// What curl(1) is told in a file, where others cannot read the token.
fn settings(folder: &Folder, server: &Server, token: &str, put: bool) -> String {
    let (remote, option, local) = if put {
        ("in/put", "upload-file", folder.file())
    } else {
        ("file", "output", folder.copy(false))
    };
    format!(
        "url = \"ftp://{}/{remote}\"\n{option} = \"{}\"\nuser = \"anonymous:{token}\"\n\
         noproxy = \"*\"\nsilent\nshow-error\n\
         write-out = \"%{{time_pretransfer}} %{{time_total}} %{{size_download}} %{{size_upload}}\"\n",
        server.at,
        local.display()
    )
}

/// One transfer: MB/s.
///
/// # Errors
/// A sentence: there is no curl, or it says what went wrong.
pub fn transfer(
    place: &Place,
    folder: &Folder,
    server: &Server,
    token: &str,
    put: bool,
    run: Option<&'static [&'static str]>,
) -> Result<f64, Failure> {
    let program = server::find("curl")?;
    let settings = folder.write("client.conf", &settings(folder, server, token, put))?;
    let call = Call {
        program: Some(&program),
        words: vec!["-q".into(), "-K".into(), settings.display().to_string()],
        cpus: &place.cpus[..1],
        run,
        namespace: place.namespace(0),
    };
    let said = program::output(&mut place.byway().command(&call), LIMIT)?;
    let out = String::from_utf8_lossy(&said.out);
    let err = String::from_utf8_lossy(&said.err);
    if let Some(why) = err
        .lines()
        .find_map(|l| l.strip_prefix("byway: nothing is carried: "))
    {
        return Err(Failure::Said(format!("byway run carries nothing: {why}")));
    }
    if !said.status.success() {
        let last = err.lines().find(|l| l.starts_with("curl")).unwrap_or("");
        return Err(Failure::Said(format!("the transfer failed: {last:?}")));
    }
    let seconds = seconds(&out, folder.bytes()).ok_or_else(|| {
        Failure::Said(format!(
            "curl says {out:?}, not the whole file; is it 7.84 or later?"
        ))
    })?;
    Ok(folder.bytes() as f64 / 1e6 / seconds)
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
