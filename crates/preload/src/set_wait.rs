//! epoll_wait(2), epoll_pwait(2) and epoll_pwait2(2) for a set with carried pipes.
//!
//! ```text
//! something that the kernel does not see --> its answer without a wait, and those
//! nothing --> each reader is armed (I4), each writer without room finds its kernel lane full
//!   --> the caller's own call sleeps: what comes is told by the kernel lane --> end: what was armed is disarmed
//! ```
//! Invariant: of each carried pipe either the kernel tells all, or what it does not tell is in the answer: one entry for
//! each registration. A second thread that waits for the set ends the carrying of its pipes.
//! unsafe: writes where the caller wants the answer, once the kernel says that it may be written.
//! Not here: what is in a set (sets.rs).
use crate::entry::{DONE, Frame, RUN};
use crate::registrations::List;
use crate::sets;
use crate::{access, asked, io, ready, sleep};
use byway_pipe::Caller;
use byway_pipe::channel::Channel;
use byway_sys::clock;
use byway_sys::errno::{Ret, failed};
use byway_sys::syscall::{call6, nr};
use core::sync::atomic::Ordering::Relaxed;

/// In `Frame::kind`.
pub const WAITS: usize = 24;
/// struct epoll_event: events and data, without a gap.
const EVENT: usize = 12;

/// Begins such a call.
pub fn begin(f: &mut Frame) -> u32 {
    /// What was ready may have gone to another reader: then it waits after all.
    const TRIES: u32 = 16;
    let [set, _, most, ..] = f.args;
    let Some((me, i)) = sets::listed(set) else {
        return RUN;
    };
    let (Some(waits), 1..) = (waits(f), most as i32) else {
        // The kernel refuses it.
        return RUN;
    };
    let lock = || sets::lock_for(&me, i, set);
    for tries in 0..TRIES {
        if waits && !me.handlers {
            let only = lock().and_then(|mut l| l.only_reader());
            if let Some(ch) = only.and_then(|slot| Channel::at(me.domain, slot)) {
                sleep::spins(&me, ch);
            }
        }
        let Some(mut list) = lock() else {
            return RUN;
        };
        if list.waiter != 0 {
            break;
        }
        if !list.look(&me) {
            let asks = !waits && tries == 0 && list.has_unread();
            if !waits && !asks && !list.has_idle_edges() {
                return RUN;
            }
            if !asks && (!waits || list.arm_all(&me, tries > 0)) {
                list.waiter = me.tid;
                f.chan = i;
                f.want = list.life as usize;
                return io::own(f, WAITS);
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
    }
    if let Some(mut list) = lock() {
        list.give_up(&me);
    }
    RUN
}

/// After the caller's own call.
pub fn end(f: &mut Frame) -> u32 {
    if let Some(me) = io::me()
        && let Some(mut list) = sets::lock(&me, f.chan).filter(|l| l.life as usize == f.want)
    {
        list.waiter = 0;
        list.comes_home(&me);
        hears(&me, &mut list, f.args[1], f.result);
    }
    DONE
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
    if n <= 0 || !list.has_idle_edges() || !access::allowed(at, n as usize * EVENT, true) {
        return;
    }
    let told = Answer { at, n: n as usize };
    (0..told.n).for_each(|k| list.told(me, told.get(k).1));
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
    if asks {
        let (epoch, now) = (me.domain.header().death_epoch.load(Relaxed), clock::now());
        // SAFETY: the kernel checks the address.
        let n = unsafe { call6(nr::EPOLL_WAIT, set, at, most, 0, 0, 0) };
        if failed(n) {
            return Some(n);
        }
        told.n = n as usize;
        hears(me, list, at, n);
        if alone && n == 0 && list.all()[0].asks(asked::IN) != 0 {
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
        let both = u32::from((asked::IN | asked::OUT) as u16);
        let same = |j: &usize| told.get(*j).1 == e.data;
        let is_end = |j: &usize| same(j) && told.get(*j).0 & both == 0;
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
        } else if kernels == most {
            // LINUX epoll_wait(2): where there is not room for all, each has its turn. So one must know of all.
            list.leave_to_kernel(me, k);
        }
    }
    Some(told.n as Ret)
}
