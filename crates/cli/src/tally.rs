//! How often FIFOs were opened, as the kernel tells (fanotify), against what participants say of their own opens.
//!
//! Invariant: each open since a FIFO's count began is counted, but that two by one process may be one if the kernel has
//! not been read in between. What participants say is counted the same way, and never more (crate pipe, fifo_opens.rs).
//! So where the kernel has told of no more opens, all were participants'. The kernel tells of an open before it returns.
//! unsafe: calls of libc, and the events' bytes.
//! Not here: what follows for a FIFO (fifo.rs), who held it when the count began.
use byway_mem::domain::Domain;
use byway_pipe::channel::Channel;
use byway_pipe::fifo_opens;
use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::time::{Duration, Instant};

/// A FIFO: its channel slot, device and inode.
pub type Fifo = (usize, (u64, u64));
/// A file as the kernel names it to whoever watches: file system, and a handle that no later file has.
type Name = Vec<u8>;

/// A folder is watched while a FIFO is made in it: for no longer than this.
const BIRTH: Duration = Duration::from_millis(50);
/// The most opens in such a folder.
const STRAYS: usize = 10_000;

const OPENS: u64 = libc::FAN_OPEN;
const MOVES: u64 = libc::FAN_MOVED_TO | libc::FAN_DELETE;

struct Count {
    fifo: Fifo,
    /// The service's reads when the count began.
    from: u32,
    opens: u64,
    /// Whether nobody but participants had the FIFO then.
    is_proof: bool,
}

/// A folder in which a FIFO is being made.
struct Folder {
    file: File,
    pid: u32,
    since: Instant,
    /// Opens in it. `None`: they are not known, or a name in it was moved or removed.
    strays: Option<Vec<Name>>,
}

/// The counts of a domain's FIFOs.
pub struct Tally {
    domain: Domain,
    /// Negative where the kernel does not tell this user (Linux before 5.13, a filter of calls).
    group: i32,
    counts: HashMap<Name, Count>,
    folder: Option<Folder>,
    opened: HashSet<Fifo>,
    removed: Vec<Fifo>,
}

impl Tally {
    pub fn new(domain: Domain) -> Tally {
        let flags = libc::FAN_CLASS_NOTIF | libc::FAN_REPORT_FID;
        // SAFETY: no pointers.
        let group = unsafe {
            libc::fanotify_init(
                flags | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK,
                libc::O_RDONLY as u32,
            )
        };
        Tally {
            domain,
            group,
            counts: HashMap::new(),
            folder: None,
            opened: HashSet::new(),
            removed: Vec::new(),
        }
    }

    /// What is readable when there is something to read.
    pub fn group(&self) -> i32 {
        self.group
    }

    pub fn fifos(&self) -> impl Iterator<Item = Fifo> {
        self.counts.values().map(|c| c.fifo)
    }

    /// Watches the opens in a folder, where process `pid` is about to make a FIFO.
    pub fn watch_folder(&mut self, path: &Path, pid: u32) {
        self.leave_folder();
        let place = File::options()
            .read(true)
            .custom_flags(libc::O_PATH)
            .open(path);
        let Ok(file) = place else { return };
        let mask = OPENS | MOVES | libc::FAN_EVENT_ON_CHILD;
        if self.mark(libc::FAN_MARK_ADD, mask, &in_proc(&file)) {
            self.folder = Some(Folder {
                file,
                pid,
                since: Instant::now(),
                strays: Some(Vec::new()),
            });
            self.tell();
            // What came before is not of this FIFO.
            self.drain();
            if let Some(f) = &mut self.folder {
                f.strays = Some(Vec::new());
            }
        }
    }

    /// Counts from its birth on the opens of a FIFO that process `pid` has made in the folder. False: they are not known.
    pub fn begin_at_birth(&mut self, path: &Path, fifo: Fifo, pid: u32) -> bool {
        if self.folder.as_ref().is_none_or(|f| f.pid != pid) || !self.begin(path, fifo) {
            return false;
        }
        let name = name(path);
        let strays = self.folder.as_mut().and_then(|f| f.strays.take());
        self.leave_folder();
        match (name.as_ref().and_then(|n| self.counts.get_mut(n)), strays) {
            (Some(c), Some(strays)) => {
                c.opens += strays.iter().filter(|s| Some(*s) == name.as_ref()).count() as u64;
                c.is_proof = true;
                true
            }
            _ => false,
        }
    }

    /// Ends the watch of a folder in which no FIFO has come into being.
    pub fn tend(&mut self) {
        if self
            .folder
            .as_ref()
            .is_some_and(|f| f.since.elapsed() > BIRTH)
        {
            self.leave_folder();
        }
    }

