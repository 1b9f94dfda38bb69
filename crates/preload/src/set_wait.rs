//! epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2) for a set with carried pipes.
//!
//! ```text
//! something that the kernel does not see --> its answer without a wait, and those
//! nothing --> each reader is armed (I4), each writer without room finds its kernel lane full
//!   --> the caller's own call sleeps: what comes is told by the kernel lane --> end: what was armed is disarmed
//! ```
//! Invariant: of each carried pipe either the kernel tells all, or what it does not tell is in the answer: one entry for
//! each registration. What is armed while a thread sleeps serves all threads that sleep: the kernel wakes one of them.
//! unsafe: writes where the caller wants the answer, once the kernel says that it may be written.
//! Not here: what is in a set (sets.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::registrations::{self, List, Shares};
use crate::sets;
use crate::{access, asked, io, ready, set_lock, sleep, tls};
use byway_pipe::Caller;
use byway_pipe::wait::Came;
use byway_sys::clock;
use byway_sys::errno::{EINTR, Ret, failed};
use byway_sys::syscall::{call6, nr};
use core::sync::atomic::Ordering::Relaxed;

/// In `Frame::kind`.
pub const WAITS: usize = 24;
const EPOLLRDHUP: u32 = 0x2000;
const EPOLLHUP: u32 = 16;
/// struct epoll_event: events and data, without a gap.
const EVENT: usize = 12;

/// A call that sleeps beside bytes which another thread is to read looks again after so many ms.
const SLICE: isize = 1;

/// Begins such a call.
pub fn begin(f: &mut Frame) -> u32 {
    f.vectors = WHOLE;
    // This may be a handler over such a call: `end` puts it back.
    f.fd = tls::get().waits_in.get() as usize;
    enters(f)
}

/// In `Frame::vectors`: the call sleeps for its whole time, for a slice of it, or for the rest.
const WHOLE: usize = 0;
const SLICED: usize = 1;
const REST: usize = 2;

/// Begins the call, or goes on with it after a slice.
fn enters(f: &mut Frame) -> u32 {
    /// What was ready may have gone to another reader: then it waits after all.
    const TRIES: u32 = 16;
    let [set, _, most, ..] = f.args;
    let Some(i) = sets::owned(set) else {
        return RUN;
    };
    let is_alone = !io::THREADS.load(Relaxed) && !io::HANDLERS.load(Relaxed);
    if is_alone && f.vectors == WHOLE && set_lock::is_quiet(i) {
        return RUN;
    }
    if tls::get().waits_in.get() != i as u32 + 1
        && let Some(life) = set_lock::waits_quietly(i)
    {
        is_counted(f, i, life);
        return sleeps(f, false);
    }
    let Some(me) = io::me() else {
        return RUN;
    };
    let (Some(waits), 1..) = (waits(f), most as i32) else {
        // The kernel refuses it.
        return RUN;
    };
    let lock = || set_lock::lock_for(&me, i, set);
    let mut may_spin = waits && ready::may_spin(f, &me);
    let (mut tries, mut spun_in_vain) = (0, false);
    while tries < TRIES {
        let Some(mut list) = lock() else {
            return RUN;
        };
        list.shares = match f.vectors {
            _ if !io::THREADS.load(Relaxed) || me.handlers || list.waiters > 0 => Shares::No,
            WHOLE => Shares::Yes,
            _ => Shares::Again,
        };
        if tls::get().waits_in.get() == i as u32 + 1 {
            // A handler over such a call, or one that was left by a jump.
            break;
        }
        // Where nothing came in the meantime, arming looks.
        if spun_in_vain || !list.look(&me) {
            if core::mem::take(&mut may_spin) {
                let readers = list.hot_readers(&me);
                drop(list);
                match sleep::spins(&me, &readers) {
                    Came::Signal => {
                        f.result = EINTR;
                        return DONE;
                    }
                    came => spun_in_vain = came == Came::No,
                }
                continue;
            }
            spun_in_vain = false;
            let asks = !waits && tries == 0 && list.has_unread();
            if !waits && !asks && !list.hears() {
                return RUN;
            }
            if !asks && (!waits || list.arm_all(&me, tries > 0)) {
                is_counted(f, i, set_lock::waits(&mut list));
                let owes = waits && list.owes();
                return sleeps(f, owes);
            }
            // Something is there by now.
            list.look(&me);
        }
        match answer(f, &me, &mut list) {
            Some(0) => {}
            Some(n) => {
                f.result = n;
                return DONE;
            }
            None => break,
        }
        tries += 1;
    }
    if let Some(mut list) = lock() {
        list.give_up(&me);
    }
    RUN
}

