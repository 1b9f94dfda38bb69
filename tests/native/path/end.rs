//! The native end of a FIFO at a path, whose other end is an unmodified program's: `tests/native.sh` runs it, and
//! tests/native/c/end.c, which is the same in C and says what it does.
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::process::ExitCode;

fn write(path: &str) -> io::Result<()> {
    let mut w = byway::Writer::from_fd(File::options().write(true).open(path)?.into())?;
    let (mut b, mut from) = (vec![0; 100_000], io::stdin());
    loop {
        match from.read(&mut b)? {
            0 => return Ok(()),
            n => w.write_all(&b[..n])?,
        }
    }
}

fn read(path: &str, lives: u32) -> io::Result<()> {
    let mut r = byway::Reader::from_fd(File::open(path)?.into())?;
    let mut to = io::stdout();
    for life in 1..=lives {
        io::copy(&mut r, &mut to)?;
        to.flush()?;
        eprintln!("end");
        // The end stays until somebody writes again.
        while life < lives && !readable(&r) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Ok(())
}

fn readable(r: &byway::Reader) -> bool {
    let mut p = libc::pollfd {
        fd: r.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct pollfd of ours.
    let n = unsafe { libc::poll(&mut p, 1, 0) };
    n == 1 && p.revents & libc::POLLIN != 0
}

fn main() -> ExitCode {
    let arg: Vec<String> = std::env::args().collect();
    let done = match (arg[1].as_str(), arg.get(3)) {
        ("write", None) => write(&arg[2]),
        ("read", Some(lives)) => read(&arg[2], lives.parse().expect("a number of lives")),
        _ => panic!("usage: end write PATH | end read PATH LIVES"),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => {
            eprintln!("broken");
            ExitCode::from(3)
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
