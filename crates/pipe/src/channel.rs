//! One channel's 512 bytes in the domain, line by line, and who writes each line.
//!
//! Invariant: the tail, the head and the chunk each stand alone on a cache line; every field is an atomic, read once
//! and checked.
//! Not here: the bytes in flight (ring.rs, clusters.rs), the meaning of the words (word.rs).
use crate::inline_payload;
use crate::policy::Score;
use crate::ring::DIRECT;
use crate::single_copy::Offer;
use crate::wait;
use crate::word::{Chunk, Head, POS, Tail};
use byway_mem::domain::Domain;
use byway_mem::layout::CHANNEL_BYTES;
use byway_mem::layout::flags::NO_FIFO;
use byway_mem::registry::Key;
use byway_sys::errno::Ret;
use byway_sys::{file, line, process};
use core::ops::RangeInclusive;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};

/// PIPE_BUF of Linux; also the most that the kernel lane holds while the channel is open.
pub const PIPE_BUF: usize = 4096;

#[repr(C, align(64))]
pub struct Line<V>(pub V);

/// Cold facts, written at creation, opening and handing back.
#[repr(C)]
pub struct Facts {
    pub key: Key,
    /// What kind of object it is, and of a FIFO what is known of its holders (`Holders`).
    pub holders: AtomicU32,
    pub pending: AtomicU32,
    pub forever: AtomicU8,
    pub shrunk: AtomicU8,
    pub why: AtomicU8,
    /// `TOLD`, `AWAITED` or 0.
    pub full: AtomicU8,
    /// What the pipe holds. Of a TCP connection, how many bytes were ever put into its lane (tcp.rs).
    pub size: AtomicU32,
    /// Bytes of the ring, a power of two; set at each opening.
    pub ring: AtomicU32,
    /// Of a FIFO and a socket, how many of the bytes in the kernel lane are the stream's own.
    pub lane: AtomicU32,
    /// The run in which it came into being.
    pub run: AtomicU32,
    /// Its part of the header's `promised`.
    pub promised: AtomicU32,
    pub intent: AtomicU64,
    /// Reads, writes and calls such as splice that went to the kernel as they stood: what they moved was not counted.
    pub left: AtomicU32,
    /// Its ring was left; calls that the tail does not count may be under way (pass_through.rs).
    pub passing: AtomicU8,
    /// 1: it has passed through (pass_through.rs): calls were not counted.
    pub passed: AtomicU8,
    /// How often `ring` doubles to be its lap.
    pub laps: AtomicU8,
    /// 1: a program has set `size`, and the pipe holds exactly so much (size.rs).
    pub sized: AtomicU8,
}

/// Written by readers' policy.
#[repr(C)]
pub struct ReaderSide {
    /// The last tail that a reader saw: everything below is published.
    pub seen: AtomicU64,
    /// The chunk of the last place of which a reader has had bytes of K: a place is filled once, so what it leaves
    /// empty stays so.
    pub filled: AtomicU64,
    pub history: AtomicU32,
    /// Whether leaving the writer alone for a moment has brought more of late, and how much (wait/batch.rs, Gain).
    pub gain: AtomicU32,
    /// Whether yields have brought what was waited for, of late: 0 to 256.
    pub yields: AtomicU32,
    /// Which reads take the lines that they copy from (policy/cache_lines.rs).
    pub lines: AtomicU32,
    pub bytes: AtomicU64,
    /// Bytes that reads of the kernel's have brought.
    pub kernel: AtomicU64,
    /// Of a FIFO: since which of its reads the service counts its opens (fifo_opens.rs); 0: it does not.
    pub counted_from: AtomicU32,
    /// For `--explain`: calls that waited for it among others, wake-ups of a sleeping reader, and hand-backs of a ring.
    pub polls: AtomicU32,
    pub wakes: AtomicU32,
    pub hand_backs: AtomicU32,
}

