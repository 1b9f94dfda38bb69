//! When the registrations of a set are looked at, armed and disarmed: before a call that waits sleeps, after it comes back, and when
//! the kernel has told of one.
//!
//! Invariant: that of the list (registrations.rs): while a thread sleeps in the set each hot registration that asks for bytes
//! and has none is armed, and an idle one always is.
//! Not here: the list itself; the channel's side of it (crate pipe, ready.rs).
use super::{List, Shares};
use crate::{asked, exec, sets, unmatched};
use byway_pipe::channel::Channel;
use byway_pipe::peer;
use byway_pipe::read::Armed;
use byway_pipe::ready::{self, Sight};
use byway_pipe::reason::Reason;
use byway_pipe::{Caller, handback, pass_through, policy};
use byway_sys::clock;

/// So many hot ones are looked at by each call, whatever they have.
const FEW: usize = 16;
/// To show bytes takes some calls of the kernel's: a ring brings less than they take where fewer bytes than `WORTH` were read
/// between two times, more than `POOR` times in a row.
const WORTH: u64 = 1 << 15;
const POOR: u8 = 8;
impl List {
    /// Looks at what the kernel does not tell. Whether there is anything, or what it tells.
    pub fn look(&mut self, me: &Caller) -> bool {
        let mut any = false;
        for k in (0..self.hot).rev() {
            if !self.is_told_by_channel(me, k) {
                continue;
            }
            let e = &mut self.all()[k];
            // Of one that is armed, for another thread, the kernel tells.
            (e.hidden, e.shows) = if e.armed {
                (0, false)
            } else {
                (e.look(me), e.shows && !e.once)
            };
            if e.once && e.hidden != 0 {
                self.leave_to_kernel(me, k);
                continue;
            }
            let found = e.hidden != 0;
            any |= found || e.shows;
            self.in_vain = self.in_vain.saturating_sub(u32::from(found));
            if self.hot > FEW && self.all()[k].rests() && self.arm(me, k, false) {
                self.idles(k);
            }
        }
        any
    }

    /// Whether the channel of registration `k` is known: then it tells of it. Of an unmatched socket the kernel tells all.
    fn is_told_by_channel(&mut self, me: &Caller, k: usize) -> bool {
        let e = self.all()[k];
        let Some(slot) = e.match_found(me).filter(|_| !e.armed) else {
            return !e.unmatched;
        };
        let mut matched = e;
        (matched.unmatched, matched.slot) = (false, slot as u32);
        if sets::reads_alone(&matched) {
            matched.begin(me);
            sets::attends(e.fd as usize, false);
            self.all()[k] = matched;
            return true;
        }
        // Another set has the same end.
        let e = self.take(me, k);
        exec::give_up(e.fd as usize, Reason::Readiness, false);
        self.mixed = true;
        false
    }

    /// The hot registration in place `k` is idle from now on, if it is armed.
    fn idles(&mut self, k: usize) {
        let e = self.all()[k];
        // A FIFO's outsiders come by the kernel lane at any time, and its service counts who sleeps.
        if e.armed {
            self.hot -= 1;
            self.swap(k, self.hot);
            self.idle_edges += usize::from(e.edge);
        }
    }

    /// Looks at registration `k` alone.
    pub fn look_at(&mut self, me: &Caller, k: usize) -> u32 {
        if !self.is_told_by_channel(me, k) {
            return 0;
        }
        self.all()[k].look(me)
    }

    /// Arms all that are not, where the kernel was `asked` before; those whose pipes are the kernel's for good leave the list.
    /// False: something is there by now, and nothing is armed but for others that sleep.
    pub fn arm_all(&mut self, me: &Caller, asked: bool) -> bool {
        for k in (0..self.hot).rev() {
            let e = self.all()[k];
            let is_kernels = |ch: &Channel| match e.unmatched {
                true => peer::is_kernels(ch),
                false => ch.is_kernels(),
            };
            if Channel::at(me.domain, e.slot as usize).is_none_or(is_kernels) {
                self.drops(me, k);
            } else if !self.arm(me, k, asked) {
                if self.waiters == 0 {
                    self.disarm_hot(me);
                }
                return false;
            }
        }
        true
    }

    /// Arms the hot registration in place `k`, if it asks for something to read. False: there is something.
    pub fn arm(&mut self, me: &Caller, k: usize, asked: bool) -> bool {
        let e = self.all()[k];
        if e.unmatched && !e.armed && e.reads() {
            let counted = unmatched::enters(e.slot as usize);
            self.all()[k].armed = counted;
            if counted || !self.is_told_by_channel(me, k) {
                return true;
            }
        }
        let e = self.all()[k];
        let Some(ch) = e.channel(me) else { return true };
        if e.armed || e.asks(asked::IN) == 0 {
            return true;
        }
        let mut sight = ready::arm(me, ch, e.fd as usize, &mut { Armed::NOT });
        if sight == Sight::Bytes {
            self.all()[k].calm = false;
            let end = ready::end(ch);
            let told = e.edge && !((end != e.told || e.fresh) && ready::has_unread(ch, end));
            if told && self.owes_next(k, ch) {
                return true;
            }
            // By edge the kernel lane has bytes, and the kernel may be about to tell of them.
            if !(e.once || told && asked) {
                return false;
            }
            let shown = e.once && self.show(me, k, ch);
            // By edge, of what is unread all was told, and the ring does not tell of more.
            sight = match shown {
                true => Sight::Kernels,
                false => ready::settle(me, ch, e.fd as usize, &mut { Armed::NOT }),
            };
        }
        let end = ready::end(ch);
        let e = &mut self.all()[k];
        e.owed = false;
        e.armed = sight == Sight::Armed;
        // The kernel tells of what it has, and of what comes.
        (e.told, e.fresh) = (end, false);
        true
    }

