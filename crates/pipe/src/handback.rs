//! Opening a channel, and giving it back to the kernel: the only places that move bytes between the kernel lane and the
//! ring.
//!
//! Invariant: at every instant each byte is in the ring or in the kernel lane, in stream order, or an intent says which
//! of the two holds (a kernel read or write of all of it is one system call, so a SIGKILL falls before or after it).
//! Not here: when to hand back; that is the dispatcher's decision.
//!
//! Both directions use a short-lived O_RDWR reopening of the pipe, so the holder of either end can do them, and
//! neither EOF nor SIGPIPE is made on the way.
use crate::Caller;
use crate::channel::{Channel, Reason};
use crate::copy::Iov;
use crate::fifo::{more_room, weave};
use crate::ring::{CLUSTER, RING_CLUSTERS, Ring, SLACK, SMALLEST};
use crate::word::{Head, Tail};
use crate::{clusters, lock, pass_through, policy, spiller};
use byway_sys::errno::{EBADF, EMFILE, Ret, failed};
use byway_sys::syscall::{call3, nr};
use byway_sys::{file, table};
use core::sync::atomic::Ordering::Relaxed;

/// What was about to be moved: kind, and how many bytes the kernel lane held; of `MOVING`, how many go into it.
const OPENING: u64 = 1 << 60;
const PUMPING: u64 = 2 << 60;
const SPILLING: u64 = 3 << 60;
pub(crate) const MOVING: u64 = 4 << 60;
const KIND: u64 = 7 << 60;
/// `shrunk`: the kernel lane has one slot; the kernel lane has `FIFO_SIZE`.
pub(crate) const ONE_SLOT: u8 = 1;
const MARKED: u8 = 2;

pub(crate) fn intend(ch: &Channel, kind: u64, held: usize) {
    ch.facts.0.intent.store(kind | held as u64, Relaxed);
}

/// Reads up to `n` bytes of the kernel lane into the ring at `at`. Returns how many.
///
/// LINUX pipe_read: one call takes what there is under the pipe's lock. By two, an outsider that has just opened a FIFO
/// could read between them, and would miss what the first has taken.
fn pull(tmp: usize, ring: Ring, at: u64, n: usize) -> usize {
    // SAFETY: the places are free and ours; the runs lie inside clusters of the ring.
    let read = |v: &[Iov]| unsafe { call3(nr::READV, tmp, v.as_ptr() as usize, v.len()) };
    with_runs(ring, at, n, read).map_or(0, |k| k.max(0) as usize)
}

/// Opens a closed channel if every holder takes part and nobody is in a native write. Called by a writer.
pub fn open(me: &Caller, ch: &Channel, fd: usize) -> bool {
    use byway_mem::layout::flags::NO_CARRY;
    let t = ch.tail();
    if ch.forever()
        || !t.closed()
        || t.kernel_writers() > 0
        || t.sleepers() > 1
        || t.lock_owner() != 0
        || me.domain.header().flags.load(Relaxed) & NO_CARRY != 0
    {
        return false;
    }
    if t.passes_through() {
        // From now on calls are counted; who is in one that is not will soon have left it.
        let _ = ch.cas_tail(t, t.without(Tail::PASS_THROUGH));
        policy::ask_soon(&ch.writer);
        return false;
    }
    // Who was told that it is full finds it full, until somebody has read.
    if ch.facts.0.pending.load(Relaxed) != 0
        || ch.facts.0.full.load(Relaxed) != 0
        || !ch.holders_known(&me.domain, fd)
        || (ch.rules().readers_return && ch.lane(fd).is_reader_gone())
    {
        return false;
    }
    let Some(_taken) = lock::try_take(me, ch, t) else {
        return false;
    };
    let ok = opened(me, ch, fd);
    if !ok {
        lock::unlock(me, ch);
    }
    ok
}

