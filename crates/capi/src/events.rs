//! The event queue.
use crate::arguments::{Reader, Wait, Writer, give, handle, invalid, taken};
use crate::error::{failed, status};
use native::events::{Change, Event, Filter, Flags, Queue};
use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// struct byway_event.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Kevent {
    ident: u64,
    filter: i16,
    flags: u16,
    fflags: u32,
    data: i64,
    udata: *mut c_void,
}
/// BYWAY_NOTE_* of the header.
const TRIGGER: u32 = 0x0100_0000;
const MICROSECONDS: u32 = 4;
const NANOSECONDS: u32 = 8;

// What the header promises, number by number; tests/native/c/check.c has the same of its side.
const _: () = {
    use std::mem::offset_of;
    /// A field's bytes.
    const fn bytes<F>(_: fn(&Kevent) -> &F) -> usize {
        size_of::<F>()
    }
    assert!(size_of::<Kevent>() == 32 && align_of::<Kevent>() == 8);
    assert!(offset_of!(Kevent, ident) == 0 && bytes(|k| &k.ident) == 8);
    assert!(offset_of!(Kevent, filter) == 8 && bytes(|k| &k.filter) == 2);
    assert!(offset_of!(Kevent, flags) == 10 && bytes(|k| &k.flags) == 2);
    assert!(offset_of!(Kevent, fflags) == 12 && bytes(|k| &k.fflags) == 4);
    assert!(offset_of!(Kevent, data) == 16 && bytes(|k| &k.data) == 8);
    assert!(offset_of!(Kevent, udata) == 24 && bytes(|k| &k.udata) == 8);
    assert!(Filter::Read as i16 == -1 && Filter::Write as i16 == -2);
    assert!(Filter::Timer as i16 == -7 && Filter::User as i16 == -11);
    assert!(Flags::ADD.bits() == 0x0001 && Flags::DELETE.bits() == 0x0002);
    assert!(Flags::ENABLE.bits() == 0x0004 && Flags::DISABLE.bits() == 0x0008);
    assert!(Flags::ONESHOT.bits() == 0x0010 && Flags::CLEAR.bits() == 0x0020);
    assert!(Flags::DISPATCH.bits() == 0x0080);
    assert!(Flags::ERROR.bits() == 0x4000 && Flags::EOF.bits() == 0x8000);
    assert!(TRIGGER == 0x0100_0000 && MICROSECONDS == 4 && NANOSECONDS == 8);
};

fn filter(n: i16) -> io::Result<Filter> {
    [Filter::Read, Filter::Write, Filter::Timer, Filter::User]
        .into_iter()
        .find(|f| *f as i16 == n)
        .ok_or_else(|| invalid("no such filter; take BYWAY_EVFILT_READ, _WRITE, _TIMER or _USER"))
}

/// A timer's time.
fn every(k: &Kevent) -> io::Result<Duration> {
    let n = u64::try_from(k.data)
        .map_err(|_| invalid("a timer's time is in data, 0 or more of its units"))?;
    match k.fflags {
        0 => Ok(Duration::from_millis(n)),
        MICROSECONDS => Ok(Duration::from_micros(n)),
        NANOSECONDS => Ok(Duration::from_nanos(n)),
        _ => Err(invalid(
            "no such unit; take BYWAY_NOTE_USECONDS, BYWAY_NOTE_NSECONDS, or none of them for milliseconds",
        )),
    }
}

/// Makes one change.
fn apply(q: &Queue, k: &Kevent) -> io::Result<()> {
    let (filter, flags) = (filter(k.filter)?, Flags::from_bits(k.flags));
    let adds = flags.has(Flags::ADD) && !flags.has(Flags::DELETE);
    let changes = k.flags != 0;
    let change = match filter {
        Filter::Timer if adds => Change::timer(k.ident, every(k)?).flags(flags),
        Filter::User if k.fflags & !TRIGGER != 0 => {
            return Err(invalid("of a user event: BYWAY_NOTE_TRIGGER, or no note"));
        }
        Filter::Read | Filter::Write if adds && i32::try_from(k.ident).is_err() => {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        Filter::Read | Filter::Write if adds => {
            // SAFETY: of a descriptor that is not open, epoll says so.
            let fd = unsafe { BorrowedFd::borrow_raw(k.ident as i32) };
            if filter == Filter::Read {
                Change::read(fd).flags(flags)
            } else {
                Change::write(fd).flags(flags)
            }
        }
        _ => Change::entry(k.ident, filter, flags),
    };
    if changes {
        q.apply(change.udata(k.udata as u64))?;
    }
    if filter == Filter::User && k.fflags & TRIGGER != 0 {
        q.trigger(k.ident, k.data)?;
    }
    Ok(())
}

/// # Safety
/// A place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kqueue(q: *mut *mut Queue) -> c_int {
    // SAFETY: the caller's promise.
    status(Queue::new().and_then(|x| unsafe { give(q, x) }))
}

