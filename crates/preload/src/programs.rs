//! The programs that a setting leaves alone, and those that are the only ones to take part.
//!
//! ```text
//! BYWAY_LEAVE=gcc:/usr/bin/ssh    an exec starts these without the library, and thereby what they start
//! BYWAY_ONLY=python3:node         all others load the library and take no part; what they start may
//! ```
//! Invariant: a process without a list in its environment asks the kernel nothing for it, at its start or at an exec.
//! unsafe: reads strings of the caller's, once the kernel says that they can be read.
//! Not here: the environment without the library (environment.rs), where a list comes from (crate cli).
use crate::attach::{self, text, variable};
use crate::{access, environment, objects};
use byway_pipe::reason::Reason;
use byway_sys::file;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

const LEAVE: &[u8] = b"BYWAY_LEAVE=";
const ONLY: &[u8] = b"BYWAY_ONLY=";
/// Longest path or list that is looked at: that of the kernel's paths.
const LONGEST: usize = 4096;

/// Whether an exec has to look for a list.
#[unsafe(link_section = ".data")]
static LISTED: AtomicBool = AtomicBool::new(false);

/// Whether this process, which has just started with `argv` and `envp`, is to take no part.
pub fn leaves_this(argv: *const *const u8, envp: *const *const u8) -> bool {
    let (leave, only) = (variable(envp, LEAVE), variable(envp, ONLY));
    LISTED.store(leave.is_some(), Relaxed);
    if leave.is_none() && only.is_none() {
        return false;
    }
    // LINUX execve(2): of a script the path is the script's, and the first argument its interpreter as the script has it.
    let called = objects::CALLED.load(Relaxed).cast_const();
    // SAFETY: argv ends with a null pointer.
    let first = unsafe { argv.as_ref() }.copied().unwrap_or_default();
    let mut own = [0; 256];
    let n = file::program(&mut own);
    let is_in = |list: &[u8]| {
        let strings = [called, first].into_iter().filter(|p| !p.is_null());
        strings.map(|p| ended(text(p))).any(|s| has(list, s)) || has(list, &own[..n])
    };
    leave.is_some_and(|list| is_in(ended(list))) || only.is_some_and(|list| !is_in(ended(list)))
}

/// Whether the program at `path` below `dir`, which is about to start with `envp`, is to start without the library.
pub fn leaves(dir: usize, path: usize, envp: usize) -> bool {
    if !LISTED.load(Relaxed) {
        return false;
    }
    let list = environment::entries(envp).find_map(|p| string(p)?.strip_prefix(LEAVE));
    let Some(list) = list else { return false };
    environment::each_of(dir, path, |fd, _, path| {
        let mut link = [0; 256];
        let n = file::link(fd, &mut link);
        let called = string(path).unwrap_or_default();
        let is_left = has(list, called) || has(list, &link[..n]);
        is_left.then(|| attach::starts_bare(called, Reason::LeftAlone))
    })
    .is_some()
}

/// Whether a list has the program at `path`: by its path where the item has a slash, else by its name.
fn has(list: &[u8], path: &[u8]) -> bool {
    let name = path.rsplit(|&c| c == b'/').next().unwrap_or(path);
    let is = |item: &[u8]| item == if item.contains(&b'/') { path } else { name };
    list.split(|&c| c == b':')
        .any(|item| !item.is_empty() && is(item))
}

/// Without the NUL at its end.
fn ended(s: &[u8]) -> &[u8] {
    &s[..s.len() - 1]
}

/// The C string at `p`, if it can be read.
pub fn string(p: usize) -> Option<&'static [u8]> {
    const PAGE: usize = 4096;
    for n in 0..LONGEST {
        let at = p.checked_add(n)?;
        if (n == 0 || at.is_multiple_of(PAGE)) && !access::allowed(at, 1, false) {
            return None;
        }
        // SAFETY: its page was asked for.
        if unsafe { *(at as *const u8) } == 0 {
            // SAFETY: as above, each page.
            return Some(unsafe { core::slice::from_raw_parts(p as *const u8, n) });
        }
    }
    None
}
