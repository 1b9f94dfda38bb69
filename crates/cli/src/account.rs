//! What one channel has carried, and why not all: read out of its slot, for `--explain`.
//!
//! Invariant: a number is exact, or is said to be the least that it can be. One reason has one phrase. What a peer has
//! written is shown without anything that a terminal would obey.
//! Not here: which channels are a run's own (domain.rs), how they are told (explain.rs).
use byway_mem::domain::Domain;
use byway_mem::layout::flags;
use byway_pipe::channel::{Channel, OTHERS};
use byway_pipe::peer;
use byway_pipe::reason::Reason;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Traffic that is worth no ring (crate pipe, policy.rs).
const LITTLE: u64 = 64 << 10;

/// Bytes that have gone through a channel.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub carried: u64,
    /// Of those, in one copy.
    pub direct: u64,
    /// Through the kernel's pipe, as far as they were counted.
    pub kernel: u64,
    /// Calls that waited for it among others, wake-ups of a reader, and hand-backs of a ring.
    pub polls: u32,
    pub wakes: u32,
    pub hand_backs: u32,
}

impl Counts {
    pub fn of(ch: &Channel) -> Counts {
        let (w, r) = (&ch.writer.0, &ch.reader.0);
        let carried = w.bytes.load(Relaxed);
        let written = w.kernel.load(Relaxed);
        Counts {
            carried,
            direct: ch.offer().bytes.load(Relaxed),
            // Where no writer is seen, its readers tell.
            kernel: match carried + written {
                0 => r.kernel.load(Relaxed),
                _ => written,
            },
            polls: r.polls.load(Relaxed),
            wakes: r.wakes.load(Relaxed),
            hand_backs: r.hand_backs.load(Relaxed),
        }
    }

    /// What came after `before`. A channel that was made anew since began at 0.
    fn since(self, before: Counts) -> Counts {
        let less = |now: u64, then: u64| now.checked_sub(then).unwrap_or(now);
        let fewer = |now: u32, then: u32| now.checked_sub(then).unwrap_or(now);
        Counts {
            carried: less(self.carried, before.carried),
            direct: less(self.direct, before.direct),
            kernel: less(self.kernel, before.kernel),
            polls: fewer(self.polls, before.polls),
            wakes: fewer(self.wakes, before.wakes),
            hand_backs: fewer(self.hand_backs, before.hand_backs),
        }
    }
}

/// Why not all of it was carried.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cause {
    /// Whose doing it was, if that is known.
    pub program: Option<String>,
    /// What that program does; without a program a whole clause.
    pub text: &'static str,
}

/// What kind of object a channel is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Pipe,
    Fifo,
    /// One direction of a connection.
    Socket,
}

impl Kind {
    fn of(ch: &Channel) -> Kind {
        match (ch.is_fifo(), ch.is_socket()) {
            (true, _) => Kind::Fifo,
            (_, true) => Kind::Socket,
            _ => Kind::Pipe,
        }
    }
    pub fn name(self) -> &'static str {
        match self {
            Kind::Pipe => "pipe",
            Kind::Fifo => "fifo",
            Kind::Socket => "socket",
        }
    }
}

/// What is told of a channel.
#[derive(Clone)]
pub struct Entry {
    pub kind: Kind,
    pub inode: u64,
    pub writer: String,
    pub reader: String,
    pub counts: Counts,
    /// Whether every byte that the kernel had was counted.
    pub is_exact: bool,
    /// Reads, writes and calls such as splice that were seen, and whose bytes were not counted.
    pub calls: u32,
    pub cause: Option<Cause>,
}

