//! Records: messages with their boundaries, framed in a channel's stream of bytes.
//!
//! ```text
//! 63..40 SIGN  39..32 kind  31..0 length   | length bytes ...       at most PIPE_BUF together: written whole, so what
//!                                                                   several senders write is never mixed
//! ```
//! Invariant: a record leaves the stream for one receiver, whole. Where all of it lies in the ring, that is one CAS on
//! the head. Else its receiver has the channel's record lock from before the first byte to after the last, and nobody
//! takes anything while another has it: the lock is looked at after the head, so who sees it free finds the head at a
//! boundary, or fails at the CAS.
//! Not here: who sleeps (receiver.rs), what a record means (records.rs), how it is written (crate pipe).
use byway_pipe::channel::{Channel, PIPE_BUF};
use byway_pipe::copy::{Buffers, Iov};
use byway_pipe::cursor::ReadCursor;
use byway_pipe::lock::Patience;
use byway_pipe::policy::{self, Lines};
use byway_pipe::read::{self, Drained};
use byway_pipe::ring::Ring;
use byway_pipe::word::{Chunk, Head, Tail};
use byway_pipe::{Caller, fast_path, wait};
use byway_sys::errno::Ret;
use byway_sys::process;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

pub use byway_pipe::fast_path::HEAD;
/// The longest record.
pub const MOST: usize = PIPE_BUF - HEAD;
const SIGN: u64 = 0x62_7977;

/// What stands before a record's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordHead {
    pub kind: u8,
    pub len: usize,
}

impl RecordHead {
    pub fn to_bytes(self) -> [u8; HEAD] {
        (SIGN << 40 | u64::from(self.kind) << 32 | self.len as u64).to_le_bytes()
    }
    /// `None`: those bytes are no head.
    pub fn from_bytes(b: [u8; HEAD]) -> Option<RecordHead> {
        let w = u64::from_le_bytes(b);
        let len = w as u32 as usize;
        (w >> 40 == SIGN && len <= MOST).then_some(RecordHead {
            kind: (w >> 32) as u8,
            len,
        })
    }
}

/// What was found at the front of the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// This record; its bytes are in the buffer, and it has left the stream.
    Taken(RecordHead),
    /// This one, which the buffer is too small for; it is still there.
    Long(RecordHead),
    /// No record in the ring alone; there may be one in the kernel's pipe, or none yet. The look was at this T: who
    /// waits for it to change misses nothing, while a tail of after the look may have the next record already.
    Elsewhere(Tail),
    /// Something that is no record.
    Damaged,
}

/// The next record into `b`, where all of it was published when a receiver last looked at the tail.
#[inline]
pub fn take_seen(
    me: &Caller,
    ch: &Channel,
    b: &mut [u8],
    cursor: &mut ReadCursor,
) -> Option<RecordHead> {
    fast_path::take(me, ch, b, cursor, |head| {
        RecordHead::from_bytes(head).map(|h| (h, h.len))
    })
}

/// Takes the next record into `b`, if all of it lies in the ring. To be tried by `take_seen` and `take_inline` before.
#[inline(never)]
pub fn take(me: &Caller, ch: &Channel, b: &mut [u8]) -> Found {
    loop {
        let h = ch.head();
        let t = ch.tail();
        // EDGE L1 <- L0: after H: a receiver that has taken a part was seen to have the lock.
        if h.held() || ch.readers.0.record.load(Acquire) != 0 {
            return Found::Elsewhere(t);
        }
        let r = h.position();
        let mut there = ch.reader.0.seen.load(Relaxed).wrapping_sub(r);
        // After T: what that has behind the head lies in this ring, or the head has moved. A ring from before the tail
        // may be of an earlier opening, which ended at this very head and went round in less.
        let Some(ring) = ch.ring(&me.domain) else {
            return Found::Elsewhere(t);
        };
        let mut fresh = false;
        let head = loop {
            if there >= HEAD as u64 && there <= ring.bytes() && !ch.chunk().valid() {
                let Some(head) = head_at(ring, r) else {
                    if ch.head() == h {
                        return Found::Damaged;
                    }
                    break None;
                };
                if (HEAD + head.len) as u64 <= there {
                    break Some(head);
                }
            }
            if fresh {
                return Found::Elsewhere(t);
            }
            fresh = true;
            match look(me, ch, (h, t), ring) {
                Some(n) => there = n,
                None => return Found::Elsewhere(t),
            }
        };
        // The head moved meanwhile.
        let Some(head) = head else { continue };
        if head.len > b.len() {
            if ch.head() == h {
                return Found::Long(head);
            }
            continue;
        }
        let v = [Iov {
            base: b.as_mut_ptr() as usize,
            len: head.len,
        }];
        // SAFETY: the buffer is the caller's; [r, r + there) is published and not yet released (the CAS below proves it).
        unsafe { Buffers::new(&v).from_ring(ring, r + HEAD as u64, head.len, Lines::Copied, 0) };
        let next = Head::free(r + (HEAD + head.len) as u64);
        if ch.cas_head(h, next) {
            ch.reader.0.count(HEAD + head.len);
            return Found::Taken(head);
        }
    }
}

