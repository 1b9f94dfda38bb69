//! Lays out the file that processes map: a header page, the rewritten text, the stubs.
//!
//! ```text
//! site:  jmp stub            stub:  displaced instructions
//!        (int3 ...)                 lea r11, [syscall]      syscall: at the site, or in the stub when the
//!        syscall                    jmp  [cell]             window reaches behind it; then also:
//!                                   syscall; displaced ones; jmp back
//! ```
//! The calls to a cancellation bridge lead to a stub of their own:
//! mov eax, its pending bit; lea r11, [bridge]; jmp [cell + 8].
//!
//! Invariant: the stubs refer to the text and to their cell by distance only, so the file needs no relocation. A byte that changed
//! later is seen: the head has its own sum, which the preload library checks, and the checksum of all that is behind it.
//! Not here: which sites (scan.rs); the cell's contents (the preload library writes them).
use super::scan::Scan;
use super::window::Site;
use byway_sys::cached::{self, MAGIC};
use iced_x86::{BlockEncoder, BlockEncoderOptions, InstructionBlock};
use std::io::Read;

const PAGE: usize = 4096;
/// The stubs lie this far below the text.
const DISTANCE: u64 = 1 << 30;

/// Where the header has the length of the stubs, and where in the file they begin.
const STUB_LEN: usize = 40;
const STUB_OFF: usize = 48;
/// Where the header has the checksum of what is behind the head.
const CHECKSUM: usize = 72;
/// Where the header has the build-id's length, and the build-id.
const BUILD_ID: usize = 80;
/// Longest build-id that is stored; of a longer one the beginning.
const BUILD_ID_MOST: usize = 32;
/// Length of the head. Its last word is its sum.
const HEAD: usize = 8 * cached::WORDS;
const SUM: usize = HEAD - 8;
/// Where an "unable" file has its reason, and how long that may be.
const REASON: usize = HEAD;
const REASON_MOST: usize = 1000;

/// A cache file without a text: kind 0 (clean) or 2 (unable).
pub fn note(kind: u32, why: &str, build_id: &[u8]) -> Vec<u8> {
    let mut v = vec![0; PAGE];
    v[..8].copy_from_slice(&MAGIC);
    v[8..12].copy_from_slice(&kind.to_le_bytes());
    let id = &build_id[..build_id.len().min(BUILD_ID_MOST)];
    v[BUILD_ID] = id.len() as u8;
    v[BUILD_ID + 8..][..id.len()].copy_from_slice(id);
    let n = why.len().min(REASON_MOST);
    v[REASON..REASON + n].copy_from_slice(&why.as_bytes()[..n]);
    seal(&mut v);
    v
}

/// Writes the checksums of a file that is complete.
fn seal(v: &mut [u8]) {
    let sum = u64::from(crc32fast::hash(&v[HEAD..]));
    v[CHECKSUM..CHECKSUM + 8].copy_from_slice(&sum.to_le_bytes());
    let sum = cached::sum(&words(v));
    v[SUM..HEAD].copy_from_slice(&sum.to_le_bytes());
}

/// The head of a file.
fn words(v: &[u8]) -> [u64; cached::WORDS] {
    std::array::from_fn(|k| word(v, 8 * k))
}

fn word(v: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| v[at + i]))
}

/// The first page of a file that is whole.
pub struct Found([u8; PAGE]);

impl Found {
    fn kind(&self) -> u32 {
        word(&self.0, 8) as u32
    }

    /// The reason in an "unable" file.
    pub fn unable(&self) -> Option<String> {
        let s = &self.0[REASON..REASON + REASON_MOST];
        let n = s.iter().position(|&c| c == 0).unwrap_or(REASON_MOST);
        (self.kind() == 2).then(|| String::from_utf8_lossy(&s[..n]).into_owned())
    }
}

/// Reads the first page of the file `f` of `len` bytes; `None` if that is not as it was written, or the length is another.
pub fn begun(mut f: impl Read, len: u64) -> Option<Found> {
    let mut first = Found([0; PAGE]);
    f.read_exact(&mut first.0).ok()?;
    let head = words(&first.0);
    let long = match first.kind() {
        1 => word(&first.0, STUB_OFF).wrapping_add(word(&first.0, STUB_LEN)),
        _ => PAGE as u64,
    };
    let good = head[0] == u64::from_le_bytes(MAGIC)
        && word(&first.0, SUM) == cached::sum(&head)
        && len == long;
    good.then_some(first)
}

/// As `begun`, of the whole file.
pub fn whole(mut f: impl Read, len: u64) -> Option<Found> {
    let first = begun(&mut f, len)?;
    let mut sum = crc32fast::Hasher::new();
    sum.update(&first.0[HEAD..]);
    // Read, not mapped: a file that somebody cuts off meanwhile is not the end of us.
    let mut part = vec![0; 1 << 16];
    let mut left = len - PAGE as u64;
    while left > 0 {
        let n = left.min(part.len() as u64) as usize;
        f.read_exact(&mut part[..n]).ok()?;
        sum.update(&part[..n]);
        left -= n as u64;
    }
    (u64::from(sum.finalize()) == word(&first.0, CHECKSUM)).then_some(first)
}

