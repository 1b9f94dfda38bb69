//! Join a domain, or lay one out; the only place where offsets become pointers.
//!
//! Invariant: after `join` the mapping stays for the life of the process and no fd stays open, so a program that
//! closes every descriptor it does not know cannot take the domain away. Every index is checked here, against the
//! geometry that this process took from the file's size, not from the shared header.
//! unsafe: mapping memory and reaching into it.
use crate::group;
use crate::layout::*;
use byway_sys::errno::{EINVAL, Ret, failed};
use byway_sys::rseq::{BUCKET_STRIDE, FRONT_STRIDE, OBJECT_STRIDE};
use byway_sys::syscall::{call3, call6, nr};
use byway_sys::{file, line, process};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32};

/// A joined domain: its base address in this process, and its geometry.
#[derive(Clone, Copy)]
pub struct Domain {
    base: usize,
    arena: usize,
    objects: usize,
    buckets: usize,
    channels: usize,
    slabs: u32,
}

const PROT_RW: usize = 3;
const MAP_SHARED: usize = 1;
const MADV_REMOVE: usize = 9;
const MADV_DONTDUMP: usize = 16;
const MADV_POPULATE_READ: usize = 22;
const MADV_POPULATE_WRITE: usize = 23;

/// This process has taken unused slabs out of its mapping.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

impl Domain {
    /// Maps the domain file at the NUL-terminated `path`, owned by this user and of this version.
    ///
    /// # Errors
    /// The kernel's error, or EINVAL for a file that is not a domain of this version.
    pub fn join(path: &[u8]) -> Result<Domain, Ret> {
        Domain::join_if(path, |_, _| true)
    }

    /// The same; and EINVAL if `accepts` refuses it, which is given the descriptor too.
    ///
    /// # Errors
    /// As `join`.
    pub fn join_if(
        path: &[u8],
        accepts: impl FnOnce(&Domain, usize) -> bool,
    ) -> Result<Domain, Ret> {
        const AT_FDCWD: usize = -100isize as usize;
        const O_RDWR_CLOEXEC: usize = 2 | 0o2000000;
        const O_NOFOLLOW: usize = 0o400000;
        let how = O_RDWR_CLOEXEC | O_NOFOLLOW;
        // SAFETY: `path` is NUL terminated; the buffers live over the calls; the mapping is new.
        unsafe {
            let fd = call6(nr::OPENAT, AT_FDCWD, path.as_ptr() as usize, how, 0, 0, 0);
            if failed(fd) {
                return Err(fd);
            }
            let fd = fd as usize;
            let mut st = [0u64; 18];
            let r = call3(nr::FSTAT, fd, st.as_mut_ptr() as usize, 0);
            let uid = (st[3] >> 32) as u32;
            let euid = call3(nr::GETEUID, 0, 0, 0) as u32;
            let mode = st[3] as u32;
            let g = Geometry::from_bytes(st[6] as usize);
            let m = match g {
                Some(g) if !failed(r) && uid == euid && mode & 0o077 == 0 => {
                    call6(nr::MMAP, 0, g.bytes, PROT_RW, MAP_SHARED, fd, 0)
                }
                _ => EINVAL,
            };
            let (false, Some(g)) = (failed(m), g) else {
                call3(nr::CLOSE, fd, 0, 0);
                return Err(m);
            };
            let d = Domain::over(m as *mut u8, g.slabs);
            let h = d.header();
            let is_one = h.magic.load(Relaxed) == MAGIC && h.version.load(Relaxed) == VERSION;
            let joins = is_one && accepts(&d, fd);
            call3(nr::CLOSE, fd, 0, 0);
            if !joins {
                d.unmap();
                return Err(EINVAL);
            }
            d.keep_out_of_cores();
            Ok(d)
        }
    }

    /// A domain over a mapping that the caller made and keeps: `Geometry::of(slabs).bytes` long.
    ///
    /// # Safety
    /// `base` is page aligned and mapped shared, readable and writable, for the life of the value.
    pub unsafe fn over(base: *mut u8, slabs: usize) -> Domain {
        let g = Geometry::of(slabs);
        Domain {
            base: base as usize,
            objects: base as usize + g.objects_at,
            buckets: base as usize + g.buckets_at,
            channels: base as usize + g.channels_at,
            arena: base as usize + g.arena_at,
            slabs: slabs as u32,
        }
    }

