//! Finds every way that may lead into the neighbourhood of a site from anywhere in the object.
//!
//! Invariant: a doubt makes a way more, never one less: bytes that would be a branch or take an address count wherever they
//! stand, unless they are proven to be the inner bytes of another instruction. So do loaded words that hold an address.
//! Not here: the ways within the site's own function that go by a table (flow.rs).
use super::branches::{long_target, short_target};
use super::headers::{bytes_at, segments};
use super::text::Text;
use object::elf;
use object::read::elf::FileHeader;
use std::collections::BTreeSet;

/// A window with its neighbours lies within this many bytes around its syscall.
const AROUND: u64 = 128;
/// Entries of a table that somebody else may go by.
const TABLE: usize = 2048;

/// The bytes around the syscall at `at` whose ways in matter.
pub fn zone(at: u64) -> (u64, u64) {
    (at.saturating_sub(AROUND), at + AROUND)
}

/// What is proven of the code that seems to lead somewhere.
pub trait Proofs {
    /// The byte at `at` is part of an instruction, and not its first, that does not lead to `to`.
    fn is_inner(&self, at: u64, to: u64) -> bool;
    /// The instruction at `at` takes no address of a table that leads to any of `ways`.
    fn takes_no_table(&self, at: u64, ways: &[u64]) -> bool;
}

/// All addresses in `zones` that something may lead to.
pub fn into(text: &Text, zones: &[(u64, u64)], proofs: &impl Proofs) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    if zones.is_empty() {
        return found;
    }
    let mut near = vec![false; text.code.len()];
    for &(from, to) in zones {
        let at = |a: u64| (a.clamp(text.low, text.high()) - text.low) as usize;
        near[at(from)..at(to)].fill(true);
    }
    let in_zone = |a: u64| text.holds(a) && near[(a - text.low) as usize];
    for (k, w) in text.code.windows(2).enumerate() {
        let at = text.low + k as u64;
        let short = short_target(at, w).filter(|&to| in_zone(to));
        if let Some(to) = short.filter(|&to| !proofs.is_inner(at, to)) {
            found.insert(to);
        }
        let Some((from, to)) = long_target(&text.code, text.low, at) else {
            continue;
        };
        if in_zone(to) && !proofs.is_inner(from, to) {
            found.insert(to);
        }
        if w[0] == 0x8d && !text.holds(to) {
            let ways: Vec<u64> = table(text, to).filter(|&to| in_zone(to)).collect();
            if !ways.is_empty() && !proofs.is_inner(from, to) && !proofs.takes_no_table(from, &ways)
            {
                found.extend(ways);
            }
        }
    }
    found.extend(words(text).filter(|&a| in_zone(a)));
    for &(from, to) in zones {
        found.extend(text.functions.starts(from, to));
        found.extend(text.functions.pads(from, to));
    }
    found
}

/// Perhaps a jump table at `start`: 4-byte distances from there, as long as they lead into the text and nothing else begins.
fn table<'a>(text: &'a Text, start: u64) -> impl Iterator<Item = u64> + 'a {
    let taken = text.taken();
    let next = taken.get(taken.partition_point(|&a| a <= start));
    let room = next.map_or(TABLE, |&a| ((a - start) / 4) as usize);
    let words = bytes_at(text.file, text.bytes, start).unwrap_or(&[]);
    words
        .chunks_exact(4)
        .take(room.min(TABLE))
        .map(move |w| {
            let distance = i32::from_le_bytes(w.try_into().expect("four bytes"));
            start.wrapping_add_signed(distance.into())
        })
        .take_while(|&to| text.holds(to))
}

/// Every 8-byte word that is loaded: addresses among them stand in relocations, symbols and tables. Not the words of a text that is
/// loaded anywhere: no address stands in it, for the loader would have to relocate it, and such a text is not rewritten at all.
fn words<'a>(text: &'a Text) -> impl Iterator<Item = u64> + 'a {
    let is_fixed = text.file.elf_header().e_type(text.file.endian()) != elf::ET_DYN;
    let counts = move |s: &(u64, (u64, u64))| is_fixed || !text.holds(s.0);
    segments(text.file).filter(counts).flat_map(|(address, _)| {
        let skew = (address.next_multiple_of(8) - address) as usize;
        let bytes = bytes_at(text.file, text.bytes, address).unwrap_or(&[]);
        let words = bytes.get(skew..).unwrap_or(&[]).chunks_exact(8);
        words.map(|w| u64::from_le_bytes(w.try_into().expect("eight bytes")))
    })
}