/// The file for a scanned object.
///
/// # Errors
/// A sentence that says which site could not be encoded.
pub fn build(s: &Scan) -> Result<Vec<u8>, String> {
    let text_len = s.text.len().next_multiple_of(PAGE);
    if text_len as u64 > DISTANCE / 2 {
        return Err("its text is too large".into());
    }
    let mut text = s.text.to_vec();
    text.resize(text_len, 0);
    // Two passes: the cell stands behind the stubs, whose length the first pass tells.
    let base = s.text_vaddr.wrapping_sub(DISTANCE);
    let length = stubs(s, base, base, None)?.len().next_multiple_of(PAGE);
    let code = stubs(s, base, base.wrapping_add(length as u64), Some(&mut text))?;
    let mut v = note(1, "", &s.build_id);
    for (k, n) in [
        (16, s.text_vaddr),
        (24, text_len as u64),
        (32, PAGE as u64),
        (STUB_LEN, length as u64),
        (STUB_OFF, (PAGE + text_len) as u64),
        (56, DISTANCE),
        (64, length as u64),
    ] {
        v[k..k + 8].copy_from_slice(&n.to_le_bytes());
    }
    v.extend_from_slice(&text);
    v.extend_from_slice(&code);
    v.resize(PAGE + text_len + length, 0xcc);
    seal(&mut v);
    Ok(v)
}

fn rel32(from_next: u64, to: u64) -> Result<[u8; 4], String> {
    let d = to.wrapping_sub(from_next) as i64;
    i32::try_from(d)
        .map(i32::to_le_bytes)
        .map_err(|_| "a jump does not reach".into())
}

fn stubs(
    s: &Scan,
    base: u64,
    cell: u64,
    mut text: Option<&mut Vec<u8>>,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for site in &s.sites {
        let start = base.wrapping_add(out.len() as u64);
        stub(site, base, cell, &mut out)?;
        if let Some(t) = text.as_deref_mut() {
            let at = (site.start - s.text_vaddr) as usize;
            let n = (site.replaced() - site.start) as usize;
            t[at] = 0xe9;
            t[at + 1..at + 5].copy_from_slice(&rel32(site.start + 5, start)?);
            t[at + 5..at + n].fill(0xcc);
        }
    }
    if let Some(b) = &s.bridge {
        let stub = base.wrapping_add(out.len() as u64);
        // mov eax, pending
        out.extend_from_slice(&[0xb8, b.pending, 0, 0, 0]);
        go(stub + 5, b.start, cell.wrapping_add(8), &mut out)?;
        if let Some(t) = text {
            for i in &b.calls {
                // The distance is the instruction's last four bytes.
                let at = (i.next_ip() - s.text_vaddr) as usize;
                t[at - 4..at].copy_from_slice(&rel32(i.next_ip(), stub)?);
            }
        }
    }
    Ok(out)
}

/// Length of what `go` emits.
const GO_LEN: u64 = 13;

/// lea r11, [target]; jmp [cell]: both relative.
fn go(at: u64, target: u64, cell: u64, out: &mut Vec<u8>) -> Result<(), String> {
    out.extend_from_slice(&[0x4c, 0x8d, 0x1d]);
    out.extend_from_slice(&rel32(at + 7, target)?);
    out.extend_from_slice(&[0xff, 0x25]);
    out.extend_from_slice(&rel32(at + GO_LEN, cell)?);
    Ok(())
}

fn stub(site: &Site, base: u64, cell: u64, out: &mut Vec<u8>) -> Result<(), String> {
    let here = |out: &Vec<u8>| base.wrapping_add(out.len() as u64);
    let before = site.insns.len() - site.after;
    displaced(&site.insns[..before], here(out), out)?;
    let at = here(out);
    let target = if site.moved {
        at + GO_LEN
    } else {
        site.syscall
    };
    go(at, target, cell, out)?;
    if site.moved {
        out.extend_from_slice(&[0x0f, 0x05]);
        displaced(&site.insns[before..], here(out), out)?;
        let at = here(out);
        out.push(0xe9);
        out.extend_from_slice(&rel32(at + 5, site.end)?);
    }
    Ok(())
}

fn displaced(insns: &[iced_x86::Instruction], at: u64, out: &mut Vec<u8>) -> Result<(), String> {
    if insns.is_empty() {
        return Ok(());
    }
    let r = BlockEncoder::encode(
        64,
        InstructionBlock::new(insns, at),
        BlockEncoderOptions::NONE,
    )
    .map_err(|e| format!("an instruction cannot be moved: {e}"))?;
    out.extend_from_slice(&r.code_buffer);
    Ok(())
}
