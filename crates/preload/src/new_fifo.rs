//! mknod(2) of a FIFO: from the moment when it is there, the run's service counts its opens.
//!
//! The service watches the folder first. Then the kernel makes the FIFO, the service watches the FIFO itself, and leaves
//! the folder alone. So no open escapes it, and nobody need be looked for who had the FIFO before.
//!
//! Invariant: the call's result is the kernel's own. A request waits for 10 ms at most; a FIFO of which the service does
//! not learn in time is like one that was there before the run.
//! unsafe: reads the caller's path, once the kernel says that it can be read.
//! Not here: counting (byway run), who opens it (fifo.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::{access, attach, fifo};
use byway_mem::domain::Domain;
use byway_mem::layout::{Header, flags};
use byway_sys::errno::failed;
use byway_sys::syscall::{call6, nr};
use byway_sys::{clock, file, process};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

const AT_FDCWD: usize = -100isize as usize;
const O_DIRECTORY: usize = 0o200000;
const O_NOFOLLOW: usize = 0o400000;
/// Longer paths are those of FIFOs whose opens are not counted: a handler's stack may be small.
const LONGEST: usize = 256;
/// The longest wait for the service, us. On a busy machine it gets a CPU some milliseconds later, and without an answer
/// a look at all processes is due.
const WAIT: u64 = 10_000;

/// mknod(2) and mknodat(2).
pub fn makes(f: &mut Frame) -> u32 {
    const S_IFMT: usize = 0o170000;
    const S_IFIFO: usize = 0o010000;
    let [a0, a1, a2, ..] = f.args;
    let (dir, path, mode) = match f.nr {
        nr::MKNOD => (AT_FDCWD, a0, a1),
        _ => (a0, a1, a2),
    };
    let Some(d) = attach::domain().filter(|_| mode & S_IFMT == S_IFIFO) else {
        return RUN;
    };
    let h = d.header();
    let serves = !process::is_dead(h.creator.load(Relaxed));
    if !serves || h.flags.load(Relaxed) & flags::NO_FIFO != 0 {
        return RUN;
    }
    let Some((folder, name)) = folder(dir, path) else {
        return RUN;
    };
    let request = Request::begin(d, folder);
    let device = f.args[if f.nr == nr::MKNOD { 2 } else { 3 }];
    // In the folder that is watched, whatever its path leads to by now.
    // SAFETY: the kernel checks the address, which is in the caller's own string.
    f.result = unsafe { call6(nr::MKNODAT, folder, name, mode, device, 0, 0) };
    if let Some(request) = request
        && !failed(f.result)
    {
        // LINUX open(2): O_PATH opens no pipe, so nobody who waits for the other end is let through.
        if let Some(fd) = open(folder, name, file::O_PATH | O_NOFOLLOW) {
            request.end(fd);
            file::close(fd);
        }
    }
    file::close(folder);
    DONE
}

/// The folder in which `path` is, opened as a place; and where the name in it begins.
fn folder(dir: usize, path: usize) -> Option<(usize, usize)> {
    let mut name = [0u8; LONGEST];
    let n = copy(path, &mut name)?;
    let begin = name[..n]
        .iter()
        .rposition(|&c| c == b'/')
        .map_or(0, |k| k + 1);
    if begin == n {
        return None;
    }
    let of = if begin == 0 {
        c".".as_ptr()
    } else {
        name[begin] = 0;
        name.as_ptr().cast()
    };
    let folder = open(dir, of as usize, file::O_PATH | O_DIRECTORY)?;
    Some((folder, path + begin))
}

/// Copies the string at `from`; its length. `None`: it is too long, or not there.
fn copy(from: usize, to: &mut [u8; LONGEST]) -> Option<usize> {
    const PAGE: usize = 4096;
    for (n, c) in to.iter_mut().enumerate() {
        let at = from.wrapping_add(n);
        // The next page may be none.
        if (n == 0 || at.is_multiple_of(PAGE)) && !access::allowed(at, 1, false) {
            return None;
        }
        // SAFETY: its page was checked.
        *c = unsafe { (at as *const u8).read_volatile() };
        if *c == 0 {
            return Some(n);
        }
    }
    None
}

fn open(dir: usize, path: usize, how: usize) -> Option<usize> {
    // SAFETY: a string of ours, or the caller's, which the kernel checks.
    let fd = unsafe { call6(nr::OPENAT, dir, path, how | file::O_CLOEXEC, 0, 0, 0) };
    (!failed(fd)).then_some(fd as usize)
}

/// The right to ask, given back at the end.
struct Request(Domain);

impl Request {
    /// Has the folder behind `folder` watched.
    fn begin(d: Domain, folder: usize) -> Option<Request> {
        let h = d.header();
        wait(h, || lock(h))?;
        let request = Request(d);
        h.birth_pid.store(process::getpid(), Relaxed);
        h.birth_folder.store(folder as u32, Relaxed);
        h.birth_fd.store(0, Relaxed);
        request.ask().then_some(request)
    }

    /// Has the FIFO behind `fd` watched, and the folder no more.
    fn end(self, fd: usize) {
        let h = self.0.header();
        if let Some(slot) = fifo::born(self.0, fd) {
            h.birth_slot.store(slot as u32, Relaxed);
            h.birth_fd.store(fd as u32 + 1, Relaxed);
            self.ask();
        }
    }

    fn ask(&self) -> bool {
        let h = self.0.header();
        // ORDER: the request's words before its number.
        let ticket = h.birth_wanted.fetch_add(1, Release).wrapping_add(1);
        self.0.call_service();
        // ORDER: the watch before the answer.
        wait(h, || h.birth_done.load(Acquire) == ticket).is_some()
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // ORDER: the next one's words come after ours.
        self.0.header().birth_lock.store(0, Release);
    }
}

/// Takes the right to ask, also from a thread that has ended with it.
fn lock(h: &Header) -> bool {
    let owner = h.birth_lock.load(Relaxed);
    (owner == 0 || process::is_dead(owner))
        && h.birth_lock
            // ORDER: what the last one wrote comes before what this one does.
            .compare_exchange(owner, process::gettid(), AcqRel, Relaxed)
            .is_ok()
}

/// Waits until `done`. `None`: it took too long.
fn wait(h: &Header, done: impl Fn() -> bool) -> Option<()> {
    let cycles = u64::from(h.cycles_per_us.load(Relaxed)).clamp(100, 20_000);
    let begin = clock::now();
    while !done() {
        if clock::now().wrapping_sub(begin) > WAIT * cycles {
            return None;
        }
        process::nap(20);
    }
    Some(())
}
