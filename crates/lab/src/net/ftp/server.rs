//! vsftpd for one run: on a port of its own, for who knows this run's token, in this measurement's folder.
//!
//! Invariant: it is ended with the value. It runs as whoever measures, without a right of its own, and lets in only those
//! who know the token, which is in a file of that user's: others on the machine cannot use it to read files.
//! Not here: other servers.
use super::folder::Folder;
use crate::child::Failure;
use crate::net::place::{Hosts, Place};
use crate::net::veth;
use crate::pairs::start::Call;
use crate::program;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Until it lets somebody in.
const START: Duration = Duration::from_secs(20);

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

pub struct Server {
    child: Child,
    pub at: SocketAddr,
}

/// What vsftpd.conf(5) has to say.
fn settings(folder: &Folder, at: SocketAddr, token: &Path) -> String {
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
        ("email_password_file", token.display().to_string()),
        ("anon_root", folder.root().display().to_string()),
        ("anon_umask", "077".into()),
        ("file_open_mode", "0600".into()),
        ("max_clients", "2".into()),
    ];
    let on = on.iter().map(|k| format!("{k}=YES\n"));
    let off = off.iter().map(|k| format!("{k}=NO\n"));
    let values = values.iter().map(|(k, v)| format!("{k}={v}\n"));
    on.chain(off).chain(values).collect()
}

impl Server {
    /// Starts it, on the second host of `place` if there are two.
    ///
    /// # Errors
    /// A sentence: it is not there, or does not start.
    pub fn start(
        place: &Place,
        folder: &Folder,
        token: &str,
        run: Option<&'static [&'static str]>,
    ) -> Result<Server, Failure> {
        let program = find("vsftpd")?;
        let namespace = place.namespace(1);
        let ip: IpAddr = match place.hosts {
            Hosts::Here => crate::net::socket::LOOPBACK,
            _ => veth::SECOND.parse().map_err(io::Error::other)?,
        };
        let free = || TcpListener::bind((ip, 0))?.local_addr();
        let at = veth::inside(namespace, free)?;
        let token = folder.write("token", &format!("{token}\n"))?;
        let settings = folder.write("server.conf", &settings(folder, at, &token))?;
        let call = Call {
            program: Some(&program),
            words: vec![settings.display().to_string()],
            cpus: &[place.second()],
            run,
            namespace,
        };
        let child = place
            .byway()
            .command(&call)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut server = Server { child, at };
        server.wait(namespace)?;
        Ok(server)
    }

    /// Until it listens.
    fn wait(&mut self, namespace: Option<std::os::fd::RawFd>) -> Result<(), Failure> {
        let (until, at) = (Instant::now() + START, self.at);
        loop {
            if veth::inside(namespace, || TcpStream::connect(at).map(drop)).is_ok() {
                return Ok(());
            }
            let ended = self.child.try_wait()?.is_some();
            if ended || Instant::now() > until {
                program::end(&mut self.child);
                let mut said = String::new();
                if let Some(out) = self.child.stdout.as_mut() {
                    out.read_to_string(&mut said)?;
                }
                return Err(Failure::Said(format!(
                    "vsftpd does not start at {at}: {:?}; is it the program of Debian's package vsftpd?",
                    said.trim()
                )));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        program::end(&mut self.child);
    }
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
