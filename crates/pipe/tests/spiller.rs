//! Hand-backs into a kernel's pipe that may not become large enough: another process writes the rest.
//!
//! Each test is an ordinary user, whose pipes have used up fs.pipe-user-pages-soft once its ring is full: then the
//! kernel refuses to make the pipe larger. Not here: what the programs notice (tests/harm/limits.py).
mod common;

use byway_pipe::reason::Reason;
use byway_pipe::word::Head;
use byway_pipe::{clusters, handback, lock, opening, ready, spiller};
use byway_sys::errno::{EAGAIN, EPIPE, failed};
use byway_sys::{file, process};
use common::{Pipe, me, pipe};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const USER: u32 = 61234;
const SIZE: usize = 300_000;

fn pattern(i: usize) -> u8 {
    ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

fn bytes(from: usize, n: usize) -> Vec<u8> {
    (from..from + n).map(pattern).collect()
}

/// Runs `f` in a child; its status.
fn child(f: impl FnOnce()) -> i32 {
    // SAFETY: the child only uses this test's code and leaves by _exit.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let done = catch_unwind(AssertUnwindSafe(f));
        // SAFETY: leaving the child.
        unsafe { libc::_exit(i32::from(done.is_err())) };
    }
    pid
}

fn reap(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: waits for our child.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    status
}

/// Runs `f` as a user without privileges, one test after the other: they would use up each other's pages.
fn as_user(f: impl FnOnce()) {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|e| e.into_inner());
    let pid = child(|| {
        // SAFETY: plain calls of the child's own.
        unsafe {
            if libc::geteuid() == 0 {
                assert_eq!(libc::setgroups(0, std::ptr::null()), 0);
                assert_eq!(libc::setgid(USER), 0);
                assert_eq!(libc::setuid(USER), 0);
                // LINUX proc(5): else its descriptors in /proc are root's.
                libc::prctl(libc::PR_SET_DUMPABLE, 1);
            }
            libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        }
        f();
    });
    assert_eq!(reap(pid), 0);
}

/// A pipe whose ring holds `SIZE` bytes of the pattern, and whose user may make no pipe larger: so only some of them fit
/// into the kernel's pipe. The bytes are written by another process, which has ended.
fn full() -> Pipe {
    let p = pipe();
    p.d.header().ring_bytes.store(512 << 10, Relaxed);
    let pid = child(|| {
        let mut warm = vec![0; 4096];
        for _ in 0..20 {
            assert_eq!(p.put(&warm), 4096);
            assert_eq!(p.get(&mut warm), 4096);
        }
        for from in (0..SIZE).step_by(20_000) {
            assert_eq!(p.put(&bytes(from, 20_000)), 20_000);
        }
    });
    assert_eq!(reap(pid), 0);
    assert!(!p.ch.tail().closed() && used(&p) > 0);
    use_up();
    p
}

fn used(p: &Pipe) -> usize {
    let mut n = 0;
    clusters::reach(p.d, p.ch, &mut |_| n += 1);
    n
}

/// Makes pipes, for the life of the process, until the kernel lets none grow any more.
fn use_up() {
    let most = fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap();
    let most: usize = most.trim().parse().unwrap();
    let limit = libc::rlimit {
        rlim_cur: 4096,
        rlim_max: 4096,
    };
    // SAFETY: one struct of ours.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    for _ in 0..1500 {
        let mut fds = [0i32; 2];
        // SAFETY: pipe(2) fills two ints.
        assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
        if file::largest(fds[0] as usize, most, 131072) == 0 {
            return;
        }
    }
    panic!("this user's pipes have no limit");
}

/// Whether a put said the error `e`, from us or from write(2) itself.
fn says(n: isize, e: isize) -> bool {
    let own = std::io::Error::last_os_error().raw_os_error();
    n == e || (n == -1 && own == Some(-e as i32))
}

fn hand_back(p: &Pipe) {
    assert!(handback::hand_back(
        &me(p.d),
        p.ch,
        p.r,
        true,
        Reason::Readiness
    ));
    let t = p.ch.tail();
    assert!(t.closed());
}

/// Waits for the end of the spiller, and that it has left nothing.
fn ended(p: &Pipe) {
    until(|| p.ch.tail().lock_owner() == 0);
    assert!(p.ch.tail().closed() && !p.ch.head().held());
    assert_eq!((used(p), p.ch.facts.0.intent.load(Relaxed)), (0, 0));
}

/// Reads from the pattern's byte `from` on, to the end of the stream; where that is.
fn read_on(p: &Pipe, from: usize) -> usize {
    let (mut seen, mut b) = (from, vec![0; 7000]);
    loop {
        let n = p.get(&mut b);
        assert!(n >= 0, "read said {n}");
        if n == 0 {
            return seen;
        }
        for &c in &b[..n as usize] {
            assert_eq!(c, pattern(seen), "byte {seen}");
            seen += 1;
        }
    }
}

