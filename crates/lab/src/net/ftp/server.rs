//! vsftpd for one run: on a port of its own, for who knows this run's token, in this measurement's folder.
//!
//! Invariant: it is ended with the value. It runs as whoever measures, without a right of its own, and lets in only those
//! who know the token, which is in a file of that user's: others on the machine cannot use it to read files.
//! Not here: other servers.
use super::folder::Files;
use crate::child::Failure;
use crate::program;
use crate::server::Server;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;

/// Where the program is.
///
/// # Errors
/// A sentence: nowhere.
pub fn find(name: &str) -> Result<PathBuf, Failure> {
    // Where servers are, which is not in everybody's path.
    program::find(name, &["/usr/sbin", "/usr/local/sbin"]).ok_or_else(|| {
        Failure::Said(format!(
            "{name} is not installed; install it (as root: apt-get install {name}), then try again"
        ))
    })
}

/// What vsftpd.conf(5) has to say.
fn settings(files: &Files, at: SocketAddr) -> String {
    let on = [
        "listen",
        // Without root, and without giving up what it never had.
        "run_as_launching_user",
        "anonymous_enable",
        // The password has to be in the file.
        "secure_email_list_enable",
        "write_enable",
        "anon_upload_enable",
    ];
    let off = [
        "listen_ipv6",
        "background",
        "local_enable",
        "no_anon_password",
        "anon_world_readable_only",
        "connect_from_port_20",
        "xferlog_enable",
        // Its filter does not know the calls that newer C libraries make.
        "seccomp_sandbox",
    ];
    let values = [
        ("listen_address", at.ip().to_string()),
        ("listen_port", at.port().to_string()),
        ("pasv_address", at.ip().to_string()),
        ("email_password_file", files.token().display().to_string()),
        ("anon_root", files.root().display().to_string()),
        ("anon_umask", "077".into()),
        ("file_open_mode", "0600".into()),
        ("max_clients", "2".into()),
    ];
    let on = on.iter().map(|k| format!("{k}=YES\n"));
    let off = off.iter().map(|k| format!("{k}=NO\n"));
    let values = values.iter().map(|(k, v)| format!("{k}={v}\n"));
    on.chain(off).chain(values).collect()
}

/// Starts it at `ip`; back when it listens, with where that is.
///
/// # Errors
/// A sentence: it is not there, or does not start.
pub fn start(files: &Files, ip: IpAddr) -> Result<(Server, SocketAddr), Failure> {
    let at = TcpListener::bind((ip, 0))?.local_addr()?;
    let settings = files.write("server.conf", &settings(files, at))?;
    let mut c = Command::new(find("vsftpd")?);
    c.arg(settings);
    let listens = || TcpStream::connect(at).is_ok();
    let server = Server::start("vsftpd", &mut c, files.folder(), libc::SIGTERM, listens)?;
    Ok((server, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_told() {
        let e = find("no-such-program").unwrap_err().to_string();
        assert!(e.contains("apt-get install no-such-program"), "{e}");
        assert!(find("sh").is_ok());
    }
}
