//! What pipes cost that nobody uses.
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;

/// Bytes of the domain that are there, in the shared-memory folder.
fn resident() -> u64 {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let dir = std::env::var("BYWAY_SHM").unwrap_or(format!("/dev/shm/byway-{user}"));
    let mut n = 0;
    for d in std::fs::read_dir(dir).unwrap().flatten() {
        if let Ok(m) = std::fs::metadata(d.path().join("memory")) {
            n += m.blocks() * 512;
        }
    }
    n
}

#[test]
fn idle_pipes_take_less_than_a_page() {
    const N: usize = 400;
    let (r, w) = byway::pipe().unwrap();
    let before = resident();
    let mut all: Vec<_> = (0..N).map(|_| byway::pipe().unwrap()).collect();
    let idle = resident().saturating_sub(before);
    assert!(idle < N as u64 * 4096, "{idle} bytes for {N} pipes");
    // Used, read to the end, and at rest again.
    for (r, w) in &mut all {
        w.write_all(&[1; 3000]).unwrap();
        let mut b = [0; 5000];
        assert_eq!(r.read(&mut b).unwrap(), 3000);
        let most = std::time::Duration::from_millis(21);
        assert!(r.read_timeout(&mut b, most).is_err());
    }
    let rest = resident().saturating_sub(before);
    // The allocator keeps what it is told to keep (low watermark, 8 MiB; it decays to it), not a ring for each.
    assert!(rest < 20 << 20, "{rest} bytes for {N} pipes that were used");
    drop((r, w, all));
}

#[test]
fn slots_come_back() {
    // More pipes, one after the other, than there are slots.
    for k in 0..3000 {
        let (mut r, mut w) = byway::pipe().unwrap();
        assert!(w.is_carried(), "pipe {k}");
        w.write_all(b"x").unwrap();
        assert_eq!(r.read(&mut [0; 9]).unwrap(), 1);
    }
}
