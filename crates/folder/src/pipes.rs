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
    let soft = fs::read_to_string("/proc/sys/fs/pipe-user-pages-soft").unwrap_or_default();
    of(capabilities(), &soft)
}

/// The effective capabilities of this process.
fn capabilities() -> u64 {
    /// LINUX capget(2): _LINUX_CAPABILITY_VERSION_3 has two words of each set: effective, permitted, inheritable.
    const VERSION: u32 = 0x2008_0522;
    let mut head = [VERSION, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: two structures of ours, as long as that version has them.
    let r = unsafe { libc::syscall(libc::SYS_capget, head.as_mut_ptr(), sets.as_mut_ptr()) };
    if r < 0 {
        return 0;
    }
    u64::from(sets[1][0]) << 32 | u64::from(sets[0][0])
}

fn of(held: u64, soft: &str) -> u64 {
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
    use super::{capabilities, fs, of};

    #[test]
    fn half_of_the_limit_or_none() {
        assert_eq!(of(0, "16384\n"), 32 << 20);
        assert_eq!(of(0x1ff_ffff_ffff, "16384\n"), 0);
        assert_eq!(of(1 << 24, "100\n"), 0);
        assert_eq!(of(0x400, "0\n"), 0);
        assert_eq!(of(0, ""), 32 << 20);
    }

    #[test]
    fn capabilities_are_as_proc_has_them() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        let held = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
        assert_eq!(capabilities(), held);
    }
}
