//! Benchmarks of the network: sockets of this machine, plain and carried, and two hosts, where there is nothing to carry.
//!
//! ```text
//! place.rs: here                   a worker --fork--> both sides            (NetPIPE also over pipes, carried and not)
//!           two namespaces (veth)  a worker --connects to--> a worker that serves, each in its own
//!           --peer HOST            a worker --connects to--> byway bench --serve, elsewhere
//! ```
//! Invariant: each backend of a round runs in new processes of this program, plain or under `byway run`; nothing that is
//! made for a run has a name outside of it, but for ftp's folder (scratch.rs).
//! Not here: statistics (runner.rs), the command line.
pub(crate) mod carried;
pub mod duplex;
pub mod ftp;
pub mod netperf;
pub mod netpipe;
pub(crate) mod pattern;
pub mod place;
pub mod session;
mod setting;
pub mod socket;
#[cfg(test)]
mod tests;
pub mod text;
pub mod veth;
pub mod worker;

use serde::{Deserialize, Serialize};

/// How the bytes of a block go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Way {
    /// Loopback, or between hosts.
    Tcp,
    /// A pair of UNIX stream sockets.
    Unix,
    /// A pair of pipes.
    Pipe,
    /// A pair of pipes of the core, called directly.
    Core,
    /// Memory of an allocator, between two threads: ours, that of before 2001, the C library's.
    MbAlloc,
    Present,
    Malloc,
}

impl Way {
    /// Whether it is memory of an allocator.
    pub fn allocates(self) -> bool {
        matches!(self, Way::MbAlloc | Way::Present | Way::Malloc)
    }
}

/// A way, and whether it is tried under `byway run`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backend {
    pub name: &'static str,
    pub way: Way,
    pub carried: bool,
}

impl Backend {
    const fn plain(name: &'static str, way: Way) -> Backend {
        Backend {
            name,
            way,
            carried: false,
        }
    }
    const fn carried(name: &'static str, way: Way) -> Backend {
        Backend {
            name,
            way,
            carried: true,
        }
    }
}
