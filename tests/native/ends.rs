//! Ends of pipes and FIFOs, of the kernel's and of this library's, that the same body can have.
use byway::events::Change;
use byway::{Fifo, Reader, Writer};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Where bytes come out, and where they go in.
pub enum In {
    Native(Box<Reader>),
    Kernel(File),
}
pub enum Out {
    Native(Box<Writer>),
    Kernel(File),
}

impl In {
    pub fn change(&mut self) -> Change<'_> {
        match self {
            In::Native(r) => Change::read(&mut **r),
            In::Kernel(f) => Change::read(File::as_fd(f)),
        }
    }
    pub fn ident(&self) -> u64 {
        let n = match self {
            In::Native(r) => r.as_raw_fd(),
            In::Kernel(f) => f.as_raw_fd(),
        };
        n as u64
    }
    /// Up to `n` bytes that are there; `None`: none are.
    pub fn read(&mut self, n: usize) -> Option<usize> {
        let mut b = vec![0; n];
        let got = match self {
            In::Native(r) => r.try_read(&mut b),
            In::Kernel(f) => f.read(&mut b),
        };
        match got {
            Err(e) if e.kind() == ErrorKind::WouldBlock => None,
            n => Some(n.unwrap()),
        }
    }
}

impl Out {
    pub fn change(&mut self) -> Change<'_> {
        match self {
            Out::Native(w) => Change::write(&mut **w),
            Out::Kernel(f) => Change::write(File::as_fd(f)),
        }
    }
    /// `n` bytes, as far as there is room.
    pub fn write(&mut self, n: usize) -> std::io::Result<usize> {
        let b = vec![7; n];
        match self {
            Out::Native(w) => w.try_write(&b),
            Out::Kernel(f) => f.write(&b),
        }
    }
    pub fn fill(&mut self) -> usize {
        let mut all = 0;
        while let Ok(n) = self.write(3000) {
            all += n;
        }
        all
    }
}

pub fn kernel_pipe() -> (In, Out) {
    let (r, w) = std::io::pipe().unwrap();
    for fd in [r.as_raw_fd(), w.as_raw_fd()] {
        // SAFETY: no pointers.
        let r = unsafe { libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK) };
        assert_eq!(r, 0);
    }
    let file = |fd: OwnedFd| File::from(fd);
    (In::Kernel(file(r.into())), Out::Kernel(file(w.into())))
}

fn native_pipe() -> (In, Out) {
    let (r, w) = byway::pipe().unwrap();
    assert!(r.is_carried());
    (In::Native(r.into()), Out::Native(w.into()))
}

/// A pipe of this library's where nothing is carried.
pub fn uncarried_pipe() -> (In, Out) {
    let (r, w) = byway::pipe().unwrap();
    assert!(!r.is_carried() && !w.is_carried());
    (In::Native(r.into()), Out::Native(w.into()))
}

/// A FIFO that ends are opened of, one by one; gone with the value.
pub enum Named {
    Native(Fifo),
    Kernel(String),
}

static NAMES: AtomicUsize = AtomicUsize::new(0);

impl Named {
    pub fn new(native: bool) -> Named {
        let name = format!(
            "events-{}-{}",
            std::process::id(),
            NAMES.fetch_add(1, Relaxed)
        );
        if native {
            return Named::Native(Fifo::new(&name).unwrap());
        }
        let path = std::env::temp_dir()
            .join(name)
            .into_os_string()
            .into_string()
            .unwrap();
        let c = std::ffi::CString::new(path.clone()).unwrap();
        // SAFETY: a C string.
        assert_eq!(unsafe { libc::mkfifo(c.as_ptr(), 0o600) }, 0);
        Named::Kernel(path)
    }
    /// At once, whether anybody writes or not.
    pub fn reader(&self) -> In {
        let mut how = File::options();
        how.custom_flags(libc::O_NONBLOCK);
        match self {
            Named::Native(f) => In::Native(f.try_reader().unwrap().into()),
            Named::Kernel(p) => In::Kernel(how.read(true).open(p).unwrap()),
        }
    }
    pub fn writer(&self) -> Out {
        let mut how = File::options();
        how.custom_flags(libc::O_NONBLOCK);
        match self {
            Named::Native(f) => Out::Native(f.try_writer().unwrap().into()),
            Named::Kernel(p) => Out::Kernel(how.write(true).open(p).unwrap()),
        }
    }
}

impl Drop for Named {
    fn drop(&mut self) {
        match self {
            Named::Native(f) => f.remove().unwrap(),
            Named::Kernel(p) => std::fs::remove_file(p).unwrap(),
        }
    }
}

fn named_pair(native: bool) -> (In, Out) {
    let n = Named::new(native);
    let r = n.reader();
    let w = n.writer();
    (r, w)
}

/// The four kinds of pipe.
pub fn each(body: impl Fn(In, Out)) {
    for (name, make) in [
        ("kernel's pipe", kernel_pipe as fn() -> (In, Out)),
        ("kernel's FIFO", || named_pair(false)),
        ("pipe", native_pipe),
        ("FIFO", || named_pair(true)),
    ] {
        eprintln!("of the {name}:");
        let (r, w) = make();
        body(r, w);
    }
}
