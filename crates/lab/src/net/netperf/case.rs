//! The cases of `netperf`: a test; of UNIX sockets also the size of its sends, and whether both sides share one CPU.
//!
//! ```text
//! TCP_STREAM   UNIX_STREAM (-m)   UNIX_STREAM-4k   UNIX_RR@1cpu
//! ```
//! Invariant: every case has one name, and a name one case.
//! Not here: what a test does (mod.rs).
use super::{Options, Test};

/// Bytes of the sends of the UNIX streams with a size of their own: one cache line, one page, and more than one
/// message of the kernel's holds.
const SIZES: [(&str, usize); 3] = [("-64", 64), ("-4k", 4 << 10), ("-64k", 64 << 10)];
const ONE_CPU: &str = "@1cpu";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub test: Test,
    /// Its place in `SIZES`; `None`: as `-m` says.
    size: Option<usize>,
    pub one_cpu: bool,
}

impl Case {
    /// All of a place: `unix` if both sides are in one machine, `many_cpus` if one CPU is another case than all.
    pub fn all(unix: bool, many_cpus: bool) -> Vec<Case> {
        let whole = |test| Case {
            test,
            size: None,
            one_cpu: false,
        };
        let mut all: Vec<Case> = Test::ALL.into_iter().map(whole).collect();
        all.retain(|c| c.test.travels());
        for one_cpu in [false, true] {
            if !unix || (one_cpu && !many_cpus) {
                break;
            }
            for test in Test::ALL.into_iter().filter(|t| !t.travels()) {
                let sizes = if test.streams() { SIZES.len() } else { 0 };
                let sizes = std::iter::once(None).chain((0..sizes).map(Some));
                all.extend(sizes.map(|size| Case {
                    test,
                    size,
                    one_cpu,
                }));
            }
        }
        all
    }

    /// As the command line and the record have it.
    pub fn name(&self) -> String {
        let size = self.size.map_or("", |i| SIZES[i].0);
        let end = if self.one_cpu { ONE_CPU } else { "" };
        format!("{}{size}{end}", self.test.name())
    }

    pub fn of(name: &str) -> Option<Case> {
        Case::all(true, true).into_iter().find(|c| c.name() == name)
    }

    /// What a run of it is told.
    pub fn options(&self, o: Options) -> Options {
        Options {
            message: self.size.map_or(o.message, |i| SIZES[i].1),
            ..o
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own() {
        let all = Case::all(true, true);
        for c in &all {
            assert_eq!(Case::of(&c.name()), Some(*c));
        }
        assert_eq!(all.len(), 5 + 2 * 6);
        let names: Vec<_> = all.iter().map(Case::name).collect();
        assert_eq!(names[..2], ["UDP_STREAM", "TCP_STREAM"]);
        assert!(names.contains(&"UNIX_STREAM-64k@1cpu".into()));
        assert_eq!(Case::of("UNIX_RR-64"), None);
    }

    #[test]
    fn between_hosts_there_are_no_unix_sockets_and_one_cpu_is_no_case_twice() {
        assert!(Case::all(false, true).iter().all(|c| c.test.travels()));
        assert_eq!(Case::all(true, false).len(), 5 + 6);
    }

    #[test]
    fn a_size_in_the_name_is_what_is_sent() {
        let o = Options::usual(true);
        let message = |name| Case::of(name).unwrap().options(o).message;
        assert_eq!(message("UNIX_STREAM-64k@1cpu"), 65_536);
        assert_eq!(message("UNIX_STREAM"), o.message);
    }
}