/// The head at position `r`, whose bytes are published.
fn head_at(ring: Ring, r: u64) -> Option<RecordHead> {
    let mut b = [0u8; HEAD];
    let (p, run) = ring.run(r);
    if run >= HEAD {
        // SAFETY: `run` bytes of the ring begin at `p`; read once, by value.
        return RecordHead::from_bytes(unsafe { p.cast::<[u8; HEAD]>().read_volatile() });
    }
    let v = [Iov {
        base: b.as_mut_ptr() as usize,
        len: HEAD,
    }];
    // SAFETY: a buffer of ours; published bytes.
    unsafe { Buffers::new(&v).from_ring(ring, r, HEAD, Lines::Copied, 0) };
    RecordHead::from_bytes(b)
}

/// The next record into `b`, if all of it stands inline: of one who has had all that was seen of the stream.
#[inline]
pub fn take_inline(me: &Caller, ch: &Channel, b: &mut [u8]) -> Option<RecordHead> {
    let h = ch.head();
    // EDGE L1 <- L0: after the head, as in `take`.
    let locked = ch.readers.0.record.load(Acquire) != 0;
    if h.held() || locked || ch.reader.0.seen.load(Relaxed) != h.position() {
        return None;
    }
    let n = published(ch, h, ch.tail())?;
    let payload = ch.inline_payload().look(h.position(), n)?;
    let head = RecordHead::from_bytes(payload.first())?;
    if HEAD + head.len != payload.len || head.len > b.len() {
        return None;
    }
    let n = gathered(me, ch, h, n, payload.len)?;
    // SAFETY: the buffer is the caller's, and as long.
    let whole = unsafe { payload.copy(1, b.as_mut_ptr(), head.len) };
    if !whole || !ch.cas_head(h, Head::free(h.position() + payload.len as u64)) {
        return None;
    }
    ch.reader.0.seen.store(h.position() + n, Relaxed);
    ch.reader.0.count(payload.len);
    wait::looked(&ch.reader);
    Some(head)
}

/// Bytes of the ring that readers may take where the tail is `t`; `None` where the kernel's pipe must be asked.
#[inline]
fn published(ch: &Channel, h: Head, t: Tail) -> Option<u64> {
    if t.closed() || t.sleepers() > 0 || ch.chunk().valid() {
        return None;
    }
    Some(t.wide(h.position()) - h.position())
}

/// The same after a moment in which more may have come, if `n` are little for one whose next record has `one` of them.
///
/// As for bytes (read.rs): a stream of small records would pay for the tail's way between the CPUs with each of them.
#[inline]
fn gathered(me: &Caller, ch: &Channel, h: Head, n: u64, one: usize) -> Option<u64> {
    if n == 0 || !wait::may_gather(&ch.reader, n, one) || !wait::gather(me, ch) {
        return Some(n);
    }
    let after = published(ch, h, ch.tail())?;
    // Records that come more slowly than the tail does, as grants do, have nothing from it: who waits for them holds up
    // their sender.
    let quickly = after.wrapping_sub(n) >= wait::QUICK * one as u64;
    wait::gathered(&ch.reader, n, if quickly { after } else { n });
    Some(after)
}

