//! splice(2) from one carried pipe into another: what is taken from the one lies in the other's ring at once.
//!
//! ```text
//! writers' lock of the target --> room, with its memory --> a read of the source into it --> publish
//!                             --> its reader sleeps, or the ring is full: a read into memory aside, and a write
//! ```
//! Invariant: nothing is taken but what there is room for, and that room is this thread's by the lock: so what was taken is
//! published before anything else happens, without a wait.
//! Not here: the waits (preload library, splice.rs).
use crate::channel::{Channel, PIPE_BUF};
use crate::copy::{Buffers, Iov};
use crate::lane::runs;
use crate::policy::{self, Lines};
use crate::read::{self, Armed};
use crate::reason::Reason;
use crate::ring::Ring;
use crate::wait::{self, Came};
use crate::word::Tail;
use crate::write::{self, Progress, publish};
use crate::{Caller, Step, clusters, handback, liveness, lock};
use byway_sys::errno::{EAGAIN, Ret};
use byway_sys::process;
use core::sync::atomic::Ordering::Relaxed;

/// What one try came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// So many bytes have changed pipes.
    Bytes(usize),
    /// The source has none, and has not ended as far as is known.
    Nothing,
    /// The target has less room than a page.
    NoRoom,
    /// The call is to say this.
    Failed(Ret),
    /// It is for the kernel to do.
    Kernels,
}

/// A channel, and the descriptor by which the caller names it.
pub type End<'a> = (&'a Channel, usize);

/// Bytes of the source, up to `want`, to the target, as many as there are and as there is room for. `aside`: memory of the
/// calling thread.
pub fn transfer(me: &Caller, from: End, (to, outlet): End, want: usize, aside: Iov) -> Moved {
    if is_empty(from.0) {
        return Moved::Nothing;
    }
    if liveness::look_again(me, to) && to.lane(outlet).is_reader_gone() {
        // As of a write.
        handback::hand_back(me, to, outlet, true, Reason::ReaderGone);
        return Moved::Kernels;
    }
    let Some(_taken) = lock::take(me, to, outlet, Tail::closed) else {
        return Moved::Kernels;
    };
    let me = &Caller {
        // Nobody waits with the lock, and signals are held off.
        spin: false,
        lend: false,
        handlers: false,
        access: |_, _, _| true,
        ..*me
    };
    let moved = moves(me, from, (to, outlet), want, aside);
    lock::unlock(me, to);
    moved
}

fn moves(me: &Caller, from: End, (to, outlet): End, want: usize, aside: Iov) -> Moved {
    let (t, m) = (to.tail(), to.chunk());
    let Some(ring) = to.ring(&me.domain).filter(|_| !t.closed()) else {
        return Moved::Kernels;
    };
    let r = to.head().position();
    to.writer.0.seen.store(r, Relaxed);
    let pos = t.wide(r);
    let used = pos - r;
    let room = ring.room().saturating_sub(used) as usize;
    let full = room < PIPE_BUF;
    // Short writes have filled one that is to take no more than it was told.
    if used > ring.bytes() || full && ring.is_over(used, PIPE_BUF) {
        return Moved::Kernels;
    }
    if m.valid() && (full || r < m.position(r)) {
        // A reader that was woken, and is not home, is to find this place (`read::has_slept`).
        let drained = r >= m.position(r) && t.sleepers() == 0 && to.lane(outlet).is_empty();
        let cleared = drained && write::clear_drained(me, to, outlet, r, m) && to.chunk() != m;
        return match cleared {
            true => moves(me, from, (to, outlet), want, aside),
            false => Moved::NoRoom,
        };
    }
    let asleep = t.sleepers() > 0 && !t.woken();
    if asleep && to.lane(outlet).is_reader_gone() {
        return Moved::Kernels;
    }
    // Of a full ring the empty kernel lane has room for a page.
    let k = want.min(room.max(PIPE_BUF)).min(aside.len);
    let is_aside = asleep || full;
    if !is_aside && clusters::back(me, to, ring, pos, k) < k {
        return Moved::Kernels;
    }
    let mut v = [Iov { base: 0, len: 0 }; RUNS];
    let c = match is_aside {
        true => {
            v[0] = Iov { len: k, ..aside };
            1
        }
        false => runs(ring, pos, k, &mut v),
    };
    // Of a ring that a peer has damaged fewer.
    let k = v[..c].iter().map(|v| v.len).sum();
    if k == 0 {
        return Moved::Kernels;
    }
    let n = match take(me, from, &v[..c], k) {
        Moved::Bytes(n) => n,
        other => return other,
    };
    if !is_aside {
        let idle = t.sleepers() == 0 && !m.valid();
        let then = if idle { t.without(Tail::WOKEN) } else { t };
        if publish(to, t, then.with_lock(0), n, false) {
            policy::on_flow(me, to, n);
            return Moved::Bytes(n);
        }
        // A reader has fallen asleep meanwhile.
        copy(ring, pos, n, aside);
    }
    writes(me, (to, outlet), Iov { len: n, ..aside })
}