/// The head, and on its line, because both are looked at together, the record lock. Then what is written once and told
/// by `--explain`.
#[repr(C)]
pub struct Readers {
    h: AtomicU64,
    /// Whoever reads a record piece by piece (the native library, framing.rs).
    pub record: AtomicU64,
    pub names: Names,
}

/// Programs, by the name of a thread; NUL padded.
#[repr(C)]
pub struct Names {
    /// The first that wrote, or read. The last byte is 1 if another has since.
    pub writer: [AtomicU64; 2],
    pub reader: [AtomicU64; 2],
    /// The one whose call made it the kernel's for good.
    pub culprit: [AtomicU64; 2],
}

impl Names {
    fn clear(&self) {
        let all = [&self.writer, &self.reader, &self.culprit];
        for word in all.into_iter().flatten() {
            word.store(0, Relaxed);
        }
    }
}

/// In a name's second word: it is not the only one.
pub const OTHERS: u64 = 1 << 56;

/// Written by writers' policy; the first line by each write.
#[repr(C)]
pub struct WriterSide {
    /// The last head that a writer saw: everything below is free.
    pub seen: AtomicU64,
    /// The tail as the bias owner of its lock left it; 0: nobody keeps it, or somebody asks for it (biased_lock.rs).
    pub biased_tail: AtomicU64,
    pub bytes: AtomicU64,
    pub looked: AtomicU64,
    pub epoch: AtomicU32,
    /// The thread of the last write that went straight through, how many it has made in a row, and after how many it
    /// may hold the bias.
    pub last: AtomicU32,
    pub alone: AtomicU32,
    pub alone_for: AtomicU32,
    /// Small writes in a row that each woke a reader.
    pub lone_wakes: AtomicU32,
    /// Writes of the kernel's that it takes to open the ring again, if it has brought nothing before.
    pub worth: AtomicU32,
    pub history: AtomicU32,
    /// 1 while a writer is in a wait: its burst is complete.
    pub waiting: AtomicU32,
    pub native_bytes: AtomicU64,
    /// Of an inbox, what its socket has sent by the kernel.
    pub native_ops: AtomicU64,
    /// When the FIFO's file came into being whose traffic these two count. Of a socket the inode number of the end that
    /// reads, once it is matched (peer.rs).
    pub born: AtomicU64,
    /// Of a socket: calls under way at the end that writes which do not know the other end (peer.rs).
    pub unmatched_calls: AtomicU32,
    /// The thread that last went to sleep on a full ring.
    pub sleeper: AtomicU32,
    /// As the reader's.
    pub yields: AtomicU32,
    /// Whether single copies have been taken, of late: 0 to 256.
    pub offers: AtomicU32,
    /// Writes until a direct one is tried again, and how many it will be after a try in vain.
    pub skip: AtomicU16,
    pub penalty: AtomicU16,
    /// Writes since the last look whether a reader is there (liveness.rs, OFTEN).
    pub since: AtomicU32,
    /// Bytes that writes of the kernel's have taken.
    pub kernel: AtomicU64,
    /// Of a FIFO, which runs have used it: a bit for each of the domain's members. Of a socket, since when it wakes,
    /// or asks for its other end.
    pub runs: AtomicU64,
}

