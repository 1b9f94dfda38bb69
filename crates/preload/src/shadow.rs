//! What the cache says of an object: nothing to rewrite, the rewritten text to map in its place, or that it cannot take
//! part.
//!
//! Invariant: a cache file counts only if it is whole and nobody else can have written it, and only for the object whose
//! identity it is named by.
//! unsafe: maps over libc's text while nothing but this code runs. Not here: which file an object is (objects.rs), how
//! a text is rewritten and how the file is laid out (crates/cli/src/rewrite/image.rs).
use crate::entry::{byway_bridge, byway_entry};
use crate::request;
use byway_mem::domain::Domain;
use byway_sys::cached::{MAGIC, SUFFIX, WORDS, sum};
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::syscall::{call3, call6, nr};

/// struct stat of x86-64, in words.
pub type Status = [u64; 18];

pub enum Verdict {
    Clean,
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

/// Whether the file behind `fd`, about to be mapped as code, has nothing that would need rewriting.
pub fn known_code(d: Domain, fd: usize) -> bool {
    let mut st: Status = [0; 18];
    // SAFETY: `st` has the size of struct stat.
    if failed(unsafe { call3(nr::FSTAT, fd, st.as_mut_ptr() as usize, 0) }) {
        return false;
    }
    let known = match cached(d, &st, None) {
        Verdict::Unknown if request::file(d, fd) => cached(d, &st, None),
        v => v,
    };
    matches!(known, Verdict::Clean)
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
    for (k, (v, digits)) in [
        (st[0], 16),
        (st[1], 16),
        (st[13], 16),
        (st[14], 8),
        (st[6], 16),
    ]
    .into_iter()
    .enumerate()
    {
        path[n] = if k == 0 { b'/' } else { b'-' };
        n += 1;
        for i in (0..digits).rev() {
            path[n] = b"0123456789abcdef"[(v >> (4 * i) & 15) as usize];
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
        0 => Verdict::Clean,
        1 => Verdict::Shadow(file),
        _ => Verdict::Unable,
    }
}

/// Longest build-id that a file keeps; of a longer one the beginning.
const BUILD_ID_MOST: usize = 32;

struct Head {
    kind: u32,
    text_vaddr: usize,
    text_len: usize,
    text_off: usize,
    stub_len: usize,
    stub_off: usize,
    stub_disp: usize,
    cell_off: usize,
}

/// The head of a file, if it was made from an object with this build-id.
fn head(fd: usize, build_id: Option<&[u8]>) -> Option<Head> {
    let mut h = [0u64; WORDS];
    // SAFETY: pread(2) into our buffer.
    let n = unsafe { call6(17, fd, h.as_mut_ptr() as usize, 128, 0, 0, 0) };
    if n != 128 || h[0] != u64::from_le_bytes(MAGIC) || h[WORDS - 1] != sum(&h) {
        return None;
    }
    let bytes = (11..15).flat_map(|k| h[k].to_le_bytes());
    let same = |id: &[u8]| {
        let n = id.len().min(BUILD_ID_MOST);
        n == (h[10] & 0xff) as usize && bytes.take(n).eq(id[..n].iter().copied())
    };
    if !build_id.is_none_or(same) {
        return None;
    }
    let u = |k: usize| h[k] as usize;
    Some(Head {
        kind: h[1] as u32,
        text_vaddr: u(2),
        text_len: u(3),
        text_off: u(4),
        stub_len: u(5),
        stub_off: u(6),
        stub_disp: u(7),
        cell_off: u(8),
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
        // SAFETY: `st` has the size of struct stat; geteuid(2) takes no argument.
        let (known, me) = unsafe {
            (
                !failed(call3(nr::FSTAT, self.fd, st.as_mut_ptr() as usize, 0)),
                call3(nr::GETEUID, 0, 0, 0),
            )
        };
        let uid = (st[3] >> 32) as isize;
        let length = match self.head.kind {
            1 => self.head.stub_off.wrapping_add(self.head.stub_len),
            _ => 4096,
        };
        // S_IFMT and S_IFREG, and the right of others to write.
        let mode = st[3] & 0o170022 == 0o100000;
        known && st[6] as usize == length && (uid == me || uid == 0) && mode
    }

    /// Maps the stubs and their cell beside the text of the object at `base`.
    pub fn map_stubs(&self, base: usize) -> bool {
        let h = &self.head;
        let at = (base + h.text_vaddr).wrapping_sub(h.stub_disp);
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
                return false;
            }
            let cells = cell as *mut usize;
            cells.write(byway_entry as *const () as usize);
            cells.add(1).write(byway_bridge as *const () as usize);
        }
        true
    }

    /// Maps the rewritten text over that of the object at `base`.
    pub fn map_text(&self, base: usize) -> bool {
        let h = &self.head;
        let at = base + h.text_vaddr;
        // SAFETY: replaces the text by the same text but for the rewritten sites, whose stubs are there already.
        let m = unsafe {
            call6(
                nr::MMAP,
                at,
                h.text_len,
                READ_EXEC,
                PRIVATE | FIXED,
                self.fd,
                h.text_off,
            )
        };
        m == at as isize
    }
}
