//! What the cache says of an object: nothing to rewrite, the rewritten text to map in its place, or that it cannot take
//! part.
//!
//! Invariant: a cache file counts only if it is whole and nobody else can have written it, and only for the object whose
//! identity it is named by.
//! unsafe: maps over libc's text while nothing but this code runs. Not here: which file an object is (objects.rs), how
//! a text is rewritten and how the file is laid out (crates/cli/src/rewrite/image.rs).
use crate::entry::{byway_bridge, byway_entry};
use crate::{environment, request};
use byway_mem::domain::Domain;
use byway_sys::cached::{
    BUILD_ID_WORDS, MAGIC, NAMED, SUFFIX, TEXT_WORDS, TEXTS, WORDS, kind, sum, word,
};
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::syscall::{call3, call6, nr};
use core::sync::atomic::Ordering::Relaxed;

/// struct stat of x86-64, in words.
pub type Status = [u64; 18];

#[expect(clippy::large_enum_variant, reason = "there is no allocator to box it")]
pub enum Verdict {
    /// What else is known of it (crate sys, cached.rs).
    Clean {
        flags: u64,
    },
    Shadow(Shadow),
    /// It cannot take part.
    Unable,
    /// Nothing yet.
    Unknown,
}

/// An open cache file with a rewritten text.
pub struct Shadow {
    fd: usize,
    head: Head,
}

impl Drop for Shadow {
    fn drop(&mut self) {
        file::close(self.fd);
    }
}

/// What the file behind `fd`, about to be mapped as code, is.
pub fn of_file(d: Domain, fd: usize) -> Verdict {
    let mut st: Status = [0; 18];
    // SAFETY: `st` has the size of struct stat.
    if failed(unsafe { call3(nr::FSTAT, fd, st.as_mut_ptr() as usize, 0) }) {
        return Verdict::Unknown;
    }
    let known = match cached(d, &st, None) {
        Verdict::Unknown if request::file(d, fd) => cached(d, &st, None),
        v => v,
    };
    match known {
        Verdict::Shadow(s) if !s.is_of(fd) => Verdict::Unknown,
        v => v,
    }
}

/// What the cache says of the object with status `st`. The cache file is named by device, inode, seconds and
/// nanoseconds of the last change, and size, in hex.
pub fn cached(d: Domain, st: &Status, build_id: Option<&[u8]>) -> Verdict {
    let mut path = [0u8; 640];
    let mut n = 0;
    for &c in d.header().cache_dir.iter().take_while(|&&c| c != 0) {
        path[n] = c;
        n += 1;
    }
    for (k, (word, digits)) in NAMED.into_iter().zip([16, 16, 16, 8, 16]).enumerate() {
        path[n] = if k == 0 { b'/' } else { b'-' };
        n += 1;
        for i in (0..digits).rev() {
            path[n] = b"0123456789abcdef"[(st[word] >> (4 * i) & 15) as usize];
            n += 1;
        }
    }
    path[n..n + SUFFIX.len()].copy_from_slice(&SUFFIX);
    // O_NONBLOCK: nobody writes into a FIFO that stands there.
    // SAFETY: NUL terminated; the buffer is ours. O_CLOEXEC, O_NOFOLLOW and O_NONBLOCK.
    let fd = unsafe {
        call6(
            nr::OPENAT,
            -100isize as usize,
            path.as_ptr() as usize,
            0o2404000,
            0,
            0,
            0,
        )
    };
    if failed(fd) {
        return Verdict::Unknown;
    }
    let Some(head) = head(fd as usize, build_id) else {
        file::close(fd as usize);
        return Verdict::Unknown;
    };
    let file = Shadow {
        fd: fd as usize,
        head,
    };
    if !file.is_ours() {
        return Verdict::Unknown;
    }
    match file.head.kind {
        kind::CLEAN => Verdict::Clean {
            flags: file.head.flags,
        },
        kind::SHADOW => Verdict::Shadow(file),
        _ => Verdict::Unable,
    }
}

