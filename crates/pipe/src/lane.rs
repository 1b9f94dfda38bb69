//! The kernel lane: each call of the kernel on the real pipe, or socket, behind a channel is made here.
//!
//! Invariant: a `Lane` is one descriptor of one channel, for the length of one call. The kernel is asked each time, and
//! nothing is remembered. Only a `Reopened` owns its descriptor.
//! Not here: when the lane is read or written, and what its bytes are (read.rs, write.rs, wake.rs, handback.rs); the
//! side pipes of a hand-back among outsiders (outsider.rs).
use crate::Caller;
use crate::channel::Channel;
use crate::copy::Iov;
use crate::fifo_opens;
use crate::outsider::Side;
use crate::ring::{CLUSTER, RING_CLUSTERS, Ring};
use crate::word::Tail;
use byway_sys::errno::{EAGAIN, EBADF, ENOSYS, EOPNOTSUPP, Ret, failed};
use byway_sys::file::{self, F_GETPIPE_SZ, F_SETPIPE_SZ};
use byway_sys::socket::{self, MSG_DONTWAIT, MSG_NOSIGNAL};
use byway_sys::syscall::{call3, call6, nr};
use core::ops::Deref;
use core::sync::atomic::Ordering::{Relaxed, Release};

/// A channel's kernel lane, by one descriptor of it.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    ch: &'a Channel,
    fd: usize,
}

impl Channel {
    /// Its kernel lane, by `fd`.
    #[inline]
    pub fn lane(&self, fd: usize) -> Lane<'_> {
        Lane { ch: self, fd }
    }
    /// One that counts as asleep, and wants no bytes of its call: it waits by poll(2), or for a set.
    pub(crate) fn waits_asleep(&self) {
        // ORDER: said after the tail, and taken back before that: on doubt a sleeper is in a read.
        self.m.0.waiters.fetch_add(1, Release);
    }
    /// It does no longer, and is about to be taken off the tail. What a tail that counts nobody has forgotten is not there.
    pub(crate) fn has_waited(&self) {
        let less = |n: u8| n.checked_sub(1);
        let _ = self.m.0.waiters.fetch_update(Relaxed, Relaxed, less);
    }
    /// Nobody counts as asleep, or as in a kernel call, any more. What `and` changes of the tail changes with it.
    pub(crate) fn forgets_all(&self, and: impl Fn(Tail) -> Tail) {
        self.m.0.waiters.store(0, Relaxed);
        let mut t = self.tail();
        while let Err(now) = self.cas_tail(t, and(t.nobody())) {
            t = now;
        }
    }
    /// Whether a reader may be inside the kernel that takes what comes into the kernel lane.
    pub fn is_taken_from(&self) -> bool {
        // The tail first: one that leaves in between makes the difference too large at most.
        let sleepers = self.tail().sleepers();
        sleepers > self.m.0.waiters.load(Relaxed).into()
    }
}

/// The calls' flag for "do not wait" (LINUX preadv2(2)).
const RWF_NOWAIT: usize = 8;
/// No offset: the file's own position, which a pipe has not.
const NO_OFFSET: usize = usize::MAX;

