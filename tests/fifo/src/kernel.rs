//! The calls that std has no function for, each with its arguments typed.
//!
//! Invariant: every wrapper gives the kernel's own answer; none tries again.
//! unsafe: libc calls. Not here: anything that decides.
use std::ffi::CString;
use std::fs::File;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn answer(r: libc::c_int) -> Result<libc::c_int> {
    if r < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(r)
    }
}

fn name(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path has no NUL")
}

pub fn mkfifo(path: &Path, mode: u32) -> Result<()> {
    // SAFETY: the name ends with NUL and outlives the call.
    answer(unsafe { libc::mkfifo(name(path).as_ptr(), mode) }).map(drop)
}

pub fn mknod_fifo(path: &Path, mode: u32) -> Result<()> {
    // SAFETY: as above.
    answer(unsafe { libc::mknod(name(path).as_ptr(), libc::S_IFIFO | mode, 0) }).map(drop)
}

pub fn umask(mask: u32) -> u32 {
    // SAFETY: touches no memory.
    unsafe { libc::umask(mask) }
}

pub fn is_root() -> bool {
    // SAFETY: touches no memory.
    unsafe { libc::geteuid() == 0 }
}

pub fn thread_id() -> u32 {
    // SAFETY: touches no memory.
    unsafe { libc::gettid() as u32 }
}

pub fn alarm(seconds: u32) {
    // SAFETY: touches no memory; the signal's action is the default.
    unsafe { libc::alarm(seconds) };
}

pub fn nonblocking(f: &File, on: bool) {
    // SAFETY: fcntl of a descriptor that is open for as long as `f` is borrowed, with integer arguments.
    unsafe {
        let was = answer(libc::fcntl(f.as_raw_fd(), libc::F_GETFL)).expect("F_GETFL");
        let bit = if on { libc::O_NONBLOCK } else { 0 };
        let now = was & !libc::O_NONBLOCK | bit;
        answer(libc::fcntl(f.as_raw_fd(), libc::F_SETFL, now)).expect("F_SETFL");
    }
}

/// F_GETFL.
pub fn status_flags(f: &File) -> i32 {
    // SAFETY: as above.
    answer(unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETFL) }).expect("F_GETFL")
}

/// F_GETFD has FD_CLOEXEC.
pub fn closes_on_exec(f: &File) -> bool {
    // SAFETY: as above.
    let flags = answer(unsafe { libc::fcntl(f.as_raw_fd(), libc::F_GETFD) }).expect("F_GETFD");
    flags & libc::FD_CLOEXEC != 0
}

/// FIONREAD.
pub fn bytes_waiting(f: &File) -> usize {
    let mut n: libc::c_int = 0;
    // SAFETY: FIONREAD stores one int there.
    answer(unsafe { libc::ioctl(f.as_raw_fd(), libc::FIONREAD, &mut n) }).expect("FIONREAD");
    n as usize
}

/// RLIMIT_NOFILE, soft.
pub fn limit_files(most: u64) {
    let limit = libc::rlimit {
        rlim_cur: most,
        rlim_max: most,
    };
    // SAFETY: the struct outlives the call.
    answer(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).expect("setrlimit");
}

/// poll(2) of one descriptor: its revents, 0 if none in time. -1 waits for ever.
pub fn poll(f: &File, events: i16, ms: i32) -> i16 {
    let mut p = libc::pollfd {
        fd: f.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one entry, which outlives the call.
    answer(unsafe { libc::poll(&mut p, 1, ms) }).expect("poll");
    p.revents
}

/// select(2) for one descriptor to be readable (or writable), without waiting.
pub fn selected(f: &File, writable: bool) -> bool {
    // SAFETY: an fd_set is plain bits, all zero is the empty set; the descriptor is far below FD_SETSIZE.
    unsafe {
        let mut set: libc::fd_set = std::mem::zeroed();
        let mut none: libc::timeval = std::mem::zeroed();
        libc::FD_SET(f.as_raw_fd(), &mut set);
        let null = std::ptr::null_mut();
        let (r, w) = if writable {
            (null, &raw mut set)
        } else {
            (&raw mut set, null)
        };
        answer(libc::select(f.as_raw_fd() + 1, r, w, null, &mut none)).expect("select") == 1
    }
}

/// An epoll set with one descriptor in it.
pub struct Epoll(OwnedFd);

impl Epoll {
    pub fn of(f: &File, events: i32) -> Epoll {
        // SAFETY: the new descriptor is nobody else's.
        let e = Epoll(unsafe {
            OwnedFd::from_raw_fd(answer(libc::epoll_create1(libc::EPOLL_CLOEXEC)).expect("epoll"))
        });
        e.control(libc::EPOLL_CTL_ADD, f, events);
        e
    }

    /// EPOLL_CTL_MOD.
    pub fn again(&self, f: &File, events: i32) {
        self.control(libc::EPOLL_CTL_MOD, f, events);
    }

    fn control(&self, op: i32, f: &File, events: i32) {
        let mut v = libc::epoll_event {
            events: events as u32,
            u64: 0,
        };
        // SAFETY: the event outlives the call.
        answer(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), op, f.as_raw_fd(), &mut v) })
            .expect("epoll_ctl");
    }

    /// The events of the descriptor, 0 if none in time.
    pub fn wait(&self, ms: i32) -> i32 {
        let mut v = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: room for one event, which outlives the call.
        let n = answer(unsafe { libc::epoll_wait(self.0.as_raw_fd(), &mut v, 1, ms) });
        if n.expect("epoll_wait") == 0 {
            0
        } else {
            v.events as i32
        }
    }
}

/// Waits until the child has ended, and leaves it to be reaped: its number stays its own.
pub fn wait_unreaped(pid: u32) {
    loop {
        // SAFETY: siginfo_t is plain data, and the kernel writes no more than one.
        let r = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            answer(libc::waitid(
                libc::P_PID,
                pid,
                &mut info,
                libc::WEXITED | libc::WNOWAIT,
            ))
        };
        match r {
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            r => {
                r.expect("waitid");
                return;
            }
        }
    }
}

/// SIGKILL to whoever is left in the group of a case that has ended.
pub fn kill_group(leader: u32) {
    // SAFETY: touches no memory; the leader is not reaped yet, so the group is the case's.
    unsafe { libc::kill(-(leader as i32), libc::SIGKILL) };
}
