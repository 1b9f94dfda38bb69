//! The cases whose two processes are Python's: ours is the wheel of python/, beside it the pipes of multiprocessing.
//!
//! Invariant: the Python is the user's own `python3`; what it runs is records.py and nothing else.
//! Not here: what is done with a record (records.py).
use super::LIMIT;
use super::case::{Case, Kind};
use super::run::Done;
use crate::apart;
use crate::child::Failure;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("records.py");
const PYTHON: &str = "python3";
/// Before every program: no module from the folder that this was started in, where a clone named byway would stand for the
/// wheel. Python's own option for that, -P, is of 3.11.
const ELSEWHERE: &str = "import sys\nsys.path = [p for p in sys.path if p]\n";

/// The version of the user's Python, as it says it.
///
/// # Errors
/// There is none: a sentence with the remedy.
pub fn version() -> Result<String, Failure> {
    said("import platform; print(platform.python_version())").ok_or_else(|| {
        let why = format!("{PYTHON} is not on the PATH, or does not run; install it");
        Failure::Said(why)
    })
}

/// Whether that Python has the wheel.
///
/// # Errors
/// It has not: a sentence with the remedy.
pub fn wheel() -> Result<(), Failure> {
    said("import byway").map(drop).ok_or_else(|| {
        let why = format!(
            "{PYTHON} cannot import byway; install the wheel into an environment of your own and put that first on the \
             PATH: python3 -m venv ENV && ENV/bin/pip install ./python && PATH=ENV/bin:$PATH"
        );
        Failure::Said(why)
    })
}

/// What a program of one line prints; `None` if it fails.
fn said(text: &str) -> Option<String> {
    let out = Command::new(PYTHON)
        .args(["-c", &format!("{ELSEWHERE}{text}")])
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&out.stdout).trim().to_string();
    out.status.success().then_some(said)
}

/// One run.
///
/// # Errors
/// What went wrong in it.
pub fn run(case: Case, kind: Kind, cpus: &[usize], n: u64) -> Result<Done, Failure> {
    let numbers = [
        case.bytes() as u64,
        n,
        cpus[0] as u64,
        cpus[1 % cpus.len()] as u64,
    ];
    let mut c = Command::new(PYTHON);
    c.args(["-c", &format!("{ELSEWHERE}{SCRIPT}"), kind.name()]);
    c.args(numbers.map(|n| n.to_string()));
    Done::parse(&apart::figures(&mut c, LIMIT)?)
}
