//! The worker's part of `ready`: readers that sleep in poll(2) or epoll_wait(2), and read what they are told of.
//!
//! Invariant: as many messages are read as were written, and each read follows a call that said that there is one.
//! Not here: round trips (lat_pipe.rs), whole programs (mod.rs).
use crate::child::{self, Failure};
use crate::pairs::link::{self, Kind, Link};
use crate::pairs::pair;
use std::io;
use std::time::Duration;

/// What an epoll set has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Members {
    pub members: usize,
    /// Members that messages come through.
    pub active: usize,
    /// Eventfds, and not pipes.
    pub plain: bool,
}

/// Descriptors that a worker has besides.
const OTHERS: usize = 64;
/// Bytes of a message through a pipe; of an eventfd there are 8.
const MESSAGE: usize = 64;
/// Messages before those that are measured: a part of them.
const WARM: u64 = 10;
/// So many pipes keep a run busy for a while after they were made; that is not what is measured.
const MANY: usize = 2000;
const SETTLES: Duration = Duration::from_millis(500);

impl Members {
    /// Descriptors that a worker needs for it.
    pub fn descriptors(self) -> usize {
        // Of half of the pipes the write ends are a third process's.
        let ends = if self.plain { 2 } else { 3 };
        self.members * ends / 2 + OTHERS
    }
    /// Bytes of so many messages that go through pipes.
    pub fn bytes(self, messages: u64) -> u64 {
        if self.plain {
            0
        } else {
            messages * MESSAGE as u64
        }
    }
    /// Both ends of each member.
    fn make(self) -> Result<Vec<[i32; 2]>, Failure> {
        raise(self.descriptors())?;
        let one = || match self.plain {
            // SAFETY: no pointers.
            true => match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
                fd if fd >= 0 => Ok([fd, fd]),
                _ => Err(io::Error::last_os_error()),
            },
            false => link::pipe(),
        };
        let mut all = vec![];
        for i in 0..self.members {
            if i == self.members / 2 && self.active < self.members && !self.plain {
                self.leave_to_holder(&all)?;
            }
            all.push(one()?);
        }
        Ok(all)
    }
    /// How far it is from one active member to the next.
    fn apart(self) -> usize {
        self.members / self.active
    }
    /// Closes the write ends of idle members; a third process has them. With both ends of 10,000 pipes a process would need more
    /// descriptors than many machines allow.
    fn leave_to_holder(self, all: &[[i32; 2]]) -> io::Result<()> {
        child::holder()?;
        let idle = all
            .iter()
            .enumerate()
            .filter(|(i, _)| i % self.apart() != 0);
        for (_, [_, w]) in idle {
            // SAFETY: ours, and not used again.
            unsafe { libc::close(*w) };
        }
        Ok(())
    }
}

/// Sees to it that this process may have `n` descriptors: the hard limit is raised too, by root.
///
/// # Errors
/// The kernel's.
pub fn raise(n: usize) -> io::Result<()> {
    let mut l = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills a struct of ours.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut l) };
    if l.rlim_cur >= n as u64 {
        return Ok(());
    }
    l.rlim_cur = n as u64;
    l.rlim_max = l.rlim_max.max(l.rlim_cur);
    // SAFETY: reads a struct of ours.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &l) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An epoll set that asks for bytes.
pub struct Set {
    fd: i32,
    told: Vec<libc::epoll_event>,
}

