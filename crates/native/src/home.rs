//! The domain that the native programs of a user share: joined with the first pipe, removed by the last process.
//!
//! ```text
//! /dev/shm/byway-UID/native-VERSION-SPACE/    SPACE: the pid name space in which all process ids are meant
//!     memory                                  the domain
//!     users                                   nothing: for its lock
//!     NAME                                    the FIFOs of that name (fifo.rs)
//! ```
//! Invariant: nobody joins or removes but under the folder's lock. Every process that uses the domain holds a shared lock on
//! `memory` through a mapping, which no program that closes descriptors takes away, and one on `users` through a descriptor,
//! which it can let go at its end. A killed process has let go of both; what it left goes with the next one that comes, or
//! with the next `byway run`.
//! unsafe: maps the domain. Not here: channels.
use crate::{thread, timer};
use byway_folder as folder;
use byway_folder::native::{self, MEMORY, empty, open};
use byway_folder::{hold, lock};
use byway_mem::domain::Domain;
use byway_mem::layout::{Geometry, MAGIC, SLABS, VERSION};
use byway_sys::{barrier, clock, process};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The joined domain.
pub struct Home {
    pub domain: Domain,
    pub folder: PathBuf,
    /// CPUs that the process might use when it joined.
    pub cpus: u32,
    /// Whether the barriers of other processes reach this one.
    pub has_barriers: bool,
    /// Locked until this process, and every child that it forked, has ended or closed it.
    users: File,
    /// Device and inode of `memory`.
    id: (u64, u64),
}

impl Home {
    /// Whether whoever joins now finds this domain: not if this process has closed `users`, and others have left since.
    pub fn is_current(&self) -> bool {
        id(&fs::metadata(self.folder.join(MEMORY))) == Some(self.id)
    }
}

const USERS: &str = "users";
/// Names that are no FIFO's.
pub const RESERVED: [&str; 2] = [MEMORY, USERS];

fn id(m: &io::Result<fs::Metadata>) -> Option<(u64, u64)> {
    m.as_ref().ok().map(|m| (m.dev(), m.ino()))
}

static JOINED: AtomicPtr<Home> = AtomicPtr::new(std::ptr::null_mut());

/// The domain, if this process has joined it.
pub fn joined() -> Option<&'static Home> {
    // ORDER: what it points to is complete; a value that was set stays.
    let p = JOINED.load(Ordering::Acquire);
    // SAFETY: null, or leaked by `home`.
    unsafe { p.as_ref() }
}

/// The domain, joined with the first call.
///
/// # Errors
/// A sentence: why there is none, and what to try.
pub fn home() -> Result<&'static Home, String> {
    static JOINING: Mutex<()> = Mutex::new(());
    if let Some(h) = joined() {
        return Ok(h);
    }
    let _one = JOINING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(h) = joined() {
        return Ok(h);
    }
    let h: &'static Home = Box::leak(Box::new(join()?));
    // ORDER: complete before it is found.
    JOINED.store(std::ptr::from_ref(h).cast_mut(), Ordering::Release);
    thread::begin(h.domain, thread::ids());
    // On one CPU who wakes a sleeper has kept it from going idle.
    if h.cpus > 1 && std::env::var_os("BYWAY_TIMER").is_none_or(|v| v != "off") {
        timer::begin(h.domain.header().cycles_per_us.load(Ordering::Relaxed));
    }
    // SAFETY: plain functions.
    unsafe {
        libc::atexit(leave);
        libc::pthread_atfork(None, None, Some(enter));
    }
    Ok(h)
}

/// The domain, for what there is no ordinary pipe of: `what`, and what does instead.
pub fn needed(what: &str, instead: &str) -> io::Result<&'static Home> {
    home().map_err(|why| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("{what} needs shared memory: {why}; or {instead}"),
        )
    })
}

/// A forked child has what its parent had open, before its first call.
extern "C" fn enter() {
    // Asked for anew they enter the process.
    thread::ids();
}

fn join() -> Result<Home, String> {
    if std::env::var_os("BYWAY").is_some_and(|v| !v.is_empty()) {
        return Err("`byway run` carries this process's pipes, or BYWAY=off says that nobody does; start it without, or unset BYWAY".into());
    }
    let above = folder::folder();
    let space = fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino());
    let dir = native::folder(&above, VERSION, space);
    for _ in 0..5 {
        folder::usable(&above)?;
        // The last one of others may remove the empty folders in between.
        if folder::usable(&dir).is_err() && !above.exists() {
            continue;
        }
        folder::usable(&dir)?;
        let Ok(lock) = hold(&dir) else { continue };
        let same = |m: fs::Metadata| lock.metadata().is_ok_and(|l| l.ino() == m.ino());
        if !fs::metadata(&dir).is_ok_and(same) {
            continue;
        }
        let path = dir.join(MEMORY);
        let say = |e: io::Error| {
            format!(
                "{}: {e}; set BYWAY_SHM to a folder of yours on a tmpfs with room",
                path.display()
            )
        };
        let domain = match existing(&path).map_err(say)? {
            Some(found) => found,
            None => {
                empty(&dir);
                // There was none here, so there may be more that nobody has.
                native::sweep(&above);
                create(&path).map_err(|e| {
                    let _ = fs::remove_file(&path);
                    say(e)
                })?
            }
        };
        return Ok(Home {
            domain,
            users: using(&dir).map_err(say)?,
            id: id(&fs::metadata(&path)).ok_or("the domain has vanished; try again")?,
            folder: dir,
            cpus: process::allowed_cpus(),
            has_barriers: barrier::register(),
        });
    }
    Err(format!(
        "shared-memory folder {}: it vanishes again and again",
        dir.display()
    ))
}

