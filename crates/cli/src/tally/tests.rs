//! What the kernel tells of opens by other processes, against what those say.
//!
//! Invariant: each opener is a process of its own, which nobody traces and which only opens.
//! Not here: what a run does with the answer (tests/run.sh, tests/conformance/fifo_*.c).
use super::*;
use byway_mem::layout::Geometry;
use byway_pipe::channel::Holders;

const SLOT: usize = 0;

fn domain() -> Domain {
    const SLABS: usize = 4;
    // SAFETY: a new shared mapping of the size that `over` wants; it stays for the life of the process.
    let d = unsafe {
        let (rw, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        let flags = shared | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let n = Geometry::of(SLABS).bytes;
        let p = libc::mmap(std::ptr::null_mut(), n, rw, flags, -1, 0);
        assert_ne!(p, libc::MAP_FAILED);
        Domain::over(p.cast(), SLABS)
    };
    d.lay_out();
    d
}

/// A folder with a FIFO in it, and the tally of a domain of its own.
struct Room {
    tally: Tally,
    folder: std::path::PathBuf,
    fifo: std::path::PathBuf,
}

impl Room {
    /// `None` where the kernel tells nobody but root, or not of this file system.
    fn new(test: &str) -> Option<Room> {
        let folder = std::env::temp_dir().join(format!("byway-{test}-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let domain = domain();
        let ch = Channel::at(domain, SLOT).expect("a slot");
        ch.reset(65536);
        ch.facts.0.holders.store(Holders::Unknown as u32, Relaxed);
        let mut tally = Tally::new(domain);
        tally.watch_folder(&folder, 1);
        let fifo = folder.join("f");
        let room = Room {
            tally,
            folder,
            fifo,
        };
        if room.tally.folder.is_none() {
            eprintln!("skipped: no fanotify for this user or file system");
            return None;
        }
        make(&room.fifo);
        Some(room)
    }

    fn key(&self) -> Fifo {
        (SLOT, (7, 7))
    }

    fn begin(&mut self) -> bool {
        self.tally.begin_at_birth(&self.fifo.clone(), self.key(), 1)
    }

    /// Another process opens the FIFO so often, and says so or does not.
    fn open(&self, times: usize, says: bool) {
        let d = self.tally.domain;
        let path = CString::new(self.fifo.as_os_str().as_bytes()).expect("no zero");
        // SAFETY: the child makes system calls alone, on memory that was there before.
        unsafe {
            let pid = libc::fork();
            if pid == 0 {
                for _ in 0..times {
                    let begun = fifo_opens::begin(&d);
                    let fd = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                    if let (true, Some(begun), Some(ch)) = (says, begun, Channel::at(d, SLOT)) {
                        fifo_opens::opened(&d, ch, begun);
                    }
                    if fd < 0 {
                        libc::_exit(1);
                    }
                }
                libc::_exit(0);
            }
            let mut status = 0;
            assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
            assert_eq!(status, 0);
        }
    }

    fn are_participants(&mut self) -> bool {
        self.tally.are_participants(self.key())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn make(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zero");
    // SAFETY: a C string.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn an_open_that_nobody_says_is_an_outsiders() {
    let Some(mut r) = Room::new("said") else {
        return;
    };
    assert!(r.begin() && r.are_participants());
    r.open(1, true);
    r.open(1, true);
    assert!(r.are_participants());
    r.open(1, false);
    assert!(!r.are_participants());
    // A look that finds nobody is a new beginning.
    r.tally.restart(r.key());
    assert!(!r.are_participants(), "no proof yet");
    r.tally.set_proof(r.key());
    assert!(r.are_participants());
    r.open(1, true);
    assert!(r.are_participants());
}

#[test]
fn what_the_kernel_merges_is_said_once() {
    let Some(mut r) = Room::new("merged") else {
        return;
    };
    assert!(r.begin());
    // Nothing is read meanwhile, so the kernel may tell of one open alone.
    r.open(5, true);
    let mut said = 0;
    let from = r.tally.count(r.key()).expect("counted").from;
    fifo_opens::each(&r.tally.domain, SLOT as u32, from, |_, n| said += n);
    assert_eq!(said, 1);
    assert!(r.are_participants());
    r.open(1, false);
    assert!(!r.are_participants());
}

#[test]
fn an_open_before_the_fifo_is_watched_is_known() {
    let Some(mut r) = Room::new("early") else {
        return;
    };
    r.open(1, false);
    assert!(r.begin());
    assert!(!r.are_participants());
}

#[test]
fn a_fifo_that_was_moved_before_it_is_watched_is_none_of_ours() {
    let Some(mut r) = Room::new("moved") else {
        return;
    };
    std::fs::rename(&r.fifo, r.folder.join("g")).expect("moved");
    std::fs::rename(r.folder.join("g"), &r.fifo).expect("moved back");
    r.tally.drain();
    assert!(!r.begin());
    assert!(!r.are_participants());
}

#[test]
fn lost_events_are_opens_of_all() {
    let Some(mut r) = Room::new("lost") else {
        return;
    };
    assert!(r.begin() && r.are_participants());
    let mut event = [0u8; METADATA];
    event[8..16].copy_from_slice(&libc::FAN_Q_OVERFLOW.to_ne_bytes());
    r.tally.heard(&event);
    assert!(!r.are_participants());
    assert_eq!(r.tally.take_news().0, [r.key()]);
}

#[test]
fn a_removed_fifo_is_counted_no_more() {
    let Some(mut r) = Room::new("removed") else {
        return;
    };
    assert!(r.begin());
    std::fs::remove_file(&r.fifo).expect("removed");
    r.tally.drain();
    assert_eq!(r.tally.take_news().1, [r.key()]);
    assert!(!r.are_participants() && r.tally.fifos().count() == 0);
    // One that has its number is another.
    make(&r.fifo);
    assert!(!r.tally.has(&r.fifo, r.key()));
}