fn opened(me: &Caller, ch: &Channel, fd: usize) -> bool {
    // Looked at under the lock: an exec raises `pending` before it hands back, which needs this lock.
    if ch.facts.0.pending.load(Relaxed) != 0 || ch.forever() || !ch.holders_known(&me.domain, fd) {
        return false;
    }
    if pass_through::is_somebody_inside(me, ch) {
        policy::ask_later(&ch.writer);
        return false;
    }
    // A reader inside the kernel with bytes there is on its way out, and no new one enters while we hold the lock.
    let mut p = lock::Patience::new();
    while ch.tail().sleepers() > 0 && file::fionread(fd) != 0 {
        if p.turns() > 100 {
            return false;
        }
        p.wait(me.cpus);
    }
    if !ch.is_behind(fd) {
        return false;
    }
    let Ok(tmp) = reopened(ch, file::reopen(fd)) else {
        ch.keep_closed();
        ch.facts.0.why.store(Reason::Control as u8, Relaxed);
        return false;
    };
    let held = file::fionread(tmp);
    let t = ch.tail();
    let r = ch.head().position();
    // What lies in the ring must always fit into the kernel lane (principle: a hand-back never blocks).
    let size = ch.facts.0.size.load(Relaxed) as usize;
    clusters::release(me.domain, ch);
    let asked = policy::ring_bytes(me);
    let wanted = clusters::affordable(me.domain, asked);
    // One that holds less than the pipe is full too soon; and given back full would leave a pipe that is not.
    let least = asked.min(size + SLACK as usize);
    if wanted < least {
        file::close(tmp);
        no_memory(ch);
        return false;
    }
    let most = file::largest(tmp, 2 * wanted, 2 * SMALLEST) / 2;
    file::fcntl(tmp, file::F_SETPIPE_SZ, size);
    if most < least {
        file::close(tmp);
        no_memory(ch);
        if most == 0 {
            ch.keep_closed();
        }
        return false;
    }
    if held > most / 2 || (held > 0 && t.sleepers() > 0) {
        file::close(tmp);
        return false;
    }
    let shaped = clusters::shape(me, ch, most);
    let (true, Some(ring)) = (shaped, ch.ring(&me.domain)) else {
        file::close(tmp);
        no_memory(ch);
        return false;
    };
    if clusters::back(me, ch, ring, r, held.max(1)) < held.max(1) {
        file::close(tmp);
        no_memory(ch);
        return false;
    }
    clusters::promise(me.domain, ch, most);
    intend(ch, OPENING, held);
    let got = pull(tmp, ring, r, held);
    if let Some(size) = ch.rules().open_size {
        ch.facts.0.shrunk.store(MARKED, Relaxed);
        ch.lane(tmp).resize(size);
    }
    file::close(tmp);
    // Told apart from what a sleeper of an earlier opening, still on its way home, would take for its own wake-up.
    ch.set_chunk(ch.chunk().next(0).none());
    let mut t = ch.tail();
    loop {
        let open = t
            .with_position((r as u32).wrapping_add(got as u32))
            .with_lock(0)
            .without(Tail::CLOSED | Tail::WOKEN);
        match ch.move_tail(t, open) {
            Ok(()) => break,
            Err(now) => t = now,
        }
    }
    intend(ch, 0, 0);
    ch.writer.0.forget_native();
    true
}

/// There is none for a ring now: the kernel's, until the traffic has shown again that a ring is worth asking for.
fn no_memory(ch: &Channel) {
    ch.facts.0.why.store(Reason::Memory as u8, Relaxed);
    ch.writer.0.forget_native();
}

/// Takes the kernel's chunk behind the ring's bytes, so that a writer asleep on a full ring wakes at half.
pub fn pump(me: &Caller, ch: &Channel, fd: usize) {
    let t = ch.tail();
    if t.lock_owner() != 0 || t.sleepers() != 0 || t.closed() {
        return;
    }
    let Some(_taken) = lock::try_take(me, ch, t) else {
        return;
    };
    let r = ch.head().position();
    if lock::try_hold(me, ch, r, Head::READS_LANE) {
        pump_locked(ch, fd, r, me);
        lock::release(me, ch, r);
    }
    lock::unlock(me, ch);
}

/// As [`pump`], by a writer that may not sleep and holds the writers' lock: true if the kernel lane was empty or is
/// now.
pub fn pull_up(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    if ch.tail().sleepers() != 0 || !lock::try_hold(me, ch, r, Head::READS_LANE) {
        return false;
    }
    let tmp = reopened(ch, file::reopen(fd));
    let done = tmp.is_ok_and(|tmp| pump_locked(ch, tmp, r, me));
    let _ = tmp.map(file::close);
    lock::release(me, ch, r);
    done
}

/// Under both locks. True when the kernel lane is empty afterwards.
fn pump_locked(ch: &Channel, fd: usize, r: u64, me: &Caller) -> bool {
    let (t, m) = (ch.tail(), ch.chunk());
    let pos = t.wide(r);
    let Some(ring) = ch.ring(&me.domain) else {
        return false;
    };
    if !m.valid() {
        return true;
    }
    if m.position(r) != pos || pos - r > ring.bytes() - SLACK {
        return false;
    }
    let held = file::fionread(fd);
    if held > 4096 || clusters::back(me, ch, ring, pos, 1) == 0 {
        return false;
    }
    intend(ch, PUMPING, held);
    let got = pull(fd, ring, pos, held);
    ch.clear_chunk(m);
    let _ = ch.move_tail(t, t.with_position(t.position().wrapping_add(got as u32)));
    intend(ch, 0, 0);
    true
}

