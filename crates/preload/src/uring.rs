//! io_uring: what a request in a ring names is handed back for good before the kernel gets it.
//!
//! ```text
//! io_uring_setup(2) --> the ring is mapped once more, here --> io_uring_enter(2): each request that is published is looked at
//!   --> its number is closed: unmapped
//! ```
//! Invariant: no request of this process reaches the kernel by a call that has not looked at it, or the process has resigned:
//! where a ring, an operation or a flag is not known, or a ring came by another number, from another process or image.
//! LINUX io_uring(7): a request that is published is the kernel's until it has taken it. A program that changes one, or enters a
//! ring while another thread publishes and submits what that call has not seen, has a race of its own.
//! unsafe: maps rings and reads them, and what a request points to once the kernel says that it can be read.
//! Not here: what a request names (crate sys, uring.rs), the handing back (exec.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::{access, cold, dispatch, exec, fdtable, give_up, sets, tls, udp, unmatched};
use byway_pipe::reason::Reason;
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::syscall::{call3, call6, nr};
use byway_sys::uring::{
    self, ENTER_REGISTERED_RING, Layout, Names, OFF_REQUESTS, OFF_RING, PARAMS, PARAMS_FLAGS,
    Registers, Request,
};
use core::cell::UnsafeCell;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

/// Rings at one time; one more, and the process resigns.
const MOST: usize = 64;
/// Descriptors of one array that are looked at: as many as the kernel registers.
const LIST_MOST: usize = 1 << 15;

/// A ring that this process has made.
struct Ring {
    /// Its number plus one; 0: none; `TAKEN`.
    fd: AtomicU32,
    /// Whoever looks at it, and one until its number is closed.
    users: AtomicU32,
    /// Where it is mapped, and its requests.
    ring: AtomicUsize,
    requests: AtomicUsize,
    layout: UnsafeCell<Layout>,
}

// SAFETY: the layout is written by whoever has taken the place, before anybody finds it.
unsafe impl Sync for Ring {}

/// Somebody fills the place, or its ring is closed and still looked at.
const TAKEN: u32 = u32::MAX;

static RINGS: [Ring; MOST] = [const {
    Ring {
        fd: AtomicU32::new(0),
        users: AtomicU32::new(0),
        ring: AtomicUsize::new(0),
        requests: AtomicUsize::new(0),
        layout: UnsafeCell::new(Layout::NONE),
    }
}; MOST];
/// Whether there was ever one.
#[unsafe(link_section = ".data")]
static ANY: AtomicBool = AtomicBool::new(false);

fn resigns() {
    exec::give_up_all(Reason::IoUring, false);
}

/// io_uring_setup(2).
pub fn creates(f: &mut Frame) -> u32 {
    let [entries, params, ..] = f.args;
    if !access::allowed(params, PARAMS, true) {
        return RUN;
    }
    // SAFETY: asked for.
    let flags = unsafe { ((params + PARAMS_FLAGS) as *const u32).read_unaligned() };
    if !uring::is_seen(flags) {
        resigns();
        return RUN;
    }
    // SAFETY: the caller's own call; the kernel checks the address itself.
    f.result = unsafe { call3(f.nr, entries, params, 0) };
    if !failed(f.result) {
        // SAFETY: asked for.
        let filled = unsafe { (params as *const [u32; 18]).read_unaligned() };
        if !Ring::begins(f.result as usize, &filled) {
            resigns();
        }
    }
    DONE
}

/// io_uring_enter(2).
pub fn enters(f: &Frame) -> u32 {
    let [fd, submits, _, flags, ..] = f.args;
    if submits as u32 == 0 {
        return RUN;
    }
    let is_known = flags & ENTER_REGISTERED_RING == 0
        && match Looks::begin(fd) {
            Some(ring) => ring.each(leaves_request),
            // LINUX EBADF, which the kernel says itself.
            None => failed(file::fcntl(fd, file::F_GETFD, 0)),
        };
    if !is_known {
        resigns();
    }
    RUN
}

