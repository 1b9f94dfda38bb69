//! A driver of the pipe core: it makes the kernel calls that the core asks for, as the preload library's entry does.
//!
//! Not here: any test.
#![allow(dead_code)]
use byway_mem::domain::Domain;
use byway_mem::layout::{Geometry, SLABS};
use byway_mem::registry;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::{ReadCursor, WriteCursor};
use byway_pipe::read::Armed;
use byway_pipe::write::Progress;
use byway_pipe::{Caller, Step, birth, fast_path, read, write};
use byway_sys::{file, process};
use std::cell::RefCell;
use std::collections::HashMap;

/// A new domain of this process and its children.
pub fn domain() -> Domain {
    // SAFETY: a new anonymous shared mapping of the size that `over` wants.
    unsafe {
        let p = libc::mmap(
            std::ptr::null_mut(),
            Geometry::of(SLABS).bytes,
            3,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        );
        assert_ne!(p, libc::MAP_FAILED);
        let d = Domain::over(p.cast(), SLABS);
        d.lay_out();
        d.header()
            .cycles_per_us
            .store(2600, std::sync::atomic::Ordering::Relaxed);
        // Whatever the processor is: readers have more to do.
        d.header()
            .shared_lines
            .store(1, std::sync::atomic::Ordering::Relaxed);
        d
    }
}

/// The calling thread.
pub fn me(domain: Domain) -> Caller {
    Caller {
        spin: true,
        lend: true,
        has_barriers: byway_sys::barrier::register(),
        resign: true,
        pull: || true,
        ..Caller::of(domain, process::gettid(), process::allowed_cpus())
    }
}

/// A pipe that the core knows.
pub struct Pipe {
    /// Whether its readers may read their writer's memory.
    pub pull: bool,
    /// CPUs that its ends may run on, as they see it, and whether they can tell on which they do.
    pub cpus: u32,
    pub rseq: bool,
    pub d: Domain,
    pub ch: &'static Channel,
    pub r: usize,
    pub w: usize,
}

/// A new one, in a domain of its own.
pub fn pipe() -> Pipe {
    pipe_in(domain())
}

/// A new one.
pub fn pipe_in(d: Domain) -> Pipe {
    let mut fds = [0i32; 2];
    // SAFETY: pipe(2) fills two ints.
    assert_eq!(unsafe { libc::pipe(fds.as_mut_ptr()) }, 0);
    let id = file::identity(fds[0] as usize).unwrap();
    assert!(id.fifo);
    let i = registry::claim(d, id.dev, id.ino).unwrap();
    let ch = Channel::at(d, i).unwrap();
    ch.reset(65536);
    registry::publish(d, i, id.ino);
    assert_eq!(registry::find(d, id.dev, id.ino), Some(i));
    Pipe {
        pull: true,
        cpus: process::allowed_cpus(),
        rseq: true,
        d,
        ch,
        r: fds[0] as usize,
        w: fds[1] as usize,
    }
}

/// One direction of a new pair of stream sockets that the core knows.
pub fn sockets() -> Pipe {
    let d = domain();
    let mut fds = [0i32; 2];
    // SAFETY: socketpair(2) fills two ints.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, fds.as_mut_ptr()) };
    assert_eq!(made, 0);
    let [one, other] = fds.map(|fd| file::identity(fd as usize).unwrap());
    assert!(birth::pair_born(d, one, other, 1));
    let i = registry::find(d, one.dev, one.ino).unwrap();
    Pipe {
        pull: true,
        cpus: process::allowed_cpus(),
        rseq: true,
        d,
        ch: Channel::at(d, i).unwrap(),
        r: fds[1] as usize,
        w: fds[0] as usize,
    }
}

impl Pipe {
    pub fn me(&self) -> Caller {
        Caller {
            pull: if self.pull { || true } else { || false },
            cpus: self.cpus,
            rseq: self.rseq,
            ..me(self.d)
        }
    }

    /// write(2), by a thread that has one cursor for all that it writes to, as under the preload library.
    pub fn put(&self, b: &[u8]) -> isize {
        thread_local!(static WROTE: RefCell<WriteCursor> = const { RefCell::new(WriteCursor::NONE) });
        WROTE.with_borrow_mut(|cursor| self.put_by(b, cursor))
    }
    /// The same by an end that has its own.
    pub fn put_by(&self, b: &[u8], cursor: &mut WriteCursor) -> isize {
        let me = self.me();
        let whole = (b.as_ptr() as usize, b.len());
        if let Some(n) = fast_path::write(&me, self.ch, self.w, whole, u64::MAX, cursor) {
            return n;
        }
        let v = [Iov {
            base: b.as_ptr() as usize,
            len: b.len(),
        }];
        let mut p = Progress {
            at: Buffers::new(&v),
            want: b.len(),
            done: 0,
        };
        loop {
            // SAFETY: plain calls on our own fds and buffers.
            unsafe {
                match write::write(&me, self.ch, self.w, &mut p) {
                    Step::Done(n) => return n,
                    Step::Native => {
                        let n = libc::write(
                            self.w as i32,
                            b[p.done..].as_ptr().cast(),
                            b.len() - p.done,
                        );
                        return if n < 0 {
                            if p.done > 0 { p.done as isize } else { n }
                        } else {
                            p.done as isize + n
                        };
                    }
                    Step::NativeCounted => {
                        let n = libc::write(self.w as i32, b.as_ptr().cast(), b.len());
                        write::finish(self.ch, n);
                        return n;
                    }
                    Step::WaitForRoom(_) => unreachable!("that is of sockets"),
                    Step::WaitRestartable => {
                        let bad = Iov { base: 16, len: 1 };
                        let r = libc::syscall(libc::SYS_vmsplice, self.w, &bad, 1, 0);
                        let r = if r < 0 {
                            -(*libc::__errno_location() as isize)
                        } else {
                            r as isize
                        };
                        if let Some(n) = write::woken(&me, self.w, &p, true, r) {
                            return n;
                        }
                    }
                    Step::WaitPartial => {
                        let (r, _) = file::poll1(self.w, file::POLLOUT, -1);
                        if let Some(n) = write::woken(&me, self.w, &p, false, r) {
                            return n;
                        }
                    }
                }
            }
        }
    }
    /// read(2), by a thread that has one end of each pipe.
    pub fn get(&self, b: &mut [u8]) -> isize {
        thread_local!(static READ: RefCell<HashMap<usize, ReadCursor>> = RefCell::default());
        READ.with_borrow_mut(|all| {
            let ch = &raw const *self.ch as usize;
            self.get_by(b, all.entry(ch).or_insert(ReadCursor::NONE))
        })
    }
    /// The same by an end of the caller's.
    pub fn get_by(&self, b: &mut [u8], cursor: &mut ReadCursor) -> isize {
        let me = self.me();
        let whole = (b.as_mut_ptr() as usize, b.len());
        if fast_path::read(&me, self.ch, whole, cursor) {
            return b.len() as isize;
        }
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: b.len(),
        }];
        let mut armed = Armed::NOT;
        match read::read(
            &me,
            self.ch,
            self.r,
            Buffers::new(&v),
            b.len(),
            0,
            &mut armed,
        ) {
            Step::Done(n) => n,
            step => {
                // SAFETY: our own fd and buffer.
                let n = unsafe { libc::read(self.r as i32, b.as_mut_ptr().cast(), b.len()) };
                if step == Step::NativeCounted {
                    read::finish(&me, self.ch, armed, n);
                }
                n
            }
        }
    }
}