/// What a file's head says.
struct Head {
    kind: u64,
    texts: [Text; TEXTS],
    n: usize,
    stub_len: usize,
    stub_off: usize,
    stub_disp: usize,
    cell_off: usize,
    flags: u64,
    /// The build-id's beginning, its length, and where the object's file has it.
    build_id: [u64; BUILD_ID_WORDS],
    build_id_len: usize,
    build_id_off: usize,
}

/// One rewritten text: its address in the object, its length, and where it lies in the cache's file and in the object's.
#[derive(Clone, Copy)]
struct Text {
    vaddr: usize,
    len: usize,
    off: usize,
    origin: usize,
}

/// The head of a file, if it was made from an object with this build-id. Of one that cannot take part nothing is mapped.
fn head(fd: usize, build_id: Option<&[u8]>) -> Option<Head> {
    let mut h = [0u64; WORDS];
    let size = 8 * WORDS;
    // SAFETY: pread(2) into our buffer.
    let n = unsafe { call6(nr::PREAD, fd, h.as_mut_ptr() as usize, size, 0, 0, 0) };
    if n != size as isize || h[0] != u64::from_le_bytes(MAGIC) || h[WORDS - 1] != sum(&h) {
        return None;
    }
    let bytes = (word::BUILD_ID..word::BUILD_ID + BUILD_ID_WORDS).flat_map(|k| h[k].to_le_bytes());
    let same = |id: &[u8]| {
        let n = id.len().min(8 * BUILD_ID_WORDS);
        n == (h[word::BUILD_ID_LEN] & 0xff) as usize && bytes.take(n).eq(id[..n].iter().copied())
    };
    if h[word::KIND] != kind::UNABLE && !build_id.is_none_or(same) {
        return None;
    }
    let u = |k: usize| h[k] as usize;
    let text = |k: usize| {
        let at = word::TEXT + TEXT_WORDS * k;
        Text {
            vaddr: u(at),
            len: u(at + 1),
            off: u(at + 2),
            origin: u(at + 3),
        }
    };
    Some(Head {
        kind: h[word::KIND],
        texts: core::array::from_fn(text),
        n: u(word::TEXTS).min(TEXTS),
        stub_len: u(word::STUB_LEN),
        stub_off: u(word::STUB_OFF),
        stub_disp: u(word::STUB_DISP),
        cell_off: u(word::CELL_OFF),
        flags: h[word::FLAGS],
        build_id: core::array::from_fn(|k| h[word::BUILD_ID + k]),
        build_id_len: u(word::BUILD_ID_LEN).min(8 * BUILD_ID_WORDS),
        build_id_off: u(word::BUILD_ID_OFF),
    })
}

const READ_EXEC: usize = 5;
const PRIVATE: usize = 2;
const FIXED: usize = 0x10;
const FIXED_NOREPLACE: usize = 0x10_0000;

impl Shadow {
    /// Whether this is a regular file of this user's or root's, nobody else may write it, and it is as long as its head
    /// says.
    fn is_ours(&self) -> bool {
        let mut st: Status = [0; 18];
        // SAFETY: `st` has the size of struct stat.
        let known = !failed(unsafe { call3(nr::FSTAT, self.fd, st.as_mut_ptr() as usize, 0) });
        let me = environment::USER.load(Relaxed);
        let uid = (st[3] >> 32) as u32;
        let length = match self.head.kind {
            1 => self.head.stub_off.wrapping_add(self.head.stub_len),
            _ => 4096,
        };
        // S_IFMT and S_IFREG, and the right of others to write.
        let mode = st[3] & 0o170022 == 0o100000;
        known && st[6] as usize == length && (uid == me || uid == 0) && mode
    }

    /// Whether the object behind `fd` has the build-id of what this was made from.
    fn is_of(&self, fd: usize) -> bool {
        let mut id = [0u64; BUILD_ID_WORDS];
        let (n, off) = (self.head.build_id_len, self.head.build_id_off);
        // SAFETY: pread(2) into our buffer, which is as long.
        let r = unsafe { call6(nr::PREAD, fd, id.as_mut_ptr() as usize, n, off, 0, 0) };
        n == 0 || r == n as isize && id == self.head.build_id
    }

