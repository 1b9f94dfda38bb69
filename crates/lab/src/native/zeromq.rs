//! ZeroMQ, as a way: PUSH and PULL over ipc://.
//!
//! Invariant: the library (libzmq.so.5, its C interface as zmq(7) has it) is loaded in a run's own process and nowhere else,
//! and the address is an abstract one, so that nothing of either is left behind. A message is filled and looked at where
//! the library has it (zmq_msg_init_size, zmq_msg_data), which spares a copy on either side.
//! Not here: a receiver that looks again and again. The bytes come by a thread of the library's, on the same CPU as who
//! would look.
use super::way::{self, Need, Receiver, Sender, Way};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const LIBRARY: &CStr = c"libzmq.so.5";

/// What is said where it is not.
pub const ABSENT: &str =
    "libzmq.so.5 is not here, or not of 4.3; install it (Debian: apt-get install libzmq5)";

// zmq.h of 4.3
const PULL: c_int = 7;
const PUSH: c_int = 8;
const LINGER: c_int = 17;
const SNDHWM: c_int = 23;
const RCVHWM: c_int = 24;

/// Messages that may wait on each side: the library's own default, or fewer, if that would be more than 8 MiB.
const WAITING: usize = 1000;
const WAITING_BYTES: usize = 8 << 20;

/// zmq_msg_t.
#[repr(C, align(8))]
struct Message([u8; 64]);

/// The library's functions: a field for each, found by its name.
macro_rules! library {
    ($($field:ident $name:literal: $type:ty,)*) => {
        struct Library { $($field: $type,)* }

        impl Library {
            /// # Errors
            /// `ABSENT`.
            fn load() -> io::Result<Library> {
                // SAFETY: a C string; the library's constructors run.
                let handle = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW) };
                if handle.is_null() {
                    return Err(io::Error::other(ABSENT));
                }
                Ok(Library { $($field: {
                    // SAFETY: a handle that is never closed; a C string.
                    let p = unsafe { libc::dlsym(handle, $name.as_ptr()) };
                    if p.is_null() {
                        return Err(io::Error::other(ABSENT));
                    }
                    // SAFETY: the function of that name, whose type zmq.h has.
                    unsafe { std::mem::transmute::<*mut c_void, $type>(p) }
                },)* })
            }
        }
    };
}

library! {
    version c"zmq_version": unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int),
    ctx_new c"zmq_ctx_new": unsafe extern "C" fn() -> *mut c_void,
    ctx_term c"zmq_ctx_term": unsafe extern "C" fn(*mut c_void) -> c_int,
    socket c"zmq_socket": unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    setsockopt c"zmq_setsockopt": unsafe extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> c_int,
    bind c"zmq_bind": unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    connect c"zmq_connect": unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
    close c"zmq_close": unsafe extern "C" fn(*mut c_void) -> c_int,
    msg_init c"zmq_msg_init": unsafe extern "C" fn(*mut Message) -> c_int,
    msg_init_size c"zmq_msg_init_size": unsafe extern "C" fn(*mut Message, usize) -> c_int,
    msg_data c"zmq_msg_data": unsafe extern "C" fn(*mut Message) -> *mut c_void,
    msg_size c"zmq_msg_size": unsafe extern "C" fn(*const Message) -> usize,
    msg_send c"zmq_msg_send": unsafe extern "C" fn(*mut Message, *mut c_void, c_int) -> c_int,
    msg_recv c"zmq_msg_recv": unsafe extern "C" fn(*mut Message, *mut c_void, c_int) -> c_int,
    msg_close c"zmq_msg_close": unsafe extern "C" fn(*mut Message) -> c_int,
}

/// Its version: three numbers.
///
/// # Errors
/// `ABSENT`.
pub fn version() -> io::Result<[i32; 3]> {
    let library = Library::load()?;
    let mut v = [0; 3];
    let [major, minor, patch] = &mut v;
    // SAFETY: three places of ours.
    unsafe { (library.version)(major, minor, patch) };
    Ok(v)
}

pub struct Zeromq {
    zmq: Library,
    bytes: usize,
    address: CString,
}