/// The thread of call `f` is counted as one that waits for the set at place `i`, in its `life`.
fn is_counted(f: &mut Frame, i: usize, life: u32) {
    tls::get().waits_in.set(i as u32 + 1);
    f.chan = i;
    f.want = life as usize;
}

/// After the caller's own call.
pub fn end(f: &mut Frame) -> u32 {
    tls::get().waits_in.set(f.fd as u32);
    // What the kernel tells may have to be heard.
    let (at, n) = (f.args[1], f.result.max(0) as usize);
    let concerns = |bits| n > 0 && (n > FEW || may_be_of(bits, at, n));
    let needed = f.vectors != WHOLE;
    if f.chan != usize::MAX
        && let Some(me) = io::me()
        && let Some(mut list) = set_lock::ends(&me, f.chan, f.want as u32, needed, concerns)
    {
        ends_with_bytes(&me, &mut list, f.args[1], f.result);
        list.comes_home(&me);
        hears(&me, &mut list, f.args[1], f.result);
    }
    if f.vectors != SLICED || f.result != 0 {
        return DONE;
    }
    let left = f.done as isize;
    f.done = if left > 0 { left - SLICE } else { left } as usize;
    match enters(f) {
        RUN => {
            // The set is the kernel's by now.
            f.chan = usize::MAX;
            sleeps(f, false)
        }
        does => does,
    }
}

/// So many events are looked at without the list.
const FEW: usize = 16;

/// Whether one of the `n` events at `at`, which the kernel has told, may be of a registration with a bit in `bits`.
fn may_be_of(bits: u64, at: usize, n: usize) -> bool {
    let told = Answer { at, n };
    let has_bit = |k| registrations::data_bit(told.get(k).1) & bits != 0;
    !access::allowed(at, n * EVENT, true) || (0..n).any(has_bit)
}

/// The caller's own call sleeps; in slices of its time, where it `owes` what others may leave unread. The process has no
/// handlers then, which would end the call between two slices.
fn sleeps(f: &mut Frame, owes: bool) -> u32 {
    let how = io::own(f, WAITS);
    if f.vectors == WHOLE && !owes {
        return how;
    }
    let [_, _, _, time, mask, size] = f.args;
    if f.vectors == WHOLE {
        f.done = match f.nr {
            nr::EPOLL_PWAIT2 if time == 0 => usize::MAX,
            nr::EPOLL_PWAIT2 => {
                // SAFETY: `waits` has asked; a struct timespec.
                let [s, ns] = unsafe { (time as *const [i64; 2]).read_unaligned() };
                s.saturating_mul(1000)
                    .saturating_add((ns + 999_999) / 1_000_000) as usize
            }
            _ => time as i32 as usize,
        };
    }
    let left = f.done as isize;
    let slices = owes && !(0..=SLICE).contains(&left);
    f.vectors = if slices { SLICED } else { REST };
    let time = if slices {
        SLICE
    } else {
        left.min(i32::MAX as isize)
    };
    let (mask, size) = match f.nr {
        nr::EPOLL_WAIT => (0, 8),
        _ => (mask, size),
    };
    f.sub[0] = nr::EPOLL_PWAIT;
    f.sub[4..].copy_from_slice(&[time as usize, mask, size]);
    how
}

/// Whether call `f` waits where nothing is ready; `None`: the kernel would refuse it, or it is not known.
fn waits(f: &Frame) -> Option<bool> {
    let [_, _, _, time, mask, size] = f.args;
    if f.nr != nr::EPOLL_WAIT && mask != 0 && (size != 8 || !access::allowed(mask, 8, false)) {
        return None;
    }
    match f.nr {
        nr::EPOLL_PWAIT2 if time == 0 => Some(true),
        nr::EPOLL_PWAIT2 => access::allowed(time, 16, false)
            // SAFETY: asked for; a struct timespec.
            .then(|| unsafe { (time as *const [i64; 2]).read_unaligned() } != [0, 0]),
        _ => Some(time as i32 != 0),
    }
}

/// The kernel has told the `n` events at `at`.
fn hears(me: &Caller, list: &mut List, at: usize, n: Ret) {
    if n <= 0 || !list.hears() || !access::allowed(at, n as usize * EVENT, true) {
        return;
    }
    let told = Answer { at, n: n as usize };
    for k in 0..told.n {
        let (events, data) = told.get(k);
        list.told(me, data);
        if events & (EPOLLHUP | EPOLLRDHUP) != 0 {
            told.set(k, events | list.reset_bits(me, data, events), data);
        }
    }
}

