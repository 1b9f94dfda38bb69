//! Rewrites the system-call sites of an ELF object, once, into a file that every process maps in place of its text.
//!
//! Invariant: only what is proven to be code is changed; an object with a doubt is not rewritten at all.
//! Not here: where the files are (folder.rs, cache.rs), which of them go (upkeep.rs), mapping (the preload library does that), deciding about calls.
mod branches;
mod bridge;
mod cache;
mod flow;
mod folder;
mod functions;
mod headers;
mod image;
mod instruction;
mod number;
mod own;
mod program;
mod runtime;
mod scan;
mod table;
mod text;
pub mod upkeep;
mod verdict;
mod ways;
mod window;

pub use cache::{Answer, answer, ensure, own, put, renew, verify};
pub use folder::folder;
pub use own::own_objects;
pub use scan::{Scan, scan};
pub use verdict::{Object, object, verdict};

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn libc_path() -> std::path::PathBuf {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        maps.split_whitespace()
            .find(|w| w.ends_with("/libc.so.6"))
            .expect("a dynamic test program")
            .into()
    }

    #[test]
    fn libc_can_be_rewritten() {
        match verdict(&fs::read(libc_path()).unwrap()) {
            Object::Shadow(_, sites) => assert!(sites > 60, "only {sites} sites"),
            Object::Clean(_) => panic!("libc without system calls"),
            Object::Unable(why) => panic!("{why}"),
        }
    }

    /// Somebody else makes the object: whatever is in it, the scan ends with an answer.
    #[test]
    fn a_damaged_object_gets_an_answer() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let loader = maps
            .split_whitespace()
            .find(|w| w.contains("/ld-linux-x86-64.so.2"))
            .expect("a dynamic test program");
        let whole = fs::read(loader).unwrap();
        let mut seed = 1u64;
        let mut random = move |n: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) as usize % n
        };
        let (mut same, mut other) = (0, 0);
        for round in 0..200 {
            let mut bytes = whole.clone();
            // Headers and tables every other time, else anywhere; some are cut off as well.
            let most = if round % 2 == 0 { 2048 } else { bytes.len() };
            for _ in 0..=random(24) {
                bytes[random(most)] = random(256) as u8;
            }
            if round % 5 == 0 {
                bytes.truncate(random(whole.len()));
            }
            match verdict(&bytes) {
                Object::Shadow(..) => same += 1,
                Object::Clean(_) | Object::Unable(_) => other += 1,
            }
        }
        assert!(same > 0 && other > 0, "{same} rewritten, {other} not");
    }

    #[test]
    fn a_process_is_seen_to_be_made() {
        const FORK: u64 = 56;
        const VFORK: u64 = 58;
        let bytes = fs::read(libc_path()).unwrap();
        let s = scan::scan(&bytes).unwrap();
        for number in [FORK, VFORK] {
            let makes = |s: &window::Site| s.numbers.as_ref().is_some_and(|v| v.contains(&number));
            assert!(s.sites.iter().any(makes), "no site with number {number}");
        }
    }

    #[test]
    fn every_rewritten_site_keeps_its_syscall() {
        let bytes = fs::read(libc_path()).unwrap();
        let s = scan::scan(&bytes).unwrap();
        let image = image::build(&s).unwrap();
        let word = |k: usize| u64::from_le_bytes(image[8 * k..8 * k + 8].try_into().unwrap());
        let text = byway_sys::cached::word::TEXT;
        let (vaddr, off) = (word(text), word(text + 2) as usize);
        for site in &s.sites {
            let at = off + (site.start - vaddr) as usize;
            assert_eq!(image[at], 0xe9, "no jump at {:#x}", site.start);
            if !site.moved {
                let sys = off + (site.syscall - vaddr) as usize;
                assert_eq!(&image[sys..sys + 2], &[0x0f, 0x05]);
            }
        }
    }
}
