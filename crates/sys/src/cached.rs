//! How a cache file of a rewritten text is named and begins: the rewriter writes it, the preload library checks it.
//!
//! Invariant: a head whose last word is the sum of the others is as it was written; any other version has another mark.
//! Not here: what the words mean (crates/cli/src/rewrite/image.rs), what lies behind the head.

/// Of what the rewriter does and of how it lays a file out: one digit.
pub const VERSION: u32 = 5;
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
/// Words of 8 bytes that a head has; the last is its sum.
pub const WORDS: usize = 16;

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
