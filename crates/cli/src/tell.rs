//! A line of this program's own on standard error.
//!
//! Invariant: the command's status does not depend on it: a line that cannot be written is dropped.
//! Not here: what a program that only prints says (its commands use `eprintln!`).
use std::io::Write;

/// Writes `line` on standard error, if that takes one.
pub fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "byway: {line}");
}
