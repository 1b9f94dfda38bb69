//! Descriptors: what an fd is, how much a pipe holds, how it may be opened again.
//!
//! Invariant: an fd is asked, never remembered; nothing here keeps one open after it returns, but for `reopen`.
//! Not here: channels.
use crate::errno::{EACCES, ENOENT, Ret, failed};
use crate::path::Path;
use crate::syscall::{call3, call6, nr};

pub const F_DUPFD: usize = 0;
pub const F_GETFD: usize = 1;
pub const F_DUPFD_CLOEXEC: usize = 1030;
pub const F_GETFL: usize = 3;
pub const F_SETFL: usize = 4;
pub const F_SETPIPE_SZ: usize = 1031;
pub const F_GETPIPE_SZ: usize = 1032;
pub const O_NONBLOCK: usize = 0o4000;
pub const O_DIRECT: usize = 0o40000;
pub const O_ASYNC: usize = 0o20000;
pub const O_CLOEXEC: usize = 0o2000000;
pub const O_PATH: usize = 0o10000000;
pub const O_WRONLY: usize = 1;
pub const O_RDWR: usize = 2;
pub const POLLIN: i16 = 1;
pub const POLLOUT: i16 = 4;
pub const POLLERR: i16 = 8;
pub const POLLHUP: i16 = 16;
pub const POLLNVAL: i16 = 32;
pub const POLLRDNORM: i16 = 64;
pub const POLLWRNORM: i16 = 256;
pub const FIONREAD: usize = 0x541B;
const S_IFMT: u32 = 0o170000;
const S_IFIFO: u32 = 0o010000;
const S_IFSOCK: u32 = 0o140000;
const S_IFREG: u32 = 0o100000;

#[repr(C)]
struct Stat {
    dev: u64,
    ino: u64,
    nlink: u64,
    mode: u32,
    _owner: [u32; 3],
    device: [u32; 2],
    size: [u32; 2],
    _rest: [u32; 22],
}

/// Identity of an open file, as fstat(2) gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ident {
    pub dev: u64,
    pub ino: u64,
    pub fifo: bool,
    pub is_socket: bool,
}

/// fstat(2); `None` for a bad descriptor.
pub fn identity(fd: usize) -> Option<Ident> {
    stat(fd).map(|st| ident(&st))
}

fn ident(st: &Stat) -> Ident {
    Ident {
        dev: st.dev,
        ino: st.ino,
        fifo: st.mode & S_IFMT == S_IFIFO,
        is_socket: st.mode & S_IFMT == S_IFSOCK,
    }
}

/// The same of a regular file that has bytes. One of proc(5) shows none.
pub fn regular(fd: usize) -> Option<Ident> {
    let st = stat(fd)?;
    (st.mode & S_IFMT == S_IFREG && st.size != [0; 2]).then(|| ident(&st))
}

/// Whether the struct stat at `to`, which the caller's own fstat(2) has filled, is a pipe's or a socket's.
///
/// # Safety
/// It has.
pub unsafe fn is_pipe_or_socket(to: usize) -> bool {
    // SAFETY: the caller's promise. The program may have it at any address.
    let st = unsafe { (to as *const Stat).read_unaligned() };
    [S_IFIFO, S_IFSOCK].contains(&(st.mode & S_IFMT))
}

/// Whether `fd` is /dev/null.
pub fn is_null(fd: usize) -> bool {
    const S_IFCHR: u32 = 0o020000;
    const NULL: [u32; 2] = [1 << 8 | 3, 0];
    stat(fd).is_some_and(|st| st.mode & S_IFMT == S_IFCHR && st.device == NULL)
}

/// Whether splice(2) may write to `fd`.
///
/// LINUX do_splice: EINVAL with O_APPEND.
pub fn may_splice_to(fd: usize) -> bool {
    const O_APPEND: usize = 0o2000;
    let flags = fcntl(fd, F_GETFL, 0);
    !failed(flags) && flags as usize & (O_WRONLY | O_RDWR) != 0 && flags as usize & O_APPEND == 0
}

pub const SEEK_SET: usize = 0;
pub const SEEK_CUR: usize = 1;

/// lseek(2).
pub fn seek(fd: usize, to: usize, whence: usize) -> Ret {
    // SAFETY: no pointers.
    unsafe { call3(nr::LSEEK, fd, to, whence) }
}

/// pread(2) of up to `n` bytes into `to`.
///
/// # Safety
/// They may be written, or the kernel refuses it.
pub unsafe fn read_at(fd: usize, to: usize, n: usize, at: usize) -> Ret {
    // SAFETY: the caller's promise.
    unsafe { call6(nr::PREAD, fd, to, n, at, 0, 0) }
}

