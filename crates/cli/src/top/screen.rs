//! The terminal of `byway top`: looks and keys in turn, until `q` or a signal.
//!
//! Invariant: however it ends, by a key, a signal, an error or a panic, the terminal is as it was before; a signal then ends
//! this process as it would have. Only SIGKILL leaves no time for that.
//! Not here: what keys do (state.rs), what is drawn (draw.rs).
use super::draw::draw;
use super::look::look;
use super::state::{State, Then};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use std::io;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A signal is seen after this at most.
const GLANCE: Duration = Duration::from_millis(100);
const SIGNALS: [i32; 5] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGTSTP,
];

/// The last signal that came, 0 for none.
static CAME: AtomicI32 = AtomicI32::new(0);

extern "C" fn note(signal: i32) {
    // One that nobody has looked at since it came: the second ends this process.
    if CAME.swap(signal, Relaxed) != 0 {
        take(signal);
    }
}

/// Notes signals from now on, but for those that this process was told to ignore.
fn note_signals() {
    for signal in SIGNALS {
        // SAFETY: the handler stores, and calls signal(2) and raise(3), which may be called there.
        unsafe {
            let handler = note as extern "C" fn(i32) as libc::sighandler_t;
            if libc::signal(signal, handler) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// Takes `signal` as a process without a handler does.
fn take(signal: i32) {
    // SAFETY: no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// How the screen was left.
enum Left {
    Quit,
    By(i32),
}

/// Shows the screen, with a new look each `every`; the status to end with.
pub fn show(every: Duration) -> i32 {
    let mut state = State::new();
    note_signals();
    loop {
        // It restores the terminal on a panic as well.
        let left = ratatui::try_init().and_then(|mut t| stay(&mut t, &mut state, every));
        ratatui::restore();
        match left {
            Ok(Left::Quit) => return 0,
            // Woken, it goes on.
            Ok(Left::By(libc::SIGTSTP)) => {
                take(libc::SIGTSTP);
                note_signals();
            }
            Ok(Left::By(signal)) => {
                take(signal);
                return 128 + signal;
            }
            Err(e) => {
                eprintln!("byway: top: the terminal: {e}; `byway top --once` needs none");
                return 1;
            }
        }
    }
}

/// Waits for a key, so long at most; whether the terminal is no more. crossterm would ask such a one for ever.
fn is_gone(wait: Duration) -> bool {
    let mut input = libc::pollfd {
        fd: libc::STDIN_FILENO,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one struct pollfd.
    unsafe { libc::poll(&mut input, 1, wait.as_millis() as i32) };
    input.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0
}

fn stay(terminal: &mut DefaultTerminal, state: &mut State, every: Duration) -> io::Result<Left> {
    let mut next = Instant::now();
    let (mut is_new, mut had_key) = (true, false);
    loop {
        let came = CAME.swap(0, Relaxed);
        if came != 0 {
            return Ok(Left::By(came));
        }
        let now = Instant::now();
        if now >= next && !state.is_paused {
            state.take(look(), now);
            next = now + every;
            is_new = true;
        }
        if std::mem::take(&mut is_new) {
            terminal.draw(|frame| draw(frame, state))?;
        }
        // Keys that came together are read together, and told one by one.
        if is_gone(if had_key { Duration::ZERO } else { GLANCE }) {
            return Ok(Left::By(libc::SIGHUP));
        }
        had_key = event::poll(Duration::ZERO)?;
        if !had_key {
            continue;
        }
        is_new = true;
        match event::read()? {
            Event::Key(k) if k.kind == KeyEventKind::Press => match state.press(k) {
                Then::Quit => return Ok(Left::Quit),
                Then::Suspend => return Ok(Left::By(libc::SIGTSTP)),
                Then::Draw => {}
            },
            _ => {}
        }
    }
}
