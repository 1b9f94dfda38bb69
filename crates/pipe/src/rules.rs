//! What depends on the kind of object behind a channel: a nameless pipe, a named FIFO, or one direction of a connection
//! of stream sockets.
//!
//! Invariant: a channel has one kind for its life. All else is the same code for each kind.
//! Not here: who holds a FIFO (`Holders`, byway run); the steps that a rule asks for (fifo.rs, handback.rs, socket.rs).
use crate::channel::{Channel, FIFO_SIZE, Holders, PIPE_BUF};
use core::sync::atomic::Ordering::Relaxed;

const NAMELESS: u32 = Holders::Nameless as u32;
const UNIX: u32 = Holders::Unix as u32;
const TCP: u32 = Holders::Tcp as u32;
const UDP: u32 = Holders::Udp as u32;

/// How a kind of object differs.
pub struct Rules {
    /// A process that takes no part may open it at any moment. So the bytes of the stream in the lane are counted, and a
    /// lane with more than those is not ours.
    pub outsiders: bool,
    /// It is known how many bytes of the stream the lane has while the channel is open.
    pub counts_lane: bool,
    /// Another reader may come after the last one has gone.
    pub readers_return: bool,
    /// A full ring puts its oldest bytes into the lane, and not the newest behind them: an outsider reads the lane alone.
    pub oldest_to_lane: bool,
    /// Calls may pass through where its ring was left (pass_through.rs).
    pub passes_through: bool,
    /// A write of so many bytes goes in as a whole, and others' do not come between.
    pub whole: usize,
    /// A full ring is handed back, and the kernel's own call waits: the lane cannot be made full, and taken empty, by the
    /// writer alone.
    pub full_to_kernel: bool,
    /// The size of the lane while the channel is open, where a new pipe under the same name is to be told apart.
    pub open_size: Option<usize>,
}

/// LINUX unix_stream_sendmsg: so much is one message of the kernel's: SKB_MAX_ALLOC and UNIX_SKB_FRAGS_SZ.
const MESSAGE: usize = 16064 + 32768;

const PIPE: Rules = Rules {
    outsiders: false,
    counts_lane: false,
    readers_return: false,
    oldest_to_lane: false,
    passes_through: true,
    whole: PIPE_BUF,
    full_to_kernel: false,
    open_size: None,
};

const FIFO: Rules = Rules {
    outsiders: true,
    counts_lane: true,
    readers_return: true,
    oldest_to_lane: true,
    passes_through: false,
    whole: PIPE_BUF,
    full_to_kernel: false,
    open_size: Some(FIFO_SIZE),
};

const SOCKET: Rules = Rules {
    outsiders: false,
    counts_lane: true,
    readers_return: false,
    oldest_to_lane: false,
    passes_through: false,
    whole: MESSAGE,
    full_to_kernel: true,
    open_size: None,
};

impl Channel {
    /// The rules of its kind.
    #[inline(always)]
    pub fn rules(&self) -> &'static Rules {
        match self.facts.0.holders.load(Relaxed) {
            NAMELESS => &PIPE,
            UNIX | TCP | UDP => &SOCKET,
            _ => &FIFO,
        }
    }
}
