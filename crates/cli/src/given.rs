//! What this process was given at its start and Rust's runtime has changed before `main`: closed standard descriptors, SIGPIPE,
//! the signals held off; and SIGCHLD, which this process changes itself.
//!
//! Invariant: the command gets them as this process got them.
//! Not here: the rest of what a process inherits, which nobody changes.
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

struct Given {
    closed: [bool; 3],
    ignored: [bool; 2],
    held_off: libc::sigset_t,
    holds_off: bool,
}

/// Signals that this process needs as they are by default: the second, or the kernel would not keep the command's status.
const CHANGED: [i32; 2] = [libc::SIGPIPE, libc::SIGCHLD];

static GIVEN: OnceLock<Given> = OnceLock::new();

// LINUX the dynamic loader runs these before the runtime's own start.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

extern "C" fn look() {
    let ignored = CHANGED.map(|sig| {
        let mut old = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: only asks; a zeroed structure is a valid one.
        let old = unsafe {
            libc::sigaction(sig, std::ptr::null(), old.as_mut_ptr());
            old.assume_init()
        };
        old.sa_sigaction == libc::SIG_IGN
    });
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: as above.
    let given = unsafe {
        libc::sigprocmask(libc::SIG_BLOCK, std::ptr::null(), set.as_mut_ptr());
        let set = set.assume_init();
        Given {
            closed: [0, 1, 2].map(|fd| libc::fcntl(fd, libc::F_GETFD) < 0),
            ignored,
            held_off: set,
            holds_off: (1..=64).any(|sig| libc::sigismember(&set, sig) == 1),
        }
    };
    let _ = GIVEN.set(given);
}

/// Has `command` start with what was given.
pub fn pass_on(command: &mut Command) {
    let Some(given) = GIVEN.get() else { return };
    for (fd, _) in (0..).zip(given.closed).filter(|c| c.1) {
        // The runtime put /dev/null there.
        // SAFETY: no pointers.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let ignored = || {
        (0..)
            .zip(given.ignored)
            .filter(|i| i.1)
            .map(|i| CHANGED[i.0])
    };
    if ignored().any(|sig| sig == libc::SIGCHLD) {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    if ignored().next().is_some() || given.holds_off {
        let put_back = move || {
            // SAFETY: async-signal-safe calls; the set is never changed again.
            unsafe {
                for sig in ignored() {
                    libc::signal(sig, libc::SIG_IGN);
                }
                libc::sigprocmask(libc::SIG_SETMASK, &given.held_off, std::ptr::null_mut());
            }
            Ok(())
        };
        // SAFETY: the closure makes only async-signal-safe calls.
        unsafe { command.pre_exec(put_back) };
    }
}

/// From now on this program ends where nobody reads what it says, as other tools do.
pub fn end_quietly() {
    // SAFETY: the default, and no handler.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
