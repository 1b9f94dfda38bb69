//! io_uring: the layout of what a program shares with the kernel, and which descriptors a request names.
//!
//! Invariant: what is not known here is said to be unknown: a flag, an operation, an operation of io_uring_register(2).
//! Where a word of a request may be a descriptor or another number, it is called a descriptor.
//! Not here: where a ring is mapped, and what becomes of a descriptor that a request names (preload library, uring.rs).

/// LINUX io_uring_setup(2): the bytes of struct io_uring_params.
pub const PARAMS: usize = 120;
/// Where it has `flags`.
pub const PARAMS_FLAGS: usize = 8;
/// Where it has the first word of struct io_sqring_offsets.
pub const PARAMS_SQ: usize = 40;

/// LINUX io_uring_enter(2): the ring is named by its place among those that the thread has registered.
pub const ENTER_REGISTERED_RING: usize = 1 << 4;

/// LINUX io_uring_setup(2): a thread of the kernel's submits, at any moment (SQPOLL, SQ_AFF); the program has the ring's memory
/// (NO_MMAP); the ring has no descriptor (REGISTERED_FD_ONLY). Of a ring with one of these nobody sees what is submitted.
const UNSEEN: u32 = 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15;
/// The flags up to NO_SQARRAY.
const KNOWN: u32 = (1 << 17) - 1;
const SQE128: u32 = 1 << 10;
const NO_SQARRAY: u32 = 1 << 16;

/// Whether what a ring with these `flags` is given can be seen by whoever enters it.
pub fn is_seen(flags: u32) -> bool {
    flags & !KNOWN == 0 && flags & UNSEEN == 0
}

/// Where the parts of a ring are: in its first mapping, and in that of its requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    pub head: usize,
    pub tail: usize,
    /// The array of the numbers of requests; `None`: they are submitted in their order.
    pub array: Option<usize>,
    /// How many requests there are, a power of two; and the bytes of one.
    pub entries: usize,
    pub size: usize,
}

/// LINUX mmap(2) of a ring: where the kernel has the ring, and the requests.
pub const OFF_RING: usize = 0;
pub const OFF_REQUESTS: usize = 0x1000_0000;

impl Layout {
    /// That of no ring.
    pub const NONE: Layout = Layout {
        head: 0,
        tail: 0,
        array: None,
        entries: 0,
        size: 0,
    };
    /// From the first 72 bytes of struct io_uring_params as the kernel has filled it; `None`: it makes no sense.
    pub fn of(params: &[u32; 18]) -> Option<Layout> {
        let flags = params[PARAMS_FLAGS / 4];
        let sq = &params[PARAMS_SQ / 4..];
        let entries = params[0] as usize;
        let layout = Layout {
            head: sq[0] as usize,
            tail: sq[1] as usize,
            array: (flags & NO_SQARRAY == 0).then_some(sq[6] as usize),
            entries,
            size: if flags & SQE128 != 0 { 128 } else { 64 },
        };
        let aligned = [layout.head, layout.tail, layout.array.unwrap_or(0)];
        let ok = entries.is_power_of_two() && aligned.iter().all(|at| at.is_multiple_of(4));
        (ok && layout.ring_bytes() < 1 << 24).then_some(layout)
    }
    /// Bytes of the ring's mapping up to the last word that is needed.
    pub fn ring_bytes(&self) -> usize {
        let array = self.array.map_or(0, |at| at + self.entries * 4);
        array.max(self.head + 4).max(self.tail + 4)
    }
    /// Bytes of the requests' mapping.
    pub fn request_bytes(&self) -> usize {
        self.entries * self.size
    }
}

/// What a request has to do with something that a descriptor, or an address, names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// It moves the bytes of this descriptor, tells of them, or changes it.
    Used(u32),
    /// It closes it.
    Closed(u32),
    /// It changes the registration of a descriptor in a set of epoll's.
    Registered { set: u32, fd: u32 },
    /// It sends the struct msghdr at this address, with the descriptors in it.
    Message(usize),
    /// It registers the descriptors of an array.
    List { at: usize, n: usize },
}

/// What an operation says of the words of its request.
#[derive(Clone, Copy)]
enum Kind {
    /// It names no descriptor that has bytes, but that of a file or a folder.
    Nothing,
    Uses,
    /// Two.
    Splices,
    Closes,
    Registers,
    Sends,
    Updates,
    /// None of those that are known.
    Unknown,
}

