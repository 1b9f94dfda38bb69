//! Bytes that tell where they belong, so that a run can check what arrives.
//!
//! Invariant: a byte depends on its place in the stream alone; the period, 251, is a prime, so that a block that is moved
//! by a power of two is another.
//! Not here: timed runs, which neither fill nor look.

const PERIOD: usize = 251;

/// The byte at `at`.
fn byte(at: u64) -> u8 {
    (at % PERIOD as u64) as u8
}

/// Fills `b` with the bytes from `at` on.
pub fn fill(b: &mut [u8], at: u64) {
    for (x, i) in b.iter_mut().zip(at..) {
        *x = byte(i);
    }
}

/// Whether `b` is what `fill` writes there.
pub fn is(b: &[u8], at: u64) -> bool {
    b.iter().zip(at..).all(|(x, i)| *x == byte(i))
}

/// From where on `b` is what `fill` writes, in the first period; `None`: it never wrote that.
pub fn place(b: &[u8]) -> Option<u64> {
    let at = u64::from(*b.first()?);
    (at < PERIOD as u64 && is(b, at)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_more_or_less_is_found() {
        let mut b = [0; 1000];
        fill(&mut b, 12345);
        assert!(is(&b, 12345) && !is(&b, 12344) && !is(&b, 12345 + 512));
        assert_eq!(place(&b), Some(12345 % 251));
        b[999] ^= 1;
        assert_eq!(place(&b), None);
        assert!(!is(&b, 12345));
    }
}
