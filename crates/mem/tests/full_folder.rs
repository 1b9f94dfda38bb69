//! A shared-memory folder that is full: allocation says so, and nobody gets SIGBUS, neither at once nor later when an
//! object is written.
//!
//! Invariant: each test has a tmpfs of its own, in a mount name space of its own, and checks that the file cannot have
//! all its pages there. Where mounting is not permitted it says so and is skipped.
//! Not here: a domain that is itself too small (allocator.rs).
mod common;
use byway_mem::audit::audit;
use byway_mem::cache::{User, alloc, drain, free};
use byway_mem::domain::Domain;
use byway_mem::layout::{Class, Geometry, MAGIC, flags};
use byway_mem::reclaim;
use common::*;
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

const SKIPPED: i32 = 77;
const SLABS: usize = 16;

/// Runs `f` in a child with a tmpfs of `kib` at the path that it is given.
fn with_folder(kib: usize, f: impl FnOnce(&str)) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let (pid, n) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    let dir = std::env::temp_dir().join(format!("byway-full-{pid}-{n}"));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.to_str().unwrap().to_owned();
    let end = child(|| {
        let p = CString::new(path.as_str()).unwrap();
        let how = CString::new(format!("size={kib}k,mode=700")).unwrap();
        // SAFETY: NUL-terminated strings; the name spaces are this child's.
        unsafe {
            let private = libc::unshare(libc::CLONE_NEWNS) == 0
                || libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) == 0;
            let root = c"/".as_ptr();
            let none = std::ptr::null();
            let alone = libc::MS_REC | libc::MS_PRIVATE;
            if !private
                || libc::mount(none, root, none, alone, none.cast()) != 0
                || libc::mount(
                    c"tmpfs".as_ptr(),
                    p.as_ptr(),
                    c"tmpfs".as_ptr(),
                    0,
                    how.as_ptr().cast(),
                ) != 0
            {
                return SKIPPED;
            }
        }
        f(&path);
        0
    });
    std::fs::remove_dir(&dir).unwrap();
    if end == SKIPPED {
        println!("skipped: no tmpfs can be mounted here");
        return;
    }
    assert_eq!(end, 0, "{kib} KiB: 263 is SIGBUS");
}

/// A domain file in the folder, as byway run makes one: what everybody touches is reserved, the rest is a hole.
fn make(folder: &str, flags: u32) -> Domain {
    let (path, g) = (format!("{folder}/domain"), Geometry::of(SLABS));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    let (fd, c) = (file.as_raw_fd(), CString::new(path).unwrap());
    // SAFETY: our own file; the mapping is kept for the life of the child.
    let d = unsafe {
        assert_eq!(libc::fchmod(fd, 0o600), 0);
        assert_eq!(libc::ftruncate(fd, g.bytes as i64), 0);
        assert_eq!(libc::fallocate(fd, 0, 0, g.reserved() as i64), 0);
        let p = libc::mmap(std::ptr::null_mut(), g.bytes, 3, libc::MAP_SHARED, fd, 0);
        assert_ne!(p, libc::MAP_FAILED);
        Domain::over(p.cast(), SLABS)
    };
    assert!(
        free_kib(folder) * 1024 < SLABS * 512 * 1024,
        "there is room for all of it"
    );
    d.lay_out();
    let h = d.header();
    h.cycles_per_us.store(2000, Relaxed);
    h.flags.store(flags, Relaxed);
    h.magic.store(MAGIC, Relaxed);
    // A process that joins.
    Domain::join(c.as_bytes_with_nul()).unwrap()
}

fn free_kib(folder: &str) -> usize {
    let c = CString::new(folder).unwrap();
    // SAFETY: `s` is ours.
    unsafe {
        let mut s: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(c.as_ptr(), &mut s), 0);
        s.f_bfree as usize * s.f_bsize as usize / 1024
    }
}

/// All objects of `class` that can be had, each written in full and read back.
fn all(u: &User, class: Class) -> Vec<u32> {
    let v: Vec<u32> = std::iter::from_fn(|| alloc(u, class)).collect();
    assert!(alloc(u, class).is_none(), "no is no");
    for &x in &v {
        let p = u.domain.address(x, class).unwrap();
        // SAFETY: ours.
        unsafe { p.write_bytes(x as u8, class.bytes()) };
    }
    for &x in &v {
        let p = u.domain.address(x, class).unwrap();
        // SAFETY: ours.
        let all = unsafe { std::slice::from_raw_parts(p, class.bytes()) };
        assert!(all.iter().all(|&b| b == x as u8), "{class:?} {x}");
    }
    v
}

