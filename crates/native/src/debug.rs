//! How ends show themselves to people who look for a mistake: which descriptor, carried or not, and what they hold
//! themselves.
//!
//! Invariant: it asks neither the stream nor the kernel, and waits for nobody: it may be called from anywhere.
//! Not here: grants and events, which derive it or have it beside them.
use crate::events::Change;
use crate::{Buffered, Duplex, Reader, Receiver, Sender, Writer};
use std::fmt::{Debug, Formatter, Result};
use std::os::fd::AsRawFd;

impl Debug for Reader {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Reader")
            .field("fd", &self.as_raw_fd())
            .field("is_carried", &self.is_carried())
            .field("ahead", &self.ahead().len())
            .finish()
    }
}

impl Debug for Writer {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Writer")
            .field("fd", &self.as_raw_fd())
            .field("is_carried", &self.is_carried())
            .finish()
    }
}

impl Debug for Receiver {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Receiver")
            .field("reader", &self.reader)
            .field("kept", &self.kept.as_ref().map(|m| m.len()))
            .finish()
    }
}

impl Debug for Sender {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Sender")
            .field("writer", &self.writer)
            .finish_non_exhaustive()
    }
}

impl Debug for Duplex {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Duplex")
            .field("reader", &self.reader)
            .field("writer", &self.writer)
            .finish()
    }
}

impl Debug for Buffered<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Buffered")
            .field("reader", &self.reader)
            .finish_non_exhaustive()
    }
}

impl Debug for Change<'_> {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.debug_struct("Change")
            .field("ident", &self.ident())
            .field("filter", &self.filter)
            .field("flags", &self.flags)
            .field("udata", &self.udata)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Writer, duplex, pipe, records};
    use std::io::{BufRead, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn ends_show_what_they_are() {
        let (mut r, mut w) = pipe().unwrap();
        let (n, m) = (r.as_raw_fd(), w.as_raw_fd());
        let shows = |what: String, s: &str| assert_eq!(what, s);
        shows(
            format!("{r:?}"),
            &format!("Reader {{ fd: {n}, is_carried: true, ahead: 0 }}"),
        );
        shows(
            format!("{w:?}"),
            &format!("Writer {{ fd: {m}, is_carried: true }}"),
        );
        // Read through the kernel's pipe, and not asked for.
        r.try_read(&mut [0; 9]).unwrap_err();
        w.write_all(b"hello").unwrap();
        r.buffered().fill_buf().unwrap();
        assert!(format!("{r:?}").ends_with("ahead: 5 }"), "{r:?}");
        r.buffered().consume(5);
        w.write_all(b"there").unwrap();
        let mut b = r.buffered();
        b.fill_buf().unwrap();
        assert!(format!("{b:?}").contains("ahead: 5 }"), "{b:?}");
        drop(b);
        drop(r);
        let w = Writer::from_fd(w.into_fd().unwrap()).unwrap();
        assert!(format!("{w:?}").contains("is_carried: false"), "{w:?}");
        let (mut r, mut s) = records().unwrap();
        r.try_message().unwrap_err();
        s.send(b"long").unwrap();
        r.receive(&mut [0; 1]).unwrap_err();
        assert!(format!("{r:?}").ends_with("kept: Some(4) }"), "{r:?}");
        assert!(format!("{s:?}").starts_with("Sender { writer: Writer"));
        let (d, _other) = duplex().unwrap();
        assert!(format!("{d:?}").starts_with("Duplex { reader: Reader"));
        let q = crate::events::Queue::new().unwrap();
        assert!(format!("{q:?}").starts_with("Queue { fd: "), "{q:?}");
    }
}
