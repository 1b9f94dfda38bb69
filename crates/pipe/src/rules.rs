//! What depends on the kind of object behind a channel: a nameless pipe or a named FIFO.
//!
//! Invariant: a channel has one kind for its life. All else is the same code for each kind.
//! Not here: who holds a FIFO (`Holders`, byway run); the steps that a rule asks for (fifo.rs, handback.rs).
use crate::channel::{Channel, FIFO_SIZE};

/// How a kind of object differs.
pub struct Rules {
    /// A process that takes no part may open it at any moment. So the bytes of the stream in the lane are counted, and a
    /// lane with more than those is not ours.
    pub outsiders: bool,
    /// Another reader may come after the last one has gone.
    pub readers_return: bool,
    /// A full ring puts its oldest bytes into the lane, and not the newest behind them: an outsider reads the lane alone.
    pub oldest_to_lane: bool,
    /// Calls may pass through where its ring was left (pass_through.rs).
    pub passes_through: bool,
    /// The size of the lane while the channel is open, where a new pipe under the same name is to be told apart.
    pub open_size: Option<usize>,
}

const PIPE: Rules = Rules {
    outsiders: false,
    readers_return: false,
    oldest_to_lane: false,
    passes_through: true,
    open_size: None,
};

const FIFO: Rules = Rules {
    outsiders: true,
    readers_return: true,
    oldest_to_lane: true,
    passes_through: false,
    open_size: Some(FIFO_SIZE),
};

impl Channel {
    /// The rules of its kind.
    #[inline(always)]
    pub fn rules(&self) -> &'static Rules {
        if self.is_fifo() { &FIFO } else { &PIPE }
    }
}
