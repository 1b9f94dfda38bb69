//! Lays out the file that processes map: a header page, the rewritten texts, the stubs.
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
use super::scan::{Pages, Scan};
use super::window::Site;
use byway_sys::cached::word::{
    self, BUILD_ID, BUILD_ID_LEN, BUILD_ID_OFF, CELL_OFF, CHECKSUM, FLAGS, KIND, STUB_DISP,
    STUB_LEN, STUB_OFF, TEXT,
};
use byway_sys::cached::{self, BUILD_ID_WORDS, MAGIC, TEXT_WORDS, TEXTS, kind};
use iced_x86::{BlockEncoder, BlockEncoderOptions, InstructionBlock};
use std::io::Read;

const PAGE: usize = 4096;
/// The stubs lie this far below the first text.
const DISTANCE: u64 = 1 << 30;

/// Length of the head. Its last word is its sum.
const HEAD: usize = 8 * cached::WORDS;
const SUM: usize = HEAD - 8;
/// Longest build-id that is stored; of a longer one the beginning.
const BUILD_ID_MOST: usize = 8 * BUILD_ID_WORDS;
/// Where an "unable" file has its reason, and how long that may be.
const REASON: usize = HEAD;
const REASON_MOST: usize = 1000;

/// Where a file has the path of the object that it was made from, and how long that may be.
const PATH: usize = 2048;
const PATH_MOST: usize = PAGE - PATH;

/// Puts down the path of the object that the complete file `v` was made from; one that is too long is left out.
pub fn put_path(v: &mut [u8], path: &[u8]) {
    if path.len() < PATH_MOST {
        v[PATH..PATH + path.len()].copy_from_slice(path);
        seal(v);
    }
}

/// The cache file of an object that cannot take part.
pub fn unable(why: &str) -> Vec<u8> {
    let mut v = begin(kind::UNABLE);
    let n = why.len().min(REASON_MOST);
    v[REASON..REASON + n].copy_from_slice(&why.as_bytes()[..n]);
    seal(&mut v);
    v
}

/// The cache file of an object without a site.
pub fn clean(s: &Scan) -> Vec<u8> {
    let mut v = of_object(kind::CLEAN, s);
    seal(&mut v);
    v
}

fn begin(kind: u64) -> Vec<u8> {
    let mut v = vec![0; PAGE];
    v[..8].copy_from_slice(&MAGIC);
    set(&mut v, KIND, kind);
    v
}

/// A first page with what is known of the object.
fn of_object(kind: u64, s: &Scan) -> Vec<u8> {
    let mut v = begin(kind);
    let id = &s.build_id[..s.build_id.len().min(BUILD_ID_MOST)];
    set(&mut v, BUILD_ID_LEN, id.len() as u64);
    set(&mut v, BUILD_ID_OFF, s.build_id_off);
    v[8 * BUILD_ID..][..id.len()].copy_from_slice(id);
    set(&mut v, FLAGS, s.flags);
    v
}

/// Writes one word of the head.
fn set(v: &mut [u8], word: usize, n: u64) {
    v[8 * word..8 * word + 8].copy_from_slice(&n.to_le_bytes());
}

/// Writes the checksums of a file that is complete.
fn seal(v: &mut [u8]) {
    let sum = u64::from(crc32fast::hash(&v[HEAD..]));
    set(v, CHECKSUM, sum);
    let sum = cached::sum(&words(v));
    set(v, cached::WORDS - 1, sum);
}

/// The head of a file.
fn words(v: &[u8]) -> [u64; cached::WORDS] {
    std::array::from_fn(|k| word_at(v, 8 * k))
}

fn word_at(v: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| v[at + i]))
}

/// The first page of a file that is whole.
pub struct Found([u8; PAGE]);

impl Found {
    fn kind(&self) -> u64 {
        word_at(&self.0, 8 * KIND)
    }

    /// The path of the object that it was made from; `None` if none was put down.
    pub fn path(&self) -> Option<&[u8]> {
        let path = self.0[PATH..].split(|&c| c == 0).next()?;
        (!path.is_empty()).then_some(path)
    }

    /// Whether nothing is to be rewritten.
    pub fn is_clean(&self) -> bool {
        self.kind() == kind::CLEAN
    }

    /// The reason in an "unable" file.
    pub fn unable(&self) -> Option<String> {
        let s = &self.0[REASON..REASON + REASON_MOST];
        let n = s.iter().position(|&c| c == 0).unwrap_or(REASON_MOST);
        (self.kind() == kind::UNABLE).then(|| String::from_utf8_lossy(&s[..n]).into_owned())
    }
}