/// The permission bits of the file behind `fd`.
fn mode(fd: usize) -> Option<u32> {
    stat(fd).map(|st| st.mode & 0o7777)
}

fn stat(fd: usize) -> Option<Stat> {
    let mut st = core::mem::MaybeUninit::<Stat>::uninit();
    // SAFETY: `st` is as large as the kernel's struct stat (144 bytes).
    let r = unsafe { call3(nr::FSTAT, fd, st.as_mut_ptr() as usize, 0) };
    if failed(r) {
        return None;
    }
    // SAFETY: the kernel filled it.
    Some(unsafe { st.assume_init() })
}

/// Whether the open file description has O_NONBLOCK.
pub fn is_nonblocking(fd: usize) -> bool {
    let flags = fcntl(fd, F_GETFL, 0);
    !failed(flags) && flags as usize & O_NONBLOCK != 0
}

/// Whether the open file description is for writing.
pub fn is_writable(fd: usize) -> bool {
    access_mode(fd).is_some_and(|mode| mode != 0)
}

/// Whether the open file description is for reading, too or alone.
pub fn is_readable(fd: usize) -> bool {
    access_mode(fd).is_some_and(|mode| mode != O_WRONLY)
}

/// The access mode of the open file behind `fd`: 0 to read, 1 to write, 2 for both. `None`: it is open for neither.
///
/// LINUX open(2): with O_PATH the descriptor only names the file, which is not opened.
pub fn access_mode(fd: usize) -> Option<usize> {
    const O_ACCMODE: usize = 3;
    let flags = fcntl(fd, F_GETFL, 0);
    (!failed(flags) && flags as usize & O_PATH == 0).then_some(flags as usize & O_ACCMODE)
}

/// LINUX open(2): the descriptor itself is meant, and no path from it.
pub const AT_EMPTY_PATH: usize = 0x1000;

/// When the file behind `fd` came into being, ns since the epoch; 0 where its file system does not keep that.
pub fn born(fd: usize) -> u64 {
    const STATX_BTIME: usize = 0x800;
    let mut st = [0u64; 32];
    let path = c"".as_ptr() as usize;
    // SAFETY: `st` is as large as struct statx (256 bytes).
    let r = unsafe {
        call6(
            nr::STATX,
            fd,
            path,
            AT_EMPTY_PATH,
            STATX_BTIME,
            st.as_mut_ptr() as usize,
            0,
        )
    };
    // stx_mask is the lower half of the first word; stx_btime (s, ns) the eleventh and the lower half of the twelfth.
    if failed(r) || st[0] as usize & STATX_BTIME == 0 {
        0
    } else {
        (st[10].wrapping_mul(1_000_000_000)).wrapping_add(st[11] & 0xffff_ffff)
    }
}

/// Whether the pipe behind `fd` has no name: it lives in the kernel's own file system for pipes.
///
/// LINUX statfs(2): PIPEFS_MAGIC.
pub fn is_nameless(fd: usize) -> bool {
    const PIPEFS_MAGIC: u64 = 0x5049_5045;
    let mut st = [0u64; 15];
    // SAFETY: `st` is as large as the kernel's struct statfs (120 bytes).
    let r = unsafe { call3(nr::FSTATFS, fd, st.as_mut_ptr() as usize, 0) };
    failed(r) || st[0] == PIPEFS_MAGIC
}

/// Where the descriptor `fd` of the calling thread leads to, as /proc has it; how many bytes of `to` that is.
pub fn link(fd: usize, to: &mut [u8]) -> usize {
    follow(&Path::fd(fd), to)
}

/// The same of the program that this process runs.
pub fn program(to: &mut [u8]) -> usize {
    follow(&Path::of(b"/proc/self/exe"), to)
}

pub(crate) fn follow(path: &Path, to: &mut [u8]) -> usize {
    const READLINK: usize = 89;
    let into = to.as_mut_ptr() as usize;
    // SAFETY: `path` is NUL terminated; into the caller's buffer.
    let n = unsafe { call3(READLINK, path.address(), into, to.len()) };
    n.max(0) as usize
}

/// Whether no file can be found at the path that `p` points to (NUL terminated, checked by the kernel).
pub fn absent(p: usize) -> bool {
    // SAFETY: access(2) only reads the path, and fails with EFAULT where it cannot.
    unsafe { call3(nr::ACCESS, p, 0, 0) == ENOENT }
}

