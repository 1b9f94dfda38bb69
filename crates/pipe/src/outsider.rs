//! Bytes of outsiders in a FIFO's kernel pipe K: the ring's bytes, which are older, are put before them.
//!
//! ```text
//! lane: own, outsiders'           all of lane aside; then own, the ring's, and the outsiders' back into lane: a few
//! side pipe: the ring's        microseconds, in which an outsider asleep on a full lane does not come in between
//! ```
//! Invariant: no byte is copied twice or lost unless this process is killed in those microseconds, or an outsider that is
//! awake writes just then (docs/fifo.md says what he may find).
//! A side pipe also brings a reader what an outsider might take first (lane.rs, `read_aside`).
//! Not here: whether there are any (handback.rs).
use byway_sys::errno::failed;
use byway_sys::file;
use byway_sys::syscall::{call3, call6, nr};

/// More than any pipe holds.
pub const ALL: usize = 1 << 30;

/// A pipe of this process alone.
pub struct Side {
    ends: [i32; 2],
    held: usize,
}

impl Side {
    /// One with room for `n` bytes, however they are divided.
    pub fn new(n: usize) -> Option<Side> {
        let mut ends = [0i32; 2];
        let how = file::O_CLOEXEC | file::O_NONBLOCK;
        // SAFETY: room for two ints.
        if failed(unsafe { call3(nr::PIPE2, ends.as_mut_ptr() as usize, how, 0) }) {
            return None;
        }
        let side = Side { ends, held: 0 };
        let room = (n + 65536).next_power_of_two();
        (!failed(file::fcntl(side.inlet(), file::F_SETPIPE_SZ, room))).then_some(side)
    }
    /// Where to write into it; `filled` says how much came.
    pub fn inlet(&self) -> usize {
        self.ends[1] as usize
    }
    pub fn filled(&mut self, n: usize) {
        self.held += n;
    }

    /// Where to read from it.
    pub fn outlet(&self) -> usize {
        self.ends[0] as usize
    }
    /// How much it holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Takes up to `most` bytes of what the pipe `fd` holds.
    pub fn take(&mut self, fd: usize, most: usize) {
        let mut left = most;
        while let k @ 1.. = splice(fd, self.inlet(), left) {
            left -= k;
            self.held += k;
        }
    }
    /// Puts `n` bytes of it, or what there is, into the pipe `fd`; asks `more` for room; false when that says no.
    pub fn put(&mut self, fd: usize, n: usize, mut more: impl FnMut(usize) -> bool) -> bool {
        let mut left = n.min(self.held);
        while left > 0 {
            let k = splice(self.outlet(), fd, left);
            left -= k;
            self.held -= k;
            if k == 0 && !more(left) {
                return false;
            }
        }
        true
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        file::close(self.outlet());
        file::close(self.inlet());
    }
}

/// splice(2) between two pipes without waiting; how many bytes moved.
fn splice(from: usize, to: usize, n: usize) -> usize {
    const MOVE_NONBLOCK: usize = 1 | 2;
    // SAFETY: no memory of ours is read or written.
    let k = unsafe { call6(nr::SPLICE, from, 0, to, 0, n, MOVE_NONBLOCK) };
    k.max(0) as usize
}
