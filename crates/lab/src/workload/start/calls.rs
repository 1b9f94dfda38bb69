//! How many system calls a program makes from its start to its end, by ptrace(2), when it has been started before.
//!
//! Invariant: the process that traces is one of its own, so nothing else of the lab is traced or slowed. Calls count that
//! the kernel sees of the program's first thread, from the loader's first to exit_group(2).
//! Not here: which calls they are; children of the program.
use crate::child::Failure;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Runs `program` twice, and counts the second time: a run learns of a program by its first start.
///
/// # Errors
/// It cannot be started or traced, or did not end with status 0.
pub fn count(program: &str) -> Result<u64, Failure> {
    let start = || {
        let mut c = Command::new(program);
        c.stdin(Stdio::null()).stdout(Stdio::null());
        c
    };
    start().status()?;
    let mut c = start();
    // SAFETY: one system call without pointers.
    unsafe {
        c.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let pid = c.spawn()?.id() as i32;
    // LINUX ptrace(2): a traced process stops with SIGTRAP once it has executed the program, before its first call.
    let mut status = wait(pid)?;
    let how = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL;
    if libc::WIFSTOPPED(status) {
        trace(libc::PTRACE_SETOPTIONS, pid, how)?;
    }
    let (mut stops, mut signal) = (0u64, 0);
    while libc::WIFSTOPPED(status) {
        trace(libc::PTRACE_SYSCALL, pid, signal)?;
        status = wait(pid)?;
        // LINUX ptrace(2): with TRACESYSGOOD bit 7 tells a call's stop from that of a SIGTRAP.
        let call = libc::WIFSTOPPED(status) && libc::WSTOPSIG(status) == libc::SIGTRAP | 0x80;
        stops += u64::from(call);
        signal = match libc::WIFSTOPPED(status) && !call {
            true => libc::WSTOPSIG(status),
            false => 0,
        };
    }
    match libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        // Each call stops at its entry and at its end, but exit_group(2), which has no end.
        true => Ok(stops.div_ceil(2)),
        false => Err(Failure::Died(status)),
    }
}

fn trace(request: libc::c_uint, pid: i32, data: i32) -> io::Result<()> {
    // SAFETY: our own stopped child; these requests take no pointer.
    match unsafe { libc::ptrace(request, pid, 0, libc::c_long::from(data)) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn wait(pid: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: our own child, and an integer of ours.
    match unsafe { libc::waitpid(pid, &mut status, 0) } {
        n if n == pid => Ok(status),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_program_makes_as_many_calls_each_time() {
        // A sandbox may refuse ptrace(2).
        let Ok(n) = count("true") else { return };
        assert!(n > 10, "{n}");
        assert_eq!(count("true").ok(), Some(n));
        assert!(matches!(count("false"), Err(Failure::Died(_))));
    }
}
