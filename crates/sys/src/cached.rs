//! How a cache file of a rewritten text is named and begins: the rewriter writes it, the preload library checks it.
//!
//! Invariant: a head whose last word is the sum of the others is as it was written; any other version has another mark.
//! Not here: what lies behind the head (crates/cli/src/rewrite/image.rs).

/// Of what the rewriter does and of how it lays a file out: one digit.
pub const VERSION: u32 = 9;
/// What a file's name ends with.
pub const SUFFIX: [u8; 3] = [b'.', b'v', b'0' + VERSION as u8];
/// What a file begins with.
pub const MAGIC: [u8; 8] = [
    b'B',
    b'Y',
    b'W',
    b'A',
    b'Y',
    b'S',
    b'H',
    b'0' + VERSION as u8,
];
/// Words of 8 bytes that a head has; the first is the mark, the last its sum.
pub const WORDS: usize = 32;
/// Texts that a file may have: executable segments of the object that have sites.
pub const TEXTS: usize = 4;

/// Which word says what.
pub mod word {
    /// 0: nothing to rewrite; 1: the texts are; 2: the object cannot take part.
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
    /// 1: the object makes code at run time, of which it is known that it makes no system call.
    pub const MAKES_CODE: usize = 30;
}
/// Words of a build-id; of a longer one the beginning is kept.
pub const BUILD_ID_WORDS: usize = 4;
pub const TEXT_WORDS: usize = 4;
const _: () =
    assert!(word::TEXT + TEXTS * TEXT_WORDS <= word::MAKES_CODE && word::MAKES_CODE < WORDS - 1);

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
