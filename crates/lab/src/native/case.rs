//! What is measured, and by which backends.
//!
//! Invariant: the first backend of a case is ours; all others are compared with it.
//! Not here: how (run.rs, python.rs).
use super::way::{Need, Wait};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Case {
    Oneway64,
    RttSpin,
    Oneway64k,
    Oneway1m,
    WakeSleep,
    Python64,
    Python1m,
}

/// Who carries the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Byway,
    BywayCopy,
    BywayRecords,
    Iceoryx2,
    Zeromq,
    Unix,
    Pipe,
    Eventfd,
    Limit,
    Multiprocessing,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Byway => "byway",
            Kind::BywayCopy => "byway-copy",
            Kind::BywayRecords => "byway-records",
            Kind::Iceoryx2 => "iceoryx2",
            Kind::Zeromq => "zeromq",
            Kind::Unix => "unix",
            Kind::Pipe => "kernel-pipe",
            Kind::Eventfd => "eventfd",
            Kind::Limit => "limit",
            Kind::Multiprocessing => "multiprocessing",
        }
    }
}

impl Case {
    pub const ALL: [Case; 7] = [
        Case::Oneway64,
        Case::RttSpin,
        Case::Oneway64k,
        Case::Oneway1m,
        Case::WakeSleep,
        Case::Python64,
        Case::Python1m,
    ];

    pub fn id(self) -> &'static str {
        match self {
            Case::Oneway64 => "oneway-64",
            Case::RttSpin => "rtt-spin",
            Case::Oneway64k => "oneway-64k",
            Case::Oneway1m => "oneway-1m",
            Case::WakeSleep => "wake-sleep",
            Case::Python64 => "python-64",
            Case::Python1m => "python-1m",
        }
    }
    pub fn of(id: &str) -> Option<Case> {
        Case::ALL.into_iter().find(|c| c.id() == id)
    }

    /// Ours first: all others are compared with it.
    pub fn backends(self) -> &'static [Kind] {
        use Kind::{
            Byway, BywayCopy, BywayRecords, Eventfd, Iceoryx2, Limit, Multiprocessing, Pipe, Unix,
            Zeromq,
        };
        match self {
            Case::Oneway64 => &[Byway, Iceoryx2, Zeromq, Unix, Pipe],
            Case::RttSpin => &[Byway, Iceoryx2, Zeromq, Unix, Pipe, Limit],
            // A record of the kernel's is a copy; so is the limit of those who copy: memcpy.
            Case::Oneway64k => &[Byway, BywayCopy, Iceoryx2, Zeromq, Unix, Pipe, Limit],
            // More than the kernel lets a socket have that is not root's.
            Case::Oneway1m => &[Byway, BywayCopy, Iceoryx2, Zeromq, Pipe, Limit],
            // A wake-up has no boundaries to keep: bytes, as through the kernel's pipe; and records.
            Case::WakeSleep => &[Byway, BywayRecords, Iceoryx2, Zeromq, Unix, Pipe, Eventfd],
            Case::Python64 => &[Byway, Multiprocessing],
            Case::Python1m => &[Byway, BywayCopy, Multiprocessing],
        }
    }

    /// Both processes are Python's.
    pub fn python(self) -> bool {
        matches!(self, Case::Python64 | Case::Python1m)
    }

    /// Metric, unit, and how many ns one of it is.
    pub fn metric(self) -> (&'static str, &'static str, f64) {
        match self {
            Case::Oneway64 | Case::Python64 => ("each", "ns", 1.0),
            Case::RttSpin => ("round_trip", "ns", 1.0),
            Case::Oneway64k | Case::Oneway1m | Case::Python1m => ("each", "us", 1e3),
            Case::WakeSleep => ("one_way", "us", 1e3),
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Case::Oneway64 | Case::Python64 => 64,
            Case::Oneway64k => 64 << 10,
            Case::Oneway1m | Case::Python1m => 1 << 20,
            Case::RttSpin | Case::WakeSleep => 8,
        }
    }

    /// What it asks of a way whose two processes are on these CPUs. On one nobody gains from waiting awake.
    pub fn need(self, cpus: &[usize]) -> Need {
        let sharing = cpus.len() == 1;
        let wait = match self {
            Case::RttSpin if !sharing => Wait::Awake,
            Case::WakeSleep => Wait::Asleep,
            _ => Wait::Usual,
        };
        Need {
            bytes: self.bytes(),
            wait,
            sharing,
        }
    }

    /// Records of a run that count.
    pub fn records(self, quick: bool) -> u64 {
        let all = match self {
            Case::Oneway64 => 300_000,
            Case::Python64 => 50_000,
            Case::Oneway64k | Case::RttSpin => 10_000,
            Case::Oneway1m => 2_000,
            Case::Python1m => 500,
            Case::WakeSleep => 300,
        };
        if quick { all / 10 } else { all }
    }

    /// Round trips through the kernel, large copies and the starts of Pythons take longest.
    pub fn weight(self) -> f64 {
        match self {
            Case::RttSpin | Case::Oneway1m | Case::Python64 | Case::Python1m => 2.0,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_backend_is_ours_and_ids_are_found() {
        for case in Case::ALL {
            assert_eq!(case.backends()[0], Kind::Byway);
            assert_eq!(Case::of(case.id()), Some(case));
            assert_eq!(case.records(false), 10 * case.records(true));
        }
        assert_eq!(Case::of("oneway"), None);
    }

    #[test]
    fn who_has_a_cpu_for_itself_waits_awake() {
        assert_eq!(Case::RttSpin.need(&[0, 1]).wait, Wait::Awake);
        assert_eq!(Case::RttSpin.need(&[0]).wait, Wait::Usual);
        assert_eq!(Case::WakeSleep.need(&[0, 1]).wait, Wait::Asleep);
        assert!(Case::RttSpin.need(&[0]).sharing && !Case::RttSpin.need(&[0, 1]).sharing);
        assert_eq!(Case::Oneway1m.need(&[0]).bytes, 1 << 20);
    }
}
