//! An inbox is left: what is in its ring is sent once more, by the sockets that have sent it, or in their place.
//!
//! Invariant: the ring is closed, and its readers are held, before the first record goes; each is moved over once it went.
//! unsafe: calls of the kernel, with records of the ring and names of ours.
//! Not here: when an inbox is left (datagram.rs; preload library, udp.rs).
use super::{HEADER, Header, Sender, next, takes};
use crate::channel::Channel;
use crate::copy::{Iov, VECTORS};
use crate::lane::runs;
use crate::reason::Reason;
use crate::ring::Ring;
use crate::word::{Head, Tail};
use crate::{Caller, handback, lock};
use byway_sys::syscall::{call6, nr};
use byway_sys::tcp::Name;
use byway_sys::{file, process, socket, udp};
use core::sync::atomic::Ordering::Relaxed;

/// The inbox is the kernel's for good. What is in its ring is sent once more, by the sockets that sent it, to its socket, which
/// has the name `to`; without one it goes, as what the kernel has no room for does.
pub fn leaves(me: &Caller, ch: &Channel, to: Option<Name>, why: Reason) {
    ch.keep_closed();
    if ch.facts.0.why.load(Relaxed) == 0 {
        ch.facts.0.why.store(why as u8, Relaxed);
    }
    let Some(_taken) = lock::take(me, ch, 0, Tail::closed) else {
        return;
    };
    let mut r = lock::hold(me, ch, Head::SPILLS);
    let w = ch.tail().wide(r);
    let mut source = Source {
        of: None,
        fd: None,
        looks: LOOKS,
    };
    while let Some(to) = to.filter(|_| r < w) {
        let Some((ring, header)) = next(me, ch, r, w) else {
            break;
        };
        if let Some(by) = source.socket(ch, &header.sender()) {
            sends_again(by, to, ring, r + HEADER as u64, &header);
        }
        r += takes(header.len as usize);
        let h = ch.head();
        ch.cas_head(h, Head::owned(r, me.tid, Head::SPILLS));
    }
    handback::closed(me, ch, w);
}

/// How often every process is looked at for one inbox: each time takes some milliseconds.
const LOOKS: u32 = 4;

/// What a record is sent by once more.
struct Source {
    /// The sender of the record before, whose socket is open still.
    of: Option<Sender>,
    fd: Option<usize>,
    looks: u32,
}

impl Source {
    /// The socket that `from` has sent by. Where its process has ended or closed it, somebody else may have the socket, such as the
    /// parent; or else nobody, and then another one can have its name.
    fn socket(&mut self, ch: &Channel, from: &Sender) -> Option<usize> {
        if self.of == Some(*from) {
            return self.fd;
        }
        self.close();
        let dev = ch.facts.0.key.dev.load(Relaxed);
        self.of = Some(*from);
        self.fd = socket::fetch(from.pid, dev, from.inode);
        // An inherited filter may end the process for such a call.
        if self.fd.is_none() && !process::is_filtered() {
            self.fd = udp::with_name(usize::from(from.family), from.name);
        }
        if self.fd.is_none() && self.looks > 0 {
            self.looks -= 1;
            self.fd = socket::fetch_of_any(dev, from.inode);
        }
        self.fd
    }
    fn close(&mut self) {
        if let Some(fd) = self.fd.take() {
            file::close(fd);
        }
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.close();
    }
}

/// Sends a record's bytes, which are at `at`, to the name `to` by the socket `by`.
fn sends_again(by: usize, to: Name, ring: Ring, at: u64, header: &Header) {
    let own = socket::family(by).unwrap_or(usize::from(header.family));
    // A socket with no address of its own is reached by the one that the sender has.
    let to = match to.is_any() {
        true => Name::from(header.address, to.port),
        false => to,
    };
    let (name, len) = to.write(usize::from(header.family), own);
    let mut parts = [Iov { base: 0, len: 0 }; VECTORS];
    let n = runs(ring, at, header.len as usize, &mut parts);
    let message = socket::Message {
        name: name.as_ptr() as usize,
        name_len: len,
        parts: parts.as_ptr() as usize,
        n,
        control: 0,
        control_len: 0,
        flags: 0,
    };
    let flags = socket::MSG_NOSIGNAL | socket::MSG_DONTWAIT;
    // SAFETY: the ring's memory and the name outlive the call.
    unsafe {
        call6(nr::SENDMSG, by, &raw const message as usize, flags, 0, 0, 0);
    }
}

/// The socket is closed, and nobody else has it: what is in the ring goes, as in the kernel.
pub fn ends(me: &Caller, ch: &Channel) {
    leaves(me, ch, None, Reason::Cold);
}