impl Zeromq {
    /// # Errors
    /// The library is not there.
    pub fn new(need: Need) -> io::Result<Zeromq> {
        static WAYS: AtomicU64 = AtomicU64::new(0);
        let (me, way) = (std::process::id(), WAYS.fetch_add(1, Relaxed));
        Ok(Zeromq {
            zmq: Library::load()?,
            bytes: need.bytes,
            address: CString::new(format!("ipc://@byway-zeromq-{me}-{way}"))?,
        })
    }

    /// A socket in a context of its own: made after the fork, as its thread has to be.
    fn open(&self, kind: c_int) -> io::Result<Socket<'_>> {
        let l = &self.zmq;
        // SAFETY: a context that is ours until the socket is dropped.
        let context = unsafe { (l.ctx_new)() };
        if context.is_null() {
            return Err(io::Error::last_os_error());
        }
        let mut s = Socket {
            zmq: l,
            context,
            socket: std::ptr::null_mut(),
            bytes: self.bytes,
        };
        // SAFETY: as above; the address is a C string, an option's value an int.
        unsafe {
            s.socket = (l.socket)(context, kind);
            if s.socket.is_null() {
                return Err(io::Error::last_os_error());
            }
            let most = (WAITING_BYTES / self.bytes).clamp(1, WAITING) as c_int;
            for (option, value) in [(LINGER, 0), (SNDHWM, most), (RCVHWM, most)] {
                let value: *const c_int = &value;
                done((l.setsockopt)(
                    s.socket,
                    option,
                    value.cast(),
                    size_of::<c_int>(),
                ))?;
            }
            let name = self.address.as_ptr();
            done(if kind == PULL {
                (l.bind)(s.socket, name)
            } else {
                (l.connect)(s.socket, name)
            })?;
        }
        Ok(s)
    }
}

/// What a function of the library says: a negative number is an error, told in errno.
fn done(r: c_int) -> io::Result<()> {
    if r < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

pub struct Socket<'a> {
    zmq: &'a Library,
    context: *mut c_void,
    socket: *mut c_void,
    bytes: usize,
}

impl Drop for Socket<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and not used again; a socket that could not be made is none.
        unsafe {
            if !self.socket.is_null() {
                (self.zmq.close)(self.socket);
            }
            (self.zmq.ctx_term)(self.context);
        }
    }
}

impl Socket<'_> {
    /// The bytes of a message.
    fn bytes<'a>(&self, m: &'a mut Message) -> &'a mut [u8] {
        // SAFETY: a message that was made, and that has so many bytes for as long as it is not sent or closed.
        unsafe {
            let n = (self.zmq.msg_size)(m);
            std::slice::from_raw_parts_mut((self.zmq.msg_data)(m).cast(), n)
        }
    }
}

impl Way for Zeromq {
    type Sender<'a> = Socket<'a>;
    type Receiver<'a> = Socket<'a>;

    fn sender(&self) -> io::Result<Socket<'_>> {
        self.open(PUSH)
    }
    fn receiver(&self) -> io::Result<Socket<'_>> {
        self.open(PULL)
    }
}

impl Sender for Socket<'_> {
    #[inline]
    fn send(&mut self, i: u64) -> io::Result<()> {
        let l = self.zmq;
        let mut m = Message([0; 64]);
        // SAFETY: a message of ours, which the library has once it is sent.
        done(unsafe { (l.msg_init_size)(&mut m, self.bytes) })?;
        way::fill(self.bytes(&mut m), i);
        // SAFETY: as above.
        done(unsafe { (l.msg_send)(&mut m, self.socket, 0) })
    }
}

impl Receiver for Socket<'_> {
    #[inline]
    fn receive(&mut self) -> io::Result<u64> {
        let l = self.zmq;
        let mut m = Message([0; 64]);
        // SAFETY: a message of ours, made and closed here.
        unsafe {
            done((l.msg_init)(&mut m))?;
            done((l.msg_recv)(&mut m, self.socket, 0))?;
        }
        let b = self.bytes(&mut m);
        // One that is shorter or longer is not the one that was sent.
        let i = if b.len() == self.bytes {
            way::look(b)
        } else {
            u64::MAX
        };
        // SAFETY: as above.
        done(unsafe { (l.msg_close)(&mut m) })?;
        Ok(i)
    }
}