/// Takes up to `k` bytes of the source into `v`, without a wait.
pub fn take(me: &Caller, (from, inlet): End, v: &[Iov], k: usize) -> Moved {
    let me = &Caller {
        spin: false,
        // The ring's memory, or the caller's own.
        access: |_, _, _| true,
        ..*me
    };
    let (mut armed, turns) = (Armed::NOT, lock::Patience::LONG);
    match read::read_or(me, from, inlet, Buffers::new(v), k, &mut armed, turns) {
        Step::Done(n @ 1..) => Moved::Bytes(n as usize),
        // A reader was stopped in the midst of a read: to be waited for without a lock.
        Step::Done(EAGAIN) => Moved::Nothing,
        Step::Done(said) => Moved::Failed(said),
        Step::NativeCounted => {
            // Another reader has had the bytes. A wait arms anew.
            read::awake(from, armed);
            Moved::Nothing
        }
        _ => Moved::Kernels,
    }
}

/// The most runs of a ring that a copy's worth lies in.
const RUNS: usize = 4;

/// `n` bytes of the ring from `pos` on to memory aside.
fn copy(ring: Ring, pos: u64, n: usize, aside: Iov) {
    // SAFETY: the caller's own memory, and long enough; the bytes were put there a moment ago, under the lock.
    unsafe { Buffers::new(&[aside]).from_ring(ring, pos, n, Lines::Copied, n) }
}

/// All of what was taken, by a write that finds room, or makes a reader's sleep end.
fn writes(me: &Caller, (to, outlet): End, taken: Iov) -> Moved {
    let v = [taken];
    let mut w = Progress {
        at: Buffers::new(&v),
        want: taken.len,
        done: 0,
    };
    loop {
        let step = write::write_now(me, to, outlet, &mut w);
        match step {
            Step::Done(EAGAIN) | Step::WaitRestartable | Step::WaitPartial => {
                // Another writer was quicker, while the lock was free.
                process::nap(50);
                continue;
            }
            Step::Done(said @ ..0) => return Moved::Failed(said),
            Step::Done(_) if w.done < w.want => continue,
            Step::Done(n) => return Moved::Bytes(n as usize),
            _ => {}
        }
        // Handed back meanwhile, or nobody reads any more.
        let (base, len) = w.at.run();
        // SAFETY: the caller's own memory.
        let said = unsafe { to.lane(outlet).write(&[Iov { base, len }], 0) };
        if step == Step::NativeCounted {
            write::finish(to, said);
        }
        match said {
            EAGAIN => process::nap(50),
            said @ ..0 if w.done == 0 => return Moved::Failed(said),
            ..0 => return Moved::Bytes(w.done),
            n => {
                w.at.advance(n as usize);
                w.done += n as usize;
            }
        }
        if w.done == w.want {
            return Moved::Bytes(w.done);
        }
    }
}

/// Whether the source's ring is open and has nothing, and nothing is in its kernel lane.
fn is_empty(from: &Channel) -> bool {
    let (h, t, m) = (from.head(), from.tail(), from.chunk());
    !t.closed() && !m.valid() && t.wide(h.position()) == h.position() && !from.offer().is_made()
}

/// Waits awake until the target has room, as far as that is cheap.
pub fn await_room(me: &Caller, to: &Channel) -> Came {
    let Some(ring) = to.ring(&me.domain) else {
        return Came::Yes;
    };
    let need = policy::ROOM.min(ring.room() as usize / 4);
    wait::writer(me, to, policy::ROOM, || {
        let (h, t, m) = (to.head(), to.tail(), to.chunk());
        let used = t.wide(h.position()) - h.position();
        let behind = m.valid() && h.position() < m.position(h.position());
        t.closed() || !behind && ring.room().saturating_sub(used) as usize >= need
    })
}
