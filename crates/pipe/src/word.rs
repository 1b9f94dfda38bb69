//! The three words of a channel, as values: the tail (writers, sleepers, mode), the head (readers), the chunk (place of
//! the kernel's bytes).
//!
//! Invariant: every change of a word is one compare-and-swap of a whole value made here.
//! Not here: the words themselves, or any rule about when to change them.
//!
//! ```text
//! tail  63      62   61  60..58 57..55 54   53..32   31..0
//!    PASS_THROUGH CLOSED WOKEN  kw     nsl  BIASED  wl(22)   tail         CLOSED and BIASED: wl is a spiller
//! head  63 62 61..40  39..0          chunk  63    62..40 39..0
//!    kr sp owner   head                 valid seq    chunk
//! ```

const TID: u64 = (1 << 22) - 1;
pub(crate) const POS: u64 = (1 << 40) - 1;

/// Writers' word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail(pub u64);

impl Tail {
    pub const PASS_THROUGH: u64 = 1 << 63;
    pub const CLOSED: u64 = 1 << 62;
    pub const WOKEN: u64 = 1 << 61;
    const BIASED: u64 = 1 << 54;
    const SLEEPER: u64 = 1 << 55;
    const KERNEL_WRITER: u64 = 1 << 58;
    /// Largest count that `nsl` and `kw` hold.
    pub const MOST: u64 = 7;

    pub fn position(self) -> u32 {
        self.0 as u32
    }
    /// The owner of the writers' lock; 0: nobody, or it is biased.
    pub fn lock_owner(self) -> u32 {
        if self.0 & (Self::BIASED | Self::CLOSED) != Self::BIASED {
            (self.0 >> 32 & TID) as u32
        } else {
            0
        }
    }
    /// Who keeps the writers' lock, and may be inside a write that only appends to the ring; 0: nobody.
    pub fn bias_owner(self) -> u32 {
        if self.0 & (Self::BIASED | Self::CLOSED) != Self::BIASED {
            0
        } else {
            (self.0 >> 32 & TID) as u32
        }
    }
    /// The owner of the writers' lock, if that is a spiller (spiller.rs), else 0: a lock is biased on an open channel only,
    /// and on a closed one the bit says this.
    pub fn spiller(self) -> u32 {
        if self.0 & Self::BIASED == 0 {
            0
        } else {
            self.lock_owner()
        }
    }
    /// Closed, with the lock for the spiller `tid`.
    pub fn spilled_by(self, tid: u32) -> Tail {
        self.biased_to(tid).shut()
    }
    /// Closed.
    pub fn shut(self) -> Tail {
        self.with(Self::CLOSED).without(Self::WOKEN)
    }
    /// Open.
    pub fn opened(self) -> Tail {
        self.without(Self::CLOSED | Self::WOKEN)
    }
    /// The tail, and nothing else: nobody inside, asleep, or in the kernel's pipe.
    #[inline]
    pub fn is_idle(self) -> bool {
        self.0 >> 32 == 0
    }
    /// The tail, biased to `tid`, and nothing else.
    #[inline]
    pub fn is_biased_to(self, tid: u32) -> bool {
        self.0 >> 32 == Self::BIASED >> 32 | tid as u64 & TID
    }
    pub fn sleepers(self) -> u64 {
        self.0 >> 55 & 7
    }
    pub fn kernel_writers(self) -> u64 {
        self.0 >> 58 & 7
    }
    pub fn woken(self) -> bool {
        self.0 & Self::WOKEN != 0
    }
    pub fn closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }
    /// Closed, and calls of the kernel's need not be counted.
    #[inline]
    pub fn passes_through(self) -> bool {
        self.0 & Self::PASS_THROUGH != 0
    }
    pub fn with_position(self, w: u32) -> Tail {
        Tail(self.0 & !0xffff_ffff | w as u64)
    }
    /// The tail further by `n` bytes.
    #[inline]
    pub fn plus(self, n: usize) -> Tail {
        self.with_position(self.position().wrapping_add(n as u32))
    }
    pub fn with_lock(self, tid: u32) -> Tail {
        Tail(self.0 & !(TID << 32 | Self::BIASED) | (tid as u64 & TID) << 32)
    }
    pub fn biased_to(self, tid: u32) -> Tail {
        self.with_lock(tid).with(Self::BIASED)
    }
    pub fn with(self, bit: u64) -> Tail {
        Tail(self.0 | bit)
    }
    pub fn without(self, bit: u64) -> Tail {
        Tail(self.0 & !bit)
    }
    pub fn sleeper_added(self) -> Tail {
        Tail(self.0 + Self::SLEEPER)
    }
    pub fn sleeper_gone(self) -> Tail {
        if self.sleepers() == 0 {
            self
        } else {
            Tail(self.0 - Self::SLEEPER)
        }
    }
    pub fn kernel_writer_added(self) -> Tail {
        Tail(self.0 + Self::KERNEL_WRITER)
    }
    pub fn kernel_writer_gone(self) -> Tail {
        if self.kernel_writers() == 0 {
            self
        } else {
            Tail(self.0 - Self::KERNEL_WRITER)
        }
    }
    /// Nobody is in a kernel call on the kernel lane.
    pub fn nobody(self) -> Tail {
        Tail(self.0 & !((Self::MOST * Self::SLEEPER) | (Self::MOST * Self::KERNEL_WRITER)))
    }
    /// The tail as a full position, where the head is `r`, not more than 2^32 behind.
    pub fn wide(self, r: u64) -> u64 {
        r + self.position().wrapping_sub(r as u32) as u64
    }
}

/// Readers' word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head(pub u64);

impl Head {
    pub const READS_LANE: u64 = 1 << 63;
    pub const SPILLS: u64 = 1 << 62;

    pub fn position(self) -> u64 {
        self.0 & POS
    }
    pub fn owner(self) -> u32 {
        (self.0 >> 40 & TID) as u32
    }
    /// Somebody reads the kernel lane or spills.
    pub fn held(self) -> bool {
        self.0 & (Self::READS_LANE | Self::SPILLS) != 0
    }
    pub fn free(r: u64) -> Head {
        Head(r & POS)
    }
    pub fn owned(r: u64, tid: u32, bit: u64) -> Head {
        Head(r & POS | (tid as u64 & TID) << 40 | bit)
    }
}

/// Place of the kernel's bytes in the stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chunk(pub u64);

impl Chunk {
    const VALID: u64 = 1 << 63;
    const SEQ: u64 = (1 << 23) - 1;

    pub fn valid(self) -> bool {
        self.0 & Self::VALID != 0
    }
    /// The chunk's position as a full position, where the head is `r`: 2^40 bytes of stream begin the positions anew,
    /// and the kernel lane's bytes may stand beyond that where the head does not yet. A place that the head has passed
    /// is the head.
    pub fn position(self, r: u64) -> u64 {
        const UNUSED: u32 = POS.leading_zeros();
        let ahead = (self.0.wrapping_sub(r) << UNUSED) as i64 >> UNUSED;
        r + ahead.max(0) as u64
    }
    pub fn seq(self) -> u64 {
        self.0 >> 40 & Self::SEQ
    }
    /// A new place, told apart from every earlier one.
    pub fn next(self, p: u64) -> Chunk {
        Chunk(Self::VALID | ((self.seq() + 1) & Self::SEQ) << 40 | p & POS)
    }
    pub fn none(self) -> Chunk {
        Chunk(self.0 & !Self::VALID)
    }
    /// Whether this is the place set just after `before`.
    pub fn follows(self, before: Chunk) -> bool {
        self.seq() == ((before.seq() + 1) & Self::SEQ)
    }
}