/// Waits until something is so.
fn until(is: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is() {
        assert!(Instant::now() < end, "it never is");
        process::nap(1000);
    }
}

/// The descriptors of a process.
fn descriptors(pid: u32) -> Vec<String> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let link = |fd: fs::DirEntry| fs::read_link(fd.path()).unwrap();
    fds.map(|fd| link(fd.unwrap()).display().to_string())
        .collect()
}

#[test]
fn a_reader_goes_on_at_once() {
    as_user(|| {
        let p = full();
        hand_back(&p);
        let tid = p.ch.tail().spiller();
        assert!(tid != 0 && spiller::is_at_work(p.ch.tail()));
        // What fits is there already; poll(2) without a timeout may ask for it.
        assert!(file::fionread(p.r) >= 65536);
        assert!(!ready::is_writable(&me(p.d), p.ch, p.w));
        let key = file::identity(p.r).unwrap();
        assert_eq!(descriptors(tid), [format!("pipe:[{}]", key.ino)]);
        let name = || fs::read_to_string(format!("/proc/{tid}/comm")).unwrap();
        until(|| name() == "byway-spiller\n");
        // SAFETY: no status is asked for. No child of ours but those that we know.
        let none = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
        assert_eq!(none, -1, "a child");
        // Again, and by one who would open it.
        hand_back(&p);
        assert!(!opening::open(&me(p.d), p.ch, p.w, 1));
        file::close(p.w);
        assert_eq!(read_on(&p, 0), SIZE);
        ended(&p);
    });
}

/// What it keeps of the program that it is a copy of is little.
#[test]
fn its_memory_is_not_the_programs() {
    as_user(|| {
        let heap = vec![1u8; 256 << 20];
        let p = full();
        hand_back(&p);
        let tid = p.ch.tail().spiller();
        let kib = || {
            let text = fs::read_to_string(format!("/proc/{tid}/status")).unwrap();
            let line = text.lines().find_map(|l| l.strip_prefix("RssAnon:"));
            let kib = line.unwrap().trim().trim_end_matches(" kB");
            kib.parse::<usize>().unwrap()
        };
        until(|| kib() < 64 << 10);
        assert!(heap.iter().all(|&c| c == 1));
        file::close(p.w);
        assert_eq!(read_on(&p, 0), SIZE);
        ended(&p);
    });
}

#[test]
fn writers_wait_behind_it() {
    as_user(|| {
        let p = full();
        let set = |flags| file::fcntl(p.w, libc::F_SETFL as usize, flags);
        set(file::O_NONBLOCK);
        hand_back(&p);
        assert!(says(p.put(b"x"), EAGAIN));
        set(0);
        let pid = child(|| {
            file::close(p.r);
            assert_eq!(p.put(&bytes(SIZE, 100_000)), 100_000);
        });
        file::close(p.w);
        process::nap(20_000);
        assert_eq!(read_on(&p, 0), SIZE + 100_000);
        assert_eq!(reap(pid), 0);
        ended(&p);
    });
}

/// A call that is not ours comes behind it; but not where nobody else may read.
#[test]
fn who_writes_past_it_waits() {
    as_user(|| {
        let p = full();
        hand_back(&p);
        spiller::wait(&me(p.d), p.ch, p.w);
        spiller::wait(&me(p.d), p.ch, p.r);
        assert!(spiller::is_at_work(p.ch.tail()));
        let pid = child(|| {
            file::close(p.r);
            spiller::wait(&me(p.d), p.ch, p.w);
            let b = bytes(SIZE, 1000);
            // SAFETY: our own fd and buffer.
            let n = unsafe { file::write(p.w, b.as_ptr(), b.len()) };
            assert_eq!(n, 1000);
        });
        file::close(p.w);
        process::nap(20_000);
        assert_eq!(read_on(&p, 0), SIZE + 1000);
        assert_eq!(reap(pid), 0);
        ended(&p);
    });
}

/// Each edge of epoll(7) that a full pipe promises comes.
#[test]
fn a_writer_that_waits_for_edges() {
    as_user(|| {
        let p = full();
        let pid = child(|| {
            file::close(p.r);
            file::fcntl(p.w, libc::F_SETFL as usize, file::O_NONBLOCK);
            // SAFETY: plain calls on structs of ours.
            let mut wait = unsafe {
                let e = libc::epoll_create1(0);
                let mut event = libc::epoll_event {
                    events: (libc::EPOLLOUT | libc::EPOLLET) as u32,
                    u64: 0,
                };
                libc::epoll_ctl(e, libc::EPOLL_CTL_ADD, p.w as i32, &mut event);
                move || libc::epoll_wait(e, &mut event, 1, -1)
            };
            let mut at = SIZE;
            while at < 2 * SIZE {
                match p.put(&bytes(at, 10_000.min(2 * SIZE - at))) {
                    n @ 1.. => at += n as usize,
                    n => assert!(says(n, EAGAIN) && wait() == 1),
                }
            }
        });
        file::close(p.w);
        hand_back(&p);
        process::nap(5000);
        assert_eq!(read_on(&p, 0), 2 * SIZE);
        assert_eq!(reap(pid), 0);
        ended(&p);
    });
}