/// The domain that living processes have; `None` if there is none, or nobody has it.
fn existing(path: &Path) -> io::Result<Option<Domain>> {
    let f = match open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        f => f?,
    };
    if lock(&f, libc::LOCK_EX | libc::LOCK_NB).is_ok() {
        return Ok(None);
    }
    lock(&f, libc::LOCK_SH)?;
    // LINUX a mapping keeps the open file, and its lock with it.
    map(&f, 4096)?;
    let mut name = path.as_os_str().as_bytes().to_vec();
    name.push(0);
    let joined = Domain::join(&name);
    joined
        .map(Some)
        .map_err(|e| io::Error::from_raw_os_error(-e as i32))
}

/// A shared mapping of the first `bytes` of `f`, for the life of the process.
fn map(f: &File, bytes: usize) -> io::Result<*mut u8> {
    // SAFETY: a new mapping.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_NORESERVE,
            f.as_raw_fd(),
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}

/// Enters this process among the users.
fn using(dir: &Path) -> io::Result<File> {
    let mut how = fs::OpenOptions::new();
    how.read(true).write(true).create(true).mode(0o600);
    let f = how.custom_flags(libc::O_NOFOLLOW).open(dir.join(USERS))?;
    lock(&f, libc::LOCK_SH)?;
    Ok(f)
}

fn create(path: &Path) -> io::Result<Domain> {
    let g = Geometry::of(SLABS);
    let mut how = fs::OpenOptions::new();
    how.read(true).write(true).create_new(true).mode(0o600);
    let f = how.open(path)?;
    lock(&f, libc::LOCK_SH)?;
    f.set_len(g.bytes as u64)?;
    // What everybody touches is reserved now: a full folder is an error here, never SIGBUS later.
    // SAFETY: a descriptor of ours.
    match unsafe { libc::posix_fallocate(f.as_raw_fd(), 0, g.reserved() as i64) } {
        0 => {}
        e => return Err(io::Error::from_raw_os_error(e)),
    }
    let base = map(&f, g.bytes)?;
    // SAFETY: mapped above, of that size.
    let d = unsafe { Domain::over(base, g.slabs) };
    d.lay_out();
    let (h, relaxed) = (d.header(), Ordering::Relaxed);
    // No service: the first process of the name space stands for it, and lives as long as anybody here.
    h.creator.store(1, relaxed);
    h.cpus.store(folder::quota::cpus(), relaxed);
    h.cycles_per_us.store(cycles_per_us(), relaxed);
    h.may_promise.store(folder::pipes::budget(), relaxed);
    // ORDER: the rest of the header before the mark that makes it a domain.
    h.magic.store(MAGIC, Ordering::Release);
    Ok(d)
}

/// The cycle counter's rate, over a tenth of a millisecond: an error under 1 %.
fn cycles_per_us() -> u32 {
    let (t, c) = (Instant::now(), clock::now());
    while t.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
    let d = clock::now() - c;
    (u128::from(d) * 1000 / t.elapsed().as_nanos().max(1)) as u32
}

/// At the end of a process: if no other has the domain, nothing of it stays.
extern "C" fn leave() {
    let Some(h) = joined() else { return };
    let Ok(_lock) = hold(&h.folder) else { return };
    let path = h.folder.join(USERS);
    // A program that closed every descriptor may have another file there by now.
    let own = id(&h.users.metadata());
    if own.is_none() || own != id(&fs::metadata(&path)) {
        return;
    }
    // A child that this process forked shares its lock, and goes on. Else it is released here, and nobody else's is.
    // SAFETY: a descriptor of ours; nothing uses it any more.
    unsafe { libc::close(h.users.as_raw_fd()) };
    if open(&path).is_ok_and(|f| lock(&f, libc::LOCK_EX | libc::LOCK_NB).is_ok()) {
        empty(&h.folder);
        let _ = fs::remove_dir(&h.folder);
        if std::env::var_os("BYWAY_SHM").is_none()
            && let Some(above) = h.folder.parent()
        {
            // Only an empty folder goes.
            let _ = fs::remove_dir(above);
        }
    }
}
