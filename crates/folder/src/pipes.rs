//! How much larger this user's pipes may become.
//!
//! Invariant: half of the kernel's limit at most: the other half is for pipes as they are made.
//! Not here: who asks for it (crate pipe, clusters.rs).
use std::fs;

/// CAP_SYS_ADMIN and CAP_SYS_RESOURCE.
const ABOVE: u64 = 1 << 21 | 1 << 24;
const PAGE: u64 = 4096;

/// Bytes by which the pipes of this user may grow, all together; 0: as much as they like.
///
/// LINUX pipe(7), /proc/sys/fs/pipe-user-pages-soft: 0 is no limit, and there is none for the privileged.
pub fn budget() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let soft = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap_or_default();
    of(&status, &soft)
}

fn of(status: &str, soft: &str) -> u64 {
    let held = status
        .lines()
        .find_map(|l| l.strip_prefix("CapEff:"))
        .and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok())
        .unwrap_or(0);
    // Where the file cannot be read the kernel's default holds.
    let pages = soft.trim().parse().unwrap_or(16384);
    if held & ABOVE != 0 {
        0
    } else {
        pages * PAGE / 2
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn half_of_the_limit_or_none() {
        assert_eq!(of("CapEff:\t0000000000000000\n", "16384\n"), 32 << 20);
        assert_eq!(of("CapEff:\t000001ffffffffff\n", "16384\n"), 0);
        assert_eq!(of("CapEff:\t0000000001000000\n", "100\n"), 0);
        assert_eq!(of("CapEff:\t0000000000000400\n", "0\n"), 0);
        assert_eq!(of("", ""), 32 << 20);
    }
}
