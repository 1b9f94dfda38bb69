//! The objects that this process has loaded, and proof of which file the text of each is.
//!
//! Invariant: an object's status is that of the file whose pages are mapped as its texts, whole and at their places: the
//! kernel's own list of mappings names it, and a path counts only if it leads to that file. No other code is mapped.
//! unsafe: reads the loader's lists and what the objects have in memory. Not here: what is known of a file (shadow.rs).
//! Source: proc(5), `/proc/PID/maps`; dl_iterate_phdr(3); elf(5).
use crate::attach::text;
use crate::environment;
use crate::shadow::{Shadow, Status};
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::mappings::{self, Mapping};
use byway_sys::syscall::{call3, call6, nr};
use core::arch::global_asm;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

global_asm!(".weak dl_iterate_phdr");

/// Room for the first of them: most programs have fewer, and no call is made for it. It is on the stack, whose pages the
/// loader has touched before.
const FEW: usize = 16;
/// Room is then reserved for so many. A page of it that no object needs is not touched.
const MOST: usize = 1 << 16;
const ARENA: usize = MOST * size_of::<Object>();

/// The path that this image was started by. In .data, for the reason that attach.rs gives.
#[unsafe(link_section = ".data")]
pub static CALLED: AtomicPtr<u8> = AtomicPtr::new(core::ptr::null_mut());

#[repr(C)]
struct PhdrInfo {
    addr: usize,
    name: *const u8,
    phdr: *const Header,
    phnum: u16,
}

/// A program header: type and flags, offset, address, physical address, size in the file and in memory, alignment.
type Header = [u64; 7];

/// The pages of an executable segment: the first one's address, the end, and the first one's offset in the file.
fn pages(base: usize, h: &Header) -> Option<(usize, usize, usize)> {
    const LOAD: u32 = 1;
    const EXECUTE: u64 = 1;
    let at = base.wrapping_add(h[2] as usize);
    let end = at.wrapping_add(h[4] as usize).next_multiple_of(4096);
    (h[0] as u32 == LOAD && h[0] >> 32 & EXECUTE != 0).then_some((
        at & !4095,
        end,
        h[1] as usize & !4095,
    ))
}

unsafe extern "C" {
    fn dl_iterate_phdr(
        f: extern "C" fn(*const PhdrInfo, usize, *mut c_void) -> i32,
        data: *mut c_void,
    ) -> i32;
}

/// One loaded object.
pub struct Object {
    pub base: usize,
    /// What is to be mapped in place of its text.
    pub shadow: Option<Shadow>,
    name: *const u8,
    /// The loader's copy of its program headers.
    headers: &'static [Header],
    /// Its executable segments: where the first begins and the last ends, and how many bytes of pages they are.
    text: usize,
    end: usize,
    len: usize,
    /// So many of these bytes are mapped as the segments say.
    seen: usize,
    build_id: *const u8,
    build_id_len: usize,
    /// Of the file that is mapped there, as the list of mappings has it; 0 if the list has no such mapping.
    device: u64,
    inode: u64,
    /// This library.
    own: bool,
}

pub struct Objects {
    few: [MaybeUninit<Object>; FEW],
    /// In place of `few`, or null.
    arena: *mut Object,
    /// So many are there.
    n: usize,
    /// Where the kernel's own object lies.
    vdso: usize,
    /// Too many objects, or code that is none of theirs.
    over: bool,
    /// Another object's code may have run before this library's constructor.
    pub late: bool,
}

/// What is known before anything is looked at.
const NOTHING: Object = Object {
    base: 0,
    shadow: None,
    name: core::ptr::null(),
    headers: &[],
    text: 0,
    end: 0,
    len: 0,
    seen: 0,
    build_id: core::ptr::null(),
    build_id_len: 0,
    device: 0,
    inode: 0,
    own: false,
};

impl Objects {
    /// An empty list.
    pub fn new() -> Objects {
        Objects {
            few: [const { MaybeUninit::uninit() }; FEW],
            arena: core::ptr::null_mut(),
            n: 0,
            vdso: 0,
            over: false,
            late: false,
        }
    }

    /// Adds `o`, if there is room.
    fn add(&mut self, o: Object) {
        if self.n == FEW {
            self.grow();
        }
        let room = if self.arena.is_null() { FEW } else { MOST };
        if self.n == room {
            self.over = true;
            return;
        }
        // SAFETY: within the room.
        unsafe { self.begin().add(self.n).write(o) };
        self.n += 1;
    }

    /// Moves to an arena.
    fn grow(&mut self) {
        const READ_WRITE: usize = 3;
        /// MAP_PRIVATE, MAP_ANONYMOUS and MAP_NORESERVE.
        const FLAGS: usize = 0x4022;
        // SAFETY: a new mapping, and room in it for what is copied, which is not used again where it was.
        unsafe {
            let m = call6(nr::MMAP, 0, ARENA, READ_WRITE, FLAGS, usize::MAX, 0);
            if !failed(m) {
                self.begin()
                    .copy_to_nonoverlapping(m as *mut Object, self.n);
                self.arena = m as *mut Object;
            }
        }
    }

