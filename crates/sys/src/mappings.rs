//! The list of a process's mappings, read without an allocator.
//!
//! Invariant: only whole lines count, and a list that cannot be read to its end counts as none.
//! unsafe: system calls. Not here: what a mapping means.
//! Source: proc(5), `/proc/PID/maps`.
use crate::errno::failed;
use crate::file;
use crate::syscall::{call3, call6, nr};
use core::ops::Range;

/// st_dev as the list of mappings has it: major number above minor number.
pub fn device(dev: u64) -> u64 {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & !0xfff);
    let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
    major << 32 | minor
}

/// A mapping.
#[derive(Default, Clone, Copy)]
pub struct Mapping {
    pub start: usize,
    pub end: usize,
    /// Where in its file it begins.
    pub offset: usize,
    /// Its file, as `device` has the device; 0 without one.
    pub device: u64,
    pub inode: u64,
}

/// Calls `f` with each mapping of this process that can be executed; false if the list cannot be read.
pub fn executable(f: &mut dyn FnMut(&Mapping)) -> bool {
    each(0, usize::MAX, true, f)
}

/// Calls `f` with each mapping that has a part of [from, to); false if the list cannot be read.
pub fn within(from: usize, to: usize, f: &mut dyn FnMut(&Mapping)) -> bool {
    each(from, to, false, f)
}

fn each(from: usize, to: usize, executable: bool, f: &mut dyn FnMut(&Mapping)) -> bool {
    let path = c"/proc/self/maps".as_ptr() as usize;
    // SAFETY: OPENAT of a NUL-terminated path, O_CLOEXEC.
    let fd = unsafe { call6(nr::OPENAT, -100isize as usize, path, 0o2000000, 0, 0, 0) };
    if failed(fd) {
        return false;
    }
    let f = &mut |m: &Mapping| {
        if m.start < to && m.end > from {
            f(m);
        }
    };
    let whole = asked(fd as usize, from..to, executable, f)
        .unwrap_or_else(|| read(fd as usize, executable, f));
    file::close(fd as usize);
    whole
}

/// The same by one question a mapping; None if the kernel does not know the question.
///
/// LINUX PROCMAP_QUERY (6.11): a third of the time of the list, which has every name in it.
fn asked(
    fd: usize,
    range: Range<usize>,
    executable: bool,
    f: &mut dyn FnMut(&Mapping),
) -> Option<bool> {
    const QUERY: usize = 0xc068_6611;
    const THIS_OR_NEXT: u64 = 0x10;
    const EXECUTABLE: u64 = 0x4;
    const NO_MORE: isize = -2;
    let which = THIS_OR_NEXT | if executable { EXECUTABLE } else { 0 };
    let mut at = range.start as u64;
    let mut any = false;
    while !any || at < range.end as u64 {
        let mut q = [0u64; 13];
        (q[0], q[1], q[2]) = (104, which, at);
        // SAFETY: struct procmap_query, of the size that it begins with.
        match unsafe { call3(nr::IOCTL, fd, QUERY, q.as_mut_ptr() as usize) } {
            0 => f(&Mapping {
                start: q[3] as usize,
                end: q[4] as usize,
                offset: q[7] as usize,
                device: (q[9] & 0xffff_ffff) << 32 | q[9] >> 32,
                inode: q[8],
            }),
            NO_MORE => return Some(true),
            _ if !any => return None,
            _ => return Some(false),
        }
        any = true;
        at = q[4];
    }
    Some(true)
}

/// The same out of the list as text.
fn read(fd: usize, executable: bool, f: &mut dyn FnMut(&Mapping)) -> bool {
    let mut reader = Reader::default();
    let mut part = [0u8; 4096];
    loop {
        // SAFETY: READ into our buffer.
        let n = unsafe { call3(nr::READ, fd, part.as_mut_ptr() as usize, part.len()) };
        if n <= 0 {
            return n == 0;
        }
        for &c in &part[..n as usize] {
            if let Some((m, runs)) = reader.take(c)
                && (runs || !executable)
            {
                f(&m);
            }
        }
    }
}

