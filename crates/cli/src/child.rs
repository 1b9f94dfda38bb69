//! The command while it runs: the signals that are meant for it, its stops, its end.
//!
//! Invariant: a stop of the command stops this process only where a shell waits for both, and a wake-up wakes both.
//! Not here: its start (run.rs), what the run does meanwhile (service.rs).
use byway_sys::syscall::{call3, nr};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

static CHILD: AtomicI32 = AtomicI32::new(0);
/// Whether this process was asked to stop as well since the command's last stop.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Passes a signal on to the command.
extern "C" fn forward(sig: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // LINUX sigaction(2): a positive si_code is the kernel's. The terminal's keys go to the command as well.
    // SAFETY: the kernel's, for the time of the handler.
    let by_key = unsafe { (*info).si_code > 0 } && (sig == libc::SIGINT || sig == libc::SIGQUIT);
    let pid = CHILD.load(Relaxed);
    if pid > 0 && !by_key {
        // SAFETY: no pointers. The raw call leaves errno alone.
        unsafe { call3(nr::KILL, pid as usize, sig as usize, 0) };
    }
}

extern "C" fn asked(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    ASKED.store(true, Relaxed);
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut libc::c_void);

/// Sets what this process does at a signal.
pub fn on(sig: i32, what: libc::sighandler_t) {
    // SAFETY: a zeroed struct sigaction is a valid one; `what` is a `Handler`, SIG_IGN or SIG_DFL.
    unsafe {
        let mut act: libc::sigaction = std::mem::zeroed();
        act.sa_sigaction = what;
        act.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        libc::sigaction(sig, &act, std::ptr::null_mut());
    }
}

/// A handler as `on` takes it.
pub fn handler(f: Handler) -> libc::sighandler_t {
    f as *const () as libc::sighandler_t
}

/// From now on the command `pid` gets the signals that are sent to this process. Called after its start, so that it begins with
/// the handling that this process was given.
pub fn take_over(pid: i32) {
    CHILD.store(pid, Relaxed);
    use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
    for sig in [SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2] {
        on(sig, handler(forward));
    }
    stay_awake();
    // What this process was given as held off is for the command to hold off.
    // SAFETY: a set of ours.
    unsafe {
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// The terminal's stop signals do not stop this process by themselves: the command may ignore them, or stop later. It must be
/// awake when the command stops, and must not look at a stop that is over.
fn stay_awake() {
    on(libc::SIGTSTP, handler(asked));
    on(libc::SIGTTIN, libc::SIG_IGN);
    on(libc::SIGTTOU, libc::SIG_IGN);
}

/// Waits for the command `pid`, stopping when it stops; its status, or 256 plus the signal that killed it.
pub fn wait(pid: i32) -> i32 {
    loop {
        // SAFETY: plain data.
        let mut seen: libc::siginfo_t = unsafe { std::mem::zeroed() };
        let how = libc::WEXITED | libc::WSTOPPED | libc::WNOWAIT;
        // As the first process of a pid name space this one has children that it did not start.
        // SAFETY: `seen` lives over the call.
        if unsafe { libc::waitid(libc::P_ALL, 0, &mut seen, how) } < 0 {
            if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            return 126;
        }
        // SAFETY: waitid(2) has filled them in.
        let (child, status) = unsafe { (seen.si_pid(), seen.si_status()) };
        let stops = child == pid && seen.si_code == libc::CLD_STOPPED && is_seen(status);
        let mut status = 0;
        // LINUX waitid(2): the look above leaves the child as it is. A stop that a SIGCONT has ended since is not reported again.
        // SAFETY: a child of ours, and int.
        let got = unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED | libc::WNOHANG) };
        if got != pid {
            continue;
        }
        if libc::WIFSTOPPED(status) && stops {
            stop(pid, libc::WSTOPSIG(status));
        } else if libc::WIFSIGNALED(status) {
            return 256 + libc::WTERMSIG(status);
        } else if libc::WIFEXITED(status) {
            return libc::WEXITSTATUS(status);
        }
    }
}

/// Whether a shell is to see the command's stop, and will wake this process as well. Nobody else would: what stops just the command wakes
/// just the command.
fn is_seen(sig: i32) -> bool {
    use std::os::fd::AsRawFd;
    let asked = ASKED.swap(false, Relaxed) && sig == libc::SIGTSTP;
    asked
        || std::fs::File::open("/dev/tty").is_ok_and(|tty| {
            // POSIX general terminal interface: these two stop whole groups, in the background.
            sig == libc::SIGTTIN || sig == libc::SIGTTOU
                // SAFETY: our own descriptor; no pointers.
                || unsafe { libc::tcgetpgrp(tty.as_raw_fd()) == libc::getpgrp() }
        })
}

/// Stops this process as the command was stopped, and wakes the command when this process is woken.
fn stop(pid: i32, sig: i32) {
    // The default action until the command is awake: a key that comes in between stops both, as the first did.
    for s in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        on(s, libc::SIG_DFL);
    }
    // SAFETY: no pointers.
    unsafe {
        libc::raise(sig);
        libc::kill(pid, libc::SIGCONT);
    }
    stay_awake();
}

/// Ends this process as the command ended.
pub fn end(status: i32) -> ! {
    if status > 256 {
        let sig = status - 256;
        // SAFETY: the same death as the command's, without a second core file.
        unsafe {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(sig, libc::SIG_DFL);
            libc::raise(sig);
        }
        // LINUX pid_namespaces(7): the first process of a name space does not die of its own signal. A shell's number tells it.
        std::process::exit(128 + sig);
    }
    std::process::exit(status & 255)
}