/// io_uring_register(2): files that are registered are named by a request that names no descriptor.
pub fn registers(f: &Frame) -> u32 {
    let [_, operation, at, n, ..] = f.args;
    match uring::registers(operation as u32) {
        Registers::Nothing => {}
        Registers::List => leaves_list(at, n as u32 as usize),
        Registers::ListAt {
            bytes,
            at: k,
            n: count,
        } => {
            if access::allowed(at, bytes, false) {
                // SAFETY: asked for; both lie in the structure.
                let (list, count) = unsafe {
                    (
                        ((at + k) as *const usize).read_unaligned(),
                        count.map(|c| ((at + c) as *const u32).read_unaligned()),
                    )
                };
                leaves_list(list, count.unwrap_or(n as u32) as usize);
            }
        }
        Registers::Unknown => resigns(),
    }
    RUN
}

fn leaves_request(request: &Request) -> bool {
    request.names(|names| match names {
        Names::Used(fd) => leaves(fd as usize),
        Names::Closed(fd) => {
            leaves(fd as usize);
            // The kernel closes it at any moment from now on, and nobody is told. A program that uses the number meanwhile may
            // meet another file.
            dispatch::forgets(fd as usize);
            dispatch::moved();
        }
        Names::Registered { set, fd } => {
            registers_unseen(set as usize, fd as usize);
            leaves(fd as usize);
        }
        Names::Message(at) => give_up::passes(at, false),
        Names::List { at, n } => leaves_list(at, n),
    })
}

/// What a list has of `fd` is the kernel's alone from now on, and of `set` not all is in its list.
fn registers_unseen(set: usize, fd: usize) {
    match fdtable::set(fd) {
        Some(_) => sets::leaves(fd),
        None => sets::closes(fd),
    }
    tls::get().polled.fd.set(0);
    sets::mixes(set);
}

/// `fd` is the kernel's for good, whatever it is.
fn leaves(fd: usize) {
    if (fd as i32) < 0 {
        return;
    }
    udp::leaves(fd, Reason::IoUring);
    cold::stays_kernels(fd);
    // One that is not connected yet: a request may wait for it.
    unmatched::has_option(fd);
    exec::give_up_to_write(fd, Reason::IoUring, false);
}

/// The same of each of the `n` descriptors at `list`.
fn leaves_list(list: usize, n: usize) {
    let n = n.min(LIST_MOST);
    if !access::allowed(list, n * 4, false) {
        return;
    }
    for k in 0..n {
        // SAFETY: asked for.
        leaves(unsafe { (list as *const u32).add(k).read_unaligned() } as usize);
    }
}

/// `fd` is about to be closed, or to become another file's.
///
/// LINUX mmap(2): a mapping keeps the ring, and with it requests that a close would cancel.
pub fn closes(fd: usize) {
    closes_all(fd as u32 as usize, fd as u32 as usize);
}

/// The same of each from `first` to `last`.
pub fn closes_all(first: usize, last: usize) {
    if !ANY.load(Relaxed) {
        return;
    }
    for ring in &RINGS {
        let number = ring.fd.load(Relaxed);
        let fd = number.checked_sub(1).filter(|_| number != TAKEN);
        let is = fd.is_some_and(|fd| (first..=last).contains(&(fd as usize)));
        // RELAXED: whoever takes the number only lets go.
        let take = || ring.fd.compare_exchange(number, TAKEN, Relaxed, Relaxed);
        if is && take().is_ok() {
            ring.lets_go();
        }
    }
}

/// A forked child begins: whoever looks is its parent's thread.
pub fn enter_child() {
    if !ANY.load(Relaxed) {
        return;
    }
    for ring in &RINGS {
        match ring.fd.load(Relaxed) {
            0 => {}
            TAKEN if ring.users.load(Relaxed) == 0 => ring.fd.store(0, Relaxed),
            number => {
                ring.users.store(1, Relaxed);
                if number == TAKEN {
                    ring.lets_go();
                }
            }
        }
    }
}

