//! How a cache file of a rewritten text is named and begins: the rewriter writes it, the preload library checks it.
//!
//! Invariant: a head whose last word is the sum of the others is as it was written; any other version has another mark.
//! Not here: what lies behind the head (crates/cli/src/rewrite/image.rs).

/// Of what the rewriter does and of how it lays a file out: two digits.
pub const VERSION: u32 = 17;
/// What a file's name ends with.
pub const SUFFIX: [u8; 4] = [b'.', b'v', DIGITS[0], DIGITS[1]];
const DIGITS: [u8; 2] = [b'0' + VERSION as u8 / 10, b'0' + VERSION as u8 % 10];
/// What a file begins with.
pub const MAGIC: [u8; 8] = [b'B', b'Y', b'W', b'A', b'Y', b'S', DIGITS[0], DIGITS[1]];
/// Words of 8 bytes that a head has; the first is the mark, the last its sum.
pub const WORDS: usize = 32;
/// Texts that a file may have: executable segments of the object that have sites.
pub const TEXTS: usize = 4;

/// Words of struct stat that a file is named by: device, inode, seconds and nanoseconds of the last change, size.
pub const NAMED: [usize; 5] = [0, 1, 13, 14, 6];

/// Which word says what.
pub mod word {
    /// What is said of the object (`kind`).
    pub const KIND: usize = 1;
    /// How many texts there are.
    pub const TEXTS: usize = 2;
    /// The stubs: how many bytes, where in the file, how far below the first text, and their cell behind their start.
    pub const STUB_LEN: usize = 3;
    pub const STUB_OFF: usize = 4;
    pub const STUB_DISP: usize = 5;
    pub const CELL_OFF: usize = 6;
    /// Of what is behind the head.
    pub const CHECKSUM: usize = 7;
    /// The build-id's length, where the object's file has it, and its first 32 bytes.
    pub const BUILD_ID_LEN: usize = 8;
    pub const BUILD_ID_OFF: usize = 9;
    pub const BUILD_ID: usize = 10;
    /// Of each text 4 words: address, length, where in the cache's file, where in the object's.
    pub const TEXT: usize = 14;
    /// What else is known of the object: the bits of `flag`.
    pub const FLAGS: usize = 30;
}

/// What a file says of its object.
pub mod kind {
    /// There is nothing to rewrite.
    pub const CLEAN: u64 = 0;
    /// The file has the rewritten texts.
    pub const SHADOW: u64 = 1;
    /// It cannot take part. Such a file names no build-id.
    pub const UNABLE: u64 = 2;
}

/// What is known of an object.
pub mod flag {
    /// It makes code at run time, of which it is known that it makes no system call.
    pub const MAKES_CODE: u64 = 1;
    /// As a program it may start behind the preload library.
    pub const PRELOADS: u64 = 2;
    /// As a program it comes by no pipe but those that it is started with, and starts no other.
    pub const SELF_CONTAINED: u64 = 4;
    /// Nothing of it is to be rewritten. Not in a cache file: that has its kind.
    pub const CLEAN: u64 = 8;
    pub const ALL: u64 = 15;
}
/// Words of a build-id; of a longer one the beginning is kept.
pub const BUILD_ID_WORDS: usize = 4;
pub const TEXT_WORDS: usize = 4;
const _: () = assert!(word::TEXT + TEXTS * TEXT_WORDS <= word::FLAGS && word::FLAGS < WORDS - 1);

/// The sum of a head: one that differs in one word has another.
pub fn sum(head: &[u64; WORDS]) -> u64 {
    head[..WORDS - 1]
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |s: u64, w| {
            // Both steps can be undone, so what differs once differs in the end.
            let s = (s ^ w).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            s ^ (s >> 29)
        })
}

/// A number for the file with this struct stat, by those of its words that a cache file is named by, and for this build-id.
pub fn identity(st: &[u64; 18], build_id: &[u8]) -> u64 {
    let mut words = [0; WORDS];
    let (named, id) = words.split_at_mut(NAMED.len());
    for (to, from) in named.iter_mut().zip(NAMED) {
        *to = st[from];
    }
    // A file has one build-id, and it is as long each time.
    for (to, from) in id.iter_mut().take(BUILD_ID_WORDS).zip(build_id.chunks(8)) {
        *to = from.iter().rev().fold(1, |w, &b| w << 8 | u64::from(b));
    }
    sum(&words)
}