/// Reads `start-end perms offset major:minor inode name` byte by byte.
#[derive(Default)]
struct Reader {
    m: Mapping,
    executable: bool,
    /// How many fields are behind, and the number that is being read.
    field: u32,
    number: u64,
}

impl Reader {
    /// The mapping whose line ends with `c`, and whether it can be executed.
    fn take(&mut self, c: u8) -> Option<(Mapping, bool)> {
        match self.field {
            _ if c == b'\n' => {
                self.end_of_field();
                let line = core::mem::take(self);
                return Some((line.m, line.executable));
            }
            // start, end, offset, major and minor number
            0 | 1 | 3 | 4 | 5 if c.is_ascii_hexdigit() => {
                let digit = (c as char).to_digit(16).unwrap_or(0);
                self.number = self.number << 4 | u64::from(digit);
            }
            2 if c != b' ' => self.executable |= c == b'x',
            6 if c.is_ascii_digit() => self.number = self.number * 10 + u64::from(c - b'0'),
            0..=6 => self.end_of_field(),
            _ => {}
        }
        None
    }

    fn end_of_field(&mut self) {
        let number = core::mem::take(&mut self.number);
        match self.field {
            0 => self.m.start = number as usize,
            1 => self.m.end = number as usize,
            3 => self.m.offset = number as usize,
            4 => self.m.device = number << 32,
            5 => self.m.device |= number,
            6 => self.m.inode = number,
            _ => {}
        }
        self.field += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::os::fd::AsRawFd;
    use std::vec::Vec;

    #[test]
    fn lines_of_the_list_are_read() {
        let lines = "7f12a8e28000-7f12a8f7d000 r-xp 00026000 fe:0a1 10027682                   /usr/lib/a b.so\n\
             7ffd1000-7ffd2000 rw-p 00000000 00:00 0 \n\
             7ffd4000-7ffd6000 r-xp 00000000 00:00 0                                  [vdso]\n";
        let mut r = Reader::default();
        let all: Vec<(Mapping, bool)> = lines.bytes().filter_map(|c| r.take(c)).collect();
        let runs: Vec<bool> = all.iter().map(|m| m.1).collect();
        assert_eq!(runs, [true, false, true]);
        let all: Vec<Mapping> = all.iter().filter(|m| m.1).map(|m| m.0).collect();
        let m = &all[0];
        assert_eq!((m.start, m.end), (0x7f12_a8e2_8000, 0x7f12_a8f7_d000));
        assert_eq!((m.offset, m.inode), (0x26000, 10_027_682));
        assert_eq!(m.device, 0xfe << 32 | 0xa1);
        assert_eq!((all[1].start, all[1].inode), (0x7ffd_4000, 0));
    }

    #[test]
    fn devices_are_named_alike() {
        for (major, minor) in [(8u32, 1u32), (254, 0), (0, 0x12345), (0xabcde, 0xfffff)] {
            let dev = libc::makedev(major, minor);
            assert_eq!(device(dev), u64::from(major) << 32 | u64::from(minor));
        }
    }

    #[test]
    fn questions_and_list_say_the_same() {
        let of = |m: &Mapping| (m.start, m.end, m.offset, m.device, m.inode);
        let list = std::fs::File::open("/proc/self/maps").unwrap();
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let fd = list.as_raw_fd() as usize;
        assert!(read(fd, true, &mut |m| a.push(of(m))));
        let here = questions_and_list_say_the_same as *const () as usize;
        assert!(a.iter().any(|m| (m.0..m.1).contains(&here) && m.4 != 0));
        match asked(fd, 0..usize::MAX, true, &mut |m| b.push(of(m))) {
            Some(whole) => {
                assert!(whole);
                // The kernel's own page at the top of the address space is no mapping of the process.
                a.retain(|m| m.0 < usize::MAX >> 1);
                assert_eq!(a, b);
            }
            None => std::println!("skipped: this kernel has no PROCMAP_QUERY"),
        }
    }
}
