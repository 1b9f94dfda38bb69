//! How much of the machine's memory a mapping, or this process, has.
//!
//! Invariant: a look allocates nothing, for it would disturb the heap that is measured.
//! Not here: memory that other processes have of a mapping; who looks has touched all of it.
//!
//! LINUX proc(5): `Rss:` of a mapping in /proc/self/smaps, of the process in /proc/self/smaps_rollup, walked at the
//! moment of the read, unlike VmRSS of status, whose counters lag by some pages a CPU.
use std::fs::File;
use std::io::{self, Read, Seek};

/// Looks at one of the two.
pub struct Looker {
    file: File,
    /// Start and end of the mapping; none: the process.
    of: Option<(usize, usize)>,
    text: Vec<u8>,
}

/// Room for the text: some hundred mappings.
const TEXT: usize = 1 << 20;

impl Looker {
    /// At the mapping of (address, bytes), or at the process.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn new(mapping: Option<(usize, usize)>) -> io::Result<Looker> {
        let path = match mapping {
            Some(_) => "/proc/self/smaps",
            None => "/proc/self/smaps_rollup",
        };
        Ok(Looker {
            file: File::open(path)?,
            of: mapping.map(|(at, bytes)| (at, at + bytes)),
            text: vec![1; TEXT],
        })
    }

    /// Bytes now.
    ///
    /// # Errors
    /// /proc cannot be read.
    pub fn bytes(&mut self) -> io::Result<usize> {
        self.file.rewind()?;
        let mut n = 0;
        while n < self.text.len() {
            match self.file.read(&mut self.text[n..])? {
                0 => break,
                got => n += got,
            }
        }
        Ok(rss(&self.text[..n], self.of))
    }
}

/// The sum of `Rss:` of the mappings inside `of`, or of all.
fn rss(text: &[u8], of: Option<(usize, usize)>) -> usize {
    let (mut inside, mut sum) = (false, 0);
    for line in text
        .split(|&c| c == b'\n')
        .filter_map(|l| std::str::from_utf8(l).ok())
    {
        if let Some(range) = range(line) {
            inside = of.is_none_or(|of| of.0 <= range.0 && range.1 <= of.1);
        } else if let Some(kib) = line.strip_prefix("Rss:")
            && inside
        {
            let kib = kib.trim().trim_end_matches(" kB");
            sum += kib.parse::<usize>().unwrap_or(0) << 10;
        }
    }
    sum
}

/// The addresses of a line that begins a mapping: `7f00-7f10 rw-s ...`.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    let hex = |s| usize::from_str_radix(s, 16).ok();
    Some((hex(from)?, hex(to)?))
}

/// Memory that the machine can still give, bytes: MemAvailable of /proc/meminfo.
pub fn available() -> usize {
    std::fs::read_to_string("/proc/meminfo")
        .unwrap_or_default()
        .lines()
        .find_map(|l| {
            l.strip_prefix("MemAvailable:")?
                .trim()
                .strip_suffix(" kB")?
                .parse()
                .ok()
        })
        .map_or(0, |kib: usize| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mbuf::shared::Shared;

    #[test]
    fn a_mapping_is_what_the_kernel_counts() {
        let m = Shared::new(8 << 20).unwrap();
        let mut l = Looker::new(Some((m.base(), m.bytes()))).unwrap();
        assert_eq!(l.bytes().unwrap(), 0);
        m.populate().unwrap();
        let mut pages = vec![0u8; m.bytes() / 4096];
        // SAFETY: our mapping; a byte for each of its pages.
        let r = unsafe { libc::mincore(m.base() as *mut _, m.bytes(), pages.as_mut_ptr()) };
        assert_eq!(r, 0);
        let there = pages.iter().filter(|&&p| p & 1 == 1).count() * 4096;
        assert_eq!(l.bytes().unwrap(), there);
        assert_eq!(there, 8 << 20);
    }

    #[test]
    fn only_the_mapping_that_is_meant() {
        let text =
            b"1000-3000 rw-s 0 0 0\nRss: 8 kB\nPss: 4 kB\n4000-5000 rw-p 0 0 0\nRss:    4 kB\n";
        assert_eq!(rss(text, Some((0x1000, 0x3000))), 8192);
        assert_eq!(rss(text, None), 12288);
    }
}