impl<'a> Lane<'a> {
    /// Whether the descriptor is still one of this pipe. Another thread may have closed it, and its number may be another
    /// file's by now.
    pub fn is_ours(self) -> bool {
        self.ch.is_behind(self.fd)
    }
    /// The descriptor's number.
    pub fn number(self) -> usize {
        self.fd
    }
    /// Bytes in the pipe; of a socket asked of the end that reads.
    pub fn held(self) -> usize {
        file::fionread(self.fd)
    }
    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        match self.ch.is_socket() && self.is_for_writing() {
            true => socket::unread(self.fd) == 0,
            false => self.held() == 0,
        }
    }
    /// Bytes that the pipe may hold, as the kernel counts them.
    pub fn size(self) -> usize {
        file::fcntl(self.fd, F_GETPIPE_SZ, 0).max(0) as usize
    }
    /// Makes it `size` bytes large. False: the kernel refused.
    pub fn resize(self, size: usize) -> bool {
        !failed(file::fcntl(self.fd, F_SETPIPE_SZ, size))
    }
    /// Makes it as large as the kernel allows, from `most` down to `least`; its size, or 0.
    pub fn resize_within(self, most: usize, least: usize) -> usize {
        file::largest(self.fd, most, least)
    }
    /// Asked of a writing end: whether nobody reads.
    pub fn is_reader_gone(self) -> bool {
        if self.ch.is_tcp() {
            // One that has ended its own direction may read on: the kernel knows.
            return socket::has_ended(self.fd);
        }
        match self.ch.is_socket() {
            true => socket::is_peer_gone(self.fd),
            false => file::reader_gone(self.fd),
        }
    }
    /// Whether the open file description has O_NONBLOCK.
    pub fn is_nonblocking(self) -> bool {
        file::is_nonblocking(self.fd)
    }
    /// Whether it is an end for writing.
    pub fn is_for_writing(self) -> bool {
        self.ch.is_written_by(self.fd)
    }

    /// The same pipe, opened for both directions.
    pub fn reopen(self, me: &Caller) -> Result<Reopened<'a>, Ret> {
        self.reopened(me, || file::reopen(self.fd))
    }
    /// As [`Lane::reopen`], where the caller has a table of its own, and its thread has the descriptor.
    pub fn reopen_of(self, me: &Caller) -> Result<Reopened<'a>, Ret> {
        self.reopened(me, || file::reopen_of(me.tid, self.fd))
    }
    fn reopened(self, me: &Caller, open: impl FnOnce() -> Ret) -> Result<Reopened<'a>, Ret> {
        let begun = fifo_opens::begin(&me.domain);
        let fd = open();
        if let Some(begun) = begun.filter(|_| !failed(fd)) {
            fifo_opens::opened(&me.domain, self.ch, begun);
        }
        if failed(fd) {
            return Err(fd);
        }
        let both = Reopened(self.ch.lane(fd as usize));
        // The number may have become another file's before it was opened.
        if both.is_ours() { Ok(both) } else { Err(EBADF) }
    }

    /// As [`Lane::read_now`], of a socket.
    ///
    /// # Safety
    /// As [`Lane::read_now`].
    pub unsafe fn receive_now(self, v: &[Iov]) -> Ret {
        // SAFETY: the caller's promise.
        unsafe { socket::receive_now(self.fd, v.as_ptr() as usize, v.len()) }
    }
    /// readv(2) of what is there; EAGAIN if that is nothing. The caller holds the readers' side.
    ///
    /// # Safety
    /// The kernel may write to each of `v`, or refuses it.
    pub unsafe fn read_now(self, me: &Caller, v: &[Iov]) -> Ret {
        if self.ch.is_socket() {
            // SAFETY: the caller's promise.
            return unsafe { self.receive_now(v) };
        }
        // SAFETY: the caller's promise.
        match unsafe { self.vectored_now(nr::PREADV2, v) } {
            // LINUX preadv2(2): no FIFO knows how not to wait.
            ENOSYS | EOPNOTSUPP if self.is_empty() => EAGAIN,
            // SAFETY: the caller's promise.
            ENOSYS | EOPNOTSUPP => unsafe { self.read_aside(me, v) },
            got => got,
        }
    }
    /// The same by a pipe of this process: an outsider may take the bytes that were just seen, and whoever waited for more
    /// here would keep the readers' side from all others.
    ///
    /// LINUX splice(2): with SPLICE_F_NONBLOCK it waits for no bytes, whatever the description says.
    ///
    /// # Safety
    /// As [`Lane::read_now`].
    unsafe fn read_aside(self, me: &Caller, v: &[Iov]) -> Ret {
        let takes_all = v.iter().all(|b| (me.access)(b.base, b.len, true));
        if let Some(mut side) = takes_all.then(|| Side::new(self.size())).flatten() {
            side.take(self.fd, v.iter().map(|b| b.len).sum());
            if side.held() > 0 {
                let (at, n) = (v.as_ptr() as usize, v.len());
                // SAFETY: the caller's promise.
                return unsafe { call3(nr::READV, side.outlet(), at, n) };
            }
            if self.is_empty() {
                return EAGAIN;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.vectored(nr::READV, v) }
    }
    /// readv(2): one call takes what there is, under the pipe's own lock.
    ///
    /// # Safety
    /// As [`Lane::read_now`].
    pub unsafe fn read(self, v: &[Iov]) -> Ret {
        // SAFETY: the caller's promise.
        unsafe { self.vectored(nr::READV, v) }
    }
    /// writev(2) into a pipe that was just seen empty; it does not wait where the kernel can promise that.
    ///
    /// # Safety
    /// Each of `v` may be read, or the kernel refuses it.
    pub unsafe fn write_now(self, v: &[Iov]) -> Ret {
        // SAFETY: the caller's promise.
        match unsafe { self.vectored_now(nr::PWRITEV2, v) } {
            // SAFETY: the caller's promise.
            ENOSYS | EOPNOTSUPP => unsafe { self.vectored(nr::WRITEV, v) },
            got => got,
        }
    }
    /// write(2), or writev(2), of what is at `v`; of a socket send(2) with the flags `message`.
    ///
    /// # Safety
    /// As [`Lane::write_now`].
    #[inline]
    pub unsafe fn write(self, v: &[Iov], message: usize) -> Ret {
        match v {
            // SAFETY: the caller's promise.
            v if message != 0 => unsafe {
                socket::send(self.fd, v.as_ptr() as usize, v.len(), message)
            },
            // SAFETY: the caller's promise.
            [v] => unsafe { call3(nr::WRITE, self.fd, v.base, v.len) },
            // SAFETY: the caller's promise.
            v => unsafe { self.vectored(nr::WRITEV, v) },
        }
    }

    /// Reads up to `n` bytes into the ring at `at`, where nothing is yet. Returns how many.
    ///
    /// LINUX pipe_read: one call takes what there is under the pipe's lock. By two, an outsider that has just opened a FIFO
    /// could read between them, and would miss what the first has taken.
    pub fn pull(self, ring: Ring, at: u64, n: usize) -> usize {
        // SAFETY: the places are free and the caller's; the runs lie inside clusters of the ring.
        let read = |v: &[Iov]| unsafe { self.vectored(nr::READV, v) };
        with_runs(ring, at, n, read).map_or(0, |k| k.max(0) as usize)
    }
    /// Writes [r, r + n) of the ring; asks `more` where the pipe does not take it. How many bytes are left.
    pub fn pour(self, ring: Ring, r: u64, n: usize, more: impl FnMut(usize) -> bool) -> usize {
        pour(ring, r, n, self.fd, more)
    }

    /// Sends [r, r + n) of the ring; waits where the socket does not take it. False: the other side has ended, and what
    /// is left is lost with it.
    pub fn send(self, ring: Ring, r: u64, n: usize) -> bool {
        let mut left = n;
        while left > 0 {
            // SAFETY: the runs lie inside clusters of the ring; the bytes are published and held.
            let send = |v: &[Iov]| unsafe {
                let now = MSG_DONTWAIT | MSG_NOSIGNAL;
                socket::send(self.fd, v.as_ptr() as usize, v.len(), now)
            };
            match with_runs(ring, r + (n - left) as u64, left, send) {
                Some(k @ 1..) => left -= k as usize,
                Some(EAGAIN) => {
                    file::poll1(self.fd, file::POLLOUT, 10);
                }
                _ => return false,
            }
        }
        true
    }

    unsafe fn vectored(self, call: usize, v: &[Iov]) -> Ret {
        // SAFETY: as the callers say of `v`; the array itself outlives the call.
        unsafe { call3(call, self.fd, v.as_ptr() as usize, v.len()) }
    }
    unsafe fn vectored_now(self, call: usize, v: &[Iov]) -> Ret {
        let at = v.as_ptr() as usize;
        // SAFETY: as above.
        unsafe { call6(call, self.fd, at, v.len(), NO_OFFSET, NO_OFFSET, RWF_NOWAIT) }
    }
}