/// Reads the first page of the file `f` of `len` bytes; `None` if that is not as it was written, or the length is another.
pub fn begun(mut f: impl Read, len: u64) -> Option<Found> {
    let mut first = Found([0; PAGE]);
    f.read_exact(&mut first.0).ok()?;
    let head = words(&first.0);
    let long = match first.kind() {
        kind::SHADOW => {
            word_at(&first.0, 8 * STUB_OFF).wrapping_add(word_at(&first.0, 8 * STUB_LEN))
        }
        _ => PAGE as u64,
    };
    let good = head[0] == u64::from_le_bytes(MAGIC)
        && word_at(&first.0, SUM) == cached::sum(&head)
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
        // The command may wait for this CPU. Libc's whole file takes about 1 ms, and a yield that comes back so late
        // counts as dear: the waits of all pipes (wait.rs of the pipe core) would then sleep for a while.
        std::thread::yield_now();
    }
    (u64::from(sum.finalize()) == word_at(&first.0, 8 * CHECKSUM)).then_some(first)
}

/// The rewritten pages of one executable segment.
struct Rewritten {
    vaddr: u64,
    offset: u64,
    bytes: Vec<u8>,
}

/// The file for a scanned object: the segments that have sites, and the stubs.
///
/// # Errors
/// A sentence that says which site could not be encoded.
pub fn build(s: &Scan) -> Result<Vec<u8>, String> {
    let calls = s.bridge.iter().flat_map(|b| &b.calls).map(|i| i.ip());
    let changed: Vec<u64> = s.sites.iter().map(|s| s.start).chain(calls).collect();
    let is_changed =
        |p: &&Pages| (changed.iter()).any(|at| at.wrapping_sub(p.vaddr) < p.bytes.len() as u64);
    let mut texts: Vec<Rewritten> = s.texts.iter().filter(is_changed).map(rewritable).collect();
    if texts.len() > TEXTS {
        return Err("too many of its segments have system calls".into());
    }
    let (first, last) = (&texts[0], &texts[texts.len() - 1]);
    if last.vaddr + last.bytes.len() as u64 - first.vaddr > DISTANCE / 2 {
        return Err("its text is too large".into());
    }
    // Two passes: the cell stands behind the stubs, whose length the first pass tells.
    let base = first.vaddr.wrapping_sub(DISTANCE);
    let length = stubs(s, base, base, None)?.len().next_multiple_of(PAGE);
    let code = stubs(s, base, base.wrapping_add(length as u64), Some(&mut texts))?;
    let mut v = of_object(kind::SHADOW, s);
    let mut off = PAGE;
    for (k, t) in texts.iter().enumerate() {
        let words = [t.vaddr, t.bytes.len() as u64, off as u64, t.offset];
        for (i, n) in words.into_iter().enumerate() {
            set(&mut v, TEXT + TEXT_WORDS * k + i, n);
        }
        v.extend_from_slice(&t.bytes);
        off += t.bytes.len();
    }
    for (word, n) in [
        (word::TEXTS, texts.len()),
        (STUB_LEN, length),
        (STUB_OFF, off),
        (STUB_DISP, DISTANCE as usize),
        (CELL_OFF, length),
    ] {
        set(&mut v, word, n as u64);
    }
    v.extend_from_slice(&code);
    v.resize(off + length, 0xcc);
    seal(&mut v);
    Ok(v)
}

/// A copy of `p`, up to the end of its last page.
fn rewritable(p: &Pages) -> Rewritten {
    let mut bytes = p.bytes.to_vec();
    bytes.resize(bytes.len().next_multiple_of(PAGE), 0);
    Rewritten {
        vaddr: p.vaddr,
        offset: p.offset,
        bytes,
    }
}

/// The `n` bytes at `address` in `texts`.
fn place(texts: &mut [Rewritten], address: u64, n: usize) -> &mut [u8] {
    let within = |t: &&mut Rewritten| address.wrapping_sub(t.vaddr) < t.bytes.len() as u64;
    let t = texts.iter_mut().find(within).expect("a site's segment");
    let at = (address - t.vaddr) as usize;
    &mut t.bytes[at..at + n]
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
    mut texts: Option<&mut Vec<Rewritten>>,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for site in &s.sites {
        let start = base.wrapping_add(out.len() as u64);
        stub(site, base, cell, &mut out)?;
        if let Some(texts) = texts.as_deref_mut() {
            let n = (site.replaced() - site.start) as usize;
            let t = place(texts, site.start, n);
            t[0] = 0xe9;
            t[1..5].copy_from_slice(&rel32(site.start + 5, start)?);
            t[5..].fill(0xcc);
        }
    }
    if let Some(b) = &s.bridge {
        let stub = base.wrapping_add(out.len() as u64);
        // mov eax, pending
        out.extend_from_slice(&[0xb8, b.pending, 0, 0, 0]);
        go(stub + 5, b.start, cell.wrapping_add(8), &mut out)?;
        if let Some(texts) = texts {
            for i in &b.calls {
                // The distance is the instruction's last four bytes.
                let distance = rel32(i.next_ip(), stub)?;
                place(texts, i.next_ip() - 4, 4).copy_from_slice(&distance);
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