fn back(u: &User, v: &[u32], class: Class) {
    v.iter().for_each(|&x| free(u, x, class));
    drain(u);
    reclaim::give(u, usize::MAX);
    let a = audit(&u.domain, |_| {}).unwrap();
    assert!(a.is_clean() && a.held == 0, "{a:?}");
}

fn every_page_comes_and_goes(kib: usize, flags: u32) {
    with_folder(kib, |folder| {
        pin(cpus()[0]);
        let d = make(folder, flags);
        let u = user(d);
        let free_at_first = free_kib(folder);
        let mut before = [0; 3];
        let mut left = [0; 3];
        for round in 0..4 {
            for class in Class::ALL {
                let (c, v) = (class as usize, all(&u, class));
                // All the folder but what the tables took, and but what is less than an object.
                let kib_had = v.len() * class.bytes() / 1024;
                assert!(
                    free_kib(folder) < 64 + 4,
                    "{class:?}: {} KiB free",
                    free_kib(folder)
                );
                assert!(kib_had > 0 || class == Class::Jumbo, "{class:?}");
                back(&u, &v, class);
                if round > 0 {
                    // By now the buckets are there: all else comes back.
                    if round > 1 {
                        assert_eq!(v.len(), before[c], "{class:?} round {round}");
                        assert_eq!(free_kib(folder), left[c], "{class:?} round {round}");
                    }
                    (before[c], left[c]) = (v.len(), free_kib(folder));
                }
            }
        }
        // What did not come back is pages of buckets.
        let tables = d.header().buckets.load(Relaxed) as usize / 16 * 4;
        let gone = free_at_first - left[2];
        assert_eq!(gone, tables, "KiB gone");
    });
}

#[test]
fn every_page_comes_and_goes_in_1_mib() {
    every_page_comes_and_goes(1024, 0);
    every_page_comes_and_goes(1024, flags::NO_RSEQ);
}

#[test]
fn every_page_comes_and_goes_in_2_and_3_mib() {
    every_page_comes_and_goes(2048, 0);
    every_page_comes_and_goes(3000, 0);
    every_page_comes_and_goes(3000, flags::NO_RSEQ);
}

#[test]
fn what_is_there_can_be_had_when_others_fill_the_folder() {
    with_folder(2048, |folder| {
        pin(cpus()[0]);
        let u = user(make(folder, 0));
        for class in [Class::Mbuf, Class::Cluster] {
            // The first pages of a slab go back, the later ones stay; then somebody else takes the rest.
            let v: Vec<u32> = (0..800 * 256 / class.bytes())
                .map(|_| alloc(&u, class).unwrap())
                .collect();
            let mut low = v.clone();
            low.sort();
            let high = low.split_off(low.len() / 2);
            back_some(&u, &low, class);
            let other = std::fs::File::create(format!("{folder}/other")).unwrap();
            let mut n = 0;
            // SAFETY: our own file.
            while unsafe { libc::fallocate(other.as_raw_fd(), 0, n, 4096) } == 0 {
                n += 4096;
            }
            assert!(n > 0 && free_kib(folder) == 0);
            assert!(alloc(&u, Class::Jumbo).is_none());
            // Free objects on pages that are there: no new page is needed.
            high.iter().for_each(|&x| free(&u, x, class));
            drain(&u);
            let stay = high.len() - 2 * 4096 / class.bytes();
            let got = home_and_again(&u, class);
            assert!(got.len() >= stay, "{class:?}: {} of {stay}", got.len());
            for &x in &got {
                // SAFETY: ours.
                unsafe {
                    u.domain
                        .address(x, class)
                        .unwrap()
                        .write_bytes(1, class.bytes())
                };
            }
            back(&u, &got, class);
            std::fs::remove_file(format!("{folder}/other")).unwrap();
        }
    });
}

fn back_some(u: &User, v: &[u32], class: Class) {
    v.iter().for_each(|&x| free(u, x, class));
    drain(u);
    reclaim::give(u, usize::MAX);
}

/// Every object goes from its bucket to its slab, without giving pages back, and then to a holder.
fn home_and_again(u: &User, class: Class) -> Vec<u32> {
    let out: Vec<u32> = std::iter::from_fn(|| alloc(u, class)).collect();
    for &x in &out {
        u.domain.object(x).unwrap().mark.store(u.who.pid, Relaxed);
        assert!(byway_mem::slab::bring_home(&u.domain, x, u.who));
    }
    std::iter::from_fn(|| alloc(u, class)).collect()
}