/// The process that has a lock on the file behind `fd`, by its id in the caller's pid name space; 0 if there is none, or it
/// has no id there.
///
/// LINUX fcntl(2) F_GETLK; pid_namespaces(7).
pub fn lock_owner(fd: usize) -> u32 {
    const F_GETLK: usize = 5;
    const F_WRLCK: u64 = 1;
    const F_UNLCK: u16 = 2;
    // struct flock: kind and whence, start, length (0: to the end), owner.
    let mut lock = [F_WRLCK, 0, 0, 0];
    let r = fcntl(fd, F_GETLK, lock.as_mut_ptr() as usize);
    // LINUX a lock that another machine or an open file has names a negative id.
    let owner = i32::max(lock[3] as i32, 0) as u32;
    if failed(r) || lock[0] as u16 == F_UNLCK {
        0
    } else {
        owner
    }
}

/// fcntl(2).
pub fn fcntl(fd: usize, cmd: usize, arg: usize) -> Ret {
    // SAFETY: no pointer is passed, or one to what the caller has for the call.
    unsafe { call3(nr::FCNTL, fd, cmd, arg) }
}

/// Makes pipe `fd` as large as the kernel allows: `most` bytes or less by halves, `least` at least. Its size; 0 if not even that.
///
/// LINUX pipe(7): /proc/sys/fs/pipe-max-size for each pipe, pipe-user-pages-soft for a user's pipes together.
pub fn largest(fd: usize, most: usize, least: usize) -> usize {
    let mut size = most;
    while size >= least {
        if !failed(fcntl(fd, F_SETPIPE_SZ, size)) {
            return size;
        }
        size /= 2;
    }
    0
}

/// Bytes in the pipe, by ioctl(FIONREAD); 0 when the kernel does not say.
pub fn fionread(fd: usize) -> usize {
    let mut n: i32 = 0;
    // SAFETY: `n` is an int that lives over the call.
    let r = unsafe { call3(nr::IOCTL, fd, FIONREAD, &mut n as *mut i32 as usize) };
    if failed(r) || n < 0 { 0 } else { n as usize }
}

/// poll(2) of one fd. Returns the kernel's result and `revents`.
pub fn poll1(fd: usize, events: i16, timeout_ms: i32) -> (Ret, i16) {
    let mut p: [u32; 2] = [fd as u32, events as u16 as u32];
    // SAFETY: `p` has the layout of one struct pollfd.
    let r = unsafe { call3(nr::POLL, p.as_mut_ptr() as usize, 1, timeout_ms as usize) };
    (r, (p[1] >> 16) as i16)
}

/// Whether the last reader of a pipe whose write end is `fd` has gone.
///
/// LINUX pipe_poll: POLLERR on the write end when there is no reader.
pub fn reader_gone(fd: usize) -> bool {
    poll1(fd, POLLOUT, 0).1 & POLLERR != 0
}

/// What the file at `path` begins with, as far as that fits into `to`: how many bytes, or an error number.
pub fn read_all(path: &Path, to: &mut [u8]) -> Ret {
    // SAFETY: `path` is NUL terminated; into the caller's buffer.
    unsafe {
        const AT_FDCWD: usize = -100isize as usize;
        let fd = call6(nr::OPENAT, AT_FDCWD, path.address(), O_CLOEXEC, 0, 0, 0);
        if failed(fd) {
            return fd;
        }
        let n = call3(nr::READ, fd as usize, to.as_mut_ptr() as usize, to.len());
        close(fd as usize);
        n
    }
}

/// What epoll set `fd` has: of each registration the number that its descriptor had then, and its file's.
///
/// LINUX proc(5), fdinfo: `tfd:        8 events:       19 data:        8  pos:0 ino:2ca sdev:9`.
pub fn each_of_set(fd: usize, mut f: impl FnMut(usize, u64)) {
    let path = Path::of(b"/proc/thread-self/fdinfo/").number(fd);
    let value = |line: &[u8], key: &[u8], base: u32| {
        let at = line.windows(key.len()).position(|w| w == key)? + key.len();
        let digits = line[at..].iter().skip_while(|c| **c == b' ');
        let digits = digits.map_while(|c| char::from(*c).to_digit(base));
        Some(digits.fold(0u64, |v, d| {
            v.wrapping_mul(base.into()).wrapping_add(d.into())
        }))
    };
    let info = open(&path, O_CLOEXEC);
    if failed(info) {
        return;
    }
    let info = info as usize;
    // A handler's stack may be small.
    let (mut text, mut line, mut n) = ([0u8; 256], [0u8; 160], 0);
    loop {
        // SAFETY: `text` is ours for the read.
        let got = unsafe { call3(nr::READ, info, text.as_mut_ptr() as usize, text.len()) };
        if got <= 0 {
            break;
        }
        for &c in &text[..got as usize] {
            if c != b'\n' {
                line[n] = c;
                n = (n + 1).min(line.len() - 1);
                continue;
            }
            let numbers = (
                value(&line[..n], b"tfd:", 10),
                value(&line[..n], b"ino:", 16),
            );
            if let (Some(fd), Some(file)) = numbers {
                f(fd as usize, file);
            }
            n = 0;
        }
    }
    close(info);
}