    fn leave_folder(&mut self) {
        if let Some(f) = self.folder.take() {
            let mask = OPENS | MOVES | libc::FAN_EVENT_ON_CHILD;
            self.mark(libc::FAN_MARK_REMOVE, mask, &in_proc(&f.file));
            self.tell();
        }
    }

    /// Counts from now on the opens of a FIFO. False: the kernel does not tell.
    pub fn begin(&mut self, path: &Path, fifo: Fifo) -> bool {
        let mask = OPENS | libc::FAN_DELETE_SELF;
        let Some(name) = name(path).filter(|_| self.mark(libc::FAN_MARK_ADD, mask, path)) else {
            return false;
        };
        let from = self.begin_in(fifo.0);
        let count = Count {
            fifo,
            from,
            opens: 0,
            is_proof: false,
        };
        self.counts.insert(name, count);
        self.tell();
        true
    }

    /// Counts anew, of a FIFO that is counted.
    pub fn restart(&mut self, fifo: Fifo) {
        let from = self.begin_in(fifo.0);
        for c in self.counts.values_mut().filter(|c| c.fifo == fifo) {
            (c.from, c.opens, c.is_proof) = (from, 0, false);
        }
    }

    /// Nobody but participants had the FIFO after its count began.
    pub fn set_proof(&mut self, fifo: Fifo) {
        let all = self.counts.values_mut();
        all.filter(|c| c.fifo == fifo)
            .for_each(|c| c.is_proof = true);
    }

    /// Whether the count began with a proof.
    pub fn has_proof(&self, fifo: Fifo) -> bool {
        self.count(fifo).is_some_and(|c| c.is_proof)
    }

    fn begin_in(&mut self, slot: usize) -> u32 {
        let from = self.drain();
        fifo_opens::forget(&self.domain, slot as u32);
        if let Some(ch) = Channel::at(self.domain, slot) {
            // ORDER: what was said of an older count is gone before.
            ch.reader.0.counted_from.store(from, Release);
        }
        from
    }

    /// Whether this FIFO, and not one that had its number, is counted.
    pub fn has(&self, path: &Path, fifo: Fifo) -> bool {
        name(path)
            .and_then(|n| self.counts.get(&n))
            .is_some_and(|c| c.fifo == fifo)
    }

    /// Whether each open since a proof was a participant's, as far as the kernel has told by now.
    pub fn are_participants(&mut self, fifo: Fifo) -> bool {
        let d = self.domain;
        let Some(from) = self.count(fifo).filter(|c| c.is_proof).map(|c| c.from) else {
            return false;
        };
        // First what was said: the kernel has told of all of that.
        let mut said: HashMap<u32, u16> = HashMap::new();
        fifo_opens::each(&d, fifo.0 as u32, from, |pid, opens| {
            let most = said.entry(pid).or_default();
            *most = (*most).max(opens);
        });
        let said = said.values().map(|&n| u64::from(n)).sum();
        self.drain();
        let is_same =
            Channel::at(d, fifo.0).is_some_and(|ch| ch.reader.0.counted_from.load(Relaxed) == from);
        is_same && self.count(fifo).is_some_and(|c| c.opens <= said)
    }

    fn count(&self, fifo: Fifo) -> Option<&Count> {
        self.counts.values().find(|c| c.fifo == fifo)
    }

    /// FIFOs that were opened, and that were removed, since this was last asked.
    pub fn take_news(&mut self) -> (Vec<Fifo>, Vec<Fifo>) {
        let opened = self.opened.drain().collect();
        (opened, std::mem::take(&mut self.removed))
    }

    /// Reads all that the kernel has told; how often that was done by now, which is never 0.
    ///
    /// Twice: what an opener has said is apart from its next open only after a read that began later (fifo_opens.rs).
    pub fn drain(&mut self) -> u32 {
        let mut now = 0;
        for _ in 0..2 {
            self.read_all();
            let drains = &self.domain.header().drains;
            // ORDER: the counting before its number; the next read after it.
            now = drains.fetch_add(1, AcqRel).wrapping_add(1);
            if now == 0 {
                now = drains
                    .fetch_add(1, AcqRel /* ORDER: as above. */)
                    .wrapping_add(1);
            }
        }
        now
    }