/// What a reopening gave, if that is the channel's pipe.
fn reopened(ch: &Channel, tmp: Ret) -> Result<usize, Ret> {
    if failed(tmp) {
        return Err(tmp);
    }
    let tmp = tmp as usize;
    if !ch.is_behind(tmp) {
        file::close(tmp);
        return Err(EBADF);
    }
    Ok(tmp)
}

/// Closes the ring: every byte of it into the kernel lane, in order. `forever`: never opened again.
///
/// False: `fd` is not the pipe's any more, another thread has closed it; then nothing was moved, and the caller's own
/// call finds out what the number is now.
pub fn hand_back(me: &Caller, ch: &Channel, fd: usize, forever: bool, why: Reason) -> bool {
    if forever {
        ch.keep_closed();
        if ch.facts.0.why.load(Relaxed) == 0 {
            ch.facts.0.why.store(why as u8, Relaxed);
        }
    }
    // An opening in progress holds the lock while the channel is still closed: wait for it. Not for a spiller.
    let is_done = |t: Tail| t.closed() && (t.lock_owner() == 0 || t.spiller() != 0);
    let Some(_taken) = lock::take(me, ch, fd, is_done) else {
        return true;
    };
    if ch.tail().closed() {
        lock::unlock(me, ch);
        return true;
    }
    if why == Reason::SecondReader {
        policy::open_later(ch, why);
    }
    let r = lock::hold(me, ch, Head::SPILLS);
    let done = spill(me, ch, fd, r);
    if !done {
        lock::release(me, ch, r);
        lock::unlock(me, ch);
    }
    done
}

/// Under the writers' lock and with the readers held at `r`: spills, closes, lets both go, or gives both to a spiller.
/// False: nothing of that, for `fd` is not the pipe's any more.
fn spill(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    let empty = ch.tail().wide(r) == r && !ch.chunk().valid();
    while ch.is_behind(fd) {
        // Nothing to move: no reopening. For a moment it would be the writer, or the reader, for whom somebody waits in
        // open(2).
        let tmp = if empty {
            Err(0)
        } else {
            reopened(ch, file::reopen(fd))
        };
        if tmp.is_ok() || empty || file::is_writable(fd) {
            spill_by(me, ch, fd, tmp.ok(), r);
            return true;
        }
        if tmp == Err(EMFILE) && spill_elsewhere(me, ch, fd, r) {
            return true;
        }
        // The system has no more files, or the like: it will.
        byway_sys::process::nap(1000);
    }
    false
}

/// [`spill`] of a reader whose process has no descriptor left: in a table of its own one is made free.
fn spill_elsewhere(me: &Caller, ch: &Channel, fd: usize, r: u64) -> bool {
    let mut done = false;
    let me = Caller { rseq: false, ..*me };
    table::with_own(|| {
        file::close(fd);
        if let Ok(tmp) = reopened(ch, file::reopen_of(me.tid, fd)) {
            spill_by(&me, ch, tmp, Some(tmp), r);
            done = true;
        }
    });
    done
}

/// By `tmp`, which is closed then, or by `fd`.
fn spill_by(me: &Caller, ch: &Channel, fd: usize, tmp: Option<usize>, r: u64) {
    let tmp_fd = tmp.unwrap_or(fd);
    let size = ch.facts.0.size.load(Relaxed) as usize;
    if ch.chunk().valid() && ch.chunk().position(r) > r {
        pump_locked(ch, tmp_fd, r, me);
    }
    let pos = ch.tail().wide(r);
    let n = (pos - r) as usize;
    let ring = ch.ring(&me.domain).filter(|x| pos - r <= x.bytes());
    let own = if ch.chunk().valid() && ch.chunk().position(r) == r {
        ch.facts.0.lane.load(Relaxed) as usize
    } else {
        0
    };
    let held = file::fionread(tmp_fd);
    let grown = n + held > size;
    let outsider = n > 0 && ch.rules().outsiders && held > own;
    if let (true, Some(ring)) = (n > 0, ring) {
        let room = (n + held + 8192).next_power_of_two().max(size);
        intend(ch, SPILLING, held);
        if !outsider || !weave(me, ch, tmp_fd, ring, r, n, own) {
            let now = file::fcntl(tmp_fd, file::F_GETPIPE_SZ, 0).max(0) as usize;
            file::largest(tmp_fd, room, now + 1);
            let left = pour(ring, r, n, tmp_fd, |_| false);
            let at = pos - left as u64;
            if left > 0
                && let Some(tmp) = tmp
                && spiller::make(me, ch, tmp, at, pos)
            {
                file::close(tmp);
                return;
            }
            pour(ring, at, left, tmp_fd, |left| {
                more_room(me, ch, tmp_fd, left)
            });
        }
        // No larger than it must be: a full ring is a full pipe afterwards.
        file::fcntl(tmp_fd, file::F_SETPIPE_SZ, (n + held).max(size));
    } else if ch.facts.0.shrunk.load(Relaxed) != 0 {
        file::fcntl(tmp_fd, file::F_SETPIPE_SZ, size);
    }
    ch.facts.0.shrunk.store(0, Relaxed);
    if let Some(tmp) = tmp {
        file::close(tmp);
    }
    if !grown {
        clusters::release(me.domain, ch);
    }
    closed(me, ch, pos);
}