impl Entry {
    /// Of `ch`, what came after `before`.
    pub fn of(d: &Domain, ch: &Channel, inode: u64, before: Counts) -> Entry {
        let (f, names) = (&ch.facts.0, &ch.readers.0.names);
        let counts = Counts::of(ch).since(before);
        let is_exact = f.left.load(Relaxed) == 0
            && f.passed.load(Relaxed) == 0
            && f.pending.load(Relaxed) == 0
            && f.forever.load(Relaxed) == 0
            && !ch.is_fifo()
            && !ch.is_inbox();
        let mut entry = Entry {
            kind: Kind::of(ch),
            inode,
            writer: side(&names.writer),
            reader: side(&names.reader),
            counts,
            is_exact,
            calls: f.left.load(Relaxed),
            cause: None,
        };
        let why = Reason::from(f.why.load(Relaxed));
        // A program that takes no part has it for good, whatever there was before for the moment.
        let is_outsiders = f.pending.load(Relaxed) != 0 && f.forever.load(Relaxed) == 0;
        entry.cause = match why {
            why if is_outsiders || matches!(why, Reason::Cold | Reason::ReaderGone) => {
                entry.uncaused(d, ch).map(|text| Cause {
                    program: None,
                    text,
                })
            }
            why => {
                let program = Some(side(&names.culprit)).filter(|n| n != UNKNOWN);
                Some(cause(why, program))
            }
        };
        entry
    }

    /// Where no call has made it the kernel's.
    fn uncaused(&self, d: &Domain, ch: &Channel) -> Option<&'static str> {
        let f = &ch.facts.0;
        if f.pending.load(Relaxed) != 0 {
            return Some("a program that takes no part has it");
        }
        let saved_nothing = (f.passed.load(Relaxed) != 0).then_some("a ring saved it nothing");
        if self.counts.carried > 0 {
            return saved_nothing;
        }
        if self.is_exact && self.all() == 0 {
            return Some(EMPTY_TEXT);
        }
        let never_began = match self.counts.kernel <= LITTLE {
            true => LITTLE_TEXT,
            false => "carrying never began",
        };
        if ch.is_socket() && !peer::is_matched(ch) {
            // Its reader is not known to the channel.
            return Some(never_began);
        }
        let nobody = (self.writer == UNKNOWN, self.reader == UNKNOWN);
        Some(match nobody {
            (true, true) => "nobody used it",
            (true, false) => "no program that takes part wrote",
            (false, true) => "no program that takes part read",
            _ if d.header().flags.load(Relaxed) & flags::NO_CARRY != 0 => "--forbid carry",
            _ => saved_nothing.unwrap_or(never_began),
        })
    }

    pub fn all(&self) -> u64 {
        self.counts.carried + self.counts.kernel
    }
}

/// Of a channel that was not worth a ring.
pub const LITTLE_TEXT: &str = "under 64 KiB";
const EMPTY_TEXT: &str = "nothing went through";
const UNKNOWN: &str = "?";

/// Whether nothing was lost by it.
pub fn is_harmless(c: &Cause) -> bool {
    matches!(c.text, LITTLE_TEXT | EMPTY_TEXT)
}

/// Whether a program meets the reason only after it has begun to take part.
pub fn is_later(why: Reason) -> bool {
    use Reason::{Bare, LeftAlone, Place, Stray, Unable, Unknown};
    !matches!(why, Bare | LeftAlone | Place | Stray | Unable | Unknown)
}

/// The name of a side, and whether others have used it too.
fn side(words: &[AtomicU64; 2]) -> String {
    let words = words.each_ref().map(|w| w.load(Relaxed));
    let others = if words[1] & OTHERS != 0 {
        " + others"
    } else {
        ""
    };
    name([words[0], words[1] & !(0xff << 56)]) + others
}

/// A program's name. A peer wrote it: nothing that a terminal would obey.
pub fn name(words: [u64; 2]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    printable(&bytes, UNKNOWN)
}

