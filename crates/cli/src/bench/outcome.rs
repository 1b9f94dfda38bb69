//! How a benchmark went, and the exit status that says so.
//!
//! Invariant: a status other than 0 has a sentence, or a table that shows why.
//! Not here: what makes a record wrong (crate lab), when a row is worse than it may be (against.rs).

/// How it went.
pub enum Done {
    Well,
    /// Outputs that should be the same differ, or a row is worse than it may be.
    Wrong,
    /// Ctrl-C: what was complete is shown and written.
    Interrupted,
}

/// The exit status, with the sentence that belongs to it.
pub fn status(done: Result<Done, String>) -> i32 {
    match done {
        Ok(Done::Well) => 0,
        Ok(Done::Wrong) => 1,
        // As a shell has it of who ends by SIGINT.
        Ok(Done::Interrupted) => 130,
        Err(e) => {
            eprintln!("byway: bench: {e}");
            2
        }
    }
}