/// write(2).
///
/// # Safety
/// `p..p+n` is readable.
pub unsafe fn write(fd: usize, p: *const u8, n: usize) -> Ret {
    // SAFETY: the caller's promise.
    unsafe { call3(nr::WRITE, fd, p as usize, n) }
}

/// A new open file description of the pipe behind `fd`, for both directions.
///
/// LINUX fifo(7): O_RDWR never blocks and makes neither EOF nor SIGPIPE. It is how a holder of one end can move
/// bytes at both; it lives for microseconds.
pub fn reopen(fd: usize) -> Ret {
    reopen_named(&Path::fd(fd), fd, BOTH)
}

/// A new open file description of the pipe behind `fd`, a reader, for writes that wait.
pub fn reopen_to_write(fd: usize) -> Ret {
    reopen_named(&Path::fd(fd), fd, O_WRONLY | O_CLOEXEC)
}

/// As [`reopen`], of a descriptor that thread `tid` of this process has: the caller may have a table of its own.
pub fn reopen_of(tid: u32, fd: usize) -> Ret {
    let task = Path::of(b"/proc/self/task/").number(tid as usize);
    reopen_named(&task.text(b"/fd/").number(fd), fd, BOTH)
}

const BOTH: usize = O_RDWR | O_NONBLOCK | O_CLOEXEC;

fn reopen_named(path: &Path, fd: usize, flags: usize) -> Ret {
    let tmp = open(path, flags);
    if tmp != EACCES {
        return tmp;
    }
    // Somebody has taken the mode away: to its owner it can be given for a moment.
    let Some(mode) = mode(fd) else { return tmp };
    if failed(chmod(fd, mode | 0o600)) {
        return tmp;
    }
    let tmp = open(path, flags);
    chmod(fd, mode);
    tmp
}

/// open(2).
fn open(path: &Path, flags: usize) -> Ret {
    const AT_FDCWD: usize = -100isize as usize;
    // SAFETY: the name is NUL terminated.
    unsafe { call6(nr::OPENAT, AT_FDCWD, path.address(), flags, 0, 0, 0) }
}

/// fchmod(2).
fn chmod(fd: usize, mode: u32) -> Ret {
    // SAFETY: no pointer.
    unsafe { call3(nr::FCHMOD, fd, mode as usize, 0) }
}

/// Calls `f` with each number that may be an open descriptor of this process: some of them are none.
pub fn each_fd(f: impl FnMut(usize)) {
    // What is listed costs a file of /proc for each, made and taken away again.
    match above_all() {
        Some(n) => (0..n).for_each(f),
        None => each_listed(f),
    }
}

/// A number that is higher than each open descriptor; None if that is not a small one.
///
/// LINUX select(2), BUGS: a descriptor in a set that is not open is EBADF, but not one beyond the highest that is open.
fn above_all() -> Option<usize> {
    const MOST: usize = 512;
    let is_above = |n: usize| {
        let mut set = [0u64; MOST / 64 + 1];
        set[n / 64] = 1 << (n % 64);
        let (at, no_time) = (set.as_mut_ptr() as usize, [0u64; 2]);
        let time = no_time.as_ptr() as usize;
        // SAFETY: a set of `n + 1` bits, and a struct timeval.
        let asked = || unsafe { call6(nr::SELECT, n + 1, at, 0, 0, time, 0) };
        failed(fcntl(n, F_GETFD, 0)) && asked() == 0
    };
    [64, 128, 256, MOST].into_iter().find(|&n| is_above(n))
}

/// Calls `f` with each open descriptor as /proc lists them.
fn each_listed(mut f: impl FnMut(usize)) {
    // LINUX proc(5): `self` is the first thread, which shows no descriptors once it has ended.
    if !each_in(c"/proc/thread-self/fd".as_ptr() as usize, true, &mut f) {
        (0..1024).for_each(f);
    }
}

