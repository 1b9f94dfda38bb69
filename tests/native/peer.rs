//! Another process: this test program again, in a role.
use std::io::{BufRead, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

const ROLE: &str = "BYWAY_TEST_ROLE";
/// Longer than anything here takes, however loaded the machine is: a hang, not a slow machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Written by who forks, until the child has executed; read by who closes what no child may have.
static FORKS: RwLock<()> = RwLock::new(());

/// Starts `c`. Afterwards the child has executed: it has only what it was to inherit.
pub fn spawn(c: &mut Command) -> Child {
    let _forks = FORKS.write().unwrap_or_else(PoisonError::into_inner);
    c.spawn().unwrap()
}

/// Closes an end, and nobody has it any more: a child that another test forks has every descriptor until it executes.
pub fn close<T>(end: T) {
    let _none = FORKS.read().unwrap_or_else(PoisonError::into_inner);
    drop(end);
}

/// Starts `role` with `arg`; descriptor `fd`, if there is one, is inherited.
pub fn start(role: &str, arg: &str, fd: Option<i32>) -> Child {
    start_holding(role, arg, fd, Stdio::inherit())
}

/// The same with `held` as its standard input, which it does nothing with.
pub fn start_holding(role: &str, arg: &str, fd: Option<i32>, held: impl Into<Stdio>) -> Child {
    let mut c = command(role, arg);
    c.stdin(held);
    if let Some(fd) = fd {
        // SAFETY: fcntl(2) is async-signal-safe.
        unsafe {
            c.pre_exec(move || {
                libc::fcntl(fd, libc::F_SETFD, 0);
                Ok(())
            })
        };
    }
    spawn(&mut c)
}

/// Plays `role` in a process with a shared-memory folder of its own, where others do not take or give memory meanwhile; it
/// must end well, and leave nothing there.
pub fn apart(role: &str) {
    let dir = format!("/dev/shm/byway-test-{}-{role}", std::process::id());
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, PermissionsExt::from_mode(0o700)).unwrap();
    // SAFETY: ends with this process, whatever happens to it.
    let end = || unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let mut c = command(role, "-");
    c.env("BYWAY_SHM", &dir);
    // SAFETY: prctl(2) is async-signal-safe.
    unsafe {
        c.pre_exec(move || {
            end();
            Ok(())
        })
    };
    let well = ended(spawn(&mut c));
    let left: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().collect();
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(well, "{role}");
    assert!(left.is_empty(), "{role} left {left:?}");
}

/// The same, to be started by the caller.
pub fn command(role: &str, arg: &str) -> Command {
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.args(["--exact", "peer::peer", "--nocapture", "--test-threads=1"])
        .env(ROLE, format!("{role} {arg}"))
        .stdout(Stdio::null());
    c
}