impl Set {
    /// # Errors
    /// The kernel's.
    pub fn of(members: impl Iterator<Item = i32>) -> io::Result<Set> {
        // SAFETY: no pointers.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        for member in members {
            let mut event = libc::epoll_event {
                events: libc::EPOLLIN as u32,
                u64: member as u64,
            };
            // SAFETY: reads a struct of ours.
            if unsafe { libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, member, &mut event) } != 0 {
                return Err(io::Error::last_os_error());
            }
        }
        let none = libc::epoll_event { events: 0, u64: 0 };
        Ok(Set {
            fd,
            told: vec![none; 64],
        })
    }

    /// Sleeps until there is something to read, and says where.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> io::Result<impl Iterator<Item = i32>> {
        let (told, most) = (self.told.as_mut_ptr(), self.told.len() as i32);
        // SAFETY: room for so many structs.
        match usize::try_from(unsafe { libc::epoll_wait(self.fd, told, most, -1) }) {
            Ok(n) => Ok(self.told[..n].iter().map(|e| e.u64 as i32)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

/// `poll-stream`: MB/s.
///
/// # Errors
/// A process could not be started, or died.
pub fn polled(cpus: &[usize], size: usize, messages: u64) -> Result<Vec<f64>, Failure> {
    let link = Link::new(Kind::Pipe, pair::apart(cpus))?;
    let [r, _] = link.descriptors();
    let ns = pair::one_way(
        cpus,
        [messages / WARM, messages],
        || {
            let (end, from) = (link.writer(), vec![1; size]);
            Ok(move |n| (0..n).try_for_each(|_| end.put(&from)))
        },
        || {
            let (end, mut into) = (link.reader(), vec![1; size]);
            Ok(move |n: u64| {
                let mut left = n as usize * size;
                while left > 0 {
                    poll(r)?;
                    left -= end.get(&mut into[..size.min(left)])?;
                }
                Ok(())
            })
        },
    )?;
    Ok(vec![pair::rate(messages * size as u64, ns)])
}

/// Sleeps until `fd` has something to read.
fn poll(fd: i32) -> io::Result<()> {
    let mut p = libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct of ours.
    match unsafe { libc::poll(&mut p, 1, -1) } {
        1 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// `epoll-`: messages a second.
///
/// # Errors
/// A process could not be started, or died; or there are too few descriptors.
pub fn messages(cpus: &[usize], members: Members, messages: u64) -> Result<Vec<f64>, Failure> {
    let all = members.make()?;
    if members.members > MANY {
        std::thread::sleep(SETTLES);
    }
    let ns = pair::one_way(
        cpus,
        [messages / WARM, messages],
        || {
            let ends: Vec<_> = all.iter().step_by(members.apart()).map(|m| m[1]).collect();
            let message = if members.plain {
                1u64.to_ne_bytes().to_vec()
            } else {
                vec![1; MESSAGE]
            };
            Ok(move |n: u64| {
                (0..n as usize).try_for_each(|i| {
                    let to = ends[i % ends.len()];
                    // SAFETY: a buffer that lives over the call.
                    let put = unsafe { libc::write(to, message.as_ptr().cast(), message.len()) };
                    whole(put, message.len())
                })
            })
        },
        || {
            let mut set = Set::of(all.iter().map(|m| m[0]))?;
            Ok(move |n: u64| {
                let mut left = n;
                while left > 0 {
                    for fd in set.wait()? {
                        left -= take(fd, members.plain)?;
                    }
                }
                Ok(())
            })
        },
    )?;
    Ok(vec![messages as f64 * 1e9 / ns as f64])
}

/// Reads from a member: how many messages that were.
fn take(fd: i32, plain: bool) -> io::Result<u64> {
    let mut b = [0; MESSAGE];
    let n = if plain { 8 } else { MESSAGE };
    // SAFETY: room for so many bytes.
    whole(unsafe { libc::read(fd, b.as_mut_ptr().cast(), n) }, n)?;
    Ok(match plain {
        // LINUX eventfd(2): a read takes all that was written, as one number.
        true => u64::from_ne_bytes(std::array::from_fn(|i| b[i])),
        false => 1,
    })
}

fn whole(n: isize, wanted: usize) -> io::Result<()> {
    match n {
        n if n == wanted as isize => Ok(()),
        n if n < 0 => Err(io::Error::last_os_error()),
        n => Err(io::Error::other(format!("{n} bytes of {wanted}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_tells_which_has_something() {
        for plain in [false, true] {
            let m = Members {
                members: 3,
                active: 1,
                plain,
            };
            let all = m.make().unwrap();
            let mut set = Set::of(all.iter().map(|m| m[0])).unwrap();
            let message = [0, 0, 0, 0, 0, 0, 0, 1u8].map(u8::to_be).repeat(8);
            let n = if plain { 8 } else { MESSAGE };
            // SAFETY: a buffer that lives over the call.
            let put = unsafe { libc::write(all[0][1], message.as_ptr().cast(), n) };
            whole(put, n).unwrap();
            let told: Vec<_> = set.wait().unwrap().collect();
            assert_eq!(told, [all[0][0]]);
            assert!(take(told[0], plain).unwrap() >= 1);
            assert_eq!(m.descriptors(), OTHERS + if plain { 3 } else { 4 });
        }
    }
}
