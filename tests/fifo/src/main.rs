//! FIFO regression tests in Rust: one file per fear, each case first on the kernel, then under Byway, with the same result.
//! `fifo_rust` runs all, `fifo_rust io` one fear, `fifo_rust io/vectored` a case, `fifo_rust io/vectored/thread` it in one mode.
//!
//! The C programs beside (tests/conformance/fifo_*.c) look at the calls. These look at what Rust's std makes of them: SIGPIPE
//! ignored, splice and sendfile in `io::copy`, O_CLOEXEC on everything, children by posix_spawn whose stdio are our ends,
//! a poll of the three standard descriptors at every start, unwinding and drop order.
//! Not here: figures of time.

mod check;
mod create;
mod events;
mod hangup;
mod io;
mod kernel;
mod misc;
mod open;
mod overcommit;
mod roles;
mod spawn;
mod stream;
mod threads;
mod transfer;
mod wrap;

use check::Case;
use std::process::ExitCode;

const FEARS: &[(&str, &[Case])] = &[
    ("create", create::CASES),
    ("open", open::CASES),
    ("io", io::CASES),
    ("transfer", transfer::CASES),
    ("misc", misc::CASES),
    ("events", events::CASES),
    ("wrap", wrap::CASES),
    ("hangup", hangup::CASES),
    ("threads", threads::CASES),
    ("spawn", spawn::CASES),
    ("overcommit", overcommit::CASES),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--case", name] => check::run_here(FEARS, name),
        ["--role", role, ref rest @ ..] => roles::play(role, rest),
        [] => return check::run_all(FEARS, ""),
        [only] => return check::run_all(FEARS, only),
        _ => {
            eprintln!("usage: fifo_rust [FEAR[/CASE[/MODE]]]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
