//! What the other processes of a case do: this program again, by `std::process::Command`, as `--role NAME ARGUMENTS`.
//!
//! Invariant: a role ends with 0 only if all that it read was right.
//! Not here: who starts it, and with which ends.
use crate::kernel;
use crate::stream::{at_eof, get, put, reader, writer};
use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A command that runs a role.
pub fn command(role: &str, words: &[&dyn std::fmt::Display]) -> Command {
    let mut c = Command::new(std::env::current_exe().expect("this program's path"));
    c.args(["--role", role]);
    c.args(words.iter().map(|w| w.to_string()));
    c
}

/// A process of a case: killed if the case forgets it.
pub struct Other(pub Child);

impl Other {
    pub fn start(c: &mut Command) -> Other {
        Other(c.spawn().expect("start a process"))
    }

    /// It has ended, and well.
    #[track_caller]
    pub fn done(mut self) {
        let status = self.0.wait().expect("wait");
        assert!(status.success(), "another process ended with {status}");
    }

    /// Waits for the byte that says that it has come to its place.
    #[track_caller]
    pub fn ready(&mut self) {
        let out = self.0.stdout.as_mut().expect("its stdout is a pipe");
        out.read_exact(&mut [0]).expect("it must get ready");
    }

    /// SIGKILL, and gone.
    pub fn killed(mut self) {
        self.0.kill().expect("kill");
        self.0.wait().expect("wait");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // Ended already, most often: then both are errors or nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that opens `path` and writes.
pub fn write(path: &Path, n: usize, pos: usize, piece: usize) -> Other {
    Other::start(&mut command("write", &[&path.display(), &n, &pos, &piece]))
}

/// A process that opens `path` and reads to EOF, which must come after `n` bytes.
pub fn read(path: &Path, n: usize, pos: usize, piece: usize) -> Other {
    Other::start(&mut command("read", &[&path.display(), &n, &pos, &piece]))
}

/// A process that keeps an end: `read`, `write` or `both`, after it wrote `n` bytes. It says so by a byte.
pub fn hold(path: &Path, how: &str, n: usize) -> Other {
    let mut c = command("hold", &[&path.display(), &how, &n]);
    let mut other = Other::start(c.stdin(Stdio::piped()).stdout(Stdio::piped()));
    other.ready();
    other
}

/// The output of a role that must have ended well.
#[track_caller]
pub fn output(c: &mut Command) -> Vec<u8> {
    let Output { status, stdout, .. } = c.stderr(Stdio::inherit()).output().expect("run");
    assert!(status.success(), "another process ended with {status}");
    stdout
}

/// stdin or stdout without the buffer that std puts before it.
fn bare(end: impl AsFd) -> File {
    File::from(end.as_fd().try_clone_to_owned().expect("dup"))
}

pub fn play(role: &str, words: &[&str]) {
    let path = |i: usize| Path::new(words[i]);
    let number = |i: usize| words[i].parse::<usize>().expect("a number");
    match role {
        "write" => put(&writer(path(0)), number(1), number(2), number(3)),
        "read" => {
            let r = reader(path(0));
            get(&r, number(1), number(2), number(3));
            at_eof(&r);
        }
        // The standard descriptors, without and with std's buffers.
        "put" => put(&bare(io::stdout()), number(0), number(1), 4096),
        "take" => get(&bare(io::stdin()), number(0), number(1), 1000),
        "get" => {
            get(io::stdin().lock(), number(0), number(1), 3000);
            at_eof(io::stdin().lock());
        }
        "copy" => {
            let n = io::copy(&mut io::stdin().lock(), &mut io::stdout().lock()).expect("io::copy");
            assert_eq!(n, number(0) as u64);
        }
        "lines" => {
            let lines = io::stdin().lock().lines().map(|l| l.expect("a line"));
            for (i, line) in lines.enumerate() {
                println!("{i} {}", line.len());
            }
        }
        // Left in stdout's buffer: main returns, std writes it.
        "print" => print!("{}", "x".repeat(number(0))),
        // Left there too, and lost or not by the way of ending.
        "leave" => {
            print!("{}", "x".repeat(number(0)));
            std::process::exit(0);
        }
        "hold" => {
            let how = words[1];
            let mut o = File::options();
            let f = o.read(how != "write").write(how != "read");
            let f = f.open(path(0)).expect("open");
            put(&f, number(2), 0, 4096);
            bare(io::stdout()).write_all(b"!").expect("say so");
            io::copy(&mut io::stdin().lock(), &mut io::sink()).expect("wait");
        }
        "pour" => {
            let w = writer(path(0));
            for i in 0.. {
                put(&w, 1 << 20, i << 20, 1 << 20);
            }
        }
        "mknod" => kernel::mknod_fifo(path(0), 0o644).expect("mknod of a FIFO"),
        "denied" => {
            let e = File::options().read(true).write(true).open(path(0));
            let e = e.expect_err("another user's FIFO opened");
            assert_eq!(e.kind(), io::ErrorKind::PermissionDenied);
        }
        "ends" => {
            for entry in std::fs::read_dir("/proc/self/fd").expect("/proc/self/fd") {
                let link = std::fs::read_link(entry.expect("entry").path());
                if link.is_ok_and(|l| l.ends_with(words[0])) {
                    println!("{}", words[0]);
                }
            }
        }
        "nothing" => {}
        _ => panic!("no role {role}"),
    }
}