/// The text before the first NUL, without control characters; `none` if there is none.
pub fn printable(bytes: &[u8], none: &str) -> String {
    let end = bytes.iter().position(|&c| c == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.is_empty() { none.into() } else { text }
}

/// The phrase for a reason: what the program does that is behind it, or a clause of its own.
pub fn cause(why: Reason, program: Option<String>) -> Cause {
    let (by_program, text) = phrase(why);
    let program = program.or_else(|| by_program.then(|| "a program".into()));
    Cause {
        program: program.filter(|_| by_program),
        text,
    }
}

/// Whether it tells what a program does, and the words.
fn phrase(why: Reason) -> (bool, &'static str) {
    match why {
        Reason::Readiness => (true, "polls its pipes"),
        Reason::Splice => (true, "uses splice or the like"),
        Reason::IoUring => (true, "uses io_uring"),
        Reason::Control => (true, "uses a control call (fcntl, ioctl)"),
        Reason::Passed => (true, "passes it to another process"),
        Reason::Vfork => (true, "uses it in a vfork child"),
        Reason::Unshared => (true, "has threads with descriptors of their own"),
        Reason::Credentials => (true, "changes its credentials"),
        Reason::NameSpace => (true, "changes its name space or root"),
        Reason::Filter => (true, "filters its system calls"),
        Reason::Limits => (true, "limits its address space"),
        Reason::Locked => (true, "locks its memory"),
        Reason::Stack => (true, "has a small stack for its handlers"),
        Reason::Code => (true, "loads or makes code that cannot be proven"),
        Reason::NotTakingPart => (true, "takes no part"),
        Reason::Bare => (true, "is static"),
        Reason::LeftAlone => (true, "is left alone by a setting"),
        Reason::Stray => (true, "has code that is none of its libraries'"),
        Reason::Unable => (true, "has code that cannot be rewritten"),
        Reason::Unknown => (true, "has a library that was not looked at in time"),
        Reason::Place => (true, "has no room beside its code"),
        Reason::SecondReader => (false, "two readers slept at once"),
        Reason::AnotherUsers => (false, "the FIFO is another user's"),
        Reason::Unwatched => (
            false,
            "nobody could watch who opens it (fs.inotify.max_user_watches)",
        ),
        Reason::Memory => (false, "no shared memory was left"),
        Reason::Full => (false, "its reader was slower"),
        Reason::Long => (false, "its writes are long for a ring over TCP"),
        Reason::OtherEnd => (false, "the other end takes no part"),
        Reason::Address => (false, "a bad address"),
        Reason::Vector => (false, "a list of buffers that is not carried"),
        Reason::Damaged => (false, "damaged"),
        Reason::Cold | Reason::ReaderGone => (false, LITTLE_TEXT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_nothing_that_a_terminal_obeys() {
        let words = |b: &[u8; 16]| {
            let (a, b) = b.split_at(8);
            [a, b].map(|w| u64::from_le_bytes(w.try_into().unwrap()))
        };
        assert_eq!(name(words(b"cat\0\0\0\0\0\0\0\0\0\0\0\0\0")), "cat");
        assert_eq!(name(words(b"\x1b[2Jx\0\0\0\0\0\0\0\0\0\0\0")), "?[2Jx");
        assert_eq!(name([0, 0]), "?");
        let many = words(b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\x01").map(AtomicU64::new);
        assert_eq!(side(&many), "sh + others");
    }

    #[test]
    fn each_reason_has_one_phrase() {
        for n in 0..=u8::MAX {
            let text = phrase(Reason::from(n)).1;
            assert!(!text.is_empty() && !text.contains(" or of "), "{text}");
        }
        let told = cause(Reason::Readiness, Some("xargs".into()));
        assert_eq!(
            (told.program.as_deref(), told.text),
            (Some("xargs"), "polls its pipes")
        );
        assert_eq!(cause(Reason::SecondReader, Some("sh".into())).program, None);
    }

    #[test]
    fn what_came_before_does_not_count() {
        let counts = |carried, direct, kernel| Counts {
            polls: 0,
            wakes: 0,
            hand_backs: 0,
            carried,
            direct,
            kernel,
        };
        let c = counts(10, 4, 7).since(counts(3, 4, 2));
        assert_eq!((c.carried, c.direct, c.kernel), (7, 0, 5));
        // Made anew since.
        assert_eq!(counts(2, 0, 0).since(counts(3, 0, 0)).carried, 2);
    }
}