/// For `--explain`, which may miss some of two that count at once: a locked instruction for each message would be dear.
fn count(counter: &AtomicU64, n: usize) {
    counter.store(counter.load(Relaxed).wrapping_add(n as u64), Relaxed);
}
impl ReaderSide {
    #[inline]
    pub fn count(&self, n: usize) {
        count(&self.bytes, n);
    }
    /// A read of the kernel's said `ret`. Exact: such a call is dear anyway.
    pub fn count_kernel(&self, ret: Ret) {
        self.kernel.fetch_add(ret.max(0) as u64, Relaxed);
    }
}
impl WriterSide {
    /// The last head that a writer saw. A peer may have written anything there: it is a position in any case.
    #[inline]
    pub fn seen_r(&self) -> u64 {
        self.seen.load(Relaxed) & POS
    }
    #[inline]
    pub fn count(&self, n: usize) {
        count(&self.bytes, n);
    }
    /// What `count` has counted.
    #[inline]
    pub fn counted(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
    /// A write of the kernel's said `ret`.
    pub fn count_kernel(&self, ret: Ret) {
        self.kernel.fetch_add(ret.max(0) as u64, Relaxed);
    }
    /// A write that is the kernel's, and `before` others of which the bytes do not count.
    pub fn count_native(&self, n: usize, before: u64) {
        count(&self.native_bytes, n);
        count(&self.native_ops, 1 + before as usize);
    }
    /// Counts from there.
    pub fn set_native(&self, ops: u64, bytes: u64) {
        self.native_bytes.store(bytes, Relaxed);
        self.native_ops.store(ops, Relaxed);
    }
    /// Counts anew: what was counted has been acted on, or was of another file.
    pub fn forget_native(&self) {
        self.set_native(0, 0);
    }
}

/// The kernel lane's place in the stream, and a single copy: what comes where the ring is empty. And, because both
/// sides look at this line and seldom change it, where they run.
#[repr(C)]
pub struct Place {
    m: AtomicU64,
    offer: Offer,
    pub reader_cpu: wait::Cpu,
    pub writer_cpu: wait::Cpu,
    /// Whether readers leave the lines that they copy from where they are (policy/cache_lines.rs, Left).
    pub left: AtomicU32,
    /// Whether the write of which kernel lane had the last PIPE_BUF bytes at once has more of them (wait.rs,
    /// `let_publish`).
    pub more: AtomicU8,
    /// How many of those that sleep only wait for bytes, and are in no read (lane.rs, `is_taken_from`).
    pub waiters: AtomicU8,
}

/// The tail, and on its line the last short write's bytes (inline_payload.rs).
#[repr(C)]
struct Writers {
    t: AtomicU64,
    inline_payload: InlinePayload,
}

/// A short write's bytes, and their position.
#[repr(C)]
pub struct InlinePayload {
    pub(crate) stamp: AtomicU64,
    pub(crate) bytes: [AtomicU64; inline_payload::MOST / 8],
}

/// A channel slot.
#[repr(C)]
pub struct Channel {
    pub facts: Line<Facts>,
    writers: Line<Writers>,
    pub readers: Line<Readers>,
    pub m: Line<Place>,
    pub reader: Line<ReaderSide>,
    pub writer: Line<WriterSide>,
    /// Of each 64 KiB of the ring's lap: the cluster's unit plus one; 0: none (clusters.rs). Of a lap of more than
    /// `DIRECT` of them, the first names the cluster with the table.
    pub table: Line<[AtomicU32; DIRECT]>,
}

/// In `lane`: bytes that were there when the channel opened, and were not counted.
pub const UNCOUNTED: u32 = u32::MAX;
/// In `lane` of a closed channel: some that are there may have come with more than bytes.
pub const MIXED: u32 = u32::MAX - 1;
/// In `full`: a writer was told that the pipe is full, and no reader has slept since. The entry code counts on it being 1.
pub const TOLD: u8 = 1;
/// In `full`: one waits by poll(2), to be told of the first page that is free.
pub const AWAITED: u8 = 2;
/// From the tail to `full`, for the entry code.
pub const FULL_FROM_TAIL: isize = core::mem::offset_of!(Channel, facts.0.full) as isize
    - core::mem::offset_of!(Channel, writers.0.t) as isize;

const _: () = assert!(size_of::<Channel>() <= CHANNEL_BYTES);
const _: () = assert!(size_of::<Writers>() == 64 && size_of::<Place>() == 64);

/// What is known of those who hold a FIFO, which anybody may open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Holders {
    /// No FIFO: it came into being among participants.
    Nameless = 0,
    /// Nothing: it stays the kernel's.
    Unknown = 1,
    /// Somebody would like to carry it: the service is to look.
    Asked = 2,
    /// All take part, and the service watches who else opens it.
    Known = 3,
    /// The same since it was made; no participant need have read from it yet.
    Born = 4,
    /// One direction of a connection of UNIX stream sockets, which came into being among participants.
    Unix = 5,
    /// One of a TCP connection.
    Tcp = 6,
    /// The inbox of a UDP socket (datagram.rs).
    Udp = 7,
}

