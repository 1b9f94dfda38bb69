//! Names below /proc, put together without an allocator.
//!
//! Invariant: NUL terminated; what does not fit is left out, and then nothing has that name.
//! Not here: what is asked of the files.

const MOST: usize = 64;

/// A name for open(2) and the like.
pub struct Path {
    bytes: [u8; MOST],
    n: usize,
}

impl Path {
    /// That begins with `text`.
    pub fn of(text: &[u8]) -> Path {
        Path {
            bytes: [0; MOST],
            n: 0,
        }
        .text(text)
    }
    /// The descriptor `fd` of the calling thread.
    ///
    /// LINUX proc(5): `self` is the process's first thread, which shows no descriptors once it has ended.
    pub fn fd(fd: usize) -> Path {
        Path::of(b"/proc/thread-self/fd/").number(fd)
    }
    /// Then `text`.
    pub fn text(mut self, text: &[u8]) -> Path {
        for &c in text {
            if self.n < MOST - 1 {
                self.bytes[self.n] = c;
                self.n += 1;
            }
        }
        self
    }
    /// Then a number.
    pub fn number(self, mut v: usize) -> Path {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        while at == digits.len() || v > 0 {
            at -= 1;
            digits[at] = b'0' + (v % 10) as u8;
            v /= 10;
        }
        self.text(&digits[at..])
    }
    /// Where it begins, as the kernel wants it.
    pub fn address(&self) -> usize {
        self.bytes.as_ptr() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn names_are_terminated() {
        let is = |p: Path, text: &[u8]| p.bytes.split(|&c| c == 0).next() == Some(text);
        assert!(is(Path::fd(0), b"/proc/thread-self/fd/0"));
        let stat = Path::of(b"/proc/").number(41234).text(b"/stat");
        assert!(is(stat, b"/proc/41234/stat"));
        let long = Path::of(&[b'x'; 60]).number(usize::MAX);
        let mut most = [b'x'; super::MOST - 1];
        most[60..].copy_from_slice(b"184");
        assert!(is(long, &most));
    }
}