    fn begin(&mut self) -> *mut Object {
        match self.arena.is_null() {
            true => self.few.as_mut_ptr().cast(),
            false => self.arena,
        }
    }

    /// All but this library.
    pub fn list(&mut self) -> &mut [Object] {
        // SAFETY: the first `n` have been written, and nobody else has the room.
        unsafe { core::slice::from_raw_parts_mut(self.begin(), self.n) }
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        self.list().iter_mut().for_each(|o| o.shadow = None);
        if !self.arena.is_null() {
            // SAFETY: the arena is this value's alone.
            unsafe { call3(nr::MUNMAP, self.arena as usize, ARENA, 0) };
        }
    }
}

/// Lists what is loaded into `all`; false if the texts of some object are not those of one file.
pub fn loaded(all: &mut Objects) -> bool {
    let f: unsafe extern "C" fn(_, _) -> i32 = dl_iterate_phdr;
    if f as usize == 0 {
        return false;
    }
    // SAFETY: `note` fits; `all` lives over the call.
    unsafe { dl_iterate_phdr(note, core::ptr::from_mut(all).cast()) };
    let seen = mappings::executable(&mut |m| all.see(m));
    if !seen || all.over {
        return false;
    }
    // This library's own text is known: it goes to the end of the list, and off it.
    if let Some(k) = all.list().iter().position(|o| o.own) {
        let last = all.n - 1;
        all.list().swap(k, last);
        all.n = last;
    }
    all.list().iter().all(|o| o.seen == o.len)
}

extern "C" fn note(info: *const PhdrInfo, _size: usize, out: *mut c_void) -> i32 {
    // SAFETY: both pointers are valid for the call (dl_iterate_phdr(3)); `out` is `loaded`'s list.
    let (info, out) = unsafe { (&*info, &mut *out.cast::<Objects>()) };
    let name = text(info.name);
    if name.starts_with(b"linux-vdso") {
        out.vdso = info.addr;
        return 0;
    }
    let mut o = NOTHING;
    o.base = info.addr;
    o.name = info.name;
    // SAFETY: the loader's copy of the program headers.
    let headers = unsafe { core::slice::from_raw_parts(info.phdr, info.phnum as usize) };
    o.headers = headers;
    const LOAD: u32 = 1;
    const DYNAMIC: u32 = 2;
    const NOTE: u32 = 4;
    const READ: u64 = 4;
    let place = |h: &Header| (info.addr.wrapping_add(h[2] as usize), h[4] as usize);
    // Nothing makes a segment of notes part of a loaded one but custom.
    let is_loaded = |h: &Header| {
        let (at, size) = place(h);
        headers.iter().any(|l| {
            let (from, n) = place(l);
            let readable = l[0] as u32 == LOAD && l[0] >> 32 & READ != 0;
            readable && at >= from && size <= n && at - from <= n - size
        })
    };
    let mut early = false;
    for h in headers {
        let kind = h[0] as u32;
        let (at, size) = place(h);
        if let Some((from, to, _)) = pages(info.addr, h) {
            o.text = if o.len == 0 { from } else { o.text.min(from) };
            o.end = o.end.max(to);
            o.len += to - from;
            if (from..to).contains(&(note as *const () as usize)) {
                o.own = true;
                environment::OWN.store(info.name.cast_mut(), Relaxed);
            }
        } else if kind == NOTE && o.build_id_len == 0 && is_loaded(h) {
            // SAFETY: in a segment that is loaded and can be read.
            unsafe { find_build_id(&mut o, at, size) };
        } else if kind == DYNAMIC && is_loaded(h) {
            // SAFETY: as above.
            early = unsafe { runs_early(at, size) };
        }
    }
    out.late |= early && !o.own;
    out.add(o);
    0
}

/// Whether the dynamic table at `at` asks for functions to be called before all constructors, or its own constructor first.
///
/// # Safety
/// `size` bytes at `at` can be read.
unsafe fn runs_early(at: usize, size: usize) -> bool {
    const PREINIT_ARRAY: usize = 32;
    const FLAGS_1: usize = 0x6fff_fffb;
    const INITFIRST: usize = 0x20;
    // SAFETY: the caller's; entries are a tag and a value.
    let table = unsafe { core::slice::from_raw_parts(at as *const [usize; 2], size / 16) };
    table
        .iter()
        .take_while(|[tag, _]| *tag != 0)
        .any(|&[tag, value]| tag == PREINIT_ARRAY || tag == FLAGS_1 && value & INITFIRST != 0)
}

