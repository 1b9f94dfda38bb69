//! `byway top`: the runs that live, their pipes, and what becomes of the bytes of each.
//!
//! Invariant: a run is looked at, never changed.
//! Not here: what the runs' pipes carried in all (explain.rs), the memory (stat.rs).

// The rooms, the lowest first:
//
//   look    a look at the live runs
//   plain   a look as text
//   state   what a screen shows, and what keys do
//   draw    the screen
//   screen  the terminal: its keys, its signals, its restoration
mod draw;
mod look;
mod plain;
mod screen;
mod state;

use crate::stat;
use look::{Shared, look};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Between two looks, if nothing else is said.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Serialize)]
struct Seen {
    schema: u32,
    domains: Vec<Shared>,
}

/// How the looks are to be shown.
pub struct Wanted {
    pub once: bool,
    pub json: bool,
    /// Between two looks.
    pub every: Option<Duration>,
}

/// Shows a screen on a terminal, else one look, or one each `every`; 1 if there is no run to print.
pub fn top(wanted: &Wanted) -> i32 {
    if wanted.json {
        return json();
    }
    // A terminal that cannot move its cursor gets text.
    let is_dumb = std::env::var_os("TERM").is_none_or(|t| t == "dumb" || t.is_empty());
    let is_terminal = !wanted.once && std::io::stdout().is_terminal();
    let every = wanted.every.unwrap_or(PAUSE);
    if is_terminal && !is_dumb {
        return screen::show(every);
    }
    let goes_on = is_terminal || wanted.every.is_some() && !wanted.once;
    loop {
        let domains = look();
        if domains.is_empty() {
            return stat::no_run(None);
        }
        let text: String = domains.iter().flat_map(plain::lines).collect();
        let mut out = std::io::stdout().lock();
        let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        if let Err(e) = printed {
            eprintln!("byway: top: standard output: {e}");
            return 1;
        }
        if !goes_on {
            return 0;
        }
        std::thread::sleep(every);
    }
}

fn json() -> i32 {
    let seen = Seen {
        schema: 1,
        domains: look(),
    };
    match serde_json::to_string_pretty(&seen) {
        Ok(text) => {
            println!("{text}");
            0
        }
        Err(e) => {
            eprintln!("byway: top: {e}");
            1
        }
    }
}