/// What the tail, which was `t`, says, or says after a moment if that pays: how much is there, which the reader
/// remembers.
fn look(me: &Caller, ch: &Channel, (h, t): (Head, Tail), ring: Ring) -> Option<u64> {
    let n = published(ch, h, t).filter(|&n| n <= ring.bytes())?;
    let one = if n >= HEAD as u64 {
        HEAD + head_at(ring, h.position()).map_or(0, |x| x.len)
    } else {
        HEAD
    };
    let n = gathered(me, ch, h, n, one).filter(|&n| n <= ring.bytes())?;
    ch.reader.0.seen.store(h.position() + n, Relaxed);
    wait::looked(&ch.reader);
    policy::reads_here(me, ch);
    Some(n)
}

/// What one read of the kernel lane brought.
pub enum Pulled<'a> {
    /// This record; its bytes are in the buffer, and those that did not fit are here.
    Record(RecordHead, &'a [u8]),
    /// The kernel lane is not next, or has nothing yet.
    Nothing,
    /// Something that is no record.
    Damaged,
    /// The kernel's error.
    Failed(Ret),
}

/// The next record into `b` and `spare`, if the kernel lane is next: by one read. Its caller has the record lock.
///
/// While the channel is open the kernel lane has what one write brought (I2), and a record is written whole: no more
/// than one is there. But for a FIFO whose ring was full: its oldest bytes are there (fifo.rs), which are read piece by
/// piece.
pub fn from_kernel<'a>(
    me: &Caller,
    ch: &Channel,
    fd: usize,
    b: &mut [u8],
    spare: &'a mut [MaybeUninit<u8>; MOST],
) -> Pulled<'a> {
    let (h, t, m) = (ch.head(), ch.tail(), ch.chunk());
    if t.closed()
        || t.sleepers() > 0
        || h.held()
        || !m.valid()
        || m.position(h.position()) != h.position()
    {
        return Pulled::Nothing;
    }
    if ch.rules().oldest_to_lane && may_have_several(me, ch, m) {
        return Pulled::Nothing;
    }
    let mut head = [0u8; HEAD];
    let v = [
        (head.as_mut_ptr(), HEAD),
        (b.as_mut_ptr(), b.len()),
        (spare.as_mut_ptr().cast(), MOST),
    ]
    .map(|(p, len)| Iov {
        base: p as usize,
        len,
    });
    let want = v.iter().map(|v| v.len).sum();
    let n = match read::drain(me, ch, fd, Buffers::new(&v), want, h.position(), m) {
        Drained::Bytes(n) => n,
        Drained::Failed(e) | Drained::Cut(e) => return Pulled::Failed(e),
        Drained::Empty | Drained::Changed | Drained::UnderWay => return Pulled::Nothing,
    };
    let Some(head) = RecordHead::from_bytes(head).filter(|x| HEAD + x.len == n) else {
        return Pulled::Damaged;
    };
    let rest = head.len.saturating_sub(b.len());
    // SAFETY: the kernel has put the record's bytes there, of which `rest` lie behind the buffer.
    let rest = unsafe { std::slice::from_raw_parts(spare.as_ptr().cast(), rest) };
    Pulled::Record(head, rest)
}

/// Of a FIFO, whose bytes in the kernel lane stand next, at the place `m`: whether a full ring may have put them there,
/// and so in which piece of a record they end is not known.
fn may_have_several(me: &Caller, ch: &Channel, m: Chunk) -> bool {
    // A ring of some pages is full when it has as many as go into the kernel lane.
    let little = |ring: Ring| ring.bytes() < 4 * PIPE_BUF as u64;
    // All that a write to the kernel lane takes; or what a read has left of that.
    let whole = ch.facts.0.lane.load(Relaxed) as usize == PIPE_BUF;
    whole || ch.reader.0.filled.load(Relaxed) == m.0 || ch.ring(&me.domain).is_none_or(little)
}

/// Whether the channel shows something new since the tail was `was`.
pub fn changed(ch: &Channel, was: Tail) -> bool {
    let t = ch.tail();
    t.position() != was.position() || t.closed()
}

const TID: u64 = (1 << 22) - 1;
/// A part of a record may have left the stream.
const BEGUN: u64 = 1 << 62;