    /// Whether the process ids in the domain mean to this process what they mean to its runs. `fd` is the domain's file, on
    /// which each run has a lock.
    pub fn has_our_pids(&self, fd: usize) -> bool {
        let h = self.header();
        let owner = file::lock_owner(fd);
        let is_run = |m: &AtomicU32| m.load(Relaxed) == owner;
        // What /proc says costs a twentieth of a short program's time.
        owner != 0 && h.members.iter().any(is_run)
            || h.pid_space.load(Relaxed) == process::pid_space()
    }

    /// What a new, zeroed domain holds besides zeroes; its maker sets the header's other fields and, last, `magic`.
    pub fn lay_out(&self) {
        let h = self.header();
        h.version.store(VERSION, Relaxed);
        h.low_kib.store(8 << 10, Relaxed);
        h.high_kib.store(16 << 10, Relaxed);
        h.decay_ms.store(300, Relaxed);
        h.shared_lines.store(line::stays_shared().into(), Relaxed);
        for i in 0..self.slabs() {
            self.middle().free.set(i);
        }
    }

    /// A core file of this process holds no other program's bytes.
    ///
    /// LINUX core(5): a shared mapping of a file without a name is dumped like memory of the process's own.
    pub fn keep_out_of_cores(&self) {
        let n = self.geometry().bytes;
        // SAFETY: changes what a dump holds, and no contents.
        unsafe { call3(nr::MADVISE, self.base, n, MADV_DONTDUMP) };
    }

    /// Takes the mapping away: nobody in this process reaches into it again.
    ///
    /// # Safety
    /// No other thread of this process, and no call that a handler has interrupted, uses the domain.
    pub unsafe fn unmap(&self) {
        // SAFETY: the caller's promise.
        unsafe { call3(nr::MUNMAP, self.base, self.geometry().bytes, 0) };
    }

    /// Takes the pages of the slabs that are of no class out of this process's mapping: once, by a process that has left. Its
    /// threads make no pages present any more, nor remove any, for their addresses are whatever the program maps there. The
    /// tables stay, for a call that is on its way out still looks into them.
    pub fn unmap_unused(&self, tid: u32) {
        /// Slabs that are locked at a time, so that others find some to claim.
        const RUN: usize = 32;
        // Each slab's lock comes after this, here and at whoever looks (`pages`).
        HAS_LEFT.store(true, Relaxed);
        let mut from = 0;
        while from < self.slabs() {
            let most = (from + RUN).min(self.slabs());
            let mut end = from;
            while end < most && self.lock_unused(end, tid) {
                end += 1;
            }
            if end > from {
                let (at, n) = (self.arena + from * SLAB_BYTES, (end - from) * SLAB_BYTES);
                // SAFETY: slabs of no class, whose locks this thread holds: no object in them is out.
                unsafe { call3(nr::MUNMAP, at, n, 0) };
                for i in from..end {
                    self.slab(i).into_iter().for_each(Slab::unlock);
                }
            }
            from = end.max(from + 1);
        }
    }

    /// Locks slab `i` if it is of no class.
    fn lock_unused(&self, i: usize, tid: u32) -> bool {
        let Some(s) = self.slab(i) else { return false };
        if s.is_used() || !s.try_lock(tid) {
            return false;
        }
        if s.is_used() {
            s.unlock();
            return false;
        }
        true
    }

    pub fn slabs(&self) -> usize {
        self.slabs as usize
    }
    pub fn geometry(&self) -> Geometry {
        Geometry::of(self.slabs())
    }

