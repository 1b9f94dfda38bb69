//! `byway-core`: the pipe core called directly, over a pipe and a domain of its own, without the preload library.
//!
//! Invariant: it makes the calls of the kernel that the core asks for, as the preload library's entry does; so what is
//! measured is the same pipe without the way into it.
//! Not here: descriptors that somebody else uses too, signals, buffers at bad addresses.
use crate::domain;
use byway_mem::domain::Domain;
use byway_mem::layout::SLABS;
use byway_pipe::channel::Channel;
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::{ReadCursor, WriteCursor};
use byway_pipe::read::Armed;
use byway_pipe::write::Progress;
use byway_pipe::{Caller, Step, birth, fast_path, pass_through, read, wait, write};
use byway_sys::errno::Ret;
use byway_sys::syscall::{call3, call6, nr};
use byway_sys::{barrier, file, process};
use native::timer;
use std::cell::Cell;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// A pipe that the core knows; processes that are forked after it was made share it.
#[derive(Clone, Copy)]
pub struct Pipe {
    domain: Domain,
    channel: &'static Channel,
    r: usize,
    w: usize,
    /// What each process takes for the number of its CPUs.
    cpus: u32,
}

impl Pipe {
    /// Over the descriptors of a pipe that nobody has used yet, for processes that run on so many CPUs.
    ///
    /// # Errors
    /// No room for a domain, or in it.
    pub fn over(r: i32, w: i32, cpus: usize) -> io::Result<Pipe> {
        let (domain, _) = domain::anonymous(SLABS)?;
        if cpus > 1 {
            timer::begin(domain.header().cycles_per_us.load(Relaxed));
        }
        let found = file::identity(r as usize).and_then(|id| {
            birth::born(domain, id, r as usize, process::getpid(), |_| {}).map(|(_, ch)| ch)
        });
        Ok(Pipe {
            domain,
            channel: found.ok_or_else(|| io::Error::other("a new domain has no slot"))?,
            r: r as usize,
            w: w as usize,
            cpus: cpus as u32,
        })
    }

    fn me(&self) -> Caller {
        Caller {
            spin: true,
            lend: true,
            has_barriers: barrier::register(),
            resign: true,
            pull: || true,
            heard: || false,
            ..Caller::of(self.domain, process::gettid(), self.cpus)
        }
    }

    pub fn writer(&self) -> End {
        End {
            me: self.me(),
            wrote: Cell::new(WriteCursor::NONE),
            was_read: Cell::new(ReadCursor::NONE),
            shortcut: Cell::new(pass_through::Shortcut::NONE),
            pipe: *self,
        }
    }
    pub fn reader(&self) -> End {
        self.writer()
    }
}

/// An end of a pipe in the hands of the thread that asked for it.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct End {
    /// Of its last pass-through call. What such a call needs comes first: after a sleep each line is one more to wait
    /// for.
    shortcut: Cell<pass_through::Shortcut>,
    pipe: Pipe,
    me: Caller,
    /// Of what it wrote, and read, last.
    wrote: Cell<WriteCursor>,
    was_read: Cell<ReadCursor>,
}

/// What the core, or the kernel itself, says of a call.
fn said(r: isize) -> io::Result<usize> {
    usize::try_from(r).map_err(|_| io::Error::from_raw_os_error(-r as i32))
}

impl End {
    /// write(2).
    #[inline]
    pub fn write(&self, b: &[u8]) -> io::Result<usize> {
        let (ch, fd) = (self.pipe.channel, self.pipe.w);
        let whole = (b.as_ptr() as usize, b.len());
        // SAFETY: an end is one thread's, and nothing below comes back here.
        let (cursor, shortcut) =
            unsafe { (&mut *self.wrote.as_ptr(), &mut *self.shortcut.as_ptr()) };
        if let Some(inside) = pass_through::write_again(self.me.tid, b.len(), shortcut) {
            return self.write_asleep(inside, fd, whole);
        }
        if let Some(n) = fast_path::write(&self.me, ch, fd, whole, u64::MAX, cursor) {
            return said(n);
        }
        self.write_on(b, shortcut)
    }

    #[inline(never)]
    fn write_on(&self, b: &[u8], shortcut: &mut pass_through::Shortcut) -> io::Result<usize> {
        let (ch, fd) = (self.pipe.channel, self.pipe.w);
        if let Some(inside) = pass_through::write(&self.me, ch, b.len(), shortcut) {
            return self.write_asleep(inside, fd, (b.as_ptr() as usize, b.len()));
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
            match write::write(&self.me, ch, fd, &mut p) {
                Step::Done(n) => return said(n),
                step => {
                    if let Some(n) = self.native(step, b, &p)? {
                        return Ok(n);
                    }
                }
            }
        }
    }

