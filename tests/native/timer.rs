//! The timer that a process keeps on the CPU where it sleeps: it is one descriptor for each CPU, out of the program's way.
use crate::peer;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

/// The numbers of this process's timers.
fn timers() -> Vec<i32> {
    let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let timer = PathBuf::from("anon_inode:[timerfd]");
    let is_timer = |p: &PathBuf| std::fs::read_link(p).is_ok_and(|to| to == timer);
    let own = all.map(|e| e.path()).filter(is_timer);
    own.map(|p| p.file_name().unwrap().to_str().unwrap().parse().unwrap())
        .collect()
}

/// CPUs that this process may use.
fn cpus() -> usize {
    thread::available_parallelism().unwrap().get()
}

/// The calling thread, and those that it will start, have the CPU that it is on.
fn stay() {
    // SAFETY: a set of ours, and the size of it; no pointers.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(libc::sched_getcpu() as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

/// Bytes one by one, each to a reader that sleeps.
fn wake(r: &mut byway::Reader, w: &mut byway::Writer, n: usize) {
    thread::scope(|t| {
        t.spawn(|| {
            for i in 0..n {
                thread::sleep(Duration::from_micros(200));
                w.write_all(&[i as u8]).unwrap();
            }
        });
        for i in 0..n {
            let mut b = [0];
            r.read_exact(&mut b).unwrap();
            assert_eq!(b[0], i as u8);
        }
    });
}

#[test]
fn who_sleeps_has_one_for_each_cpu() {
    peer::apart("timer");
}
pub fn kept() {
    let (mut r, mut w) = byway::pipe().unwrap();
    assert!(r.is_carried());
    wake(&mut r, &mut w, 1500);
    let found = timers();
    let most = if cpus() > 1 { cpus() } else { 0 };
    assert!(
        found.len() <= most && (most == 0 || !found.is_empty()),
        "{found:?}"
    );
    for fd in found {
        assert!(fd >= 512, "{fd}");
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::fcntl(fd, libc::F_GETFD) }, libc::FD_CLOEXEC);
    }
}

#[test]
fn a_program_may_close_it() {
    peer::apart("timer-closed");
}
pub fn closed() {
    let (mut r, mut w) = byway::pipe().unwrap();
    // On one CPU from here on there is one, and none that takes its number.
    let several = cpus() > 1;
    stay();
    wake(&mut r, &mut w, 500);
    let found = timers();
    for &fd in &found {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::close(fd) }, 0);
    }
    assert_eq!(found.len(), usize::from(several));
    // It is missed with one of the next sleeps, and no other comes in its place.
    wake(&mut r, &mut w, 1500);
    assert_eq!(timers(), []);
}

#[test]
fn byway_timer_off_has_none() {
    let mut c = peer::command("timer-off", "-");
    assert!(peer::ended(peer::spawn(c.env("BYWAY_TIMER", "off"))));
}
pub fn none() {
    let (mut r, mut w) = byway::pipe().unwrap();
    wake(&mut r, &mut w, 500);
    assert!(timers().is_empty());
}