/// # Safety
/// A handle; several threads may use it at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_fd(q: *const Queue) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { queue(q) }.map_or_else(failed, |q| q.as_raw_fd())
}

/// # Safety
/// A handle that the caller does not use again, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_close(q: *mut Queue) {
    // SAFETY: the caller's promise.
    drop(unsafe { taken(q) });
}

/// # Safety
/// Two handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_reader(
    q: *const Queue,
    r: *mut Reader,
    flags: u16,
    udata: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { queue(q) }.and_then(|q| {
        // SAFETY: as above.
        let r = unsafe { handle(r) }?;
        let c = Change::read(&mut r.end).flags(Flags::from_bits(flags));
        q.apply(c.udata(udata as u64))
    }))
}

/// # Safety
/// Two handles.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_queue_writer(
    q: *const Queue,
    w: *mut Writer,
    flags: u16,
    udata: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    status(unsafe { queue(q) }.and_then(|q| {
        // SAFETY: as above.
        let w = unsafe { handle(w) }?;
        let c = Change::write(&mut w.0).flags(Flags::from_bits(flags));
        q.apply(c.udata(udata as u64))
    }))
}

/// # Safety
/// A handle; so many changes, and places for so many events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn byway_kevent(
    q: *const Queue,
    changes: *const Kevent,
    nchanges: c_int,
    events: *mut Kevent,
    nevents: c_int,
    ms: c_int,
) -> c_int {
    let (nc, ne) = (nchanges.max(0) as usize, nevents.max(0) as usize);
    let kevent = || {
        // SAFETY: the caller's promise.
        let q = unsafe { queue(q) }?;
        if (changes.is_null() && nc > 0) || (events.is_null() && ne > 0) {
            return Err(invalid("a null pointer where changes or events belong"));
        }
        let mut n = 0;
        for i in 0..nc {
            // SAFETY: the caller's promise. By value: the two arrays may be one.
            let k = unsafe { *changes.add(i) };
            let Err(e) = apply(q, &k) else { continue };
            if n == ne {
                return Err(e);
            }
            let k = Kevent {
                flags: Flags::ERROR.bits(),
                data: i64::from(crate::error::number(&e)),
                ..k
            };
            // SAFETY: the caller's promise; a change is read before an event is written into its place, or before it.
            unsafe { *events.add(n) = k };
            n += 1;
        }
        if n > 0 || ne == 0 {
            return Ok(n);
        }
        let most = match ms.into() {
            Wait::Not => Some(Duration::ZERO),
            Wait::Most(d) => Some(d),
            Wait::Forever => None,
        };
        let mut found = [Event::default(); MOST];
        let n = q.wait(&mut found[..ne.min(MOST)], most)?;
        for (i, e) in found[..n].iter().enumerate() {
            let k = Kevent {
                ident: e.ident,
                filter: e.filter as i16,
                flags: e.flags.bits(),
                fflags: 0,
                data: e.data,
                udata: e.udata as *mut c_void,
            };
            // SAFETY: the caller's promise.
            unsafe { *events.add(i) = k };
        }
        Ok(n)
    };
    kevent().map_or_else(failed, |n| n as c_int)
}

/// Events that one call returns at most; the rest come with the next.
const MOST: usize = 64;

/// A queue, which several threads may use at once.
///
/// # Safety
/// Null, or got from here and not given back.
unsafe fn queue<'a>(q: *const Queue) -> io::Result<&'a Queue> {
    // SAFETY: the caller's promise.
    unsafe { q.as_ref() }.ok_or_else(|| invalid("a null pointer where a queue belongs"))
}