/// Looks for the build-id among the notes at `at`: sizes of name and contents, type, name, contents, each padded to words.
///
/// # Safety
/// `size` bytes at `at` can be read.
unsafe fn find_build_id(o: &mut Object, at: usize, size: usize) {
    const GNU: u32 = u32::from_le_bytes(*b"GNU\0");
    const BUILD_ID: u32 = 3;
    let end = at + size;
    let mut at = at;
    while end.saturating_sub(at) >= 16 {
        // SAFETY: inside the notes, and as aligned as they are.
        let [name, contents, kind, first] = unsafe { (at as *const [u32; 4]).read_unaligned() };
        let begin = at + 12 + (name as usize).next_multiple_of(4);
        if name == 4 && first == GNU && kind == BUILD_ID && begin + contents as usize <= end {
            o.build_id = begin as *const u8;
            o.build_id_len = contents as usize;
            return;
        }
        at = begin + (contents as usize).next_multiple_of(4);
    }
}

/// stat(2) of the NUL-terminated `path`.
fn status(path: *const u8) -> Option<Status> {
    let mut st: Status = [0; 18];
    // SAFETY: the kernel checks the path; `st` has the size of struct stat.
    let r = unsafe { call3(nr::STAT, path as usize, st.as_mut_ptr() as usize, 0) };
    (!failed(r)).then_some(st)
}

impl Object {
    /// Its file's path, NUL included: the main program has no name in the loader's list.
    pub fn path(&self) -> &'static [u8] {
        if self.is_program() {
            b"/proc/self/exe\0"
        } else {
            text(self.name)
        }
    }

    /// Whether it is the main program.
    pub fn is_program(&self) -> bool {
        text(self.name).len() == 1
    }

    /// Whether it has code.
    pub fn has_text(&self) -> bool {
        self.len != 0
    }

    /// The build-id that it has in memory; empty if it has none.
    pub fn build_id(&self) -> &[u8] {
        if self.build_id_len == 0 {
            return &[];
        }
        // SAFETY: found inside a note segment of a loaded object.
        unsafe { core::slice::from_raw_parts(self.build_id, self.build_id_len) }
    }

    /// The status of the file that is mapped as its text; None if its path leads to another by now.
    pub fn status(&self) -> Option<Status> {
        let is_same = |st: &Status| (mappings::device(st[0]), st[1]) == (self.device, self.inode);
        // The program by the path that it was started by, if that leads to it: /proc has to make a file for its own.
        let called = CALLED.load(Relaxed);
        if self.is_program()
            && !called.is_null()
            && let Some(st) = status(called).filter(is_same)
        {
            return Some(st);
        }
        let st = status(self.path().as_ptr()).filter(|st| st[1] == self.inode)?;
        if is_same(&st) {
            return Some(st);
        }
        // LINUX: stat(2) and the list of mappings may name the device of a file in different ways (btrfs): a mapping of what
        // the path leads to is named in the same way.
        let (st, seen) = self.mapped_again()?;
        (seen == (self.device, self.inode)).then_some(st)
    }

    /// Maps a page of what its path leads to: its status, and how the list of mappings names it.
    fn mapped_again(&self) -> Option<(Status, (u64, u64))> {
        const READ_EXECUTE: usize = 5;
        const PRIVATE: usize = 2;
        let path = self.path().as_ptr() as usize;
        let mut st: Status = [0; 18];
        // SAFETY: OPENAT of a NUL-terminated path, O_CLOEXEC; a new mapping, which is taken away again.
        unsafe {
            let fd = call6(nr::OPENAT, -100isize as usize, path, 0o2000000, 0, 0, 0);
            if failed(fd) {
                return None;
            }
            let known = !failed(call3(nr::FSTAT, fd as usize, st.as_mut_ptr() as usize, 0));
            let page = call6(nr::MMAP, 0, 4096, READ_EXECUTE, PRIVATE, fd as usize, 0);
            file::close(fd as usize);
            if failed(page) {
                return None;
            }
            let mut seen = None;
            let whole = mappings::executable(&mut |m| {
                if m.start == page as usize {
                    seen = Some((m.device, m.inode));
                }
            });
            call3(nr::MUNMAP, page as usize, 4096, 0);
            if known && whole {
                Some((st, seen?))
            } else {
                None
            }
        }
    }
}

impl Objects {
    /// Finds out whose text `m` is.
    fn see(&mut self, m: &Mapping) {
        // The kernel's own code.
        if m.start > usize::MAX >> 1 || (m.start..m.end).contains(&self.vdso) {
            return;
        }
        let around = |o: &&mut Object| o.text <= m.start && m.end <= o.end;
        let Some(o) = self.list().iter_mut().find(around) else {
            self.over = true;
            return;
        };
        // LINUX one mapping may have several segments: those that adjoin in memory and in the file.
        let part = |h: &Header| {
            let (from, to, offset) = pages(o.base, h)?;
            let fits = from >= m.start && to <= m.end && offset == m.offset + (from - m.start);
            fits.then_some(to - from)
        };
        let len: usize = o.headers.iter().filter_map(part).sum();
        let same = o.seen == 0 || (o.device, o.inode) == (m.device, m.inode);
        (o.device, o.inode) = (m.device, m.inode);
        o.seen += len;
        self.over |= len != m.end - m.start || !same;
    }
}