    /// Whether a call may sleep beside what was told of registration `k`, which is by edge.
    fn owes_next(&mut self, k: usize, ch: &Channel) -> bool {
        let shares = self.shares;
        let e = &mut self.all()[k];
        let head = ch.head().position();
        if e.owed && shares == Shares::Yes {
            return true;
        }
        let stays = shares == Shares::Again && e.owed && e.head == head;
        (e.owed, e.head) = (shares != Shares::No && !stays, head);
        if e.owed {
            sets::attends(e.fd as usize, true);
        }
        e.owed
    }

    /// Whether a call that sleeps does so beside bytes that others are to read.
    pub fn owes(&mut self) -> bool {
        self.hot().iter().any(|e| e.owed)
    }

    /// Puts the oldest bytes of registration `k`, which is told once, into the kernel lane, as long as that pays.
    fn show(&mut self, me: &Caller, k: usize, ch: &Channel) -> bool {
        let e = &mut self.all()[k];
        let fd = e.fd as usize;
        if !ch.chunk().valid() {
            let head = ch.head().position();
            e.poor = match head.wrapping_sub(e.shown) < WORTH {
                true => e.poor + 1,
                false => 0,
            };
            e.shown = head;
            if e.poor > POOR {
                e.poor = 0;
                handback::hand_back(me, ch, fd, false, Reason::SecondReader);
                return false;
            }
        }
        ready::show(me, ch, fd)
    }

    /// The kernel tells of registration `k`: its pipe is handed back until its traffic pays again. Of one that is told once it
    /// is enough that the kernel lane has the oldest bytes.
    pub fn leave_to_kernel(&mut self, me: &Caller, k: usize) {
        let e = self.all()[k];
        if let Some(ch) = e.channel(me) {
            if e.once && e.reads() && self.show(me, k, ch) {
                return;
            }
            // By edge with several threads it would be so each time.
            let seldom = e.edge && self.waiters > 0;
            let why = match seldom {
                true => Reason::SecondReader,
                false => Reason::Readiness,
            };
            handback::hand_back(me, ch, e.fd as usize, false, why);
        }
    }

    fn disarm_hot(&mut self, me: &Caller) {
        for k in 0..self.hot {
            let looks = self.all()[k].looks;
            self.wake(me, k);
            self.all()[k].looks = looks;
        }
    }

    /// The kernel has told `data`. By edge it tells once of a byte in the kernel lane, and of no byte of the ring behind it.
    pub fn told(&mut self, me: &Caller, data: u64) {
        if self.once > 0
            && let Some(k) = self.by_data(data)
        {
            let e = &mut self.all()[k];
            // Else it is of a descriptor that is no carried pipe.
            let told = |ch: &Channel| ch.tail().closed() || ready::is_told(ch);
            let may = !e.reads() || e.channel(me).is_none_or(told);
            e.off |= e.once && e.sure && !e.alike && may;
        }
        for k in self.hot..self.n {
            if self.idle_edges == 0 {
                return;
            }
            let e = self.all()[k];
            if e.edge && e.data == data {
                self.edge_told(me, k);
            }
        }
    }

    /// An event of registration `k`, which is by edge and armed, was told. Others that sleep are told of more by the kernel.
    fn edge_told(&mut self, me: &Caller, k: usize) {
        let is_inbox = self.all()[k].channel(me).is_some_and(Channel::is_inbox);
        match self.waiters {
            0 => {
                self.wake(me, k);
            }
            // Its senders use the kernel's queue while anyone sleeps, and the kernel tells of each datagram.
            _ if is_inbox => {}
            _ => self.leave_to_kernel(me, k),
        }
    }

    /// A call that waited has come back: what had nothing for long stays armed, and so does all while others sleep.
    pub fn comes_home(&mut self, me: &Caller) {
        let (mut longest, mut in_vain) = (0, None);
        for k in (0..self.hot).rev() {
            let e = self.all()[k];
            if !e.armed {
                continue;
            }
            let ch = e.channel(me);
            let told = ch.is_none_or(ready::is_told);
            let is_fifo = ch.is_some_and(Channel::is_fifo);
            // An inbox is of many senders, and never opens again.
            let may_leave = ch.is_some_and(|ch| ch.is_socket() && !ch.is_inbox());
            if e.unmatched || e.once && !is_fifo || !told && e.rests() && !is_fifo {
                self.idles(k);
            } else if self.waiters > 0 {
                if told && e.edge {
                    self.edge_told(me, k);
                }
            } else {
                let k = self.wake(me, k);
                self.all()[k].looks = if told { 0 } else { e.looks };
                if may_leave && !told && e.looks > longest {
                    (longest, in_vain) = (e.looks, Some(e.fd as usize));
                }
            }
        }
        if let Some(fd) = in_vain {
            self.was_in_vain(me, fd);
        }
    }

    /// A call that waited has come back for others than the socket `fd`, which had nothing for longest. To arm it for the wait
    /// took about what a look saves that finds bytes: where those are fewer, it is left.
    fn was_in_vain(&mut self, me: &Caller, fd: usize) {
        if self.in_vain == 0 {
            self.in_vain_from = clock::now();
        }
        self.in_vain += 1;
        if self.in_vain < policy::IN_VAIN {
            return;
        }
        self.in_vain = 0;
        let Some(k) = self.place(fd) else { return };
        if let Some(ch) = self.all()[k].channel(me) {
            let how = policy::how_left(me, ch, self.in_vain_from);
            pass_through::leave(me, ch, fd, how);
        }
    }
}