#[test]
fn the_last_reader_goes() {
    as_user(|| {
        let p = full();
        hand_back(&p);
        let pid = child(|| {
            file::close(p.r);
            assert!(says(p.put(b"x"), EPIPE));
        });
        assert_eq!(p.get(&mut [0; 100]), 100);
        file::close(p.r);
        assert_eq!(reap(pid), 0);
        ended(&p);
    });
}

#[test]
fn its_maker_is_killed() {
    as_user(|| {
        let p = full();
        let pid = child(|| {
            hand_back(&p);
            // SAFETY: ourselves.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        });
        file::close(p.w);
        assert_eq!(reap(pid), libc::SIGKILL);
        assert_eq!(read_on(&p, 0), SIZE);
        ended(&p);
    });
}

/// As a writer that is killed in its write(2): what it had not written is gone, and others go on.
#[test]
fn it_is_killed() {
    as_user(|| {
        let p = full();
        hand_back(&p);
        assert_eq!(p.get(&mut vec![0; 10_000]), 10_000);
        let tid = p.ch.tail().spiller();
        // SAFETY: a process of ours.
        unsafe { libc::kill(tid as i32, libc::SIGKILL) };
        until(|| process::is_dead(tid));
        assert!(p.ch.tail().spiller() == tid && !spiller::is_at_work(p.ch.tail()));
        let there = file::fionread(p.r);
        let mut b = vec![0; there];
        assert_eq!(p.get(&mut b), there as isize);
        assert_eq!(b, bytes(10_000, there));
        let at = 10_000 + there;
        assert_eq!(p.put(&bytes(at, 50_000)), 50_000);
        ended(&p);
        file::close(p.w);
        assert_eq!(read_on(&p, at), at + 50_000);
    });
}

/// At its limit of descriptors a process can make it too.
#[test]
fn no_descriptor_is_left() {
    as_user(|| {
        let p = full();
        // SAFETY: plain calls.
        let last = unsafe { libc::dup(0) };
        let limit = |most| libc::rlimit {
            rlim_cur: most,
            rlim_max: 4096,
        };
        for spare in [0, 1] {
            // SAFETY: one struct of ours.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit(last as u64 + 1 + spare)) };
            hand_back(&p);
            assert!(p.ch.tail().spiller() != 0);
        }
        file::close(p.w);
        assert_eq!(read_on(&p, 0), SIZE);
        ended(&p);
    });
}

/// Where no process can be made the hand-back waits for a larger pipe, or for room.
#[test]
fn no_process_can_be_made() {
    as_user(|| {
        let p = full();
        let pid = child(|| {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: one struct of ours.
            unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &none) };
            hand_back(&p);
            assert_eq!(p.ch.tail().spiller(), 0);
        });
        process::nap(20_000);
        // Another that looks at the kernel's pipe alone makes room.
        let (mut seen, mut b) = (0, vec![0; 4096]);
        while !p.ch.tail().closed() {
            // It may have been closed since, with all of it read.
            if file::poll1(p.r, file::POLLIN, 10).1 == 0 {
                continue;
            }
            // SAFETY: our own fd and buffer.
            let n = unsafe { libc::read(p.r as i32, b.as_mut_ptr().cast(), b.len()) } as usize;
            assert_eq!(b[..n], bytes(seen, n));
            seen += n;
        }
        assert_eq!(reap(pid), 0);
        file::close(p.w);
        assert_eq!(read_on(&p, seen), SIZE);
        ended(&p);
    });
}

/// A hand-back that was cut short by a death, with some of the bytes in the kernel's pipe: the next one takes up there.
#[test]
fn killed_with_some_of_it_done() {
    const SPILLING: u64 = 3 << 60;
    for there in [0, 1, 4096, 65536] {
        as_user(|| {
            let p = full();
            let pid = child(|| {
                let me = me(p.d);
                let _taken = lock::take(&me, p.ch, p.r, |_| false);
                lock::hold(&me, p.ch, Head::SPILLS);
                p.ch.facts.0.intent.store(SPILLING, Relaxed);
                let b = bytes(0, there);
                // SAFETY: our own fd and buffer.
                let n = unsafe { file::write(p.w, b.as_ptr(), there) };
                assert!(!failed(n));
            });
            assert_eq!(reap(pid), 0);
            hand_back(&p);
            file::close(p.w);
            assert_eq!(read_on(&p, 0), SIZE, "{there}");
            ended(&p);
        });
    }
}