/// Writes [r, r + n) of the ring into the pipe `fd`; asks `more` where it does not take it. How many bytes are left.
pub(crate) fn pour(
    ring: Ring,
    r: u64,
    n: usize,
    fd: usize,
    mut more: impl FnMut(usize) -> bool,
) -> usize {
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
pub(crate) fn runs(ring: Ring, mut at: u64, n: usize, v: &mut [Iov]) -> usize {
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

/// The commit of a hand-back: ring empty at `pos`, closed, both sides free, the clusters given back.
pub(crate) fn closed(me: &Caller, ch: &Channel, pos: u64) {
    let h = ch.head();
    ch.cas_head(h, Head::owned(pos, me.tid, Head::SPILLS));
    ch.set_chunk(ch.chunk().none());
    clusters::give(&clusters::user(me), ch);
    let mut t = ch.tail();
    loop {
        match ch.cas_tail(
            t,
            t.with_lock(me.tid).with(Tail::CLOSED).without(Tail::WOKEN),
        ) {
            Ok(()) => break,
            Err(now) => t = now,
        }
    }
    lock::release(me, ch, pos);
    intend(ch, 0, 0);
    ch.writer.0.forget_native();
    lock::unlock(me, ch);
}

/// After a dead owner: called with the writers' lock just taken over, which may be free, or a spiller's, when it returns.
pub fn repair(me: &Caller, ch: &Channel, fd: usize) {
    let intent = ch.facts.0.intent.load(Relaxed);
    let held = (intent & !KIND) as usize;
    if intent & KIND == 0 {
        return;
    }
    let r = lock::hold(me, ch, Head::SPILLS);
    let now = file::fionread(fd);
    let spilled = match intent & KIND {
        OPENING | PUMPING => {
            let t = ch.tail();
            let pos = if t.closed() { r } else { t.wide(r) };
            let moved = held.saturating_sub(now);
            let tmp = reopened(ch, file::reopen(fd));
            if let Some(ring) = ch.ring(&me.domain) {
                let from = tmp.unwrap_or(fd);
                let got = moved + pull(from, ring, pos + moved as u64, held - moved);
                let _ = ch.move_tail(t, t.with_position((pos as u32).wrapping_add(got as u32)));
            }
            let _ = tmp.map(file::close);
            ch.set_chunk(ch.chunk().none());
            intend(ch, 0, 0);
            spill(me, ch, fd, r)
        }
        MOVING if !ch.tail().closed() => {
            // One call: all of them, or none. `held` is how many.
            let r = if now < held { r } else { r + held as u64 };
            ch.set_chunk(if now < held {
                ch.chunk().none()
            } else {
                ch.chunk().next(r)
            });
            intend(ch, 0, 0);
            spill(me, ch, fd, r)
        }
        // What a spiller has not written goes with it.
        _ if ch.tail().closed() => {
            closed(me, ch, ch.tail().wide(r));
            true
        }
        _ => {
            let pos = ch.tail().wide(r);
            // Nobody has read since, but for an outsider: whatever is there of a FIFO's ring, all counts as moved.
            let moved = match now.saturating_sub(held) as u64 {
                1.. if ch.is_fifo() => pos - r,
                k => k.min(pos - r),
            };
            if moved > 0 && r + moved == pos {
                closed(me, ch, pos);
                true
            } else {
                if moved > 0 {
                    let h = ch.head();
                    ch.cas_head(h, Head::owned(r + moved, me.tid, Head::SPILLS));
                    ch.set_chunk(ch.chunk().next(r + moved));
                    intend(ch, SPILLING, now);
                }
                spill(me, ch, fd, r + moved)
            }
        }
    };
    if !spilled {
        lock::release(me, ch, ch.head().position());
    }
}

/// The readers' side has a dead owner: whoever reads settles it.
pub fn settle(me: &Caller, ch: &Channel, fd: usize) {
    if ch.tail().spiller() != 0 {
        return;
    }
    if ch.tail().closed() {
        let _held = me.hold_signals();
        let r = lock::hold(me, ch, Head::SPILLS);
        lock::release(me, ch, r);
        return;
    }
    if let Some(_taken) = lock::take(me, ch, fd, Tail::closed) {
        let r = lock::hold(me, ch, Head::SPILLS);
        lock::release(me, ch, r);
        lock::unlock(me, ch);
    }
}