/// Whether the peer ended well, in time.
pub fn ended(mut c: Child) -> bool {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if let Some(s) = c.try_wait().unwrap() {
            return s.success();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    c.kill().unwrap();
    c.wait().unwrap();
    false
}

/// Bytes whose order can be told: position in, byte out.
pub fn byte(i: usize) -> u8 {
    (i ^ (i >> 8) ^ (i >> 16)) as u8
}

/// Writes `n` bytes in pieces of all sizes.
pub fn write_all(w: &mut byway::Writer, n: usize) -> std::io::Result<()> {
    let all: Vec<u8> = (0..n).map(byte).collect();
    let (mut at, mut size) = (0, 1);
    while at < n {
        let k = size.min(n - at);
        w.write_all(&all[at..at + k])?;
        at += k;
        size = size * 7 / 2 % 300_007 + 1;
    }
    Ok(())
}

/// Reads to the end; how many bytes, and whether all were right.
pub fn read_all(r: &mut byway::Reader) -> std::io::Result<(usize, bool)> {
    let (mut n, mut right) = (0, true);
    let (mut buf, mut size) = (vec![0; 200_000], 3);
    loop {
        let k = r.read(&mut buf[..size])?;
        if k == 0 {
            return Ok((n, right));
        }
        right &= buf[..k].iter().enumerate().all(|(i, &b)| b == byte(n + i));
        n += k;
        size = size * 5 / 2 % 199_999 + 1;
    }
}

/// The record with number `k`: of every size class, each byte told by the number.
pub fn record(k: usize) -> Vec<u8> {
    let sizes = [
        0, 1, 7, 64, 200, 256, 300, 2048, 3000, 4088, 4089, 60_000, 65_536, 65_537, 700_000,
    ];
    let n = sizes[k % sizes.len()] + k % 3;
    (0..n).map(|i| byte(i + k)).collect()
}

#[test]
fn peer() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (role, arg) = role.split_once(' ').unwrap();
    // SAFETY: inherited, and nobody else's here.
    let fd = || unsafe { OwnedFd::from_raw_fd(arg.split(' ').next().unwrap().parse().unwrap()) };
    let number = |k: usize| arg.split(' ').nth(k).unwrap().parse::<usize>().unwrap();
    match role {
        "read-fd" => {
            let mut r = byway::Reader::from_fd(fd()).unwrap();
            assert!(r.is_carried());
            assert_eq!(read_all(&mut r).unwrap(), (number(1), true));
        }
        "forked" => crate::stream::forked(),
        "forked-passing" => crate::pass_through::forked(),
        "forked-watching" => crate::watching::forked(),
        "timer" => crate::timer::kept(),
        "timer-closed" => crate::timer::closed(),
        "timer-off" => crate::timer::none(),
        "write-fd" => {
            let mut w = byway::Writer::from_fd(fd()).unwrap();
            assert!(w.is_carried());
            write_all(&mut w, number(1)).unwrap();
        }
        "fifo-read" => {
            let f = byway::Fifo::new(arg.split(' ').next().unwrap()).unwrap();
            let mut r = f.reader().unwrap();
            assert_eq!(read_all(&mut r).unwrap(), (number(1), true));
        }
        "fifo-write" => {
            let f = byway::Fifo::new(arg.split(' ').next().unwrap()).unwrap();
            let mut w = f.writer().unwrap();
            write_all(&mut w, number(1)).unwrap();
        }
        // Both go on until they are killed, or the other side has gone.
        "read-slowly" => {
            let mut r = byway::Reader::from_fd(fd()).unwrap();
            let mut b = [0; 1000];
            while r.read(&mut b).unwrap() > 0 {
                std::thread::sleep(Duration::from_micros(100));
            }
        }
        "write-forever" => {
            let mut w = byway::Writer::from_fd(fd()).unwrap();
            let b = vec![7; 10_000];
            while w.write_all(&b).is_ok() {}
        }
        "wake-forever" => crate::pass_through::wake_forever(
            byway::Writer::from_fd(fd()).unwrap(),
            number(1) as u64,
        ),
        "be-woken" => crate::pass_through::be_woken(byway::Reader::from_fd(fd()).unwrap()),
        "send" => {
            let mut s = byway::Sender::new(byway::Writer::from_fd(fd()).unwrap());
            for k in 0..number(1) {
                s.send(&record(k)).unwrap();
            }
        }
        "receive" => {
            let mut r = byway::Receiver::new(byway::Reader::from_fd(fd()).unwrap());
            for k in 0..number(1) {
                assert_eq!(
                    &r.message().unwrap().unwrap()[..],
                    &record(k)[..],
                    "record {k}"
                );
            }
            assert!(r.message().unwrap().is_none());
        }
        "send-forever" => {
            let mut s = byway::Sender::new(byway::Writer::from_fd(fd()).unwrap());
            let mut k = 0;
            while s.send(&record(k)).is_ok() {
                k += 1;
            }
        }
        "receive-forever" => {
            let mut r = byway::Receiver::new(byway::Reader::from_fd(fd()).unwrap());
            let mut held = std::collections::VecDeque::new();
            while let Some(m) = r.message().unwrap() {
                held.push_back(m);
                held.truncate(3);
            }
        }
        "look-forever" => {
            let mut r = byway::Reader::from_fd(fd()).unwrap();
            let mut b = r.buffered();
            let had = b.fill_buf().unwrap().len();
            std::fs::write(arg.split(' ').nth(1).unwrap(), had.to_string()).unwrap();
            std::thread::sleep(LONG);
        }
        "sleep" => {
            let fd = fd();
            std::thread::sleep(LONG);
            drop(fd);
        }
        "lives" => crate::fifo::lives(),
        "timed" => crate::fifo::timed(),
        "uncarried" => crate::uncarried::uncarried(arg),
        "told" => crate::death::told(),
        "idle" => crate::rest::idle(),
        "slots" => crate::rest::slots(),
        "unseen" => crate::rest::unseen(),
        "thousand" => crate::rest::thousand(),
        "signals" => crate::asleep::signals(),
        "sleepers" => crate::asleep::sleepers(),
        "watched" => crate::watching::watched(),
        "memory" => crate::grants::memory(),
        "full" => crate::grants::full(),
        "unread" => crate::grants::unread(),
        "dead" => crate::grants::dead(),
        _ => panic!("no such role: {role}"),
    }
}

/// The number of an end.
pub fn number(e: &impl AsRawFd) -> i32 {
    e.as_raw_fd()
}