    /// The call of the kernel that a write asked for; `None`: ask the core again.
    #[cold]
    fn native(&self, step: Step, b: &[u8], p: &Progress) -> io::Result<Option<usize>> {
        let (fd, rest) = (self.pipe.w, &b[p.done..]);
        match step {
            Step::Native | Step::NativeCounted => {
                // SAFETY: a buffer of ours.
                let n = unsafe { call3(nr::WRITE, fd, rest.as_ptr() as usize, rest.len()) };
                let done = said(n);
                if step == Step::NativeCounted {
                    write::finish(self.pipe.channel, n);
                }
                Ok(Some(p.done + done?))
            }
            Step::WaitRestartable => {
                let bad = Iov { base: 16, len: 1 };
                // SAFETY: an address at which nothing is: the call waits for room, then fails.
                let r = unsafe { call6(nr::VMSPLICE, fd, &raw const bad as usize, 1, 0, 0, 0) };
                write::woken(&self.me, fd, p, true, r).map(said).transpose()
            }
            _ => {
                let (r, _) = file::poll1(fd, file::POLLOUT, -1);
                write::woken(&self.me, fd, p, false, r)
                    .map(said)
                    .transpose()
            }
        }
    }

    /// read(2).
    #[inline]
    pub fn read(&self, b: &mut [u8]) -> io::Result<usize> {
        let whole = (b.as_mut_ptr() as usize, b.len());
        // SAFETY: as of a write.
        let (cursor, shortcut) =
            unsafe { (&mut *self.was_read.as_ptr(), &mut *self.shortcut.as_ptr()) };
        if let Some(_inside) = pass_through::read_again(self.me.tid, shortcut) {
            timer::pend();
            return said(Self::call(nr::READ, self.pipe.r, whole));
        }
        if fast_path::read(&self.me, self.pipe.channel, whole, cursor) {
            return Ok(b.len());
        }
        self.read_on(b, shortcut)
    }

    /// The kernel's own read(2) or write(2), of so many bytes at an address.
    #[inline]
    fn call(call: usize, fd: usize, (at, n): (usize, usize)) -> Ret {
        // SAFETY: a buffer of ours.
        unsafe { call3(call, fd, at, n) }
    }

    /// A write that is the kernel's, by one who said so.
    #[inline]
    fn write_asleep(
        &self,
        inside: pass_through::Inside,
        fd: usize,
        whole: (usize, usize),
    ) -> io::Result<usize> {
        let n = Self::call(nr::WRITE, fd, whole);
        inside.wrote(n);
        said(n)
    }

    #[inline(never)]
    fn read_on(&self, b: &mut [u8], shortcut: &mut pass_through::Shortcut) -> io::Result<usize> {
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: b.len(),
        }];
        let (ch, fd) = (self.pipe.channel, self.pipe.r);
        if let Some(_inside) = pass_through::read(&self.me, ch, shortcut) {
            timer::pend();
            return said(Self::call(nr::READ, fd, (v[0].base, v[0].len)));
        }
        let mut armed = Armed::NOT;
        let step = read::read(&self.me, ch, fd, Buffers::new(&v), b.len(), 0, &mut armed);
        let Step::Done(n) = step else {
            return self.asleep(step, armed, b);
        };
        said(n)
    }

    /// The sleep that a read asked for; what follows its bytes in the ring is read with them, as the library does.
    #[cold]
    fn asleep(&self, step: Step, armed: Armed, b: &mut [u8]) -> io::Result<usize> {
        let (me, ch, fd) = (&self.me, self.pipe.channel, self.pipe.r);
        timer::pend();
        // SAFETY: a buffer of ours.
        let n = unsafe { call3(nr::READ, fd, b.as_mut_ptr() as usize, b.len()) };
        let done = said(n);
        if step == Step::NativeCounted {
            read::finish(me, ch, armed, n);
        }
        let done = done?;
        if done == 0 || done == b.len() || ch.tail().closed() {
            return Ok(done);
        }
        let was = ch.tail().position();
        wait::let_publish(me, ch, done, was);
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: b.len(),
        }];
        let mut at = Buffers::new(&v);
        at.advance(done);
        let mut armed = Armed::NOT;
        match read::read(me, ch, fd, at, b.len(), done, &mut armed) {
            Step::Done(n) => said(n),
            _ => Ok(done),
        }
    }
}
