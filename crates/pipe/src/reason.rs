//! Why bytes were not carried: of a channel, and of a process that takes no part.
//!
//! Invariant: a number of shared memory that is none of these is `Damaged`.
//! Not here: the words for it (byway run, explain.rs).

/// Why a channel went, or stays, in the kernel; shown by `--explain`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Reason {
    Cold = 0,
    Readiness = 1,
    SecondReader = 2,
    Splice = 3,
    Control = 4,
    Passed = 5,
    NotTakingPart = 6,
    Memory = 7,
    Address = 8,
    Vector = 9,
    Credentials = 10,
    Damaged = 11,
    ReaderGone = 12,
    AnotherUsers = 13,
    Unwatched = 14,
    Limits = 15,
    Stack = 16,
    IoUring = 17,
    Vfork = 18,
    Unshared = 19,
    NameSpace = 20,
    Filter = 21,
    Locked = 22,
    /// Code that is not known to be free of system calls, mapped later than at the start.
    Code = 23,
    /// At the start of a program: code that belongs to no object; an object in doubt, or not looked at in time; no place
    /// for its rewritten text.
    Stray = 24,
    Unable = 25,
    Unknown = 26,
    Place = 27,
    /// It was started without the library.
    Bare = 28,
    /// A socket's ring was full: the kernel's own call waits.
    Full = 29,
    /// A socket's other end takes no part, or is not accepted yet.
    OtherEnd = 30,
    /// A TCP connection whose writes a ring holds too few of.
    Long = 31,
    /// A setting keeps the program from taking part.
    LeftAlone = 32,
}

impl From<u8> for Reason {
    fn from(n: u8) -> Reason {
        use Reason::*;
        const ALL: [Reason; 33] = [
            Cold,
            Readiness,
            SecondReader,
            Splice,
            Control,
            Passed,
            NotTakingPart,
            Memory,
            Address,
            Vector,
            Credentials,
            Damaged,
            ReaderGone,
            AnotherUsers,
            Unwatched,
            Limits,
            Stack,
            IoUring,
            Vfork,
            Unshared,
            NameSpace,
            Filter,
            Locked,
            Code,
            Stray,
            Unable,
            Unknown,
            Place,
            Bare,
            Full,
            OtherEnd,
            Long,
            LeftAlone,
        ];
        ALL.get(n as usize).copied().unwrap_or(Damaged)
    }
}
