//! `ready`: pipes whose reader asks by poll(2) or epoll(7) whether there is something to read.
//!
//! ```text
//! poll-stream-64, -64k   bytes one way, whose reader polls before each read           work.rs
//! epoll-rtt              one byte there and back, each side in epoll_wait(2)          lat_pipe.rs
//! epoll-asleep           one byte to a reader that sleeps in epoll_wait(2)            lat_pipe.rs
//! epoll-10 ... -10000    messages through some pipes of a set; epoll-plain: eventfds  work.rs
//! node-child             node reads what `cat` says, by its event loop                child.js
//! asyncio-child          python reads what its child `cat` says, by asyncio           child.py
//! ```
//! Invariant: a side sleeps in the call that asks, and never in a read. A case that this machine cannot run has no rows,
//! and the record says so.
//! Not here: what a poll or an epoll set answers (tests/conformance).
pub mod work;

use super::link::Kind;
use super::start::{Byway, Call, Done, LIMIT, Of};
use super::worker::Work;
use super::{Backend, Plan, lat_pipe};
use crate::child::{self, Failure};
use crate::program;
use crate::record::Better;
use crate::workload::pipeline::Texts;
use crate::workload::shell;
use std::path::PathBuf;
use work::Members;

pub const OVER: [&str; 1] = ["kernel"];
/// What is called `auto` elsewhere.
pub const AUTO: &str = "byway";
pub const BACKENDS: [Backend; 2] = [
    Backend::carried(AUTO, Kind::Pipe, &[]),
    Backend::plain(OVER[0], Kind::Pipe),
];

/// What a case is.
#[derive(Clone, Copy, PartialEq)]
enum What {
    /// A stream in messages of so many bytes.
    Stream(usize),
    RoundTrip,
    Asleep,
    Set(Members),
    Node,
    Python,
}

const fn set(members: usize, active: usize, plain: bool) -> What {
    What::Set(Members {
        members,
        active,
        plain,
    })
}

const CASES: [(&str, What); 11] = [
    ("poll-stream-64", What::Stream(64)),
    ("poll-stream-64k", What::Stream(64 << 10)),
    ("epoll-rtt", What::RoundTrip),
    ("epoll-asleep", What::Asleep),
    ("epoll-10", set(10, 10, false)),
    ("epoll-1000", set(1000, 10, false)),
    ("epoll-1-of-10", set(10, 1, false)),
    ("epoll-10000", set(10_000, 1, false)),
    ("epoll-plain", set(10, 10, true)),
    ("node-child", What::Node),
    ("asyncio-child", What::Python),
];

fn what(case: &str) -> Option<What> {
    Some(CASES.iter().find(|c| c.0 == case)?.1)
}

pub fn cases() -> Vec<String> {
    CASES.iter().map(|c| c.0.into()).collect()
}

/// Metric, unit, and which way it is good.
pub fn metric(case: &str) -> (&'static str, &'static str, Better) {
    match what(case) {
        Some(What::RoundTrip) => ("round_trip", "us", Better::Less),
        Some(What::Asleep) => ("one_way", "us", Better::Less),
        Some(What::Set(_)) => ("rate", "1/s", Better::More),
        _ => ("rate", "MB/s", Better::More),
    }
}

/// Messages of a stream and of a set. Of 64 KiB a twentieth as many go.
pub fn messages(plan: &Plan) -> u64 {
    if plan.quick { 20_000 } else { 100_000 }
}

/// What a worker does; `None`: nothing, for the case is a program's.
pub fn work(case: &str, plan: &Plan) -> Option<Work> {
    let messages = messages(plan);
    Some(match what(case)? {
        What::Stream(size @ ..=4096) => Work::Polled(size, messages),
        What::Stream(size) => Work::Polled(size, messages / 20),
        What::RoundTrip => Work::Spin(lat_pipe::trips(plan), true),
        What::Asleep => Work::Sleep(lat_pipe::wakes(plan), lat_pipe::PAUSE_US, false, true),
        What::Set(members) => Work::Set(members, messages),
        What::Node | What::Python => return None,
    })
}

/// Whether `case` is a program's, which needs a file.
pub fn is_program(case: &str) -> bool {
    matches!(what(case), Some(What::Node | What::Python))
}

/// Why `case` cannot run here, with the remedy.
pub fn missing(case: &str) -> Option<String> {
    let absent = |programs: &[&str]| {
        let gone = programs.iter().find(|p| program::find(p, &[]).is_none())?;
        Some(format!("{case}: {gone} is not on the PATH; install it"))
    };
    match what(case)? {
        What::Set(m) => {
            let needs = m.descriptors();
            let raised = child::isolated(LIMIT, || Ok(work::raise(needs).map(|()| vec![])?));
            raised.is_err().then(|| {
                format!("{case}: it needs {needs} descriptors, more than RLIMIT_NOFILE allows; raise the hard limit (`ulimit -Hn {needs}`)")
            })
        }
        What::Node => absent(&["node", "bash", "cat"]),
        What::Python => absent(&["python3", "cat"]),
        What::Stream(_) | What::RoundTrip | What::Asleep => None,
    }
}

/// `$1` is the script, `$2` the file, `$3` its size. The programs that node starts itself write into sockets.
const LINE: &str = "cat \"$2\" | node -e \"$1\" \"$3\"";

/// One run of a program: its figure.
///
/// # Errors
/// It could not be started, or said something else.
pub fn run(
    case: &str,
    backend: &Backend,
    plan: &Plan,
    byway: &Byway,
    texts: &Texts,
) -> Result<Done, Failure> {
    let path = texts.small();
    let bytes = path.metadata()?.len();
    let (program, words) = match what(case) {
        Some(What::Node) => {
            let script = include_str!("child.js").into();
            ("bash".into(), vec![LINE.into(), "bash".into(), script])
        }
        _ => (
            shell::python().unwrap_or_else(|| "python3".into()),
            vec![include_str!("child.py").into()],
        ),
    };
    let file = vec![path.to_string_lossy().into_owned(), bytes.to_string()];
    let words = [vec!["-c".to_string()], words, file].concat();
    let call = Call {
        program: Some(&PathBuf::from(program)),
        words,
        cpus: &plan.cpus,
        run: backend.run,
        namespace: None,
    };
    byway.call(&call, LIMIT, Of::Bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_case_is_a_workers_or_a_programs() {
        let plan = Plan::new(vec![0], true);
        for case in cases() {
            assert_eq!(work(&case, &plan).is_none(), is_program(&case), "{case}");
        }
        assert!(missing("poll-stream-64").is_none() && work("nosuchcase", &plan).is_none());
    }
}