/// LINUX include/uapi/linux/io_uring.h: the operations in their order, from IORING_OP_NOP on, as of Linux 6.18.
#[rustfmt::skip]
const OPERATIONS: [Kind; 63] = {
    use Kind::{Closes, Nothing, Registers, Sends, Splices, Updates, Uses};
    [
        // NOP, READV, WRITEV, FSYNC, READ_FIXED, WRITE_FIXED, POLL_ADD, POLL_REMOVE
        Nothing, Uses, Uses, Nothing, Uses, Uses, Uses, Nothing,
        // SYNC_FILE_RANGE, SENDMSG, RECVMSG, TIMEOUT, TIMEOUT_REMOVE, ACCEPT, ASYNC_CANCEL, LINK_TIMEOUT
        Nothing, Sends, Uses, Nothing, Nothing, Uses, Nothing, Nothing,
        // CONNECT, FALLOCATE, OPENAT, CLOSE, FILES_UPDATE, STATX, READ, WRITE
        Uses, Nothing, Nothing, Closes, Updates, Nothing, Uses, Uses,
        // FADVISE, MADVISE, SEND, RECV, OPENAT2, EPOLL_CTL, SPLICE, PROVIDE_BUFFERS
        Nothing, Nothing, Uses, Uses, Nothing, Registers, Splices, Nothing,
        // REMOVE_BUFFERS, TEE, SHUTDOWN, RENAMEAT, UNLINKAT, MKDIRAT, SYMLINKAT, LINKAT
        Nothing, Splices, Uses, Nothing, Nothing, Nothing, Nothing, Nothing,
        // MSG_RING, FSETXATTR, SETXATTR, FGETXATTR, GETXATTR, SOCKET, URING_CMD, SEND_ZC
        Nothing, Nothing, Nothing, Nothing, Nothing, Nothing, Uses, Uses,
        // SENDMSG_ZC, READ_MULTISHOT, WAITID, FUTEX_WAIT, FUTEX_WAKE, FUTEX_WAITV, FIXED_FD_INSTALL, FTRUNCATE
        Sends, Uses, Nothing, Nothing, Nothing, Nothing, Nothing, Nothing,
        // BIND, LISTEN, RECV_ZC, EPOLL_WAIT, READV_FIXED, WRITEV_FIXED, PIPE
        Uses, Uses, Uses, Uses, Uses, Uses, Nothing,
    ]
};

/// LINUX struct io_uring_sqe, its first 64 bytes.
#[derive(Clone, Copy)]
pub struct Request(pub [u32; 16]);

impl Request {
    /// The descriptor is a place among the registered files, which were seen when they were registered.
    const FIXED_FILE: u32 = 1 << 8;
    const SPLICE_FD_IN_FIXED: u32 = 1 << 31;

    fn address(&self, at: usize) -> usize {
        (u64::from(self.0[at / 4]) | u64::from(self.0[at / 4 + 1]) << 32) as usize
    }

    /// Tells `each` what it names. False: it is an operation that is not known.
    pub fn names(&self, mut each: impl FnMut(Names)) -> bool {
        let words = &self.0;
        let [first, fd, second] = [words[0], words[1], words[11]];
        let kind = OPERATIONS.get((first & 0xff) as usize);
        let is_fixed = first & Self::FIXED_FILE != 0;
        let mut own = || {
            if !is_fixed {
                each(Names::Used(fd));
            }
        };
        match kind.copied().unwrap_or(Kind::Unknown) {
            Kind::Nothing => {}
            Kind::Uses => own(),
            Kind::Splices => {
                own();
                if words[7] & Self::SPLICE_FD_IN_FIXED == 0 {
                    each(Names::Used(second));
                }
            }
            Kind::Sends => {
                own();
                each(Names::Message(self.address(16)));
            }
            // Else it is a place among the registered files.
            Kind::Closes if second == 0 => each(Names::Closed(fd)),
            Kind::Closes => {}
            Kind::Registers => each(Names::Registered {
                set: fd,
                fd: words[2],
            }),
            Kind::Updates => each(Names::List {
                at: self.address(16),
                n: words[6] as usize,
            }),
            Kind::Unknown => return false,
        }
        true
    }
}

/// What an operation of io_uring_register(2) has to do with descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registers {
    Nothing,
    /// Its array, of so many as its last argument says.
    List,
    /// The array that the structure of `bytes` bytes at its argument has the address of, at one place, and the number of, at
    /// another; `None`: of so many as its last argument says.
    ListAt {
        bytes: usize,
        at: usize,
        n: Option<usize>,
    },
    Unknown,
}