/// LINUX pipe_poll: an end is told with what there is to read. The `n` events at `at` are the kernel's.
fn ends_with_bytes(me: &Caller, list: &mut List, at: usize, n: Ret) {
    if n <= 0 || !list.owes() || !access::allowed(at, n as usize * EVENT, true) {
        return;
    }
    let told = Answer { at, n: n as usize };
    for e in list.hot().iter().filter(|e| e.owed && e.has_unread(me)) {
        for j in (0..told.n).filter(|j| told.is_end(*j, e.data)) {
            told.set(j, told.get(j).0 | e.asks(asked::IN), e.data);
        }
    }
}

/// The entries of an answer.
struct Answer {
    at: usize,
    n: usize,
}

impl Answer {
    fn entry(&self, k: usize) -> (*mut u32, *mut u64) {
        let at = self.at + k * EVENT;
        (at as *mut u32, (at + 4) as *mut u64)
    }
    fn get(&self, k: usize) -> (u32, u64) {
        let (events, data) = self.entry(k);
        // SAFETY: `answer` has asked whether it may be written.
        unsafe { (events.read_unaligned(), data.read_unaligned()) }
    }
    /// Whether entry `k` tells of an end, or an error, of `data` alone.
    fn is_end(&self, k: usize, data: u64) -> bool {
        let both = u32::from((asked::IN | asked::OUT) as u16);
        let (events, of) = self.get(k);
        of == data && events & both == 0
    }
    fn set(&self, k: usize, events: u32, data: u64) {
        let to = self.entry(k);
        // SAFETY: as above.
        unsafe {
            to.0.write_unaligned(events);
            to.1.write_unaligned(data);
        }
    }
}

/// Answers call `f` with what the kernel tells, and with what is `hidden` from it. `Some(0)`: it was gone by then; `None`:
/// the answer has no room. Of a set of one pipe that has bytes the kernel is asked as often as in `ready::at_hand`.
fn answer(f: &Frame, me: &Caller, list: &mut List) -> Option<Ret> {
    let [set, at, most, ..] = f.args;
    let most = most as u32 as usize;
    let ours = list.hot().iter().filter(|e| e.hidden != 0).count();
    let alone = list.len() == 1 && !list.mixed;
    let asks = !(alone && ours == 1 && ready::has_writer(me, set));
    let mut told = Answer { at, n: 0 };
    let mut has_turn = true;
    if asks {
        let (epoch, now) = (me.domain.header().death_epoch.load(Relaxed), clock::now());
        // LINUX epoll_wait(2): where there is not room for all, each has its turn. So it is ours after a call that had no
        // room for them. Else the kernel tells all that it has.
        let kernels = match core::mem::take(&mut list.crowded) {
            true => most - ours.min((most / 2).max(1)),
            false => most,
        };
        has_turn = kernels > 0;
        let n = match has_turn {
            // SAFETY: the kernel checks the address.
            true => unsafe { call6(nr::EPOLL_WAIT, set, at, kernels, 0, 0, 0) },
            false => 0,
        };
        if failed(n) {
            return Some(n);
        }
        told.n = n as usize;
        hears(me, list, at, n);
        if alone && has_turn && n == 0 && list.all()[0].may_go_unasked(me) {
            ready::remember(set, epoch, now);
        }
    }
    if !access::allowed(at, (told.n + ours).min(most) * EVENT, true) {
        return None;
    }
    let kernels = told.n;
    let (n, first) = (list.hot().len(), list.first);
    for k in (0..n).map(|k| (k + first) % n) {
        let e = list.hot()[k];
        // LINUX epoll_wait(2): one entry for each registration. Of one by level the kernel tells an end at most.
        let same = |j: &usize| told.get(*j).1 == e.data;
        // Of a socket it tells whatever else is asked, too. And another reader may have had what it told of since.
        let joins = (e.is_socket || !e.edge) && !e.alike;
        let is_end = |j: &usize| told.is_end(*j, e.data) || joins && same(j);
        if e.hidden == 0 {
            // LINUX pipe_poll: an end is told with what there is to read.
            if let Some(j) = (0..kernels).find(is_end).filter(|_| e.unread) {
                told.set(j, told.get(j).0 | e.asks(asked::IN), e.data);
            }
            continue;
        }
        // What has come to the kernel lane by now it has told, or tells the next time.
        if asks && list.look_at(me, k) == 0 {
            continue;
        }
        if let Some(j) = (0..kernels).find(is_end) {
            told.set(j, told.get(j).0 | e.hidden, e.data);
            list.hot()[k].tell();
        } else if e.edge && (0..kernels).any(|j| same(&j)) {
            // The kernel has told of an earlier event. This one is told next.
        } else if told.n < most {
            told.set(told.n, e.hidden, e.data);
            told.n += 1;
            list.hot()[k].tell();
            list.first = k + 1;
        } else {
            // With room for one the next call is the kernel's after one that was not.
            list.crowded = has_turn;
        }
    }
    Some(told.n as Ret)
}