/// The record lock, for one who will read a record piece by piece. False: its last owner died in the midst of a record,
/// whose rest cannot be told from the next one.
pub fn enter(me: &Caller, ch: &Channel) -> bool {
    let lock = &ch.readers.0.record;
    let mine = u64::from(me.tid);
    let mut p = Patience::new();
    loop {
        let w = lock.load(Relaxed);
        let owner = (w & TID) as u32;
        if w == 0 || owner == me.tid {
            // EDGE L0 -> L1: before anything is taken.
            if lock.compare_exchange(w, mine, AcqRel, Relaxed).is_ok() {
                return true;
            }
        } else if p.wait(me)
            && process::is_dead(owner)
            // EDGE L0 -> L1: as above. Only the word that named the dead one: it may have left before it ended.
            && lock.compare_exchange(w, mine, AcqRel, Relaxed).is_ok()
        {
            // Nothing had left the ring, and nothing can have left the kernel's pipe.
            let (t, h) = (ch.tail(), ch.head());
            let untouched =
                !t.closed() && !ch.chunk().valid() && h.position() << 22 == w & !(TID | BEGUN);
            if w & BEGUN == 0 || untouched {
                return true;
            }
            // EDGE L0 -> L1: nobody takes anything from now on.
            lock.store(w, Release);
            return false;
        }
    }
}

/// Its owner is about to take the first bytes.
pub fn begin(me: &Caller, ch: &Channel) {
    let r = ch.head().position() << 22;
    // EDGE L0 -> L1: before they are taken.
    ch.readers
        .0
        .record
        .store(BEGUN | r | u64::from(me.tid), Release);
}

/// Its owner has taken the last byte of a record, or none.
pub fn leave(ch: &Channel) {
    // EDGE L0 -> L1: what was taken comes before others take.
    ch.readers.0.record.store(0, Release);
}

#[cfg(test)]
mod tests {
    use super::{Found, take, take_inline};
    use crate::records;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

    /// Records of eight bytes, each with its number.
    const RECORDS: u64 = 300_000;

    /// A failed assertion ends the sender too.
    struct Over<'a>(&'a AtomicBool);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }

    /// A receiver that finds nothing waits until the tail has changed since the look. Were it a tail of after the look, that might
    /// have the next record already: nobody would tell of it, and where two processes answer each other, both would
    /// wait in vain.
    #[test]
    fn what_is_waited_for_is_not_there_yet() {
        let (r, mut s) = records().unwrap();
        let c = r.reader.carried.expect("it is carried");
        let (had, over) = (AtomicU64::new(0), AtomicBool::new(false));
        s.send(&u64::MAX.to_le_bytes()).unwrap();
        assert!(!c.channel.tail().closed(), "not open after a record");
        let (me, mut b, mut nothing) = (c.me(false), [0; 8], 0u64);
        assert!(matches!(take(&me, c.channel, &mut b), Found::Taken(_)));
        std::thread::scope(|t| {
            t.spawn(|| {
                for n in 0..RECORDS {
                    // It never waits for room.
                    while n - had.load(Relaxed) > 1000 {
                        if over.load(Relaxed) {
                            return;
                        }
                        std::thread::yield_now();
                    }
                    // Slower than the receiver looks: nearly each comes while it does.
                    (0..5 + n % 7).for_each(|_| std::hint::spin_loop());
                    s.send(&n.to_le_bytes()).unwrap();
                }
            });
            let _over = Over(&over);
            for next in 0..RECORDS {
                had.store(next, Relaxed);
                loop {
                    let found = match take_inline(&me, c.channel, &mut b) {
                        Some(head) => Found::Taken(head),
                        None => take(&me, c.channel, &mut b),
                    };
                    match found {
                        Found::Taken(_) => break,
                        Found::Elsewhere(was) => {
                            let r = c.channel.head().position();
                            assert!(!was.closed() && !c.channel.chunk().valid());
                            assert_eq!(was.wide(r), r, "the tail had record {next}");
                            nothing += 1;
                        }
                        found => panic!("{found:?} at record {next}"),
                    }
                }
                assert_eq!(u64::from_le_bytes(b), next);
            }
            assert!(nothing > 0, "there was always one");
        });
    }
}