    pub fn header(&self) -> &'static Header {
        // SAFETY: the mapping covers the header and stays; all fields are atomics or only read by copy.
        unsafe { &*(self.base as *const Header) }
    }
    pub fn middle(&self) -> &'static Middle {
        // SAFETY: inside the mapping, aligned; only atomics.
        unsafe { &*((self.base + MIDDLE_AT) as *const Middle) }
    }
    /// Front `i`: of a CPU below `CPUS`, shared from there on.
    pub fn front(&self, i: usize) -> &'static Front {
        let at = self.base + FRONTS_AT + (i % (CPUS + LOCKED)) * FRONT_STRIDE;
        // SAFETY: inside the mapping, aligned to 64; only atomics.
        unsafe { &*(at as *const Front) }
    }
    pub fn counters(&self, front: usize, c: Class) -> &'static Counters {
        let i = front % (CPUS + LOCKED) * CLASSES + c as usize;
        let at = self.base + COUNTERS_AT + i * size_of::<Counters>();
        // SAFETY: as above.
        unsafe { &*(at as *const Counters) }
    }

    /// Address of channel slot `i`; `i` is checked.
    #[inline]
    pub fn channel(&self, i: usize) -> Option<*mut u8> {
        (i < CHANNELS || i < self.channels_made())
            .then(|| (self.channels + i * CHANNEL_BYTES) as *mut u8)
    }
    /// The number of the channel slot at address `p`.
    pub fn slot_of(&self, p: usize) -> u32 {
        (p.wrapping_sub(self.channels) / CHANNEL_BYTES % CHANNELS_MOST) as u32
    }
    /// Channel slots that there are: the first, and those made since.
    pub fn channels_made(&self) -> usize {
        // ORDER: the pages below it are there.
        let more = self.header().more_channels.load(Acquire) as usize;
        (CHANNELS + more.min(CHANNELS_MOST) / CHANNELS_MORE * CHANNELS_MORE).min(CHANNELS_MOST)
    }
    /// Makes a page of channel slots present behind the first `made`; false when there is no memory, or no more may be.
    pub fn make_channels(&self, made: usize) -> bool {
        let (at, more) = (self.channels + made * CHANNEL_BYTES, made - CHANNELS);
        let there = made < CHANNELS_MOST && self.populate(at, PAGE);
        if there {
            // ORDER: after the page. Another may have made it too.
            let _ = self.header().more_channels.compare_exchange(
                more as u32,
                (more + CHANNELS_MORE) as u32,
                Release,
                Relaxed,
            );
        }
        there
    }
    pub fn exec_record(&self, i: usize) -> &'static ExecRecord {
        let at = self.base + EXECS_AT + (i % EXECS) * size_of::<ExecRecord>();
        // SAFETY: inside the mapping; only atomics.
        unsafe { &*(at as *const ExecRecord) }
    }

    /// The bit of run `run` among those that share the domain; 0 if it is none of them.
    pub fn member_bit(&self, run: u32) -> u64 {
        let mut all = self.header().members.iter();
        let place = all.position(|m| run != 0 && m.load(Relaxed) == run);
        place.map_or(0, |k| 1 << k)
    }

    /// Place `i` of the table of programs that took no part.
    pub fn departure(&self, i: usize) -> &'static Departure {
        let at = self.base + DEPARTURES_AT + i % DEPARTURES * size_of::<Departure>();
        // SAFETY: inside the mapping, aligned to 64; only atomics.
        unsafe { &*(at as *const Departure) }
    }

    /// Place `i` of the table of FIFOs' opens.
    pub fn opening(&self, i: usize) -> &'static Opening {
        let at = self.base + OPENINGS_AT + i % OPENINGS * size_of::<Opening>();
        // SAFETY: inside the mapping, aligned to 16; only atomics.
        unsafe { &*(at as *const Opening) }
    }

    /// Place `i` of the participants' table.
    pub fn participant(&self, i: usize) -> &'static AtomicU32 {
        let at = self.base + PARTS_AT + i % PARTICIPANTS * 4;
        // SAFETY: inside the mapping, aligned.
        unsafe { &*(at as *const AtomicU32) }
    }

    /// The tag of channel slot `i`, below `CHANNELS_MOST`.
    pub fn tag(&self, i: usize) -> &'static AtomicU16 {
        let at = self.base + TAGS_AT + i % CHANNELS_MOST * 2;
        // SAFETY: inside the mapping, aligned.
        unsafe { &*(at as *const AtomicU16) }
    }

    /// The place of thread `tid` among the keepers, which another may have.
    #[inline]
    pub fn thread_slot(&self, tid: u32) -> &'static ThreadSlot {
        let at =
            self.base + THREAD_SLOTS_AT + tid as usize % THREAD_SLOTS * size_of::<ThreadSlot>();
        // SAFETY: inside the mapping, aligned; only atomics.
        unsafe { &*(at as *const ThreadSlot) }
    }

    /// Wakes the service of the run.
    pub fn call_service(&self) {
        const FUTEX_WAKE: usize = 1;
        let word = &raw const self.header().scan_wanted as usize;
        // SAFETY: FUTEX_WAKE of a word in the mapping.
        unsafe { call3(nr::FUTEX, word, FUTEX_WAKE, i32::MAX as usize) };
    }

    pub fn slab(&self, i: usize) -> Option<&'static Slab> {
        // SAFETY: checked; inside the mapping, aligned to 64; only atomics.
        (i < self.slabs())
            .then(|| unsafe { &*((self.base + SLABS_AT + i * size_of::<Slab>()) as *const Slab) })
    }
    /// Bucket `i`, if it has ever been used.
    pub fn bucket(&self, i: usize) -> Option<&'static Bucket> {
        let made = self.buckets_made();
        // SAFETY: checked; inside the mapping, and there (`make_buckets`); only atomics.
        (i < made).then(|| unsafe { &*((self.buckets() + i * BUCKET_STRIDE) as *const Bucket) })
    }
    pub fn buckets_made(&self) -> usize {
        // ORDER: the pages below it are there.
        let n = self.header().buckets.load(Acquire);
        (n as usize).min(BUCKETS)
    }
    /// Makes a page of buckets present from bucket `from` on; false when there is no memory.
    pub fn make_buckets(&self, from: usize) -> bool {
        from < BUCKETS && self.populate(self.buckets() + from * BUCKET_STRIDE, PAGE)
    }
    /// The entry of the object that begins at `unit`, which lies in a slab that is in use.
    pub fn object(&self, unit: u32) -> Option<&'static Object> {
        let i = unit as usize;
        // SAFETY: checked; inside the mapping; only atomics. Its page is there while its slab is in use.
        (i < self.units())
            .then(|| unsafe { &*((self.objects() + i * OBJECT_STRIDE) as *const Object) })
    }
    pub fn units(&self) -> usize {
        self.slabs() * SLAB_UNITS
    }
    pub fn buckets(&self) -> usize {
        self.buckets
    }
    pub fn objects(&self) -> usize {
        self.objects
    }
    /// The address of `class.bytes()` bytes at `unit`; `None` for what cannot be such an object.
    #[inline]
    pub fn address(&self, unit: u32, class: Class) -> Option<*mut u8> {
        let i = unit as usize;
        (i < self.units() && i.is_multiple_of(class.units()))
            .then(|| (self.arena + i * UNIT) as *mut u8)
    }

    /// Makes `n` bytes at `p`, an address of the mapping, present for good; false when there is no memory, or a control group has none
    /// left for this.
    ///
    /// LINUX madvise(2) MADV_POPULATE_WRITE (5.14): fails with EFAULT where a touch would be SIGBUS.
    fn populate(&self, p: usize, n: usize) -> bool {
        // SAFETY: populating changes no contents.
        group::may(self, n) && !failed(unsafe { call3(nr::MADVISE, p, n, MADV_POPULATE_WRITE) })
    }
    /// Makes pages of the arena present: `n` of them from page `page` of slab `i`.
    pub fn populate_arena(&self, i: usize, page: usize, n: usize) -> bool {
        self.pages(i, page, n)
            .is_some_and(|at| self.populate(at, n * PAGE))
    }
    /// Makes the object entries of slab `i` present.
    pub fn populate_objects(&self, i: usize) -> bool {
        let n = SLAB_UNITS * OBJECT_STRIDE;
        i < self.slabs() && self.populate(self.objects() + i * n, n)
    }
    /// Gives the object entries of slab `i`, which is of no class now, back to the machine.
    pub fn remove_objects(&self, i: usize) {
        let n = SLAB_UNITS * OBJECT_STRIDE;
        if i < self.slabs() {
            // SAFETY: entries without meaning: the slab is free, and locked by the caller.
            unsafe { call3(nr::MADVISE, self.objects() + i * n, n, MADV_REMOVE) };
        }
    }
    /// Gives pages of the arena back to the machine.
    pub fn remove_arena(&self, i: usize, page: usize, n: usize) {
        if let Some(at) = self.pages(i, page, n) {
            // SAFETY: pages of free objects, whose contents are dead.
            unsafe { call3(nr::MADVISE, at, n * PAGE, MADV_REMOVE) };
        }
    }
    /// Where `n` pages of slab `i`, from `page` on, are mapped; the caller has its lock. `None`: they may not be any more.
    fn pages(&self, i: usize, page: usize, n: usize) -> Option<usize> {
        let fits = i < self.slabs() && page + n <= SLAB_PAGES;
        (fits && !HAS_LEFT.load(Relaxed)).then(|| self.arena + i * SLAB_BYTES + page * PAGE)
    }
}

/// Asks the kernel whether `p..p+n` may be read (or written), faulting it in.
pub fn probe(p: usize, n: usize, write: bool) -> bool {
    let start = p & !(PAGE - 1);
    let Some(end) = p
        .checked_add(n)
        .and_then(|e| e.checked_next_multiple_of(PAGE))
    else {
        return false;
    };
    let how = if write {
        MADV_POPULATE_WRITE
    } else {
        MADV_POPULATE_READ
    };
    // SAFETY: populating changes no contents.
    !failed(unsafe { call3(nr::MADVISE, start, end - start, how) })
}