impl Ring {
    /// The ring `fd` is one of which `params` are true. False: it cannot be looked at.
    fn begins(fd: usize, params: &[u32; 18]) -> bool {
        // One that a vfork child has closed, or the like.
        closes(fd);
        let Some(layout) = Layout::of(params) else {
            return false;
        };
        // RELAXED: its words are for whoever finds its number.
        let free = |r: &&Ring| r.fd.compare_exchange(0, TAKEN, Relaxed, Relaxed).is_ok();
        let Some(place) = RINGS.iter().find(free) else {
            return false;
        };
        // SAFETY: the place is ours.
        unsafe { *place.layout.get() = layout };
        let map = |to: &AtomicUsize, offset, len| {
            const PROT_READ: usize = 1;
            const MAP_SHARED: usize = 1;
            // SAFETY: a new mapping.
            let at = unsafe { call6(nr::MMAP, 0, len, PROT_READ, MAP_SHARED, fd, offset) };
            to.store(if failed(at) { 0 } else { at as usize }, Relaxed);
            !failed(at)
        };
        let done = map(&place.ring, OFF_RING, layout.ring_bytes())
            & map(&place.requests, OFF_REQUESTS, layout.request_bytes());
        place.users.store(1, Relaxed);
        ANY.store(true, Relaxed);
        if !done {
            place.lets_go();
            return false;
        }
        // ORDER: its words before its number.
        place.fd.store(fd as u32 + 1, Release);
        true
    }

    fn layout(&self) -> Layout {
        // SAFETY: it stays as it is while somebody uses the ring.
        unsafe { *self.layout.get() }
    }

    /// The last one that does unmaps it.
    fn lets_go(&self) {
        // ORDER: nobody looks at it any more when it is unmapped.
        if self.users.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        let layout = self.layout();
        let maps = [
            (&self.ring, layout.ring_bytes()),
            (&self.requests, layout.request_bytes()),
        ];
        for (at, len) in maps {
            if let at @ 1.. = at.swap(0, Relaxed) {
                // SAFETY: our own mapping, which nobody looks at.
                unsafe { call3(nr::MUNMAP, at, len, 0) };
            }
        }
        // ORDER: the place is free when nothing is mapped by it.
        self.fd.store(0, Release);
    }
}

/// A look at a ring: it stays mapped meanwhile.
struct Looks(&'static Ring);

impl Looks {
    fn begin(fd: usize) -> Option<Looks> {
        // No ring has `TAKEN` as its number, nor 0.
        let number = (fd as u32).checked_add(1).filter(|n| *n != TAKEN)?;
        // ORDER: its words after its number.
        let is = |r: &&Ring| r.fd.load(Acquire) == number;
        let ring = RINGS.iter().find(is)?;
        let one_more = |users| (users != 0).then_some(users + 1);
        // ORDER: as for a reference that is counted.
        ring.users.fetch_update(Acquire, Relaxed, one_more).ok()?;
        let looks = Looks(ring);
        // It may have been closed, and be another by now.
        is(&ring).then_some(looks)
    }

    /// Asks `look` of each request that is published and not yet submitted; false where that says so of one.
    fn each(&self, look: impl Fn(&Request) -> bool) -> bool {
        let layout = self.0.layout();
        let (ring, requests) = (self.0.ring.load(Relaxed), self.0.requests.load(Relaxed));
        let word = |at: usize| {
            // SAFETY: inside the ring's mapping, by its layout, and aligned.
            unsafe { &*((ring + at) as *const AtomicU32) }
        };
        let mask = layout.entries - 1;
        // ORDER: the requests below the tail are seen with it; another thread may have published them.
        let (head, tail) = (
            word(layout.head).load(Acquire),
            word(layout.tail).load(Acquire),
        );
        let n = (tail.wrapping_sub(head) as usize).min(layout.entries);
        (0..n).all(|k| {
            let at = (head as usize).wrapping_add(k) & mask;
            let number = match layout.array {
                Some(array) => word(array + at * 4).load(Relaxed) as usize,
                None => at,
            };
            // LINUX io_get_sqe: a number that is none of a request is dropped.
            if number > mask {
                return true;
            }
            // SAFETY: inside the mapping of the requests.
            let request =
                unsafe { ((requests + number * layout.size) as *const [u32; 16]).read_volatile() };
            look(&Request(request))
        })
    }
}

impl Drop for Looks {
    fn drop(&mut self) {
        self.0.lets_go();
    }
}