/// What `operation` does.
pub fn registers(operation: u32) -> Registers {
    match operation {
        // FILES
        2 => Registers::List,
        // FILES_UPDATE
        6 => Registers::ListAt {
            bytes: 16,
            at: 8,
            n: None,
        },
        // FILES2
        13 => Registers::ListAt {
            bytes: 32,
            at: 16,
            n: Some(0),
        },
        // FILES_UPDATE2
        14 => Registers::ListAt {
            bytes: 32,
            at: 8,
            n: Some(24),
        },
        // Buffers; UNREGISTER_FILES; eventfds, a probe, personalities, restrictions; workers.
        0 | 1 | 3..=5 | 7..=12 | 15..=19 => Registers::Nothing,
        // Not RING_FDS (20), by which an entry names no descriptor, and RESIZE_RINGS (33), after which the ring is elsewhere.
        // Rings of buffers, cancelling, a range of places; NAPI, the clock, CLONE_BUFFERS, a message to a ring;
        // MEM_REGION, QUERY.
        21..=31 | 34 | 35 => Registers::Nothing,
        _ => Registers::Unknown,
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    /// A request by its words of four bytes: (place, word).
    fn request(words: &[(usize, u32)]) -> Request {
        let mut all = [0; 16];
        words.iter().for_each(|(at, word)| all[at / 4] = *word);
        Request(all)
    }

    fn named(r: Request) -> Option<Vec<Names>> {
        let mut all = Vec::new();
        r.names(|n| all.push(n)).then_some(all)
    }

    #[test]
    fn a_request_names_its_descriptors() {
        let used = |fds: &[u32]| fds.iter().map(|fd| Names::Used(*fd)).collect::<Vec<_>>();
        const FIXED: u32 = 1 << 8;
        const DRAIN: u32 = 1 << 9;
        type Row<'a> = (&'a str, &'a [(usize, u32)], Vec<Names>);
        #[rustfmt::skip]
        let table: &[Row] = &[
            ("nop", &[(0, 0), (4, 7)], used(&[])),
            ("readv", &[(0, 1), (4, 7)], used(&[7])),
            ("read", &[(0, 22), (4, 7), (16, 99)], used(&[7])),
            ("drained read", &[(0, 22 | DRAIN), (4, 7)], used(&[7])),
            ("read of a registered file", &[(0, 22 | FIXED), (4, 7)], used(&[])),
            ("poll", &[(0, 6), (4, 8)], used(&[8])),
            ("splice", &[(0, 30), (4, 7), (44, 9)], used(&[7, 9])),
            ("splice from a registered file", &[(0, 30), (4, 7), (28, 1 << 31), (44, 9)], used(&[7])),
            ("tee to a registered file", &[(0, 33 | FIXED), (4, 7), (44, 9)], used(&[9])),
            ("close", &[(0, 19), (4, 7)], [Names::Closed(7)].into()),
            ("close of a registered file", &[(0, 19), (44, 3)], used(&[])),
            ("epoll_ctl", &[(0, 29), (4, 5), (8, 6), (24, 1)], [Names::Registered { set: 5, fd: 6 }].into()),
            ("sendmsg", &[(0, 9), (4, 7), (16, 0x1000), (20, 1)], [Names::Used(7), Names::Message(0x1_0000_1000)].into()),
            ("files_update", &[(0, 20), (16, 0x1000), (24, 4)], [Names::List { at: 0x1000, n: 4 }].into()),
            ("provide_buffers", &[(0, 31), (4, 7)], used(&[])),
            ("futex_wait", &[(0, 51), (4, 2)], used(&[])),
            ("writev_fixed", &[(0, 61), (4, 7)], used(&[7])),
            ("pipe", &[(0, 62)], used(&[])),
        ];
        for (what, words, names) in table {
            assert_eq!(named(request(words)).as_ref(), Some(names), "{what}");
        }
        for unknown in [63, 200, 255] {
            assert_eq!(named(request(&[(0, unknown)])), None);
        }
    }

    #[test]
    fn a_ring_whose_requests_are_not_seen_is_known() {
        for seen in [
            0,
            1,
            1 << 3 | 1 << 6,
            1 << 12 | 1 << 13,
            SQE128 | NO_SQARRAY,
        ] {
            assert!(is_seen(seen), "{seen:#x}");
        }
        for unseen in [1 << 1, 1 << 14, 1 << 15, 1 << 17, 1 << 31, 1 << 12 | 1 << 1] {
            assert!(!is_seen(unseen), "{unseen:#x}");
        }
    }

    #[test]
    fn a_layout_is_of_the_parameters() {
        let mut params = [0; 18];
        (params[0], params[10], params[11], params[16]) = (8, 0, 4, 320);
        let layout = Layout::of(&params).unwrap();
        assert_eq!((layout.head, layout.tail, layout.array), (0, 4, Some(320)));
        assert_eq!((layout.ring_bytes(), layout.request_bytes()), (352, 512));
        params[2] = SQE128 | NO_SQARRAY;
        let layout = Layout::of(&params).unwrap();
        assert_eq!((layout.array, layout.ring_bytes()), (None, 8));
        assert_eq!(layout.request_bytes(), 1024);
        params[0] = 7;
        assert_eq!(Layout::of(&params), None);
        (params[0], params[11]) = (8, 1 << 30);
        assert_eq!(Layout::of(&params), None);
    }

    #[test]
    fn what_is_registered_is_known() {
        assert_eq!(registers(2), Registers::List);
        assert_eq!(registers(8), Registers::Nothing);
        for unknown in [20, 32, 33, 36, 1 << 31 | 2] {
            assert_eq!(registers(unknown), Registers::Unknown);
        }
    }
}