    fn read_all(&mut self) {
        let mut buf = [0u64; 2048];
        loop {
            // SAFETY: a buffer of ours, aligned for struct fanotify_event_metadata.
            let n = unsafe { libc::read(self.group, buf.as_mut_ptr().cast(), size_of_val(&buf)) };
            if n <= 0 {
                return;
            }
            let bytes: Vec<u8> = buf.iter().flat_map(|w| w.to_ne_bytes()).collect();
            let mut rest = &bytes[..n as usize];
            while rest.len() >= METADATA {
                let (event, after) = rest.split_at(length(rest).clamp(METADATA, rest.len()));
                self.heard(event);
                rest = after;
            }
        }
    }

    /// One event.
    fn heard(&mut self, event: &[u8]) {
        let mask = u64::from_ne_bytes(array(&event[8..16]));
        let pid = u32::from_ne_bytes(array(&event[20..24]));
        if mask & libc::FAN_Q_OVERFLOW != 0 {
            // Events were lost: no count holds.
            self.counts
                .values_mut()
                .for_each(|c| c.opens = u64::MAX / 2);
            self.opened.extend(self.counts.values().map(|c| c.fifo));
            self.folder.iter_mut().for_each(|f| f.strays = None);
            return;
        }
        let Some(name) = named(event) else { return };
        // The service's own opens are known even to a user who is not root.
        let is_own = pid == std::process::id();
        if mask & OPENS != 0 && !is_own {
            if let Some(c) = self.counts.get_mut(&name) {
                c.opens += 1;
                self.opened.insert(c.fifo);
            } else if let Some(f) = &mut self.folder {
                f.strays = f.strays.take().filter(|s| s.len() < STRAYS);
                f.strays.iter_mut().for_each(|s| s.push(name.clone()));
            }
        }
        if mask & MOVES != 0 {
            self.folder.iter_mut().for_each(|f| f.strays = None);
        }
        if mask & libc::FAN_DELETE_SELF != 0
            && let Some(c) = self.counts.remove(&name)
        {
            self.removed.push(c.fifo);
            self.tell();
        }
    }

    fn mark(&self, how: u32, mask: u64, path: &Path) -> bool {
        let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
            return false;
        };
        // SAFETY: a C string.
        unsafe { libc::fanotify_mark(self.group, how, mask, libc::AT_FDCWD, path.as_ptr()) == 0 }
    }

    /// Tells participants whether somebody counts.
    fn tell(&self) {
        let n = self.counts.len() + usize::from(self.folder.is_some());
        self.domain.header().counted.store(n as u32, Relaxed);
    }
}

/// LINUX fanotify(7): struct fanotify_event_metadata is length (4 bytes), version, reserved, its own length (2), mask (8),
/// descriptor (4), process (4). Records follow.
const METADATA: usize = 24;

fn length(event: &[u8]) -> usize {
    u32::from_ne_bytes(array(&event[..4])) as usize
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("as many")
}

/// The file that an event is of.
///
/// LINUX fanotify(7): struct fanotify_event_info_fid is type (1 byte), padding, length (2), file system (8), and a struct
/// file_handle: length (4), type (4), bytes.
fn named(event: &[u8]) -> Option<Name> {
    let mut rest = &event[METADATA..];
    while rest.len() >= 4 {
        let n = usize::from(u16::from_ne_bytes(array(&rest[2..4]))).clamp(4, rest.len());
        let (record, after) = rest.split_at(n);
        if record[0] == libc::FAN_EVENT_INFO_TYPE_FID && n >= 20 {
            let handle = u32::from_ne_bytes(array(&record[12..16])) as usize;
            return record.get(4..20 + handle).map(<[u8]>::to_vec);
        }
        rest = after;
    }
    None
}

/// The same of the file that `path` leads to.
fn name(path: &Path) -> Option<Name> {
    const MOST: usize = 128;
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut handle = [0u32; 2 + MOST / 4];
    handle[0] = MOST as u32;
    let mut mount = 0;
    // SAFETY: a C string, zeros, and a struct file_handle with room for as many bytes as it says.
    let (r, system) = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        let handle = handle.as_mut_ptr().cast();
        let r = libc::statfs(path.as_ptr(), &mut system)
            | libc::name_to_handle_at(
                libc::AT_FDCWD,
                path.as_ptr(),
                handle,
                &mut mount,
                libc::AT_SYMLINK_FOLLOW,
            );
        (
            r,
            std::mem::transmute::<libc::fsid_t, [u8; 8]>(system.f_fsid),
        )
    };
    let bytes: Vec<u8> = handle.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let all = bytes.get(..8 + handle[0] as usize)?;
    (r == 0).then(|| [&system[..], all].concat())
}

fn in_proc(file: &File) -> std::path::PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

#[cfg(test)]
mod tests;
