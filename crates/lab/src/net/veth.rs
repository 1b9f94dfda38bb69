//! Two hosts in one machine: two network namespaces, joined by a pair of virtual Ethernet devices.
//!
//! ```text
//! namespace a: 192.0.2.1 ==veth== 192.0.2.2 :namespace b
//! ```
//! Invariant: neither namespace nor device has a name outside: they live by this process's descriptors and by the processes
//! that were started in them, so however it ends, nothing is left.
//! Not here: bridges, delays, losses: a cable.
use crate::child::Failure;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Of the second host; of the documentation's own network (RFC 5737), which is nobody's.
pub const SECOND: &str = "192.0.2.2";

/// Both namespaces.
pub struct Veth {
    hosts: [File; 2],
}

impl Veth {
    /// Makes and joins them.
    ///
    /// # Errors
    /// A sentence: the right, or `ip`, is missing.
    pub fn new() -> Result<Veth, Failure> {
        let refused = |e: io::Error| {
            Failure::Said(match e.kind() {
                io::ErrorKind::PermissionDenied => {
                    "--hosts veth needs the right to make network namespaces; run it as root".into()
                }
                _ => {
                    format!("no network namespace can be made: {e}; two machines can: --peer HOST")
                }
            })
        };
        let hosts = [namespace().map_err(refused)?, namespace().map_err(refused)?];
        let v = Veth { hosts };
        // LINUX: the device of the other side is named by a descriptor of the process that makes them.
        let other = format!("/proc/{}/fd/{}", std::process::id(), v.fd(1));
        v.ip(
            0,
            &[
                "link", "add", "veth0", "type", "veth", "peer", "name", "veth1",
            ],
        )?;
        v.ip(0, &["link", "set", "veth1", "netns", &other])?;
        for (i, device, address) in [(0, "veth0", "192.0.2.1/30"), (1, "veth1", "192.0.2.2/30")] {
            v.ip(i, &["address", "add", address, "dev", device])?;
            v.ip(i, &["link", "set", "lo", "up"])?;
            v.ip(i, &["link", "set", device, "up"])?;
        }
        Ok(v)
    }

    /// The namespace of host 0 or 1, for `enter`.
    pub fn fd(&self, i: usize) -> RawFd {
        self.hosts[i].as_raw_fd()
    }

    /// Runs ip(8) on host `i`.
    fn ip(&self, i: usize, words: &[&str]) -> Result<(), Failure> {
        let mut c = Command::new("ip");
        c.args(words).stdin(Stdio::null());
        let fd = self.fd(i);
        // SAFETY: `enter` only makes a system call.
        unsafe { c.pre_exec(move || enter(fd)) };
        let done = c.output().map_err(|e| {
            Failure::Said(match e.kind() {
                io::ErrorKind::NotFound => "--hosts veth needs ip(8); install iproute2".into(),
                _ => format!("ip: {e}"),
            })
        })?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Failure::Said(format!(
            "ip {}: {}; has this kernel veth devices (modprobe veth)?",
            words.join(" "),
            said.trim()
        )))
    }
}

/// Moves the calling process to a namespace. Async-signal-safe: for use between fork and exec.
///
/// # Errors
/// The kernel's.
pub fn enter(namespace: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    match unsafe { libc::setns(namespace, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A new one, which lasts as long as its descriptor, or a process in it. A thread of its own enters it: this one stays.
fn namespace() -> io::Result<File> {
    let made = std::thread::spawn(|| {
        // SAFETY: no pointers; only the thread that calls moves.
        match unsafe { libc::unshare(libc::CLONE_NEWNET) } {
            0 => File::open("/proc/thread-self/ns/net"),
            _ => Err(io::Error::last_os_error()),
        }
    });
    made.join()
        .unwrap_or_else(|_| Err(io::Error::other("a thread died")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// What `ip` prints on host `i`.
    fn seen(v: &Veth, i: usize, words: &[&str]) -> String {
        let fd = v.fd(i);
        let mut c = Command::new("ip");
        c.args(words);
        // SAFETY: as above.
        unsafe { c.pre_exec(move || enter(fd)) };
        String::from_utf8_lossy(&c.output().unwrap().stdout).into()
    }

    #[test]
    fn two_hosts_or_a_sentence() {
        let own = || {
            File::open("/proc/self/ns/net")
                .unwrap()
                .metadata()
                .unwrap()
                .ino()
        };
        let before = own();
        match Veth::new() {
            Ok(v) => {
                assert!(seen(&v, 0, &["-4", "address"]).contains("192.0.2.1/30"));
                assert!(seen(&v, 1, &["-4", "address"]).contains(SECOND));
                assert!(!seen(&v, 1, &["link"]).contains("veth0:"));
                let [a, b] = [0, 1].map(|i| v.hosts[i].metadata().unwrap().ino());
                assert!(a != b && a != before && b != before);
            }
            // SAFETY: no arguments.
            Err(e) if unsafe { libc::geteuid() } != 0 => {
                assert!(e.to_string().contains("root"), "{e}");
            }
            Err(e) => panic!("{e}"),
        }
        assert_eq!(own(), before, "this process has moved");
    }
}
