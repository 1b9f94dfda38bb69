//! What looks like a branch, or takes an address, by its bytes alone, wherever they stand.
//!
//! Invariant: there may be more of them than the text has, never fewer.
//! Not here: what is proven of such bytes (ways.rs, scan.rs), branches of instructions that are known (instruction.rs).
use super::headers::{Elf, file_range};

/// Every branch of the text, or what looks like one: where it leads within the text and where it stands, by the former.
pub fn all(code: &[u8], low: u64) -> Vec<(u64, u64)> {
    let high = low + code.len() as u64;
    let holds = |at| (low..high).contains(&at);
    let mut v = Vec::new();
    for (k, w) in code.windows(2).enumerate() {
        let at = low + k as u64;
        if let Some(to) = short_target(at, w).filter(|&to| holds(to)) {
            v.push((to, at));
        }
        if w[0] != 0x8d
            && let Some((from, to)) = long_target(code, low, at)
            && holds(to)
        {
            v.push((to, from));
        }
    }
    v.sort_unstable();
    v
}

/// The addresses outside the text that it takes, or seems to: sorted. `holds`: whether an address is one of the text.
pub fn taken(file: &Elf, code: &[u8], low: u64, holds: impl Fn(u64) -> bool) -> Vec<u64> {
    let at = (low..).zip(code).filter(|b| *b.1 == 0x8d).map(|b| b.0);
    let mut v: Vec<u64> = at
        .filter_map(|at| long_target(code, low, at))
        .map(|(_, to)| to)
        .filter(|&to| !holds(to) && file_range(file, to).is_some())
        .collect();
    v.sort_unstable();
    v.dedup();
    v
}

/// Where a short branch at `at` would lead.
pub fn short_target(at: u64, w: &[u8]) -> Option<u64> {
    matches!(w[0], 0xeb | 0x70..=0x7f | 0xe0..=0xe3)
        .then(|| (at + 2).wrapping_add_signed(i64::from(w[1] as i8)))
}

/// Where a branch, or an instruction that takes an address, would lead with its distance behind the byte at `at`; and where
/// that instruction begins.
pub fn long_target(code: &[u8], low: u64, at: u64) -> Option<(u64, u64)> {
    let k = (at - low) as usize;
    let (from, n) = match *code.get(k..k + 2)? {
        [0xe8 | 0xe9, _] => (at, 1),
        [0x0f, 0x80..=0x8f] | [0xc7, 0xf8] => (at, 2),
        [0x8d, modrm] if modrm & 0xc7 == 0x05 => (at, 2),
        _ => return None,
    };
    let distance: [u8; 4] = code.get(k + n..k + n + 4)?.try_into().ok()?;
    let next = at + n as u64 + 4;
    Some((
        from,
        next.wrapping_add_signed(i32::from_le_bytes(distance).into()),
    ))
}
