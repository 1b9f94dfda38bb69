//! sock_diag(7): which socket is at the other end of a connection of UNIX sockets.
//!
//! Invariant: an answer is of the socket that was asked for, in the caller's network name space. Nothing here waits.
//! Not here: what is done with it (crate pipe, peer.rs).
use crate::errno::failed;
use crate::file;
use crate::socket::{AF_UNIX, MSG_DONTWAIT};
use crate::syscall::{call3, call6, nr};

const AF_NETLINK: usize = 16;
const SOCK_RAW: usize = 3;
const NETLINK_SOCK_DIAG: usize = 4;
/// struct nlmsghdr: length, type and flags, sequence number, port.
const HEADER: usize = 4;
const SOCK_DIAG_BY_FAMILY: u32 = 20;
const NLM_F_REQUEST: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u32 = 2;
/// Of `struct unix_diag_msg` and the header before it.
const FIXED: usize = HEADER + 4;

/// The inode number of the other end of the UNIX socket with the number `ino`; `None`: it has none, or the kernel does not say.
pub fn peer(ino: u32) -> Option<u32> {
    // SAFETY: no pointers.
    let fd = unsafe {
        let how = SOCK_RAW | file::O_CLOEXEC;
        call3(nr::SOCKET, AF_NETLINK, how, NETLINK_SOCK_DIAG)
    };
    if failed(fd) {
        return None;
    }
    let found = asked(fd as usize, ino);
    file::close(fd as usize);
    found
}

fn asked(fd: usize, ino: u32) -> Option<u32> {
    const ANY: u32 = u32::MAX;
    // struct unix_diag_req: family and protocol, states, inode number, what to show, cookie.
    let request: [u32; HEADER + 6] = [
        ((HEADER + 6) * 4) as u32,
        SOCK_DIAG_BY_FAMILY | NLM_F_REQUEST << 16,
        1,
        0,
        AF_UNIX as u32,
        ANY,
        ino,
        UDIAG_SHOW_PEER,
        ANY,
        ANY,
    ];
    let at = request.as_ptr() as usize;
    // SAFETY: as long as it is.
    let sent = unsafe { call6(nr::SENDTO, fd, at, size_of_val(&request), 0, 0, 0) };
    if failed(sent) {
        return None;
    }
    let mut answer = [0u32; 64];
    let at = answer.as_mut_ptr() as usize;
    let size = size_of_val(&answer);
    // SAFETY: as long as it is.
    let n = unsafe { call6(nr::RECVFROM, fd, at, size, MSG_DONTWAIT, 0, 0) };
    let words = answer.get(..usize::try_from(n).ok()? / 4)?;
    found(words, ino)
}

/// What the answer `words` says of socket `ino`.
///
/// LINUX netlink(7): attributes of a length and a type, each padded to words.
fn found(words: &[u32], ino: u32) -> Option<u32> {
    let (fixed, mut rest) = words.split_at_checked(FIXED)?;
    if fixed[1] & 0xffff != SOCK_DIAG_BY_FAMILY || fixed[HEADER + 1] != ino {
        return None;
    }
    while let Some(&head) = rest.first() {
        let (len, kind) = ((head & 0xffff) as usize, head >> 16);
        if kind == UNIX_DIAG_PEER && len == 8 {
            return rest.get(1).copied().filter(|n| *n != 0);
        }
        rest = rest.get(len.div_ceil(4).max(1)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::{found, peer};
    use std::format;
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    fn inode(s: &impl AsRawFd) -> u32 {
        let id = crate::file::identity(s.as_raw_fd() as usize);
        id.map_or(0, |id| id.ino as u32)
    }

    #[test]
    fn each_end_names_the_other() {
        let (a, b) = UnixStream::pair().expect("a pair");
        assert_eq!(peer(inode(&a)), Some(inode(&b)));
        assert_eq!(peer(inode(&b)), Some(inode(&a)));
    }

    #[test]
    fn a_connection_has_its_ends_once_it_is_accepted() {
        let dir = std::env::temp_dir().join(format!("byway-diag-{}", std::process::id()));
        let listener = UnixListener::bind(&dir).expect("a listener");
        let near = UnixStream::connect(&dir).expect("a connection");
        assert_eq!(peer(inode(&near)), None);
        assert_eq!(peer(inode(&listener)), None);
        let (far, _) = listener.accept().expect("its other end");
        assert_eq!(peer(inode(&near)), Some(inode(&far)));
        std::fs::remove_file(dir).expect("the name goes");
    }

    #[test]
    fn what_is_no_answer_names_nobody() {
        assert_eq!(found(&[], 7), None);
        let mut answer = [48, 20, 1, 0, 1, 7, 0, 0, 2 << 16 | 8, 9];
        assert_eq!(found(&answer, 7), Some(9));
        assert_eq!(found(&answer, 8), None);
        answer[9] = 0;
        assert_eq!(found(&answer, 7), None);
        answer[8] = 2 << 16;
        assert_eq!(found(&answer, 7), None);
        answer[1] = 2;
        assert_eq!(found(&answer, 7), None);
    }
}
