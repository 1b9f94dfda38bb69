//! The bytes in flight: a ring is a table of clusters, addressed by position in the stream.
//!
//! What is in flight is at most the ring's bytes. It may go round in more memory than that, its lap, so that a place is
//! written again only when its last reader's caches have let go of it (docs/adr/0016).
//!
//! Invariant: whatever the slot says, no run leaves the mapping: sizes, entries and units are checked where they are read.
//! Not here: when a place has a cluster (clusters.rs), which bytes are whose (write.rs, read.rs).
use crate::channel::{Channel, PIPE_BUF};
use byway_mem::domain::Domain;
use byway_mem::layout::Class;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed};

/// The room that stays free for a pump, so that the kernel's chunk always fits behind the ring's bytes.
pub const SLACK: u64 = 4096;
/// Bytes of the smallest ring: a page, and as much room for a pump.
pub const SMALLEST: usize = 2 * PIPE_BUF;
/// Bytes of the largest ring, and clusters that it has.
pub const RING_MOST: usize = 8 << 20;
pub const RING_CLUSTERS: usize = RING_MOST / CLUSTER;
/// Entries of a slot's own table. A larger ring's is in a cluster of its own, which the first of these names.
pub const DIRECT: usize = 16;
/// Entries of such a cluster, of which a ring uses what it has.
const INDIRECT: usize = Class::Cluster.bytes() / size_of::<AtomicU32>();
pub const CLUSTER: usize = Class::Jumbo.bytes();
/// A lap is the ring's size, or twice that, so many times at most.
const LAPS_MOST: u8 = 10;

const _: () = assert!(INDIRECT >= RING_CLUSTERS);

/// The bytes of a ring, addressed by position: a table of clusters.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    domain: &'a Domain,
    table: &'a [AtomicU32],
    bytes: usize,
    lap: usize,
    /// As [`Channel::holds`] says.
    holds: u64,
}

impl<'a> Ring<'a> {
    /// Its size: no more than this is in flight.
    #[inline]
    pub fn bytes(self) -> u64 {
        self.bytes as u64
    }
    /// Bytes of stream until the same place comes again, as much or more.
    #[inline]
    pub fn lap(self) -> u64 {
        self.lap as u64
    }
    /// The most that long writes put into it, where the kernel lane is empty.
    #[inline]
    pub fn room(self) -> u64 {
        self.cap(PIPE_BUF)
    }
    /// The most that may lie in it: what is above is room for a pump. Where it is said how much the pipe takes, the kernel
    /// lane's part counts too: `part` bytes, which lie there, or which the next write would put there; at most a page.
    #[inline]
    pub fn cap(self, part: usize) -> u64 {
        let room = self.bytes as u64 - SLACK;
        match self.holds {
            0 => room,
            holds => room.min(holds.saturating_sub(SLACK.min(part as u64))),
        }
    }
    /// Whether a write of `want` bytes, put into the kernel lane where `used` bytes lie in the ring, would make them
    /// more than the pipe is to take: it was opened full, or filled by shorter ones; or would leave no room for the pump
    /// that is to bring them behind the ring's: a pump has filled the smallest ring to its end.
    pub fn is_over(self, used: u64, want: usize) -> bool {
        used > self.bytes as u64 - SLACK
            || self.holds != 0 && used + SLACK.min(want as u64) > self.holds
    }
    /// The number of the table's entry for position `at`.
    #[inline]
    pub fn entry(self, at: u64) -> usize {
        (at as usize & (self.lap - 1)) / CLUSTER
    }
    /// That entry.
    #[inline]
    pub fn slot(self, at: u64) -> &'a AtomicU32 {
        // Tables are powers of two long.
        &self.table[self.entry(at) & (self.table.len() - 1)]
    }

    /// Whether position `at` has a cluster.
    #[inline]
    pub fn has(self, at: u64) -> bool {
        self.slot(at).load(Relaxed) != 0
    }

    /// How many clusters the lap has.
    pub fn clusters(self) -> usize {
        let lap = self.table.iter().take(self.lap.div_ceil(CLUSTER));
        lap.filter(|e| e.load(Relaxed) != 0).count()
    }

    /// The run that starts at position `at`: its address, and how many bytes to its end; 0 where there is no cluster.
    #[inline]
    pub fn run(self, at: u64) -> (*mut u8, usize) {
        let unit = self.slot(at).load(Relaxed);
        // A ring smaller than a cluster ends in the midst of it.
        let o = at as usize & (self.lap - 1) & (CLUSTER - 1);
        let end = CLUSTER.min(self.lap);
        match unit
            .checked_sub(1)
            .and_then(|u| self.domain.address(u, Class::Jumbo))
        {
            // SAFETY: `o` is below the cluster's size.
            Some(p) => (unsafe { p.add(o) }, end - o),
            None => (core::ptr::null_mut(), 0),
        }
    }
}

impl Channel {
    /// The ring of this channel, if it has one of a size that there is.
    #[inline]
    pub fn ring<'a>(&'a self, d: &'a Domain) -> Option<Ring<'a>> {
        let (bytes, lap) = self.sizes();
        // A peer may have written anything there.
        let ok = bytes.is_power_of_two() && bytes >= SMALLEST && lap <= RING_MOST;
        let table = if lap <= DIRECT * CLUSTER {
            &self.table.0[..]
        } else {
            self.indirect(d)?
        };
        ok.then_some(Ring {
            domain: d,
            table,
            bytes,
            lap,
            holds: self.holds(d),
        })
    }
    /// Bytes that the pipe takes, the kernel lane's among them, where the ring has room for more: as a program has set
    /// it, or as the run says; 0: as many as there is room for.
    #[inline]
    pub fn holds(&self, d: &Domain) -> u64 {
        let of = match self.facts.0.sized.load(Relaxed) {
            0 => &d.header().holds,
            _ => &self.facts.0.size,
        };
        u64::from(of.load(Relaxed))
    }
    /// Bytes of the ring, and of its lap.
    fn sizes(&self) -> (usize, usize) {
        let f = &self.facts.0;
        let bytes = f.ring.load(Relaxed) as usize;
        (bytes, bytes << f.laps.load(Relaxed).min(LAPS_MOST))
    }
    /// Whether the table of its ring is in a cluster of its own.
    pub fn is_indirect(&self) -> bool {
        self.sizes().1 > DIRECT * CLUSTER
    }
    /// The table of a large ring; `None` while the channel is closed. A look that comes late sees a cluster that is
    /// another's by now: then what it takes from there fails with the CAS that would make it count, as with the ring's
    /// bytes.
    pub fn indirect(&self, d: &Domain) -> Option<&[AtomicU32]> {
        let unit = self.table.0[0].load(Acquire /* ORDER: after the zeroes in it. */);
        let p = d.address(unit.checked_sub(1)?, Class::Cluster)?;
        // SAFETY: a cluster lies in the mapping, aligned to its size, and is looked at through atomics only.
        Some(unsafe { core::slice::from_raw_parts(p as *const AtomicU32, INDIRECT) })
    }
}