/// The size that the kernel lane of an open FIFO has: none that a new pipe gets, so that a FIFO that everybody has
/// left, and that is another pipe since, is told apart.
pub const FIFO_SIZE: usize = 32768;

impl Channel {
    /// The channel in slot `i`.
    pub fn at(d: Domain, i: usize) -> Option<&'static Channel> {
        // SAFETY: the slot is inside the mapping, aligned to 512, and holds only atomics.
        d.channel(i).map(|p| unsafe { &*(p as *const Channel) })
    }

    /// Fills a claimed slot: closed, empty.
    pub fn reset(&self, size: usize) {
        let f = &self.facts.0;
        f.holders.store(Holders::Nameless as u32, Relaxed);
        f.shrunk.store(0, Relaxed);
        f.passing.store(0, Relaxed);
        f.laps.store(0, Relaxed);
        f.lane.store(0, Relaxed);
        f.size.store(size as u32, Relaxed);
        f.sized.store(0, Relaxed);
        f.promised.store(0, Relaxed);
        f.intent.store(0, Relaxed);
        f.left.store(0, Relaxed);
        f.passed.store(0, Relaxed);
        self.writers.0.t.store(Tail::CLOSED, Relaxed);
        self.inline_payload().clear();
        self.readers.0.h.store(0, Relaxed);
        self.m.0.m.store(0, Relaxed);
        self.m.0.offer.reset();
        self.m.0.reader_cpu.set(0);
        self.m.0.writer_cpu.set(0);
        self.m.0.left.store(0, Relaxed);
        self.m.0.more.store(0, Relaxed);
        self.m.0.waiters.store(0, Relaxed);
        self.unlearn();
        for c in [
            &self.reader.0.seen,
            &self.reader.0.filled,
            &self.writer.0.seen,
            &self.reader.0.bytes,
            &self.reader.0.kernel,
            &self.readers.0.record,
            &self.writer.0.bytes,
            &self.writer.0.kernel,
            &self.writer.0.runs,
        ] {
            c.store(0, Relaxed);
        }
        for c in [
            &self.reader.0.polls,
            &self.reader.0.wakes,
            &self.reader.0.hand_backs,
        ] {
            c.store(0, Relaxed);
        }
        self.writer.0.looked.store(0, Relaxed);
        self.writer.0.biased_tail.store(0, Relaxed);
        self.writer.0.since.store(0, Relaxed);
        self.reader.0.counted_from.store(0, Relaxed);
        for e in &self.table.0 {
            e.store(0, Relaxed);
        }
        self.readers.0.names.clear();
    }

    /// Nothing hinders its opening, and nothing is known of its traffic.
    pub fn unlearn(&self) {
        let f = &self.facts.0;
        f.pending.store(0, Relaxed);
        f.forever.store(0, Relaxed);
        f.why.store(0, Relaxed);
        f.full.store(0, Relaxed);
        for score in [
            &self.reader.0.history,
            &self.writer.0.history,
            &self.reader.0.yields,
            &self.writer.0.yields,
            &self.writer.0.offers,
        ] {
            Score::NEW.store(score);
        }
        self.writer.0.forget_native();
        for c in [
            &self.writer.0.lone_wakes,
            &self.writer.0.last,
            &self.writer.0.alone,
            &self.writer.0.alone_for,
            &self.writer.0.worth,
        ] {
            c.store(0, Relaxed);
        }
        self.writer.0.skip.store(0, Relaxed);
        self.writer.0.penalty.store(0, Relaxed);
        self.reader.0.gain.store(wait::NO_GAIN, Relaxed);
        self.reader.0.lines.store(0, Relaxed);
    }

    pub fn tail(&self) -> Tail {
        // EDGE E1: the bytes up to the tail are seen with the tail.
        Tail(self.writers.0.t.load(Acquire))
    }
    /// Where the tail stands, for a sequence that looks at it.
    pub fn tail_address(&self) -> &AtomicU64 {
        &self.writers.0.t
    }
    /// Asks for the tail's line, to be written (`policy::expect_tail`).
    #[inline]
    pub fn expect_tail(&self) {
        line::to_write(self.tail_address().as_ptr().cast());
    }
    pub fn head(&self) -> Head {
        // EDGE E3: a place is reused only after its bytes were copied out.
        Head(self.readers.0.h.load(Acquire))
    }
    /// Where the head stands, for a writer that sleeps until it moves.
    pub fn head_address(&self) -> &AtomicU64 {
        &self.readers.0.h
    }
    pub fn chunk(&self) -> Chunk {
        // EDGE E2: loaded after the tail, so that it is at least as new as the tail.
        Chunk(self.m.0.m.load(Acquire))
    }
    pub fn set_chunk(&self, m: Chunk) {
        // EDGE E2: stored before the CAS on the tail, or the kernel write, that makes it matter.
        self.m.0.m.store(m.0, Release);
    }
    /// The single copy of this moment.
    #[inline]
    pub fn offer(&self) -> &Offer {
        &self.m.0.offer
    }
    /// The chunk to none, if it is still `old`.
    pub fn clear_chunk(&self, old: Chunk) -> bool {
        // EDGE E2: as `set_m`.
        self.m
            .0
            .m
            .compare_exchange(old.0, old.none().0, AcqRel, Relaxed)
            .is_ok()
    }
    pub fn cas_tail(&self, old: Tail, new: Tail) -> Result<(), Tail> {
        // EDGE E1, E4: publishes the bytes below the tail; total order of arming and publishing.
        self.writers
            .0
            .t
            .compare_exchange(old.0, new.0, AcqRel, Acquire)
            .map(|_| ())
            .map_err(Tail)
    }
    /// The same where the tail moves, over bytes that are not inline.
    #[inline]
    pub fn move_tail(&self, old: Tail, new: Tail) -> Result<(), Tail> {
        self.inline_payload().clear();
        self.cas_tail(old, new)
    }
    /// What stands inline.
    #[inline]
    pub fn inline_payload(&self) -> &InlinePayload {
        &self.writers.0.inline_payload
    }
    pub fn cas_head(&self, old: Head, new: Head) -> bool {
        // EDGE E3: the bytes are copied out before their place is free.
        self.readers
            .0
            .h
            .compare_exchange(old.0, new.0, AcqRel, Acquire)
            .is_ok()
    }

    /// `n` bytes of the kernel lane were read.
    pub fn drained(&self, n: usize) {
        let lane = &self.facts.0.lane;
        let was = lane.load(Relaxed);
        if was != 0 && was < MIXED {
            lane.store(was.saturating_sub(n.min(MIXED as usize) as u32), Relaxed);
        }
    }
    /// Whether it has a name.
    #[inline]
    pub fn is_fifo(&self) -> bool {
        const NAMED: RangeInclusive<u32> = Holders::Unknown as u32..=Holders::Born as u32;
        NAMED.contains(&self.facts.0.holders.load(Relaxed))
    }
    /// Whether it is one direction of a connection of sockets, or an inbox.
    #[inline]
    pub fn is_socket(&self) -> bool {
        self.facts.0.holders.load(Relaxed) >= Holders::Unix as u32
    }
    /// Whether that is one of TCP.
    #[inline]
    pub fn is_tcp(&self) -> bool {
        self.facts.0.holders.load(Relaxed) == Holders::Tcp as u32
    }
    /// Of a matched socket, the inode number of the end that reads; its key has the one that writes.
    pub fn reading_end(&self) -> u64 {
        self.writer.0.born.load(Relaxed)
    }
    /// Whether every holder takes part; the service is asked if that is not known.
    pub fn holders_known(&self, d: &Domain, fd: usize) -> bool {
        let h = &self.facts.0.holders;
        // ORDER: what the service saw before it said so; an opener asks again under the lock.
        match h.load(Acquire) {
            0 | 5..=7 => true,
            _ if d.header().flags.load(Relaxed) & NO_FIFO != 0 => false,
            3 => true,
            4 => self.was_read(),
            // No participant has read from it yet. The service would refuse, and look again only some milliseconds later.
            1 if !self.was_read() => false,
            1 => {
                // RELAXED: a request; the service reads the slot's key, which was published before.
                if h.compare_exchange(1, 2, Relaxed, Relaxed).is_ok() {
                    let asker = (process::getpid() as u64) << 32 | fd as u64;
                    d.header().asker.store(asker, Relaxed);
                    d.header()
                        .prove
                        .store(1, Release /* ORDER: who asks, before the request. */);
                    d.call_service();
                    // The service begins at our descriptor, which must not be closed meanwhile (cli, fifo.rs).
                    let mut turns = 0;
                    while h.load(Relaxed) == 2 && turns < 20 {
                        process::nap(100);
                        turns += 1;
                    }
                }
                false
            }
            _ => false,
        }
    }
    /// Whether a participant has read, or asked for something as a reader.
    pub fn was_read(&self) -> bool {
        self.readers.0.names.reader[0].load(Relaxed) != 0
    }
    /// Program `name` uses the channel, as a writer or a reader. The first one stays: what follows is its child as a rule.
    /// One that has moved no byte makes room.
    pub fn used_by(&self, name: [u64; 2], writes: bool) {
        let (w, r, names) = (&self.writer.0, &self.reader.0, &self.readers.0.names);
        let (side, counts) = match writes {
            true => (&names.writer, [&w.bytes, &w.kernel]),
            false => (&names.reader, [&r.bytes, &r.kernel]),
        };
        let now = side.each_ref().map(|n| n.load(Relaxed));
        if now[0] == 0 || counts.iter().all(|c| c.load(Relaxed) == 0) {
            side[1].store(name[1] & !(0xff << 56), Relaxed);
            side[0].store(name[0], Relaxed);
        } else if [now[0], now[1] & !OTHERS] != name {
            side[1].store(now[1] | OTHERS, Relaxed);
        }
    }
    /// Program `name` is about to make the channel the kernel's, for good or for one call.
    pub fn blame(&self, name: [u64; 2]) {
        let culprit = &self.readers.0.names.culprit;
        for (to, n) in culprit.iter().zip(name) {
            to.store(n, Relaxed);
        }
    }
    /// Whether `fd` is a descriptor of this channel's object. Another thread may have closed it, and its number may be another
    /// file's: what a call of many steps does by it counts only if this is asked of what it moves the bytes by.
    pub fn is_behind(&self, fd: usize) -> bool {
        let key = &self.facts.0.key;
        let Some(id) = file::identity(fd) else {
            // Senders have none of an inbox, and whoever takes its lock from the dead has nothing to move.
            return self.is_inbox();
        };
        match self.is_socket() {
            true if self.is_inbox() => true,
            true => id.is_socket && (key.is(id.dev, id.ino) || self.reading_end() == id.ino),
            false => id.fifo && key.is(id.dev, id.ino),
        }
    }
    /// Whether `fd` is a descriptor of the end that writes.
    pub fn is_written_by(&self, fd: usize) -> bool {
        match self.is_socket() {
            true => file::identity(fd).is_some_and(|id| self.facts.0.key.is(id.dev, id.ino)),
            false => file::is_writable(fd),
        }
    }
    /// Whether the channel stays the kernel's. Asked *before* T: closed and unlocked then, it does: openers ask again.
    pub fn forever(&self) -> bool {
        // EDGE E5: before the load of the tail that follows.
        self.facts.0.forever.load(Acquire) != 0
    }
    /// From now on the channel is not opened again.
    pub fn keep_closed(&self) {
        // EDGE E5: before the look at the tail, or the lock, that follows.
        self.facts.0.forever.store(1, SeqCst);
    }
}