/// A description of the pipe for both directions, which lives for microseconds.
///
/// LINUX fifo(7): O_RDWR never blocks, and makes neither EOF nor SIGPIPE.
pub struct Reopened<'a>(Lane<'a>);

impl<'a> Deref for Reopened<'a> {
    type Target = Lane<'a>;
    fn deref(&self) -> &Lane<'a> {
        &self.0
    }
}

impl Drop for Reopened<'_> {
    fn drop(&mut self) {
        file::close(self.0.fd);
    }
}

/// [`Lane::pour`] into any pipe.
pub fn pour(ring: Ring, r: u64, n: usize, fd: usize, mut more: impl FnMut(usize) -> bool) -> usize {
    let mut left = n;
    while left > 0 {
        // SAFETY: the runs lie inside clusters of the ring; the bytes are published and held.
        let write = |v: &[Iov]| unsafe { call3(nr::WRITEV, fd, v.as_ptr() as usize, v.len()) };
        let Some(k) = with_runs(ring, r + (n - left) as u64, left, write) else {
            // No cluster where bytes should be: a state that none of us writes.
            break;
        };
        if k > 0 {
            left -= k as usize;
        } else if !more(left) {
            break;
        }
    }
    left
}

/// Makes one kernel call with the runs of [at, at + n); None if there are none. Most rings are small, and so may the
/// stack be: a handler's own.
fn with_runs(ring: Ring, at: u64, n: usize, mut call: impl FnMut(&[Iov]) -> Ret) -> Option<Ret> {
    const FEW: usize = 16;
    if n <= FEW * CLUSTER {
        runs_of::<{ FEW + 2 }>(ring, at, n, &mut call)
    } else {
        runs_of::<{ RING_CLUSTERS + 1 }>(ring, at, n, &mut call)
    }
}

#[inline(never)]
fn runs_of<const N: usize>(
    ring: Ring,
    at: u64,
    n: usize,
    call: &mut dyn FnMut(&[Iov]) -> Ret,
) -> Option<Ret> {
    let mut v = [Iov { base: 0, len: 0 }; N];
    let c = runs(ring, at, n, &mut v);
    (c > 0).then(|| call(&v[..c]))
}

/// The runs of [at, at + n), for one kernel call; how many.
pub fn runs(ring: Ring, mut at: u64, n: usize, v: &mut [Iov]) -> usize {
    let (mut left, mut c) = (n, 0);
    while left > 0 && c < v.len() {
        let (p, wrap) = ring.run(at);
        let k = wrap.min(left);
        if k == 0 {
            break;
        }
        v[c] = Iov {
            base: p as usize,
            len: k,
        };
        (c, left, at) = (c + 1, left - k, at + k as u64);
    }
    c
}