    pub fn flags(&self) -> u64 {
        self.head.flags
    }

    fn texts(&self) -> &[Text] {
        &self.head.texts[..self.head.n]
    }

    /// From the first text of the object at `base` to the end of its last.
    pub fn range(&self, base: usize) -> (usize, usize) {
        let t = self.texts();
        let last = &t[t.len() - 1];
        (
            base.wrapping_add(t[0].vaddr),
            base.wrapping_add(last.vaddr + last.len),
        )
    }

    /// Where the stubs of the object at `base` lie, and how many bytes they and their cell are.
    pub fn stubs(&self, base: usize) -> (usize, usize) {
        let h = &self.head;
        let at = base
            .wrapping_add(h.texts[0].vaddr)
            .wrapping_sub(h.stub_disp);
        (at, h.cell_off + 4096)
    }

    /// The cache's file, told from others that are mapped.
    pub fn file(&self) -> usize {
        file::identity(self.fd).map_or(0, |i| i.ino as usize)
    }

    /// What a mapping of [offset, +len) of the object's file has of the texts.
    pub fn part(&self, offset: usize, len: usize) -> Part {
        let end = offset.saturating_add(len);
        let mut part = Part {
            base: None,
            is_cut: false,
        };
        for t in self.texts() {
            let (from, to) = (t.origin, t.origin + t.len);
            if from >= offset && to <= end {
                let base = (from - offset).wrapping_sub(t.vaddr);
                part.is_cut |= part.base.is_some_and(|b| b != base);
                part.base = Some(base);
            } else {
                part.is_cut |= from < end && offset < to;
            }
        }
        part
    }

    /// Maps the stubs and their cell beside the text of the object at `base`.
    pub fn map_stubs(&self, base: usize) -> bool {
        let h = &self.head;
        let (at, _) = self.stubs(base);
        let cell = at + h.cell_off;
        // SAFETY: new mappings at places that the kernel says are free; the cell's page is ours.
        unsafe {
            let m = call6(
                nr::MMAP,
                at,
                h.stub_len,
                READ_EXEC,
                PRIVATE | FIXED_NOREPLACE,
                self.fd,
                h.stub_off,
            );
            if m != at as isize {
                return false;
            }
            let c = call6(
                nr::MMAP,
                cell,
                4096,
                3,
                PRIVATE | FIXED_NOREPLACE | 0x20,
                usize::MAX,
                0,
            );
            if c != cell as isize {
                call3(nr::MUNMAP, at, h.stub_len, 0);
                return false;
            }
            let cells = cell as *mut usize;
            cells.write(byway_entry as *const () as usize);
            cells.add(1).write(byway_bridge as *const () as usize);
        }
        true
    }

    /// Maps the rewritten texts over those of the object at `base`.
    pub fn map_texts(&self, base: usize) -> bool {
        self.map_part(base, 0, usize::MAX)
    }

    /// The same of those texts that lie in [offset, +len) of the object's file.
    pub fn map_part(&self, base: usize, offset: usize, len: usize) -> bool {
        let end = offset.saturating_add(len);
        let within = |t: &&Text| t.origin >= offset && t.origin + t.len <= end;
        self.texts().iter().filter(within).fold(true, |ok, t| {
            let at = base.wrapping_add(t.vaddr);
            // SAFETY: replaces the text by the same text but for the rewritten sites, whose stubs are there already.
            let m = unsafe {
                call6(
                    nr::MMAP,
                    at,
                    t.len,
                    READ_EXEC,
                    PRIVATE | FIXED,
                    self.fd,
                    t.off,
                )
            };
            m == at as isize && ok
        })
    }
}

/// What a mapping has of an object's texts.
pub struct Part {
    /// From the mapping's address to the object's, if it has one of them.
    pub base: Option<usize>,
    /// It has a text in part, or two of them not at their places.
    pub is_cut: bool,
}