/// Calls `f` with each number in the folder of descriptors whose NUL-terminated path is at `path`; if they are the
/// caller's `own`, without the folder's. False: it cannot be looked into.
pub(crate) fn each_in(path: usize, own: bool, mut f: impl FnMut(usize)) -> bool {
    const AT_FDCWD: usize = -100isize as usize;
    const FOLDER: usize = 0o2200000;
    // A handler's stack may be small.
    let mut buf = [0u8; 256];
    // SAFETY: the path is NUL terminated; the buffer is ours for each call.
    unsafe {
        let dir = call6(nr::OPENAT, AT_FDCWD, path, FOLDER, 0, 0, 0);
        if failed(dir) {
            return false;
        }
        loop {
            let n = call3(
                nr::GETDENTS64,
                dir as usize,
                buf.as_mut_ptr() as usize,
                buf.len(),
            );
            if n <= 0 {
                break;
            }
            let mut at = 0;
            while at + 19 < n as usize {
                let len = u16::from_le_bytes([buf[at + 16], buf[at + 17]]) as usize;
                let mut fd = 0usize;
                let mut number = false;
                for &c in &buf[at + 19..(at + len).min(buf.len())] {
                    if !c.is_ascii_digit() {
                        break;
                    }
                    number = true;
                    fd = fd * 10 + (c - b'0') as usize;
                }
                if number && !(own && fd == dir as usize) {
                    f(fd);
                }
                at += len.max(19);
            }
        }
        call3(nr::CLOSE, dir as usize, 0, 0);
    }
    true
}

/// Closes every descriptor but `fd`. For a table of one's own.
pub fn close_others(fd: usize) {
    // SAFETY: no pointers.
    let close = |from, to| unsafe { call3(nr::CLOSE_RANGE, from, to, 0) };
    if (fd > 0 && failed(close(0, fd - 1))) || failed(close(fd + 1, u32::MAX as usize)) {
        // LINUX before 5.9. One beyond this stays open.
        const MOST: usize = 1 << 16;
        (0..MOST).filter(|&n| n != fd).for_each(self::close);
    }
}

/// close(2).
pub fn close(fd: usize) {
    // SAFETY: no pointer.
    unsafe { call3(nr::CLOSE, fd, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;

    #[test]
    fn each_open_descriptor_is_met() {
        let null = std::fs::File::open("/dev/null").unwrap();
        // The later ones are beyond what is looked at one by one.
        for high in [63, 64, 127, 130, 300, 511, 512, 700] {
            // SAFETY: a number that nothing else in this process uses.
            assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), high) }, high);
            let (mut all, mut listed) = (Vec::new(), Vec::new());
            each_fd(|fd| all.push(fd));
            each_listed(|fd| listed.push(fd));
            for fd in [0, 1, 2, high as usize] {
                assert!(all.contains(&fd), "{fd} with {high} open");
                assert!(listed.contains(&fd), "{fd} listed with {high} open");
            }
            close(high as usize);
        }
    }

    #[test]
    fn each_registration_of_a_set_is_told() {
        let null = std::io::pipe().unwrap().0;
        // SAFETY: no pointers.
        let set = unsafe { libc::epoll_create1(0) };
        let mut event = libc::epoll_event { events: 1, u64: 7 };
        // More lines than one read(2) takes; numbers that nothing else uses.
        let all = 800..900;
        for fd in all.clone() {
            // SAFETY: `event` outlives the calls.
            unsafe {
                libc::dup2(null.as_raw_fd(), fd);
                libc::epoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &mut event);
            }
        }
        let inode = identity(null.as_raw_fd() as usize).unwrap().ino;
        let mut told = Vec::new();
        each_of_set(set as usize, |fd, inode| told.push((fd, inode)));
        told.sort_unstable();
        assert!(
            told.into_iter()
                .eq(all.clone().map(|fd| (fd as usize, inode)))
        );
        all.for_each(|fd| close(fd as usize));
        close(set as usize);
    }

    #[test]
    fn the_owner_of_a_lock_is_told() {
        let path = std::env::temp_dir().join(std::format!("byway-lock-{}", std::process::id()));
        let mut how = std::fs::OpenOptions::new();
        let how = how.read(true).write(true).create_new(true);
        let f = how.open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let fd = f.as_raw_fd() as usize;
        assert_eq!(lock_owner(fd), 0);
        // SAFETY: struct flock is valid zeroed; the child makes system calls only, until it is killed.
        let child = unsafe {
            let child = libc::fork();
            if child == 0 {
                let mut all: libc::flock = std::mem::zeroed();
                all.l_type = libc::F_RDLCK as libc::c_short;
                libc::fcntl(fd as i32, libc::F_SETLK, &all);
                libc::pause();
            }
            child
        };
        let is_told = (0..1000).any(|_| {
            crate::process::nap(5000);
            lock_owner(fd) == child as u32
        });
        // SAFETY: our own child.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
        }
        assert!(is_told);
        assert_eq!(lock_owner(fd), 0);
    }
}
